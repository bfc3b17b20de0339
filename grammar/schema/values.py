"""JSON values with JSON's own equality: canonical forms, exact numbers, and a strict reader of JSON text.

A canonical value is a tagged tuple, so that Python's `True == 1` cannot blur two JSON values:

    ("null",)  ("boolean", True)  ("number", Fraction(3, 2))  ("string", "a")
    ("array", (item, ...))  ("object", ((key, value), ...))    keys sorted

Two canonical values are equal if and only if JSON Schema calls the values equal (`1` and `1.0`, members in any order).
The tag is the value's `JsonType`.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable
from decimal import Decimal
from fractions import Fraction
from typing import Any, Final, TypeAlias

from ..errors import BudgetError, SchemaError

Canonical: TypeAlias = tuple[Any, ...]

NULL: Canonical = ("null",)
TRUE: Canonical = ("boolean", True)
FALSE: Canonical = ("boolean", False)

# Hashing and comparing nested tuples recurses in C without a check: deeper values would end the process, not the call.
MAX_VALUE_DEPTH = 256
# 1e1000000 is eleven bytes of schema and a million digits of Fraction.
# Python refuses to write integers of more than 4300 digits, by default.
MAX_EXPONENT = 4_000
MAX_DIGITS = 4_000


def canonical(value: Any, at: str = "", depth: int = 0) -> Canonical:
    """The canonical form of a JSON value given as Python objects (`None bool int float Decimal Fraction str list tuple
    dict`).

    A float stands for the decimal that its `repr` shows, so `0.1` is one tenth. `at` is the pointer for errors.
    Raises SchemaError for anything that is no JSON value (NaN, a set, a key that is no string, a lone surrogate),
    BudgetError for values nested deeper than 256 levels or numbers of thousands of digits.
    """
    if isinstance(value, str):
        return ("string", text(value, at))
    if value is None:
        return NULL
    if value is True:
        return TRUE
    if value is False:
        return FALSE
    if depth > MAX_VALUE_DEPTH:
        raise BudgetError(f"a value is nested deeper than {MAX_VALUE_DEPTH} levels", pointer=at)
    if isinstance(value, (list, tuple)):
        return ("array", tuple([canonical(item, at, depth + 1) for item in value]))
    if isinstance(value, dict):
        members = [(text(key, at), canonical(member, at, depth + 1)) for key, member in value.items()]
        members.sort(key=_first)
        return ("object", tuple(members))
    return ("number", number(value, at))


def to_python(value: Canonical) -> Any:
    """A canonical value as plain Python objects; numbers become `int`, else `float` where exact by `repr`, else
    `Decimal`.
    """
    match value:
        case ("array", items):
            return [to_python(item) for item in items]
        case ("object", members):
            return {key: to_python(member) for key, member in members}
        case ("number", amount):
            return _plain_number(amount)
        case ("null",):
            return None
        case _:
            return value[1]


def to_json(value: Canonical) -> str:
    """A canonical value as compact JSON text, numbers exact and without exponent, non-ASCII characters as they are."""
    match value:
        case ("array", items):
            return f"[{','.join(map(to_json, items))}]"
        case ("object", members):
            return (
                "{"
                + ",".join(f"{json.dumps(key, ensure_ascii=False)}:{to_json(member)}" for key, member in members)
                + "}"
            )
        case ("number", amount):
            return number_text(amount)
        case ("null",):
            return "null"
        case _:
            return json.dumps(value[1], ensure_ascii=False)


def number_text(amount: Fraction) -> str:
    """The shortest decimal without exponent that is exactly `amount` (every JSON number has one).

    Raises ValueError where the decimal would not end, as for 1/3.
    """
    rest, twos, fives = amount.denominator, 0, 0
    while rest % 2 == 0:
        rest, twos = rest // 2, twos + 1
    while rest % 5 == 0:
        rest, fives = rest // 5, fives + 1
    if rest != 1:
        raise ValueError(f"{amount} is no finite decimal")
    places = max(twos, fives)
    digits = str(abs(amount.numerator) * 10**places // amount.denominator).rjust(places + 1, "0")
    sign = "-" if amount < 0 else ""
    return f"{sign}{digits[:-places]}.{digits[-places:]}" if places else sign + digits


def text(value: Any, at: str = "") -> str:
    """`value` if it is a string that UTF-8 can spell, else SchemaError at the pointer `at`."""
    if not isinstance(value, str):
        raise SchemaError(f"object keys are strings, not {shown(value)}", pointer=at)
    try:
        value.isascii() or value.encode()
    except UnicodeEncodeError:
        raise SchemaError(
            f"the string {ascii(value)[:40]} holds a lone surrogate",
            pointer=at,
            remedy="no UTF-8 text can spell it: use the whole pair",
        ) from None
    return value


def is_number(value: Any) -> bool:
    """True for Python's numbers except booleans."""
    return isinstance(value, (int, float, Decimal, Fraction)) and not isinstance(value, bool)


