"""A judge of JSON texts that is not ours: `jsonschema`, made exact where Python is not what JSON Schema says.

`jsonschema` searches patterns with Python's `re`, whose `$` matches before a final newline and whose `\\d` takes every
script's digits: here `regress`, an ECMA-262 engine, searches in its place. Numbers are read as exact decimals, so that
`multipleOf: 0.1` holds for 0.3.
"""

from __future__ import annotations

import decimal
import json
from collections.abc import Callable
from decimal import Decimal
from functools import lru_cache
from types import SimpleNamespace
from typing import Any

import jsonschema
import regress
from jsonschema import _keywords, _legacy_keywords, _utils
from jsonschema.validators import validator_for

_SEARCH_MODULES: tuple[Any, ...] = (_keywords, _legacy_keywords, _utils)  # all the modules that search patterns
_EXACT = decimal.Context(prec=2000, Emax=decimal.MAX_EMAX, Emin=decimal.MIN_EMIN)
_LONGEST_INTEGER = 4000


@lru_cache(4096)
def _pattern(pattern: str) -> regress.Regex:
    """ECMA-262 as JSON Schema asks for it, with the `u` flag; without it where the pattern is none of those."""
    try:
        return regress.Regex(pattern, "u")
    except regress.RegressError:
        return regress.Regex(pattern)


def _search(pattern: str, text: str) -> object:
    return _pattern(pattern).find(text)


def _number(text: str) -> int | Decimal:
    """A number with a fraction or an exponent; an integer where its value is one, as `type` sees it."""
    value = Decimal(text)
    if value.adjusted() < _LONGEST_INTEGER and value == value.to_integral_value(context=_EXACT):
        return int(value)
    return value


def exact(text: str | bytes) -> Any:
    """The value of a JSON text, numbers exactly."""
    return json.loads(text, parse_float=_number)


def judge(schema: Any) -> Callable[[str | bytes], bool | None]:
    """Whether texts are valid. None: `jsonschema` cannot tell, for a reference or a pattern that is not read.

    A text that is no JSON raises ValueError.
    """
    for module in _SEARCH_MODULES:
        if not hasattr(module, "re"):
            raise RuntimeError(f"{module.__name__} searches patterns in another way than this judge expects")
        module.re = SimpleNamespace(search=_search)
    schema = exact(json.dumps(schema))

    def is_valid(text: str | bytes) -> bool | None:
        value = exact(text)
        try:
            with decimal.localcontext(_EXACT):
                kind = validator_for(schema, default=jsonschema.Draft202012Validator)
                return bool(kind(schema).is_valid(value))
        except Exception:  # a reference that it does not resolve, a pattern that regress does not read
            return None

    return is_valid
