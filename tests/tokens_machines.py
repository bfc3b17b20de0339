"""Byte automata made by hand for the tests of the token level: random ones with every feature, and a small JSON one."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from slipcast.grammar.automaton.answers import DEPENDS, Answer, Close, Depends, Exact, Open
from slipcast.grammar.automaton.codes import (
    BIG,
    CHECK_LOW,
    COUNT,
    FIRST_LABEL,
    NEED,
    REACH,
    REACH_WIDE,
    ROW_MASK,
    byte_class,
)
from slipcast.grammar.automaton.stepper import Configuration, reaches
from slipcast.grammar.automaton.tables import Tables
from slipcast.grammar.tokens import Vocabulary


@dataclass
class Machine:
    """What a matcher runs: an automaton by its start."""

    tables: Tables
    start_row: int
    start_frame: int

    def completion(self, at: Configuration) -> bytes:
        raise NotImplementedError


class RandomHandler:
    """Answers at random but always the same; frames are made as they are asked for."""

    def __init__(self, arena: RandomArena) -> None:
        self.arena = arena

    def fill(self, frame: int, label: int) -> Answer:
        return self.arena.answer(frame, label)

    def resolve(self, frame: int, label: int, texts: tuple[bytes, ...]) -> Exact:
        assert len(texts) == self.arena.tables.scopes[frame]
        answer = self.arena.answer(frame, label)
        if isinstance(answer, Depends):
            chance = random.Random(repr((label, self.arena.tables.frame_key(frame), texts)))
            return None if chance.random() < 0.5 else self.arena.move(frame, chance)
        return answer


@dataclass
class RandomArena:
    """Rows of all forms with random values over a small alphabet, with flags that mean what they should."""

    seed: int
    alphabet: bytes
    row_count: int = 14
    labels: int = 4
    tables: Tables = field(default_factory=Tables)
    rows: list[int] = field(default_factory=list)
    content: dict[int, dict[int, int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)
        self.handler = RandomHandler(self)
        tables, chance = self.tables, self.random
        forms = [chance.choice(("dense", "dense", "sparse", "lazy", "light")) for _ in range(self.row_count)]
        forms[0] = "dense"
        bases: dict[int, int] = {}
        for form in forms:
            if form == "dense":
                self.rows.append(tables.dense())
            elif form == "sparse":
                self.rows.append(tables.sparse())
            else:
                self.rows.append(tables.lazy(self._build, light=form == "light"))
        dense = [row for row, form in zip(self.rows, forms, strict=True) if form == "dense"]
        for row, form in zip(self.rows, forms, strict=True):
            if form != "sparse":
                self.content[row] = self._row_content(row)
        for row, form in zip(self.rows, forms, strict=True):
            if form == "sparse":
                bases[row] = chance.choice([0, *dense])
                edges = self._row_content(row)
                kept = dict(chance.sample(sorted(edges.items()), min(len(edges), 3)))
                self.content[row] = {**self.content.get(bases[row], {}), **kept}
                self._edges = getattr(self, "_edges", {})
                self._edges[row] = kept
        for row in self.rows:
            if chance.random() < 0.25:
                tables.accept[row] = chance.randrange(self.labels) + FIRST_LABEL + 1
        self._annotate()
        for row, form in zip(self.rows, forms, strict=True):
            if form == "dense":
                for byte, value in self.content[row].items():
                    tables.rows[row, byte] = value
            elif form == "sparse":
                edges = {byte: self.content[row][byte] for byte in self._edges[row]}
                # the base's values got their own flags; what differs is an edge
                base = self.content.get(bases[row], {})
                edges |= {b: v for b, v in self.content[row].items() if base.get(b) != v}
                tables.set_sparse(row, bases[row], edges.items())
            if chance.random() < 0.7:
                tables.wide[row] = chance.choice([row, chance.choice(dense)])
        self._set_loops()

    def _row_content(self, row: int) -> dict[int, int]:
        chance = self.random
        content: dict[int, int] = {}
        for byte in self.alphabet:
            kind = chance.random()
            if kind < 0.35:
                content[byte] = row
            elif kind < 0.65:
                content[byte] = chance.choice(self.rows)
            elif kind < 0.75:
                label = chance.randrange(self.labels) + FIRST_LABEL
                content[byte] = -(label + 1 | (CHECK_LOW if chance.random() < 0.5 else 0))
        return content

    def _build(self, row: int) -> None:
        if self.tables.form[row, 0] == 0:
            for byte, value in self.content[row].items():
                self.tables.rows[row, byte] = value
        else:
            self.tables.set_sparse(row, 0, self.content[row].items())

    def _annotate(self) -> None:
        """Flags, and the needs and reaches that they are checked against, as the fixed points that they are."""
        tables, chance = self.tables, self.random
        counted = {byte for byte in self.alphabet if chance.random() < 0.7}
        need = dict.fromkeys(self.rows, 1000)  # no end in sight: more than any bound, less than none
        reach = dict.fromkeys(self.rows, 0)
        for row in self.rows:
            ends = [-v & 0xFFFFF for v in self.content[row].values() if v < 0] + [int(tables.accept[row])]
            if any(ends):
                need[row] = 0
            for label in ends:
                if label:
                    reach[row] |= 1 << label - 1 - FIRST_LABEL
        for _ in self.rows:
            for row in self.rows:
                for byte, value in self.content[row].items():
                    if value > 0:
                        need[row] = min(need[row], need[value] + (byte in counted))
                        reach[row] |= reach[value]
        checked = set(self.alphabet if chance.random() < 0.5 else b"")
        self.wide_reach = chance.random() < 0.4
        flag = REACH_WIDE if self.wide_reach else REACH
        for row in self.rows:
            tables.need[row] = need[row]
            if self.wide_reach:
                words = np.array([reach[row] & 3, reach[row] >> 2], np.int64)
                tables.reach[row] = tables.add_reach(words)
            else:
                tables.reach[row] = reach[row]
            for byte, value in self.content[row].items():
                if value > 0:
                    if byte in counted:
                        value |= COUNT
                    elif need[value] > need[row]:
                        value |= NEED
                    if byte in checked:
                        value |= flag
                    self.content[row][byte] = value

    def _set_loops(self) -> None:
        """A class is in a row's loops if all of its bytes lead back, all counted or none, and none ends a lexeme."""
        for row in self.rows:
            if self.tables.accept[row] and self.random.random() < 0.5:
                continue
            for counted in (True, False):
                classes = {byte_class(b) for b in range(256)}
                for byte in range(256):
                    value = self.content[row].get(byte, 0)
                    if value <= 0 or value & ROW_MASK != row or bool(value & COUNT) != counted:
                        classes.discard(byte_class(byte))
                bits = sum(1 << c for c in classes if c < 104)
                if bits:
                    self.tables.set_loops(row, bits, counted=counted)
                    break

    def target(self, chance: random.Random) -> tuple[int, int]:
        if chance.random() < 0.15:
            return self.tables.end_row, self.tables.end_frame
        # a lexeme that ends before its first byte could end for ever
        frame = self.frame(chance.randrange(12))
        rows = [row for row in self.rows if not self.tables.accept[row] and self.lives(row, frame)]
        return (chance.choice(rows), frame) if rows else (self.tables.end_row, self.tables.end_frame)

    def lives(self, row: int, frame: int) -> bool:
        """Whether the frame allows a label that the row can still come to: no text enters a row where none is."""
        if self.wide_reach:
            return reaches(self.tables, row, frame, True)
        return bool(self.tables.reach[row] & self.tables.allow[frame])

    def frame(self, number: int) -> int:
        chance = random.Random(f"frame {self.seed} {number}")
        low = chance.choice([0, 0, 1, 3])
        high = chance.choice([BIG, BIG, 3, 5, 9])
        allow = chance.choice([-1, 1, 3, 5, 9, 12, 15])
        if self.wide_reach:
            mask = chance.choice([1, 3, 5, 9, 12, 15])
            allow = self.tables.add_reach(np.array([mask & 3, mask >> 2], np.int64)) | 2 << 32
        return self.tables.frame(
            ("frame", number),
            self.handler,
            labels=chance.choice([FIRST_LABEL, FIRST_LABEL + self.labels]),
            allow=allow,
            low=min(low, high),
            high=high,
            scopes=chance.choice([0, 0, 0, 1, 2]),
        )

    def answer(self, frame: int, label: int) -> Answer:
        chance = random.Random(repr((self.seed, self.tables.frame_key(frame), label)))
        kind = chance.random()
        if kind < 0.15:
            return None
        if kind < 0.35 and self.tables.scopes[frame]:
            return DEPENDS
        return self.move(frame, chance)

    def move(self, frame: int, chance: random.Random) -> Exact:
        """Onwards, or into something for which another frame waits, or out of it."""
        kind = chance.random()
        if kind < 0.25:
            return Close(chance.randrange(self.labels) + FIRST_LABEL)
        row, following = self.target(chance)
        if kind < 0.6 and following != self.tables.end_frame:
            return Open(row, following, self.frame(random.Random(f"back {frame}").randrange(12)))
        return row, following

    def machine(self) -> Machine:
        row, frame = self.target(self.random)
        return Machine(self.tables, row, frame)


