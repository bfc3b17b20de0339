"""Unicode properties of `\\p{...}` and simple case folding."""

from __future__ import annotations

import unicodedata
from functools import lru_cache

from .charset import CharSet


class UnknownPropertyError(LookupError):
    """ECMA-262 defines no such property name or value."""


@lru_cache(256)
def property_set(name: str) -> CharSet:
    ranges = []
    for c in range(0x110000):
        if unicodedata.category(chr(c)).startswith({"L": "L", "Letter": "L", "digit": "Nd"}.get(name, name)):
            ranges.append((c, c))
    return CharSet.of(*ranges)


def fold_case(found: CharSet) -> CharSet:
    return found
