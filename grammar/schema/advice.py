"""The last touch of a report: its entries as records, and what the author may want to know about them.

Nothing here changes what a schema means. `finish` looks for what is right and yet likely to surprise; `openai_strict`
says what OpenAI's structured outputs (their guide, "supported schemas") would refuse, for users who move between the
two.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from difflib import get_close_matches
from typing import Any

from .dialects import DIALECTS, DRAFT2020
from .references import subschemas
from .report import Advice, Entry, Report, Status
from .site import Dialect
from .values import pointer_token

# The JSON types that each keyword speaks about; keywords that speak about every value are not here.
_SPEAKS_OF: Mapping[str, frozenset[str]] = {
    **dict.fromkeys(
        ("multipleOf", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"), frozenset(("number", "integer"))
    ),
    **dict.fromkeys(("minLength", "maxLength", "pattern", "format"), frozenset(("string",))),
    **dict.fromkeys(
        ("items", "prefixItems", "additionalItems", "contains", "minItems", "maxItems", "uniqueItems"),
        frozenset(("array",)),
    ),
    **dict.fromkeys(
        (
            "properties", "patternProperties", "additionalProperties", "propertyNames", "required", "dependentRequired",
            "dependentSchemas", "dependencies", "minProperties", "maxProperties",
        ),
        frozenset(("object",)),
    ),
}  # fmt: skip
_SHAPES_OBJECTS = frozenset((
    "properties", "patternProperties", "additionalProperties", "propertyNames", "unevaluatedProperties", "$ref",
    "$dynamicRef", "$recursiveRef", "allOf", "anyOf", "oneOf", "if", "enum", "const", "dependentSchemas",
))  # fmt: skip


def finish(
    dialect: Dialect, root: Any, notes: Mapping[str, tuple[str, Status, str]], advice: Iterable[Advice]
) -> Report:
    """The report of a reading: its raw notes by pointer, in order, and the advice of the readers with what is found
    here.
    """
    entries = tuple([Entry(at, keyword, status, why) for at, (keyword, status, why) in notes.items()])
    found = [*advice, *_silent_keywords(entries, dialect)]
    for at in dict.fromkeys(entry.pointer.rpartition("/")[0] for entry in entries):
        schema = _at(root, at)
        if isinstance(schema, dict):
            found.extend(_object_advice(schema, at))
    return Report(dialect.name, entries, tuple(dict.fromkeys(found)))


def _silent_keywords(entries: Iterable[Entry], dialect: Dialect) -> Iterator[Advice]:
    for entry in entries:
        if entry.status == "annotation" and entry.why:
            message = _why_silent(entry, dialect)
            if message:
                yield Advice(entry.pointer, entry.keyword, message)


def _why_silent(entry: Entry, dialect: Dialect) -> str | None:
    keyword = entry.keyword
    if keyword == "format":
        return f"{entry.why}, so nothing is enforced" if "unknown" in entry.why else None
    if not entry.why.startswith("no keyword"):
        return None
    if keyword == "nullable":
        return "is OpenAPI's, an annotation in JSON Schema: to allow null, write type as an array with 'null' in it"
    drafts = [other.name for other in DIALECTS if keyword in other.keywords or keyword in other.unevaluated]
    if drafts:
        return f"belongs to draft {', '.join(drafts)} and is ignored in draft {dialect.name}: say which draft is meant"
    close = get_close_matches(keyword, dialect.keywords, 1, 0.85)
    if not close:
        close = [known for known in dialect.keywords if known.lower() == keyword.lower()]
    return f"is no keyword and is ignored: did you mean {close[0]!r}?" if close else None


def _object_advice(schema: dict[str, Any], at: str) -> Iterator[Advice]:
    kinds = schema.get("type")
    types = {kinds} if isinstance(kinds, str) else set(kinds) if isinstance(kinds, (list, tuple)) else set()
    if types and "$ref" not in schema:
        for keyword in schema:
            speaks_of = _SPEAKS_OF.get(keyword)
            if speaks_of is not None and not speaks_of & types:
                yield Advice(
                    f"{at}/{keyword}", keyword, f"says nothing here: type excludes every {min(speaks_of, key=len)}"
                )
    if types == {"object"} and not _SHAPES_OBJECTS & schema.keys():
        yield Advice(f"{at}/type", "type", "any object is allowed: a model has nothing to go by; declare properties")
    if types == {"array"} and not {"items", "prefixItems", "contains", "$ref", "enum", "const"} & schema.keys():
        yield Advice(f"{at}/type", "type", "the items may be anything: a model has nothing to go by; say items")
    declared, required = schema.get("properties"), schema.get("required")
    if isinstance(declared, dict) and isinstance(required, (list, tuple)):
        for name in required:
            if isinstance(name, str) and name not in declared:
                yield Advice(f"{at}/required", "required", f"{name!r} is required but not declared in properties")


def _at(root: Any, pointer: str) -> Any:
    """What a pointer of this document leads to; None for other documents."""
    if pointer and pointer[0] != "/":
        return None
    here = root
    for token in pointer.split("/")[1:]:
        key = token.replace("~1", "/").replace("~0", "~")
        if isinstance(here, dict):
            here = here.get(key)
        elif isinstance(here, (list, tuple)) and key.isdigit() and int(key) < len(here):
            here = here[int(key)]
        else:
            return None
    return here


_OPENAI_REFUSES = frozenset((
    "allOf", "oneOf", "not", "if", "then", "else", "dependentRequired", "dependentSchemas", "dependencies",
    "patternProperties", "propertyNames", "unevaluatedProperties", "unevaluatedItems", "contains", "minContains",
    "maxContains", "uniqueItems", "prefixItems", "minProperties", "maxProperties",
))  # fmt: skip
_OPENAI_FORMATS = frozenset(("date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"))
OPENAI_PROPERTIES = 5000
OPENAI_LEVELS = 10
OPENAI_ENUM_VALUES = 1000


def openai_strict(schema: Any) -> tuple[Advice, ...]:
    """What stands against using `schema` with `strict: true` at OpenAI, by pointer; empty if nothing is known to.

    Takes the schema as Python objects and looks at its text only: it need not be one that `read` accepts.
    """
    if not isinstance(schema, dict):
        return (Advice("", "", "the root must be an object schema"),)
    found: list[Advice] = []
    if schema.get("type") != "object" or "anyOf" in schema:
        found.append(Advice("", "type", "the root must have type 'object' and no anyOf"))
    properties = values = 0
    queue: deque[tuple[dict[str, Any], str]] = deque([(schema, "")])
    seen: set[int] = set()
    while queue:
        here, at = queue.popleft()
        if id(here) in seen:
            continue
        seen.add(id(here))
        found.extend(_openai_object(here, at))
        declared, listed = here.get("properties"), here.get("enum")
        properties += len(declared) if isinstance(declared, dict) else 0
        values += len(listed) if isinstance(listed, list) else 0
        queue.extend(subschemas(here, DRAFT2020, at))
    if properties > OPENAI_PROPERTIES:
        found.append(Advice("", "properties", f"there are {properties} properties, more than {OPENAI_PROPERTIES}"))
    if values > OPENAI_ENUM_VALUES:
        found.append(Advice("", "enum", f"there are {values} enum values, more than {OPENAI_ENUM_VALUES}"))
    return tuple(found)


def _openai_object(schema: dict[str, Any], at: str) -> Iterator[Advice]:
    for keyword in schema:
        if keyword in _OPENAI_REFUSES:
            yield Advice(f"{at}/{keyword}", keyword, "is not supported")
    name = schema.get("format")
    if isinstance(name, str) and name not in _OPENAI_FORMATS:
        yield Advice(f"{at}/format", "format", f"the format {name!r} is not supported")
    kinds = schema.get("type")
    if kinds == "object" or (isinstance(kinds, list) and "object" in kinds) or "properties" in schema:
        if schema.get("additionalProperties") is not False:
            yield Advice(f"{at}/additionalProperties", "additionalProperties", "must be false in every object")
        declared, required = schema.get("properties"), schema.get("required")
        for key in declared if isinstance(declared, dict) else ():
            if not isinstance(required, (list, tuple)) or key not in required:
                yield Advice(
                    f"{at}/properties/{pointer_token(str(key))}", "required", "every property must be in required"
                )
    if at.count("/properties/") > OPENAI_LEVELS:
        yield Advice(at, "properties", f"objects are nested deeper than {OPENAI_LEVELS} levels")
