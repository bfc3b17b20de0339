"""Tokenizers from a model file's metadata, for the `tokenizers` library.

GGUF names two kinds: "gpt2", byte-level BPE with ranked merges and a pre-tokenizer chosen by `tokenizer.ggml.pre`, and
"llama", SentencePiece's BPE, where a pair merges into a piece if the vocabulary has it, best score first. Hugging Face
folders, and files made from them, have the whole of it as a `tokenizer.json`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Final

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers

from ..grammar import GrammarError
from ..grammar.tokens.reading import read_tokens
from .errors import TokenizerError

if TYPE_CHECKING:
    from .runtime.config import TokenizerSpec

_UNKNOWN, _CONTROL, _USER, _UNUSED, _BYTE = 2, 3, 4, 5, 6
_SPACE: Final = "\u2581"
# Control tokens that end a turn or a text by custom, though a file declares only one of them as its end.
_END_NAMES: Final = frozenset({
    "<|im_end|>", "<|endoftext|>", "<|end_of_text|>", "<|eot_id|>", "<|eom_id|>", "<end_of_turn>", "<|end|>", "</s>",
})  # fmt: skip

# Control tokens with which models write calls of tools. In an output they are text, since that is how calls are read
# (plugins/shipped_tools.py); in messages they are special like the others.
_CALL_MARKERS: Final = frozenset({
    "[TOOL_CALLS]", "[ARGS]", "<tool_call>", "</tool_call>", "<|tool_call|>", "<|/tool_call|>",
    "<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>", "<｜tool▁call▁begin｜>", "<｜tool▁call▁end｜>", "<｜tool▁sep｜>",  # noqa: RUF001
})  # fmt: skip

# The published regular expressions of each family, which cut text into the parts that merges stay within.
_GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
_LLAMA3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
_QWEN2 = _LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")
_LOWER, _UPPER = r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]", r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]"
_CASED = (
    rf"[^\r\n\p{{L}}\p{{N}}]?{_UPPER}*{_LOWER}+ENDING|[^\r\n\p{{L}}\p{{N}}]?{_UPPER}+{_LOWER}*ENDING|NUMBER"
    r"| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
_GPT4O = _CASED.replace("ENDING", r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?").replace("NUMBER", r"\p{N}{1,3}")
_TEKKEN = _CASED.replace("ENDING", "").replace("NUMBER", r"\p{N}")
_PATTERNS: Final[Mapping[str, str]] = {
    "default": _GPT2, "gpt-2": _GPT2, "gpt2": _GPT2, "phi-2": _GPT2, "mpt": _GPT2, "olmo": _GPT2, "jais": _GPT2,
    "llama-bpe": _LLAMA3, "llama3": _LLAMA3, "llama-v3": _LLAMA3, "dbrx": _LLAMA3, "smaug-bpe": _LLAMA3,
    "qwen2": _QWEN2, "stablelm2": _QWEN2, "gpt-4o": _GPT4O, "tekken": _TEKKEN,
}  # fmt: skip
# The bytes that occur in UTF-8 (RFC 3629, section 4).
_UTF8_BYTES: Final = (*range(0xC0), *range(0xC2, 0xF5))
_DIGITS_FIRST: Final = frozenset({"smollm", "starcoder", "refact", "command-r", "codeshell", "exaone"})


class TextTokenizer:
    """Text to token ids and back, with what the engine must know of the special ones.

    `size`: number of ids. `bos_id`, `eos_ids`: the beginning's id, and every id that ends an output. `special_ids`: ids
    that are never text. `chat_template`: Jinja2 source, or None.
    """

    def __init__(
        self,
        tokenizer: Tokenizer,
        token_bytes: Sequence[bytes | None],
        *,
        bos_id: int | None,
        eos_ids: Sequence[int],
        add_bos: bool = False,
        chat_template: str | None = None,
        byte_level: bool = False,
    ) -> None:
        """`token_bytes[i]`: what id i spells, None for an id that is never text. `byte_level`: bytes are what it knows,
        so of unknown text single bytes vanish, and nothing more.
        """
        self.tokenizer = tokenizer
        self.token_bytes = tuple(token_bytes)
        self.size = len(self.token_bytes)
        self.bos_id = bos_id
        self.eos_ids = tuple(eos_ids)
        self.add_bos = add_bos and bos_id is not None
        self.chat_template = chat_template
        self.byte_level = byte_level
        self.special_ids = frozenset(id_ for id_, data in enumerate(self.token_bytes) if data is None)

    @property
    def bos_text(self) -> str:
        """The name of the token that begins a text, "" if there is none."""
        return "" if self.bos_id is None else self.name(self.bos_id)

    @property
    def eos_text(self) -> str:
        """The name of the token that ends a text, "" if there is none."""
        return self.name(self.eos_ids[0]) if self.eos_ids else ""

    def name(self, token: int) -> str:
        """The token as the vocabulary spells it."""
        return self.tokenizer.id_to_token(token) or ""

    def encode(self, text: str, *, special: bool = True, bos: bool = False) -> tuple[int, ...]:
        """Token ids. With `special`, names of special tokens in the text become those tokens; without, they stay text.

        `bos` puts the beginning's token in front where the model wants one and the text does not begin with it.
        """
        source = self.tokenizer if special or not self._may_hold_special(text) else self._plain
        ids = tuple(source.encode(text, add_special_tokens=False).ids)
        if bos and self.add_bos and self.bos_id is not None and ids[:1] != (self.bos_id,):
            return (self.bos_id, *ids)
        return ids

    def bytes_of(self, token: int) -> bytes:
        """What a token spells; nothing for special ids and ids beyond the vocabulary."""
        return (self.token_bytes[token] or b"") if 0 <= token < self.size else b""

    def decode(self, tokens: Iterable[int]) -> str:
        """The text of tokens, special ones left out; U+FFFD where bytes are not whole characters."""
        return b"".join(map(self.bytes_of, tokens)).decode("utf-8", "replace")

    @cached_property
    def special_names(self) -> frozenset[str]:
        """Names of the special tokens, which `encode` finds in a text."""
        markers = {name for name in _CALL_MARKERS if self.tokenizer.token_to_id(name) is not None}
        return frozenset(name for name in map(self.name, self.special_ids) if name) | markers

    def least_tokens(self, text: str) -> int:
        """At least so many tokens has the text, found without tokenizing it; 0 where nothing is known."""
        data = text.encode()
        if self.byte_level:
            data = data.translate(None, self._missing)
        elif self._missing:
            return 0
        return -(-len(data) // self._longest)

    @cached_property
    def _missing(self) -> bytes:
        """Bytes of UTF-8 that no token of their own spells."""
        spelled = set(self.token_bytes)
        return bytes(byte for byte in _UTF8_BYTES if bytes([byte]) not in spelled)

    @cached_property
    def _longest(self) -> int:
        """The most bytes of text that one token stands for."""
        names = (name.encode() for name in self.special_names)
        return max(map(len, (*filter(None, self.token_bytes), *names)), default=1)

    def _may_hold_special(self, text: str) -> bool:
        return self._are_normalized or any(name in text for name in self._added_special)

    @cached_property
    def _added_special(self) -> tuple[str, ...]:
        added = self.tokenizer.get_added_tokens_decoder().values()
        return tuple(token.content for token in added if token.special)

    @cached_property
    def _are_normalized(self) -> bool:
        """Whether special tokens are found in what a normalizer makes of the text, not in the text as it is."""
        added = self.tokenizer.get_added_tokens_decoder().values()
        return any(token.special and token.normalized for token in added)

    @cached_property
    def _plain(self) -> Tokenizer:
        plain = Tokenizer.from_str(self.tokenizer.to_str())
        plain.encode_special_tokens = True
        return plain


def build_tokenizer(spec: TokenizerSpec) -> TextTokenizer:
    """Raises TokenizerError for an unknown kind or pre-tokenizer, or a vocabulary that contradicts itself."""
    if spec.json is not None:
        return _from_json(spec, spec.json)
    if len(spec.token_types) not in (0, len(spec.tokens)):
        raise TokenizerError(f"the model file has {len(spec.tokens)} tokens and {len(spec.token_types)} token types")
    types = spec.token_types or (1,) * len(spec.tokens)
    spell: Callable[[str, int], bytes | None]
    if spec.model == "gpt2":
        tokenizer, spell = _byte_level(spec), _spell_byte_level
    elif spec.model == "llama":
        tokenizer, spell = _sentencepiece(spec, types), _spell_sentencepiece
    else:
        raise TokenizerError(
            f"the tokenizer kind {spec.model!r} is not supported", remedy="use a model with a gpt2 or llama tokenizer"
        )
    added = [
        AddedToken(text, special=kind == _CONTROL, normalized=False)
        for text, kind in zip(spec.tokens, types, strict=True)
        if kind in (_CONTROL, _USER)
    ]
    tokenizer.add_special_tokens([token for token in added if token.special])
    tokenizer.add_tokens([token for token in added if not token.special])
    token_bytes = [_bytes(text, kind, spell) for text, kind in zip(spec.tokens, types, strict=True)]
    return _finished(spec, tokenizer, token_bytes, types, byte_level=spec.model == "gpt2")


def _from_json(spec: TokenizerSpec, text: str) -> TextTokenizer:
    """A tokenizer.json is all there is to know, but for what added tokens that are not special spell: themselves."""
    try:
        tokenizer = Tokenizer.from_str(text)
        description = json.loads(text)
        token_bytes = read_tokens(description)
    except GrammarError as error:
        raise TokenizerError(str(error), remedy="use a model with byte-level or SentencePiece BPE") from error
    except Exception as error:  # the library's errors are plain exceptions
        raise TokenizerError(f"the model's tokenizer.json cannot be used: {error}") from error
    byte_level = tokenizer.decoder is not None and "ByteLevel" in json.dumps(description.get("decoder"))
    types = [1] * len(token_bytes)
    for added in description.get("added_tokens") or ():
        id_, content = int(added["id"]), str(added["content"])
        types[id_] = _CONTROL if added.get("special") else _USER
        if not added.get("special"):
            token_bytes[id_] = (content if byte_level else content.replace(_SPACE, " ")).encode()
    return _finished(spec, tokenizer, token_bytes, types, byte_level=byte_level)


def _finished(
    spec: TokenizerSpec, tokenizer: Tokenizer, token_bytes: Sequence[bytes | None], types: Sequence[int], *,
    byte_level: bool,
) -> TextTokenizer:  # fmt: skip
    return TextTokenizer(
        tokenizer,
        token_bytes,
        bos_id=spec.bos_id,
        eos_ids=_ends(spec, types),
        add_bos=spec.add_bos,
        chat_template=spec.chat_template,
        byte_level=byte_level,
    )


def _ends(spec: TokenizerSpec, types: Sequence[int]) -> tuple[int, ...]:
    declared = [*([] if spec.eos_id is None else [spec.eos_id]), *spec.end_ids]
    if any(not 0 <= id_ < len(spec.tokens) for id_ in declared):
        raise TokenizerError(f"the model file's end tokens are {declared}, of {len(spec.tokens)} tokens")
    custom = [
        id_
        for id_, (text, kind) in enumerate(zip(spec.tokens, types, strict=False))
        if kind == _CONTROL and text in _END_NAMES
    ]
    return tuple(dict.fromkeys(declared + custom))


def _bytes(text: str, kind: int, spell: Callable[[str, int], bytes | None]) -> bytes | None:
    if text in _CALL_MARKERS and kind == _CONTROL:
        return text.encode()
    if kind in (_CONTROL, _UNKNOWN, _UNUSED):
        return None
    if kind == _USER:
        return text.encode()
    return spell(text, kind)


def _alphabet() -> dict[str, int]:
    """Byte-level BPE's characters: printable Latin-1 bytes are themselves, the others follow from U+0100."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    table = {chr(byte): byte for byte in printable}
    rest = (byte for byte in range(256) if chr(byte) not in table)
    return table | {chr(0x100 + i): byte for i, byte in enumerate(rest)}


