"""What a matcher can do beside the least. Found once for each type: to ask a protocol takes as long as a token."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any, Final, Protocol, TypeGuard, runtime_checkable
from weakref import WeakKeyDictionary

from ..plugins.protocols import ForkingMatcher, GuidedMatcher


@runtime_checkable
class ForeseeingMatcher(GuidedMatcher, Protocol):
    """A GuidedMatcher that can tell beforehand what takes time, as the engine's own can."""

    def at_once(self, token: int, way: Any, *, forced: bool) -> AbstractContextManager[bool]:
        """Whether, within the context, to accept the token, to find the way home from `way` and to fill the mask there
        takes microseconds. `forced`: and to ask what is forced there, which is nothing.
        """
        ...


def is_guided(matcher: Any) -> TypeGuard[GuidedMatcher]:
    """Whether it knows its ways out."""
    return _has(type(matcher), GuidedMatcher)


def is_forking(matcher: Any) -> TypeGuard[ForkingMatcher]:
    """Whether it can be copied."""
    return _has(type(matcher), ForkingMatcher)


def is_foreseeing(matcher: Any) -> TypeGuard[ForeseeingMatcher]:
    """Whether it can tell beforehand what takes time."""
    return _has(type(matcher), ForeseeingMatcher)


_FOUND: Final[WeakKeyDictionary[type, dict[type, bool]]] = WeakKeyDictionary()


def _has(kind: type, protocol: type) -> bool:
    found = _FOUND.setdefault(kind, {})
    if protocol not in found:
        found[protocol] = issubclass(kind, protocol)
    return found[protocol]
