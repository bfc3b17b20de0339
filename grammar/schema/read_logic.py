"""Readers of the keywords that combine schemas or refer to them. Each function bears its keyword's name (`_` after a
Python word).
"""

from __future__ import annotations

from typing import Any

from .checks import a_list, a_string, an_object, wrong
from .expr import ALWAYS, AllOf, AnyOf, Expr, IfThenElse, Not, OneOf
from .site import Site


def allOf(site: Site, value: Any, at: str) -> Expr:
    return AllOf(_branches(site, value, at), at)


def anyOf(site: Site, value: Any, at: str) -> Expr:
    return AnyOf(_branches(site, value, at), at)


def oneOf(site: Site, value: Any, at: str) -> Expr:
    return OneOf(_branches(site, value, at), at)


def _branches(site: Site, value: Any, at: str) -> tuple[Expr, ...]:
    schemas = a_list(value, at, "a non-empty array of schemas", filled=True)
    return tuple([site.read(schema, f"{at}/{index}") for index, schema in enumerate(schemas)])


def not_(site: Site, value: Any, at: str) -> Expr:
    return Not(site.read(value, at), at)


def if_(site: Site, value: Any, at: str) -> Expr:
    schema = site.schema
    test = site.read(value, at)
    then = site.read(schema["then"], f"{site.at}/then") if "then" in schema else ALWAYS
    otherwise = site.read(schema["else"], f"{site.at}/else") if "else" in schema else ALWAYS
    return IfThenElse(test, then, otherwise, at)  # a lone `if` still evaluates properties and items


def then(site: Site, value: Any, at: str) -> None:
    if "if" not in site.schema:
        site.idle(at, "then", "there is no if beside it")


def else_(site: Site, value: Any, at: str) -> None:
    if "if" not in site.schema:
        site.idle(at, "else", "there is no if beside it")


def ref(site: Site, value: Any, at: str) -> Expr:
    return site.services.refer(site, "$ref", a_string(value, at, "a URI reference"), at)


def dynamicRef(site: Site, value: Any, at: str) -> Expr:
    return site.services.refer(site, "$dynamicRef", a_string(value, at, "a URI reference"), at)


def recursiveRef(site: Site, value: Any, at: str) -> Expr:
    if value != "#":
        raise wrong(at, "'#'", value)
    return site.services.refer(site, "$recursiveRef", "#", at)


def definitions(site: Site, value: Any, at: str) -> None:
    an_object(value, at, "an object of schemas")
    site.idle(at, at.rpartition("/")[2], "read where it is referred to")


def identifier(site: Site, value: Any, at: str) -> None:
    a_string(value, at, "a URI reference")
    site.idle(at, at.rpartition("/")[2], "names this schema for references")


def anchor(site: Site, value: Any, at: str) -> None:
    name = a_string(value, at, "a name")
    if not name or "/" in name or "#" in name:
        raise wrong(at, "a plain name", value)
    site.idle(at, at.rpartition("/")[2], "names this schema for references")