_BYTES_OF: Final = _alphabet()


def _spell_byte_level(text: str, kind: int) -> bytes | None:
    try:
        return bytes(_BYTES_OF[character] for character in text)
    except KeyError:  # outside the alphabet: no text can produce it
        return None


def _spell_sentencepiece(text: str, kind: int) -> bytes | None:
    if kind == _BYTE and len(text) == 6:
        return bytes([int(text[3:5], 16)])
    return text.replace(_SPACE, " ").encode("utf-8", "surrogatepass")


def _ids(tokens: Sequence[str]) -> dict[str, int]:
    ids: dict[str, int] = {}
    for id_, text in enumerate(tokens):
        # Padding is at times spelled alike many times over; the first of equal spellings is the one that text gets.
        ids.setdefault(text, id_)
    return ids


def _byte_level(spec: TokenizerSpec) -> Tokenizer:
    ids = _ids(spec.tokens)
    merges = [_pair(merge, ids) for merge in spec.merges]
    tokenizer = Tokenizer(models.BPE(vocab=ids, merges=merges, ignore_merges=spec.pre in ("llama-bpe", "llama3")))
    tokenizer.pre_tokenizer = _pre_tokenizer(spec.pre)
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer


def _pair(merge: str, ids: Mapping[str, int]) -> tuple[str, str]:
    left, space, right = merge.partition(" ")
    if not space or left not in ids or right not in ids or left + right not in ids:
        raise TokenizerError(f"the model file's merge {merge!r} is not of two tokens that make a third")
    return left, right


