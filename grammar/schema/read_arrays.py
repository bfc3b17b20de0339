"""Readers of the keywords about arrays. Each function bears its keyword's name; a number at the end is the draft it is
for.
"""

from __future__ import annotations

from typing import Any

from .checks import a_count, a_flag, a_list, wrong
from .expr import ALWAYS, AllOf, Contains, EachItem, Expr, ItemCount, Unevaluated, UniqueItems
from .site import Site


def prefixItems(site: Site, value: Any, at: str) -> Expr:
    schemas = a_list(value, at, "a non-empty array of schemas", filled=True)
    return AllOf(tuple(_prefix(site, schemas, at)), at)


def items(site: Site, value: Any, at: str) -> Expr:
    if isinstance(value, (list, tuple)):
        raise wrong(
            at, "a schema", value, "in draft 2020-12 the array form is prefixItems; or say dialect='2019-09' or older"
        )
    before = site.schema.get("prefixItems")
    return EachItem(len(before) if isinstance(before, (list, tuple)) else 0, None, site.read(value, at), True, at)


def items_2019(site: Site, value: Any, at: str) -> Expr:
    if isinstance(value, (list, tuple)):
        return AllOf(tuple(_prefix(site, value, at)), at)
    return EachItem(0, None, site.read(value, at), True, at)


def additionalItems(site: Site, value: Any, at: str) -> Expr | None:
    before = site.schema.get("items")
    if not isinstance(before, (list, tuple)):
        site.idle(at, "additionalItems", "it speaks only beside an array of items")
        return None
    return EachItem(len(before), None, site.read(value, at), True, at)


def _prefix(site: Site, schemas: list[Any] | tuple[Any, ...], at: str) -> list[Expr]:
    return [
        EachItem(index, index + 1, site.read(schema, f"{at}/{index}"), True, f"{at}/{index}")
        for index, schema in enumerate(schemas)
    ]


def contains(site: Site, value: Any, at: str) -> Expr:
    low, high = _contains_bounds(site)
    return Contains(site.read(value, at), low, high, True, at)


def contains_2019(site: Site, value: Any, at: str) -> Expr:
    low, high = _contains_bounds(site)
    then = site.read(value, at)
    return Contains(then, low, high, False, at) if low or high is not None else ALWAYS


def contains_6(site: Site, value: Any, at: str) -> Expr:
    return Contains(site.read(value, at), 1, None, False, at)


def _contains_bounds(site: Site) -> tuple[int, int | None]:
    schema = site.schema
    low = a_count(schema["minContains"], f"{site.at}/minContains") if "minContains" in schema else 1
    high = a_count(schema["maxContains"], f"{site.at}/maxContains") if "maxContains" in schema else None
    return low, high


def minContains(site: Site, value: Any, at: str) -> None:
    _beside_contains(site, value, at, "minContains")


def maxContains(site: Site, value: Any, at: str) -> None:
    _beside_contains(site, value, at, "maxContains")


def _beside_contains(site: Site, value: Any, at: str, keyword: str) -> None:
    a_count(value, at)
    if "contains" not in site.schema:
        site.idle(at, keyword, "there is no contains beside it")


def minItems(site: Site, value: Any, at: str) -> Expr:
    return ItemCount(a_count(value, at), None, at)


def maxItems(site: Site, value: Any, at: str) -> Expr:
    return ItemCount(0, a_count(value, at), at)


def uniqueItems(site: Site, value: Any, at: str) -> Expr | None:
    return UniqueItems(at) if a_flag(value, at) else None


def unevaluatedItems(site: Site, value: Any, at: str, base: Expr) -> Expr:
    return Unevaluated("array", base, site.read(value, at), at)
