"""What the commands share at the terminal: tables and panels, progress, files given as options.

People get colours and frames; a pipe, and whoever set NO_COLOR, gets the same words plain, one line for each row.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self, TextIO

from rich import box
from rich.console import Console
from rich.panel import Panel
from rich.progress import BarColumn, Progress, TaskID, TaskProgressColumn, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from .errors import EngineError

ENDLESS: Final = 1 << 16
"""Columns of what is no terminal: nothing is wrapped there, so that a line stays a line."""


def is_fancy(stream: TextIO | None = None) -> bool:
    """Whether `stream` (standard output) is for people: a terminal, and nobody asked for plain text (no-color.org)."""
    stream = sys.stdout if stream is None else stream
    return stream.isatty() and not os.environ.get("NO_COLOR")


def console(stream: TextIO | None = None) -> Console:
    """A console on `stream` (standard output), which colours nothing by itself and reads no markup in texts."""
    stream = sys.stdout if stream is None else stream
    fancy = is_fancy(stream)
    return Console(
        file=stream,
        width=None if stream.isatty() else ENDLESS,
        force_terminal=fancy,
        no_color=not fancy,
        highlight=False,
        markup=False,
        emoji=False,
    )


def print_table(
    columns: Sequence[str], rows: Iterable[Sequence[object]], *, numbers: Sequence[int] = (), title: str = ""
) -> None:
    """A table on standard output. `numbers`: columns that are set to the right. A cell may be a rich Text."""
    fancy = is_fancy()
    lines = [[cell if isinstance(cell, Text) else Text(str(cell)) for cell in row] for row in rows]
    shown = [i for i, name in enumerate(columns) if name or any(line[i].plain for line in lines)]
    frame = box.ROUNDED if fancy else None
    table = Table(title=title or None, title_justify="left", box=frame, pad_edge=fancy, show_header=any(columns))
    for i in shown:
        table.add_column(columns[i], justify="right" if i in numbers else "left", overflow="fold")
    for line in lines:
        table.add_row(*(line[i] for i in shown))
    if fancy:
        console().print(table)
        return
    screen = console()
    with screen.capture() as plain:
        screen.print(table)
    print("\n".join(line.rstrip() for line in plain.get().splitlines()))  # nothing behind the last column


def print_panel(lines: Iterable[tuple[str, str]], title: str) -> None:
    """Named facts in a frame; plain, a line each."""
    facts = list(lines)
    if not is_fancy():
        for name, fact in facts:
            console().print(f"{name}: {fact}" if name else fact)
        return
    grid = Table.grid(padding=(0, 2))
    for name, fact in facts:
        grid.add_row(Text(name, "bold"), Text(fact))
    console().print(Panel(grid, title=Text(title), title_align="left", expand=False))


def print_json(value: Any) -> None:
    """For scripts: one JSON text, indented."""
    print(json.dumps(value, indent=2, ensure_ascii=False, default=str))


class ProgressBars:
    """A progress callback for stderr: `progress(stage, share)`, share from 0 to 1. A bar for each stage, or lines
    in a log file.
    """

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = sys.stderr if stream is None else stream
        self._stage = ""
        self._bars: Progress | None = None
        self._bar = TaskID(0)

    def __call__(self, stage: str, share: float) -> None:
        if stage != self._stage:
            self._stage = stage
            if self._stream.isatty():
                self._bar = self._open().add_task(stage, total=1.0)
            else:
                self._stream.write(f"{stage} ...\n")
                self._stream.flush()
        if self._bars is not None:
            self._bars.update(self._bar, completed=max(0.0, min(1.0, share)))

    def _open(self) -> Progress:
        if self._bars is None:
            columns = (TextColumn("{task.description}"), BarColumn(30), TaskProgressColumn(), TimeElapsedColumn())
            self._bars = Progress(*columns, console=console(self._stream))
            self._bars.start()
        return self._bars

    def close(self) -> None:
        """Leave the bars as they are."""
        if self._bars is not None:
            self._bars.stop()
            self._bars = None
        self._stage = ""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def open_template(path: str | None) -> str | None:
    """The chat template in a file, None where none is given."""
    return None if path is None else read_text(path)


def read_text(path: str) -> str:
    """The text of a file, or of standard input for `-`. Raises OSError, or EngineError if it is not UTF-8."""
    data = sys.stdin.buffer.read() if path == "-" else Path(path).read_bytes()
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise EngineError(f"{path} is not UTF-8: {error.reason} at byte {error.start}") from error
