"""From tokens to text, as it comes: whole characters only, and nothing that may still become a stop string."""

from __future__ import annotations

import codecs
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class StopMatch:
    """A stop string was completed: `text` is what comes before it and was not given out yet."""

    text: str
    stop: str


class StopFinder:
    """Finds stop strings in text that comes in pieces.

    The output ends where a stop string is first complete; of several complete at the same place the longest counts. So
    the result depends on the text alone, not on how it was cut into pieces.
    """

    def __init__(self, stops: Sequence[str]) -> None:
        self._stops = tuple(stops)
        self._longest = max(map(len, self._stops), default=0)
        self._held = ""

    def push(self, text: str) -> str | StopMatch:
        """The text that is safe to give out now, or the match that ends the output."""
        if not self._stops:
            return text
        held = self._held + text
        found = [(start + len(stop), start, stop) for stop in self._stops if (start := held.find(stop)) >= 0]
        if found:
            _, start, stop = min(found)
            self._held = ""
            return StopMatch(held[:start], stop)
        keep = self._undecided(held)
        self._held = held[len(held) - keep :]
        return held[: len(held) - keep]

    def flush(self) -> str:
        """What was held back, when no more text will come."""
        held, self._held = self._held, ""
        return held

    def _undecided(self, text: str) -> int:
        """Length of the longest tail that begins a stop string."""
        for length in range(min(self._longest - 1, len(text)), 0, -1):
            tail = text[-length:]
            if any(len(stop) > length and stop.startswith(tail) for stop in self._stops):
                return length
        return 0


class TextStream:
    """The text of one choice.

    Tokens are bytes, and a character's bytes may be spread over several: they are held until it is whole. Bytes that
    can never become a character are given out as U+FFFD, as UTF-8 decoders do. A character that is still incomplete at
    the end is dropped. Special tokens have no bytes and never become text. `thought`: text that is not of the answer
    but came before it, until it is taken (see `reasoning`); `thought_tokens` of it, its end marker's included.
    """

    def __init__(self, stops: Sequence[str] = ()) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._finder = StopFinder(stops)
        self.thought = ""
        self.thought_tokens = 0

    def push(self, data: bytes, token: int = -1) -> str | StopMatch:
        """The text that is safe to give out after `data`, the bytes of the next `token`."""
        return self._finder.push(self._decoder.decode(data))

    def flush(self) -> str:
        """The rest, at the end of the output."""
        return self._finder.flush()

    def take_thought(self) -> str:
        """What was thought since this was last asked."""
        thought, self.thought = self.thought, ""
        return thought
