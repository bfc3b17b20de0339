"""What a schema says, as a key for caches: equal for schemas that read alike, and cheap where no two are alike."""

from __future__ import annotations

import gc
import json
import marshal
import zlib
from decimal import Decimal
from typing import Any, Final

MAX_NODES: Final = 100_000
_NAMING: Final = frozenset(
    {"properties", "patternProperties", "$defs", "definitions", "dependentSchemas", "dependentRequired", "dependencies"}
)
_MIXED: Final = bytes([(5 * byte * byte + 97 * byte + 1) * 167 >> 3 & 255 for byte in range(256)])
"""Another value for each byte, so that sums of these and of the bytes seldom agree by chance."""
_VERSION: Final = 2  # of marshal's format: the last without references, so that equal values are equal bytes


class Content:
    """A schema of Python objects by value. The order of keys counts in `properties`, since it shapes the output, and
    nowhere else.

    Schemas that differ in the order of keys alone are the same bytes in another order. So the hash is of sums over the
    bytes, and keys are put in order only where two schemas agree in those.
    """

    __slots__ = ("_bytes", "_hash", "_normal")

    def __init__(self, data: bytes) -> None:
        self._bytes = data
        self._hash = hash((len(data), _sum(data), _sum(data.translate(_MIXED))))
        self._normal: str | None = None

    @classmethod
    def of(cls, schema: Any) -> Content | None:
        """The content of a schema; None if it is no plain JSON, or too large to be worth it."""
        if not _few(schema):
            return None
        try:
            return cls(marshal.dumps(schema, _VERSION))
        except ValueError:  # nested too deep, or not all of it is what JSON readers give by default
            pass
        try:
            return cls(marshal.dumps(_without_decimals(schema), _VERSION))
        except (RecursionError, ValueError):
            return None

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Content):
            return NotImplemented
        return self._bytes == other._bytes or (
            len(self._bytes) == len(other._bytes) and self._hash == other._hash and self.normal == other.normal
        )

    @property
    def normal(self) -> str:
        """Text that is equal for equal content."""
        if self._normal is None:
            try:
                self._normal = repr(_sorted(self.schema(), False, False))
            except (RecursionError, TypeError):
                self._normal = repr(self._bytes)
        return self._normal

    def schema(self) -> Any:
        """The schema again, as new objects."""
        return marshal.loads(self._bytes)

    def json(self) -> str | None:
        """The schema as JSON; None if an annotation in it is no JSON."""
        try:
            return json.dumps(self.schema(), ensure_ascii=False)
        except (TypeError, ValueError, RecursionError):
            return None


def _sum(data: bytes) -> int:
    """The sum of the bytes, modulo a prime: the lower half of Adler-32 (RFC 1950, section 8.2)."""
    return zlib.adler32(data) & 0xFFFF


def _few(schema: Any) -> bool:
    """Whether the schema spells out few nodes: a few shared objects can stand for millions."""
    level = [schema]
    left = MAX_NODES
    while level:
        level = gc.get_referents(*level)
        left -= len(level)
        if left < 0:
            return False
    return True


def _without_decimals(node: Any) -> Any:
    if isinstance(node, dict):
        return {key: _without_decimals(value) for key, value in node.items()}
    if isinstance(node, list):
        return [_without_decimals(item) for item in node]
    if isinstance(node, Decimal):
        nearest = float(node)
        if Decimal(repr(nearest)) != node:
            raise ValueError(node)
        return nearest
    return node


def _sorted(node: Any, named: bool, ordered: bool) -> Any:
    """`node` with its keys in order. `named`: they are names that the schema gives; `ordered`: their order counts."""
    if isinstance(node, dict):
        if named:
            return {name: _sorted(node[name], False, False) for name in (node if ordered else sorted(node))}
        return {key: _sorted(node[key], key in _NAMING, key == "properties") for key in sorted(node)}
    if isinstance(node, list):
        return [_sorted(item, False, False) for item in node]
    return node