def random_tokens(seed: int, alphabet: bytes, count: int = 120) -> list[bytes | None]:
    """Tokens over the alphabet, long and short, some unusable, some twice."""
    chance = random.Random(seed)
    tokens: list[bytes | None] = [bytes((byte,)) for byte in alphabet]
    while len(tokens) < count:
        kind = chance.random()
        if kind < 0.05:
            tokens.append(chance.choice([None, b""]))
        elif kind < 0.15:
            tokens.append(chance.choice(tokens))
        elif kind < 0.6:
            stem = chance.choice(tokens) or b""
            tokens.append(stem[:12] + bytes(chance.choices(alphabet, k=chance.randint(1, 3))))
        else:
            tokens.append(bytes(chance.choices(alphabet, k=chance.randint(1, 6))))
    chance.shuffle(tokens)
    return tokens


def bits(row: np.ndarray[Any, Any], size: int) -> set[int]:
    """The ids whose bits are set; refuses bits beyond the size."""
    found = np.flatnonzero(np.unpackbits(row.view(np.uint8), bitorder="little"))
    assert not len(found) or found[-1] < size, "padding beyond the vocabulary is set"
    return set(found.tolist())


def spelled(tokens: Sequence[bytes | None], ids: set[int]) -> list[bytes | None]:
    """Tokens of ids, for messages."""
    return [tokens[i] for i in sorted(ids)]


@lru_cache
def real_tokenizer(name: str) -> tuple[Any, Vocabulary]:
    """A real tokenizer and its vocabulary; skips the test where it was not fetched."""
    folder = Path(os.environ.get("SLIPCAST_BENCH", "~/.cache/slipcast-bench")).expanduser() / "tokenizers" / name
    if not (folder / "meta.json").exists():
        pytest.skip(f"the tokenizer {name} is not there; the benchmark's setup fetches it")
    from tokenizers import Tokenizer

    meta = json.loads((folder / "meta.json").read_text())
    vocabulary = Vocabulary.from_tokenizer(folder, size=meta["vocab_size"], eos_ids=[meta["eos_token_id"]])
    return Tokenizer.from_file(str(folder / "tokenizer.json")), vocabulary
