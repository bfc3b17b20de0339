"""The language between reading and reasoning: what a schema's keywords say, as frozen values.

The readers of `grammar.schema` turn every keyword of every draft into these nodes and nothing else; `grammar.algebra`
knows no keyword, only these nodes. A node says which JSON values are allowed. All keyword nodes are conditional on
the value's type as JSON Schema's keywords are: `StringLength` allows every number, `Required` allows every string.

Nodes compare and hash by content, provenance (`at`) excluded. `at` is the JSON pointer of the keyword (of the schema
object for a conjunction, of the entry for `properties` and the like), `uri#pointer` in other documents. Equal
subschemas are one node, that of their first place, so that the next stage may know nodes by identity; see
`grammar.schema.sharing`. Expressions are at most a few dozen levels deep: deeper subschemas are definitions of their
own.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field
from fractions import Fraction
from typing import Literal, TypeAlias

from ..frozen import frozen
from .report import Report
from .values import Canonical

JsonType: TypeAlias = Literal["null", "boolean", "number", "string", "array", "object"]


@frozen
class Always:
    """Allows every value: `true` and `{}`."""


ALWAYS = Always()


@frozen
class Never:
    """Allows no value: `false`, `enum: []`."""

    at: str = field(default="", compare=False)


@frozen
class Types:
    """`type`: the value is of one of these types. `integer` is `number` with `MultipleOf(1)` beside it.

    In draft 4, too: its "without fraction or exponent" is about spelling, and nodes speak of values. `1.0` is then an
    integer where `spelling="any"` allows it; the natural spelling of integers has neither in any draft.
    """

    types: frozenset[JsonType]
    at: str = field(default="", compare=False)


@frozen
class Const:
    """`const`, and each value of `enum`: equal in the sense of JSON Schema (`1` equals `1.0`, members in any order).

    `value` is canonical (see `grammar.schema.values.canonical`): hashable, equal if and only if equal as JSON.
    """

    value: Canonical
    at: str = field(default="", compare=False)


@frozen
class NumberRange:
    """`minimum`, `maximum` and the exclusive ones, exact."""

    low: Fraction | None
    low_open: bool
    high: Fraction | None
    high_open: bool
    at: str = field(default="", compare=False)


@frozen
class MultipleOf:
    """`multipleOf`; `MultipleOf(1)` says "integer"."""

    step: Fraction
    at: str = field(default="", compare=False)


@frozen
class StringLength:
    """`minLength`, `maxLength` in code points; `high` None is unbounded."""

    low: int
    high: int | None
    at: str = field(default="", compare=False)


@frozen
class Pattern:
    """`pattern`: ECMA-262 source, searched unanchored."""

    source: str
    at: str = field(default="", compare=False)


@frozen
class Format:
    """An asserted `format` that `grammar.regular` knows; unknown ones never become a node."""

    name: str
    at: str = field(default="", compare=False)


@frozen
class Keys:
    """A set of object keys: those in `names` or found by one of `patterns` (ECMA-262), or with `negated` all others."""

    names: tuple[str, ...] = ()
    patterns: tuple[str, ...] = ()
    negated: bool = False


@frozen
class EachProperty:
    """Every property whose key is in `keys` has a value allowed by `then`: `properties`, `patternProperties`,
    `additionalProperties`.

    `evaluates` is False only where a keyword gives no annotation that `unevaluatedProperties` would see.
    """

    keys: Keys
    then: Expr
    evaluates: bool = True
    at: str = field(default="", compare=False)


@frozen
class EachName:
    """`propertyNames`: every key, as a string value, is allowed by `then`."""

    then: Expr
    at: str = field(default="", compare=False)


@frozen
class Required:
    """One name of `required`; `dependentRequired` is `AnyOf(Not(Required(a)), Required(b))` restricted to objects."""

    name: str
    at: str = field(default="", compare=False)


@frozen
class PropertyCount:
    """`minProperties`, `maxProperties`."""

    low: int
    high: int | None
    at: str = field(default="", compare=False)


@frozen
class EachItem:
    """Every item with `start <= index` and (`stop` None or `index < stop`) is allowed by `then`: `prefixItems`,
    `items`, `additionalItems`.
    """

    start: int
    stop: int | None
    then: Expr
    evaluates: bool = True
    at: str = field(default="", compare=False)


@frozen
class Contains:
    """`contains` with `minContains` and `maxContains`. In draft 2020-12 it evaluates the items that match
    (`evaluates`).
    """

    then: Expr
    low: int = 1
    high: int | None = None
    evaluates: bool = False
    at: str = field(default="", compare=False)


@frozen
class ItemCount:
    """`minItems`, `maxItems`."""

    low: int
    high: int | None
    at: str = field(default="", compare=False)


@frozen
class UniqueItems:
    """`uniqueItems: true`."""

    at: str = field(default="", compare=False)


@frozen
class Unevaluated:
    """`unevaluatedProperties` (kind "object") or `unevaluatedItems` (kind "array") beside `base`, everything else of
    the same schema object.

    Means `base`, and every property (item) that no successful part of `base` evaluated is allowed by `then`.
    The node itself evaluates all properties (items).
    """

    kind: Literal["object", "array"]
    base: Expr
    then: Expr
    at: str = field(default="", compare=False)


@frozen
class AllOf:
    """`allOf`, and the keywords of one schema object in the order of its text."""

    parts: tuple[Expr, ...]
    at: str = field(default="", compare=False)


@frozen
class AnyOf:
    """`anyOf`, `enum` (of `Const`), `dependentRequired`."""

    parts: tuple[Expr, ...]
    at: str = field(default="", compare=False)


@frozen
class OneOf:
    """Exactly one part allows the value."""

    parts: tuple[Expr, ...]
    at: str = field(default="", compare=False)


@frozen
class Not:
    part: Expr
    at: str = field(default="", compare=False)


@frozen
class IfThenElse:
    """`if` with `then` and `else` (`Always` where absent), and each entry of `dependentSchemas`.

    What `test` evaluates counts for `Unevaluated` where it allows the value, even if both branches are `Always`.
    """

    test: Expr
    then: Expr
    otherwise: Expr
    at: str = field(default="", compare=False)


@frozen
class Ref:
    """A schema by reference, so that recursion is finite: `target` is an index into `Schema.definitions`.

    It means exactly what the definition means, evaluated properties and items included. Chains and cycles of nothing
    but references are possible; they allow no value.
    """

    target: int
    at: str = field(default="", compare=False)


Expr: TypeAlias = (
    Always | Never | Types | Const | NumberRange | MultipleOf | StringLength | Pattern | Format
    | EachProperty | EachName | Required | PropertyCount | EachItem | Contains | ItemCount | UniqueItems
    | Unevaluated | AllOf | AnyOf | OneOf | Not | IfThenElse | Ref
)


@frozen(eq=False)
class Schema:
    """A read schema: `root`, which is `definitions[0]`, and `definitions` that `Ref.target` points into: what `$ref`,
    `$dynamicRef` and `$recursiveRef` lead to (once for each dynamic scope), and deeply nested subschemas.

    Declared keys stand in the order of the text, since `AllOf.parts` keep it. `report()` is made when asked for.
    """

    root: Expr
    definitions: tuple[Expr, ...]
    report: Callable[[], Report]
