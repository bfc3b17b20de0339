"""How many values a schema enumerates, and whether its numbers can be told apart quickly.

Values are keys of dictionaries in all later stages. Python's hash of a number is its remainder by 2**61 - 1 (Python's
documentation, "Hashing of numeric types"), so that whoever wants can write thousands of numbers of one hash, each of
which is then compared with all others.
"""

from __future__ import annotations

import sys
from decimal import Decimal
from fractions import Fraction
from typing import Any, Final

from ..errors import BudgetError

MAX_VALUES: Final = 100_000
MAX_ALIKE: Final = 64
_PRIME: Final = sys.hash_info.modulus
KEYWORDS: Final = frozenset(
    {
        "const", "enum", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "divisibleBy",
    }
)  # fmt: skip
"""Those whose value is a JSON value, or a number, and makes a difference."""


class Census:
    """Counts the values of one schema."""

    def __init__(self) -> None:
        self._left = MAX_VALUES
        self._alike: dict[int, set[Any]] = {}

    def count(self, value: Any, at: str) -> None:
        """Counts a keyword's value, at the pointer `at`, and all values in it. Raises BudgetError."""
        waiting = [value]
        while waiting:
            item = waiting.pop()
            if isinstance(item, (list, tuple, dict)):
                self._left -= len(item)
                if self._left < 0:
                    raise BudgetError(
                        f"the constants of the schema hold more than {MAX_VALUES} values",
                        pointer=at,
                        remedy="enumerate fewer, or say what they have in common",
                    )
                waiting += item.values() if isinstance(item, dict) else item
            elif isinstance(item, int):
                if not -_PRIME < item < _PRIME:
                    self._note(item, at)
            elif isinstance(item, (float, Fraction)) or (isinstance(item, Decimal) and item.is_finite()):
                self._note(item, at)

    def _note(self, number: Any, at: str) -> None:
        alike = self._alike.setdefault(hash(number), set())
        alike.add(number)
        if len(alike) > MAX_ALIKE:
            raise BudgetError(f"more than {MAX_ALIKE} numbers of the schema are alike modulo {_PRIME}", pointer=at)
