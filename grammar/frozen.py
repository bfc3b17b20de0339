"""Values that nobody changes, cheap to make.

`dataclass(frozen=True)` guards every assignment at run time too, which makes an object of five fields cost three times
as much; schemas become thousands of them. Here the type checker alone is the guard.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar, dataclass_transform, overload

T = TypeVar("T")


@overload
def frozen(cls: type[T]) -> type[T]: ...
@overload
def frozen(*, eq: bool = True, slots: bool = True) -> Callable[[type[T]], type[T]]: ...
@dataclass_transform(frozen_default=True)
def frozen(cls: type[T] | None = None, *, eq: bool = True, slots: bool = True) -> Any:
    """A dataclass that is frozen to mypy. It compares and hashes by content, without `eq` by identity."""
    make = dataclass(slots=slots, eq=eq, unsafe_hash=eq)
    return make if cls is None else make(cls)
