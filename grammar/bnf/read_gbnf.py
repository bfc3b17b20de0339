"""Reads GBNF, as llama.cpp has it, and EBNF as xgrammar has it, which is GBNF with options and macros.

The two differ here in what a grammar may hold, not in how it is read: EBNF knows rule options (`rule[capture] ::=`),
macros (`Regex`, `Substring`, `TagDispatch`, `Token`, `ExcludeToken`, `TokenTagDispatch`) and `[^]`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from collections.abc import Sequence as SequenceOf
from typing import Any, Final

from ..errors import UnsupportedError
from ..regular import ALL
from . import source as reading
from .ir import (
    Capture,
    Chars,
    Free,
    Grammar,
    Node,
    Place,
    Reference,
    Shortest,
    Tag,
    Text,
    Token,
)
from .lalr import Parser
from .lalr import Token as Word
from .macros import MAX_CHARACTERS, bare_in_json, bounded, dispatch_on_tokens, substrings
from .source import Source

# Terminals of higher priority are tried first: those that are frequent.
_SYNTAX: Final = r"""
start: rule*
rule: HEAD choice
    | HEAD choice AHEAD choice ")" -> rule_before
?choice: sequence ("|" sequence)*
?sequence: _items?
_items: atom | _items atom | _items QUANTIFIER
?atom: STRING -> text
     | CLASS -> class
     | DOT -> dot
     | NAME -> reference
     | "(" choice ")"
     | TOKEN -> token
     | MACRO "(" (argument ("," argument)*)? ")" -> macro
argument: (NAME "=")? value
?value: STRING -> string
      | INTEGER -> integer
      | NAME -> name
      | "(" (value ("," value)* ","?)? ")" -> tuple

