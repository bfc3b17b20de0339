"""Vocabularies: tries against their definition, tokenizers of both families, the disk cache, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from slipcast.grammar.automaton.codes import NEVER_LOOPS, byte_class
from slipcast.grammar.automaton.tokencodes import MARK, spelled
from slipcast.grammar.errors import VocabularyError
from slipcast.grammar.tokens import Vocabulary
from slipcast.grammar.tokens.fewest import Fewest
from slipcast.grammar.tokens.trie import DEPTH_MASK, DEPTH_SHIFT, PLAIN, build_trie
from tokens_machines import real_tokenizer

TOKENS = st.lists(
    st.one_of(st.binary(max_size=5), st.text(max_size=4).map(str.encode), st.sampled_from([b"a", b"ab", b"", b" a"])),
    max_size=16,
)
TEXTS = st.binary(max_size=8).map(lambda data: data.replace(MARK, b""))


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SLIPCAST_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def paths(trie: Any) -> list[bytes]:
    """The bytes on the way to each node."""
    found = [b""]
    for word in trie.nodes[1:].tolist():
        depth = word >> DEPTH_SHIFT & DEPTH_MASK
        above = next(p for p in reversed(found) if len(p) == depth - 1)
        found.append(above + bytes((word & 0xFF,)))
    return found


@settings(max_examples=80, deadline=None)
@given(TOKENS)
def test_trie_is_what_its_tokens_say(tokens: list[bytes]) -> None:
    trie = build_trie(tokens, range(100, 100 + len(tokens)))
    nodes = paths(trie)
    assert nodes == sorted({token[:i] for token in tokens for i in range(len(token) + 1)} | {b""})
    for number, path in enumerate(nodes):
        below = {100 + i for i, token in enumerate(tokens) if token.startswith(path)}
        assert set(trie.tokens_below(number).tolist()) == below
        own = trie.order[trie.first[number] : trie.first[number + 1]].tolist()
        assert sorted(own) == [100 + i for i, token in enumerate(tokens) if token == path]
        assert all(nodes[i].startswith(path) for i in range(number, trie.end(number)))
    assert [int(trie.roots[byte]) for byte in range(256)] == [
        nodes.index(bytes((byte,))) if bytes((byte,)) in nodes else 0 for byte in range(256)
    ]


@settings(max_examples=80, deadline=None)
@given(TOKENS)
def test_summaries_name_the_bytes_below_and_doubt_what_is_not_utf8(tokens: list[bytes]) -> None:
    trie = build_trie(tokens, range(len(tokens)))
    nodes = paths(trie)
    for number, path in enumerate(nodes):
        low, high = (int(word) & (1 << 64) - 1 for word in trie.summary[number])
        summary = low | high << 64
        below = [other[len(path) :] for other in nodes if other.startswith(path) and other != path]
        classes = {byte_class(byte) for rest in below for byte in rest}
        assert {c for c in range(128) if summary >> c & 1} - {NEVER_LOOPS} == classes - {NEVER_LOOPS}
        if not summary >> NEVER_LOOPS & 1:
            # every token below is the beginning of well-formed text: cutting at most three bytes off makes it whole
            for text in (path + rest for rest in below):
                assert any(well_formed(text[: len(text) - cut]) for cut in range(4))
        if trie.nodes[number] & PLAIN:
            assert not {byte for byte in path if byte < 0x20 or byte in b'"\\'}
        if well_formed(path):
            assert trie.characters[number] == len(path.decode())


def well_formed(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


@settings(max_examples=80, deadline=None)
@given(TOKENS, TEXTS)
def test_tokenize_takes_the_fewest_tokens(tokens: list[bytes], data: bytes) -> None:
    vocabulary = Vocabulary([*tokens, b"a", b"bc"], eos_ids=[len(tokens) + 2], size=len(tokens) + 3)
    fewest: list[float] = [0.0] + [float("inf")] * len(data)
    for end in range(1, len(data) + 1):
        for token in filter(None, vocabulary.tokens):
            if data[:end].endswith(token):
                fewest[end] = min(fewest[end], fewest[end - len(token)] + 1)
    ids = vocabulary.tokenize(data)
    if ids is None:
        assert fewest[-1] == float("inf")
    else:
        assert len(ids) == fewest[-1]
        assert b"".join(vocabulary.tokens[i] or b"?" for i in ids) == data


def test_ids_that_are_not_text_are_none_and_padding_counts() -> None:
    vocabulary = Vocabulary([b"a", None, b"", b"b" * 2000, b"</s>"], eos_ids=[4], size=70)
    assert vocabulary.tokens == (b"a",) + (None,) * 69
    assert (len(vocabulary), vocabulary.words) == (70, 3)
    assert vocabulary.tries.below(0).tolist() == [0]


@pytest.mark.parametrize(
    ("tokens", "eos_ids", "size", "says"),
    [
        ([b"a", None], [], None, "eos_ids is empty"),
        ([b"a"], [1], None, "eos id 1"),
        ([b"a"], [-1], None, "eos id -1"),
        ([b"a"], [True], 2, "eos id True"),
        ([b"a", None], [1], 1, "size 1 is below"),
        ([None, b""], [0], None, "no token"),
        (["a", None], [1], None, "token 0 is str"),
    ],
)
def test_vocabularies_that_cannot_be_used_are_refused(tokens: Any, eos_ids: Any, size: int | None, says: str) -> None:
    with pytest.raises(VocabularyError, match=says):
        Vocabulary(tokens, eos_ids, size)


def byte_level(folder: Path) -> Path:
    """A byte-level tokenizer with a special token and one more added token."""
    alphabet = {chr(c): i for i, c in enumerate([*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)])}
    for extra in range(256, 256 + 256 - len(alphabet)):
        alphabet[chr(extra)] = len(alphabet)
    alphabet["\u0120the"] = len(alphabet)
    alphabet["\u20ac"] = len(alphabet)  # no byte's letter
    added = [
        {"id": len(alphabet), "content": "<|endoftext|>", "special": True},
        {"id": len(alphabet) + 1, "content": "<think>", "special": False},
    ]
    path = folder / "tokenizer.json"
    description = {"model": {"type": "BPE", "vocab": alphabet}, "added_tokens": added, "decoder": {"type": "ByteLevel"}}
    path.write_text(json.dumps(description), encoding="utf-8")
    return path


def test_byte_level_tokens_are_bytes_and_added_ones_never_text(tmp_path: Path) -> None:
    vocabulary = Vocabulary.from_tokenizer(byte_level(tmp_path), size=300)
    texts = [token for token in vocabulary.tokens if token is not None]
    assert sorted(texts) == sorted([bytes((b,)) for b in range(256)] + [b" the"])
    assert vocabulary.eos_ids == (258,)
    assert vocabulary.tokens[257:] == (None,) * 43


@pytest.mark.parametrize("model", ["BPE", "Unigram"])
def test_sentencepiece_tokens_have_spaces_and_fallback_bytes(tmp_path: Path, model: str) -> None:
    pieces = ["<unk>", "</s>", "<0x0A>", "<0xC3>", "\u2581hello", "\u2581", "h\u00e9", "<0xZZ>", "A", "<0x41>"]
    vocab: Any = {p: i for i, p in enumerate(pieces)} if model == "BPE" else [[p, -1.0] for p in pieces]
    description = {
        "model": {"type": model, "vocab": vocab, "byte_fallback": True, "unk_id": 0},
        "added_tokens": [{"id": 1, "content": "</s>", "special": True}],
        "decoder": {"type": "Sequence", "decoders": [{"type": "ByteFallback"}, {"type": "Fuse"}]},
    }
    (tmp_path / "tokenizer.json").write_text(json.dumps(description), encoding="utf-8")
    vocabulary = Vocabulary.from_tokenizer(tmp_path)
    assert vocabulary.tokens == (
        None, None, b"\n", b"\xc3", b" hello", b" ", "h\u00e9".encode(), b"<0xZZ>", b"A", b"A",
    )  # fmt: skip


def test_ends_come_from_the_configuration_first(tmp_path: Path) -> None:
    path = byte_level(tmp_path)
    (tmp_path / "generation_config.json").write_text('{"eos_token_id": [3, 258]}')
    assert Vocabulary.from_tokenizer(path).eos_ids == (3, 258)
    assert Vocabulary.from_tokenizer(path, eos_ids=[5]).eos_ids == (5,)
    (tmp_path / "generation_config.json").unlink()
    (tmp_path / "tokenizer_config.json").write_text('{"eos_token": {"content": "<think>"}}')
    assert Vocabulary.from_tokenizer(path).eos_ids == (259,)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[1", "not JSON"),
        ("[]", "does not hold an object"),
        ('{"added_tokens": []}', "does not say which token"),
        ('{"added_tokens": [{"id": 0, "content": "</s>"}]}', "lacks its parts"),
        (
            '{"model": {"type": "WordPiece", "vocab": {"##a": 0}}, "added_tokens": [{"id": 1, "content": "</s>"}]}',
            "WordPiece",
        ),
    ],
)
def test_tokenizers_that_cannot_be_used_are_refused(tmp_path: Path, text: str, says: str) -> None:
    (tmp_path / "tokenizer.json").write_text(text)
    with pytest.raises(VocabularyError, match=says):
        Vocabulary.from_tokenizer(tmp_path)


def test_a_missing_tokenizer_is_named(tmp_path: Path) -> None:
    with pytest.raises(VocabularyError, match="cannot read the tokenizer"):
        Vocabulary.from_tokenizer(tmp_path / "nowhere")


def test_the_cache_gives_back_the_same_vocabulary_and_survives_damage(tmp_path: Path, cache: Path) -> None:
    path = byte_level(tmp_path)
    built = Vocabulary.from_tokenizer(path)
    (stored,) = (cache / "vocabulary").iterdir()
    loaded = Vocabulary.from_tokenizer(path)
    assert (loaded.tokens, loaded.eos_ids) == (built.tokens, built.eos_ids)
    assert built.stripped == loaded.stripped
    for name in ("nodes", "first", "order", "summary", "characters", "lengths", "roots"):
        assert np.array_equal(getattr(built.tries, name)[:2000], getattr(loaded.tries, name)[:2000])
    for damage in (b"", b"PK\x03\x04 not an archive", stored.read_bytes()[:5000]):
        stored.write_bytes(damage)
        assert Vocabulary.from_tokenizer(path).tokens == built.tokens


def test_a_cache_that_cannot_be_written_is_no_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("in the way")
    monkeypatch.setenv("SLIPCAST_CACHE", str(blocked))
    assert Vocabulary.from_tokenizer(byte_level(tmp_path)).size == 260


@pytest.mark.parametrize("name", ["llama3", "smollm2", "qwen2"])
def test_tokens_of_real_tokenizers_decode_to_their_bytes(name: str) -> None:
    tokenizer, vocabulary = real_tokenizer(name)
    for number in range(0, vocabulary.size, 997):
        token = vocabulary.tokens[number]
        if token is not None and well_formed(token):
            assert tokenizer.decode([number]) == token.decode()
    text = 'Ünïcode "quotes", 日本語 and\n\ttabs'
    ids = tokenizer.encode(text, add_special_tokens=False).ids
    assert b"".join(vocabulary.tokens[i] or b"?" for i in ids) == text.encode()


@settings(max_examples=80, deadline=None)
@given(TOKENS, st.lists(st.one_of(TEXTS, st.integers(0, 2)), max_size=5))
def test_the_fewest_tokens_of_each_suffix(tokens: list[bytes], parts: list[bytes | int]) -> None:
    vocabulary = Vocabulary([*tokens, b"a", b"bc"], eos_ids=[len(tokens) + 2], size=len(tokens) + 3)
    data, starts = b"", []
    for part in parts:  # numbers are tokens taken as such
        starts += range(len(data), len(data) + (len(part) if isinstance(part, bytes) else 1))
        data += part if isinstance(part, bytes) else spelled(part)
    fewest = Fewest(data, vocabulary)
    for start in [*starts, len(data)]:
        alone = vocabulary.tokenize(data[start:])
        assert fewest.tokens(start) == (None if alone is None else tuple(alone))
        assert fewest.count(start) == (None if alone is None else len(alone))
    if all(isinstance(part, int) for part in parts):
        assert list(fewest.tokens(0) or ()) == parts
