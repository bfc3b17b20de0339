"""What all frames share: the builder of one grammar's frames, and what comes after a value.

A *frame* is a handler interned in the tables. It holds the alternatives of the schema that are still alive and how far
each has come in one container. What is around the container waits on the stack (see `Stacks`), so that a situation is
the same frame wherever it comes up. Handlers answer one question: a lexeme ended with this label, what is next? They
are asked once per situation; the tables remember.

    ValueHandler     a value is being read (its scalars end here; `{` and `[` open a container inside)
    ObjectHandler    between the properties of an object, up to a key's colon
    ArrayHandler     between the items of an array
    BackHandler      on the stack: a container is being read, and what follows it is known

`texts` are the texts that the frame records, None where only a mask is asked for.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterable
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol

from ..algebra import (
    Algebra,
    Alphabet,
    ArrayClause,
    ArrayView,
    Costs,
    Goal,
    ObjectClause,
    ObjectView,
    Progress,
    alphabet,
)
from ..frozen import frozen
from ..regular import numbers
from .answers import Answer, Close, Depends, Exact
from .codes import FIRST_LABEL
from .lexemes import Lexemes
from .specs import KeyLexeme, KeySpec, ValueSpec, ValueStart
from .tables import Tables
from .turns import Turn

if TYPE_CHECKING:
    from ..regular import Dfa, NumberSpec

Order = Literal["schema", "any"]
_EASY = 10**9
_EASY_DIGITS = 40
_GOAL_STEPS = 30  # what a look at a goal's scalars costs, in steps of the effort
Texts = tuple[bytes, ...]
Alternative = tuple[int, Progress, int]  # of an object: view, its progress, tags
Groups = tuple[tuple[Alternative, ...], ...]
_Place = tuple[bool, bool, bool, int]  # of a value: leading, first_item, closable, depth; see `ValueSpec`
Used = tuple[str, ...] | None  # undeclared keys of an object; None: one of them is not known (masks only)


@frozen
class FrameOptions:
    """What shapes a grammar's frames beside its schema."""

    order: Order = "schema"
    spelling: Literal["natural", "any"] = "natural"
    max_digits: int = 40
    pretty: bool = False


class Position:
    """The values that may stand in one place: alternatives (goal, tags), interned by content."""

    __slots__ = ("_arrays", "_builder", "_objects", "all_tags", "number", "parts", "specs", "starts")

    def __init__(self, builder: Builder, number: int, parts: tuple[tuple[Goal, int], ...]) -> None:
        self._builder = builder
        self.number = number
        self.parts = parts
        self.all_tags = 0
        for _, tags in parts:
            self.all_tags |= tags
        self.starts: dict[_Place, ValueStart] = {}
        self.specs: dict[_Place, ValueSpec] = {}  # prepared before their starts
        self._objects: Shape | None = None
        self._arrays: tuple[tuple[ArrayView, int], ...] | None = None

    @property
    def objects(self) -> Shape:
        """The object alternatives, those that can be satisfied."""
        if self._objects is None:
            self._objects = self._builder.shape(self.parts)
        return self._objects

    @property
    def arrays(self) -> tuple[tuple[ArrayView, int], ...]:
        """The array alternatives, those that can be satisfied, with their tags."""
        if self._arrays is None:
            found: dict[ArrayView, int] = {}
            for goal, tags in self.parts:
                for clause in self._builder.algebra.arrays(goal):
                    view = self._builder.array_view(clause)
                    self._builder.origins.setdefault(view, goal)
                    if view.satisfiable():
                        found[view] = found.get(view, 0) | tags
            self._arrays = tuple(found.items())
        return self._arrays


class Stage:
    """Alternatives of an object, each as far as it has come, with all that they lead to.

    symbols       what may come next, as bits
    closing_tags  the alternatives that may end here
    steps         by symbol: the values that may follow the key, and what each value that is accepted leads to
    frames        by used keys and depth: the row after `{`, the row after a value, the frame
    """

    __slots__ = ("alternatives", "closing_tags", "frames", "number", "steps", "symbols")

    def __init__(self, number: int, alternatives: tuple[Alternative, ...], symbols: int, closing_tags: int) -> None:
        self.number = number
        self.alternatives = alternatives
        self.symbols = symbols
        self.closing_tags = closing_tags
        self.steps: dict[int, tuple[Position | None, Outcome]] = {}
        self.frames: dict[tuple[Used, int], tuple[int, int, int]] = {}


