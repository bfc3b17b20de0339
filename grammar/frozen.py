"""Values that nobody changes, cheap to make.

`dataclass(frozen=True)` guards every assignment at run time too, which makes an object of five fields cost three times
as much; schemas become thousands of them. Here the type checker alone is the guard.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeVar, dataclass_transform

T = TypeVar("T")


@dataclass_transform(frozen_default=True)
def frozen(cls: type[T]) -> type[T]:
    """A dataclass with slots whose instances compare and hash by content; to mypy it is frozen."""
    made: Any = dataclass(slots=True, unsafe_hash=True)(cls)
    return made  # type: ignore[no-any-return]


@dataclass_transform(frozen_default=True, eq_default=False)
def frozen_thing(cls: type[T]) -> type[T]:
    """The same for what compares by identity."""
    made: Any = dataclass(slots=True, eq=False)(cls)
    return made  # type: ignore[no-any-return]
