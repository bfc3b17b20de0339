"""Parses the texts of one syntax: with the tables that lark makes of it, in a loop of our own.

Lark is given the syntax, and its LALR(1) tables, terminals and rules are all that is kept, in the cache on disk: making
them takes longer than reading most grammars, and lark's own loop over them several times as long as this one, which
makes no tree but calls a reader's handlers as rules end. Children are what they are in lark's trees: terminals whose
names say nothing are left out, `?rule` gives way to its only child, `-> name` names a handler.

A state that can do nothing but end a rule of one symbol is never entered: the way to it leads to where that rule takes
it, with the rule's handler called on the way. Nor is one that can only end `_list: _list item`: the item is appended,
and the state stays what it was after the list.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Callable, Container, Iterable, Mapping
from functools import cached_property
from hashlib import blake2b
from itertools import islice
from typing import Any, Final, NamedTuple

from ..cache import cache_folder, replacing
from ..courtesy import COURTESY

Handlers = Mapping[str, Callable[[list[Any]], Any]]
END: Final = "END_OF_TEXT"
MAX_NESTING: Final = 100
"""How deep brackets nest."""
MAX_WORDS: Final = 300_000
_MAX_STATES: Final = 20 * MAX_NESTING
_NOTHING: Final = "NOTHING"
_REDUCE, _ACCEPT, _APPEND = -1, -2, -3
_PASS, _LIST, _MORE, _ALL, _PICK, _SINGLE, _OTHER = range(7)
_FORMAT: Final = 6
_BRACKETS: Final = {"(": 1, "[": 1, "{": 1, ")": -1, "]": -1, "}": -1}


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


class TooMuch(Exception):
    """A text is absurd from `at` on; `what`: in which way."""

    def __init__(self, at: int, what: str) -> None:
        self.at = at
        self.what = what


class _Rule(NamedTuple):
    """What happens where a rule ends.

    size     how many symbols it takes
    origin   its symbol
    kept     (which of them are children, whether that one's children are meant)
    shape    _PASS: the only symbol's value is the rule's; _LIST: so it is, but where it is one of several children;
             _MORE: the last symbol is a child more; _ALL: the symbols are the children; _PICK: the only child is the
             value; _SINGLE: so it is where there is one only
    number   of the rule
    handler  whose value it has; "": its children are the value
    """

    size: int
    origin: str
    kept: list[tuple[int, bool]]
    shape: int
    number: int
    handler: str


_Way = tuple[int, tuple[int, ...]]
"""The state to go to, or _APPEND, and the rules of one symbol that end on the way."""


class _Tables:
    """What `_made` wrote, ready for use."""

    def __init__(self, data: Mapping[str, Any]) -> None:
        self.rules = [_Rule(*rule) for rule in data["rules"]]
        silent: dict[str, int] = data["silent"]
        self.actions: list[dict[str, tuple[int, Any, int | None]]] = [
            {
                word: (to, self.rules[then] if to == _REDUCE else tuple(then), silent.get(word))
                for word, (to, then) in actions.items()
            }
            for actions in data["actions"]
        ]
        """By state and word: its way, or _REDUCE and the rule that ends before it, or _ACCEPT; and None, or for a word
        that is no child anywhere 1 if it opens a bracket, -1 if it closes one, else 0.
        """
        self.ways: list[dict[str, _Way]] = [
            {origin: (to, tuple(then)) for origin, (to, then) in ways.items()} for ways in data["ways"]
        ]
        """By state and rule: the way on after it."""
        self.start = int(data["start"])
        self.terminals: dict[str, str] = dict(data["terminals"])
        self.keywords: dict[str, dict[str, str]] = data["keywords"]
        """By terminal: words of it that are terminals of their own where these may stand."""
        self._space: str = data["space"]

    def pattern(self, known: Container[str] | None = None) -> re.Pattern[str]:
        """What is ignored, then one word of the terminals that are known (None: of all), or _NOTHING."""
        words = [(name, word) for name, word in self.terminals.items() if known is None or name in known]
        groups = [f"(?P<{name}>{word})" for name, word in (*words, (END, r"\Z"), (_NOTHING, ""))]
        return re.compile(f"{self._space}(?:{'|'.join(groups)})")


class Parser:
    """A syntax in lark's own format; the rule `start` is a whole text. Safe for threads."""

    def __init__(self, syntax: str) -> None:
        self._syntax = syntax
        self._words: dict[int, re.Pattern[str]] = {}

    def parse(self, text: str, handlers: Handlers) -> Any:
        """The value of the text's `start`: what its handler makes of its children's values, and so on.

        Tokens are `Token`s. Raises Unexpected, TooMuch, and whatever handlers raise.
        """
        tables, first = self._tables, self._first
        all_actions, all_ways, keywords = tables.actions, tables.ways, tables.keywords
        calls: list[Callable[[list[Any]], Any]] = [handlers.get(rule.handler, _alone) for rule in tables.rules]
        stack = [tables.start]
        values: list[Any] = []
        actions = all_actions[tables.start]
        depth = 0
        match: Any = None
        following = islice(first.finditer(text), MAX_WORDS).__next__
        while True:
            try:
                last, match = match, following()
            except StopIteration:
                raise TooMuch(match.end(), f"has more than {MAX_WORDS} words") from None
            kind = match.lastgroup
            if kind not in actions:
                match, kind = self._match(text, last.end() if last else 0, stack)
                following = first.finditer(text, match.end()).__next__
            if keywords and kind in keywords and keywords[kind].get(match[kind]) in actions:
                kind = keywords[kind][match[kind]]
            to, then, step = actions[kind]
            while to == _REDUCE:
                size, origin, kept, shape, number, _ = then
                if shape == _PASS:
                    del stack[-1]
                elif shape == _LIST:
                    children = values[-1]
                    values[-1] = calls[number](children) if len(children) > 1 else children[0]
                    del stack[-1]
                elif shape == _MORE:
                    more = values[-1]
                    del values[1 - size :], stack[-size:]
                    values[-1].append(more)  # a list that grows is nobody else's
                else:
                    COURTESY.pause()
                    split = len(values) - size
                    taken = values[split:]
                    del values[split:], stack[split + 1 :]
                    if shape == _PICK:
                        values.append(taken[kept[0][0]])
                    else:
                        children = taken if shape == _ALL else _children(taken, kept)
                        single = shape == _SINGLE and len(children) == 1
                        values.append(children[0] if single else calls[number](children))
                to, then = all_ways[stack[-1]][origin]
                for number in then:
                    values[-1] = calls[number]([values[-1]])
                if to == _APPEND:
                    more = values.pop()
                    values[-1].append(more)
                else:
                    stack.append(to)
                actions = all_actions[stack[-1]]
                if kind not in actions:
                    raise self._unexpected(match, stack)
                to, then, step = actions[kind]
            if step is None:
                value: Any = Token(match[match.lastgroup])
                value.start_pos = match.start(match.lastgroup)
                value.type = kind
                for number in then:
                    value = calls[number]([value])
            else:
                value = None
                depth += step
                if depth > MAX_NESTING:
                    raise TooMuch(match.start(kind), f"nests deeper than {MAX_NESTING} levels")
            if to == _APPEND:
                values[-1].append(value)
            elif to == _ACCEPT:
                return values[-1]
            elif len(stack) < _MAX_STATES:
                stack.append(to)
                values.append(value)
                actions = all_actions[to]
            else:
                raise TooMuch(match.start(match.lastgroup), f"nests deeper than {MAX_NESTING} levels")

    def literal(self, name: str) -> str:
        """The text that a terminal without a name of its own stands for, in quotes."""
        return "'" + re.sub(r"\\(.)", r"\1", self._tables.terminals[name]) + "'"

    def _match(self, text: str, at: int, stack: list[int]) -> tuple[re.Match[str], str]:
        """The word at a place, among the terminals that the state knows."""
        state = stack[-1]
        pattern = self._words.get(state)
        if pattern is None:
            pattern = self._words[state] = self._tables.pattern(self._tables.actions[state])
        match = pattern.match(text, at)
        if match is None or match.lastgroup not in self._tables.actions[state]:
            raise self._unexpected(self._first.match(text, at), stack)
        return match, match.lastgroup

    def _unexpected(self, match: Any, stack: list[int]) -> Unexpected:
        kind = match.lastgroup
        return Unexpected(match.start(kind), match[kind], self._expected(stack), ended=kind == END)

    def _expected(self, stack: list[int]) -> list[str]:
        """The terminals that can come: those that are shifted in the end."""
        tables = self._tables
        found = []
        for kind in tables.actions[stack[-1]]:
            trial = list(stack)
            while (action := tables.actions[trial[-1]].get(kind)) is not None and action[0] == _REDUCE:
                rule = action[1]
                if rule.size:
                    del trial[-rule.size :]
                to = tables.ways[trial[-1]][rule.origin][0]
                if to != _APPEND:
                    trial.append(to)
            if action is not None:
                found.append(kind)
        return found

    # ---- the tables

    @cached_property
    def _tables(self) -> _Tables:
        # Not by lark's version: to ask for it takes as long as all of this, and its tables are as good when it is old.
        digest = blake2b(f"{_FORMAT} {self._syntax}".encode(), digest_size=16).hexdigest()
        path = cache_folder("syntaxes", f"{digest}.json")
        # A file that is not there, or holds anything else: it is made anew.
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError, AttributeError, IndexError):
            return _Tables(json.loads(path.read_text(encoding="utf-8")))
        data = _made(self._syntax)
        with contextlib.suppress(OSError), replacing(path) as temporary:
            temporary.write_text(json.dumps(data), encoding="utf-8")
        return _Tables(data)

    @cached_property
    def _first(self) -> re.Pattern[str]:
        return self._tables.pattern()


