"""Reads grammars in Lark's syntax with llguidance's extensions.

Lower-case names are rules, upper-case ones terminals; what `%ignore` names may stand after every lexeme of a rule, and
nowhere in a terminal. Every way to split a text into lexemes is followed, as Lark's `dynamic_complete` lexer does, so
priorities decide nothing here and are read and left; but calls in free text begin at their triggers (`lark_calls`).
`?`, `!` and `->` shape trees, which there are none of.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from ..errors import UnsupportedError
from ..regular import CharSet
from . import source as reading
from .ir import (
    Both,
    Capture,
    Chars,
    Choice,
    Grammar,
    JsonSchema,
    Node,
    Not,
    Place,
    Reference,
    Repeat,
    Sequence,
    Shortest,
    Text,
)
from .lalr import Parser
from .lalr import Token as Word
from .lark_calls import with_calls
from .lark_common import COMMON
from .lark_layout import Layout
from .macros import MAX_CHARACTERS, bounded, substrings
from .source import Nested, Source
from .token_names import token
from .walk import mapped, references, renamed

# Terminals of higher priority are tried first: those that are frequent.
_SYNTAX: Final = r"""
start: _NL* (item _NL+)* item?
?item: definition | ignore | import_one | import_many | options | refused
definition: (RULE | TERMINAL) attributes? PRIORITY? ":" choice
attributes: "[" attribute ("," attribute)* "]"
attribute: RULE ("=" (STRING | REGEX | TERMINAL | NUMBER))?
ignore: "%ignore" choice
import_one: "%import" path ("->" (TERMINAL | RULE))?
import_many: "%import" path "(" (TERMINAL | RULE) ("," (TERMINAL | RULE))* ")"
path: (RULE | TERMINAL) ("." (RULE | TERMINAL))*
options: OPTIONS
refused: DIRECTIVE | TEMPLATE

?choice: both (_VBAR both)*
?both: sequence (AND sequence)*
?sequence: _items?
         | _items? "->" (RULE | TERMINAL) -> named
_items: prefixed | _items prefixed | _items QUANTIFIER
?prefixed: atom | NOT prefixed -> complement
?atom: STRING ".." STRING -> range
     | STRING -> text
     | REGEX -> regex
     | (RULE | TERMINAL) -> name
     | SPECIAL -> special
     | JSON -> json
     | REGEXJSON -> regex_json
     | GRAMMAR -> grammar
     | NESTED -> nested
     | "(" choice ")"
     | "[" choice "]" -> maybe

