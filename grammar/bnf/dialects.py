"""What regular expressions of other dialects say in other words, or mean by the same ones.

Patterns are ECMA-262's. Where Python, Rust, Perl or POSIX have something that ECMA-262 reads as other characters, it is
refused by name, rather than read as what nobody meant. Only a `]` that a class begins with is read in Lark as in both
of Lark's own dialects, Python's and Rust's: as the character.
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
_COMMON: Final = r"""\\x(?![0-9A-Fa-f]{2})(?P<hex>) | \\u(?![0-9A-Fa-f]{4}|\{[0-9A-Fa-f]+\})(?P<code>)
    | \\(?P<escape>[A-Za-z]) | \\."""
_OUTSIDE: Final = re.compile(
    rf"{_COMMON} | (?P<most>\{{,[0-9]+\}})"
    r" | \[\^?(?:(?P<early>\](?=(?:[^\]\\]|\\.)*+\])) | (?P<empty>\]) | (?P<open>))",
    re.VERBOSE | re.DOTALL,
)
_WITHIN: Final = re.compile(
    rf"{_COMMON} | (?P<posix>\[(?P<kind>[:.=])\^?\w*(?P=kind)\]) | (?P<nested>\[) | (?P<close>\])"
    r" | (?<=[^\[^])(?P<sets>&&|--|~~)(?=[^\]])",
    re.VERBOSE | re.DOTALL,
)
_CLASS: Final = re.compile(r"\\.|(\[\^?)(\]?)((?:[^\]\\]|\\.)*+)", re.DOTALL)
_BRACKET: Final = re.compile(r"\\.|(\[)\^?\]?|(\])", re.DOTALL)


class Foreign(NamedTuple):
    """Something of another dialect, as it is written, and what to write instead."""

    written: str
    remedy: str


def with_early_brackets(pattern: str) -> str:
    """The pattern with those `]` escaped that a class begins with."""
    return _CLASS.sub(lambda found: f"{found[1]}\\]{found[3]}" if found[2] else found[0], pattern)


def foreign(pattern: str) -> Foreign | None:
    """The first thing in a pattern that ECMA-262 would read as something else than other dialects; None: nothing."""
    at, within = 0, False
    may_nest = True
    while match := (_WITHIN if within else _OUTSIDE).search(pattern, at):
        at = match.end()
        match match.lastgroup:
            case "open" | "close":
                within = match.lastgroup == "open"
            case "hex":
                return Foreign(r"\x without two digits", r"write \xHH or \u{H...}")
            case "code":
                return Foreign(r"\u without its digits", r"write \uHHHH or \u{H...}")
            case "escape" if match["escape"] not in _KNOWN:
                remedy = _ESCAPES.get(match["escape"], "write the characters that it stands for")
                return Foreign(match[0], remedy)
            case "most":
                return Foreign(match[0], f"write {{0{match[0][1:]}")
            case "early":
                remedy = r"write \] for the character, [\s\S] for any character"
                return Foreign("a ] that a class begins with", remedy)
            case "posix":
                return Foreign(match[0], _posix(match[0][2:-2]))
            case "sets":
                remedy = r"list the characters, or let terminals meet with &; write \- for a -"
                return Foreign(f"{match[0]} in a class", remedy)
            case "nested" if may_nest:
                may_nest = _closes(pattern, match.start())
                if may_nest:
                    return Foreign("a class in a class", r"list the characters of both, or write \[ for the character")
    return None


def _closes(pattern: str, at: int) -> bool:
    """Whether brackets from the inner one at a place on close it and the one around it, as Rust counts them.

    If they do not, the whole pattern is none of Rust's, and a `[` in a class is the character in all other dialects.
    """
    depth = 1
    for match in _BRACKET.finditer(pattern, at):
        depth += 1 if match[1] else -1 if match[2] else 0
        if not depth:
            return True
    return False


def _posix(name: str) -> str:
    return f"write {_POSIX.get(name.lstrip('^'), 'the characters')}"
