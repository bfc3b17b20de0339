"""What is too long to be written: values that no text of a reasonable length spells are not offered to anybody.

A text is ended within `MAX_TEXT` bytes or not at all (`automaton.completion`), so an optional property whose value
needs more would be a dead end. Only bounds that say so plainly are looked at.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from ..regular import Language
from .clauses import ArrayClause, ObjectClause

MAX_TEXT: Final = 32_768
MAX_ITEMS: Final = MAX_TEXT // 2
"""An item is at least a digit and a comma."""
MAX_MEMBERS: Final = MAX_TEXT // 5
"""A member is at least two quotes, a colon, a digit and a comma."""


def strings(languages: Iterable[Language]) -> tuple[Language, ...]:
    """Those of the languages with words short enough."""
    return tuple([language for language in languages if language.low <= MAX_TEXT])


def arrays(clauses: Iterable[ArrayClause]) -> tuple[ArrayClause, ...]:
    """Those of the clauses that ask for few enough items."""
    return tuple([clause for clause in clauses if clause.low <= MAX_ITEMS])


def objects(clauses: Iterable[ObjectClause]) -> tuple[ObjectClause, ...]:
    """Those of the clauses that ask for few enough properties."""
    return tuple([clause for clause in clauses if clause.low <= MAX_MEMBERS])
