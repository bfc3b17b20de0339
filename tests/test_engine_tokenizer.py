"""Tokenizers built from what a model file stores."""

from __future__ import annotations

import dataclasses
import itertools
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from slipcast.engine.errors import TokenizerError
from slipcast.engine.runtime.config import TokenizerSpec
from slipcast.engine.tokenizer import TextTokenizer, build_tokenizer

NORMAL, UNKNOWN, CONTROL, USER, UNUSED, BYTE = 1, 2, 3, 4, 5, 6


def spec(model: str, entries: list[tuple[str, int, float]], merges=(), pre=None, **more) -> TokenizerSpec:
    texts, kinds, scores = zip(*entries, strict=True)
    values = {
        "bos_id": None, "eos_id": None, "unknown_id": None, "padding_id": None,
        "add_bos": False, "add_space_prefix": False, "chat_template": None,
    } | more  # fmt: skip
    return TokenizerSpec(
        model=model, pre=pre, tokens=texts, token_types=kinds, scores=scores, merges=tuple(merges), **values
    )


def byte_alphabet() -> list[str]:
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    return [chr(b) for b in printable] + [chr(0x100 + i) for i in range(256 - len(printable))]


def byte_level(pre="smollm", **more) -> TokenizerSpec:
    entries = [("<|endoftext|>", CONTROL, 0.0), ("<|im_end|>", CONTROL, 0.0)]
    entries += [(c, NORMAL, 0.0) for c in byte_alphabet()]
    merges = ["t h", "th e", "Ġ the", "1 2", "Ã ©"]
    entries += [(merge.replace(" ", ""), NORMAL, 0.0) for merge in merges]
    entries += [("<tool>", USER, 0.0), ("<unused>", UNUSED, 0.0)]
    return spec("gpt2", entries, merges, pre, eos_id=1, bos_id=0, chat_template="{{ x }}", **more)


@given(st.text())
@settings(deadline=None)
def test_byte_level_round_trip(text):
    tokenizer = build_tokenizer(byte_level())
    ids = tokenizer.encode(text, special=False)
    assert tokenizer.decode(ids) == text
    assert b"".join(map(tokenizer.bytes_of, ids)) == text.encode()


def test_byte_level_pieces():
    tokenizer = build_tokenizer(byte_level())
    names = [tokenizer.name(id_) for id_ in tokenizer.encode("the the é 12")]
    assert names == ["the", "Ġthe", "Ġ", "Ã©", "Ġ", "1", "2"]  # smollm's digits stand alone
    grouped = build_tokenizer(byte_level(pre="gpt-2"))
    assert [grouped.name(id_) for id_ in grouped.encode("a 12")] == ["a", "Ġ", "12"]


def test_special_tokens():
    tokenizer = build_tokenizer(byte_level())
    ids = tokenizer.encode("the<|im_end|><tool>")
    assert ids[1] == 1 and tokenizer.name(ids[2]) == "<tool>" and len(ids) == 3
    plain = tokenizer.encode("the<|im_end|>", special=False)
    assert 1 not in plain and tokenizer.decode(plain) == "the<|im_end|>"
    assert tokenizer.decode(ids) == "the<tool>"  # control tokens are never text, a user's own are
    assert tokenizer.eos_ids == (1, 0) and tokenizer.eos_text == "<|im_end|>" and tokenizer.bos_text == "<|endoftext|>"
    assert tokenizer.special_ids == {0, 1, tokenizer.size - 1}
    assert tokenizer.chat_template == "{{ x }}"
    assert tokenizer.bytes_of(10**6) == b""


def test_bos():
    tokenizer = build_tokenizer(byte_level(add_bos=True))
    the = tokenizer.encode("the")
    assert tokenizer.encode("the", bos=True) == (0, *the)
    assert tokenizer.encode("<|endoftext|>the", bos=True) == (0, *the)
    assert build_tokenizer(byte_level()).encode("the", bos=True) == the


PIECES = [
    ("<unk>", UNKNOWN, 0.0), ("<s>", CONTROL, 0.0), ("</s>", CONTROL, 0.0),
    *((f"<0x{byte:02X}>", BYTE, 0.0) for byte in range(256)),
    ("▁t", NORMAL, -1.0), ("he", NORMAL, -2.0), ("▁the", NORMAL, -3.0), ("in", NORMAL, -4.0), ("ing", NORMAL, -5.0),
    ("▁", NORMAL, -50.0), *((c, NORMAL, -100.0 - i) for i, c in enumerate("theing")),
]  # fmt: skip


def sentencepiece(**more) -> TokenizerSpec:
    return spec("llama", PIECES, unknown_id=0, bos_id=1, eos_id=2, add_bos=True, **more)


def by_definition(text: str) -> list[str]:
    """SentencePiece's BPE: merge the best-scored neighbours, leftmost first, until none is a piece."""
    scores = {piece: score for piece, kind, score in PIECES if kind == NORMAL}
    parts = list(text.replace(" ", "▁"))
    while True:
        found = [(-scores[a + b], i) for i, (a, b) in enumerate(itertools.pairwise(parts)) if a + b in scores]
        if not found:
            return parts
        at = min(found)[1]
        parts[at : at + 2] = [parts[at] + parts[at + 1]]


