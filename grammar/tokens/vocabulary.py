"""A model's vocabulary as the token level sees it: bytes per id, the ids that end a text, and the byte trie."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

import numpy as np
import numpy.typing as npt

from ..automaton.memory import give_back
from ..automaton.tokencodes import LENGTH, MARK
from ..cache import cache_folder, load_arrays, save_arrays
from ..errors import VocabularyError
from .fewest import Fewest
from .reading import find_eos, read_added, read_tokens
from .trie import BYTE_MASK, END_SHIFT, MAX_DEPTH, PLAIN, Trie, build_trie
from .tries import Tries

if TYPE_CHECKING:
    from tokenizers import Tokenizer

_FORMAT: Final = b"slipcast vocabulary 3"
MAIN: Final = 0
"""The root of the trie over all tokens."""
_TRIE: Final = "trie_"
_STRIPPED: Final = "stripped_"
WHITE: Final = b" \t\n\r"
"""What JSON has for white space."""


class Vocabulary:
    """The tokens of one model, immutable after construction.

    tokens   bytes of each id, None for ids that are never text: special, unused, ends of text, padding
    eos_ids  ids that may end a text once the grammar accepts
    special_ids  ids of added tokens by name, as `<|im_end|>`: what grammars call them
    tokenizer  what the tokens are of, for the option `canonical`; None: not known
    size     number of ids including padding, the width of the model's logits; a mask has `words` 32-bit words
    tries    the byte trie over `tokens`, its root at MAIN; others are added by the token level
    stripped root of the trie over the tokens with at most one leading white-space character, without it
    """

    def __init__(
        self,
        tokens: Sequence[bytes | None],
        eos_ids: Sequence[int],
        size: int | None = None,
        special_ids: Mapping[str, int] | None = None,
        tokenizer: Tokenizer | str | Path | None = None,
    ) -> None:
        """`tokens[i]` is what the id i spells, None if it is not text. `size` pads to the width of the logits.

        Several ids may spell the same bytes. Empty tokens and those above 1,023 bytes are never allowed. `tokenizer`:
        the one whose ids these are, or the path of its `tokenizer.json`, for the option `canonical` of grammars.
        Raises VocabularyError if no token is text, an end is out of range, or `size` is below `len(tokens)`.
        """
        checked = _check(tokens, eos_ids, size)
        self.special_ids = dict(special_ids or {})
        self.tokenizer = tokenizer
        self._setup(checked, tuple(eos_ids), _content_key(checked, eos_ids), _build(checked), _build_stripped(checked))

    @classmethod
    def from_tokenizer(
        cls, source: Tokenizer | str | Path, size: int | None = None, eos_ids: Sequence[int] | None = None
    ) -> Self:
        """Reads a `tokenizers.Tokenizer` or the path of a `tokenizer.json` (or of its folder).

        `size`: width of the model's logits, by default the number of ids. `eos_ids`: by default what
        `generation_config.json` and `tokenizer_config.json` beside the file say, else the customary names.
        Added tokens, special or not, are never text. Raises VocabularyError for a file that cannot be read, a
        tokenizer that does not spell bytes, or an unknown end of text.
        """
        text, folder = tokenizer_text(source)
        description: dict[str, Any] | None = None
        if eos_ids is None:
            description = _parse(text)
            eos_ids = find_eos(description, folder)
        key = hashlib.sha256(b"\0".join([_FORMAT, text, repr((size, list(eos_ids))).encode()])).hexdigest()
        path = cache_folder("vocabulary", f"{key}.npz")
        stored = load_arrays(path)
        restored = None if stored is None else _restore(stored)
        if restored is not None:
            vocabulary = cls.__new__(cls)
            vocabulary.special_ids = restored[3]
            vocabulary.tokenizer = source
            vocabulary._setup(restored[0], tuple(eos_ids), key, restored[1], restored[2])
            del stored, restored
            give_back()
            return vocabulary
        if description is None:
            description = _parse(text)
        vocabulary = cls(read_tokens(description), eos_ids, size, read_added(description), source)
        save_arrays(path, _store(vocabulary))
        return vocabulary

    def _setup(
        self, tokens: tuple[bytes | None, ...], eos_ids: tuple[int, ...], key: str, trie: Trie, stripped: Trie
    ) -> None:
        self.tokens = tokens
        self.eos_ids = eos_ids
        self.size = len(tokens)
        self.words = (self.size + 31) // 32
        self.key = key
        self.tries = Tries()
        self.tries.add(trie)
        self.node_count = self.tries.node_count
        added = self.tries.add(stripped)
        if added is None:
            raise VocabularyError(f"the vocabulary is too large: {self.node_count} nodes in its trie")
        self.stripped = added
        self._stripped_nodes = self.tries.node_count - added
        del trie, stripped
        give_back()

    def __len__(self) -> int:
        return self.size

    def __repr__(self) -> str:
        return f"Vocabulary(size={self.size}, eos_ids={list(self.eos_ids)})"

    @cached_property
    def single_bytes(self) -> frozenset[int]:
        """The bytes that are tokens: a text of these takes at most as many tokens as it has bytes."""
        return frozenset(token[0] for token in self.tokens if token is not None and len(token) == 1)

    @cached_property
    def plain_characters(self) -> bytes:
        """How many characters each token has that consists of such as stand for themselves in a JSON string; else, and
        above 255, 0.
        """
        tries, count = self.tries, self.node_count
        node = np.repeat(np.arange(count), np.diff(tries.first[: count + 1]))
        order, lengths, words = tries.order[: len(node)], tries.lengths[: len(node)], tries.nodes[node]
        plain = (words & PLAIN != 0) & (lengths < 256)
        for place in np.flatnonzero(plain & (words & 0x80 != 0)).tolist():
            try:
                (self.tokens[order[place]] or b"").decode()
            except UnicodeDecodeError:  # its last character is not complete
                plain[place] = False
        found = np.zeros(self.size, np.uint8)
        found[order[plain]] = lengths[plain]
        return found.tobytes()

    def continued(self, data: bytes) -> bool:
        """Whether some token begins with `data` and goes on."""
        tries = self.tries
        node = int(tries.roots[MAIN][data[0]]) if data else 0
        for byte in data[1:]:
            node = _child(tries.nodes, node, byte) if node else 0
        return bool(node) and int(tries.nodes[node]) >> END_SHIFT > node + 1

    def length(self, token: int, data: bytes) -> int:
        """How many bytes of `data`, which begins with it, a token takes: four where it is taken as such."""
        return LENGTH if data[:1] == MARK else len(self.tokens[token] or b"")

    def tokenize(self, data: bytes) -> list[int] | None:
        """The fewest tokens that spell `data`, not the tokenizer's own choice; None if no tokens do.

        Tokens that are taken as such stand in it as `tokencodes` spells them.
        """
        found = Fewest(data, self).tokens(0)
        return None if found is None else list(found)

    def first_tokens(self, data: bytes, start: int, end: int) -> Iterator[tuple[int, int]]:
        """Tokens that `data` goes on with from `start` and that end by `end`, each with where: one for each end."""
        return ((tokens[0], position) for tokens, position in self._beginning(data, start, end))

    def beginning(self, data: bytes, start: int) -> list[tuple[int, int]]:
        """The tokens that `data` goes on with from `start`, each with where it ends there."""
        return [(token, end) for tokens, end in self._beginning(data, start, len(data)) for token in tokens]

    def _beginning(self, data: bytes, start: int, end: int) -> Iterator[tuple[list[int], int]]:
        tries = self.tries
        nodes, first = tries.nodes, tries.first
        node = int(tries.roots[MAIN][data[start]])
        position = start + 1
        while node:
            if first[node] < first[node + 1]:
                yield tries.order[first[node] : first[node + 1]].tolist(), position
            if position == end:
                break
            node = _child(nodes, node, data[position])
            position += 1


def _child(nodes: npt.NDArray[np.int64], node: int, byte: int) -> int:
    child, end = node + 1, int(nodes[node]) >> END_SHIFT
    while child < end:
        word = int(nodes[child])
        if word & BYTE_MASK == byte:
            return child
        child = word >> END_SHIFT
    return 0


def _check(tokens: Sequence[bytes | None], eos_ids: Sequence[int], size: int | None) -> tuple[bytes | None, ...]:
    count = len(tokens) if size is None else size
    if count < len(tokens):
        raise VocabularyError(f"size {count} is below the number of tokens, {len(tokens)}")
    ends = frozenset(eos_ids)
    if not ends:
        raise VocabularyError("eos_ids is empty: without a token that ends a text no text can end")
    for end in ends:
        if isinstance(end, bool) or not isinstance(end, int) or not 0 <= end < count:
            raise VocabularyError(f"eos id {end!r} is not an id below the size {count}")
    for number, token in enumerate(tokens):
        if token is not None and not isinstance(token, bytes):
            raise VocabularyError(f"token {number} is {type(token).__name__}, not bytes or None")
    usable = tuple(
        token if token and len(token) <= MAX_DEPTH and number not in ends else None
        for number, token in enumerate(tokens)
    )
    if not any(usable):
        raise VocabularyError("no token of the vocabulary is text")
    return usable + (None,) * (count - len(tokens))


def _content_key(tokens: Iterable[bytes | None], eos_ids: Sequence[int]) -> str:
    digest = hashlib.sha256(_FORMAT)
    digest.update(repr(sorted(eos_ids)).encode())
    digest.update(_lengths(tokens).tobytes())
    digest.update(b"".join([token for token in tokens if token]))
    return digest.hexdigest()


def _lengths(tokens: Iterable[bytes | None]) -> npt.NDArray[np.int32]:
    return np.array([-1 if token is None else len(token) for token in tokens], np.int32)


def _build(tokens: Sequence[bytes | None]) -> Trie:
    ids = [number for number, token in enumerate(tokens) if token]
    return build_trie([token for token in tokens if token], ids)


def split_white(token: bytes) -> tuple[int, bytes]:
    """How many white-space characters a token begins with, and the rest."""
    rest = token.lstrip(WHITE)
    return len(token) - len(rest), rest


def _build_stripped(tokens: Sequence[bytes | None]) -> Trie:
    rests: list[bytes] = []
    ids: list[int] = []
    for number, token in enumerate(tokens):
        if token:
            if token[0] in WHITE:
                length, token = split_white(token)
                if length > 1:
                    continue
            rests.append(token)
            ids.append(number)
    return build_trie(rests, ids)


def _store(vocabulary: Vocabulary) -> dict[str, npt.NDArray[Any]]:
    text = np.frombuffer(b"".join([token for token in vocabulary.tokens if token]), np.uint8)
    arrays: dict[str, npt.NDArray[Any]] = {"text": text, "token_lengths": _lengths(vocabulary.tokens)}
    arrays["special"] = np.frombuffer(json.dumps(vocabulary.special_ids).encode(), np.uint8)
    tries = vocabulary.tries
    main = tries.trie(MAIN, vocabulary.node_count)
    for prefix, trie in ((_TRIE, main), (_STRIPPED, tries.trie(vocabulary.stripped, vocabulary._stripped_nodes))):
        arrays |= {prefix + name: array for name, array in trie.arrays().items()}
    return arrays


def _restore(stored: dict[str, npt.NDArray[Any]]) -> tuple[tuple[bytes | None, ...], Trie, Trie, dict[str, int]] | None:
    try:
        text, lengths = stored["text"].tobytes(), stored["token_lengths"]
        special = json.loads(stored["special"].tobytes())
        tries = [
            Trie(**{name: stored[prefix + name] for name in Trie.__dataclass_fields__}) for prefix in (_TRIE, _STRIPPED)
        ]
    except KeyError:  # written by something else
        return None
    ends = np.cumsum(np.maximum(lengths, 0))
    tokens = tuple(
        None if length < 0 else text[end - length : end]
        for length, end in zip(lengths.tolist(), ends.tolist(), strict=True)
    )
    return tokens, tries[0], tries[1], special


def tokenizer_text(source: Tokenizer | str | Path) -> tuple[bytes, Path | None]:
    """A `tokenizer.json` as it is written, and the folder that it lies in. Raises VocabularyError."""
    if not isinstance(source, str | Path):
        return source.to_str().encode("utf-8"), None
    path = Path(source)
    if path.is_dir():
        path = path / "tokenizer.json"
    try:
        return path.read_bytes(), path.parent
    except OSError as error:
        raise VocabularyError(f"cannot read the tokenizer {path}: {error.strerror}") from error


def _parse(text: bytes) -> dict[str, Any]:
    try:
        description = json.loads(text)
    except ValueError as error:
        raise VocabularyError(f"tokenizer.json is not JSON: {error}") from error
    if not isinstance(description, dict):
        raise VocabularyError("tokenizer.json does not hold an object")
    return description