_NL.4: /(\r?\n[ \t]*+)++/
_VBAR.4: "|"
LPAR.4: "("
RPAR.4: ")"
AND: "&"
NOT: "~"
RULE: /[!?]{0,2}_?[a-z][_a-z0-9\-]*/
TERMINAL: /_?[A-Z][_A-Z0-9\-]*/
PRIORITY: /\.-?[0-9]+/
NUMBER: /[0-9]+(\.[0-9]+)?/
STRING.5: /"[^"\\\n]*+(\\.[^"\\\n]*+)*+"i?/
REGEX.4: /\/([^\/\\\n]|\\.)++\/[imslux]*/
SPECIAL: /<[^<>\s]+>/
QUANTIFIER.2: /[*+?]|~\s*+[0-9]++(\s*+\.\.\s*+[0-9]++)?|\{\s*+[0-9]*+\s*+(,\s*+[0-9]*+\s*+)?\}/
JSON: /%json@[0-9]+/
REGEXJSON: /%regex@[0-9]+/
NESTED: /%lark@[0-9]+/
OPTIONS: /%(llguidance|grammar_options)@[0-9]+/
GRAMMAR: /@[A-Za-z0-9_\-]+/
DIRECTIVE.3: /%(declare|override|extend)\b[^\n]*/
TEMPLATE.3: /[!?]{0,2}_?[a-zA-Z][_a-zA-Z0-9\-]*\{\s*[_a-zA-Z][^\n]*/
%ignore /[ \t\r]+/
"""
_NAMES: Final = {
    "_NL": "a line end", "_VBAR": "'|'", "RULE": "a rule's name", "TERMINAL": "a terminal's name", "PRIORITY": "",
    "NUMBER": "a number", "STRING": '"text"', "REGEX": "/regex/", "SPECIAL": "<token>", "QUANTIFIER": "a repetition",
    "JSON": "%json", "REGEXJSON": "%regex", "NESTED": "%lark", "OPTIONS": "",
    "GRAMMAR": "", "DIRECTIVE": "", "TEMPLATE": "",
    "LPAR": "'('", "RPAR": "')'", "LSQB": "'['", "RSQB": "']'", "COLON": "':'", "COMMA": "','", "NOT": "'~'",
    "AND": "'&'", "EQUAL": "'='", "DOT": "'.'", "END_OF_TEXT": "the end",
}  # fmt: skip
_OPTIONS: Final = frozenset({"no_forcing", "allow_initial_skip", "ignore_once", "allow_invalid_utf8"})
_SKIP: Final = "%ignore"  # no name of a text's own
_MAX_NESTED: Final = 10
_NOTHING: Final = Text("")


_PARSER: Final = Parser(_SYNTAX)


def read_lark(text: str, *, start: str = "start") -> Grammar:
    """The grammar of a Lark text. Raises GrammarTextError with the place, UnsupportedError for what is not done."""
    return _read(Source(text, "lark"), start, 0)


def _read(source: Source, start: str, depth: int) -> Grammar:
    layout = Layout(source)
    reader = _Reader(source, layout)
    reading.parse(_PARSER, source, layout.text, _NAMES, reader.handlers)
    for number, inner in reader.nested.items():
        if depth == _MAX_NESTED:
            raise inner.error(f"grammars nest deeper than {_MAX_NESTED} levels", 0, "write rules")
        reader.add(number, _read(inner, "start", depth + 1))
    rules = reader.finish()
    if start not in rules:
        end = len(source.text)
        raise source.error(f"there is no rule {start!r} to start with", end, f"define {start}: ...")
    if reader.skip_first:
        rules[" start"] = Sequence((Reference(_SKIP), Reference(start)))
        start = " start"
    return Grammar(rules, start, "lark", reader.places)


class _Reader:
    def __init__(self, source: Source, layout: Layout) -> None:
        self._source = source
        self._values = layout.values
        self._rules: dict[str, Node] = {}
        self._ignored: list[Node] = []
        self.nested: dict[int, Nested] = {}
        self._once = False
        self.skip_first = False
        self.places: dict[str, Place] = {}
        self.handlers: Mapping[str, Callable[[list[Any]], Any]] = {
            "start": lambda children: None,
            "definition": self._definition,
            "attributes": lambda children: children,
            "attribute": tuple,
            "ignore": lambda children: self._ignored.append(children[0]),
            "import_one": lambda children: self._import(children[0][:-1], children[0][-1:], children[1:]),
            "import_many": lambda children: self._import(children[0], children[1:], []),
            "path": list,
            "options": self._options,
            "refused": self._refused,
            "choice": reading.choice,
            "both": self._both,
            "sequence": self._sequence,
            "named": lambda children: self._sequence(children[:-1]),
            "complement": lambda children: Not(children[1], self._place(children[0])),
            "range": self._range,
            "text": lambda children: self._text(children[0]),
            "regex": lambda children: reading.regex_literal(self._source, children[0]),
            "name": lambda children: Reference(_plain(children[0]), self._place(children[0])),
            "special": self._special,
            "json": self._json,
            "regex_json": self._regex_json,
            "grammar": self._grammar,
            "nested": self._nested,
            "maybe": lambda children: Repeat(children[0], 0, 1),
        }

    def _place(self, token: Word) -> Place:
        return self._source.place(token.start_pos)

    def add(self, number: int, grammar: Grammar) -> None:
        """Adds a nested grammar's rules. To the rules around, all of it is one terminal, whose name is free."""
        prefix = _nested_name(number) + " "
        self._rules[_nested_name(number)] = Reference(prefix + grammar.start)
        for name, rule in grammar.rules.items():
            for part in references(rule):
                if part.name not in grammar.rules:
                    raise self._source.error(f"the rule {part.name!r} is not defined", part.place)
            self._rules[prefix + name] = renamed(rule, prefix.__add__)
        self.places.update({prefix + name: place for name, place in grammar.places.items()})

    def finish(self) -> dict[str, Node]:
        """All rules, with what is ignored put after the lexemes of rules."""
        for name, body in self._rules.items():
            if _is_terminal(name):
                self._check_terminals(body, f"the terminal {name!r} refers to", "terminals are made of terminals")
        for body in self._ignored:
            self._check_terminals(body, "%ignore refers to", "only terminals are ignored")
        self._rules = with_calls(self._rules)
        if self._ignored:
            skip = reading.choice(self._ignored)
            self._rules[_SKIP] = Repeat(skip, 0, 1 if self._once else None)
            for name in list(self._rules):
                if name != _SKIP and not _is_terminal(name):
                    self._rules[name] = _spaced(self._rules[name])
        else:
            self.skip_first = False
        return self._rules

    def _check_terminals(self, body: Node, what: str, why: str) -> None:
        for part in references(body):
            if not _is_terminal(part.name):
                remedy = "write its name with capitals wherever it stands"
                raise self._source.error(f"{what} the rule {part.name!r}: {why}", part.place, remedy)

    def _definition(self, children: list[Any]) -> None:
        head, body = children[0], children[-1]
        name = _plain(head)
        place = self._place(head)
        if name in self._rules:
            raise self._source.error(f"{name!r} is defined twice", place)
        if name == "start" or not _is_terminal(name):
            for part in children[1:-1]:
                if isinstance(part, list):
                    body = self._with_attributes(body, name, part, place)
        elif any(isinstance(part, list) for part in children[1:-1]):
            raise self._source.error(f"the terminal {name!r} has attributes, which only rules have", place)
        self._rules[name] = body
        self.places[name] = place

    def _with_attributes(self, body: Node, name: str, attributes: list[tuple[Any, ...]], place: Place) -> Node:
        given: dict[str, Any] = {str(attribute[0]): attribute[-1] for attribute in attributes}
        lazy = "lazy" in given
        if "max_chars" in given:
            most = str(given["max_chars"])
            if not most.isdigit() or int(most) > MAX_CHARACTERS:
                raise self._source.error(f"max_chars is a number up to {MAX_CHARACTERS}", place)
            body = bounded(body, int(most), place)
        for key in ("suffix", "stop"):
            if key in given:
                ending = self._ending(given[key], key, place)
                body, lazy = Sequence((body, ending)), True
        if lazy:
            body = Shortest(body, place)
        for attribute in attributes:
            key = str(attribute[0])
            if key == "capture":
                body = Capture(name if len(attribute) == 1 else self._string(attribute[1]), body)
            elif key in ("max_tokens", "temperature", "stop_capture"):
                raise UnsupportedError(
                    f"line {place.line}, column {place.column}: the attribute {key!r} is not supported",
                    keyword=key,
                    remedy="bound the text with max_chars; the temperature is the request's",
                )
            elif key not in ("lazy", "suffix", "stop", "max_chars"):
                raise self._source.error(f"unknown attribute {key!r}", place)
        return body

    def _ending(self, token: Any, key: str, place: Place) -> Node:
        ending: Node
        if token.type == "STRING":
            ending = self._text(token)
        elif token.type == "REGEX":
            ending = reading.regex_literal(self._source, token)
        elif token.type == "TERMINAL":
            ending = Reference(str(token), self._place(token))
        else:
            raise self._source.error(f"{key} is a text, a regular expression or a terminal", place)
        if token == '""':
            raise self._source.error(f'{key}="" is not supported: the end of the text ends the last rule anyway', place)
        return ending

    def _import(self, path: list[Any], names: list[Any], alias: list[Any]) -> None:
        for name in names:
            at = name.start_pos
            if [str(part) for part in path] != ["common"]:
                written = ".".join(str(part) for part in (*path, name))
                raise self._source.error(f"cannot import {written}: only common.NAME is known", at)
            found = COMMON.get(str(name))
            if found is None:
                raise self._source.error(f"common has no {str(name)!r}", at, f"there are {', '.join(sorted(COMMON))}")
            target = str(alias[0]) if alias else str(name)
            if target in self._rules:
                raise self._source.error(f"{target!r} is defined twice", at)
            self._rules[target] = reading.regex(self._source, found, "", at)
            self.places[target] = self._place(name)

    def _options(self, children: list[Any]) -> None:
        token = children[0]
        options = self._value(token)
        if not isinstance(options, dict):
            raise self._source.error("grammar options are a JSON object", token.start_pos)
        for key, value in options.items():
            if key not in _OPTIONS or not isinstance(value, bool):
                raise self._source.error(f"unknown grammar option {key!r}: {value!r}", token.start_pos)
        self._once = options.get("ignore_once", self._once)
        self.skip_first = options.get("allow_initial_skip", self.skip_first)

    def _refused(self, children: list[Any]) -> None:
        word = children[0].split()[0]
        what = word if word.startswith("%") else "templates"
        raise self._source.error(f"{what}: not supported", children[0].start_pos, "write the rules out")

    def _both(self, children: list[Any]) -> Both:
        return Both(tuple(children[::2]), self._place(children[1]))

    def _sequence(self, children: list[Any]) -> Node:
        # Texts side by side are not joined: they are lexemes of their own.
        items = reading.repeated(self._source, children)
        return items[0] if len(items) == 1 else Sequence(tuple(items)) if items else Text("")

    def _string(self, token: Word) -> str:
        body = token[1 : token.rindex('"')]
        return reading.unescape(self._source, body, token.start_pos + 1)

    def _text(self, token: Word) -> Node:
        text = self._string(token)
        if token.endswith("i"):
            return reading.regex(self._source, reading.quoted(text), "i", token.start_pos)
        return Text(text)

    def _range(self, children: list[Any]) -> Node:
        low, high = (self._string(token) for token in children)
        if len(low) != 1 or len(high) != 1 or low > high or any(token.endswith("i") for token in children):
            raise self._source.error("a range is between two characters, the lower one first", children[0].start_pos)
        return Chars(CharSet.of((ord(low), ord(high))))

    def _special(self, children: list[Any]) -> Node:
        return token(self._source, str(children[0]), self._place(children[0]))

    def _value(self, token: Word) -> Any:
        return self._values[int(token.rpartition("@")[2])]

    def _json(self, children: list[Any]) -> Node:
        token = children[0]
        schema = self._value(token)
        options: dict[str, Any] = {}
        if isinstance(schema, dict) and "x-guidance" in schema:
            given = schema["x-guidance"]
            schema = {key: value for key, value in schema.items() if key != "x-guidance"}
            if given == {"whitespace_flexible": False}:
                options = {"whitespace": "compact"}
            elif given not in ({}, {"whitespace_flexible": True}):
                raise self._source.error(
                    "of x-guidance only whitespace_flexible is supported", token.start_pos, "leave the others out"
                )
        return JsonSchema(schema, options, place=self._place(token))

    def _regex_json(self, children: list[Any]) -> Node:
        token = children[0]
        value = self._value(token)
        match value:
            case {"substring_chunks": [*chunks]} if len(value) == 1 and all(isinstance(c, str) for c in chunks):
                return substrings(chunks)
            case {"substring_words": str(words)} if len(value) == 1:
                return substrings(re.findall(r"\w+|\s+|[^\w\s]+", words))
            case {"substring_chars": str(chars)} if len(value) == 1:
                return substrings(list(chars))
        raise self._source.error(
            "%regex takes one of substring_chunks, substring_words, substring_chars", token.start_pos
        )

    def _nested(self, children: list[Any]) -> Node:
        token = children[0]
        number = int(token.rpartition("@")[2])
        self.nested[number] = self._values[number]
        return Reference(_nested_name(number), self._place(token))

    def _grammar(self, children: list[Any]) -> Node:
        token = children[0]
        raise self._source.error(f"{token}: grammars beside this one are not known here", token.start_pos, "use %json")


def _plain(token: Word) -> str:
    return token.lstrip("!?")


def _nested_name(number: int) -> str:
    return f"LARK {number}"


def _is_terminal(name: str) -> bool:
    return name.lstrip("_")[:1].isupper()


def _spaced(node: Node) -> Node:
    """A rule's body with what is ignored after each of its lexemes."""
    if isinstance(node, Sequence | Choice | Repeat | Capture):
        return mapped(node, _spaced)
    if node == _NOTHING or (isinstance(node, Reference) and not _is_terminal(node.name)):
        return node
    return Sequence((node, Reference(_SKIP)))
