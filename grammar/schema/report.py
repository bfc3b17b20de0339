"""What became of every keyword of a schema: enforced, an annotation, or refused; and what is likely to surprise."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

Status: TypeAlias = Literal["enforced", "annotation", "refused"]


@dataclass(frozen=True, slots=True)
class Entry:
    """One keyword at one place. `pointer` is that of the keyword itself (RFC 6901; other documents are prefixed with
    `uri#`).
    """

    pointer: str
    keyword: str
    status: Status
    why: str = ""


@dataclass(frozen=True, slots=True)
class Advice:
    """Something that is right and yet likely to surprise its author or make a model stumble."""

    pointer: str
    keyword: str
    message: str


@dataclass(frozen=True, slots=True)
class Report:
    """Every keyword of a schema that was read (definitions that nothing refers to are not), in reading order.

    `dialect` is the draft of the root, as "2020-12". A definition read under several dynamic scopes is listed once.
    """

    dialect: str
    entries: tuple[Entry, ...] = ()
    advice: tuple[Advice, ...] = ()

    @property
    def refused(self) -> tuple[Entry, ...]:
        """The entries that stop this schema from being compiled; empty unless the report comes from `inspect`."""
        return tuple(entry for entry in self.entries if entry.status == "refused")