def _pre_tokenizer(name: str | None) -> pre_tokenizers.PreTokenizer:
    if name in _DIGITS_FIRST:
        return pre_tokenizers.Sequence(
            [
                pre_tokenizers.Digits(individual_digits=True),
                pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True),
            ]
        )
    pattern = _PATTERNS.get(name or "default")
    if pattern is None:
        known = ", ".join(sorted({*_PATTERNS, *_DIGITS_FIRST}))
        raise TokenizerError(f"the pre-tokenizer {name!r} is not supported", remedy=f"known: {known}")
    return pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(pattern), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )


def _sentencepiece(spec: TokenizerSpec, types: Sequence[int]) -> Tokenizer:
    if len(spec.scores) != len(spec.tokens):
        raise TokenizerError(f"the model file has {len(spec.tokens)} tokens and {len(spec.scores)} scores")
    ids = _ids(spec.tokens)
    unknown = None if spec.unknown_id is None else spec.tokens[spec.unknown_id]
    model = models.BPE(
        vocab=ids,
        merges=_merges_by_score(spec, types, ids),
        unk_token=unknown,
        fuse_unk=True,
        byte_fallback=any(kind == _BYTE for kind in types),
    )
    tokenizer = Tokenizer(model)
    prefix = [normalizers.Prepend(_SPACE)] if spec.add_space_prefix else []
    tokenizer.normalizer = normalizers.Sequence([*prefix, normalizers.Replace(" ", _SPACE)])
    tokenizer.decoder = decoders.Sequence([
        decoders.Replace(_SPACE, " "), decoders.ByteFallback(), decoders.Fuse(),
    ])  # fmt: skip
    return tokenizer


def _merges_by_score(spec: TokenizerSpec, types: Sequence[int], ids: Mapping[str, int]) -> list[tuple[str, str]]:
    """SentencePiece merges any neighbours whose union is a piece, best score first: the same as ranked merges.

    Of one piece's splits, the one of the better-scored halves ranks first, so that equal ranks are settled alike
    everywhere.
    """
    merges: list[tuple[float, int, int, tuple[str, str]]] = []
    known = ids.get
    for id_, (text, kind, score) in enumerate(zip(spec.tokens, types, spec.scores, strict=True)):
        if kind not in (1, _USER) or ids[text] != id_:
            continue
        for cut in range(1, len(text)):
            left = known(text[:cut])
            if left is not None and (right := known(text[cut:])) is not None:
                merges.append((-score, left, right, (text[:cut], text[cut:])))
    merges.sort(key=lambda entry: entry[:3])
    return [pair for *_, pair in merges]
