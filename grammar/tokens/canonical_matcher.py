"""Matchers for canonical tokens only: a grammar's states side by side with what its tokenizer would give.

A token is allowed if the grammar takes it, the tokenizer could give it there, and both go on together to an end. Where
few tokens are left, as in text that the grammar forces, the last is found by trying; where many are, it is taken for
granted. If it was taken so wrongly, the grammar comes to be in a state where none of its tokens is canonical: there it
alone decides, and what comes after counts as a new beginning. So no state is a dead end.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Iterator
from contextlib import contextmanager
from operator import index
from typing import Final, Self

import numpy as np
import numpy.typing as npt

from ..automaton.stepper import Configuration
from ..automaton.tables import Tables
from ..automaton.tokencodes import LENGTH, MARK, token_of
from ..errors import FullError, GrammarError, MatcherError
from .canonical import Canonical, Spelled
from .masks import Position
from .matcher import Automaton, Matcher, TokenLevel, ids_of
from .states import State
from .vocabulary import Vocabulary
from .ways import Way, trace

CHECKED: Final = 2_048
"""Of so many tokens or fewer each is tried."""
WIDE: Final = 64
"""With more tokens than that to go on with, one will do."""
MOST_VISITED: Final = 400
_ENOUGH_BYTES: Final = 4
_MOST_BYTES: Final = 16
_MOST_WAYS: Final = 64
_MOST_BRANCHES: Final = 16
_REMEMBERED: Final = 4
_NODES: Final = 20_000
_MASK_BYTES: Final = 32 << 20

Int32s = npt.NDArray[np.int32]
_NOWHERE: Final = Position(0, 0, 0)
"""The position of all nodes: their masks are not those of the grammar's states."""


class Node(State):
    """A state of the grammar and what was spelled on the way there.

    alive   whether some canonical text ends from here; None: not tried, or not found out
    lifted  whether the grammar alone decides here; None: the mask is not known yet
    """

    __slots__ = ("alive", "grammar", "lifted", "spelled")

    def __init__(self, number: int, grammar: State, spelled: Spelled) -> None:
        super().__init__(number, grammar.configuration, _NOWHERE)
        self.grammar = grammar
        self.spelled = spelled
        self.alive: bool | None = None
        self.lifted: bool | None = None


