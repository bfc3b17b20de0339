"""The first stage: a JSON Schema becomes an `expr.Schema`. Dispatch only; what a keyword means stands in the `read_*`
modules.

Definitions are read lazily, one for each (schema object, scope) that a reference reaches, so that `$dynamicRef` is
resolved here once and for all: the number of scopes is finite. Nesting costs no recursion depth: below `MAX_DEPTH`
levels a subschema becomes a definition of its own, which also bounds the depth of every expression for the stages
after this one.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any

import referencing

from ..courtesy import COURTESY
from ..errors import BudgetError, GrammarError, SchemaError
from . import dialects
from .advice import finish
from .census import KEYWORDS as CENSUS_KEYWORDS
from .census import Census
from .expr import ALWAYS, AllOf, Expr, Never, Ref, Schema
from .references import LateDynamicAnchor, References, check_depth
from .report import Advice, Report, Status
from .sharing import Sharing
from .site import Bindings, Location, Scope, Site
from .values import parse_json, shown

_TYPED = frozenset(
    ("type", "title", "description", "default", "examples", "$comment", "deprecated", "readOnly", "writeOnly")
)  # `type` and what says nothing in any draft
MAX_DEPTH = 24
MAX_DEFINITIONS = 100_000
MAX_SCHEMAS = 80_000


def read(
    schema: dict[str, Any] | bool | str,
    *,
    dialect: str | None = None,
    formats: bool = True,
    registry: referencing.Registry[Any] | None = None,
    share: bool = True,
) -> Schema:
    """Read a JSON Schema (Python objects, or JSON text) of draft 2020-12, 2019-09, 7, 6 or 4.

    `$schema` names the draft; `dialect` ("2020-12", "7", a metaschema's URI, ...) is for schemas without it or with
    one that is unknown, and draft 2020-12 for those when it is not given. `formats=False` makes `format` an annotation.
    References lead inside the schema, to documents in `registry`, or to the metaschemas of the drafts; nothing is
    fetched.

    Equal subschemas become one node, which bears the pointers of its first place; with `share=False` every place keeps
    its own, for explaining what is wrong with a schema.

    Raises SchemaError (with pointer, keyword and remedy) for what the draft does not allow and for dangling references,
    PatternError for a wrong `pattern`, UnsupportedError for a dialect with unknown vocabularies, BudgetError for
    absurd sizes.
    """
    contents = _contents(schema)
    reader = _read(contents, lambda: Reader(dialect, formats, registry, share=share))
    # Read again for a report, which few ask for; the documents and scopes of this reading need not live for it.
    report = partial(inspect, contents, dialect=dialect, formats=formats, registry=registry)
    return Schema(reader.definitions[0], tuple(reader.definitions), report)


def inspect(
    schema: dict[str, Any] | bool | str,
    *,
    dialect: str | None = None,
    formats: bool = True,
    registry: referencing.Registry[Any] | None = None,
) -> Report:
    """The report of a schema that may be wrong: where `read` stops at the first error, this lists each as refused.

    Raises SchemaError only where nothing can be listed: for text that is not JSON and a root that is no schema.
    """
    contents = _contents(schema)
    return _read(contents, lambda: Reader(dialect, formats, registry, inspecting=True)).report(contents)


def _contents(schema: dict[str, Any] | bool | str) -> dict[str, Any] | bool:
    contents = parse_json(schema) if isinstance(schema, str) else schema
    if not isinstance(contents, (dict, bool)):
        raise SchemaError(f"a schema must be an object or a boolean, not {shown(contents)}", pointer="")
    return contents


def _read(contents: dict[str, Any] | bool, reader: Callable[[], Reader]) -> Reader:
    first = reader()
    try:
        first.read(contents, index_later=True)
    except LateDynamicAnchor:
        first = reader()
        first.read(contents, index_later=False)
    return first


class Reader:
    """One reading of one schema; implements `site.Services` for the keyword readers.

    `inspecting`: what becomes of each keyword is noted, and errors are notes instead of the end.
    """

    def __init__(
        self,
        dialect: str | None,
        formats: bool,
        registry: referencing.Registry[Any] | None,
        *,
        inspecting: bool = False,
        share: bool = True,
    ) -> None:
        chosen = None if dialect is None else dialects.named(dialect)
        self.formats = formats
        self._inspecting = inspecting
        self._sharing = Sharing() if share else None
        self._dialect = chosen or dialects.DRAFT2020
        self._references = References(registry, chosen)
        self.definitions: list[Expr] = []
        self._indexes: dict[tuple[int, int], int] = {}
        self._pending: deque[tuple[int, Any, Scope, str]] = deque()
        self._notes: dict[str, tuple[str, Status, str]] = {}
        self._advice: list[Advice] = []
        self._leaves: dict[tuple[int, Any], Expr] = {}
        self._schemas = 0
        self._census = Census()

    def read(self, contents: dict[str, Any] | bool, *, index_later: bool) -> None:
        """Fills `definitions`, of which the first is the root."""
        self._dialect = self._references.dialect_of(contents, self._dialect)
        self._define(self._references.load(contents, "", self._dialect, "", later=index_later), ())
        while self._pending:
            index, value, scope, at = self._pending.popleft()
            self.definitions[index] = self.schema(value, scope, at, 0)

    def report(self, contents: Any) -> Report:
        """What became of the keywords of the document that was read."""
        return finish(self._dialect, contents, self._notes, self._advice)

    def no_schema(self, site: Site, value: Any, at: str) -> Expr:
        keyword = at[len(site.at) + 1 :].partition("/")[0]
        problem = f"a schema must be an object or a boolean, not {shown(value)}"
        self._refuse(SchemaError(problem, pointer=at, keyword=keyword), at, keyword)
        return ALWAYS

    def schema(self, value: dict[str, Any] | bool, scope: Scope, at: str, depth: int) -> Expr:
        """The schema `value` at the pointer `at`, `depth` levels below its definition."""
        if value is True:
            return ALWAYS
        if value is False:
            return Never(at)
        self._schemas += 1
        if self._schemas > MAX_SCHEMAS:
            raise BudgetError(
                f"the schema has more than {MAX_SCHEMAS} subschemas",
                pointer=at,
                remedy="say what is repeated once, in $defs",
            )
        if not self._schemas & 63:
            COURTESY.pause()
        if depth >= MAX_DEPTH:
            check_depth(at)
            return Ref(self._define(Location(value, at, scope.resource, scope.dialect), scope.bindings), at)
        if value.keys() <= _TYPED and not self._inspecting and self._sharing is not None:
            # It says a type at most, as half of all do: one node for each.
            kind = value.get("type", "")
            known = self._leaves.get((id(scope.dialect), kind)) if isinstance(kind, str) else None
            return known or self._leaf(value, scope, at, depth)
        if scope.dialect.id_keyword in value or "$schema" in value:
            scope = self._references.inside(scope, value, at)
        node = self._object(Site(self, value, scope, at, depth))
        return self._sharing.one(node) if self._sharing is not None else node

    def _leaf(self, value: dict[str, Any], scope: Scope, at: str, depth: int) -> Expr:
        node = self._object(Site(self, value, scope, at, depth))
        kind = value.get("type", "")
        if isinstance(kind, str) and self._sharing is not None:
            node = self._leaves[id(scope.dialect), kind] = self._sharing.one(node)
        return node

    def _object(self, site: Site) -> Expr:
        schema, dialect = site.schema, site.scope.dialect
        readers = dialect.keywords
        inspecting = self._inspecting
        keywords: Any = schema
        if dialect.ref_alone and "$ref" in schema:
            keywords = ("$ref",)
            self._note_ignored(site)
        parts: list[Expr] = []
        last: list[str] = []
        for keyword in keywords:
            reader = readers.get(keyword)
            if reader is None:
                if keyword in dialect.unevaluated:
                    last.append(keyword)
                elif inspecting or not isinstance(keyword, str):
                    self._note_silent(site, keyword)
                continue
            at = f"{site.at}/{keyword}"
            if inspecting:
                self._notes[at] = (keyword, "enforced", "")
            try:
                if keyword in CENSUS_KEYWORDS:
                    self._census.count(schema[keyword], at)
                part = reader(site, schema[keyword], at)
            except GrammarError as error:
                self._refuse(error, at, keyword)
                continue
            if isinstance(part, AllOf):
                parts.extend(part.parts)
            elif part is not None and part is not ALWAYS:
                parts.append(part)
        whole = parts[0] if len(parts) == 1 else AllOf(tuple(parts), site.at) if parts else ALWAYS
        for keyword in last:
            at = f"{site.at}/{keyword}"
            self.note(at, keyword, "enforced", "")
            try:
                whole = dialect.unevaluated[keyword](site, schema[keyword], at, whole)
            except GrammarError as error:
                self._refuse(error, at, keyword)
        return whole

    def refer(self, site: Site, keyword: str, reference: str, at: str) -> Expr:
        scope = site.scope
        index = scope.refs.get((keyword, reference))
        if index is None:
            if keyword != "$ref":
                self._references.index()
            location = self._references.lookup(scope, reference, at, keyword)
            if keyword != "$ref":
                location = _dynamic(scope, location, "" if keyword == "$recursiveRef" else reference.partition("#")[2])
            if not isinstance(location.contents, (dict, bool)):
                raise SchemaError(
                    f"{keyword} {reference!r} leads to {shown(location.contents)}, which is no schema",
                    pointer=at,
                    keyword=keyword,
                )
            index = scope.refs[keyword, reference] = self._define(location, scope.bindings)
        return Ref(index, at)

    def note(self, at: str, keyword: str, status: Status, why: str) -> None:
        if self._inspecting:
            self._notes[at] = (keyword, status, why)

    def advise(self, at: str, keyword: str, message: str) -> None:
        if self._inspecting:
            self._advice.append(Advice(at, keyword, message))

    def _define(self, location: Location, bindings: Bindings) -> int:
        scope = self._references.scope(location, bindings)
        key = (id(location.contents), id(scope))
        index = self._indexes.get(key)
        if index is None:
            index = self._indexes[key] = len(self.definitions)
            if index >= MAX_DEFINITIONS:
                raise BudgetError(
                    f"the schema has more than {MAX_DEFINITIONS} definitions, counted once for each dynamic scope",
                    pointer=location.at,
                )
            self.definitions.append(ALWAYS)  # until its turn comes
            self._pending.append((index, location.contents, scope, location.at))
        return index

    def _note_silent(self, site: Site, keyword: Any) -> None:
        if not isinstance(keyword, str):
            raise SchemaError(f"object keys are strings, not {shown(keyword)}", pointer=site.at)
        why = "" if keyword in site.scope.dialect.annotations else f"no keyword of draft {site.scope.dialect.name}"
        self._notes[f"{site.at}/{keyword}"] = (keyword, "annotation", why)

    def _note_ignored(self, site: Site) -> None:
        if not self._inspecting:
            return
        dialect = site.scope.dialect
        for keyword in site.schema:
            if keyword == "$ref" or keyword in dialect.annotations or not isinstance(keyword, str):
                continue
            at = f"{site.at}/{keyword}"
            self._notes[at] = (keyword, "annotation", f"draft {dialect.name} ignores what stands beside $ref")
            if keyword in dialect.keywords:
                self.advise(at, keyword, f"is ignored beside $ref in draft {dialect.name}: put the two into allOf")

    def _refuse(self, error: GrammarError, at: str, keyword: str) -> None:
        if error.pointer is None:
            error.pointer = at
        if error.keyword is None:
            error.keyword = keyword
        if not self._inspecting:
            raise error
        self._notes[error.pointer] = (error.keyword, "refused", str(error))


def _dynamic(scope: Scope, location: Location, name: str) -> Location:
    """What a dynamic reference means whose name leads to `location` statically: the outermost dynamic anchor of that
    name.
    """
    initial = location.resource.dynamic.get(name)
    if initial is None or initial.contents is not location.contents:
        return location
    return next((found for bound, found in scope.bindings if bound == name), location)
