"""The KV cache's bookkeeping against a model of it: a sequence is a list of tokens, and pages hold what was written."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from slipcast.engine.errors import PagesExhaustedError, StepError
from slipcast.engine.runtime.kv import KVCache, StepPlace

PAGE = 16
PAGES = 12
CONTEXT = 80

names = st.sampled_from(["add", "step", "step", "step", "fork", "truncate", "remove"])
operations = st.lists(st.tuples(names, *[st.integers(0, 999)] * 3), max_size=60)


class Written:
    """A cache whose pages hold, for each slot, the token that was put there."""

    def __init__(self) -> None:
        self.memory = np.zeros((PAGES, PAGE), np.int64)
        self.cache = KVCache([self.memory], context_length=CONTEXT)
        self.texts: dict[int, list[int]] = {}
        self.next_token = 1

    def step(self, sequences: list[int], lengths: list[int]) -> None:
        before = self.cache.free_pages
        place = self.cache.begin(sequences, lengths)
        assert place.sequences.tolist() == [i for i, length in enumerate(lengths) for _ in range(length)]
        self.check_blocks(place)
        tokens = np.arange(self.next_token, self.next_token + sum(lengths))
        self.next_token += sum(lengths)
        assert len(set(place.slots.tolist())) == len(tokens)  # no two rows write to one place
        self.memory.reshape(-1)[place.slots] = tokens
        for i, sequence in enumerate(sequences):
            rows = place.sequences == i
            held = len(self.texts[sequence])
            assert place.positions[rows].tolist() == list(range(held, held + lengths[i]))
            self.texts[sequence] += tokens[rows].tolist()
            pages = place.page_ids[place.page_bounds[i] : place.page_bounds[i + 1]]
            assert self.cache.length(sequence) == len(self.texts[sequence]) <= len(pages) * PAGE
            self.read_back(pages, self.texts[sequence])
        assert before >= self.cache.free_pages

    def check_blocks(self, place: StepPlace) -> None:
        blocks = place.blocks
        assert sorted(blocks.rows.tolist()) == list(range(len(place.positions)))
        assert blocks.bounds[0] == 0 and blocks.bounds[-1] == len(blocks.rows)
        for k, common in enumerate(blocks.pages.tolist()):
            rows = blocks.rows[blocks.bounds[k] : blocks.bounds[k + 1]]
            assert 1 <= len(rows) <= 16
            bounds = [(place.page_bounds[i], place.page_bounds[i + 1]) for i in place.sequences[rows]]
            firsts = [place.page_ids[start:end].tolist()[:common] for start, end in bounds]
            assert all(first == firsts[0] and len(first) == common for first in firsts)

    def read_back(self, pages: np.ndarray, text: list[int]) -> None:
        assert self.memory[pages].reshape(-1)[: len(text)].tolist() == text

    def check(self) -> None:
        for sequence, text in self.texts.items():
            assert self.cache.length(sequence) == len(text)
        assert set(self.cache.sequences) == set(self.texts)


@settings(max_examples=150, deadline=None)
@given(operations)
def test_sequences_keep_their_tokens(history: list[tuple[str, int, int, int]]) -> None:
    world, fresh = Written(), 0
    for name, a, b, c in history:
        live = sorted(world.texts)
        if name == "add" or not live:
            world.cache.add(fresh)
            world.texts[fresh] = []
            fresh += 1
            continue
        chosen = live[a % len(live)]
        text = world.texts[chosen]
        try:
            if name == "step":
                others = [s for s in live if s != chosen][: b % 3]
                world.step([chosen, *others], [1 + c % 20] + [1 + b % 5] * len(others))
            elif name == "fork":
                position = b % (len(text) + 1)
                world.cache.fork(chosen, fresh, position)
                world.texts[fresh] = text[:position]
                fresh += 1
            elif name == "truncate":
                count = b % (len(text) + 1)
                world.cache.truncate(chosen, count)
                world.texts[chosen] = text[: len(text) - count]
            else:
                world.cache.remove(chosen)
                del world.texts[chosen]
        except PagesExhaustedError as error:
            assert error.needed > error.free == world.cache.free_pages
        except StepError as error:
            assert "exceed the context" in str(error)
        world.check()
    # One more token each shows that nothing was overwritten meanwhile: the whole text is read back.
    for sequence in sorted(world.texts):
        if world.cache.pages_for(sequence, 1) <= world.cache.free_pages and len(world.texts[sequence]) < CONTEXT:
            world.step([sequence], [1])
    for sequence in sorted(world.texts):
        world.cache.remove(sequence)
    assert world.cache.free_pages == world.cache.total_pages == PAGES


def test_pages_are_shared_until_one_of_the_sharers_writes() -> None:
    world = Written()
    world.cache.add(0)
    world.texts[0] = []
    world.step([0], [40])
    assert world.cache.free_pages == PAGES - 3
    world.cache.fork(0, 1, 32)
    assert world.cache.free_pages == PAGES - 3
    world.cache.fork(0, 2, 40)
    assert world.cache.free_pages == PAGES - 4  # two whole pages shared, the third copied
    world.cache.truncate(0, 20)  # into a shared page: it must be copied before it is written
    assert world.cache.pages_for(0, 1) == 1
    world.texts = {0: world.texts[0][:20], 1: world.texts[0][:32], 2: world.texts[0][:40]}
    world.step([0, 1, 2], [1, 1, 1])


def test_a_refused_step_changes_nothing() -> None:
    cache = KVCache([np.zeros((4, PAGE))], context_length=CONTEXT)
    cache.add(0)
    cache.add(1)
    cache.begin([0], [33])
    with pytest.raises(PagesExhaustedError) as caught:
        cache.begin([0, 1], [16, 17])
    assert (caught.value.needed, caught.value.free) == (3, 1)
    with pytest.raises(StepError, match="no sequence 9"):
        cache.begin([0, 9], [1, 1])
    with pytest.raises(StepError, match="exceed the context of 80"):
        cache.begin([1, 0], [1, 48])
    assert (cache.length(0), cache.length(1), cache.free_pages) == (33, 0, 1)
