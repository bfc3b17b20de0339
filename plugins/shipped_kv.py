"""Shipped plugin: the KV managers "prefix" (shares and keeps prefixes) and "plain" (every sequence on its own)."""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heappop, heappush, heapreplace
from itertools import islice
from pathlib import Path

from .hookspecs import hookimpl
from .offload import DiskKV
from .protocols import KVCache, KVManager

_WORTH = 4
"""Tokens of a page that must be shared for a copy of the page to be cheaper than computing them."""
_LOOKED_AT = 64


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


class _Page:
    """A node of the tree: sixteen tokens, or whatever a page has, after those of its parents.

    `holders`: the sequences whose own tokens these are, so that each has them in a page of the cache. `kept`: the one
    among them that is over and ends here. `used`: when the node was last of use.
    """

    __slots__ = ("children", "holders", "kept", "parent", "tokens", "used")

    def __init__(self, parent: _Page | None, tokens: tuple[int, ...]) -> None:
        self.parent = parent
        self.tokens = tokens
        self.children: dict[tuple[int, ...], _Page] = {}
        self.holders: dict[int, None] = {}
        self.kept: int | None = None
        self.used = 0


class PrefixKV:
    """Shares prefixes: a radix tree over pages holds what running sequences have computed and what ended ones left.

    So the choices of one request share its prompt, a conversation's next turn computes only what is new, and requests
    with one system prompt share that. What nobody runs is given up when pages are needed, page by page, from the leaves
    and the least recently used first (as in SGLang's RadixAttention, Zheng et al. 2023). Reference counts of pages are
    the cache's own.
    """

    name = "prefix"

    def __init__(self, cache: KVCache) -> None:
        self._cache = cache
        self._root = _Page(None, ())
        self._paths: dict[int, list[_Page]] = {}
        self._tails: dict[int, list[int]] = {}  # of running sequences: tokens after their last whole page
        self._leaves: list[tuple[int, int]] = []  # a heap of (used, kept sequence); entries may be out of date
        self._clock = 0

    @property
    def page_size(self) -> int:
        """Tokens in a page."""
        return self._cache.page_size

    @property
    def total_pages(self) -> int:
        """Pages in all."""
        return self._cache.total_pages

    def match(self, tokens: Sequence[int], /) -> int:
        """Tokens of the longest common prefix, the last one excepted; in a page that differs later only a good few."""
        path, _, inside = self._find(tokens)
        return len(path) * self.page_size + inside

    def start(self, sequence: int, tokens: Sequence[int], /) -> int:
        """Forks what `match` finds."""
        path, donor, inside = self._find(tokens)
        shared = len(path) * self.page_size + inside
        if donor is None:
            self._cache.add(sequence)
        else:
            self._cache.fork(donor, sequence, shared)
        self._tails[sequence] = list(tokens[shared - inside : shared])
        self._paths[sequence] = path
        for page in path:
            page.holders[sequence] = None
        self._use(path)
        return shared

    def extend(self, sequence: int, tokens: Sequence[int], /) -> None:
        """Remembers what the sequence holds."""
        tail, path, size = self._tails[sequence], self._paths[sequence], self.page_size
        tail += tokens
        whole = len(tail) // size * size
        for at in range(0, whole, size):
            parent = path[-1] if path else self._root
            key = tuple(tail[at : at + size])
            page = parent.children.get(key)
            if page is None:
                page = parent.children[key] = _Page(parent, key)
            page.holders[sequence] = None
            path.append(page)
        del tail[:whole]

    def reserve(self, pages: int, /) -> bool:
        """Gives up what ended sequences left, as far as it must."""
        while self._cache.free_pages < pages:
            sequence = self._oldest()
            if sequence is None:
                return False
            self._shorten(sequence)
        return True

    def stop(self, sequence: int, /, *, keep: bool) -> None:
        """Keeps whole pages where `keep` is set and no other sequence has all of them."""
        del self._tails[sequence]
        path = self._paths[sequence]
        if not keep or not path or len(path[-1].holders) > 1:
            self._drop(sequence)
            return
        excess = self._cache.length(sequence) - len(path) * self.page_size
        if excess:
            self._cache.truncate(sequence, excess)
        for page in path:
            if page.kept is not None:
                self._drop(page.kept)  # all of it is in this one too
        self._use(path)
        self._keep(sequence)

    def clear(self) -> None:
        """Frees every sequence, kept ones too."""
        sequences = set(self._paths)
        self._root = _Page(None, ())
        self._paths.clear()
        self._tails.clear()
        self._leaves.clear()
        _remove_all(self._cache, sequences)

    def _find(self, tokens: Sequence[int]) -> tuple[list[_Page], int | None, int]:
        """The nodes whose tokens come first in `tokens`, a sequence that holds them, and how many tokens more it has.

        At least one of `tokens` is left out.
        """
        size, limit = self.page_size, len(tokens) - 1
        path: list[_Page] = []
        at = self._root
        while (len(path) + 1) * size <= limit:
            start = len(path) * size
            page = at.children.get(tuple(tokens[start : start + size]))
            if page is None:
                break
            path.append(page)
            at = page
        donor, inside = self._next_page(at, tokens[len(path) * size : min((len(path) + 1) * size, limit)])
        if donor is None:
            donor = next(iter(path[-1].holders)) if path else None
        return path, donor, inside

    def _next_page(self, at: _Page, rest: Sequence[int]) -> tuple[int | None, int]:
        """A sequence through `at` that has the most of `rest` next, and how much; None where that is not worth a page.

        The cache copies the page, since both sequences write in it.
        """
        best, donor = _WORTH - 1, None
        if len(rest) <= best or self._cache.free_pages < 1:
            return None, 0
        for page in islice(at.children.values(), _LOOKED_AT):
            common = _common(page.tokens, rest)
            if common > best:
                best, donor = common, next(iter(page.holders))
        for sequence, tail in self._tails.items():
            path = self._paths[sequence]
            if (path[-1] if path else self._root) is at:
                common = _common(tail, rest)
                if common > best:
                    best, donor = common, sequence
        return (donor, best) if donor is not None else (None, 0)

    def _use(self, path: Sequence[_Page]) -> None:
        self._clock += 1
        for page in path:
            page.used = self._clock

    def _keep(self, sequence: int) -> None:
        """The sequence, which is over, serves as a leaf of the tree."""
        end = self._paths[sequence][-1]
        end.kept = sequence
        heappush(self._leaves, (end.used, sequence))

    def _oldest(self) -> int | None:
        """The kept sequence whose leaf was used least recently."""
        while self._leaves:
            used, sequence = self._leaves[0]
            path = self._paths.get(sequence)
            if path is None or path[-1].kept != sequence:
                heappop(self._leaves)
            elif path[-1].used != used:
                heapreplace(self._leaves, (path[-1].used, sequence))
            else:
                return sequence
        return None

    def _shorten(self, sequence: int) -> None:
        """Give up the last page of a kept sequence, or all of it where others hold the page as well."""
        path = self._paths[sequence]
        end = path[-1]
        if len(end.holders) > 1 or len(path) == 1:
            self._drop(sequence)
            return
        self._cache.truncate(sequence, self.page_size)
        path.pop()
        self._leave(end, sequence)
        if len(path[-1].holders) > 1:
            self._drop(sequence)
        else:
            self._keep(sequence)

    def _drop(self, sequence: int) -> None:
        for page in reversed(self._paths.pop(sequence)):
            self._leave(page, sequence)
        self._cache.remove(sequence)

    def _leave(self, page: _Page, sequence: int) -> None:
        del page.holders[sequence]
        if page.kept == sequence:
            page.kept = None
        if not page.holders and page.parent is not None:
            del page.parent.children[page.tokens]


def _common(a: Sequence[int], b: Sequence[int]) -> int:
    """Length of the common prefix."""
    return next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))


def _remove_all(cache: KVCache, sequences: set[int]) -> None:
    """Remove what the cache still knows: after a fault of the model, it may have lost some on its own."""
    for sequence in sorted(sequences):
        try:
            cache.remove(sequence)
        except Exception:  # each removal may fail by itself; the others must still happen
            continue


@hookimpl(trylast=True)
def slipcast_kv_manager(name: str, cache: KVCache) -> KVManager | None:
    """The managers "prefix" and "plain", and "disk", or "disk:FOLDER", which adds the disk to "prefix"."""
    if name == PrefixKV.name:
        return PrefixKV(cache)
    kind, _, folder = name.partition(":")
    if kind == "disk":
        return DiskKV(PrefixKV(cache), cache, Path(folder) if folder else None)
    return PlainKV(cache) if name == PlainKV.name else None
