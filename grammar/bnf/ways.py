"""Ways out of a general grammar: the cheapest thread is followed to the end of the text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..automaton.codes import ROW_MASK, VALUE_END
from ..automaton.stepper import Configuration, ends
from ..automaton.tokencodes import spelled_any
from ..errors import BudgetError
from .nodes import ALT, CALL, CHARS, DFA, JSON, REP, SEQ, TEXT, TOKEN
from .within import OUTSIDE

if TYPE_CHECKING:
    from .automaton import GrammarAutomaton
    from .unions import Thread

MAX_TEXT = 32_768


class WayFinder:
    """Finds ways out of one automaton. Callers hold the tables' lock."""

    def __init__(self, automaton: GrammarAutomaton) -> None:
        self._automaton = automaton
        self._texts: dict[int, bytes] = {}

    def completion(self, at: Configuration) -> bytes:
        """Bytes that lead from `at` to where the text may end."""
        automaton = self._automaton
        if ends(automaton.tables, at):
            return b""
        inner = automaton.within(at)
        if inner is not None:
            data, outside = inner
            return data if outside is None else data + self.completion(outside)
        prefix, threads = self._threads(at)
        contexts, stacks = automaton.contexts, automaton.tables.stacks
        length = len(prefix)
        found: list[int] = []
        stack = at.stack
        while True:
            best = min(threads, key=contexts.outs.cost)
            length += contexts.outs.cost(best)
            if length > MAX_TEXT:
                raise BudgetError(f"the shortest way to end this text is longer than {MAX_TEXT} bytes")
            nodes, state = contexts.outs.nodes(best)
            found += nodes
            if not stack:
                break
            threads = automaton.resumed(int(stacks.top[stack]), state)
            stack = int(stacks.rest[stack])
        return prefix + b"".join([self._text(node) for node in found])

    def _threads(self, at: Configuration) -> tuple[bytes, Sequence[Thread]]:
        """The threads of a configuration, after the bytes that end the character that it is in."""
        automaton = self._automaton
        places = automaton.places(at.frame)
        assert places is not None, "a frame of another grammar"
        options: list[tuple[bytes, list[Thread]]] = []
        content = automaton.rows.states(at.row)
        if content is not None:
            states, ending, _ = content
            ended = automaton.rows.meaning(ending)[0] if ending > VALUE_END else ()
            alive = [(state, places[place]) for state, place in states]
            return b"", alive + [(state, OUTSIDE) for state, _ in ended]
        suffixes = automaton.rows.inside(at.row)
        assert suffixes is not None, "a row of another grammar"
        for ranges, value in suffixes:
            data = bytes([first for first, _ in ranges])
            if value > 0:
                known = automaton.rows.states(value & ROW_MASK)
                after = known[0] if known is not None else frozenset()
            else:
                after = automaton.rows.meaning(-value - 1)[0]
            options.append((data, [(state, places[place]) for state, place in after]))
        contexts = automaton.contexts
        return min(options, key=lambda option: min(map(contexts.outs.cost, option[1])) + len(option[0]))

    def _text(self, node: int) -> bytes:
        """A shortest text of a node, or nearly."""
        found = self._texts.get(node)
        if found is not None:
            return found
        # Post-order: the parts that a node's text is made of come first.
        waiting = [node]
        while waiting:
            current = waiting[-1]
            if current in self._texts:
                waiting.pop()
                continue
            parts = self._parts(current)
            missing = [part for part in parts if part not in self._texts]
            if missing:
                waiting += missing
                continue
            self._texts[current] = self._own(current, b"".join([self._texts[part] for part in parts]))
            waiting.pop()
        return self._texts[node]

    def _parts(self, node: int) -> list[int]:
        cells = self._automaton.cells
        kind, *rest = cells.pool[node]
        if cells.node_cost(node) == 0:
            return []
        if kind == SEQ:
            return list(rest[0])
        if kind == ALT:
            return [cells.analysis.cheapest[node]]
        if kind == REP:
            return [rest[0]]
        return [cells.body(rest[0])] if kind == CALL else []

    def _own(self, node: int, inner: bytes) -> bytes:
        automaton = self._automaton
        kind, *rest = automaton.cells.pool[node]
        if automaton.cells.node_cost(node) == 0:
            return b""
        if kind == CHARS:
            return bytes(rest[0].sample().encode())
        if kind == TEXT:
            return bytes(rest[0][rest[1] :].encode())
        if kind == DFA:
            word: str = rest[0].shortest_word(rest[1])
            return word.encode()
        if kind == REP:
            return inner * int(rest[1])
        if kind == JSON:
            return automaton.shortest_json(rest[0])
        if kind == TOKEN:
            return spelled_any(rest[0], rest[1])
        return inner