class CanonicalLevel:
    """The nodes over one token level, and their masks. Callers hold the arena's lock."""

    def __init__(self, level: TokenLevel, canonical: Canonical) -> None:
        self.level = level
        self.vocabulary = level.vocabulary
        self.canonical = canonical
        self._states = level._states
        self._nodes: dict[tuple[int, int], Node] = {}
        self._masks: OrderedDict[int, Int32s] = OrderedDict()
        self._most = max(_MASK_BYTES // (4 * level.vocabulary.words), 64)
        self._made = 0
        tokens = level.vocabulary.tokens
        self._bytes = {data: token for token, data in enumerate(tokens) if data is not None and len(data) == 1}

    @classmethod
    def over(cls, level: TokenLevel, canonical: Canonical) -> Self:
        """The one over a token level; all its grammars share it."""
        with level._lock:
            found = level.canonical
            if not isinstance(found, cls):
                found = level.canonical = cls(level, canonical)
            return found

    def matcher(self, automaton: Automaton) -> CanonicalMatcher:
        """A matcher at the automaton's start."""
        begun = self.level.matcher(automaton)
        with self.level._lock:
            return CanonicalMatcher(self, automaton, self.node(begun._state, self.canonical.start), [])

    def node(self, grammar: State, spelled: Spelled) -> Node:
        """The node of a state and what was spelled."""
        key = (grammar.number, spelled.number)
        found = self._nodes.get(key)
        if found is None:
            if len(self._nodes) >= _NODES:
                self._nodes.clear()
                self._masks.clear()
            self._made += 1
            found = self._nodes[key] = Node(self._made, grammar, spelled)
        return found

    def after(self, node: Node, token: int, *, anyhow: bool = False) -> Node | None:
        """The node after a token; None if the grammar refuses it, or (but for `anyhow`) the tokenizer does."""
        spelled = self.canonical.after(node.spelled, token)
        if spelled is None and not anyhow and token not in self.level.vocabulary.eos_ids:
            return None
        grammar = self._states.after(node.grammar, token)
        return None if grammar is None else self.node(grammar, spelled or self.canonical.anew(token))

    def mask(self, node: Node) -> Int32s:
        """The tokens of a node, int32 [words]. Not to be changed."""
        found = self._masks.get(node.number)
        if found is None:
            found = self._masks[node.number] = self._mask(node)
            if len(self._masks) > self._most:
                self._masks.popitem(last=False)
        return found

    def ends(self, node: Node) -> bool:
        """Whether a canonical text may end here."""
        return node.spelled.ends and self._states.accepting(node.grammar)

    def is_over(self, node: Node) -> bool:
        """Whether the end was accepted."""
        return node.grammar is self._states.terminated

    def spell(self, node: Node, data: bytes) -> tuple[int, ...] | None:
        """The canonical tokens that spell `data` to the end of a text; None if there are none."""
        found: list[int] = []
        spelled = node.spelled
        while (at := data.find(MARK)) >= 0:  # a token that is taken as such, `tokencodes` spells it
            before = self.canonical.spell(spelled, data[:at])
            if before is None:
                return None
            found += (*before, token_of(data[at:]))
            spelled, data = self.canonical.start, data[at + LENGTH :]
        rest = self.canonical.spell(spelled, data)
        return None if rest is None else (*found, *rest)

    # ---- parts

    def _mask(self, node: Node) -> Int32s:
        row, own = self._raw(node)
        if np.bitwise_count(row).sum() <= CHECKED:
            for token in ids_of(row):
                following = self.after(node, token)
                if following is None or not self._is_alive(following):
                    row[token >> 5] ^= np.left_shift(np.uint32(1), np.uint32(token & 31)).view(np.int32)
        node.lifted = not row.any()
        return own if node.lifted else row

    def _raw(self, node: Node) -> tuple[Int32s, Int32s]:
        """What grammar and tokenizer both take, and what the grammar does: int32 [words] each."""
        own = np.zeros(self.level.vocabulary.words, np.int32)
        if not self.is_over(node):
            self._states.write_mask(node.grammar, own)
        return own & self.canonical.row(node.spelled), own

    def _is_alive(self, root: Node) -> bool:
        """Whether some canonical text ends from here; true as well where that is not found out soon."""
        if root.alive is None and self._goes_on(root):
            root.alive = True
        if root.alive is not None:
            return root.alive
        seen = {root}
        path: list[tuple[Node, Iterator[int]]] = []
        following: Node | None = root
        while True:
            if following is not None:
                branches = self._branches(following)
                if branches is None or len(seen) > MOST_VISITED:
                    for node, _ in path if branches is None else ():
                        node.alive = True
                    following.alive = True if branches is None else following.alive
                    return True
                path.append((following, iter(branches)))
            if not path:
                for node in seen:
                    node.alive = False
                return False
            node, rest = path[-1]
            token = next(rest, None)
            if token is None:
                path.pop()
                following = None
                continue
            following = self.after(node, token)
            if following in seen or (following is not None and following.alive is False):
                following = None
            if following is not None:
                seen.add(following)

    def _goes_on(self, node: Node) -> bool:
        """Whether several bytes may come next, and may be tokens by themselves: a quick sign that much may."""
        if self.is_over(node) or self.ends(node):
            return True
        run, at = self._states.stepper.run, node.configuration
        found = 0
        for byte in self.level.tables.values(at.row).nonzero()[0].tolist()[:_MOST_BYTES]:
            token = self._bytes.get(bytes((byte,)))
            if token is not None and self.canonical.after(node.spelled, token) and run(at, bytes((byte,))):
                found += 1
                if found == _ENOUGH_BYTES:
                    return True
        return False

    def _branches(self, node: Node) -> list[int] | None:
        """The tokens to go on with, the longest first; None if it is certain, or as good as, that the text can end."""
        if node.alive or self._goes_on(node):
            return None
        row, _ = self._raw(node)
        if np.bitwise_count(row).sum() > WIDE:
            return None
        texts = self.level.vocabulary.tokens
        return sorted(ids_of(row), key=lambda token: len(texts[token] or b""), reverse=True)


class CanonicalMatcher(Matcher):
    """A matcher whose tokens are canonical, see `CanonicalLevel`."""

    __slots__ = ("_canonical", "_ways")

    canonical = True
    _state: Node
    _history: list[State]

    def __init__(self, canonical: CanonicalLevel, automaton: Automaton, node: Node, history: list[State]) -> None:
        super().__init__(canonical.level, automaton, node, history)
        self._canonical = canonical
        self._ways: deque[Way] = deque(maxlen=_REMEMBERED)

    def _fill(self, out: Int32s) -> None:
        out[:] = self._canonical.mask(self._state)

    def accept(self, token: int) -> bool:
        """Moves on by a token of the mask, or by the first of a way out that was asked for last."""
        token = index(token)
        following = self._with_room(lambda: self._after(token))
        if following is None:
            return False
        self._history.append(self._state)
        self._tokens.append(token)
        self._state = following
        return True

    def _after(self, token: int) -> Node | None:
        if not 0 <= token < self.level.vocabulary.size:
            return None
        with self.level._lock:
            word = int(self._canonical.mask(self._state)[token >> 5])
            if not word >> (token & 31) & 1 and not self._promised(token):
                return None
            return self._canonical.after(self._state, token, anyhow=True)

    def _become(self, matcher: Matcher) -> None:
        super()._become(matcher)
        assert isinstance(matcher, CanonicalMatcher)
        self._canonical = matcher._canonical
        self._ways.clear()

    def fork(self) -> CanonicalMatcher:
        """An independent matcher at the same place, with the same history."""
        fork = CanonicalMatcher(self._canonical, self._automaton, self._state, self._history.copy())
        fork._ways.extend(self._ways)
        return self._forked(fork)

    def is_accepting(self) -> bool:
        """Whether the text may end here, and what was spelled is canonical then."""
        return self._with_room(self._accepting)

    def _accepting(self) -> bool:
        with self.level._lock:
            if self._canonical.ends(self._state):
                return True
            self._canonical.mask(self._state)
            return bool(self._state.lifted) and self.level._states.accepting(self._state.grammar)

    def is_terminated(self) -> bool:
        """Whether the end was accepted."""
        return self._canonical.is_over(self._state)

    def way_out(self) -> Way:
        """A way out in canonical tokens, as short as was found; in others where none was found.

        Raises BudgetError where it is absurdly long, MatcherError if the vocabulary cannot spell it.
        """
        way = super().way_out()
        self._ways.append(way)
        return way

    def _new_way(self, at: Configuration) -> Way:
        with self.level._lock:
            return self._home(self._state) or self._plain().way_out()

    def way_home(self, way: Way, count: int) -> Way | None:
        """A way out of at most `count` tokens, None if none is known: from `way`, one from before the last tokens."""
        self._ways.append(way)
        if self.is_accepting():
            return Way(b"", (self._state.configuration,), self.level.vocabulary, self.level.tables)
        try:
            known = self._with_room(lambda: self._plain().way_home(way, count))
            own = None if known is None else self._spelled(self._state, known.data)
            found = own if own is not None else self.way_out()
        except FullError:
            raise
        except (GrammarError, MatcherError):
            return None
        if not found.fits(count):
            return None
        self._ways.append(found)
        return found

    @contextmanager
    def at_once(self, token: int, way: Way, *, forced: bool) -> Iterator[bool]:
        """Never: what is known of canonical tokens is not looked up that fast."""
        yield False

    # ---- parts

    def _plain(self) -> Matcher:
        """A matcher for which all tokens are as good, at the same place."""
        return Matcher(self.level, self._automaton, self._state.grammar, [])

    def _promised(self, token: int) -> bool:
        at = self._state.configuration
        return any(way.places[0] == at and way.tokens is not None and way.tokens[:1] == (token,) for way in self._ways)

    def _spelled(self, node: Node, data: bytes) -> Way | None:
        """The way by `data`, if canonical tokens spell it."""
        with self.level._lock:
            tokens = self._canonical.spell(node, data)
            if tokens is None:
                return None
            level = self.level
            way = trace(node.configuration, data, level.tables, level._states.stepper, level.vocabulary)
            return None if way is None else _CanonicalWay(way.data, way.places, tokens, level.vocabulary, level.tables)

    def _home(self, root: Node) -> Way | None:
        """A way out in canonical tokens: the shortest if they spell it, else one after a few tokens more."""
        texts = self.level.vocabulary.tokens
        waiting: deque[tuple[Node, bytes]] = deque([(root, b"")])
        seen = {root}
        while waiting and len(seen) < _MOST_WAYS:
            node, data = waiting.popleft()
            way = self._spelled(root, data + self._automaton.completion(node.configuration))
            if way is not None:
                return way
            branches = self._canonical._branches(node) or ids_of(self._canonical.mask(node))
            for token in branches[:_MOST_BRANCHES]:
                following = self._canonical.after(node, token)
                if texts[token] and following is not None and following not in seen:
                    seen.add(following)
                    waiting.append((following, data + (texts[token] or b"")))
        return None


class _CanonicalWay(Way):
    """A way out whose tokens are known."""

    def __init__(
        self,
        data: bytes,
        places: tuple[Configuration, ...],
        tokens: tuple[int, ...],
        vocabulary: Vocabulary,
        tables: Tables,
    ) -> None:
        super().__init__(data, places, vocabulary, tables)
        self._own = tokens
        self.__dict__["tokens"] = tokens  # of a cached property: it is not asked for again

    def _needed(self) -> int:
        return len(self._own)

    def after(self, start: int) -> Way:
        """The way without its first `start` bytes; its tokens are canonical no more if these end within one."""
        place = done = 0
        while done < start:
            done += self._vocabulary.length(self._own[place], self.data[done:])
            place += 1
        if done > start:
            return super().after(start)
        return _CanonicalWay(self.data[start:], self.places[start:], self._own[place:], self._vocabulary, self.tables)
