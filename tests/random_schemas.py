"""Strategies for schemas beyond those of `test_schema_random`: recursive ones, and languages of strings."""

from __future__ import annotations

import json
import random
from typing import Any

from hypothesis import strategies as st

NAMES = st.sampled_from(["a", "b", "c"])
LEAVES = st.sampled_from([{}, {"type": "integer"}, {"type": "string"}, {"const": 1}, {"enum": ["a", 0]}])
STRINGS = [
    "", "a", "b", "ab", "ba", "aa", "abc", "aab", "a1", "1", "12", "2020-01-01", "2020-02-30", "12:00:00Z",
    "2020-01-01T12:00:00Z", "a@b.c", "1.2.3.4", "256.1.1.1", "::1", "http://a/b", "a:b", "/a/b", "#", "0/a", "é", '"',
    "\\", "a b", "P1D", "a.b", "-a", "{a}", "{a", "(", "00000000-0000-0000-0000-000000000000", "a😀b", "abab", "Ab",
]  # fmt: skip
# Without what Python's `re` reads in another way than ECMA-262: \w, \b, and $ before a line break at the end.
PATTERNS = [
    "a", "^a", "b$", "^[ab]*$", "^(ab)+$", "\\d", "^.{2}$", "^(?=.*a)(?=.*b)", "^(?!a)", "(?<=a)b", "^[^a]*$", "a{2,3}",
    "^a{1,3}$", "^(a|b){2}$", "(?<!a)b", "\\u00e9", "[A-Z]",
]  # fmt: skip
FORMATS = ["date", "time", "date-time", "email", "hostname", "ipv4", "ipv6", "uri", "uri-reference", "uuid", "regex"]


def recursive(dialect: str) -> st.SearchStrategy:
    """Schemas whose properties and items refer to the schema itself and to two definitions."""
    below = st.sampled_from([{"$ref": "#/$defs/r"}, {"$ref": "#/$defs/s"}, {"$ref": "#"}]) | LEAVES
    optional: dict[str, st.SearchStrategy] = {
        "type": st.sampled_from(["object", "array", ["object", "array"], ["object", "integer"], ["array", "null"]]),
        "properties": st.dictionaries(NAMES, below, max_size=2),
        "items": below,
        "required": st.lists(NAMES, max_size=1),
        "additionalProperties": below,
        "minItems": st.integers(0, 1),
        "maxItems": st.integers(0, 2),
        "uniqueItems": st.booleans(),
    }
    if dialect != "4":
        optional["contains"] = below
        optional["propertyNames"] = st.sampled_from([{"maxLength": 1}, {"pattern": "a"}])
    body = st.lists(st.sampled_from(sorted(optional)), min_size=1, max_size=4, unique=True).flatmap(
        lambda chosen: st.fixed_dictionaries({keyword: optional[keyword] for keyword in chosen})
    )
    pair = st.tuples(body, body)
    whole = st.one_of(
        body,
        pair.map(lambda pair: {"anyOf": list(pair)}),
        pair.map(lambda pair: {"oneOf": list(pair)}),
        pair.map(lambda pair: {**pair[0], "not": pair[1]}),
    )
    return st.tuples(whole, whole, whole).map(lambda each: {**each[0], "$defs": {"r": each[1], "s": each[2]}})


def strings(dialect: str) -> st.SearchStrategy:
    """Patterns, formats, lengths and enumerations in boolean combination, of strings alone."""
    leaf = st.one_of(
        st.sampled_from([{"pattern": source} for source in PATTERNS]),
        st.sampled_from([{"format": name} for name in FORMATS]),
        st.integers(0, 4).map(lambda low: {"minLength": low}),
        st.integers(0, 5).map(lambda high: {"maxLength": high}),
        st.lists(st.sampled_from(STRINGS), min_size=1, max_size=4, unique=True).map(lambda listed: {"enum": listed}),
    )

    def around(inner: st.SearchStrategy) -> st.SearchStrategy:
        many = st.lists(inner, min_size=1, max_size=4)
        keywords = ("allOf", "anyOf", "oneOf")
        together = [many.map(lambda parts, keyword=keyword: {keyword: parts}) for keyword in keywords]
        beside = st.tuples(leaf, leaf, leaf).map(lambda parts: {**parts[0], **parts[1], **parts[2]})
        return st.one_of(*together, beside, inner.map(lambda part: {"not": part}))

    return st.recursive(leaf, around, max_leaves=8).map(lambda schema: {"type": "string", "allOf": [schema]})


def spelled(value: Any, chance: random.Random) -> str:
    """JSON text of a value with spellings, white space and order of members drawn by chance."""

    def space() -> str:
        return chance.choice(["", "", " ", "\n"])

    if value is None or isinstance(value, bool):
        return json.dumps(value)
    if isinstance(value, (int, float)):
        plain = json.dumps(value)
        more = [f"{plain}.0", f"{plain}E0", f"{plain}.00e+0"] if isinstance(value, int) else [f"{plain}0", f"{plain}e0"]
        return chance.choice([plain, *more, "-0"] if value == 0 else [plain, *more])
    if isinstance(value, str):
        return '"' + "".join(chance.choice([json.dumps(c)[1:-1], f"\\u{ord(c):04X}"]) for c in value) + '"'
    if isinstance(value, list):
        return "[" + space() + ("," + space()).join(spelled(item, chance) + space() for item in value) + "]"
    members = list(value.items())
    chance.shuffle(members)
    texts = [f"{spelled(key, chance)}{space()}:{space()}{spelled(item, chance)}" for key, item in members]
    return "{" + space() + ("," + space()).join(texts) + space() + "}"