class Outcome:
    """What the values after a key lead to: a group of alternatives for each tag of the value's position.

    stages  by tags of the accepted value; afters: by used keys and depth, what follows the value
    """

    __slots__ = ("afters", "groups", "number", "stages")

    def __init__(self, number: int, groups: Groups) -> None:
        self.number = number
        self.groups = groups
        self.stages: dict[int, Stage] = {}
        self.afters: dict[tuple[Used, int], After] = {}


class Shape:
    """The clauses that one object may satisfy, over one alphabet and one key lexeme.

    `records`: 1 if keys that no clause names may come, which must be remembered; `others`: such that match no pattern.
    """

    __slots__ = ("_outcomes", "alphabet", "number", "others", "records", "stages", "start", "views")

    def __init__(
        self, number: int, symbols: Alphabet, views: tuple[ObjectView, ...], start: tuple[tuple[int, int], ...]
    ) -> None:
        self.number = number
        self.alphabet = symbols
        self.views = views
        self.start = start  # (view, tags)
        possible = 0
        for i, _ in start:
            possible |= views[i].possible
        self.records = int(possible & symbols.class_mask != 0)
        self.others = 0 in symbols.signatures and bool(possible >> len(symbols.names) + symbols.signatures.index(0) & 1)
        self.stages: dict[tuple[Alternative, ...], Stage] = {}
        self._outcomes: dict[Groups, Outcome] = {}

    def outcome(self, groups: Groups) -> Outcome:
        """The outcome with these groups; equal ones are one."""
        found = self._outcomes.get(groups)
        if found is None:
            found = self._outcomes[groups] = Outcome(len(self._outcomes), groups)
        return found


class FrameHandler(ABC):
    """What the tables ask of a frame, by way of one question: a lexeme ended with this label, what is next?"""

    __slots__ = ()

    builder: Builder

    def fill(self, frame: int, label: int) -> Answer:
        with self.builder.turn:
            self.renew()
            return self.step(label, None)

    def resolve(self, frame: int, label: int, texts: Texts) -> Exact:
        if self.told(label):
            return self.builder.tables.next(frame, label)
        with self.builder.turn:
            self.renew()
            answer = self.step(label, texts)
        assert not isinstance(answer, Depends)
        return answer

    def told(self, label: int) -> bool:
        """Whether what is next is the same whatever text was recorded."""
        return False

    def renew(self) -> None:
        """A new question begins, with as much work allowed as any."""
        self.builder.algebra.goals.effort.renew()

    @abstractmethod
    def step(self, label: int, texts: Texts | None) -> Answer:
        """What is next after a lexeme that ended with `label`; `texts` are None where only a mask is asked for."""


class After(Protocol):
    """What follows a value in the container around it; `key` says it all, so that equal frames are one.

    scopes        how many texts are recorded while the value is read; depth: levels of indentation of the value
    closing_tags  the alternatives that the container around satisfies if it ends before the value
    """

    key: Hashable
    scopes: int
    depth: int
    closing_tags: int

    def end(self, tags: int, texts: Texts | None) -> Answer:
        """The value ended, accepted by the alternatives in `tags`."""

    def close(self, texts: Texts | None) -> Answer:
        """`]` came where the first item of an array might have come."""

    def endings(self, tags: int) -> Iterable[tuple[int, int]]:
        """The ways in which the container around may end after a value accepted by `tags`; see `around.Endings`."""


class Containers(NamedTuple):
    """(row, frame) after `{` and `[` in a value of a position; None if no such container may come."""

    open_object: Callable[[Builder, Position, int], tuple[int, int] | None]
    open_array: Callable[[Builder, Position, int], tuple[int, int] | None]


