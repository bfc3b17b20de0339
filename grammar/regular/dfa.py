"""Deterministic automata over code points, determinised as they are walked.

`Dfa` is what the rest of the compiler sees. `LazyDfa` makes one from any description of states: a subclass says what
its states are, where they lead and which accept; numbering, caching, pruning of dead targets, distances and budgets
are done here, once. Automata are interned by content (`interned`): equal constructions give the same object, so that
an automaton is its own cache key. All are safe to share between threads.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable
from heapq import heappop, heappush
from typing import Any, Generic, TypeVar, overload
from weakref import WeakValueDictionary

from ..courtesy import COURTESY
from ..errors import BudgetError
from .charset import ALL, EMPTY_SET, CharSet

INFINITE: int = 1 << 30
Step = tuple[tuple[CharSet, int], ...]

_MAX_STATES = 100_000
_MAX_SEARCH = 50_000
_EASY_SEARCH = 2_000
_MAX_COUNTABLE_SEARCH = 256
_KEPT_AUTOMATA = 1024

S = TypeVar("S", bound=Hashable)
D = TypeVar("D", bound="Dfa")


R = TypeVar("R")


class lazy(Generic[R]):
    """A property calculated once, without a lock.

    Python 3.11's `cached_property` holds one lock per class while it calculates; beside the locks of the automata, that
    is a deadlock. All our lazy values are the same whoever calculates them.
    """

    def __init__(self, calculate: Callable[[Any], R]) -> None:
        self.calculate = calculate
        self.__doc__ = calculate.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    @overload
    def __get__(self, instance: None, owner: type) -> lazy[R]: ...

    @overload
    def __get__(self, instance: object, owner: type) -> R: ...

    def __get__(self, instance: object | None, owner: type) -> lazy[R] | R:
        if instance is None:
            return self
        found: R = instance.__dict__.setdefault(self.name, self.calculate(instance))
        return found


class Dfa(ABC):
    """A deterministic automaton over code points whose states are small integers.

    A state number means something only to the object that gave it out: keep the automaton with its states. It hashes
    and compares by identity, which is by content as long as it is alive, since automata are interned.
    """

    key: Hashable
    name: str

    @property
    @abstractmethod
    def start(self) -> int | None:
        """The first state; None if the language is empty."""

    @abstractmethod
    def step(self, state: int) -> Step:
        """Disjoint classes of code points with the state each leads to. A state from which no word can be accepted
        never appears. Raises BudgetError when the automaton has grown too large."""

    @abstractmethod
    def accepting(self, state: int) -> bool:
        """Whether the word read so far is in the language."""

    @abstractmethod
    def shortest(self, state: int) -> int:
        """The least number of code points from `state` to acceptance: 0 if it accepts."""

    def near(self, state: int) -> int:
        """The number of code points to some acceptance, the least unless finding that takes too long."""
        return self.shortest(state)

    def shortest_word(self, state: int) -> str:
        """A shortest text from `state` to acceptance, of plain characters where there is a choice."""
        text = ""
        while not self.accepting(state):
            ahead = self.shortest(state)
            chars, state = min(
                (move for move in self.step(state) if self.shortest(move[1]) == ahead - 1),
                key=lambda move: (not move[0].ascii, move[0].sample()),
            )
            text += chars.sample()
        return text

    def longest(self, state: int) -> int:
        """An upper bound of the code points from `state` to acceptance; INFINITE where none is known."""
        return INFINITE

    def universal(self, state: int) -> bool:
        """True if every word is accepted from here. It may miss, and then says False."""
        return False

    @property
    def alphabet(self) -> CharSet:
        """Characters of which all words are made, and perhaps others."""
        return ALL

    @property
    def built(self) -> int:
        """How many states have been made so far, where they are made as they are reached."""
        return 0

    @property
    def countable(self) -> bool:
        """Whether each state accepts words of every length from `shortest` up. It may miss, and then says False."""
        return False


class LazyDfa(Dfa, Generic[S]):
    """An automaton over states of type S, numbered as they are first reached."""

    def __init__(self, key: Hashable, name: str, first: S | None) -> None:
        self.key = key
        self.name = name
        self._first = first
        self._numbers: dict[S, int] = {}
        self._states: list[S] = []
        self._all_moves: list[Step | None] = []
        self._live_moves: list[Step | None] = []
        self._distances: dict[int, int] = {}
        self._near: dict[int, int] = {}
        self._hard = False
        self._most_states = _MAX_STATES
        self._most_searched = _MAX_SEARCH
        self._lock = threading.RLock()

    # What a subclass says

    @abstractmethod
    def _moves(self, state: S) -> Iterable[tuple[CharSet, S]]:
        """Disjoint classes and targets, dead ones included."""

    @abstractmethod
    def _accepts(self, state: S) -> bool: ...

    def _at_least(self, state: S) -> int:
        """A lower bound of the distance to acceptance; INFINITE if certainly dead."""
        return 0 if self._accepts(state) else 1

    def _exactly(self, state: S) -> int | None:
        """The distance to acceptance where it is known without a search."""
        return None

    def _guess(self, state: S) -> int:
        """About how far acceptance is."""
        return self._at_least(state)

    # What the world sees

    @lazy
    def _start(self) -> int | None:
        if self._first is None:
            return None
        state = self._number(self._first)
        return state if self.near(state) < INFINITE else None

    @property
    def start(self) -> int | None:
        return self._start

    @property
    def built(self) -> int:
        return len(self._states)

    def step(self, state: int) -> Step:
        found = self._live_moves[state]
        if found is None:
            with self._lock:
                moves = self._raw(state)
                found = self._live_moves[state] = tuple(m for m in moves if self.near(m[1]) < INFINITE)
        return found

    def accepting(self, state: int) -> bool:
        return self._accepts(self._states[state])

    def shortest(self, state: int) -> int:
        found = self._distances.get(state)
        if found is None:
            with self._lock:
                found = self._distance(state)
        return found

    def near(self, state: int) -> int:
        found = self._distances.get(state)
        if found is None:
            found = self._near.get(state)
        if found is None:
            with self._lock:
                found = self._nearby(state)
        return found

    def _nearby(self, state: int) -> int:
        if type(self)._distance is not LazyDfa._distance:  # known without a search
            return self._distance(state)
        if not self._hard:
            found = self._search(state, min(_EASY_SEARCH, self._most_searched))
            if found is not None:
                return found
            self._hard = True  # and so are most searches from its other states
        return self._greedy(state)

    @lazy
    def countable(self) -> bool:
        return self._start is None or _gap_free(self, self._start)

    def _number(self, state: S) -> int:
        found = self._numbers.get(state)
        if found is None:
            with self._lock:
                found = self._numbers.get(state)
                if found is None:
                    found = len(self._states)
                    if found >= self._most_states:
                        raise BudgetError(f"the automaton of {self.name} has more than {self._most_states} states")
                    self._states.append(state)
                    self._all_moves.append(None)
                    self._live_moves.append(None)
                    self._numbers[state] = found
        return found

    def _raw(self, state: int) -> Step:
        """All moves of a state with equal targets merged."""
        found = self._all_moves[state]
        if found is None:
            COURTESY.pause()
            merged: dict[int, CharSet] = {}
            for chars, target in self._moves(self._states[state]):
                number = self._number(target)
                merged[number] = merged.get(number, EMPTY_SET) | chars
            found = self._all_moves[state] = tuple((chars, number) for number, chars in merged.items())
        return found

    def _distance(self, start: int) -> int:
        found = self._search(start, self._most_searched)
        if found is None:
            raise self._lost()
        return found

    def _lost(self) -> BudgetError:
        return BudgetError(f"no word found among {self._most_searched} states of {self.name}")

    def _search(self, start: int, most: int) -> int | None:
        """Best-first search (A*) for acceptance; settles the states on the way, or all it saw if there is none.

        None once it has seen `most` states.
        """
        known, states = self._distances, self._states
        if (found := known.get(start)) is not None:
            return found
        best = {start: 0}
        parent: dict[int, int] = {}
        heap = [(self._at_least(states[start]), 0, start)]
        while heap:
            total, negative, state = heappop(heap)
            depth = -negative
            if depth > best[state] or total >= INFINITE:
                continue
            if state not in known and (exact := self._exactly(states[state])) is not None:
                known[state] = exact
            if state in known or self._accepts(states[state]):
                step = known.get(state, 0)
                while True:
                    known[state] = step
                    if state == start:
                        return step
                    state, step = parent[state], step + 1
            for _, target in self._raw(state):
                if best.get(target, INFINITE) > depth + 1:
                    best[target] = depth + 1
                    parent[target] = state
                    ahead = known[target] if target in known else self._at_least(states[target])
                    if ahead < INFINITE:
                        heappush(heap, (depth + 1 + ahead, -depth - 1, target))
            if len(best) > most:
                return None
        for state in best:
            known[state] = INFINITE
        return INFINITE

    def _greedy(self, start: int) -> int:
        """Search for any acceptance, ever where it seems nearest: `near` of the states on the way."""
        known, states = self._distances, self._states
        parent = {start: start}
        heap = [(0, 0, start)]
        while heap:
            _, _, state = heappop(heap)
            if state in known or state in self._near or self._accepts(states[state]):
                step = known.get(state, self._near.get(state, 0))
                while step < INFINITE:
                    self._near[state] = step
                    if state == start:
                        return step
                    state, step = parent[state], step + 1
                continue
            for _, target in self._raw(state):
                if target not in parent:
                    parent[target] = state
                    ahead = self._guess(states[target])
                    if ahead < INFINITE:
                        heappush(heap, (ahead, -len(parent), target))  # of equals the latest: on, not around
            if len(parent) > self._most_searched:
                raise self._lost()
        for state in parent:
            known[state] = INFINITE
        return INFINITE


def _gap_free(dfa: LazyDfa[S], start: int) -> bool:
    """Whether every state accepts at all lengths from its shortest up, found by walking all states, if they are few.

    Such a state at distance d > 0 has a successor at d - 1 with the property; one at distance 0 has a successor at 0,
    forever: the greatest set of accepting states in which each has a successor.
    """
    steps: dict[int, list[int]] = {}
    waiting = [start]
    while waiting:
        state = waiting.pop()
        if state not in steps:
            if len(steps) >= _MAX_COUNTABLE_SEARCH:
                return False
            steps[state] = [target for _, target in dfa.step(state)]
            waiting += steps[state]
    good = {state for state in steps if dfa.accepting(state)}
    changed = True
    while changed:
        kept = {state for state in good if any(target in good for target in steps[state])}
        changed = len(kept) < len(good)
        good = kept
    for state in sorted(steps, key=dfa.shortest):
        distance = dfa.shortest(state)
        if distance and any(target in good and dfa.shortest(target) == distance - 1 for target in steps[state]):
            good.add(state)
    return len(good) == len(steps)


class EmptyDfa(Dfa):
    """The empty language."""

    key = ("empty",)
    name = "nothing"

    @property
    def start(self) -> None:
        return None

    def step(self, state: int) -> Step:
        raise IndexError("the empty automaton has no states")

    def accepting(self, state: int) -> bool:
        raise IndexError("the empty automaton has no states")

    def shortest(self, state: int) -> int:
        raise IndexError("the empty automaton has no states")


class StarDfa(Dfa):
    """Every word over one non-empty set of characters: a single state."""

    def __init__(self, chars: CharSet) -> None:
        self.key = ("star", chars)
        self.name = "any text" if chars is ALL else f"any text of {chars!r}"
        self.chars = chars
        self._step: Step = ((chars, 0),)

    @property
    def start(self) -> int:
        return 0

    def step(self, state: int) -> Step:
        return self._step

    def accepting(self, state: int) -> bool:
        return True

    def shortest(self, state: int) -> int:
        return 0

    def universal(self, state: int) -> bool:
        return self.chars is ALL

    @property
    def alphabet(self) -> CharSet:
        return self.chars

    @property
    def countable(self) -> bool:
        return True


_alive: WeakValueDictionary[Hashable, Dfa] = WeakValueDictionary()
_recent: OrderedDict[Hashable, Dfa] = OrderedDict()
_interning = threading.Lock()


def interned(key: Hashable, build: Callable[[], D]) -> D:
    """The automaton of this content key: the one alive, or a new one. The latest few thousand are kept alive."""
    with _interning:
        found = _alive.get(key)
        if found is not None:
            if key in _recent:
                _recent.move_to_end(key)
            return found  # type: ignore[return-value]
    built = build()
    with _interning:
        found = _alive.setdefault(key, built)
        _recent[key] = found
        if len(_recent) > _KEPT_AUTOMATA:
            _recent.popitem(last=False)
    return found  # type: ignore[return-value]


EMPTY_DFA = EmptyDfa()


def star(chars: CharSet) -> Dfa:
    """Every word over `chars`."""
    return interned(("star", chars), lambda: StarDfa(chars))
