"""Where references lead: documents, embedded resources, anchors and dynamic scope.

`referencing.Registry` holds the documents that the caller passes (and, from `jsonschema_specifications`, the
metaschemas). What is inside a document is indexed here, since a schema compiler needs three things that
`referencing` does not tell: the pointer and the draft of what a reference found, and the dynamic scope as a value to
specialise definitions by. Malformed documents do no harm in the walk; their readers complain where it matters.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator
from typing import Any
from urllib.parse import unquote, urldefrag, urljoin

import referencing
import referencing.exceptions

from ..errors import BudgetError, SchemaError, UnsupportedError
from . import dialects
from .site import Bindings, Dialect, Location, Position, Resource, Scope
from .values import pointer_token, shown

MAX_POINTER = 30_000
MAX_BINDINGS = 500
_INDEX = re.compile("0|[1-9][0-9]{0,9}")


class LateDynamicAnchor(Exception):
    """Dynamic anchors were found after scopes had been made without them: the reading must begin again, indexing
    first.
    """


class References:
    """The documents of one reading, found by URI and loaded when first referred to."""

    def __init__(self, registry: referencing.Registry[Any] | None, fallback: Dialect | None) -> None:
        """`fallback`: the dialect for schemas whose `$schema` is unknown, None to refuse them."""
        self._fallback = fallback
        self._registry = registry
        self._resources: dict[str, Resource] = {}
        # (schema object, resource around it) -> the resource that it begins
        self._embedded: dict[tuple[int, int], Resource] = {}
        self._waiting: Location | None = None
        self._dialects: dict[str, Dialect] = {}
        self._scopes: dict[tuple[int, int, tuple[tuple[str, int], ...]], Scope] = {}
        self._reached: dict[tuple[int, int, int], Scope] = {}  # by the bindings' identity: a shortcut to `_scopes`
        self._bindings: set[tuple[tuple[str, int], ...]] = set()
        self._kept: list[Bindings] = []  # what `_reached` knows by identity must live
        self._found: dict[tuple[int, int, str], Location] = {}

    # Scopes

    def scope(self, location: Location, around: Bindings = ()) -> Scope:
        """The scope in which a schema at `location` is read when it is reached with the bindings `around`."""
        shortcut = (id(location.resource), id(location.dialect), id(around))
        scope = self._reached.get(shortcut)
        if scope is None:
            bindings = _bound(location.resource, around)
            key = (shortcut[0], shortcut[1], tuple([(name, id(found.contents)) for name, found in bindings]))
            scope = self._scopes.get(key)
            if scope is None:
                self._bindings.add(key[2])
                if len(self._bindings) > MAX_BINDINGS:
                    raise BudgetError(
                        f"dynamic anchors are combined in more than {MAX_BINDINGS} ways", pointer=location.at
                    )
                scope = self._scopes[key] = Scope(location.resource, location.dialect, bindings)
            self._reached[shortcut] = scope
            self._kept.append(around)
        return scope

    def inside(self, scope: Scope, schema: dict[str, Any], at: str) -> Scope:
        """The scope of a subschema: another one where it begins a resource or names its dialect."""
        dialect = self.dialect_of(schema, scope.dialect, at)
        if schema is not scope.resource.contents and dialect.id_keyword in schema:
            self.index()
        resource = self._embedded.get((id(schema), id(scope.resource)), scope.resource)
        if resource is scope.resource and dialect is scope.dialect:
            return scope
        return self.scope(Location(schema, at, resource, dialect), scope.bindings)

    # Dialects

    def dialect_of(self, schema: Any, around: Dialect, at: str = "", *, lenient: bool = False) -> Dialect:
        """The dialect that `$schema` names, else `around`. An unknown one is an error, or with `lenient` ignored, or
        the fallback.
        """
        uri = schema.get("$schema") if isinstance(schema, dict) else None
        if uri is None:
            return around
        if not isinstance(uri, str):
            raise SchemaError(f"$schema must be a URI, not {shown(uri)}", pointer=f"{at}/$schema", keyword="$schema")
        found = dialects.by_uri(uri) or self._dialects.get(uri) or self._custom_dialect(uri) or self._fallback
        if found is not None:
            self._dialects[uri] = found
            return found
        if lenient:
            return around
        if "json-schema.org/draft-0" in uri:
            raise UnsupportedError(
                f"the dialect {uri!r} is not supported",
                pointer=f"{at}/$schema",
                keyword="$schema",
                remedy="it was superseded by draft 4 in 2013: say dialect='4' if the schema is right in that, too",
            )
        raise SchemaError(
            f"the dialect {uri!r} is unknown",
            pointer=f"{at}/$schema",
            keyword="$schema",
            remedy="put its metaschema into the registry, or say dialect='2020-12' or another draft",
        )

    def _custom_dialect(self, uri: str) -> Dialect | None:
        contents = self._retrieve(urldefrag(uri).url)
        if contents is None or not isinstance(contents[0], dict):
            return None
        metaschema = contents[0]
        above = metaschema.get("$schema")
        base = dialects.by_uri(above) if isinstance(above, str) else None
        if base is None:
            return None
        vocabularies = metaschema.get("$vocabulary")
        return dialects.with_vocabularies(base, uri, vocabularies) if isinstance(vocabularies, dict) else base

    # Documents

    def load(self, contents: Any, uri: str, dialect: Dialect, prefix: str, *, later: bool = False) -> Location:
        """Add a document; `prefix` begins the pointers of everything in it ("" for the schema that was passed).

        Its identifiers are indexed at once, or with `later` only when a reference needs them: most schemas have none.
        """
        document = Resource(uri, contents, prefix, dialect)
        self._resources.setdefault(uri, document)
        root = self._register(Location(contents, prefix, document, dialect))
        if later and not document.dynamic:
            self._waiting = root
        else:
            self._index(root)
        return root

    def index(self) -> None:
        """Index the document that waits for it, if one does. Raises LateDynamicAnchor if scopes already read lacked
        anchors.
        """
        root, self._waiting = self._waiting, None
        if root is not None:
            self._index(root)
            if any(resource.dynamic for resource in self._resources.values()):
                raise LateDynamicAnchor

    def _index(self, root: Location) -> None:
        queue: deque[Location] = deque([root])
        seen: set[tuple[int, int]] = set()
        while queue:
            location = queue.popleft()
            key = (id(location.contents), id(location.resource))
            if key not in seen and isinstance(location.contents, dict):
                seen.add(key)
                for child, at in subschemas(location.contents, location.dialect, location.at):
                    check_depth(at)
                    queue.append(self._register(Location(child, at, location.resource, location.dialect)))

    def _register(self, location: Location) -> Location:
        """Note the identifiers that a schema object declares; the location with the resource and dialect that hold
        inside it.
        """
        schema, at, resource, dialect = location
        if not isinstance(schema, dict):
            return location
        if "$schema" in schema:
            dialect = self.dialect_of(schema, dialect, at, lenient=True)
            if schema is resource.contents:
                resource.dialect = dialect
        alone = dialect.ref_alone and "$ref" in schema
        identifier = schema.get(dialect.id_keyword)
        names: list[str] = []
        if isinstance(identifier, str) and not alone:
            uri, fragment = _join(resource.uri, identifier, at) if identifier[:1] != "#" else ("", identifier[1:])
            if uri and uri != resource.uri:
                if schema is resource.contents:  # the root of a document: it may be known by both URIs
                    resource.uri = uri
                else:
                    around, resource = resource, Resource(uri, schema, at, dialect)
                    self._embedded[id(schema), id(around)] = resource
                self._resources.setdefault(uri, resource)
            if fragment and dialect.ref_alone and "/" not in fragment:
                names.append(fragment)
        location = Location(schema, at, resource, dialect)
        if not dialect.ref_alone:
            self._register_anchors(location, names)
        for name in names:
            resource.names.setdefault(name, location)
        return location

    def _register_anchors(self, location: Location, names: list[str]) -> None:
        schema, resource = location.contents, location.resource
        anchor = schema.get("$anchor")
        if isinstance(anchor, str):
            names.append(anchor)
        if "$dynamicAnchor" in location.dialect.keywords:
            dynamic = schema.get("$dynamicAnchor")
            if isinstance(dynamic, str):
                names.append(dynamic)
                resource.dynamic.setdefault(dynamic, location)
        elif schema.get("$recursiveAnchor") is True and schema is resource.contents:
            resource.dynamic[""] = location

    def _retrieve(self, uri: str) -> tuple[Any, Dialect | None] | None:
        """The contents of a document of the registry or a bundled metaschema, and the draft it was registered for if
        one of ours.
        """
        failure: Exception | None = None
        found: referencing.Resource[Any] | None = None
        try:
            if self._registry is not None:
                retrieved = self._registry.get_or_retrieve(uri)
                self._registry, found = retrieved.registry, retrieved.value
        except referencing.exceptions.NoSuchResource:
            pass
        except Exception as error:  # the caller's `retrieve`, or a document too malformed for the registry's own crawl
            failure = error
        if found is None:
            # Late, since it reads files and few schemas need it.
            from jsonschema_specifications import REGISTRY  # type: ignore[import-untyped]

            found = REGISTRY.get(uri)
        if found is None:
            if failure is not None:
                raise SchemaError(
                    f"the document {uri!r} cannot be had from the registry: {failure}", keyword="$ref"
                ) from failure
            return None
        # The draft given at registration has no public accessor; without it we would read a document by its referrer's
        # rules.
        specification = getattr(found, "_specification", None)
        return found.contents, dialects.BY_SPECIFICATION.get(getattr(specification, "name", ""))

    def _resource(self, uri: str, dialect: Dialect) -> Resource | None:
        known = self._resources.get(uri)
        if known is None and self._waiting is not None:
            self.index()
            known = self._resources.get(uri)
        if known is not None:
            return known
        retrieved = self._retrieve(uri)
        if retrieved is None:
            return None
        contents, registered = retrieved
        return self.load(contents, uri, registered or dialect, f"{uri}#").resource

    # References

    def lookup(self, scope: Scope, reference: str, at: str, keyword: str) -> Location:
        """The schema that a reference means, before any dynamic scope. Raises SchemaError if there is none."""
        key = (id(scope.resource), id(scope.dialect), reference)
        found = self._found.get(key)
        if found is None:
            found = self._found[key] = self._look(scope, reference, at, keyword)
        return found

    def _look(self, scope: Scope, reference: str, at: str, keyword: str) -> Location:
        if reference[:1] == "#":
            resource, fragment = scope.resource, reference[1:]
        else:
            uri, fragment = _join(scope.resource.uri, reference, at)
            found = self._resource(uri, scope.dialect)
            if found is None:
                raise SchemaError(
                    f"{keyword} {reference!r} leads to no known document",
                    pointer=at,
                    keyword=keyword,
                    remedy=f"nothing is fetched: pass a registry that has {uri!r}",
                )
            resource = found
        fragment = unquote(fragment) if "%" in fragment else fragment
        if not fragment:
            return Location(resource.contents, resource.at, resource, resource.dialect)
        if fragment[0] == "/":
            return self._follow(resource, fragment, reference, at, keyword)
        if fragment not in resource.names:
            self.index()
        named = resource.names.get(fragment)
        if named is None:
            known = ", ".join(sorted(resource.names)[:5]) or "none"
            raise SchemaError(
                f"{keyword} {reference!r} names no anchor",
                pointer=at,
                keyword=keyword,
                remedy=f"anchors there: {known}",
            )
        return named

    def _follow(self, resource: Resource, fragment: str, reference: str, at: str, keyword: str) -> Location:
        """The schema at a JSON pointer, with the resource and dialect that hold there."""
        here, place, dialect = resource.contents, resource.at, resource.dialect
        for token in fragment[1:].split("/"):
            key = token.replace("~1", "/").replace("~0", "~") if "~" in token else token
            if isinstance(here, dict) and key in here:
                here = here[key]
            elif isinstance(here, (list, tuple)) and _INDEX.fullmatch(key) and int(key) < len(here):
                here = here[int(key)]
            else:
                raise _leads_nowhere(reference, resource, key, place, at, keyword)
            place = f"{place}/{pointer_token(key)}"
            if isinstance(here, dict):
                if isinstance(here.get("$schema"), str):
                    dialect = self.dialect_of(here, dialect, place, lenient=True)
                if dialect.id_keyword in here:
                    self.index()
                resource = self._embedded.get((id(here), id(resource)), resource)
        return Location(here, place, resource, dialect)


def _leads_nowhere(reference: str, resource: Resource, key: str, place: str, at: str, keyword: str) -> SchemaError:
    remedy = f"there is no {key!r} in {'#' + place if place[:1] in ('', '/') else place}"
    if resource.at[:1] == "/" and reference[:1] == "#":
        remedy += f"; the {resource.dialect.id_keyword} at #{resource.at} makes that the root of references"
    return SchemaError(f"{keyword} {reference!r} leads nowhere", pointer=at, keyword=keyword, remedy=remedy)


def check_depth(at: str) -> None:
    """Raise BudgetError where a pointer is absurdly long: with each level it grows, and all pointers together as its
    square.
    """
    if len(at) > MAX_POINTER:
        raise BudgetError(
            f"the schema is nested too deep: a pointer has more than {MAX_POINTER} characters", pointer=at[:60] + "..."
        )


def _join(base: str, reference: str, at: str) -> tuple[str, str]:
    """The URI and the fragment that a reference means against a base URI (RFC 3986 section 5)."""
    try:
        uri, fragment = urldefrag(urljoin(base, reference))
    except ValueError as error:
        raise SchemaError(f"{reference!r} is no URI reference: {error}", pointer=at) from None
    return uri, fragment


def _bound(resource: Resource, around: Bindings) -> Bindings:
    """The bindings inside a resource: its dynamic anchors, too, except those that a resource further out has bound."""
    if not resource.dynamic:
        return around
    taken = {name for name, _ in around}
    new = [(name, location) for name, location in resource.dynamic.items() if name not in taken]
    return tuple(sorted((*around, *new), key=lambda binding: binding[0])) if new else around


def subschemas(schema: dict[str, Any], dialect: Dialect, at: str) -> Iterator[tuple[dict[str, Any], str]]:
    """The schema objects directly inside a schema object, with their pointers; whatever is malformed is passed over."""
    for keyword, value in schema.items():
        position = dialect.positions.get(keyword)
        if position is not None:
            for child, place in _children(value, position, f"{at}/{keyword}"):
                if isinstance(child, dict):
                    yield child, place


def _children(value: Any, position: Position, at: str) -> list[tuple[Any, str]]:
    if isinstance(value, dict):
        if position in ("map", "some"):
            return [(child, f"{at}/{pointer_token(str(key))}") for key, child in value.items()]
        return [(value, at)] if position in ("one", "one or many") else []
    if isinstance(value, (list, tuple)) and position in ("many", "one or many"):
        return [(child, f"{at}/{index}") for index, child in enumerate(value)]
    return []
