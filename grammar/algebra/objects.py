"""One object clause as an automaton over the symbols of its alphabet, always able to finish.

`Progress` is what must be remembered between properties. An option is offered only if the object can still be completed
after it: required keys still to come, their values possible, demands of the kind "some property ..." still satisfiable,
counts within bounds. That is the whole of "no dead end" for objects.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import combinations
from typing import NamedTuple

from ..schema.expr import Expr
from ..schema.values import Canonical
from .alphabet import Alphabet
from .brief import brief
from .clauses import ObjectClause
from .denied import Denied
from .goals import Goal, Literal
from .obvious import evident
from .rivals import Reasoner, Rivals

NEVER_ENDS = 1 << 30


class Progress(NamedTuple):
    """What an object remembers.

    used   names taken, as bits; in schema order only undeclared ones need it
    done   demands met, as bits
    size   number of properties, no further than matters
    at     the rank from which declared keys may still come
    rivals  which of the excluded values agree with all properties so far, as bits
    denied  which of the denied clauses hold for all properties so far, as bits
    written how many properties these are, no further than matters to them
    """

    used: int = 0
    done: int = 0
    size: int = 0
    at: int = 0
    rivals: int = 0
    denied: int = 0
    written: int = 0

    @property
    def against(self) -> bool:
        """Whether there is something that the object must still differ from."""
        return bool(self.rivals or self.denied)


class ObjectView:
    """An `ObjectClause` seen through an `Alphabet`.

    `ordered`: declared keys come in the order of the schema, others after them.
    """

    def __init__(self, clause: ObjectClause, alphabet: Alphabet, reasoner: Reasoner, ordered: bool) -> None:
        self._reasoner = reasoner
        self._goals = reasoner.goals
        self._alphabet = alphabet
        self.low, self.high = clause.low, clause.high
        index = alphabet.index
        self._by_symbol: dict[int, tuple[Literal, ...]] = {}
        self._general: list[tuple[int, tuple[Literal, ...]]] = []
        self._under = 0  # the symbols that some of these are about
        declared: dict[int, None] = {}
        for each in clause.each:
            name = each.name
            if name is not None:
                symbol = index[name]
                before = self._by_symbol.get(symbol)
                self._by_symbol[symbol] = each.literals if before is None else before + each.literals
                if each.declared:
                    declared[symbol] = None
            else:
                members = alphabet.members(each.keys)
                self._general.append((members, each.literals))
                self._under |= members
        self.required = 0
        demands = []
        for some in clause.some:
            name = some.name
            if name is not None:
                self.required |= 1 << index[name]
            else:
                demands.append((alphabet.members(some.keys), some.literals))
        self._demands = tuple(demands)
        self._everything = (1 << alphabet.size) - 1
        self._names = (1 << len(alphabet.names)) - 1
        ranks = list(declared) if ordered else []
        self._rank = {symbol: rank for rank, symbol in enumerate(ranks)}
        self._end = end = len(ranks)
        rest = self._everything
        if ranks == list(range(end)):  # mostly symbols are numbered in the order of declaration
            self._by_rank = True
            rest &= -1 << end
            every = self._everything
            self._from = [every & -1 << rank for rank in range(end + 1)]  # what may come at or after each rank
        else:
            self._by_rank = ranks == sorted(ranks)
            for symbol in ranks:
                rest &= ~(1 << symbol)
            self._from = [rest]
            for symbol in reversed(ranks):
                self._from.append(self._from[-1] | 1 << symbol)
            self._from.reverse()
        self._undeclared = rest & self._names
        self._simple = not demands and self.high is None and self.low <= self.required.bit_count()
        self._symbol_goals: dict[int, Goal] = {}
        self._live: dict[Progress, bool] = {}
        self._allowed: dict[Progress, int] = {}
        self._possible: int | None = None
        # Those that no object of the clause can be are left out, as far as that is plain.
        excluded = [{index[name]: value for name, value in members} for members in clause.excluded]
        self._rivals = Rivals([members for members in excluded if self._fits(members)], reasoner)
        self._denied = Denied(clause.denied, alphabet, reasoner)
        self.start = Progress(rivals=self._rivals.every, denied=self._denied.every)

    def _fits(self, members: Mapping[int, Canonical]) -> bool:
        """Whether an object with just these keys has all that are required, and not too many or too few."""
        return (
            all(symbol in members for symbol in bits(self.required))
            and self.low <= len(members)
            and (self.high is None or len(members) <= self.high)
        )

    def goal(self, symbol: int) -> Goal:
        """What the value of a property with this key must satisfy."""
        found = self._symbol_goals.get(symbol)
        if found is None:
            literals = self._by_symbol.get(symbol, ())
            more = [literal for mask, general in self._general if mask >> symbol & 1 for literal in general]
            found = self._symbol_goals[symbol] = self._goals.of([*literals, *more] if more else literals)
        return found

    @property
    def plain(self) -> bool:
        """Whether the clause has no demands but required keys and bounds on the number of properties."""
        return not self._demands

    def key_length(self, symbol: int) -> int:
        """The length of the key, or of a short one of the class."""
        return self._alphabet.key_length(symbol)

    @property
    def possible(self) -> int:
        """The symbols whose value can be satisfied at all."""
        if self._possible is None:
            mask, others = 0, self._everything
            for symbol in self._by_symbol:
                others &= ~(1 << symbol)
                if self._can_be(symbol):
                    mask |= 1 << symbol
            alike = [others] if others else []  # symbols of one goal
            for members, _ in self._general:
                alike = [part for both in alike for part in (both & members, both & ~members) if part]
            for symbols in alike:
                if self._reasoner.nonempty(self.goal((symbols & -symbols).bit_length() - 1)):
                    mask |= symbols
            self._possible = mask
        return self._possible

    def required_possible(self) -> bool:
        """Whether each required key can have a value; looks at nothing else, so recursion stays finite."""
        return all(self._can_be(symbol) for symbol in bits(self.required))

    def _can_be(self, symbol: int) -> bool:
        """Whether some value may follow the key."""
        only = self._only(symbol)
        return (only is not None and evident(only, self._goals)) or self._reasoner.nonempty(self.goal(symbol))

    def brief(self, symbol: int) -> int:
        """The length of a shortest value after the key, 0 if that is not plain to see."""
        only = self._only(symbol)
        return 0 if only is None else brief(only)

    def _only(self, symbol: int) -> Expr | None:
        """The one node that the value of a property must satisfy: much is seen from it without a goal, and of most
        properties no more is ever asked.
        """
        literals = self._by_symbol.get(symbol, ())
        if len(literals) != 1 or self._under >> symbol & 1:
            return None
        expr, sign = literals[0]
        return expr if sign else None

    def satisfiable(self) -> bool:
        """Whether some object satisfies the clause."""
        if self._simple and not self.required_possible():
            return False
        return (self._simple and not self.start.against) or self.live(self.start)

    @staticmethod
    def dominates(better: Progress, worse: Progress) -> bool:
        """Whether whatever can follow `worse` can follow `better` as well."""
        same = better._replace(done=worse.done, denied=worse.denied) == worse
        return same and worse.done & ~better.done == 0 and better.denied & ~worse.denied == 0

    def closable(self, progress: Progress) -> bool:
        """Whether the object may end here."""
        return (
            not self.pending(progress)
            and progress.done == (1 << len(self._demands)) - 1
            and progress.size >= self.low
            and not (progress.rivals and self._rivals.met(progress.rivals, progress.written))
            and not (progress.denied and self.met(progress))
        )

    def met(self, progress: Progress) -> int:
        """The denied clauses that the object would satisfy if it ended here, as bits."""
        missing = self._from[progress.at] & ~progress.used
        return self._denied.met(progress.denied, missing, progress.written)

    def allowed(self, progress: Progress) -> int:
        """The symbols that may come next, as bits."""
        found = self._allowed.get(progress)
        if found is None:
            found = self._allowed[progress] = self._compute_allowed(progress)
        return found

    def _compute_allowed(self, progress: Progress) -> int:
        available = self.available(progress)
        pending = self.pending(progress) & ~self._from[self._end]
        if pending:  # in schema order no key may pass over a required one
            available &= ~self._from[self._first_rank(pending) + 1]
        mask = 0
        if self._simple and not progress.denied:
            mask = available & ~sum(1 << symbol for symbol in self._rivals.places(progress.rivals))
        elif self._simple and not (progress.at < self._end or progress.rivals or self._denied.counted):
            mask = available & ~self._denied.wanted
            for symbol in bits(mask & self._denied.killers(progress.denied)):  # all others make no difference
                _, after = next(self._ways(progress, symbol), (None, progress))
                if after.denied == progress.denied:
                    mask &= ~(1 << symbol)  # and what rids the object of something never harms
        for symbol in bits(available & ~mask):
            if next(self.options(progress, symbol), None) is not None:
                mask |= 1 << symbol
        return mask

    def _first_rank(self, symbols: int) -> int:
        if self._by_rank:
            return self._rank[(symbols & -symbols).bit_length() - 1]
        return min(self._rank[symbol] for symbol in bits(symbols))

    def options(self, progress: Progress, symbol: int) -> Iterator[tuple[Goal, Progress]]:
        """The ways to go on with this key: what its value must satisfy, and where that leads. All of them are live."""
        for goal, after in self._ways(progress, symbol) if progress.against else self._options(progress, symbol):
            if not after.against or self.live(after):
                yield goal, after

    def _ways(self, progress: Progress, symbol: int) -> Iterator[tuple[Goal, Progress]]:
        """`options` where the object must differ from something; what leads nowhere is among them."""
        for goal, after in self._options(progress._replace(rivals=0, denied=0, written=0), symbol):
            differs = self._rivals.differs(goal, symbol, progress.rivals)
            if differs is not None:
                yield from self._undenied(progress, symbol, differs, after)
            for same, _, rivals in self._rivals.agrees(goal, symbol, progress.rivals):
                yield from self._undenied(progress, symbol, same, after._replace(rivals=rivals))

    def _undenied(
        self, progress: Progress, symbol: int, goal: Goal, after: Progress
    ) -> Iterator[tuple[Goal, Progress]]:
        """A way on, told apart by the denied clauses that hold after it."""
        written = progress.written + 1
        if not progress.denied:
            yield goal, after._replace(written=written if after.rivals else 0)
            return
        passed = self._from[progress.at] & ~self._from[after.at] & ~(1 << symbol)
        alive = progress.denied & ~self._denied.without(passed)
        for told, denied in self._denied.ways(goal, symbol, alive):
            count = written if after.rivals else min(written, self._denied.counted) if denied else 0
            yield told, after._replace(denied=denied, written=count)

    def _options(self, progress: Progress, symbol: int) -> Iterator[tuple[Goal, Progress]]:
        """`options`, rivals aside."""
        goal = self.goal(symbol)
        if self._simple:
            yield goal, self._after(progress, symbol, 0)
            return
        wanted = [j for j, (mask, _) in enumerate(self._demands) if mask >> symbol & 1 and not progress.done >> j & 1]
        given: set[Goal] = set()
        # What the value satisfies anyway is met; more demands met first: the same goal with fewer is no option.
        free = [j for j in wanted if self._goals.both(goal, self._demands[j][1]) is goal]
        wanted = [j for j in wanted if j not in free]
        for size in range(len(wanted), -1, -1):
            for chosen in combinations(wanted, size):
                asked = self._goals.both(goal, [literal for j in chosen for literal in self._demands[j][1]])
                if asked in given or not self._reasoner.nonempty(asked):
                    continue
                after = self._after(progress, symbol, sum(1 << j for j in (*free, *chosen)))
                if self.live(after):
                    given.add(asked)
                    yield asked, after

    def live(self, progress: Progress) -> bool:
        """Whether the object can be completed from here."""
        found = self._live.get(progress)
        if found is None:
            if progress.denied:
                self._live[progress] = False  # what leads back here leads nowhere new
            try:
                found = self._compute_live(progress)
            except BaseException:
                self._live.pop(progress, None)
                raise
            self._live[progress] = found
        return found

    def fewest(self, progress: Progress) -> int:
        """The least number of properties that must still come; NEVER_ENDS if it cannot be completed."""
        pending = self.pending(progress)
        if pending & ~self.available(progress):
            return NEVER_ENDS
        waiting = [j for j in range(len(self._demands)) if not progress.done >> j & 1]
        instances: list[tuple[int, tuple[Literal, ...]]] = [(symbol, ()) for symbol in bits(pending)]
        extra = self._cover(waiting, instances, self.available(progress) & ~pending) if waiting else 0
        if extra >= NEVER_ENDS:
            return NEVER_ENDS
        return max(len(bits(pending)) + extra, min(self.low - progress.size, NEVER_ENDS - 1))

    def _compute_live(self, progress: Progress) -> bool:
        if progress.against:
            alone = progress._replace(rivals=0, denied=0, written=0)
            if not (self._simple or self.live(alone)):
                return False
            return self._harmless(progress) or self.closable(progress) or self._differs(progress, alone)
        need = self.fewest(progress)
        if need >= NEVER_ENDS:
            return False
        if self.high is not None and progress.size + need > self.high:
            return False
        available = self.available(progress)
        endless = available & self._alphabet.class_mask
        return bool(endless) or progress.size + available.bit_count() >= self.low

    def _harmless(self, progress: Progress) -> bool:
        """Whether it is plain that the object satisfies no denied clause once it has the keys that must come."""
        missing = self._from[progress.at] & ~progress.used & ~self.required
        return self._simple and not (progress.rivals or self._denied.met(progress.denied, missing))

    def _differs(self, progress: Progress, alone: Progress) -> bool:
        """Whether further properties can make the object differ from all it must; `alone`: the same without that."""
        pending = self.pending(progress)
        if progress.denied:
            self._goals.effort.spend(8 + 4 * self._denied.every.bit_length())
        else:
            symbols = bits(self.allowed(alone))
            ways = ((symbol, goal) for symbol in symbols for goal, _ in self._options(alone, symbol))
            if any(self._rivals.differs(goal, symbol, progress.rivals) is not None for symbol, goal in ways):
                return True
        if pending and progress.at == self._end:  # each must come, and their order makes no difference
            symbols = bits(pending & -pending)
        elif progress.denied:
            worth = self.remedies(progress, self.allowed(alone))
            met = self.met(progress)
            likely = worth & self._denied.killers(met & -met)
            symbols = bits(likely) + bits(worth & ~likely)
        return self._goals.depth.enter(
            lambda: any(next(self.options(progress, symbol), None) is not None for symbol in symbols)
        )

    def remedies(self, progress: Progress, symbols: int) -> int:
        """Those of the symbols that are worth a try where none must come and a denied clause may hold."""
        if progress.rivals or self._denied.bounded:
            return symbols
        met = self.met(progress)
        if self._denied.doomed(met, self.available(progress)):
            return 0
        if progress.at == self._end:
            return symbols & self._denied.killers(met & -met) if met else symbols
        if self._demands or self.high is not None or progress.size < self.low:
            return symbols
        return symbols & (self._denied.killers(progress.denied) | self.pending(progress))

    def _cover(self, waiting: list[int], instances: list[tuple[int, tuple[Literal, ...]]], free: int) -> int:
        """The least number of further properties, beside `instances`, with which all `waiting` demands are met."""
        if not waiting:
            return 0
        mask, literals = self._demands[waiting[0]]
        best = NEVER_ENDS
        for i, (symbol, asked) in enumerate(instances):
            if mask >> symbol & 1:
                merged = (*asked, *literals)
                if self._reasoner.nonempty(self._goals.both(self.goal(symbol), merged)):
                    changed = [*instances[:i], (symbol, merged), *instances[i + 1 :]]
                    best = min(best, self._cover(waiting[1:], changed, free))
                    if best == 0:
                        return 0
        for symbol in bits(free & mask):
            if self._reasoner.nonempty(self._goals.both(self.goal(symbol), literals)):
                left = free if symbol >= len(self._alphabet.names) else free & ~(1 << symbol)
                best = min(best, 1 + self._cover(waiting[1:], [*instances, (symbol, literals)], left))
                if best == 1:
                    break
        return best

    def available(self, progress: Progress) -> int:
        """The symbols that may come next or later, as bits."""
        return self._from[progress.at] & ~progress.used & self.possible

    def pending(self, progress: Progress) -> int:
        """The required names that have not come yet."""
        return self.required & self._from[progress.at] & ~progress.used

    def _after(self, progress: Progress, symbol: int, met: int) -> Progress:
        rank = self._rank.get(symbol)
        bit = 1 << symbol & self._names
        if rank is not None:
            used, at = progress.used, rank + 1
        else:
            used, at = progress.used | bit, self._end
        count = progress.size + 1
        if self.high is None:
            count = min(count, self.low)
        return Progress(used, progress.done | met, count, at)


def bits(mask: int) -> list[int]:
    """The positions of the set bits, lowest first."""
    out = []
    while mask:
        low = mask & -mask
        out.append(low.bit_length() - 1)
        mask ^= low
    return out
