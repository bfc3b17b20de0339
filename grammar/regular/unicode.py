"""Unicode properties, as `\\p{...}` names them (ECMA-262, table "Unicode property escapes"), and case folding.

`unicode_tables.PACKED` is zlib-compressed, in base 64: four bytes with the length of a header, the header, the sets.
The header describes each set as `kind:names:size`, separated by `|`; kinds are g(eneral category), s(cript),
x (script with extensions, where they differ) and b(inary property). A set is its ranges as variable-length integers,
seven bits a byte: the gap to the range before, then its length less one.
"""

from __future__ import annotations

from base64 import b64decode
from functools import lru_cache
from zlib import decompress

from .charset import ALL, EMPTY_SET, CharSet
from .unicode_tables import PACKED

_GROUPS = {
    "LC": ("Lu", "Ll", "Lt"),
    "L": ("Lu", "Ll", "Lt", "Lm", "Lo"),
    "M": ("Mn", "Mc", "Me"),
    "N": ("Nd", "Nl", "No"),
    "P": ("Pc", "Pd", "Ps", "Pe", "Pi", "Pf", "Po"),
    "S": ("Sm", "Sc", "Sk", "So"),
    "Z": ("Zs", "Zl", "Zp"),
    "C": ("Cc", "Cf", "Co", "Cn"),
}
_GROUP_NAMES = {
    "Cased_Letter": "LC", "Letter": "L", "Mark": "M", "Combining_Mark": "M", "Number": "N", "Punctuation": "P",
    "punct": "P", "Symbol": "S", "Separator": "Z", "Other": "C",
}
_KINDS = {
    "General_Category": "g", "gc": "g", "Script": "s", "sc": "s", "Script_Extensions": "x", "scx": "x",
}
_SURROGATES = ("Cs", "Surrogate")
_LAST_CASED = 0x1FFFF  # no character beyond has a case


class UnknownPropertyError(LookupError):
    """ECMA-262 defines no such property name or value."""


@lru_cache(512)
def property_set(name: str) -> CharSet:
    """The set of `\\p{name}`: a general category, a binary property or `property=value`.

    Raises UnknownPropertyError; names are case-sensitive and in full or in their short form, as ECMA-262 has it.
    """
    kind, _, value = name.rpartition("=")
    if kind or "=" in name:
        if kind not in _KINDS or not value:
            raise UnknownPropertyError(name)
        return _value(_KINDS[kind], value)
    if value == "Any":
        return ALL
    if value == "ASCII":
        return CharSet.of((0, 0x7F))
    if value == "Assigned":
        return ~_value("g", "Cn")
    if ("b", value) in _index():
        return _packed_set("b", value)
    return _value("g", value)


def _value(kind: str, value: str) -> CharSet:
    if kind == "g":
        if value in _SURROGATES:
            return EMPTY_SET
        group = _GROUP_NAMES.get(value, value)
        if group in _GROUPS:
            found = EMPTY_SET
            for part in _GROUPS[group]:
                found = found | _packed_set("g", part)
            return found
    if kind == "x":
        names, _ = _index().get(("s", value), ((value,), None))
        if ("x", names[0]) in _index():
            return _packed_set("x", names[0])
        kind = "s"
    return _packed_set(kind, value)


@lru_cache(1)
def _index() -> dict[tuple[str, str], tuple[tuple[str, ...], slice]]:
    """By kind and name: all the names of a set, and where its ranges are."""
    header, _ = _unpacked()
    found: dict[tuple[str, str], tuple[tuple[str, ...], slice]] = {}
    at = 0
    for entry in header.split("|"):
        kind, joined, size = entry.split(":")
        names = tuple(joined.split())
        for name in names:
            found[kind, name] = names, slice(at, at + int(size))
        at += int(size)
    return found


@lru_cache(1)
def _unpacked() -> tuple[str, bytes]:
    data = decompress(b64decode(PACKED))
    end = 4 + int.from_bytes(data[:4], "little")
    return data[4:end].decode("ascii"), data[end:]


def _packed_set(kind: str, name: str) -> CharSet:
    if (kind, name) not in _index():
        raise UnknownPropertyError(name)
    numbers, shift = [0], 0
    for byte in _unpacked()[1][_index()[kind, name][1]]:
        numbers[-1] |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            numbers.append(0)
            shift = 0
    ranges, at = [], 0
    for gap, more in zip(numbers[:-1:2], numbers[1:-1:2], strict=True):
        ranges.append((at + gap, at + gap + more))
        at += gap + more + 1
    return CharSet.of(*ranges)


def fold_case(found: CharSet) -> CharSet:
    """`found` with every character that differs from one in it only by case (simple case folding)."""
    by_fold, fold_of = _folds()
    added = EMPTY_SET
    for folded in {fold_of[c] for c in fold_of if c in found}:
        added = added | by_fold[folded]
    return found | added


@lru_cache(1)
def _folds() -> tuple[dict[int, CharSet], dict[int, int]]:
    """The characters that share a simple case folding, by it, and the folding of each of them."""
    members: dict[int, list[int]] = {}
    for code_point in range(_LAST_CASED + 1):
        char = chr(code_point)
        folded = char.casefold()
        if len(folded) != 1:
            folded = char.lower() if len(char.lower()) == 1 else char
        if folded != char:
            members.setdefault(ord(folded), [ord(folded)]).append(code_point)
    by_fold = {fold: CharSet.of(*((c, c) for c in group)) for fold, group in members.items()}
    return by_fold, {c: fold for fold, group in members.items() for c in group}