def number(value: Any, at: str = "") -> Fraction:
    """The exact value of a JSON number; SchemaError if it is none or not finite, BudgetError if absurdly long."""
    if isinstance(value, int) and not isinstance(value, bool):
        if value.bit_length() > MAX_EXPONENT * 4:
            raise BudgetError("a number has more than four thousand digits", pointer=at)
        return Fraction(value)
    if isinstance(value, Fraction):
        return value
    if isinstance(value, float):
        if not math.isfinite(value):
            raise SchemaError(f"{value!r} is no JSON number", pointer=at, remedy="JSON has neither NaN nor Infinity")
        return Fraction(int(value)) if abs(value) < 2.0**53 and value == int(value) else Fraction(repr(value))
    if isinstance(value, Decimal):
        if not value.is_finite():
            raise SchemaError(f"{value} is no JSON number", pointer=at, remedy="JSON has neither NaN nor Infinity")
        if abs(value.adjusted()) > MAX_EXPONENT or len(value.as_tuple().digits) > MAX_DIGITS:
            raise BudgetError(f"the number {str(value)[:24]} has more than four thousand digits", pointer=at)
        return Fraction(value)
    raise SchemaError(f"{shown(value)} is no JSON value", pointer=at)


def shown(value: Any) -> str:
    """A short description of a Python value for an error message; never long, whatever the value."""
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case str():
            return f"the string {value!r}" if len(value) <= 40 else f"the string {value[:37]!r}..."
        case int() | float() | Decimal() | Fraction():
            return (
                f"the number {str(value)[:24]}"
                if not isinstance(value, int) or abs(value) < 10**24
                else "a huge number"
            )
        case list() | tuple():
            return "an array" if value else "an empty array"
        case dict():
            return "an object"
        case _:
            return f"a Python {type(value).__name__}"


def parse_json(source: str) -> Any:
    """JSON text as Python objects, exactly: integers are `int`, other numbers `Decimal`, nested as deep as memory
    allows.

    Raises SchemaError naming line and column for text that is not JSON (RFC 8259), for NaN and for a key given twice
    in one object; BudgetError for numbers of thousands of digits.
    """
    try:
        return _DECODE(source)
    except json.JSONDecodeError as error:
        raise _not_json(error.msg, source, error.pos) from None
    except RecursionError:
        return _parse_deep(source)


def parse_first(source: str, at: int) -> tuple[Any, int]:
    """The JSON value that stands at an offset of a text, as `parse_json` gives it, and where it ends.

    Raises SchemaError or ValueError where there is none, BudgetError where it nests too deep to be looked at quickly.
    """
    try:
        return _DECODER.raw_decode(source, at)
    except RecursionError:
        raise BudgetError("the value nests too deep") from None


def _first(pair: tuple[str, Any]) -> str:
    return pair[0]


def _plain_number(amount: Fraction) -> int | float | Decimal:
    if amount.denominator == 1:
        return amount.numerator
    try:
        nearest = float(amount)
    except OverflowError:
        nearest = math.inf
    if math.isfinite(nearest) and Fraction(repr(nearest)) == amount:
        return nearest
    return Decimal(number_text(amount))


def _members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        seen: set[str] = set()
        twice = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        raise SchemaError(
            f"the JSON text has the key {twice!r} twice in one object",
            remedy="JSON leaves its meaning open: remove one",
        )
    return members


