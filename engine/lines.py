"""Messages on one line."""

from __future__ import annotations

LONGEST = 600


def one_line(text: str) -> str:
    """The text without line breaks and runs of blanks. Of a long one, which quotes what was given, the two ends."""
    line = " ".join(text.split())
    half = LONGEST // 2
    return line if len(line) <= LONGEST else f"{line[:half]} ... {line[-half:]}"
