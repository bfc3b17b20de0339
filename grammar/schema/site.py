"""What a keyword's reader sees: the place it stands, the scope it is read in, and the few services of the reader above
it.

The types here tie the stage together without a cycle: keyword readers know `Site`, dialects know keyword readers,
references know dialects, and `reader` knows them all.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, Protocol, TypeAlias

from ..frozen import frozen
from .expr import Expr
from .report import Status

# How a keyword's value holds subschemas: itself, in a list, either, in the values of an object, some of those values.
Position: TypeAlias = Literal["one", "many", "one or many", "map", "some"]


@frozen(eq=False)
class Dialect:
    """A draft as data: which keywords it has and who reads them. Compared by identity; one record per draft (and per
    custom metaschema).

    `unevaluated` readers run after all other keywords of the schema object and get what those said.
    `ref_alone`: keywords beside `$ref` are ignored (draft 7 and before).
    `asserts_format`: the metaschema demands format assertion, whatever the option says.
    """

    name: str
    uri: str
    id_keyword: str
    ref_alone: bool
    keywords: Mapping[str, KeywordReader]
    unevaluated: Mapping[str, UnevaluatedReader]
    annotations: frozenset[str]
    positions: Mapping[str, Position]
    asserts_format: bool = False


@dataclass(slots=True, eq=False)
class Resource:
    """A schema resource: a document or an embedded `$id`. Filled while its document is scanned, not changed afterwards.

    `at` is the pointer of its root, `names` its anchors, `dynamic` those of them that `$dynamicAnchor` made;
    `$recursiveAnchor: true` is the dynamic anchor "".
    """

    uri: str
    contents: Any
    at: str
    dialect: Dialect
    names: dict[str, Location] = field(default_factory=dict)
    dynamic: dict[str, Location] = field(default_factory=dict)


class Location(NamedTuple):
    """A schema in its lexical place."""

    contents: Any
    at: str
    resource: Resource
    dialect: Dialect


# What each dynamic anchor in scope means, sorted by name.
Bindings: TypeAlias = tuple[tuple[str, Location], ...]


@frozen(eq=False)
class Scope:
    """Where a schema is read: its resource (base URI), its draft, and what dynamic anchors mean there.

    Of the dynamic scope only the outermost resource with each dynamic anchor matters: `bindings`, sorted by name.
    Scopes are interned by the reader: equal ones are identical. `refs` remembers the definitions its references led to.
    """

    resource: Resource
    dialect: Dialect
    bindings: Bindings
    refs: dict[tuple[str, str], int] = field(default_factory=dict)


class Services(Protocol):
    """What keyword readers may ask of the reader."""

    formats: bool

    def schema(self, value: dict[str, Any] | bool, scope: Scope, at: str, depth: int) -> Expr: ...
    def no_schema(self, site: Site, value: Any, at: str) -> Expr: ...
    def refer(self, site: Site, keyword: str, reference: str, at: str) -> Expr: ...
    def note(self, at: str, keyword: str, status: Status, why: str) -> None: ...
    def advise(self, at: str, keyword: str, message: str) -> None: ...


class Site:
    """One schema object under reading, at the pointer `at`."""

    __slots__ = ("at", "depth", "schema", "scope", "services")

    def __init__(self, services: Services, schema: dict[str, Any], scope: Scope, at: str, depth: int) -> None:
        self.services = services
        self.schema = schema
        self.scope = scope
        self.at = at
        self.depth = depth

    def read(self, value: Any, at: str) -> Expr:
        """The subschema `value`, which stands at the pointer `at`."""
        if not isinstance(value, (dict, bool)):
            return self.services.no_schema(self, value, at)
        return self.services.schema(value, self.scope, at, self.depth + 1)

    def idle(self, at: str, keyword: str, why: str) -> None:
        """Note that a keyword is right and says nothing here."""
        self.services.note(at, keyword, "annotation", why)


# (site, the keyword's value, the keyword's pointer) -> what it says, None for nothing
KeywordReader: TypeAlias = Callable[[Site, Any, str], Expr | None]
# (site, the keyword's value, the keyword's pointer, everything else of the schema object)
UnevaluatedReader: TypeAlias = Callable[[Site, Any, str, Expr], Expr]
