"""What the commands share at the terminal: progress bars, reading lines, files given as options."""

from __future__ import annotations

import sys
from pathlib import Path
from types import TracebackType
from typing import NoReturn, Self, TextIO

from tqdm import tqdm

from .errors import EngineError

BAR = "{desc}: {percentage:3.0f}%|{bar:30}| {elapsed}"


class ProgressBars:
    """A progress callback for stderr: `progress(stage, share)`, share from 0 to 1. A bar for each stage, or lines
    in a log file.
    """

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = sys.stderr if stream is None else stream
        self._stage = ""
        self._bar: tqdm[NoReturn] | None = None

    def __call__(self, stage: str, share: float) -> None:
        if stage != self._stage:
            self.close()
            self._stage = stage
            if self._stream.isatty():
                self._bar = tqdm(total=1.0, desc=stage, file=self._stream, leave=True, bar_format=BAR)
            else:
                self._stream.write(f"{stage} ...\n")
                self._stream.flush()
        if self._bar is not None:
            self._bar.update(max(0.0, min(1.0, share) - self._bar.n))

    def close(self) -> None:
        """Leave the current bar as it is."""
        if self._bar is not None:
            self._bar.close()
            self._bar = None
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
