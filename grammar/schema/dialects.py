"""The five drafts as tables: which keywords each has, who reads them, and where their subschemas are."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from ..errors import SchemaError, UnsupportedError
from . import read_arrays as arrays
from . import read_logic as logic
from . import read_objects as objects
from . import read_scalars as scalars
from .site import Dialect, KeywordReader, Position, UnevaluatedReader

_DRAFT4: Mapping[str, KeywordReader] = {
    "id": logic.identifier,
    "$ref": logic.ref,
    "definitions": logic.definitions,
    "type": scalars.type,
    "enum": scalars.enum,
    "multipleOf": scalars.multipleOf,
    "minimum": scalars.minimum_4,
    "maximum": scalars.maximum_4,
    "exclusiveMinimum": scalars.exclusiveMinimum_4,
    "exclusiveMaximum": scalars.exclusiveMaximum_4,
    "minLength": scalars.minLength,
    "maxLength": scalars.maxLength,
    "pattern": scalars.pattern,
    "format": scalars.format,
    "properties": objects.properties,
    "patternProperties": objects.patternProperties,
    "additionalProperties": objects.additionalProperties,
    "required": objects.required,
    "minProperties": objects.minProperties,
    "maxProperties": objects.maxProperties,
    "dependencies": objects.dependencies,
    "items": arrays.items_2019,
    "additionalItems": arrays.additionalItems,
    "minItems": arrays.minItems,
    "maxItems": arrays.maxItems,
    "uniqueItems": arrays.uniqueItems,
    "allOf": logic.allOf,
    "anyOf": logic.anyOf,
    "oneOf": logic.oneOf,
    "not": logic.not_,
}

_DRAFT6: Mapping[str, KeywordReader] = {
    **{keyword: reader for keyword, reader in _DRAFT4.items() if keyword != "id"},
    "$id": logic.identifier,
    "const": scalars.const,
    "minimum": scalars.minimum,
    "maximum": scalars.maximum,
    "exclusiveMinimum": scalars.exclusiveMinimum,
    "exclusiveMaximum": scalars.exclusiveMaximum,
    "propertyNames": objects.propertyNames,
    "contains": arrays.contains_6,
}

_DRAFT7: Mapping[str, KeywordReader] = {**_DRAFT6, "if": logic.if_, "then": logic.then, "else": logic.else_}

_DRAFT2019: Mapping[str, KeywordReader] = {
    **{keyword: reader for keyword, reader in _DRAFT7.items() if keyword != "dependencies"},
    "$defs": logic.definitions,
    "$anchor": logic.anchor,
    "$recursiveRef": logic.recursiveRef,
    "dependentRequired": objects.dependentRequired,
    "dependentSchemas": objects.dependentSchemas,
    "contains": arrays.contains_2019,
    "minContains": arrays.minContains,
    "maxContains": arrays.maxContains,
}

_DRAFT2020: Mapping[str, KeywordReader] = {
    **{
        keyword: reader for keyword, reader in _DRAFT2019.items() if keyword not in ("$recursiveRef", "additionalItems")
    },
    "$dynamicAnchor": logic.anchor,
    "$dynamicRef": logic.dynamicRef,
    "prefixItems": arrays.prefixItems,
    "items": arrays.items,
    "contains": arrays.contains,
}

_UNEVALUATED: Mapping[str, UnevaluatedReader] = {
    "unevaluatedItems": arrays.unevaluatedItems,
    "unevaluatedProperties": objects.unevaluatedProperties,
}

_ANNOTATIONS4 = frozenset(("$schema", "id", "definitions", "title", "description", "default"))
_ANNOTATIONS6 = _ANNOTATIONS4 - {"id"} | {"$id", "examples"}
_ANNOTATIONS7 = _ANNOTATIONS6 | {"$comment", "readOnly", "writeOnly", "contentEncoding", "contentMediaType"}
_ANNOTATIONS2019 = _ANNOTATIONS7 | {
    "$defs",
    "$anchor",
    "$recursiveAnchor",
    "$vocabulary",
    "contentSchema",
    "deprecated",
}
_ANNOTATIONS2020 = _ANNOTATIONS2019 - {"$recursiveAnchor"} | {"$dynamicAnchor"}

_POSITIONS: Mapping[str, Position] = {
    "additionalItems": "one", "additionalProperties": "one", "contains": "one", "contentSchema": "one", "else": "one",
    "if": "one", "not": "one", "propertyNames": "one", "then": "one", "unevaluatedItems": "one",
    "unevaluatedProperties": "one", "allOf": "many", "anyOf": "many", "oneOf": "many", "prefixItems": "many",
    "items": "one or many", "$defs": "map", "definitions": "map", "dependentSchemas": "map", "patternProperties": "map",
    "properties": "map", "dependencies": "some",
}  # fmt: skip


def _dialect(
    name: str,
    uri: str,
    keywords: Mapping[str, KeywordReader],
    annotations: frozenset[str],
    unevaluated: Mapping[str, UnevaluatedReader] | None = None,
) -> Dialect:
    known = {*keywords, *annotations, *(unevaluated or {})}
    return Dialect(
        name=name,
        uri=uri,
        id_keyword="id" if name == "4" else "$id",
        ref_alone=unevaluated is None,
        keywords=keywords,
        unevaluated=unevaluated or {},
        annotations=annotations,
        positions={keyword: position for keyword, position in _POSITIONS.items() if keyword in known},
    )


DRAFT4 = _dialect("4", "http://json-schema.org/draft-04/schema", _DRAFT4, _ANNOTATIONS4)
DRAFT6 = _dialect("6", "http://json-schema.org/draft-06/schema", _DRAFT6, _ANNOTATIONS6)
DRAFT7 = _dialect("7", "http://json-schema.org/draft-07/schema", _DRAFT7, _ANNOTATIONS7)
DRAFT2019 = _dialect(
    "2019-09", "https://json-schema.org/draft/2019-09/schema", _DRAFT2019, _ANNOTATIONS2019, _UNEVALUATED
)
DRAFT2020 = _dialect(
    "2020-12", "https://json-schema.org/draft/2020-12/schema", _DRAFT2020, _ANNOTATIONS2020, _UNEVALUATED
)
DIALECTS: tuple[Dialect, ...] = (DRAFT2020, DRAFT2019, DRAFT7, DRAFT6, DRAFT4)

# The names that `referencing` gives its specifications.
BY_SPECIFICATION: Mapping[str, Dialect] = {
    "draft2020-12": DRAFT2020, "draft2019-09": DRAFT2019, "draft-07": DRAFT7, "draft-06": DRAFT6, "draft-04": DRAFT4,
}  # fmt: skip
_BY_NAME = {dialect.name: dialect for dialect in DIALECTS}
# Schemas in the wild mix http and https and the empty fragment; "schema#" without a draft means the latest.
_BY_URI = {dialect.uri.partition("//")[2]: dialect for dialect in DIALECTS} | {"json-schema.org/schema": DRAFT2020}


def named(name: str) -> Dialect:
    """The draft an option names: "2020-12", "draft7", "draft-07", "7" or a metaschema's URI. Raises SchemaError for
    any other.
    """
    short = name.lower().removeprefix("draft").lstrip("-0")
    found = _BY_NAME.get(short) or by_uri(name)
    if found is None:
        raise SchemaError(
            f"there is no dialect {name!r}", keyword="$schema", remedy=f"known are {', '.join(_BY_NAME)} and their URIs"
        )
    return found


def by_uri(uri: str) -> Dialect | None:
    """The draft whose metaschema is at `uri`, None if it is no standard one."""
    return _BY_URI.get(uri.rstrip("#").partition("//")[2].removeprefix("www."))


# The keywords of each vocabulary (the last part of its URI); whatever is in none of them belongs to the core, which is
# always on.
_VOCABULARIES: Mapping[str, frozenset[str]] = {
    "validation": frozenset((
        "type", "enum", "const", "multipleOf", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum",
        "minLength", "maxLength", "pattern", "minItems", "maxItems", "uniqueItems", "minContains", "maxContains",
        "minProperties", "maxProperties", "required", "dependentRequired",
    )),
    "applicator": frozenset((
        "prefixItems", "items", "additionalItems", "contains", "properties", "patternProperties",
        "additionalProperties", "propertyNames", "dependentSchemas", "if", "then", "else", "allOf", "anyOf", "oneOf",
        "not",
    )),
    "unevaluated": frozenset(("unevaluatedItems", "unevaluatedProperties")),
    "format": frozenset(("format",)),
}  # fmt: skip
_SILENT = frozenset(("core", "meta-data", "content"))
_FORMATS = frozenset(("format", "format-annotation", "format-assertion"))


def with_vocabularies(base: Dialect, uri: str, vocabularies: Mapping[str, Any]) -> Dialect:
    """`base` cut to what a custom metaschema's `$vocabulary` lists. Raises UnsupportedError for a required vocabulary
    nobody here knows.
    """
    prefix = base.uri.removesuffix("schema") + "vocab/"
    present: set[str] = set()
    for vocabulary, needed in vocabularies.items():
        short = vocabulary.removeprefix(prefix)
        if short in _VOCABULARIES or short in _SILENT or short in _FORMATS:
            present.add(short)
        elif needed is not False:
            raise UnsupportedError(
                f"the dialect {uri!r} requires the unknown vocabulary {vocabulary!r}", keyword="$vocabulary"
            )
    if base is DRAFT2019 and "applicator" in present:
        present.add("unevaluated")  # this draft counts them among the applicators
    if present & _FORMATS:
        present.add("format")
    absent = set(_absent(present))
    return replace(
        base,
        uri=uri,
        keywords={keyword: reader for keyword, reader in base.keywords.items() if keyword not in absent},
        unevaluated={keyword: reader for keyword, reader in base.unevaluated.items() if keyword not in absent},
        positions={keyword: position for keyword, position in base.positions.items() if keyword not in absent},
        asserts_format="format-assertion" in present,
    )


def _absent(present: set[str]) -> Iterable[str]:
    for vocabulary, keywords in _VOCABULARIES.items():
        if vocabulary not in present:
            yield from keywords
