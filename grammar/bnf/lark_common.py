"""The terminals of Lark's `common` library, as regular expressions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

_SIGN: Final = "[+-]?"
_INT: Final = "[0-9]+"
_EXPONENT: Final = rf"[eE]{_SIGN}{_INT}"
_DECIMAL: Final = rf"(?:{_INT}\.[0-9]*|\.{_INT})"
_FLOAT: Final = rf"(?:{_INT}{_EXPONENT}|{_DECIMAL}(?:{_EXPONENT})?)"
_NUMBER: Final = rf"(?:{_FLOAT}|{_INT})"

COMMON: Final[Mapping[str, str]] = {
    "DIGIT": "[0-9]",
    "HEXDIGIT": "[0-9A-Fa-f]",
    "INT": _INT,
    "SIGNED_INT": _SIGN + _INT,
    "DECIMAL": _DECIMAL,
    "_EXP": _EXPONENT,
    "FLOAT": _FLOAT,
    "SIGNED_FLOAT": _SIGN + _FLOAT,
    "NUMBER": _NUMBER,
    "SIGNED_NUMBER": _SIGN + _NUMBER,
    "ESCAPED_STRING": r'"(?:[^"\\\n]|\\[^\n])*"',
    "LCASE_LETTER": "[a-z]",
    "UCASE_LETTER": "[A-Z]",
    "LETTER": "[A-Za-z]",
    "WORD": "[A-Za-z]+",
    "CNAME": "[A-Za-z_][A-Za-z_0-9]*",
    "WS_INLINE": r"[ \t]+",
    "WS": r"[ \t\f\r\n]+",
    "CR": r"\r",
    "LF": r"\n",
    "NEWLINE": r"(?:\r?\n)+",
    "SH_COMMENT": r"#[^\n]*",
    "CPP_COMMENT": r"//[^\n]*",
    "C_COMMENT": r"/\*(?:[^*]|\*+[^*/])*\*+/",
    "SQL_COMMENT": r"--[^\n]*",
}
