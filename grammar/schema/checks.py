"""Checks of keyword values. They stand in for the metaschema, which is slow to run and says neither what nor how to
mend.

Every check returns the value it was given, typed, or raises SchemaError with pointer, keyword and remedy.
"""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from typing import Any

from ..errors import GrammarError, SchemaError
from ..regular import pattern
from .values import is_number, number, shown, text


def wrong(at: str, expected: str, value: Any, remedy: str | None = None, keyword: str | None = None) -> SchemaError:
    """The error for a value at the pointer `at` that is not what its keyword allows; the keyword is what `at` ends with
    unless said otherwise.
    """
    keyword = keyword or at.rpartition("/")[2]
    return SchemaError(f"{keyword} must be {expected}, not {shown(value)}", pointer=at, keyword=keyword, remedy=remedy)


def a_count(value: Any, at: str) -> int:
    """A non-negative integer; `2.0` is one."""
    if type(value) is int and value >= 0:
        return value
    if is_number(value):
        amount = number(value, at)
        if amount.denominator == 1 and amount >= 0:
            return amount.numerator
    raise wrong(at, "a non-negative integer", value)


def an_amount(value: Any, at: str, remedy: str | None = None) -> Fraction:
    """A number."""
    if not isinstance(value, (int, float, Decimal, Fraction)) or isinstance(value, bool):
        raise wrong(at, "a number", value, remedy)
    return number(value, at)


def a_string(value: Any, at: str, expected: str = "a string") -> str:
    """A string that UTF-8 can spell."""
    if not isinstance(value, str):
        raise wrong(at, expected, value)
    return text(value, at)


def a_flag(value: Any, at: str, remedy: str | None = None) -> bool:
    """A boolean."""
    if not isinstance(value, bool):
        raise wrong(at, "a boolean", value, remedy)
    return value


def a_list(value: Any, at: str, expected: str = "an array", *, filled: bool = False) -> list[Any] | tuple[Any, ...]:
    """An array, if `filled` with at least one element."""
    if not isinstance(value, (list, tuple)) or (filled and not value):
        raise wrong(at, expected, value)
    return value


def an_object(value: Any, at: str, expected: str = "an object") -> dict[str, Any]:
    """An object with string keys."""
    if not isinstance(value, dict):
        raise wrong(at, expected, value)
    for key in value:
        if not (isinstance(key, str) and key.isascii()):
            text(key, at)
    return value


def names(value: Any, at: str, keyword: str) -> list[str]:
    """An array of strings, repeated ones dropped."""
    if not isinstance(value, (list, tuple)) or not all(isinstance(name, str) for name in value):
        remedy = (
            "put the names that are required into an array in the schema of the object"
            if isinstance(value, bool)
            else None
        )
        raise wrong(at, "an array of strings", value, remedy, keyword)
    return [text(name, at) for name in dict.fromkeys(value)]


def a_pattern(value: Any, at: str, keyword: str) -> str:
    """A regular expression that the toolbox can turn into a language. Raises its error with pointer and keyword
    attached.
    """
    source = a_string(value, at, "a regular expression in a string")
    try:
        pattern(source)
    except GrammarError as error:
        error.pointer, error.keyword = at, keyword
        raise
    return source
