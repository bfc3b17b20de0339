"""Typed reading of metadata: every value is checked as it is read, and a wrong one is named."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from ..errors import ModelFileError, UnsupportedModelError
from .checkpoint import AGAIN

_T = TypeVar("_T")


@dataclass(frozen=True)
class Values:
    """Metadata of a file; keys are looked up with `prefix` in front of them."""

    path: Path
    metadata: Mapping[str, Any]
    prefix: str = ""

    def under(self, prefix: str) -> Values:
        return replace(self, prefix=prefix)

    def fail(self, what: str) -> ModelFileError:
        return ModelFileError(f"{self.path}: {what}", path=self.path, remedy=AGAIN)

    def refuse(self, what: str, remedy: str = "use another model") -> UnsupportedModelError:
        return UnsupportedModelError(f"{self.path}: not supported: {what}", path=self.path, remedy=remedy)

    def get(self, key: str) -> Any:
        return self.metadata.get(self.prefix + key)

    def text(self, key: str) -> str:
        value = self.get(key)
        if not isinstance(value, str):
            raise self.fail(f"the metadata has no {self.prefix + key!r}")
        return value

    def count(self, key: str, default: int | None = None) -> int:
        value = self._or(key, default)
        if isinstance(value, bool) or not isinstance(value, int) or not 0 < value < 1 << 31:
            raise self.fail(f"the metadata's {self.prefix + key!r} is {value!r}, not a positive integer")
        return value

    def number(self, key: str, default: float | None = None) -> float:
        value = self._or(key, default)
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < float("inf"):
            raise self.fail(f"the metadata's {self.prefix + key!r} is {value!r}, not a positive number")
        return float(value)

    def maybe(self, key: str) -> float:
        """A positive number, or 0.0 where there is none (or none that means anything)."""
        return 0.0 if self.get(key) in (None, 0, 0.0) else self.number(key)

    def optional(self, key: str, kind: type[_T]) -> _T | None:
        value = self.get(key)
        if value is not None and (not isinstance(value, kind) or (kind is int and isinstance(value, bool))):
            raise self.fail(f"the metadata's {self.prefix + key!r} is no {kind.__name__}")
        return value

    def list(self, key: str, kind: type[_T]) -> tuple[_T, ...]:
        """An array of one type, () where there is none."""
        value = self.get(key)
        if value is None:
            return ()
        if not isinstance(value, tuple | list) or not all(isinstance(item, kind) for item in value[:1]):
            raise self.fail(f"the metadata's {self.prefix + key!r} is no list of {kind.__name__}")
        return tuple(value)

    def numbers(self, key: str, count: int) -> tuple[float, ...]:
        """`count` positive numbers."""
        value = self.get(key)
        if not isinstance(value, tuple | list) or len(value) != count:
            raise self.fail(f"the metadata's {self.prefix + key!r} is no list of {count} numbers")
        if not all(isinstance(item, int | float) and 0 < item < float("inf") for item in value):
            raise self.fail(f"the metadata's {self.prefix + key!r} has an item that is no positive number")
        return tuple(map(float, value))

    def flag(self, key: str, *, default: bool) -> bool:
        value = self.optional(key, bool)
        return default if value is None else value

    def token(self, key: str, count: int) -> int | None:
        value = self.optional(key, int)
        if value is not None and not 0 <= value < count:
            raise self.fail(f"the metadata's {self.prefix + key!r} is {value}, outside the vocabulary of {count}")
        return value

    def _or(self, key: str, default: Any) -> Any:
        value = self.get(key)
        return default if value is None else value
