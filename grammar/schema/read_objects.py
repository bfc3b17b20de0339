"""Readers of the keywords about objects. Each function bears its keyword's name."""

from __future__ import annotations

from typing import Any

from .checks import a_count, a_pattern, an_object, names, wrong
from .expr import (
    ALWAYS,
    AllOf,
    AnyOf,
    EachName,
    EachProperty,
    Expr,
    IfThenElse,
    Keys,
    Not,
    PropertyCount,
    Types,
    Unevaluated,
)
from .expr import Required as _Required
from .site import Site
from .values import pointer_token

_OBJECT = Types(frozenset(("object",)))


def properties(site: Site, value: Any, at: str) -> Expr:
    parts: list[Expr] = []
    read, scope, depth = site.services.schema, site.scope, site.depth + 1
    for name, schema in an_object(value, at, "an object of schemas").items():
        place = f"{at}/{pointer_token(name)}"
        # As `site.read`, of which there are more here than anywhere else.
        then = read(schema, scope, place, depth) if isinstance(schema, dict) else site.read(schema, place)
        parts.append(EachProperty(Keys((name,)), then, True, place))
    return AllOf(tuple(parts), at)


def patternProperties(site: Site, value: Any, at: str) -> Expr:
    parts: list[Expr] = []
    for source, schema in an_object(value, at, "an object of schemas").items():
        place = f"{at}/{pointer_token(source)}"
        keys = Keys((), (a_pattern(source, place, "patternProperties"),))
        parts.append(EachProperty(keys, site.read(schema, place), True, place))
    return AllOf(tuple(parts), at)


def additionalProperties(site: Site, value: Any, at: str) -> Expr:
    # Names that are covered come from the same schema object only; its readers complain of a wrong `properties`.
    named, patterned = site.schema.get("properties"), site.schema.get("patternProperties")
    covered = Keys(
        tuple(named) if isinstance(named, dict) else (),
        tuple(patterned) if isinstance(patterned, dict) else (),
        negated=True,
    )
    return EachProperty(covered, site.read(value, at), True, at)


def propertyNames(site: Site, value: Any, at: str) -> Expr:
    return EachName(site.read(value, at), at)


def required(site: Site, value: Any, at: str) -> Expr:
    return AllOf(tuple([_Required(name, at) for name in names(value, at, "required")]), at)


def minProperties(site: Site, value: Any, at: str) -> Expr:
    return PropertyCount(a_count(value, at), None, at)


def maxProperties(site: Site, value: Any, at: str) -> Expr:
    return PropertyCount(0, a_count(value, at), at)


def dependentRequired(site: Site, value: Any, at: str) -> Expr:
    entries = an_object(value, at, "an object of arrays of names").items()
    return AllOf(
        tuple([_needs("dependentRequired", name, others, f"{at}/{pointer_token(name)}") for name, others in entries]),
        at,
    )


def dependentSchemas(site: Site, value: Any, at: str) -> Expr:
    entries = an_object(value, at, "an object of schemas").items()
    return AllOf(tuple([_obeys(site, name, schema, f"{at}/{pointer_token(name)}") for name, schema in entries]), at)


def dependencies(site: Site, value: Any, at: str) -> Expr:
    parts: list[Expr] = []
    for name, dependency in an_object(value, at, "an object of schemas and arrays of names").items():
        place = f"{at}/{pointer_token(name)}"
        if isinstance(dependency, (list, tuple)):
            parts.append(_needs("dependencies", name, dependency, place))
        elif isinstance(dependency, (dict, bool)):
            parts.append(_obeys(site, name, dependency, place))
        else:
            raise wrong(at, "an object of schemas and arrays of names", dependency, "put a single name into an array")
    return AllOf(tuple(parts), at)


def _needs(keyword: str, name: str, others: Any, at: str) -> Expr:
    needed: list[Expr] = [_Required(other, at) for other in names(others, at, keyword)]
    if not needed:
        return ALWAYS
    then = needed[0] if len(needed) == 1 else AllOf(tuple(needed), at)
    # No test for "is an object" is needed: `Required` allows everything else.
    return AnyOf((Not(_Required(name, at), at), then), at)


def _obeys(site: Site, name: str, schema: Any, at: str) -> Expr:
    # Not an AnyOf: the schema's annotations count only where the property is there.
    return IfThenElse(AllOf((_OBJECT, _Required(name, at)), at), site.read(schema, at), ALWAYS, at)


def unevaluatedProperties(site: Site, value: Any, at: str, base: Expr) -> Expr:
    return Unevaluated("object", base, site.read(value, at), at)
