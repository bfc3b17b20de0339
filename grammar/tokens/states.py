"""Where a text stands, interned: requests that have said the same things share one state and what it has learned."""

from __future__ import annotations

from bisect import bisect_left
from typing import Final

import numpy as np
import numpy.typing as npt

from ..automaton.codes import TOKEN_BYTE
from ..automaton.stepper import Configuration, ends
from ..automaton.tables import Tables
from ..automaton.tokencodes import spelled
from .masks import Masks, Position
from .rows import EMPTY
from .steps import Stepper
from .vocabulary import MAIN, Vocabulary
from .ways import Way

BYTES_PER_STATE: Final = 1600
MOVES_PER_STATE: Final = 6
"""What a state takes in memory with its mask and the effects of tokens that it remembers, roughly."""

_FEW_TOKENS: Final = 1000


class State:
    """A place in a text: a configuration, and what is known of it.

    number     tells states apart
    position   where its mask is kept, see `Position`
    accepting  whether the text may end here; None: not asked yet
    extra      of the position's dependent tokens those that this text allows; None: not asked yet
    forced     the bytes that every continuation begins with; None: not asked yet
    way        a shortest way out; None: not asked yet
    joined     the text of another state's way out that was joined from here last
    """

    __slots__ = ("accepting", "configuration", "extra", "forced", "joined", "number", "position", "way")

    def __init__(self, number: int, configuration: Configuration, position: Position) -> None:
        self.number = number
        self.configuration = configuration
        self.position = position
        self.accepting: bool | None = None
        self.extra: npt.NDArray[np.int64] | None = None
        self.forced: bytes | None = None
        self.way: Way | None = None
        self.joined: bytes | None = None


