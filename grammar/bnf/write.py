"""Writes grammars as texts: GrammarBNF says everything, GBNF what llama.cpp knows."""

from __future__ import annotations

import json
import re
from typing import Final

from ..errors import UnsupportedError
from ..regular import ALL, CharSet, Language
from ..regular.dfa import StarDfa
from .ir import (
    Both,
    Capture,
    Chars,
    Choice,
    Free,
    Grammar,
    JsonSchema,
    Node,
    Not,
    Reference,
    Regex,
    Repeat,
    Sequence,
    Shortest,
    Text,
    Token,
)
from .terminals import lower

_SHORT: Final = {"\n": "\\n", "\r": "\\r", "\t": "\\t", "\\": "\\\\"}
_MOST_WORDS: Final = 100
_MOST_STATES: Final = 2000
_CHOICE, _BOTH, _SEQUENCE, _ITEM = range(4)


def write_grammarbnf(grammar: Grammar) -> str:
    """`grammar` in GrammarBNF.

    Raises UnsupportedError for a regular language that has no pattern: a grammar is written as it was read, before
    `terminals.lower`.
    """
    return _Writer(grammar, own=True).text()


def write_gbnf(grammar: Grammar) -> str:
    """`grammar` in GBNF. Regular languages become rules, one for each state of their automata.

    Raises UnsupportedError, naming the rule, for what GBNF cannot say: schemas, free text, sets of tokens.
    """
    return _Writer(lower(grammar), own=False).text()


class _Writer:
    def __init__(self, grammar: Grammar, *, own: bool) -> None:
        self._grammar = grammar
        self._own = own
        self._rule = ""
        self._extra: list[str] = []
        self._names = _names(grammar)

    def text(self) -> str:
        lines = []
        begin = self._names[self._grammar.start]
        if self._own and begin != "root":
            lines.append(f"%start {begin}\n")
        for rule, body in self._grammar.rules.items():
            self._rule = rule
            lines.append(f"{self._names[rule]} ::= {self._node(body, _CHOICE)}")
        if not self._own and begin != "root":
            lines.insert(0, f"root ::= {begin}")
        return "\n".join(lines + self._extra) + "\n"

    def _refuse(self, what: str) -> UnsupportedError:
        return UnsupportedError(
            f"the rule {self._rule!r} holds {what}, which {'GrammarBNF' if self._own else 'GBNF'} cannot say"
        )

    def _node(self, node: Node, level: int) -> str:
        """`node` where what binds looser than `level` needs brackets."""
        match node:
            case Text(text):
                return _quoted(text)
            case Chars(chars):
                return "." if chars is ALL else _class(chars)
            case Reference(name):
                return self._names.get(name, name)
            case Sequence(items):
                return self._join(items, " ", _SEQUENCE, _ITEM, level) if items else '""'
            case Choice(()):
                return self._own_only("~(.*)", "a choice of nothing")
            case Choice(alternatives):
                return self._join(alternatives, " | ", _CHOICE, _BOTH, level)
            case Repeat(item, low, high):
                return self._node(item, _ITEM) + _quantifier(low, high)
            case Token():
                return self._token(node)
            case Capture(name, item):
                return f"@{name}({self._node(item, _CHOICE)})" if self._own else self._node(item, level)
            case Regex():
                return self._regex(node, level)
            case Both(items):
                self._own_only("", "an intersection ('&')")
                return self._join(items, " & ", _BOTH, _SEQUENCE, level)
            case Not(item):
                return self._own_only("~", "a complement ('~')") + self._node(item, _ITEM)
            case Shortest(item):
                return self._own_only("shortest", "a shortest match") + f"({self._node(item, _CHOICE)})"
            case JsonSchema():
                return self._own_only(_schema(node), "a JSON Schema")
            case Free():
                return self._own_only("tags", "free text with tags") + self._tags(node)

    def _token(self, node: Token) -> str:
        mark = "!" if node.negated else ""
        if self._own:
            if not node.ids and not node.names and node.negated:
                return "<[*]>"
            if bool(node.ids) != bool(node.names) and len(node.names) <= 1:
                return mark + (f"<[{_ids(sorted(node.ids))}]>" if node.ids else next(iter(node.names)))
            raise self._refuse("a set of tokens by name and number")
        parts = [f"{mark}<[{number}]>" for number in sorted(node.ids)] + [mark + name for name in sorted(node.names)]
        if not parts or (node.negated and len(parts) > 1):
            raise self._refuse("any token but several")
        return parts[0] if len(parts) == 1 else f"({' | '.join(parts)})"

    def _own_only(self, text: str, what: str) -> str:
        if not self._own:
            raise self._refuse(what)
        return text

    def _join(self, items: tuple[Node, ...], mark: str, here: int, inner: int, level: int) -> str:
        written = mark.join(self._node(item, inner) for item in items)
        return f"({written})" if here < level and len(items) > 1 else written

    def _regex(self, node: Regex, level: int) -> str:
        if self._own and node.source and "\n" not in node.source:
            return "/" + re.sub(r"(?<!\\)((?:\\\\)*)/", r"\1\\/", node.source) + "/"
        words = node.language.words(_MOST_WORDS)
        if words is not None:
            return self._node(Choice(tuple(Text(word) for word in words)), level)
        if isinstance(node.language.dfa, StarDfa):
            return self._node(Repeat(Chars(node.language.dfa.chars), node.language.low, node.language.high), level)
        if self._own:
            raise self._refuse("a regular language without a pattern")
        return self._states(node.language)

    def _states(self, language: Language) -> str:
        """A rule for each state of an automaton, and the name of the first."""
        dfa = language.unbounded().dfa
        first = dfa.start
        assert first is not None  # it has more words than can be listed
        names: dict[int, str] = {}
        waiting = [first]
        while waiting:
            state = waiting.pop()
            if state in names:
                continue
            if len(names) >= _MOST_STATES:
                raise self._refuse(f"a regular language with more than {_MOST_STATES} states")
            names[state] = f"{self._names[self._rule]}-s{len(self._extra) + len(names)}"
            waiting += [target for _, target in dfa.step(state)]
        for state, name in names.items():
            ways = [f"{_class(chars)} {names[target]}" for chars, target in dfa.step(state)]
            self._extra.append(f"{name} ::= {' | '.join(ways + ([chr(34) * 2] if dfa.accepting(state) else []))}")
        return names[first]

    def _tags(self, node: Free) -> str:
        parts = [
            f"tag({_quoted(tag.begin)}, {self._node(tag.content, _CHOICE)}, {_quoted(tag.end)})" for tag in node.tags
        ]
        if node.triggers != tuple(dict.fromkeys(tag.begin for tag in node.tags)):
            parts.append(f"triggers=({', '.join(map(_quoted, node.triggers))},)")
        if node.excludes:
            parts.append(f"excludes=({', '.join(map(_quoted, node.excludes))},)")
        parts += [f"{flag}=true" for flag in ("at_least_one", "stop_after_first", "whole_words") if getattr(node, flag)]
        return f"({', '.join(parts)})"


