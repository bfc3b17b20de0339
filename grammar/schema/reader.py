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

from ..errors import BudgetError, GrammarError, SchemaError
from . import dialects
from .advice import finish
from .expr import ALWAYS, AllOf, Expr, Never, Ref, Schema
from .references import LateDynamicAnchor, References, check_depth
from .report import Advice, Report, Status
from .sharing import Sharing
from .site import Bindings, Location, Scope, Site
from .values import parse_json, shown

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
    return _read(schema, lambda: Reader(dialect, formats, registry, share=share))


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
    return _read(schema, lambda: Reader(dialect, formats, registry, lenient=True)).report()


def _read(schema: dict[str, Any] | bool | str, reader: Callable[[], Reader]) -> Schema:
    contents = parse_json(schema) if isinstance(schema, str) else schema
    if not isinstance(contents, (dict, bool)):
        raise SchemaError(f"a schema must be an object or a boolean, not {shown(contents)}", pointer="")
    try:
        return reader().read(contents, index_later=True)
    except LateDynamicAnchor:
        return reader().read(contents, index_later=False)


class Reader:
    """One reading of one schema; implements `site.Services` for the keyword readers."""

    def __init__(
        self,
        dialect: str | None,
        formats: bool,
        registry: referencing.Registry[Any] | None,
        *,
        lenient: bool = False,
        share: bool = True,
    ) -> None:
        chosen = None if dialect is None else dialects.named(dialect)
        self.formats = formats
        self._lenient = lenient
        self._sharing = Sharing() if share else None
        self._dialect = chosen or dialects.DRAFT2020
        self._references = References(registry, chosen)
        self._definitions: list[Expr] = []
        self._indexes: dict[tuple[int, int], int] = {}
        self._pending: deque[tuple[int, Any, Scope, str]] = deque()
        self._notes: dict[str, tuple[str, Status, str]] = {}
        self._advice: list[Advice] = []
        self._root: Any = None
        self._schemas = 0

    def read(self, contents: dict[str, Any] | bool, *, index_later: bool) -> Schema:
        self._dialect = self._references.dialect_of(contents, self._dialect)
        self._root = contents
        self._define(self._references.load(contents, "", self._dialect, "", later=index_later), ())
        while self._pending:
            index, value, scope, at = self._pending.popleft()
            self._definitions[index] = self.schema(value, scope, at, 0)
        return Schema(self._definitions[0], tuple(self._definitions), self._finish())

    def _finish(self) -> Callable[[], Report]:
        # Not a bound method: the documents and scopes of this reading need not live as long as the compiled grammar.
        return partial(finish, self._dialect, self._root, self._notes, self._advice)

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
        if depth >= MAX_DEPTH:
            check_depth(at)
            return Ref(self._define(Location(value, at, scope.resource, scope.dialect), scope.bindings), at)
        if scope.dialect.id_keyword in value or "$schema" in value:
            scope = self._references.inside(scope, value, at)
        node = self._object(Site(self, value, scope, at, depth))
        return node if self._sharing is None else self._sharing.one(node)

    def _object(self, site: Site) -> Expr:
        schema, dialect, notes = site.schema, site.scope.dialect, self._notes
        readers = dialect.keywords
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
                else:
                    self._note_silent(site, keyword)
                continue
            at = f"{site.at}/{keyword}"
            notes[at] = (keyword, "enforced", "")
            try:
                part = reader(site, schema[keyword], at)
            except GrammarError as error:
                self._refuse(error, at, keyword)
                continue
            if part is None:
                continue
            if isinstance(part, AllOf):
                parts.extend(part.parts)
            elif part is not ALWAYS:
                parts.append(part)
        whole = _conjunction(parts, site.at)
        for keyword in last:
            at = f"{site.at}/{keyword}"
            notes[at] = (keyword, "enforced", "")
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
        self._notes[at] = (keyword, status, why)

    def advise(self, at: str, keyword: str, message: str) -> None:
        self._advice.append(Advice(at, keyword, message))

    def _define(self, location: Location, bindings: Bindings) -> int:
        scope = self._references.scope(location, bindings)
        key = (id(location.contents), id(scope))
        index = self._indexes.get(key)
        if index is None:
            index = self._indexes[key] = len(self._definitions)
            if index >= MAX_DEFINITIONS:
                raise BudgetError(
                    f"the schema has more than {MAX_DEFINITIONS} definitions, counted once for each dynamic scope",
                    pointer=location.at,
                )
            self._definitions.append(ALWAYS)  # until its turn comes
            self._pending.append((index, location.contents, scope, location.at))
        return index

    def _note_silent(self, site: Site, keyword: Any) -> None:
        if not isinstance(keyword, str):
            raise SchemaError(f"object keys are strings, not {shown(keyword)}", pointer=site.at)
        why = "" if keyword in site.scope.dialect.annotations else f"no keyword of draft {site.scope.dialect.name}"
        self._notes[f"{site.at}/{keyword}"] = (keyword, "annotation", why)

    def _note_ignored(self, site: Site) -> None:
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
        if not self._lenient:
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


def _conjunction(parts: list[Expr], at: str) -> Expr:
    if len(parts) == 1:
        return parts[0]
    return AllOf(tuple(parts), at) if parts else ALWAYS
