"""Parses the texts of one syntax: with the tables that lark makes of it, in a loop of our own.

Lark is given the syntax, and its LALR(1) tables, terminals and rules are all that is kept, in the cache on disk: making
them takes longer than reading most grammars, and lark's own loop over them several times as long as this one, which
makes no tree but calls a reader's handlers as rules end. Children are what they are in lark's trees: terminals whose
names say nothing are left out, `?rule` gives way to its only child, `-> name` names a handler.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Callable, Container, Iterable, Mapping
from functools import cached_property
from hashlib import blake2b
from importlib.metadata import version
from typing import Any, Final, NamedTuple

from ..cache import cache_folder, replacing
from ..courtesy import COURTESY

Handlers = Mapping[str, Callable[[list[Any]], Any]]
END: Final = "END_OF_TEXT"
_END: Final = r"\Z"
_WRONG: Final = -1 << 30
_PASS, _ONE, _MORE, _SINGLE, _OTHER = range(5)
_FORMAT: Final = 2
_KEYS: Final = {"states", "start", "end", "rules", "terminals", "keywords", "space"}


class Token(str):
    """A word of the text: its characters, which terminal it is, and where it begins."""

    __slots__ = ("start_pos", "type")

    start_pos: int
    type: str


class Unexpected(Exception):
    """The text at `at` is not what the syntax wants there.

    found     the word there; "" at the end of the text or where no word begins
    expected  the terminals that could stand there
    """

    def __init__(self, at: int, found: str, expected: Iterable[str], *, ended: bool) -> None:
        self.at = at
        self.found = found
        self.expected = tuple(expected)
        self.ended = ended


class _Rule(NamedTuple):
    """What happens where a rule ends.

    size    how many symbols it takes
    origin  its symbol
    kept    (which of them are children, whether that one's children are meant)
    handler whose value it has; "": its children are the value
    shape   _PASS: the only symbol's value is the rule's; _ONE: the only symbol is the only child; _MORE: the last one
            is a child more; _SINGLE: an only child is the value
    """

    size: int
    origin: str
    kept: list[tuple[int, bool]]
    handler: str
    shape: int


class Parser:
    """A syntax in lark's own format; the rule `start` is a whole text. Safe for threads."""

    def __init__(self, syntax: str) -> None:
        self._syntax = syntax
        self._words: dict[int, re.Pattern[str]] = {}

    def parse(self, text: str, handlers: Handlers) -> Any:
        """The value of the text's `start`: what its handler makes of its children's values, and so on.

        Tokens are `Token`s. Raises Unexpected, and whatever handlers raise.
        """
        states, rules, keywords, end = self._states, self._rules, self._keywords, self._end
        calls = [handlers.get(rule.handler, list) for rule in rules]
        first = self._first.match
        at = 0
        stack: list[int] = [self._start]
        values: list[Any] = []
        actions = states[self._start]
        while True:
            COURTESY.pause()
            match = first(text, at)
            if match is None or (kind := match.lastgroup) not in actions:
                match, kind = self._match(text, at, stack)
            value = Token(match[kind])
            value.start_pos = match.start(kind)
            at = match.end()
            if kind in keywords:
                kind = keywords[kind].get(value, kind)
            value.type = kind
            while (action := actions.get(kind, _WRONG)) < 0:
                if action == _WRONG:
                    raise Unexpected(value.start_pos, value, self._expected(stack), ended=kind == END)
                number = -1 - action
                count, origin, kept, _, shape = rules[number]
                if count == 1:
                    del stack[-1]
                    if shape == _ONE:
                        values[-1] = calls[number]([values[-1]])
                    elif shape == _OTHER:
                        values[-1] = calls[number](_children(values[-1:], kept))
                elif shape == _MORE:
                    more = values[-1]
                    del values[1 - count :], stack[-count:]
                    values[-1].append(more)  # a list that grows is nobody else's
                else:
                    split = len(values) - count
                    taken = values[split:]
                    del values[split:], stack[split + 1 :]
                    children = _children(taken, kept)
                    single = shape == _SINGLE and len(children) == 1
                    values.append(children[0] if single else calls[number](children))
                state = states[stack[-1]][origin]
                if state == end and kind == END:
                    return values[-1]
                stack.append(state)
                actions = states[state]
            stack.append(action)
            values.append(value)
            actions = states[action]

    def literal(self, name: str) -> str:
        """The text that a terminal without a name of its own stands for, in quotes."""
        return "'" + re.sub(r"\\(.)", r"\1", dict(self._data["terminals"])[name]) + "'"

    def _match(self, text: str, at: int, stack: list[int]) -> tuple[re.Match[str], str]:
        """The word at a place, among the terminals that the state knows."""
        state = stack[-1]
        pattern = self._words.get(state)
        if pattern is None:
            pattern = self._words[state] = self._pattern(self._states[state])
        match = pattern.match(text, at)
        if match is None or match.lastgroup is None:
            other = self._first.match(text, at)
            if other is not None and other.lastgroup is not None:
                kind = other.lastgroup
                raise Unexpected(other.start(kind), other[kind], self._expected(stack), ended=kind == END)
            space = self._space.match(text, at)
            raise Unexpected(space.end() if space else at, "", self._expected(stack), ended=False)
        return match, match.lastgroup

    def _expected(self, stack: list[int]) -> list[str]:
        """The terminals that can come: those that are shifted in the end."""
        found = []
        for kind in self._states[stack[-1]]:
            trial = list(stack)
            while (action := self._states[trial[-1]].get(kind)) is not None and action < 0:
                rule = self._rules[-1 - action]
                if rule.size:
                    del trial[-rule.size :]
                trial.append(self._states[trial[-1]][rule.origin])
                if trial[-1] == self._end:
                    break
            if action is not None and kind not in self._origins:
                found.append(kind)
        return found

    # ---- the tables

    @cached_property
    def _data(self) -> dict[str, Any]:
        digest = blake2b(f"{_FORMAT} {version('lark')} {self._syntax}".encode(), digest_size=16).hexdigest()
        path = cache_folder("syntaxes", f"{digest}.json")
        with contextlib.suppress(OSError, ValueError, AttributeError):
            found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
            if found.keys() == _KEYS:
                return found
        data = _tables(self._syntax)
        with contextlib.suppress(OSError), replacing(path) as temporary:
            temporary.write_text(json.dumps(data), encoding="utf-8")
        return data

    @cached_property
    def _states(self) -> list[dict[str, int]]:
        found: list[dict[str, int]] = self._data["states"]
        return found

    @cached_property
    def _rules(self) -> list[_Rule]:
        return [_Rule(*rule) for rule in self._data["rules"]]

    @cached_property
    def _origins(self) -> frozenset[str]:
        return frozenset(rule.origin for rule in self._rules)

    @cached_property
    def _keywords(self) -> dict[str, dict[str, str]]:
        """By terminal: words of it that are terminals of their own."""
        found: dict[str, dict[str, str]] = self._data["keywords"]
        return found

    @cached_property
    def _start(self) -> int:
        return int(self._data["start"])

    @cached_property
    def _end(self) -> int:
        return int(self._data["end"])

    @cached_property
    def _first(self) -> re.Pattern[str]:
        return self._pattern(None)

    @cached_property
    def _space(self) -> re.Pattern[str]:
        return re.compile(self._data["space"])

    def _pattern(self, known: Container[str] | None) -> re.Pattern[str]:
        """What is ignored, then one word of the terminals that are known (None: of all)."""
        words = [f"(?P<{name}>{word})" for name, word in self._data["terminals"] if known is None or name in known]
        return re.compile(f"{self._data['space']}(?:{'|'.join((*words, f'(?P<{END}>{_END})'))})")


def _children(taken: list[Any], kept: list[tuple[int, bool]]) -> list[Any]:
    if not kept:
        return []
    place, inner = kept[0]
    children: list[Any] = taken[place] if inner else [taken[place]]  # one that grows is nobody else's
    for place, inner in kept[1:]:
        if inner:
            children += taken[place]
        else:
            children.append(taken[place])
    return children


def _tables(syntax: str) -> dict[str, Any]:
    """What lark makes of a syntax, as JSON."""
    from lark import Lark
    from lark.lexer import PatternStr
    from lark.parsers.lalr_analysis import Shift

    made: Any = Lark(syntax, parser="lalr", maybe_placeholders=False)
    table = made.parser.parser._parse_table
    ignored = set(made.parser.lexer_conf.ignore)
    rules = {rule: number for number, rule in enumerate(made.rules)}
    states = {
        state: {
            END if symbol == "$END" else str(symbol): int(target) if action is Shift else -1 - rules[target]
            for symbol, (action, target) in actions.items()
        }
        for state, actions in table.states.items()
    }
    order = sorted(
        made.terminals,
        key=lambda one: (-one.priority, -one.pattern.max_width, -len(one.pattern.value), one.name),
    )
    keywords: dict[str, dict[str, str]] = {}
    for word in order:
        for wide in order if isinstance(word.pattern, PatternStr) else ():
            alike = not isinstance(wide.pattern, PatternStr) and wide.priority == word.priority
            if alike and re.fullmatch(wide.pattern.to_regexp(), word.pattern.value):
                keywords.setdefault(wide.name, {})[word.pattern.value] = word.name
    return {
        "states": [states[number] for number in range(len(states))],
        "start": table.start_states["start"],
        "end": table.end_states["start"],
        "rules": [_rule(rule) for rule in rules],
        "terminals": [(one.name, one.pattern.to_regexp()) for one in order if one.name not in ignored],
        "keywords": keywords,
        # Possessive: given up never, else many ways to divide white space would be tried where no word follows.
        "space": "(?:" + "|".join([one.pattern.to_regexp() for one in order if one.name in ignored]) + ")*+",
    }


def _rule(rule: Any) -> _Rule:
    kept = [
        (place, not symbol.is_term and symbol.name.startswith("_"))
        for place, symbol in enumerate(rule.expansion)
        if not (symbol.is_term and symbol.filter_out)
    ]
    origin = str(rule.origin.name)
    handler = "" if origin.startswith("_") else str(rule.alias or origin)
    size = len(rule.expansion)
    single = bool(rule.options.expand1) and not rule.alias
    if size == 1 and kept == [(0, False)]:
        shape = _PASS if single else _ONE
    elif not handler and kept == [(0, True), (size - 1, False)]:
        shape = _MORE
    else:
        shape = _SINGLE if single else _OTHER
    return _Rule(size, origin, kept, handler, shape)
