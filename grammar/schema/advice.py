"""The last touch of a report: entries in order, and what the author may want to know about them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from .report import Advice, Entry, Report, Status
from .site import Dialect


def finish(
    dialect: Dialect, root: Any, notes: Mapping[str, tuple[str, Status, str]], advice: Iterable[Advice]
) -> Report:
    """The report of a reading from its raw notes, by pointer."""
    entries = tuple([Entry(at, keyword, status, why) for at, (keyword, status, why) in notes.items()])
    return Report(dialect.name, entries, tuple(dict.fromkeys(advice)))