def _integer(digits: str) -> int:
    if len(digits) > MAX_DIGITS:
        raise BudgetError(f"the number {digits[:24]}... has more than {MAX_DIGITS} digits")
    return int(digits)


def _constant(name: str) -> Any:
    raise SchemaError(f"{name} is no JSON number", remedy="JSON has neither NaN nor Infinity")


_DECODER: Final = json.JSONDecoder(
    parse_float=Decimal, parse_int=_integer, parse_constant=_constant, object_pairs_hook=_members
)
_DECODE: Callable[[str], Any] = _DECODER.decode


def _not_json(problem: str, source: str, position: int) -> SchemaError:
    line = source.count("\n", 0, position) + 1
    column = position - source.rfind("\n", 0, position)
    problem = problem[:1].lower() + problem[1:].removesuffix(" at")
    return SchemaError(f"the schema is not JSON: {problem} at line {line} column {column}")


_SPACE = re.compile(r"[ \t\n\r]*")
_SCALAR = re.compile(r"(-?(?:0|[1-9][0-9]*))((?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?)|true|false|null")
_WORDS: dict[str, Any] = {"true": True, "false": False, "null": None}


def _parse_deep(source: str) -> Any:
    """`parse_json` for nesting beyond the recursion limit of Python's own decoder: one loop and a list of open
    containers.
    """
    open_: list[tuple[list[Any], str | None]] = []  # (items or pairs so far, None or the closing bracket)
    position = 0

    def skip(at: int) -> int:
        found = _SPACE.match(source, at)
        return at if found is None else found.end()

    def key(at: int) -> tuple[str, int]:
        if source[at : at + 1] != '"':
            raise _not_json("expecting a property name in double quotes", source, at)
        name, at = _string(source, at)
        at = skip(at)
        if source[at : at + 1] != ":":
            raise _not_json("expecting ':'", source, at)
        return name, at + 1

    names: list[str] = []  # the pending key of each open object
    while True:
        position = skip(position)
        opened = source[position : position + 1]
        if opened in ("{", "["):
            inside = skip(position + 1)
            closing = "}" if opened == "{" else "]"
            if source[inside : inside + 1] != closing:
                open_.append(([], closing))
                position = inside
                if opened == "{":
                    name, position = key(inside)
                    names.append(name)
                continue
            value: Any = {} if opened == "{" else []
            position = inside + 1
        elif opened == '"':
            value, position = _string(source, position)
        else:
            scalar = _SCALAR.match(source, position)
            if scalar is None:
                raise _not_json("expecting value", source, position)
            value, position = _scalar(scalar), scalar.end()
        while True:  # the value is complete: add it to its container, and close every container that ends here
            position = skip(position)
            if not open_:
                if position != len(source):
                    raise _not_json("extra data", source, position)
                return value
            parts, closing_ = open_[-1]
            parts.append((names.pop(), value) if closing_ == "}" else value)
            mark = source[position : position + 1]
            if mark == ",":
                position = skip(position + 1)
                if closing_ == "}":
                    name, position = key(position)
                    names.append(name)
                break
            if mark != closing_:
                raise _not_json(f"expecting ',' or '{closing_}'", source, position)
            position += 1
            open_.pop()
            value = _members(parts) if closing_ == "}" else parts


def _string(source: str, position: int) -> tuple[str, int]:
    try:
        text_, end = json.decoder.scanstring(source, position + 1, True)  # type: ignore[attr-defined]
    except json.JSONDecodeError as error:
        raise _not_json(error.msg, source, error.pos) from None
    return text_, end


def _scalar(found: re.Match[str]) -> Any:
    integer, rest = found.group(1), found.group(2)
    if integer is None:
        return _WORDS[found.group()]
    return Decimal(integer + rest) if rest else _integer(integer)


def pointer_token(key: str) -> str:
    """A key as one reference token of a JSON pointer (RFC 6901 section 3)."""
    return key.replace("~", "~0").replace("/", "~1") if "~" in key or "/" in key else key


def pointer(parts: Iterable[str | int]) -> str:
    """The JSON pointer of a path."""
    return "".join(f"/{pointer_token(str(part))}" for part in parts)
