"""The string formats of JSON Schema (draft 2020-12, validation, section 7.3), each from the grammar of its RFC.

What is said here is turned into minimal automata by `tests/format_tables.py`, which come with the package, so that the
first use of a format builds nothing; a test holds that they are what is said here.

Departures, all on the side of refusing a valid text unless noted:

- hostname, idn-hostname: labels that begin with `xn--` are refused. Whether one is valid depends on what its Punycode
  decodes to, and no automaton of a useful size decodes Punycode.
- idn-hostname: normalisation form C is not checked, nor that the A-label form has at most 63 characters, other than by
  the number of code points (accepts too much).
- regex: see `regex_format`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from pathlib import Path

import numpy as np

from .clock import date_time, time
from .dfa import interned
from .idn import idn_hostname
from .language import Language
from .patterns import whole_pattern
from .regex_format import regex_text
from .table_dfa import Table, TableDfa

TABLES = Path(__file__).with_name("format_tables.npz")

_OCTET = r"(?:25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)"
_IPV4 = rf"{_OCTET}(?:\.{_OCTET}){{3}}"


def _ipv6() -> str:
    """RFC 3986, section 3.2.2, `IPv6address`; the text form of RFC 4291, section 2.2."""
    h16 = r"[0-9A-Fa-f]{1,4}"
    ls32 = rf"(?:{h16}:{h16}|{_IPV4})"
    forms = [rf"(?:{h16}:){{6}}{ls32}", rf"::(?:{h16}:){{5}}{ls32}"]
    for before, after in enumerate((4, 3, 2, 1, 0)):
        left = rf"(?:(?:{h16}:){{0,{before}}}{h16})?" if before else rf"(?:{h16})?"
        forms.append(rf"{left}::(?:{h16}:){{{after}}}{ls32}" if after else rf"{left}::{ls32}")
    forms += [rf"(?:(?:{h16}:){{0,5}}{h16})?::{h16}", rf"(?:(?:{h16}:){{0,6}}{h16})?::"]
    return f"(?:{'|'.join(forms)})"


# RFC 3339, section 5.6 and appendix C (leap years).
_MONTH_DAY = r"(?:0[13578]|1[02])-(?:0[1-9]|[12]\d|3[01])|(?:0[469]|11)-(?:0[1-9]|[12]\d|30)|02-(?:0[1-9]|1\d|2[0-8])"
_LEAP_YEAR = r"(?:\d\d(?:0[48]|[2468][048]|[13579][26])|(?:[02468][048]|[13579][26])00)"
DATE = rf"(?:\d{{4}}-(?:{_MONTH_DAY})|{_LEAP_YEAR}-02-29)"


def _duration() -> str:
    """RFC 3339, appendix A."""
    minute = r"\d+M(?:\d+S)?"
    time_part = rf"T(?:\d+H(?:{minute})?|{minute}|\d+S)"
    month = r"\d+M(?:\d+D)?"
    return rf"P(?:(?:\d+D|{month}|\d+Y(?:{month})?)(?:{time_part})?|{time_part}|\d+W)"


def _mailbox(more: str) -> str:
    """RFC 5321, section 4.1.2, `Mailbox`; RFC 6531, section 3.3, where `more` adds the characters outside ASCII."""
    atom = rf"[A-Za-z0-9!#$%&'*+\-/=?^_`{{|}}~{more}]+"
    quoted = rf'"(?:[ !#-\[\]-~{more}]|\\[ -~])*"'
    letter = rf"[A-Za-z0-9{more}]"
    label = rf"{letter}(?:(?:{letter}|-)*{letter})?"
    number = r"(?:25[0-5]|2[0-4]\d|[01]?\d{1,2})"
    literal = rf"\[(?:{number}(?:\.{number}){{3}}|[Ii][Pp][Vv]6:{_ipv6()})\]"
    return rf"(?:{atom}(?:\.{atom})*|{quoted})@(?:{label}(?:\.{label})*|{literal})"


_UCSCHAR = r"\u00a0-\ud7ff\uf900-\ufdcf\ufdf0-\uffef" + "".join(
    rf"\u{{{plane:x}0000}}-\u{{{plane:x}fffd}}" for plane in range(1, 0xE)
) + r"\u{e1000}-\u{efffd}"
_PRIVATE = r"\ue000-\uf8ff\u{f0000}-\u{ffffd}\u{100000}-\u{10fffd}"


def _uri(*, relative: bool, more: str = "", private: str = "") -> str:
    """RFC 3986, appendix A: `URI`, or with `relative` `URI-reference`; RFC 3987 adds characters outside ASCII."""
    plain = rf"A-Za-z0-9\-._~!$&'()*+,;={more}"
    encoded = r"%[0-9A-Fa-f]{2}"
    char = rf"(?:[{plain}:@]|{encoded})"
    address = rf"\[(?:{_ipv6()}|[vV][0-9A-Fa-f]+\.[A-Za-z0-9\-._~!$&'()*+,;=:]+)\]"
    authority = rf"(?:(?:[{plain}:]|{encoded})*@)?(?:{address}|(?:[{plain}]|{encoded})*)(?::\d*)?"
    segments = rf"(?:/{char}*)*"
    absolute = rf"/(?:{char}+{segments})?"
    start = rf"//{authority}{segments}|{absolute}"
    scheme = r"[A-Za-z][A-Za-z0-9+\-.]*:"
    query = rf"(?:\?(?:[{plain}:@/?{private}]|{encoded})*)?"
    fragment = rf"(?:#(?:[{plain}:@/?]|{encoded})*)?"
    if relative:
        first = rf"(?:[{plain}@]|{encoded})+"
        return rf"(?:(?:{scheme})?(?:{start}|)|(?:{scheme}{char}+|{first}){segments}){query}{fragment}"
    return rf"{scheme}(?:{start}|{char}+{segments}|){query}{fragment}"


def _uri_template() -> str:
    """RFC 6570, section 2, with its erratum that an apostrophe is a literal."""
    encoded = r"%[0-9A-Fa-f]{2}"
    literal = rf"(?:[!#$&-;=?-\[\]_a-z~{_UCSCHAR}{_PRIVATE}]|{encoded})"
    char = rf"(?:[A-Za-z0-9_]|{encoded})"
    variable = rf"{char}(?:\.?{char})*(?::[1-9]\d{{0,3}}|\*)?"
    return rf"(?:{literal}|\{{[+#./;?&=,!@|]?{variable}(?:,{variable})*\}})*"


_POINTER = r"(?:/(?:[^/~]|~[01])*)*"
_LABEL = r"[A-Za-z0-9](?:[A-Za-z0-9\-]{0,61}[A-Za-z0-9])?"


def _hostname() -> Language:
    """RFC 1123, section 2.1: labels of at most 63 characters, 253 in all."""
    label = rf"(?![xX][nN]--){_LABEL}"
    return Language(whole_pattern(rf"{label}(?:\.{label})*").dfa, 0, 253)


def _from(source: Callable[[], str]) -> Callable[[], Language]:
    return lambda: whole_pattern(source())


_FORMATS: dict[str, Callable[[], Language]] = {
    "date-time": lambda: date_time(DATE),
    "date": lambda: whole_pattern(DATE),
    "time": time,
    "duration": _from(_duration),
    "email": _from(lambda: _mailbox("")),
    "idn-email": _from(lambda: _mailbox(r"\u0080-\ud7ff\ue000-\u{10ffff}")),
    "hostname": _hostname,
    "idn-hostname": idn_hostname,
    "ipv4": lambda: whole_pattern(_IPV4),
    "ipv6": _from(_ipv6),
    "uri": _from(lambda: _uri(relative=False)),
    "uri-reference": _from(lambda: _uri(relative=True)),
    "iri": _from(lambda: _uri(relative=False, more=_UCSCHAR, private=_PRIVATE)),
    "iri-reference": _from(lambda: _uri(relative=True, more=_UCSCHAR, private=_PRIVATE)),
    "uri-template": _from(_uri_template),
    "uuid": lambda: whole_pattern(r"[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}"),  # RFC 4122
    "json-pointer": lambda: whole_pattern(_POINTER),  # RFC 6901
    "relative-json-pointer": lambda: whole_pattern(rf"(?:0|[1-9]\d*)(?:#|{_POINTER})"),
    "regex": regex_text,
}
FORMATS: frozenset[str] = frozenset(_FORMATS)

EXAMPLES: Mapping[str, str] = {
    "date-time": "2000-01-01T00:00:00Z", "date": "2000-01-01", "time": "00:00:00Z", "duration": "P1D",
    "email": "a@example.com", "idn-email": "a@example.com", "hostname": "example.com", "idn-hostname": "example.com",
    "ipv4": "127.0.0.1", "ipv6": "::1", "uri": "http://example.com/", "uri-reference": "http://example.com/",
    "iri": "http://example.com/", "iri-reference": "http://example.com/", "uri-template": "http://example.com/",
    "uuid": "01234567-89ab-4cde-8f01-23456789abcd", "json-pointer": "/a", "relative-json-pointer": "0", "regex": "a",
}  # fmt: skip
"""A text of each format, so that it need not be built to see that there is one."""


def derived(name: str) -> Language:
    """The texts of a format, from what is said above. Slow; `idn-hostname` needs the package idna."""
    return _FORMATS[name]()


def tabled(name: str) -> bool:
    """Whether a format has a table. `regex` has too many states: its automaton is built where a text leads."""
    return name in _FORMATS and name != "regex"


@lru_cache(64)
def format_language(name: str) -> Language | None:
    """The texts of a format; None if the format is unknown, and so only an annotation."""
    if not tabled(name):
        return derived(name) if name in _FORMATS else None
    with np.load(TABLES, allow_pickle=False) as archive:
        packed = archive[name]
    low, high = packed[:2].tolist()
    dfa = interned(("format", name), lambda: TableDfa(("format", name), f"format {name}", Table.unpacked(packed[2:])))
    return Language(dfa, low, None if high < 0 else high)