class Builder:
    """The parts that the frames of one grammar share, and the caches by which equal things are one."""

    def __init__(
        self,
        number: int,
        tables: Tables,
        lexemes: Lexemes,
        algebra: Algebra,
        options: FrameOptions,
        containers: Containers,
    ) -> None:
        self.number = number
        self.containers = containers
        self.tables = tables
        self.lexemes = lexemes
        self.algebra = algebra
        self.options = options
        self.turn = Turn(tables.pauses)
        algebra.goals.effort.pause = self.turn.pause
        self.origins: dict[ObjectView | ArrayView, Goal] = {}  # what views were first made for (see `pointers`)
        self._positions: dict[tuple[tuple[int, int], ...], Position] = {}
        self._shapes: dict[tuple[tuple[object, int], ...], Shape] = {}
        self._array_views: dict[object, ArrayView] = {}
        self._object_views: dict[ObjectClause, ObjectView] = {}
        self._numbers: dict[NumberSpec, Dfa] = {}
        self.arrays: dict[Hashable, Any] = {}  # handlers, see `arrays`
        self.closed: list[int] = []  # the tags that a label of `BackHandler` stands for
        self._closes: dict[int, Close] = {}
        self.costs = Costs(algebra, self)
        self._keys: dict[tuple[int, int, tuple[str, ...]], KeyLexeme] = {}
        self._label_masks: dict[tuple[int, int], int] = {}

    def position(self, parts: dict[Goal, int]) -> Position:
        """The position of these alternatives."""
        key = tuple((goal.number, tags) for goal, tags in parts.items())
        found = self._positions.get(key)
        if found is None:
            found = self._positions[key] = Position(self, len(self._positions), tuple(parts.items()))
        return found

    def close(self, tags: int) -> Close | None:
        """A container ended, accepted by the alternatives in `tags`."""
        found = self._closes.get(tags)
        if found is None and tags:
            found = self._closes[tags] = Close(len(self.closed))
            self.closed.append(tags)
        return found

    def shape(self, parts: tuple[tuple[Goal, int], ...]) -> Shape:
        """The shape of the object alternatives of a position."""
        found_clauses = [(clause, tags, goal) for goal, tags in parts for clause in self.algebra.objects(goal)]
        clauses: dict[object, ObjectClause] = {}
        tags_of: dict[object, int] = {}
        goals: dict[object, Goal] = {}
        for clause, tags, goal in found_clauses:
            # One clause by itself is known by what made it, several are compared by content.
            same = clause.identity if len(found_clauses) > 1 else clause
            clauses[same] = clause
            goals.setdefault(same, goal)
            tags_of[same] = tags_of.get(same, 0) | tags
        key = tuple(tags_of.items())
        found = self._shapes.get(key)
        if found is None:
            symbols = alphabet(clauses.values())
            ordered = self.options.order == "schema"
            views = tuple(ObjectView(clause, symbols, self.algebra, ordered) for clause in clauses.values())
            if len(views) == 1:  # it is the view of its clause by itself, too
                self._object_views.setdefault(next(iter(clauses.values())), views[0])
            self.origins.update(zip(views, goals.values(), strict=True))
            alive = tuple((i, tags) for i, tags in enumerate(tags_of.values()) if views[i].satisfiable())
            found = self._shapes[key] = Shape(len(self._shapes), symbols, views, alive)
        return found

    def object_view(self, clause: ObjectClause) -> ObjectView:
        """The view of an object clause by itself."""
        found = self._object_views.get(clause)
        if found is None:
            ordered = self.options.order == "schema"
            found = self._object_views[clause] = ObjectView(clause, alphabet([clause]), self.algebra, ordered)
        return found

    def array_view(self, clause: ArrayClause) -> ArrayView:
        """The view of an array clause."""
        found = self._array_views.get(clause.identity)
        if found is None:
            found = self._array_views[clause.identity] = ArrayView(clause, self.algebra)
        return found

    def start(
        self,
        position: Position,
        *,
        leading: bool = True,
        first_item: bool = False,
        closable: bool = False,
        depth: int = 0,
    ) -> ValueStart:
        """The rows that read a value of the position."""
        key = (leading, first_item, closable, depth)
        found = position.starts.get(key)
        if found is None:
            spec = position.specs.pop(key, None) or self._spec(position, key)
            found = position.starts[key] = self.lexemes.value(spec)
        return found

    def prepare(self, position: Position) -> None:
        """Works out what the position's start will need of the algebra; touches no tables, needs no lock."""
        place = True, False, False, 0
        position.specs[place] = self._spec(position, place)
        self.algebra.goals.effort.renew()
        for goal, _ in position.parts:
            self.costs.value(goal)

    def keys(self, shape: Shape, used: tuple[str, ...], depth: int) -> KeyLexeme:
        """The key lexeme of a shape; `used` are undeclared keys that the object already has."""
        key = (shape.number, depth, used)
        found = self._keys.get(key)
        if found is None:
            if used:
                found = self.lexemes.extended(self.keys(shape, used[:-1], depth), used[-1])
            else:
                symbols = shape.alphabet
                spec = KeySpec(symbols.names, symbols.dfas, shape.others, depth)
                found = self.lexemes.keys(spec)
            self._keys[key] = found
        return found

    def labels_of(self, shape: Shape, lexeme: KeyLexeme, symbols: int) -> int:
        """Symbols of the shape's alphabet as bits by label, FIRST_LABEL first."""
        names = len(shape.alphabet.names)
        mask = (symbols & ((1 << names) - 1)) << len(lexeme.signatures)
        for i, signature in enumerate(shape.alphabet.signatures):
            if symbols >> (names + i) & 1:
                mask |= 1 << lexeme.signatures.index(signature)
        return mask

    def symbol_of(self, shape: Shape, lexeme: KeyLexeme, label: int) -> int | None:
        """The symbol that a key label stands for; None for a used key or a class without members."""
        index = label - FIRST_LABEL
        if index < len(lexeme.signatures):
            signature = lexeme.signatures[index]
            if signature not in shape.alphabet.signatures:
                return None
            return len(shape.alphabet.names) + shape.alphabet.signatures.index(signature)
        symbol = index - len(lexeme.signatures)
        return symbol if symbol < len(shape.alphabet.names) else None

    def _spec(self, position: Position, key: _Place) -> ValueSpec:
        leading, first_item, closable, depth = key
        strings: dict[object, int] = {}
        amounts: dict[object, int] = {}
        literals: dict[str, int] = {}
        for goal, tags in position.parts:
            self.algebra.goals.effort.pass_time(_GOAL_STEPS)
            for language in self.algebra.strings(goal):
                strings[language] = strings.get(language, 0) | tags
            for spec in self.algebra.numbers(goal):
                dfa = self.number_dfa(spec)
                amounts[dfa] = amounts.get(dfa, 0) | tags
            for name in sorted(self.algebra.literals(goal)):
                literals[name] = literals.get(name, 0) | tags
        return ValueSpec(
            strings=tuple(strings.items()),  # type: ignore[arg-type]
            numbers=tuple(amounts.items()),  # type: ignore[arg-type]
            literals=tuple(literals.items()),
            object=bool(position.objects.start),
            array=bool(position.arrays),
            closable=closable,
            all_tags=position.all_tags,
            leading=leading,
            first_item=first_item,
            depth=depth,
        )

    def number_dfa(self, spec: NumberSpec) -> Dfa:
        """The texts of the numbers of a specification."""
        found = self._numbers.get(spec)
        if found is None:
            found = self._numbers[spec] = number_dfa(spec, self.options)
        return found


def number_dfa(spec: NumberSpec, options: FrameOptions) -> Dfa:
    """The texts of the numbers of a specification, as spelled under `options`."""
    return numbers(spec, spelling=options.spelling, max_digits=options.max_digits)


def spelled(spec: NumberSpec, options: FrameOptions) -> bool:
    """Whether some number of a (not empty) specification is short enough to be written."""
    if options.max_digits >= _EASY_DIGITS:
        if spec.only is not None:
            if any(value.denominator == 1 and abs(value.numerator) <= _EASY for value in spec.only):
                return True
            return number_dfa(spec, options).start is not None
        parts = [bound for bound in (spec.low, spec.high, *spec.steps) if bound is not None]
        if all(abs(part.numerator) <= _EASY and part.denominator <= _EASY for part in parts) and not spec.not_steps:
            return True  # the usual case, without building anything
    return number_dfa(spec, options).start is not None
