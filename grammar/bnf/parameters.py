"""Arguments of a call as some models write them: one parameter after the other in tags, not a JSON object.

    <parameter=city>Paris</parameter><parameter=days>3</parameter>

The schema is that of the object. A parameter whose schema allows strings holds the bare text, without quotes or
escapes, up to the tag that ends it; other values are JSON. Parameters come in the order of `properties`, required ones
are there, and others may only come where `additionalProperties` or the lack of `properties` allows them; that the names
of those differ is not held.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import reduce
from typing import Any, Final, NamedTuple

from ..errors import BudgetError, SchemaError, UnsatisfiableError, UnsupportedError
from ..regular import (
    ANY,
    CharSet,
    Language,
    complement,
    format_language,
    intersect,
    pattern,
    union,
    whole_pattern,
    words,
)
from ..schema.reader import read
from .ir import Chars, Choice, JsonSchema, Node, Reference, Regex, Repeat, Sequence, Text
from .triggers import text_without

MAX_ORDERED: Final = 8
_MAX_REFERENCES: Final = 30
_NAME: Final = "[A-Za-z_][A-Za-z0-9_]*"
_SPACE: Final = CharSet.chars(" \t\n\r")
_ANNOTATIONS: Final = frozenset(
    ("title", "description", "default", "examples", "deprecated", "readOnly", "writeOnly", "$comment")
)
_SHARED: Final = ("$defs", "definitions", "$schema")
_OF_OBJECT: Final = frozenset(("type", "properties", "required", "additionalProperties", *_SHARED))
_OF_TEXT: Final = frozenset(("type", "pattern", "format", "minLength", "maxLength"))
_DSML: Final = "\uff5cDSML\uff5c"
_TYPES: Final = ("null", "boolean", "number", "integer", "array", "object", "string")


class Style(NamedTuple):
    """How a parameter is written: before its name, between name and value for text and for JSON, and its end."""

    begin: str
    text: str
    json: str
    end: str
    value: str = ""  # white space may come before it


STYLES: Final[Mapping[str, Style]] = {
    "qwen_xml": Style("<parameter=", ">", ">", "</parameter>"),
    "minimax_xml": Style('<parameter name="', '">', '">', "</parameter>"),
    "deepseek_xml": Style(f'<{_DSML}parameter name="', '" string="true">', '" string="false">', f"</{_DSML}parameter>"),
    "glm_xml": Style("<arg_key>", "</arg_key>", "</arg_key>", "</arg_value>", "<arg_value>"),
}


class _Values(NamedTuple):
    """What a parameter may hold: bare texts, None for any; schemas of other values."""

    texts: Language | None
    schemas: tuple[Any, ...]


_NO_TEXT: Final = words(())
_ANY: Final = _Values(None, ({"type": [name for name in _TYPES if name not in ("string", "integer")]},))


class Parameters:
    """The parameters of one schema in one style.

    options    those of embedded schemas, `order` among them
    longest    the longest run of white space
    rules      where rules are put, under names that begin with `prefix`
    """

    def __init__(
        self, style: Style, schema: Any, at: str, options: Mapping[str, Any], longest: int, rules: dict[str, Node]
    ) -> None:
        self._style = style
        self._root = schema
        self._at = at
        self._options = options
        self._space = Repeat(Chars(_SPACE), 0, longest)
        self._rules = rules

    def node(self, prefix: str) -> Node:
        """All parameters. Raises SchemaError, UnsupportedError and UnsatisfiableError with pointers."""
        read(self._root, dialect=self._options.get("dialect"), formats=self._options.get("formats", True))  # checks it
        schema, at = self._resolved(self._root, self._at)
        if schema is True:
            schema = {}
        if not isinstance(schema, Mapping):
            raise SchemaError("parameters are described by the schema of an object", pointer=at, keyword="type")
        for keyword in schema.keys() - _OF_OBJECT - _ANNOTATIONS:
            raise self._refused(keyword, at, "use properties, required and additionalProperties")
        if schema.get("type", "object") not in ("object", ["object"]):
            raise SchemaError("parameters are described by the schema of an object", pointer=at, keyword="type")
        properties = dict(schema.get("properties", {}))
        others = schema.get("additionalProperties", "properties" not in schema)
        required = frozenset(schema.get("required", ()))
        for name in sorted(required - properties.keys()):
            if others is False and "additionalProperties" in schema:
                raise UnsatisfiableError(f"{name!r} is required and not allowed", pointer=at)
            properties[name] = True if others is False else others
        ordered: list[tuple[Node, bool]] = [
            (Sequence((self._parameter(Text(name), inner, f"{at}/properties/{name}"), self._space)), name in required)
            for name, inner in properties.items()
        ]
        more: Node = Text("")
        if others is not False:
            name = _any_of(intersect(whole_pattern(_NAME), other) for other in complement(words(properties)))
            more = Repeat(Sequence((self._parameter(name, others, f"{at}/additionalProperties"), self._space)))
        if self._options.get("order") == "any":
            return Sequence((self._space, self._any_order(prefix, ordered, more)))
        parts = (node if needed else Repeat(node, 0, 1) for node, needed in ordered)
        return Sequence((self._space, *parts, more))

    def _any_order(self, prefix: str, ordered: list[tuple[Node, bool]], more: Node) -> Node:
        """A rule for each set of parameters that were there."""
        if len(ordered) > MAX_ORDERED:
            raise BudgetError(
                f"{len(ordered)} parameters in any order exceed the limit of {MAX_ORDERED}",
                remedy="leave any_order out",
            )
        needed = sum(1 << i for i, (_, required) in enumerate(ordered) if required)
        for there in range(1 << len(ordered)):
            ways: list[Node] = [
                Sequence((node, Reference(f"{prefix}{there | 1 << i}")))
                for i, (node, _) in enumerate(ordered)
                if not there >> i & 1
            ]
            if there & needed == needed:
                ways.append(Text(""))
            self._rules[f"{prefix}{there}"] = Sequence((more, Choice(tuple(ways))))
        return Reference(f"{prefix}0")

    def _parameter(self, name: Node, schema: Any, at: str) -> Node:
        style, space = self._style, self._space
        values = self._values(schema, at, 0)
        before: tuple[Node, ...] = (space, Text(style.value)) if style.value else ()
        ways: list[Node] = []
        free = text_without((style.end,))
        if values.texts is None:
            ways.append(Sequence((Text(style.text), *before, Regex(free))))
        else:
            texts = intersect(values.texts, free)
            if not texts.is_empty:
                ways.append(Sequence((Text(style.text), *before, space, Regex(texts), space)))
        if values.texts is not None or style.text != style.json:  # else any text is right already
            ways += [Sequence((Text(style.json), *before, space, self._json(one), space)) for one in values.schemas]
        return Sequence((Text(style.begin), name, Choice(tuple(ways)), Text(style.end)))

    def _json(self, schema: Any) -> JsonSchema:
        if isinstance(schema, Mapping) and isinstance(self._root, Mapping):
            schema = {**{key: self._root[key] for key in _SHARED if key in self._root}, **schema}
        return JsonSchema(schema, self._options)

    def _values(self, schema: Any, at: str, depth: int) -> _Values:
        """What a schema allows, with strings apart."""
        schema, at = self._resolved(schema, at)
        if schema is False:
            raise UnsatisfiableError("a parameter that allows no value", pointer=at)
        if schema is True:
            return _ANY
        if not isinstance(schema, Mapping):
            raise SchemaError("a schema is an object or a boolean", pointer=at, keyword="properties")
        if depth > _MAX_REFERENCES:
            raise UnsupportedError("the schema of a parameter nests too deep", pointer=at, keyword="anyOf")
        told = {key: value for key, value in schema.items() if key not in _ANNOTATIONS}
        if not told:
            return _ANY
        for keyword in ("anyOf", "oneOf"):
            if told.keys() == {keyword} and isinstance(told[keyword], list):
                parts = [self._values(part, f"{at}/{keyword}/{i}", depth + 1) for i, part in enumerate(told[keyword])]
                return self._together(parts, keyword, at)
        if told.keys() == {"allOf"} and isinstance(told["allOf"], list) and len(told["allOf"]) == 1:
            return self._values(told["allOf"][0], f"{at}/allOf/0", depth + 1)
        for keyword, values in (("enum", told.get("enum")), ("const", [told.get("const")])):
            if keyword in told and isinstance(values, list) and told.keys() <= {keyword, "type"}:
                others = [value for value in values if not isinstance(value, str)]
                texts = words(value for value in values if isinstance(value, str))
                types = _types(told)
                schemas = ({**told, "enum": others},) if others else ()
                if keyword == "const" and others:
                    schemas = (told,)
                return _Values(texts if "string" in types else _NO_TEXT, schemas)
        types = _types(told)
        if "string" not in types:
            return _Values(_NO_TEXT, (told,))
        rest = [name for name in types if name != "string" and (name != "integer" or "number" not in types)]
        if rest and told.keys() - {"type"}:
            remedy = "give strings and other types schemas of their own, in anyOf"
            raise self._refused(min(told.keys() - {"type"}), at, remedy)
        for keyword in told.keys() - _OF_TEXT:
            raise self._refused(keyword, at, "use pattern, format, minLength, maxLength or enum")
        return _Values(self._texts(told), ({"type": rest},) if rest else ())

    def _texts(self, told: Mapping[str, Any]) -> Language | None:
        """The texts of a schema of strings; None for all."""
        if told.keys() <= {"type"}:
            return None
        language = Language(ANY.dfa, told.get("minLength", 0), told.get("maxLength"))
        if "pattern" in told:
            language = intersect(language, pattern(told["pattern"]))
        if "format" in told and self._options.get("formats", True):
            known = format_language(told["format"])
            language = language if known is None else intersect(language, known)
        return language

    def _together(self, parts: list[_Values], keyword: str, at: str) -> _Values:
        texts = [part.texts for part in parts if part.texts is None or not part.texts.is_empty]
        schemas = tuple(schema for part in parts for schema in part.schemas)
        if keyword == "oneOf" and len(texts) > 1:
            raise self._refused(keyword, at, "write anyOf, or let one alternative hold all texts")
        if len(schemas) > 1:
            schemas = ({keyword: [*schemas]},)
        whole = None if None in texts else reduce(union, (text for text in texts if text is not None), _NO_TEXT)
        return _Values(whole, schemas)

    def _resolved(self, schema: Any, at: str) -> tuple[Any, str]:
        """A schema, or what its `$ref` leads to."""
        for _ in range(_MAX_REFERENCES):
            if not isinstance(schema, Mapping) or "$ref" not in schema:
                return schema, at
            target = schema["$ref"]
            for keyword in schema.keys() - _ANNOTATIONS - {"$ref", *_SHARED}:
                raise self._refused(keyword, at, "give it to what the $ref leads to")
            if not isinstance(target, str) or not target.startswith("#/"):
                raise self._refused("$ref", at, "write it as #/$defs/...")
            schema, at = self._root, self._at + target[1:]
            for step in target[2:].split("/"):
                step = step.replace("~1", "/").replace("~0", "~")
                if not isinstance(schema, Mapping) or step not in schema:
                    raise SchemaError(f"the reference {target!r} leads nowhere", pointer=at, keyword="$ref")
                schema = schema[step]
        raise SchemaError("the references go round", pointer=at, keyword="$ref")

    def _refused(self, keyword: str, at: str, remedy: str) -> UnsupportedError:
        message = f"{keyword!r} is not supported in a schema of parameters in tags"
        return UnsupportedError(message, pointer=at, keyword=keyword, remedy=remedy)


def _types(told: Mapping[str, Any]) -> tuple[str, ...]:
    types = told.get("type", _TYPES)
    return (types,) if isinstance(types, str) else tuple(types)


def _any_of(languages: Iterable[Language]) -> Node:
    return Choice(tuple(Regex(language) for language in languages if not language.is_empty))
