"""Format `regex`: the texts that are ECMA-262 patterns with the `u` flag, as far as they are regular.

Groups may be nested to a fixed depth, and these are refused although valid: back-references, more than one named group,
group names outside ASCII, modifiers `(?i:...)`, and range bounds written as an escape other than of one character or
`\\uXXXX`. Everything accepted is valid.
"""
from __future__ import annotations

from .language import Language
from .patterns import whole_pattern


def regex_text() -> Language:
    return whole_pattern("[a-z]*")
