"""Shipped plugin: the KV managers "prefix" (shares and keeps prefixes) and "plain" (every sequence on its own)."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

from .hookspecs import hookimpl
from .protocols import KVCache, KVManager

MAX_KEPT = 32


class PlainKV:
    """No sharing, nothing kept."""

    name = "plain"

    def __init__(self, cache: KVCache) -> None:
        self._cache = cache
        self._live: set[int] = set()

    @property
    def page_size(self) -> int:
        """Tokens in a page."""
        return self._cache.page_size

    @property
    def total_pages(self) -> int:
        """Pages in all."""
        return self._cache.total_pages

    def match(self, tokens: Sequence[int], /) -> int:
        """Nothing is shared."""
        return 0

    def start(self, sequence: int, tokens: Sequence[int], /) -> int:
        """Always computes everything."""
        self._cache.add(sequence)
        self._live.add(sequence)
        return 0

    def extend(self, sequence: int, tokens: Sequence[int], /) -> None:
        """Nothing is remembered."""

    def reserve(self, pages: int, /) -> bool:
        """Nothing could be given up."""
        return self._cache.free_pages >= pages

    def stop(self, sequence: int, /, *, keep: bool) -> None:
        """Frees the sequence."""
        self._live.discard(sequence)
        self._cache.remove(sequence)

    def clear(self) -> None:
        """Frees every sequence."""
        live, self._live = self._live, set()
        _remove_all(self._cache, live)


class PrefixKV:
    """Starts a sequence as a fork of the one with the longest common prefix, running or kept since it ended.

    So the choices of one request share its prompt, a conversation's next turn computes only what is new, and requests
    with one system prompt share that. At most `MAX_KEPT` ended sequences are kept, and the least recently used one is
    given up when pages are needed.
    """

    name = "prefix"

    def __init__(self, cache: KVCache) -> None:
        self._cache = cache
        self._tokens: dict[int, list[int]] = {}
        self._kept: OrderedDict[int, None] = OrderedDict()

    @property
    def page_size(self) -> int:
        """Tokens in a page."""
        return self._cache.page_size

    @property
    def total_pages(self) -> int:
        """Pages in all."""
        return self._cache.total_pages

    def match(self, tokens: Sequence[int], /) -> int:
        """Whole pages of the longest common prefix."""
        return self._find(list(tokens))[1]

    def _find(self, wanted: list[int]) -> tuple[int | None, int]:
        parent, shared = None, 0
        for candidate, known in self._tokens.items():
            common = _common(known, wanted, len(wanted) - 1)
            if common > shared:
                parent, shared = candidate, common
        shared -= shared % self.page_size
        return (parent, shared) if shared else (None, 0)

    def start(self, sequence: int, tokens: Sequence[int], /) -> int:
        """Whole pages of the longest common prefix are shared; the last token is always left to compute."""
        wanted = list(tokens)
        parent, shared = self._find(wanted)
        if parent is None:
            self._cache.add(sequence)
            self._tokens[sequence] = []
            return 0
        self._cache.fork(parent, sequence, shared)
        if parent in self._kept:
            self._kept.move_to_end(parent)
        self._tokens[sequence] = wanted[:shared]
        return shared

    def extend(self, sequence: int, tokens: Sequence[int], /) -> None:
        """Remembers what the sequence holds."""
        self._tokens[sequence].extend(tokens)

    def reserve(self, pages: int, /) -> bool:
        """Gives up kept sequences, least recently used first."""
        while self._cache.free_pages < pages:
            if not self._kept:
                return False
            self._drop(next(iter(self._kept)))
        return True

    def stop(self, sequence: int, /, *, keep: bool) -> None:
        """Keeps the sequence where `keep` is set and it fills a page, and drops kept ones that it contains."""
        tokens = self._tokens[sequence]
        if not keep or len(tokens) < self.page_size:
            self._kept[sequence] = None
            self._drop(sequence)
            return
        contained = [
            old for old in self._kept if _common(self._tokens[old], tokens, len(tokens)) == len(self._tokens[old])
        ]
        for old in contained:
            self._drop(old)
        self._kept[sequence] = None
        while len(self._kept) > MAX_KEPT:
            self._drop(next(iter(self._kept)))

    def clear(self) -> None:
        """Frees every sequence, kept ones too."""
        live = set(self._tokens)
        self._tokens.clear()
        self._kept.clear()
        _remove_all(self._cache, live)

    def _drop(self, sequence: int) -> None:
        del self._kept[sequence]
        del self._tokens[sequence]
        self._cache.remove(sequence)


def _common(a: list[int], b: list[int], limit: int) -> int:
    """Length of the common prefix, at most `limit`."""
    end = min(len(a), len(b), limit)
    if a[:end] == b[:end]:
        return end
    return next(i for i in range(end) if a[i] != b[i])


def _remove_all(cache: KVCache, sequences: set[int]) -> None:
    """Remove what the cache still knows: after a fault of the model, it may have lost some on its own."""
    for sequence in sorted(sequences):
        try:
            cache.remove(sequence)
        except Exception:  # each removal may fail by itself; the others must still happen
            continue


@hookimpl(trylast=True)
def slipcast_kv_manager(name: str, cache: KVCache) -> KVManager | None:
    """The managers "prefix" and "plain"."""
    if name == PrefixKV.name:
        return PrefixKV(cache)
    return PlainKV(cache) if name == PlainKV.name else None