@pytest.mark.parametrize("text", ["the thing", " the", "thethe in ing", "eh the hint", "  t  h"])
def test_sentencepiece_merges_by_score(text):
    tokenizer = build_tokenizer(sentencepiece())
    assert [tokenizer.name(id_) for id_ in tokenizer.encode(text)] == by_definition(text)


def test_sentencepiece_merges_by_score_at_random():
    tokenizer = build_tokenizer(sentencepiece())
    rng = random.Random(0)
    for _ in range(300):
        text = "".join(rng.choices("thing e", k=rng.randrange(1, 15)))
        assert [tokenizer.name(id_) for id_ in tokenizer.encode(text)] == by_definition(text)


def test_sentencepiece_bytes_and_prefix():
    tokenizer = build_tokenizer(sentencepiece(add_space_prefix=True))
    assert tokenizer.decode(tokenizer.encode("the é😀")) == " the é😀"
    assert [tokenizer.bytes_of(id_) for id_ in tokenizer.encode("é")] == [b" ", b"\xc3", b"\xa9"]
    assert tokenizer.special_ids == {0, 1, 2}
    assert tokenizer.encode("the", bos=True)[0] == 1


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (spec("bert", [("a", NORMAL, 0.0)]), "bert"),
        (byte_level(pre="alien"), "alien"),
        (dataclasses.replace(byte_level(), merges=("q z",)), "q z"),
        (dataclasses.replace(byte_level(), token_types=(1, 2)), "token types"),
        (dataclasses.replace(byte_level(), eos_id=10**6), "1000000"),
        (dataclasses.replace(sentencepiece(), scores=()), "scores"),
    ],
)
def test_refusals(wrong, said):
    with pytest.raises(TokenizerError, match=said) as caught:
        build_tokenizer(wrong)
    assert "\n" not in str(caught.value)


def as_json(built: TextTokenizer, stored: TokenizerSpec, **more) -> TokenizerSpec:
    """What a Hugging Face folder with the same tokenizer would give."""
    return dataclasses.replace(
        stored, model="huggingface", token_types=(), scores=(), merges=(), json=built.tokenizer.to_str(), **more
    )


@pytest.mark.parametrize("kind", ["byte-level", "sentencepiece"])
def test_a_tokenizer_json_gives_what_the_metadata_gives(kind):
    stored = byte_level() if kind == "byte-level" else sentencepiece()
    built = build_tokenizer(stored)
    again = build_tokenizer(as_json(built, stored))
    for text in ("the the é 12", "<tool>the<|im_end|>", "a  b\n\nabc", "\U0001f642 x", " lead"):
        for special in (True, False):
            assert again.encode(text, special=special) == built.encode(text, special=special)
    same = [i for i in range(built.size) if again.token_bytes[i] != built.token_bytes[i]]
    assert all(stored.token_types[i] in (UNKNOWN, UNUSED) for i in same)
    assert again.eos_ids == built.eos_ids and again.bos_id == built.bos_id
    assert again.byte_level == built.byte_level


def test_every_declared_end_ends():
    stored = byte_level()
    built = build_tokenizer(as_json(build_tokenizer(stored), stored, end_ids=(1, 5)))
    assert set(built.eos_ids) == {0, 1, 5}


@pytest.mark.parametrize(
    "text", ["", "{}", "[1", '{"model": {"type": "WordPiece", "vocab": {"a": 0}, "unk_token": "a"}}']
)
def test_a_tokenizer_json_that_is_of_no_use(text):
    with pytest.raises(TokenizerError) as caught:
        build_tokenizer(dataclasses.replace(byte_level(), json=text))
    assert "\n" not in str(caught.value)


def test_patterns_of_newer_vocabularies():
    """Capitals begin a part, and a slash ends a run of symbols."""
    grouped = {
        pre: [
            text
            for text, _ in build_tokenizer(byte_level(pre=pre)).tokenizer.pre_tokenizer.pre_tokenize_str(
                "HelloWorld it's 1234 x=/\n"
            )
        ]
        for pre in ("gpt-4o", "tekken", "qwen2")
    }
    assert grouped["gpt-4o"] == ["Hello", "World", "Ġit's", "Ġ", "123", "4", "Ġx", "=/Ċ"]
    assert grouped["tekken"] == ["Hello", "World", "Ġit", "'s", "Ġ", "1", "2", "3", "4", "Ġx", "=/Ċ"]
    assert grouped["qwen2"][:3] == ["HelloWorld", "Ġit", "'s"]


def test_markers_of_calls_are_text_in_outputs_and_special_in_prompts():
    entries = [("<|endoftext|>", CONTROL, 0.0), *((c, NORMAL, 0.0) for c in byte_alphabet())]
    entries += [("[TOOL_CALLS]", CONTROL, 0.0), ("<|other|>", CONTROL, 0.0)]
    tokenizer = build_tokenizer(spec("gpt2", entries, (), "smollm", eos_id=0))
    marker = len(entries) - 2
    assert tokenizer.encode("[TOOL_CALLS]") == (marker,)
    assert tokenizer.decode([marker, *tokenizer.encode("x")]) == "[TOOL_CALLS]x"
    assert marker not in tokenizer.encode("[TOOL_CALLS]", special=False)
    # Messages are searched for these names, so that no user writes the token.
    assert tokenizer.special_names == {"<|endoftext|>", "[TOOL_CALLS]", "<|other|>"}