class States:
    """The states of one arena. Not thread-safe: callers hold the arena's lock, but for looking at `moves`.

    moves  by `state.number << 32 | token`, the state after a token that was accepted before. One dictionary of numbers
           for all states: a dictionary for each is most of what a state takes, and work for the garbage collector.
    """

    def __init__(self, vocabulary: Vocabulary, tables: Tables, masks: Masks, budget: int) -> None:
        """`budget`: bytes for states; beyond it those not in use are forgotten."""
        self._most = max(budget // BYTES_PER_STATE, 16)
        self._tokens, self._eos = vocabulary.tokens, frozenset(vocabulary.eos_ids)
        self.stepper = Stepper(tables)
        self._tables = tables
        self._masks = masks
        self._order = vocabulary.tries.below(MAIN)  # all tokens in the order of their bytes
        self._positions: dict[tuple[int, int, int], Position] = {}
        self._states: dict[Configuration, State] = {}
        self.moves: dict[int, State] = {}
        self._made = 0
        nowhere = Position(0, 0, 0)
        nowhere.table_row = EMPTY
        self.terminated = State(0, Configuration(0, 0), nowhere)
        self.terminated.accepting = False

    def __len__(self) -> int:
        return len(self._states)

    def at(self, configuration: Configuration) -> State:
        """The state of a configuration."""
        known = self._states.get(configuration)
        if known is not None:
            return known
        if len(self._states) >= self._most:
            self._forget()
        place = configuration[:3]
        position = self._positions.get(place)
        if position is None:
            position = self._positions[place] = Position(*place)
        self._made += 1
        state = self._states[configuration] = State(self._made, configuration, position)
        return state

    def after(self, state: State, token: int) -> State | None:
        """The state after a token; None if it is refused. Refusals are not remembered."""
        if state is self.terminated:
            return None
        if token in self._eos and self.accepting(state):
            following: State | None = self.terminated
        else:
            end = self._end(state.configuration, token) if 0 <= token < len(self._tokens) else None
            following = None if end is None else self.at(end)
        if following is not None:
            if len(self.moves) >= MOVES_PER_STATE * self._most:
                self._forget()
            self.moves[state.number << 32 | token] = following
        return following

    def _end(self, at: Configuration, token: int) -> Configuration | None:
        """Where a token leads: as such, if the grammar takes it so here, else by its text."""
        if self._tables.takes_tokens:
            end = self.stepper.run(at, spelled(token))
            if end is not None:
                return end
        else:
            end = self._masks.plain.after(at, token)
            if end is not None:
                return end
        data = self._tokens[token]
        return self.stepper.run(at, data) if data and TOKEN_BYTE not in data else None

    def accepting(self, state: State) -> bool:
        """Whether the text may end here."""
        if state.accepting is None:
            state.accepting = ends(self._tables, state.configuration)
        return state.accepting

    def is_known(self, state: State, token: int, way: Way, *, forced: bool) -> bool:
        """Whether the state after a token is known with its mask and, if asked for, that nothing is `forced` in it; and
        the text may end there, or it is a place of `way`, or the same way was joined from there before.
        """
        after = self.moves.get(state.number << 32 | token)
        if after is None or after.accepting is None or (forced and after.forced != b""):
            return False
        if not after.accepting and after.joined != way.data and after.configuration not in way:
            return False
        return self._masks.has(after.position, after.configuration.stack) and (
            not after.position.dependent or after.extra is not None
        )

    def write_mask(self, state: State, out: npt.NDArray[np.int32]) -> None:
        """Writes the mask of a state to `out`, int32 [words]."""
        position = state.position = self._masks.write(state.position, state.configuration.stack, out)
        if position.dependent:
            if state.extra is None:
                state.extra = self._takers(state)
            if len(state.extra):
                bits = np.left_shift(np.uint32(1), (state.extra & 31).astype(np.uint32))
                np.bitwise_or.at(out.view(np.uint32), state.extra >> 5, bits)

    def _takers(self, state: State) -> npt.NDArray[np.int64]:
        """Those of the position's dependent tokens that the state's texts allow.

        They may be most of the vocabulary (a number that any byte may end), so they are gone through in the order of
        their bytes: a beginning that is refused passes over all tokens that share it.
        """
        dependent = state.position.dependent
        taken = [token for token in self._eos.intersection(dependent) if self.accepting(state)]
        tokens, words = self._by_bytes(dependent)
        step = self.stepper.run
        before = b""
        path = [state.configuration]  # after each byte of `before`, as far as it was taken
        at = 0
        while at < len(words):
            data = words[at]
            shared = _shared(before, data, len(path) - 1)
            del path[shared + 1 :]
            before = data
            for i in range(shared, len(data)):
                following = step(path[-1], data[i : i + 1])
                if following is None:
                    at = bisect_left(words, _after_all(data[: i + 1]), at)
                    break
                path.append(following)
            else:
                taken.append(tokens[at])
                at += 1
        return np.array(taken, np.int64)

    def _by_bytes(self, tokens: tuple[int, ...]) -> tuple[list[int], list[bytes]]:
        """Those of the tokens that have bytes, in the order of these, and the bytes."""
        if len(tokens) <= _FEW_TOKENS:
            pairs = sorted([(data, token) for token in tokens if (data := self._tokens[token])])
            return [token for _, token in pairs], [data for data, _ in pairs]
        chosen = np.zeros(len(self._tokens), np.bool_)
        chosen[np.asarray(tokens, np.int64)] = True
        ordered = self._order[chosen[self._order]].tolist()
        return ordered, [self._tokens[token] or b"" for token in ordered]

    def _forget(self) -> None:
        """Keeps states whose masks are in use as dense rows, without their successors; matchers keep their own."""
        self._positions = {k: p for k, p in self._positions.items() if p.in_use()}
        self._states = {at: state for at, state in self._states.items() if state.position.table_row > EMPTY}
        self.moves.clear()
        self._masks.forget()


def _shared(left: bytes, right: bytes, most: int) -> int:
    """How many bytes both begin with, no more than `most`."""
    count = 0
    for a, b in zip(left[:most], right, strict=False):
        if a != b:
            break
        count += 1
    return count


def _after_all(prefix: bytes) -> bytes:
    """The least bytes above all that begin with `prefix`."""
    kept = prefix.rstrip(b"\xff")
    return kept[:-1] + bytes((kept[-1] + 1,)) if kept else b"\xff" * 64
