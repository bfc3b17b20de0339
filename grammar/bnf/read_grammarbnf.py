"""Reads GrammarBNF, the product's own format. `docs/grammarbnf.md` is its manual.

    %import numbers.integer
    root  ::= "answer: " integer (", " word){0,3} @reason(/[^\\n]+/)?
    word  ::= [a-z]{1,20} & ~("yes" | "no")       # any short word but two
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from ..regular import ALL
from . import source as reading
from .files import PASSED_OVER, SCHEMA
from .imports import Imports
from .ir import (
    Both,
    Capture,
    Chars,
    Free,
    Grammar,
    JsonSchema,
    Node,
    Not,
    Place,
    Reference,
    Shortest,
    Tag,
    Text,
)
from .lalr import Parser
from .lalr import Token as Word
from .source import Source
from .token_names import token

_SYNTAX: Final = r"""
start: (import_ | begin | rule)*
import_: "%import" NAME ("as" NAME)?
begin: "%start" NAME
rule: HEAD choice
?choice: both ("|" both)*
?both: sequence (AND sequence)*
?sequence: _items?
_items: prefixed | _items prefixed | _items QUANTIFIER
?prefixed: atom | NOT prefixed -> complement
?atom: STRING -> text
     | REGEX -> regex
     | CLASS -> class
     | DOT -> dot
     | NAME -> reference
     | TOKEN -> token
     | "(" choice ")"
     | "@" NAME "(" choice ")" -> capture
     | SHORTEST "(" choice ")" -> shortest
     | SCHEMA "(" (JSON | STRING) ("," option)* ")" -> schema
     | TAGS "(" (tag | option) ("," (tag | option))* ")" -> tags
tag: TAG "(" STRING "," choice "," STRING ")"
option: NAME "=" (NAME | INTEGER | STRING | "(" STRING ("," STRING)* ","? ")")

