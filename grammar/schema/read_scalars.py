"""Readers of the keywords about a value as such: type, enumerations, numbers, strings. Each function bears its
keyword's name.
"""

from __future__ import annotations

from difflib import get_close_matches
from fractions import Fraction
from typing import Any, cast, get_args

from ..errors import SchemaError
from ..regular import FORMATS
from .checks import a_count, a_flag, a_list, a_pattern, a_string, an_amount, wrong
from .expr import AllOf as _AllOf
from .expr import AnyOf, Const, Expr, Format, JsonType, MultipleOf, Never, NumberRange, Pattern, StringLength, Types
from .site import Site
from .values import canonical, shown

JSON_TYPES: frozenset[str] = frozenset(get_args(JsonType))
TYPE_NAMES: frozenset[str] = JSON_TYPES | {"integer"}

ONE = Fraction(1)


# `type` reads one string in nearly every schema object: those answers are made once.
_SINGLE = {name: frozenset((cast(JsonType, name),)) for name in JSON_TYPES}


def type(site: Site, value: Any, at: str) -> Expr:
    if isinstance(value, str):
        single = _SINGLE.get(value)
        if single is not None:
            return Types(single, at)
        listed: list[Any] | tuple[Any, ...] = (value,)
    else:
        listed = a_list(value, at, "a type name or a non-empty array of type names", filled=True)
    for name in listed:
        if not isinstance(name, str) or name not in TYPE_NAMES:
            raise _unknown_type(name, at)
    if "integer" not in listed or "number" in listed:
        return Types(frozenset(cast("list[JsonType]", [name for name in listed if name != "integer"])), at)
    kinds = frozenset(cast("list[JsonType]", ["number" if name == "integer" else name for name in listed]))
    return _AllOf((Types(kinds, at), MultipleOf(ONE, at)), at)


def _unknown_type(name: Any, at: str) -> SchemaError:
    close = get_close_matches(name, TYPE_NAMES, 1) if isinstance(name, str) else []
    remedy = f"did you mean '{close[0]}'?" if close else f"the types are {', '.join(sorted(TYPE_NAMES))}"
    return SchemaError(f"type must be a type name, not {shown(name)}", pointer=at, keyword="type", remedy=remedy)


def enum(site: Site, value: Any, at: str) -> Expr:
    values = a_list(value, at)
    consts = [Const(each, at) for each in dict.fromkeys([canonical(each, at) for each in values])]
    if len(consts) == 1:
        return consts[0]
    return AnyOf(tuple(consts), at) if consts else Never(at)


def const(site: Site, value: Any, at: str) -> Expr:
    return Const(canonical(value, at), at)


def multipleOf(site: Site, value: Any, at: str) -> Expr:
    step = an_amount(value, at)
    if step <= 0:
        raise wrong(at, "greater than zero", value)
    return MultipleOf(step, at)


_DRAFT_4 = "only draft 4 has the boolean form: give the bound itself, or say dialect='4'"
_NOT_DRAFT_4 = "in draft 4 it is a boolean beside the bound"


def minimum(site: Site, value: Any, at: str) -> Expr:
    return NumberRange(an_amount(value, at), False, None, False, at)


def maximum(site: Site, value: Any, at: str) -> Expr:
    return NumberRange(None, False, an_amount(value, at), False, at)


def exclusiveMinimum(site: Site, value: Any, at: str) -> Expr:
    return NumberRange(an_amount(value, at, _DRAFT_4), True, None, False, at)


def exclusiveMaximum(site: Site, value: Any, at: str) -> Expr:
    return NumberRange(None, False, an_amount(value, at, _DRAFT_4), True, at)


def minimum_4(site: Site, value: Any, at: str) -> Expr:
    return NumberRange(an_amount(value, at), site.schema.get("exclusiveMinimum") is True, None, False, at)


def maximum_4(site: Site, value: Any, at: str) -> Expr:
    return NumberRange(None, False, an_amount(value, at), site.schema.get("exclusiveMaximum") is True, at)


def exclusiveMinimum_4(site: Site, value: Any, at: str) -> None:
    if a_flag(value, at, _NOT_DRAFT_4) and "minimum" not in site.schema:
        site.idle(at, "exclusiveMinimum", "there is no minimum beside it")


def exclusiveMaximum_4(site: Site, value: Any, at: str) -> None:
    if a_flag(value, at, _NOT_DRAFT_4) and "maximum" not in site.schema:
        site.idle(at, "exclusiveMaximum", "there is no maximum beside it")


def minLength(site: Site, value: Any, at: str) -> Expr:
    return StringLength(a_count(value, at), None, at)


def maxLength(site: Site, value: Any, at: str) -> Expr:
    return StringLength(0, a_count(value, at), at)


def pattern(site: Site, value: Any, at: str) -> Expr:
    source = a_pattern(value, at, "pattern")
    if not source.endswith("$") and "maxLength" not in site.schema:
        site.services.advise(
            at, "pattern", "is searched anywhere in the string: without $ at the end any text may follow the match"
        )
    return Pattern(source, at)


def format(site: Site, value: Any, at: str) -> Expr | None:
    name = a_string(value, at)
    if name not in FORMATS:
        site.idle(at, "format", f"the format {name!r} is unknown")
    elif not site.services.formats and not site.scope.dialect.asserts_format:
        site.idle(at, "format", "formats are not asserted (formats=False)")
    else:
        return Format(name, at)
    return None
