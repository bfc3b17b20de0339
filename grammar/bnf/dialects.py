"""What regular expressions of other dialects say in other words, or mean by the same ones.

Patterns are ECMA-262's. Where Python, Rust, Perl or POSIX have something that ECMA-262 reads as other characters, it is
refused by name, rather than read as what nobody meant.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

_WHOLE: Final = "a pattern matches as a whole: leave it out"
_ESCAPES: Final = {
    "A": _WHOLE, "Z": _WHOLE, "z": _WHOLE, "G": _WHOLE, "a": r"write \x07", "e": r"write \x1B", "h": r"write [ \t]",
    "H": r"write [^ \t]", "R": r"write \r?\n", "N": r"write [^\n]", "Q": "escape each character",
    "E": "escape each character",
}  # fmt: skip
_POSIX: Final = {
    "alpha": r"[A-Za-z] or \p{L}", "digit": "[0-9]", "alnum": r"[A-Za-z0-9] or [\p{L}\p{Nd}]",
    "upper": r"[A-Z] or \p{Lu}", "lower": r"[a-z] or \p{Ll}", "space": r"\s", "blank": r"[ \t]",
    "punct": r"[!-/:-@\[-`{-~] or \p{P}", "xdigit": "[0-9A-Fa-f]", "word": r"\w",
    "cntrl": r"[\x00-\x1F\x7F]", "print": "[ -~]", "graph": "[!-~]", "ascii": r"[\x00-\x7F]",
}  # fmt: skip
_KNOWN: Final = frozenset("dDwWsSbBfnrtvckpPxu")
_PARTS: Final = re.compile(
    r"""\\x(?![0-9A-Fa-f]{2})(?P<hex>) | \\u(?![0-9A-Fa-f]{4}|\{[0-9A-Fa-f]+\})(?P<code>)
    | \\(?P<escape>[A-Za-z]) | \\.
    | (?P<most>\{,[0-9]+\}) | (?P<open>\[\^?\]?)""",
    re.VERBOSE | re.DOTALL,
)
_WITHIN: Final = re.compile(
    r"""\\x(?![0-9A-Fa-f]{2})(?P<hex>) | \\u(?![0-9A-Fa-f]{4}|\{[0-9A-Fa-f]+\})(?P<code>)
    | \\(?P<escape>[A-Za-z]) | \\.
    | \[(?P<kind>[:.=])(?P<name>\^?\w*)(?P=kind)\] | (?<=[^\[^])(?P<both>&&)(?=[^\]]) | (?P<close>\])""",
    re.VERBOSE | re.DOTALL,
)


class Foreign(NamedTuple):
    """Something of another dialect, as it is written, and what to write instead."""

    written: str
    remedy: str


def foreign(pattern: str) -> Foreign | None:
    """The first thing in a pattern that ECMA-262 would read as something else than other dialects; None: nothing."""
    at, within = 0, False
    while match := (_WITHIN if within else _PARTS).search(pattern, at):
        at = match.end()
        found = match.groupdict()
        if found.get("open") is not None:
            within = True
            at -= match["open"].endswith("]")  # ECMA-262's empty class ends there
        elif found.get("close") is not None:
            within = False
        elif found["hex"] is not None:
            return Foreign(r"\x without two digits", r"write \xHH or \u{H...}")
        elif found["code"] is not None:
            return Foreign(r"\u without its digits", r"write \uHHHH or \u{H...}")
        elif found["escape"] is not None and found["escape"] not in _KNOWN:
            letter = found["escape"]
            return Foreign(f"\\{letter}", _ESCAPES.get(letter, "write the characters that it stands for"))
        elif found.get("most") is not None:
            return Foreign(found["most"], f"write {{0{found['most'][1:]}")
        elif found.get("kind") is not None:
            return Foreign(match[0], _posix(found["name"]))
        elif found.get("both") is not None:
            return Foreign("&& in a class", "list the characters, or let terminals meet with &")
    return None


def _posix(name: str) -> str:
    return f"write {_POSIX.get(name.lstrip('^'), 'the characters')}"