STRING.5: /"[^"\\\n]*+(\\.[^"\\\n]*+)*+"i?/
VBAR.4: "|"
LPAR.4: "("
RPAR.4: ")"
QUANTIFIER.4: /[*+?]|\{\s*+[0-9]*+\s*+(,\s*+[0-9]*+\s*+)?\}/
CLASS.4: /\[\^?[^\]\\]*+(\\.[^\]\\]*+)*+\]/
HEAD.3: /[A-Za-z_][A-Za-z0-9_\-]*+\s*+::=/
SHORTEST.2: /shortest(?=\s*+\()/
SCHEMA.2: /json_schema(?=\s*+\()/
TAGS.2: /tags(?=\s*+\()/
TAG.2: /tag(?=\s*+\()/
NAME: /[A-Za-z_][A-Za-z0-9_\-]*+(\.[A-Za-z_][A-Za-z0-9_\-]*+)*+/
INTEGER: /[0-9]++/
REGEX: /\/([^\/\\\n\[]|\\.|\[[^\]\\\n]*+(\\.[^\]\\\n]*+)*+\])++\/[is]*/
DOT: "."
AND: "&"
NOT: "~"
TOKEN: /!?<(\[[^\]\n]*+\]|[^<>\s\[][^<>\s]*+)>/
JSON: /[\ue000-\uf8ff]/
COMMENT: /#[^\n]*+/
%ignore COMMENT
%ignore /\s++/
"""
_NAMES: Final = {
    "HEAD": "a rule (name ::=)", "SHORTEST": "", "SCHEMA": "json_schema(...)", "TAGS": "tags(...)", "TAG": "tag(...)",
    "NAME": "a name", "INTEGER": "a number", "STRING": '"text"', "REGEX": "/regex/", "CLASS": "[characters]",
    "DOT": "'.'", "QUANTIFIER": "a repetition", "TOKEN": "<token>", "JSON": "JSON", "LPAR": "'('", "RPAR": "')'",
    "VBAR": "'|'", "COMMA": "','", "EQUAL": "'='", "NOT": "'~'", "AND": "'&'", "AT": "'@'",
    "AS": "'as'", "END_OF_TEXT": "the end",
}  # fmt: skip
_INLINE: Final = re.compile(rf"{PASSED_OVER}|{SCHEMA}(?P<json>[\[{{]|true\b|false\b)")
_FIRST_PLACE: Final = 0xE000
_MOST_SCHEMAS: Final = 0xF8FF - _FIRST_PLACE
_DECODER: Final = json.JSONDecoder()
_JSON_OPTIONS: Final = frozenset({"order", "whitespace", "spelling", "formats", "dialect", "max_digits"})
_FLAGS: Final = ("at_least_one", "stop_after_first", "whole_words")


_PARSER: Final = Parser(_SYNTAX)


def read_grammarbnf(text: str, *, start: str | None = None) -> Grammar:
    """The grammar of a GrammarBNF text. `start` goes before the text's `%start`, and that before `root`.

    Raises GrammarTextError with line and column.
    """
    source = Source(text, "grammarbnf")
    blanked, schemas = _without_json(source)
    reader = _Reader(source, schemas)
    reading.parse(_PARSER, source, blanked, _NAMES, reader.handlers)
    rules = reader.imports.add_to(reader.rules)
    begin = start or reader.start
    if begin not in rules:
        raise source.error(f"there is no rule {begin!r} to start with", len(text), "define it, or say %start rule")
    return Grammar(rules, begin, "grammarbnf", reader.places)


def _without_json(source: Source) -> tuple[str, list[Any]]:
    """The text with each inline schema replaced by one private character and blanks, and the schemas."""
    text = source.text
    if "json_schema" not in text:
        return text, []
    out: list[str] = []
    schemas: list[Any] = []
    done = at = 0
    while (match := _INLINE.search(text, at)) is not None:
        at = match.end()
        start = match.start("json")
        if start < 0:
            continue
        try:
            schema, at = _DECODER.raw_decode(text, start)
        except ValueError as error:
            wrong = getattr(error, "msg", str(error))
            raise source.error(f"the JSON Schema: {wrong}", getattr(error, "pos", start)) from None
        except RecursionError:
            raise source.error("the JSON Schema nests too deep", start) from None
        if len(schemas) >= _MOST_SCHEMAS:
            raise source.error(f"more than {_MOST_SCHEMAS} schemas in one grammar", start)
        out += [text[done:start], chr(_FIRST_PLACE + len(schemas)), " " * (at - start - 1)]
        schemas.append(schema)
        done = at
    return "".join((*out, text[done:])), schemas


class _Reader:
    def __init__(self, source: Source, schemas: list[Any]) -> None:
        self._source = source
        self._schemas = schemas
        self.start = "root"
        self.rules: dict[str, Node] = {}
        self.places: dict[str, Place] = {}
        self.imports = Imports(read_grammarbnf)
        self.handlers: Mapping[str, Callable[[list[Any]], Any]] = {
            "start": lambda children: None,
            "import_": self._import,
            "begin": self._begin,
            "rule": self._rule,
            "choice": reading.choice,
            "both": self._both,
            "sequence": self._sequence,
            "complement": lambda children: Not(children[1], self._place(children[0])),
            "text": self._text,
            "regex": lambda children: reading.regex_literal(self._source, children[0]),
            "class": self._class,
            "dot": lambda children: Chars(ALL),
            "reference": lambda children: Reference(children[0], self._place(children[0])),
            "token": lambda children: token(self._source, str(children[0]), self._place(children[0])),
            "capture": lambda children: Capture(str(children[0]), children[1]),
            "shortest": lambda children: Shortest(children[1], self._place(children[0])),
            "schema": self._schema,
            "tag": lambda children: Tag(self._string(children[1]), children[2], self._string(children[3])),
            "option": self._option,
            "tags": self._tags,
        }

    def _place(self, token: Word) -> Place:
        return self._source.place(token.start_pos)

    def _string(self, token: Word) -> str:
        if token.endswith("i"):
            raise self._source.error("this text cannot be without regard to case", token.start_pos)
        return reading.unescape(self._source, token[1:-1], token.start_pos + 1)

    def _import(self, children: list[Any]) -> None:
        name, alias = str(children[0]), str(children[-1]) if len(children) > 1 else None
        self.imports.want(self._source, name, alias, self._place(children[0]))

    def _begin(self, children: list[Any]) -> None:
        self.start = str(children[0])

    def _rule(self, children: list[Any]) -> None:
        head, body = children
        name = head[:-3].rstrip()
        if name in self.rules:
            before = self.places[name]
            raise self._source.error(f"the rule {name!r} is defined twice, first in line {before.line}", head.start_pos)
        self.rules[name] = body
        self.places[name] = self._place(head)

    def _both(self, children: list[Any]) -> Both:
        return Both(tuple(children[::2]), self._place(children[1]))

    def _sequence(self, children: list[Any]) -> Node:
        return reading.sequence(self._source, children)

    def _text(self, children: list[Any]) -> Node:
        token = children[0]
        if token.endswith("i"):
            text = reading.unescape(self._source, token[1:-2], token.start_pos + 1)
            return reading.regex(self._source, reading.quoted(text), "i", token.start_pos)
        return Text(self._string(token))

    def _class(self, children: list[Any]) -> Chars:
        return reading.character_class(self._source, children[0], any_if_empty=False)

    def _option(self, children: list[Any]) -> tuple[Word, Any]:
        name, *values = children
        if len(values) != 1 or values[0].type == "STRING":
            texts = tuple(self._string(value) for value in values)
            return name, texts[0] if len(texts) == 1 else texts
        value = str(values[0])
        if value in ("true", "false"):
            return name, value == "true"
        if values[0].type == "INTEGER":
            return name, int(value)
        raise self._source.error(f"{value!r} where true, false, a number or a text belongs", values[0].start_pos)

    def _schema(self, children: list[Any]) -> Node:
        keyword, given, *options = children
        place = self._place(keyword)
        for name, _ in options:
            if name not in _JSON_OPTIONS:
                known = ", ".join(sorted(_JSON_OPTIONS))
                raise self._source.error(f"json_schema has no option {str(name)!r}", name.start_pos, f"one of {known}")
        if given.type == "STRING":
            raise self._source.error(
                "schemas in files are not read here",
                given.start_pos,
                "write the schema inside json_schema(), or name the folder that they are in",
            )
        schema = self._schemas[ord(given) - _FIRST_PLACE]
        return JsonSchema(schema, {str(name): value for name, value in options}, place)

    def _tags(self, children: list[Any]) -> Node:
        keyword, *parts = children
        tags = tuple(part for part in parts if isinstance(part, Tag))
        options = {str(part[0]): part for part in parts if not isinstance(part, Tag)}
        flags = {name: self._flag(options.pop(name, None)) for name in _FLAGS}
        triggers = self._texts(options.pop("triggers", None)) or tuple(dict.fromkeys(tag.begin for tag in tags))
        excludes = self._texts(options.pop("excludes", None))
        if options:
            name = next(iter(options.values()))[0]
            raise self._source.error(f"tags has no option {str(name)!r}", name.start_pos)
        if not tags:
            raise self._source.error("tags without a tag(...)", keyword.start_pos)
        for tag in tags:
            if not tag.begin.startswith(triggers):
                raise self._source.error(f"no trigger begins the tag {tag.begin!r}", keyword.start_pos)
        if "" in triggers or "" in excludes:
            raise self._source.error("triggers and excluded texts are not empty", keyword.start_pos)
        return Free(triggers, tags, excludes=excludes, **flags)

    def _flag(self, option: tuple[Word, Any] | None) -> bool:
        if option is None:
            return False
        name, value = option
        if not isinstance(value, bool):
            raise self._source.error(f"{name} is true or false", name.start_pos)
        return value

    def _texts(self, option: tuple[Word, Any] | None) -> tuple[str, ...]:
        if option is None:
            return ()
        name, value = option
        if isinstance(value, str):
            return (value,)
        if not isinstance(value, tuple):
            raise self._source.error(f"{name} is a text or several in brackets", name.start_pos)
        return value
