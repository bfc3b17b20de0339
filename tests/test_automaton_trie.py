"""The shape of a trie of words: how far the nearest end of a word is from each of its nodes."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from slipcast.grammar.automaton.trieshape import TrieShape, trie_shape


def below(shape: TrieShape, node: int) -> list[int]:
    following = [node + 1] if node and node not in shape.ends else []
    return following + shape.branches.get(node, [])


def nearest(shape: TrieShape, node: int) -> int:
    """By the definition."""
    return 0 if node in shape.ends else 1 + min(nearest(shape, child) for child in below(shape, node))


@given(st.lists(st.text(alphabet="abé", max_size=6), min_size=1, max_size=30, unique=True))
def test_how_far_the_nearest_end_is(words: list[str]) -> None:
    shape = trie_shape(sorted(words))
    assert shape.ahead().tolist() == [nearest(shape, node) for node in range(shape.size)]
