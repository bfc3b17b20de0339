"""Reads lexemes out of the tables, byte by byte, with a frame whose every label ends the text."""

from __future__ import annotations

import json
import re
from collections import deque
from itertools import count

from slipcast.grammar.automaton.codes import BIG, FIRST_LABEL
from slipcast.grammar.automaton.specs import KeyLexeme, ValueStart
from slipcast.grammar.automaton.stepper import Configuration, ends, run, step
from slipcast.grammar.automaton.tables import Tables

_frames = count()


class Ender:
    """After each label comes a frame of its own, in which nothing more may come."""

    def __init__(self, tables: Tables) -> None:
        self.tables = tables

    def fill(self, frame: int, label: int) -> tuple[int, int]:
        return self.tables.end_row, self.tables.frame(("ended", label), self, labels=1)

    def resolve(self, frame: int, label: int, texts: tuple[bytes, ...]) -> tuple[int, int]:
        return self.fill(frame, label)


def frame_of(tables: Tables, *, low: int = 0, high: int = BIG, allow: int = -1, labels: int = 8) -> int:
    return tables.frame(("read", next(_frames)), Ender(tables), labels=labels, low=low, high=high, allow=allow)


def value_start(tables: Tables, start: ValueStart) -> Configuration:
    return Configuration(start.row, frame_of(tables, low=start.low, high=start.high))


def key_start(tables: Tables, lexeme: KeyLexeme, mask: int, *, row: int | None = None) -> Configuration:
    frame = frame_of(tables, allow=lexeme.allow(mask), labels=lexeme.labels)
    return Configuration(lexeme.first if row is None else row, frame)


def label_after(tables: Tables, at: Configuration, text: bytes | str) -> int | None:
    """The label with which the lexeme ended exactly at the end of `text`; None if it did not."""
    after = run(tables, at, text.encode() if isinstance(text, str) else text)
    if after is None or not ends(tables, after):
        return None
    if after.row == tables.end_row:
        key = tables.frame_key(after.frame)
        assert isinstance(key, tuple)
        return int(key[1])
    return int(tables.accept[after.row]) - 1


def dead_ends(tables: Tables, at: Configuration, limit: int = 20_000) -> list[Configuration]:
    """Configurations reachable from `at` from which no end can be reached. At most `limit` are walked, or it fails."""
    before: dict[Configuration, set[Configuration]] = {at: set()}
    finished = []
    waiting = deque([at])
    while waiting:
        current = waiting.popleft()
        if ends(tables, current):
            finished.append(current)
        for byte in range(256):
            after = step(tables, current, byte)
            if after is None:
                continue
            if after not in before:
                before[after] = set()
                waiting.append(after)
            before[after].add(current)
        assert len(before) <= limit, "too many configurations to walk"
    alive = set(finished)
    waiting = deque(finished)
    while waiting:
        for source in before[waiting.popleft()]:
            if source not in alive:
                alive.add(source)
                waiting.append(source)
    return [configuration for configuration in before if configuration not in alive]


_CHARACTER = re.compile(
    r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|\\u[0-9a-fA-F]{4}|\\.|.", re.DOTALL
)


def string_value(text: bytes, spelling: str) -> str | None:
    """What a quoted JSON string stands for, judged by `json`; None if it is none, or spelled in another way."""
    try:
        decoded = text.decode()
        value = json.loads(decoded)
    except ValueError:
        return None
    if not isinstance(value, str) or decoded[:1] != '"' or decoded[-1:] != '"':
        return None
    if any("\ud800" <= char <= "\udfff" for char in value):
        return None
    if spelling == "natural":
        for character in _CHARACTER.findall(decoded[1:-1]):
            if character == "\\/" or (character[:2] == "\\u" and " " <= json.loads(f'"{character}"') < "\x7f"):
                return None
    return value


def spelled(value: str, spelling: str, choose: object = None) -> list[list[str]]:
    """For each character of a text the ways to write it."""
    short = {'"': '\\"', "\\": "\\\\", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t"}
    ways = []
    for char in value:
        own = [char] if char >= " " and char not in '"\\' else []
        if char in short:
            own.append(short[char])
        if char == "/" and spelling == "any":
            own.append("\\/")
        if spelling == "any" or char < " " or char >= "\x7f":
            units = char.encode("utf-16-be").hex()
            code = "".join("\\u" + units[i : i + 4] for i in range(0, len(units), 4))
            own += [code, "".join("\\u" + units[i : i + 4].upper() for i in range(0, len(units), 4))]
        ways.append(own)
    return ways


def name_label(lexeme: KeyLexeme, name: str) -> int:
    return FIRST_LABEL + len(lexeme.signatures) + lexeme.names.index(name)