def _names(grammar: Grammar) -> dict[str, str]:
    """A name without odd characters for each rule."""
    names: dict[str, str] = {}
    taken: set[str] = set()
    for rule in grammar.rules:
        name = re.sub(r"[^A-Za-z0-9_-]", "-", rule).strip("-") or "rule"
        if not (name[0].isalpha() or name[0] == "_"):
            name = f"r-{name}"
        while name in taken:
            name += "-x"
        taken.add(name)
        names[rule] = name
    return names


def _quoted(text: str) -> str:
    return '"' + "".join(_character(char, '"') for char in text) + '"'


def _character(char: str, special: str) -> str:
    if char in _SHORT:
        return _SHORT[char]
    if char in special:
        return "\\" + char
    code = ord(char)
    if char.isprintable():
        return char
    return f"\\x{code:02X}" if code < 256 else f"\\u{code:04X}" if code < 65536 else f"\\U{code:08X}"


def _class(chars: CharSet) -> str:
    inverse = ~chars
    mark, shown = ("^", inverse) if inverse and len(inverse.ranges()) < len(chars.ranges()) else ("", chars)
    out = []
    for low, high in shown.ranges():
        out.append(_class_character(low))
        if high > low:
            out.append(("-" if high > low + 1 else "") + _class_character(high))
    return f"[{mark}{''.join(out)}]"


def _class_character(code: int) -> str:
    # Neither dialect has an escape for "-" or "^" that the other knows.
    return f"\\x{code:02X}" if chr(code) in "-^" else _character(chr(code), "[]")


def _quantifier(low: int, high: int | None) -> str:
    if (low, high) in ((0, None), (1, None), (0, 1)):
        return {(0, None): "*", (1, None): "+", (0, 1): "?"}[low, high]
    return f"{{{low}}}" if low == high else f"{{{low},{'' if high is None else high}}}"


def _ids(numbers: list[int]) -> str:
    """Numbers as `1-3,7`."""
    out: list[list[int]] = []
    for number in numbers:
        if out and number == out[-1][1] + 1:
            out[-1][1] = number
        else:
            out.append([number, number])
    return ",".join(f"{low}" if low == high else f"{low}-{high}" for low, high in out)


def _schema(node: JsonSchema) -> str:
    schema = node.schema if isinstance(node.schema, str) else json.dumps(node.schema, ensure_ascii=False)
    options = "".join(f", {name}={json.dumps(value)}" for name, value in node.options.items())
    return f"json_schema({schema}{options})"