STRING.5: /"[^"\\\n]*+(\\.[^"\\\n]*+)*+"/
VBAR.4: "|"
AHEAD.5: /\(\s*+=/
LPAR.4: "("
RPAR.4: ")"
QUANTIFIER.4: /[*+?]|\{\s*+[0-9]*+\s*+(,\s*+[0-9]*+\s*+)?\}/
CLASS.4: /\[\^?[^\]\\]*+(\\.[^\]\\]*+)*+\]/
HEAD.3: /[A-Za-z0-9_\-]++(\.[A-Za-z0-9_\-]++)*+\s*+(\[("[^"\\]*+(\\.[^"\\]*+)*+"|[^\]"])*+\]\s*+)?::=/
INTEGER.2: /[0-9]++(?![A-Za-z_.\-])/
MACRO.2: /(Regex|Substring|TagDispatch|TokenTagDispatch|Token|ExcludeToken)(?=\s*+\()/
NAME: /[A-Za-z0-9_\-]++(\.[A-Za-z0-9_\-]++)*+/
DOT: "."
TOKEN: /!?<(\[[0-9]+\]|[^<>\s\[][^<>\s]*)>/
COMMENT: /#[^\n]*+/
%ignore COMMENT
%ignore /\s++/
"""
_NAMES: Final = {
    "HEAD": "a rule (name ::=)", "MACRO": "", "NAME": "a rule's name", "INTEGER": "a number",
    "STRING": '"text"', "CLASS": "[characters]", "DOT": "'.'", "QUANTIFIER": "a repetition", "TOKEN": "<token>",
    "AHEAD": "", "LPAR": "'('", "RPAR": "')'", "VBAR": "'|'", "COMMA": "','", "EQUAL": "'='",
    "END_OF_TEXT": "the end",
}  # fmt: skip
_OPTION: Final = re.compile(r'\s*+([A-Za-z_]++)\s*+(?:=\s*+("(?:\\.|[^"\\])*"|[^,"\]\s]+))?\s*+(,|$)')


_PARSER: Final = Parser(_SYNTAX)


def read_gbnf(text: str, *, start: str = "root", syntax: str = "gbnf") -> Grammar:
    """The grammar of a GBNF or EBNF text (`syntax` "gbnf" or "ebnf"). Raises GrammarTextError, UnsupportedError."""
    source = Source(text, syntax)
    reader = _Reader(source, ebnf=syntax == "ebnf")
    reading.parse(_PARSER, source, text, _NAMES, reader.handlers)
    if start not in reader.rules:
        named = f"; the first rule is {next(iter(reader.rules))!r}" if reader.rules else ""
        raise source.error(f"there is no rule {start!r} to start with{named}", len(text), f"define {start} ::= ...")
    return Grammar(reader.rules, start, syntax, reader.places)


class _Reader:
    def __init__(self, source: Source, *, ebnf: bool) -> None:
        self._source = source
        self._ebnf = ebnf
        self.rules: dict[str, Node] = {}
        self.places: dict[str, Place] = {}
        self.handlers: Mapping[str, Callable[[list[Any]], Any]] = {
            "start": lambda children: None,
            "rule": self._rule,
            "rule_before": self._rule_before,
            "choice": reading.choice,
            "sequence": self._sequence,
            "text": self._text,
            "class": self._class,
            "dot": lambda children: Chars(ALL),
            "reference": self._reference,
            "token": self._token,
            "macro": self._macro,
            "argument": lambda children: (str(children[0]) if len(children) > 1 else "", children[-1]),
            "string": lambda children: self._string(children[0]),
            "integer": lambda children: int(children[0]),
            "name": self._name,
            "tuple": tuple,
        }

    def _place(self, token: Word) -> Place:
        return self._source.place(token.start_pos)

    def _string(self, token: Word) -> str:
        return reading.unescape(self._source, token[1:-1], token.start_pos + 1, "[]?" if self._ebnf else "[]")

    def _text(self, children: list[Word]) -> Text:
        return Text(self._string(children[0]))

    def _reference(self, children: list[Word]) -> Reference:
        return Reference(children[0], Place(self._source, children[0].start_pos))

    def _class(self, children: list[Word]) -> Chars:
        return reading.character_class(self._source, children[0], any_if_empty=self._ebnf)

    def _sequence(self, children: list[Any]) -> Node:
        return reading.sequence(self._source, children)

    def _name(self, children: list[Any]) -> Reference | bool:
        name = str(children[0])
        return name == "true" if name in ("true", "false") else Reference(name, self._place(children[0]))

    def _token(self, children: list[Any]) -> Node:
        token = children[0]
        negated = token.startswith("!")
        name = token[1:] if negated else str(token)
        if name.startswith("<["):
            return Token(ids=frozenset({int(name[2:-2])}), negated=negated, place=self._place(token))
        return Token(names=frozenset({name}), negated=negated, place=self._place(token))

    def _rule(self, children: list[Any]) -> None:
        head, body = children
        name, place = head[:-3].rstrip(), self._place(head)
        if name.endswith("]"):
            name, _, options = name.partition("[")
            body = self._with_options(body, name.rstrip(), "[" + options, head.start_pos + len(name))
            name = name.rstrip()
        if name in self.rules:
            before = self.places[name]
            raise self._source.error(f"the rule {name!r} is defined twice, first in line {before.line}", place)
        self.rules[name] = body
        self.places[name] = place

    def _rule_before(self, children: list[Any]) -> None:
        """A rule with a look-ahead assertion, which says what comes after it. That is known from where it is called."""
        head, body, ahead, _ = children
        if not self._ebnf:
            message = "look-ahead assertions, as (= ...), are EBNF's, not GBNF's"
            raise self._source.error(message, self._place(ahead), "leave it out")
        self._rule([head, body])

    def _with_options(self, body: Node, name: str, written: str, at: int) -> Node:
        """A body under the options between a rule's name and `::=`."""
        place = self._source.place(at)
        if not self._ebnf:
            raise self._source.error("rule options are EBNF's, not GBNF's", place, 'read the grammar as syntax="ebnf"')
        inside = written[1:-1]
        given: dict[str, str | None] = {}
        at = 0
        while at < len(inside):
            match = _OPTION.match(inside, at)
            if match is None:
                raise self._source.error(f"malformed rule options {written!r}", place)
            option, value = match[1], match[2]
            at = match.end()
            if option in given:
                raise self._source.error(f"the rule option {option!r} is given twice", place)
            given[option] = value
            if option in ("max_tokens", "temperature"):
                raise UnsupportedError(
                    f"line {place.line}, column {place.column}: the rule option {option!r} is not supported",
                    keyword=option,
                    remedy="bound the text with max_chars; the temperature is the request's",
                )
            if option not in ("capture", "lazy", "max_chars") or (option == "lazy" and value is not None):
                raise self._source.error(f"unknown rule option {match[0].strip(' ,')!r}", place)
        if "max_chars" in given:
            most = given["max_chars"] or ""
            if not most.isascii() or not most.isdigit() or int(most) > MAX_CHARACTERS:
                raise self._source.error(f"max_chars is a number up to {MAX_CHARACTERS}", place)
            body = bounded(body, int(most), place)
        if "lazy" in given:
            body = Shortest(body, place)
        if "capture" in given:
            called = name if given["capture"] is None else given["capture"].strip('"')
            if not called:
                raise self._source.error("a capture without a name", place)
            body = Capture(called, body)
        return body

    def _macro(self, children: list[Any]) -> Node:
        name, place = str(children[0]), self._place(children[0])
        if not self._ebnf:
            raise self._source.error(f"the macro {name} is EBNF's, not GBNF's", place, 'read it as syntax="ebnf"')
        given = [value for key, value in children[1:] if not key]
        named = {key: value for key, value in children[1:] if key}
        arguments = _Arguments(self._source, name, place, given, named)
        match name:
            case "Regex":
                node = self._regex(arguments)
            case "Substring":
                node = substrings(arguments.all_of(str))
            case "Token" | "ExcludeToken":
                node = Token(frozenset(arguments.all_of(int, least=1)), negated=name == "ExcludeToken", place=place)
            case "TagDispatch":
                node = self._dispatch(arguments)
            case _:
                node = self._dispatch_on_tokens(arguments)
        arguments.done()
        return node

    def _regex(self, arguments: _Arguments) -> Node:
        (pattern,) = arguments.all_of(str, least=1, most=1)
        flags = arguments.named.pop("flags", None)
        # Without flags, xgrammar's dot is any character; with them it stops at line ends unless they say "s".
        node = reading.regex(self._source, pattern, "s" if flags is None else str(flags), arguments.place)
        return bare_in_json(node, arguments.place) if arguments.flag("json_string", False) else node

    def _dispatch(self, arguments: _Arguments) -> Node:
        pairs = arguments.pairs(str)
        excludes = arguments.named_tuple("excludes", str)
        loop = arguments.flag("loop_after_dispatch", True)
        if any(not text for text in (*excludes, *(tag for tag, _ in pairs))):
            raise arguments.error("tags and excluded texts are not empty")
        for text in excludes:
            for tag, _ in pairs:
                if text in tag:
                    raise arguments.error(f"the excluded text {text!r} is part of {tag!r}, which could then never come")
        tags = tuple(Tag(tag, rule, "") for tag, rule in pairs)
        return Free(tuple(tag for tag, _ in pairs), tags, False, not loop, tuple(excludes))

    def _dispatch_on_tokens(self, arguments: _Arguments) -> Node:
        pairs = arguments.pairs(int)
        excludes = frozenset(arguments.named_tuple("excludes", int))
        for number, _ in pairs:
            if number in excludes:
                raise arguments.error(f"the token {number} is a trigger and excluded")
        triggered = [(Token(frozenset({number})), rule) for number, rule in pairs]
        return dispatch_on_tokens(triggered, Token(excludes), loop=arguments.flag("loop_after_dispatch", True))


class _Arguments:
    """What a macro was called with."""

    def __init__(self, source: Source, name: str, place: Place, given: list[Any], named: dict[str, Any]) -> None:
        self._source = source
        self._name = name
        self.place = place
        self._given = given
        self.named = named

    def error(self, message: str) -> Exception:
        return self._source.error(f"{self._name}: {message}", self.place)

    def all_of(self, kind: type, *, least: int = 0, most: int | None = None) -> list[Any]:
        if len(self._given) < least or (most is not None and len(self._given) > most):
            wanted = f"{least}" if most == least else f"{least} or more"
            raise self.error(f"{len(self._given)} arguments where {wanted} belong")
        return [self._checked(value, kind) for value in self._given]

    def pairs(self, kind: type) -> list[tuple[Any, Node]]:
        for value in self._given:
            if not (isinstance(value, tuple) and len(value) == 2 and isinstance(value[1], Reference)):
                raise self.error("each argument is a pair of a tag and a rule's name")
        return [(self._checked(tag, kind), rule) for tag, rule in self._given]

    def named_tuple(self, key: str, kind: type) -> SequenceOf[Any]:
        value = self.named.pop(key, ())
        if not isinstance(value, tuple):
            raise self.error(f"{key} is a tuple, as ({value!r},)")
        return [self._checked(item, kind) for item in value]

    def flag(self, key: str, default: bool) -> bool:
        value = self.named.pop(key, default)
        if not isinstance(value, bool):
            raise self.error(f"{key} is true or false")
        return value

    def done(self) -> None:
        if self.named:
            raise self.error(f"unknown argument {next(iter(self.named))!r}")

    def _checked(self, value: Any, kind: type) -> Any:
        if not isinstance(value, kind) or isinstance(value, bool):
            raise self.error(f"{value!r} where a {'text' if kind is str else 'token id'} belongs")
        return value