def _alone(children: list[Any]) -> list[Any]:
    return children


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


def _made(syntax: str) -> dict[str, Any]:
    """What lark makes of a syntax, as JSON."""
    from lark import Lark
    from lark.lexer import PatternStr
    from lark.parsers.lalr_analysis import Shift

    made: Any = Lark(syntax, parser="lalr", maybe_placeholders=False)
    table = made.parser.parser._parse_table
    ignored = set(made.parser.lexer_conf.ignore)
    numbers = {rule: number for number, rule in enumerate(made.rules)}
    rules = [_rule(rule, number) for rule, number in numbers.items()]
    origins = {rule.origin for rule in rules}
    raw: dict[int, dict[str, int]] = {
        state: {
            END if symbol == "$END" else str(symbol): int(target) if action is Shift else -1 - numbers[target]
            for symbol, (action, target) in actions.items()
        }
        for state, actions in table.states.items()
    }

    def way(state: int, symbol: str) -> tuple[int, list[int]]:
        """Where a symbol leads from a state, past states that can only end a rule of it alone, or of a list and it."""
        then: list[int] = []
        to = raw[state][symbol]
        while len(ends := set(raw[to].values())) == 1 and (end := ends.pop()) < 0:
            rule = rules[-1 - end]
            if rule.shape == _MORE and rule.size == 2:
                return _APPEND, then
            if rule.size != 1 or rule.kept != [(0, False)]:
                break
            if rule.shape != _PASS:
                then.append(rule.number)
            to = raw[state][rule.origin]
        return to, then

    actions: list[dict[str, Any]] = []
    ways: list[dict[str, Any]] = []
    for state in range(len(raw)):
        known = raw[state]
        actions.append(
            {
                word: (_REDUCE, -1 - to) if to < 0 else way(state, word)
                for word, to in known.items()
                if word not in origins
            }
        )
        ways.append({origin: way(state, origin) for origin in known if origin in origins})
    actions[table.end_states["start"]] = {END: (_ACCEPT, [])}
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
    used = {
        symbol.name
        for rule in made.rules
        for symbol in rule.expansion
        if symbol.is_term and not symbol.filter_out
    }
    return {
        "rules": rules,
        "actions": actions,
        "ways": ways,
        "start": table.start_states["start"],
        "terminals": [(one.name, one.pattern.to_regexp()) for one in order if one.name not in ignored],
        "keywords": keywords,
        "silent": {END: 0, **{one.name: _BRACKETS.get(one.pattern.value, 0) for one in order if one.name not in used}},
        # Possessive: given up never, else many ways to divide white space would be tried where no word follows.
        "space": "(?:" + "|".join([one.pattern.to_regexp() for one in order if one.name in ignored]) + ")*+",
    }


def _rule(rule: Any, number: int) -> _Rule:
    kept = [
        (place, not symbol.is_term and symbol.name.startswith("_"))
        for place, symbol in enumerate(rule.expansion)
        if not (symbol.is_term and symbol.filter_out)
    ]
    origin = str(rule.origin.name)
    handler = "" if origin.startswith("_") else str(rule.alias or origin)
    size = len(rule.expansion)
    single = bool(rule.options.expand1) and not rule.alias
    if single and len(kept) == 1 and not kept[0][1]:
        shape = _PASS if size == 1 else _PICK
    elif single and size == 1 and kept:
        shape = _LIST
    elif not handler and kept == [(0, True), (size - 1, False)]:
        shape = _MORE
    elif kept == [(place, False) for place in range(size)]:
        shape = _ALL
    else:
        shape = _SINGLE if single else _OTHER
    return _Rule(size, origin, kept, shape, number, handler)
