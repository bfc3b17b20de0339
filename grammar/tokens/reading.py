"""From a `tokenizer.json` (the format of the tokenizers library) to the bytes of each token.

Two families cover what models use: byte-level BPE, which spells each byte with a printable character, and
SentencePiece, which spells the space with U+2581 and, with byte fallback, single bytes as `<0x41>`. Added tokens are
never text: what a special token decodes to must not pass for something that the grammar checked.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from ..errors import VocabularyError

BYTE_TOKEN: Final = re.compile(r"<0x([0-9A-Fa-f]{2})>")
SPACE: Final = "\u2581"
_EOS_NAMES: Final = (
    "<|eot_id|>",
    "<|im_end|>",
    "<end_of_turn>",
    "<|end|>",
    "<|return|>",
    "<|end_of_text|>",
    "<|endoftext|>",
    "<|eom_id|>",
    "</s>",
    "<eos>",
    "[EOS]",
)
"""Names of tokens that end a turn or a text. Every one that a vocabulary has may end a constrained text."""


def read_tokens(description: Mapping[str, Any]) -> list[bytes | None]:
    """The bytes of each id, None for added and unused ones. `description` is the parsed `tokenizer.json`.

    Raises VocabularyError for tokenizers that do not spell bytes (WordPiece and the like).
    """
    try:
        model = description["model"]
        pieces = list(_pieces(model))
        added = {int(token["id"]): str(token["content"]) for token in description.get("added_tokens") or ()}
    except (KeyError, TypeError, ValueError) as error:
        raise VocabularyError(f"tokenizer.json lacks its parts: {error!r}") from error
    size = 1 + max([number for _, number in pieces] + list(added), default=-1)
    tokens: list[bytes | None] = [None] * size
    if uses(description, "ByteLevel"):
        table = _byte_level_table()
        for piece, number in pieces:
            tokens[number] = _byte_level(piece, table)
    elif uses(description, "ByteFallback") or uses(description, "Metaspace") or model.get("byte_fallback"):
        fallback = bool(model.get("byte_fallback")) or uses(description, "ByteFallback")
        for piece, number in pieces:
            tokens[number] = _metaspace(piece, fallback)
        unknown = model.get("unk_id")
        if isinstance(unknown, int):
            tokens[unknown] = None
    else:
        raise VocabularyError(
            f"tokenizer model {model.get('type')!r} is neither byte-level nor SentencePiece with byte fallback or "
            "metaspace; pass the bytes of each token to Vocabulary instead"
        )
    for number in added:
        tokens[number] = None
    return tokens


def read_added(description: Mapping[str, Any]) -> dict[str, int]:
    """Ids of the added tokens by what they are called."""
    return {str(token["content"]): int(token["id"]) for token in description.get("added_tokens") or ()}


def find_eos(description: Mapping[str, Any], folder: Path | None) -> list[int]:
    """Ids that end a text: from the configurations beside `tokenizer.json`, else by the names models give them.

    Raises VocabularyError if there is none.
    """
    ids = read_added(description)
    configured = [] if folder is None else list(_configured_eos(folder, ids))
    found = configured or [ids[name] for name in _EOS_NAMES if name in ids]
    if not found:
        raise VocabularyError("the tokenizer does not say which token ends a text; pass eos_ids=[...]")
    return list(dict.fromkeys(found))


def _configured_eos(folder: Path, ids: Mapping[str, int]) -> Iterator[int]:
    for name, key in (("generation_config.json", "eos_token_id"), ("tokenizer_config.json", "eos_token")):
        try:
            value = json.loads((folder / name).read_text(encoding="utf-8")).get(key)
        except (OSError, ValueError, AttributeError):
            continue
        for item in value if isinstance(value, list) else [value]:
            content = item.get("content") if isinstance(item, dict) else item
            if isinstance(content, int) and not isinstance(content, bool):
                yield content
            elif isinstance(content, str) and content in ids:
                yield ids[content]


def _pieces(model: Mapping[str, Any]) -> Iterable[tuple[str, int]]:
    vocabulary = model["vocab"]
    if isinstance(vocabulary, Mapping):
        return ((str(piece), int(number)) for piece, number in vocabulary.items())
    return ((str(entry[0]), number) for number, entry in enumerate(vocabulary))  # Unigram: [piece, score]


def uses(description: Mapping[str, Any], kind: str) -> bool:
    """Whether a pre-tokenizer or decoder of this type takes part, alone or in a sequence."""

    def found(part: Any) -> bool:
        if not isinstance(part, Mapping):
            return False
        if part.get("type") == kind:
            return True
        inner: Sequence[Any] = part.get("pretokenizers") or part.get("decoders") or ()
        return any(found(item) for item in inner)

    return found(description.get("decoder")) or found(description.get("pre_tokenizer"))


def _byte_level_table() -> dict[int, int]:
    """Code point to byte, the alphabet of byte-level BPE: printable Latin-1 is itself, the rest follows from 256."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in set(printable)]
    return {**{byte: byte for byte in printable}, **{256 + i: byte for i, byte in enumerate(others)}}


def _byte_level(piece: str, table: Mapping[int, int]) -> bytes | None:
    try:
        return bytes([table[ord(character)] for character in piece])
    except KeyError:  # not spelled in the alphabet: no text leads to it
        return None


def _metaspace(piece: str, fallback: bool) -> bytes:
    match = BYTE_TOKEN.fullmatch(piece) if fallback else None
    if match:
        return bytes([int(match[1], 16)])
    return piece.replace(SPACE, " ").encode("utf-8", "surrogatepass")
