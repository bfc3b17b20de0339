"""What the captured parts of a grammar matched: a parse of a whole text, after it was accepted.

The automaton follows all ways to read a text at once and keeps none of them, so captures take a parse of their own:
Johnson's memoised recogniser with continuations (Computational Linguistics 21(3), 1995), which takes every context-free
grammar, in time that grows with the cube of the text at worst and with its length for most grammars.

Of several ways to read a text one is told: of alternatives that match the same stretch the first as they are written;
of parts one after the other, and of repetitions, each as long as what follows allows, from the left (leftmost-longest).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple

from ..automaton.automaton import JsonAutomaton
from ..automaton.stepper import ends, step
from ..errors import BudgetError, GrammarError
from .lower import START, Lowered
from .nodes import ALT, CALL, CAPTURE, CHARS, DFA, EMPTY, JSON, REP, SEQ, STAR, TEXT, Pool

MAX_STEPS: Final = 1_000_000

Symbols = str | Sequence[str | int]
"""Characters, and ids of tokens that are no text."""


class Captured(NamedTuple):
    """A captured part: its name, the text, and where that begins and ends in the whole (characters; a token that is no
    text counts as one, and has no text).
    """

    name: str
    text: str
    start: int
    end: int


class OrderedPool(Pool):
    """Nodes that keep alternatives as they are written, and parts that are captured."""

    def alt(self, items: Iterable[int]) -> int:
        """Any of these, the first first."""
        chosen = tuple(dict.fromkeys(items))
        return chosen[0] if len(chosen) == 1 else self._add((ALT, chosen))

    def star(self, item: int) -> int:
        """Any number of times."""
        return self.empty if item in (self.empty, self.nothing) else self._add((STAR, item))

    def rep(self, item: int, low: int, high: int | None) -> int:
        """From `low` to `high` times."""
        if high == 0 or item == self.empty:
            return self.empty
        if high is None and low == 0:
            return self.star(item)
        return item if (low, high) == (1, 1) else self._add((REP, item, low, high))

    def capture(self, name: str, item: int) -> int:
        """The same as `item`, under a name."""
        return self._add((CAPTURE, name, item))


class _Entry:
    """A node at a place: where it may end, when that was found, and who waits for it.

    again  what a loop goes on with wherever it may end; -1: it is no loop
    """

    __slots__ = ("again", "found", "waiting")

    def __init__(self, again: int = -1) -> None:
        self.again = again
        self.found: dict[int, int] = {}
        self.waiting: list[tuple[tuple[int, ...], int, _Entry]] = []


class Parser:
    """Parses texts of one grammar, which is lowered to an OrderedPool."""

    def __init__(
        self, grammar: Lowered, schemas: Sequence[JsonAutomaton], tokens: Sequence[bytes | None]
    ) -> None:
        self._grammar = grammar
        self._pool = grammar.pool
        self._schemas = schemas
        self._tokens = tokens
        self._same: dict[int, frozenset[int]] = {}
        self._empty: frozenset[int] | None = None

    def captures(self, symbols: Symbols) -> tuple[Captured, ...]:
        """What was captured, in the order in which it begins, what is around before what is inside.

        Raises GrammarError if the text is not one of the grammar's, BudgetError if parsing it takes too long.
        """
        return _Parse(self, symbols).told()

    def expansions(self, node: int) -> tuple[tuple[int, ...], ...] | None:
        """The sequences that a node stands for, the preferred first; None if it is a terminal."""
        pool = self._pool
        kind, *rest = pool[node]
        if kind == SEQ:
            return (rest[0],)
        if kind == ALT:
            return tuple((item,) for item in rest[0])
        if kind == CALL:
            return ((self._grammar.bodies[rest[0]],),)
        if kind == CAPTURE:
            return ((rest[1],),)
        if kind in (STAR, REP) and pool[rest[0]][0] == CHARS:
            return None
        if kind == STAR:
            return ((),)  # and again, see `_Entry`
        if kind == REP:
            item, low, high = rest
            more = pool.rep(item, max(low - 1, 0), None if high is None else high - 1)
            return ((item, more),) if low else ((item, more), ())
        return None

    def looped(self, node: int) -> int:
        """What a node repeats any number of times; -1 if it does not, or is a terminal."""
        kind, *rest = self._pool[node]
        return int(rest[0]) if kind == STAR and self.expansions(node) is not None else -1

    def comes_back(self, node: int, whole: int) -> bool:
        """Whether a text of `node` may be one of `whole` and that the whole of one of `node`."""
        found = self._same.get(node)
        if found is None:
            found = self._same[node] = self._reached(node)
        return whole in found

    def _reached(self, node: int) -> frozenset[int]:
        """The nodes that may match just what `node` does, as parts of it."""
        seen = {node}
        waiting = [node]
        while waiting:
            for way in self._ways(waiting.pop()):
                for place, part in enumerate(way):
                    others = (*way[:place], *way[place + 1 :])
                    if part not in seen and all(map(self._nullable, others)):
                        seen.add(part)
                        waiting.append(part)
        return frozenset(seen)

    def _ways(self, node: int) -> tuple[tuple[int, ...], ...]:
        kind, *rest = self._pool[node]
        if kind in (STAR, REP):
            return ((rest[0],),)
        return self.expansions(node) or ()

    def _nullable(self, node: int) -> bool:
        if self._empty is None:
            self._empty = self._find_nullable()
        kind, *rest = self._pool[node]
        return node in self._empty or (kind == REP and rest[1] == 0)

    def _find_nullable(self) -> frozenset[int]:
        """The nodes that match the empty text: those that say so, then those made of such, until there are no more."""
        empty = set()
        users: dict[int, list[int]] = {}
        for node in range(len(self._pool)):
            kind, *rest = self._pool[node]
            if kind in (EMPTY, STAR) or (kind == REP and rest[1] == 0) or (kind == DFA and rest[0].accepting(rest[1])):
                empty.add(node)
            for part in (part for way in self._ways(node) for part in way):
                users.setdefault(part, []).append(node)
        waiting = list(empty)
        while waiting:
            for node in users.get(waiting.pop(), ()):
                if node not in empty and any(way and empty.issuperset(way) for way in self._ways(node)):
                    empty.add(node)
                    waiting.append(node)
        return frozenset(empty)

    def terminal(self, node: int, symbols: Symbols, at: int) -> list[int]:
        """Where a terminal that begins at a place may end."""
        kind, *rest = self._pool[node]
        size = len(symbols)
        if kind == EMPTY:
            return [at]
        if kind == TEXT:
            text = rest[0][rest[1] :]
            end = at + len(text)
            return [end] if symbols[at:end] == (text if isinstance(symbols, str) else list(text)) else []
        if kind == CHARS:
            return [at + 1] if at < size and _in(symbols[at], rest[0]) else []
        if kind in (STAR, REP):
            chars = self._pool[rest[0]][1]
            low, high = (0, None) if kind == STAR else rest[1:]
            last = size if high is None else min(size, at + high)
            end = at
            while end < last and _in(symbols[end], chars):
                end += 1
            return list(range(at + low, end + 1))
        if kind == DFA:
            return self._words(rest[0], rest[1], symbols, at)
        if kind == JSON:
            return self._values(self._schemas[rest[0]], symbols, at)
        return self._named(rest[0], rest[1], symbols, at)

    def _words(self, dfa: Any, state: int, symbols: Symbols, at: int) -> list[int]:
        found = [at] if dfa.accepting(state) else []
        while at < len(symbols):
            symbol = symbols[at]
            target = next((target for chars, target in dfa.step(state) if _in(symbol, chars)), None)
            if target is None:
                break
            state, at = target, at + 1
            if dfa.accepting(state):
                found.append(at)
        return found

    def _values(self, schema: JsonAutomaton, symbols: Symbols, at: int) -> list[int]:
        found: list[int] = []
        tables = schema.tables
        with tables.lock:
            place = schema.start
            while at < len(symbols) and isinstance(symbol := symbols[at], str):
                for byte in symbol.encode("utf-8", "surrogatepass"):
                    following = step(tables, place, byte)
                    if following is None:
                        return found
                    place = following
                at += 1
                if ends(tables, place):
                    found.append(at)
        return found

    def _named(self, ids: frozenset[int], negated: bool, symbols: Symbols, at: int) -> list[int]:
        """Where a token that is taken as such may end: it may be text."""
        if at < len(symbols) and isinstance(symbol := symbols[at], int):
            return [at + 1] if (symbol in ids) != negated else []
        found = set()
        rest = symbols[at : at + 64]
        data = "".join(symbol for symbol in rest if isinstance(symbol, str)).encode("utf-8", "surrogatepass")
        for number, token in enumerate(self._tokens) if negated else ((number, self._tokens[number]) for number in ids):
            if token and (number in ids) != negated and data.startswith(token):
                try:
                    found.add(at + len(token.decode()))
                except UnicodeDecodeError:
                    continue
        return sorted(end for end in found if end <= len(symbols))


class _Parse:
    """The parse of one text."""

    def __init__(self, parser: Parser, symbols: Symbols) -> None:
        self._parser = parser
        self._symbols = symbols
        self._entries: dict[tuple[int, int], _Entry] = {}
        self._terminals: dict[tuple[int, int], list[int]] = {}
        self._whole = parser._grammar.bodies[START]
        self._recognise()

    def _recognise(self) -> None:
        top = _Entry()
        waiting: list[tuple[tuple[int, ...], int, int, _Entry]] = [((self._whole,), 0, 0, top)]
        steps = found = 0
        expansions = self._parser.expansions
        while waiting:
            steps += 1
            if steps > MAX_STEPS:
                raise BudgetError("telling what the text's captures are takes too long", remedy="ask for fewer")
            parts, place, at, entry = waiting.pop()
            if place == len(parts):
                if at not in entry.found:
                    found += 1
                    entry.found[at] = found
                    waiting += [(parts, place, at, outer) for parts, place, outer in entry.waiting]
                    if entry.again >= 0:
                        waiting.append(((entry.again,), 0, at, entry))
                continue
            node = parts[place]
            sub = self._entries.get((node, at))
            if sub is None:
                ways = expansions(node)
                if ways is None:
                    waiting += [(parts, place + 1, end, entry) for end in self._ends(node, at)]
                    continue
                sub = self._entries[node, at] = _Entry(self._parser.looped(node))
                waiting += [(way, 0, at, sub) for way in reversed(ways)]
            sub.waiting.append((parts, place + 1, entry))
            waiting += [(parts, place + 1, end, entry) for end in sub.found]
        if len(self._symbols) not in top.found:
            raise GrammarError("the text is not one of the grammar's")

    def _ends(self, node: int, at: int) -> list[int]:
        """Where a terminal may end."""
        found = self._terminals.get((node, at))
        if found is None:
            found = self._terminals[node, at] = self._parser.terminal(node, self._symbols, at)
        return found

    def _found(self, node: int, at: int) -> dict[int, int]:
        """Where a node that begins at a place may end, and when that was found; terminals at the very beginning."""
        entry = self._entries.get((node, at))
        return dict.fromkeys(self._ends(node, at), 0) if entry is None else entry.found

    def told(self) -> tuple[Captured, ...]:
        """What was captured."""
        captured: list[Captured] = []
        waiting = [(self._whole, 0, len(self._symbols))]
        while waiting:
            node, start, end = waiting.pop()
            kind, *rest = self._parser._pool[node]
            if kind == CAPTURE:
                text = "".join([symbol for symbol in self._symbols[start:end] if isinstance(symbol, str)])
                captured.append(Captured(rest[0], text, start, end))
            ways = self._parser.expansions(node)
            if ways is None:
                continue
            if self._parser.looped(node) >= 0:
                waiting += reversed(self._turns(node, start, end))
                continue
            waiting += reversed(
                next(places for way in ways if (places := self._split(node, way, start, end)) is not None)
            )
        return tuple(captured)

    def _turns(self, loop: int, start: int, end: int) -> list[tuple[int, int, int]]:
        """The turns of a loop, each as long as it can be from the left."""
        item = self._parser.looped(loop)
        after: dict[int, int] = {end: end}
        for at in sorted(self._found(loop, start), reverse=True):
            if at < end:
                longest = max((last for last in self._found(item, at) if last > at and last in after), default=-1)
                if longest >= 0:
                    after[at] = longest
        found: list[tuple[int, int, int]] = []
        while start < end:
            found.append((item, start, after[start]))
            start = after[start]
        return found

    def _split(self, whole: int, way: tuple[int, ...], start: int, end: int) -> list[tuple[int, int, int]] | None:
        """The stretches of the parts, each as long as it can be from the left; None if they do not match the whole.

        A part that may come back to the whole without having read anything is used only as it was found before it.
        """
        before = self._found(whole, start)[end]

        def parts(node: int, at: int) -> Iterable[int]:
            back = self._parser.comes_back(node, whole)
            for last, when in self._found(node, at).items():
                if last <= end and not (back and at == start and last == end and when >= before):
                    yield last

        layers = [{start}]
        for node in way:
            layers.append({last for at in layers[-1] for last in parts(node, at)})
        if end not in layers[-1]:
            return None
        right = [{end}]
        for place in range(len(way) - 1, -1, -1):
            right.append({at for at in layers[place] if not right[-1].isdisjoint(parts(way[place], at))})
        right.reverse()
        found: list[tuple[int, int, int]] = []
        at = start
        for place, node in enumerate(way):
            last = max(right[place + 1].intersection(parts(node, at)))
            found.append((node, at, last))
            at = last
        return found


def symbols(output: str | bytes | Sequence[int], tokens: Sequence[bytes | None]) -> Symbols:
    """A text, or what tokens spell, as a parser takes it. Raises GrammarError for what is no UTF-8."""
    if isinstance(output, str):
        return output
    parts: list[str | int] = []
    data = bytearray(output) if isinstance(output, bytes) else bytearray()
    try:
        for token in () if isinstance(output, bytes) else output:
            spelled = tokens[token]
            if spelled is None:
                parts += [*data.decode(), token]
                data.clear()
            else:
                data += spelled
        return [*parts, *data.decode()] if parts else data.decode()
    except UnicodeDecodeError:
        raise GrammarError("the output is no UTF-8") from None


def _in(symbol: str | int, chars: Any) -> bool:
    return isinstance(symbol, str) and symbol in chars
