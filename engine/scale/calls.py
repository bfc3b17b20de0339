"""A request on its way from the front to a replica, and the first thing that comes back."""

from __future__ import annotations

from dataclasses import dataclass

from .keys import WarmKeys


@dataclass(frozen=True, slots=True)
class Call:
    """An HTTP request, its body whole. `keys` tell the router what it will find warm."""

    method: str
    path: str
    query: bytes
    headers: tuple[tuple[bytes, bytes], ...]
    body: bytes
    keys: WarmKeys


@dataclass(frozen=True, slots=True)
class Head:
    """The status and headers of an answer, and its body: the whole, or the first piece of a stream with `more`."""

    status: int
    headers: tuple[tuple[bytes, bytes], ...]
    body: bytes
    more: bool

    @property
    def has_events(self) -> bool:
        """Whether the body is server-sent events, so that an error may be told in its middle."""
        return any(name == b"content-type" and value.startswith(b"text/event-stream") for name, value in self.headers)
