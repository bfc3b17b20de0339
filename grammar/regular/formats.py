"""The string formats of JSON Schema (draft 2020-12, validation, section 7.3)."""
from __future__ import annotations

from functools import lru_cache

from .language import Language
from .patterns import whole_pattern

_OCTET = r"(?:25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)"
_SIMPLE = {
    "ipv4": rf"{_OCTET}(?:\.{_OCTET}){{3}}",
    "uuid": r"[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}",
    "json-pointer": r"(?:/(?:[^/~]|~[01])*)*",
}
FORMATS = frozenset(_SIMPLE)


@lru_cache(64)
def format_language(name: str) -> Language | None:
    """The language of a format; None if the format is unknown, and so an annotation."""
    source = _SIMPLE.get(name)
    return None if source is None else whole_pattern(source)
