"""Keys and values on disk: what memory gives up, or never had room to keep, is read back rather than computed again.

A page is stored under a digest of all tokens up to its end, so that equal beginnings share their pages on disk as they
do in memory. Files belong to one process and one model, and are gone when it ends: a page of another model would look
the same and be nonsense.
"""

from __future__ import annotations

import hashlib
import logging
import queue
import shutil
import tempfile
import threading
import weakref
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from .protocols import KVCache, KVManager

_LOG = logging.getLogger(__name__)
MAX_BYTES = 4 << 30
MAX_UNWRITTEN = 256
"""Pages that wait for the disk; more are not stored, since they would fill the memory that they are to spare."""


class DiskKV:
    """`memory` decides about what is in memory; beside it, sequences that end well are kept on disk.

    Written by a thread of its own. Read in the engine's, which takes a fraction of what computing the same tokens does.
    """

    def __init__(self, memory: KVManager, cache: KVCache, folder: Path | None = None, limit: int = MAX_BYTES) -> None:
        """`folder`: where a temporary folder is made, None for the system's place. `limit`: bytes on disk."""
        self.name = "disk"
        self.page_size = cache.page_size
        self.total_pages = cache.total_pages
        self._memory = memory
        self._cache = cache
        self._store = PageStore(folder, limit)
        self._tokens: dict[int, list[int]] = {}

    def match(self, tokens: Sequence[int], /) -> int:
        """What memory has, or the disk beyond it."""
        held = self._memory.match(tokens)
        if held % self.page_size:
            return held
        return held + sum(1 for _ in self._beyond(tokens, held)) * self.page_size

    def start(self, sequence: int, tokens: Sequence[int], /) -> int:
        """What memory shares, then pages from disk as long as there are free ones to hold them."""
        shared = self._memory.start(sequence, tokens)
        self._tokens[sequence] = list(tokens[:shared])
        # Where memory ends within a page, the disk cannot go on from there.
        found = list(self._beyond(tokens, shared)) if shared % self.page_size == 0 else []
        if found and not self._memory.reserve(len(found)):
            found = found[: self._cache.free_pages]
        for key in found:
            data = self._store.get(key)
            if data is None:
                break
            self._cache.write(sequence, data)
            self.extend(sequence, tokens[shared : shared + self.page_size])
            shared += self.page_size
        return shared

    def extend(self, sequence: int, tokens: Sequence[int], /) -> None:
        """Told to both."""
        self._tokens[sequence].extend(tokens)
        self._memory.extend(sequence, tokens)

    def reserve(self, pages: int, /) -> bool:
        """By memory: what it gives up was stored when it ended."""
        return self._memory.reserve(pages)

    def stop(self, sequence: int, /, *, keep: bool) -> None:
        """What ended well is stored, whole pages of it, before memory may give it up."""
        tokens = self._tokens.pop(sequence)
        if keep:
            for number, key in enumerate(_keys(tokens, self.page_size)):
                start = number * self.page_size
                if key not in self._store and self._store.has_room:
                    self._store.put(key, self._cache.read(sequence, start, start + self.page_size))
        self._memory.stop(sequence, keep=keep)

    def clear(self) -> None:
        """Memory is emptied; what is on disk was sound when it was written."""
        self._tokens.clear()
        self._memory.clear()

    def _beyond(self, tokens: Sequence[int], held: int) -> Iterator[bytes]:
        """Keys of the pages after the first `held` tokens that the disk has in a row; not of the last token's."""
        for number, key in enumerate(_keys(tokens[: max(0, len(tokens) - 1)], self.page_size)):
            if number * self.page_size >= held:
                if key not in self._store:
                    return
                yield key


class PageStore:
    """Pages by key, the least recently used ones given up above `limit` bytes."""

    def __init__(self, folder: Path | None, limit: int) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="slipcast-kv-", dir=folder))
        self._limit = limit
        self._lock = threading.Lock()
        self._sizes: OrderedDict[bytes, int] = OrderedDict()
        self._unwritten: dict[bytes, bytes] = {}
        self._bytes = 0
        self._work: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        threading.Thread(target=_write, args=(weakref.ref(self), self._work), name="slipcast-kv", daemon=True).start()
        # Also when the program ends: the thread is a daemon, and the files are worth nothing to another process.
        weakref.finalize(self, _clean_up, self._work, self._folder)

    @property
    def has_room(self) -> bool:
        """Whether `put` may be called: the disk keeps up."""
        return len(self._unwritten) < MAX_UNWRITTEN

    def __contains__(self, key: bytes) -> bool:
        return key in self._sizes

    def put(self, key: bytes, data: bytes) -> None:
        """Store a page, soon."""
        with self._lock:
            self._sizes[key] = len(data)
            self._unwritten[key] = data
            self._bytes += len(data)
            while self._bytes > self._limit and len(self._sizes) > 1:
                self._forget(next(iter(self._sizes)))
        self._work.put(key)

    def get(self, key: bytes) -> bytes | None:
        """The page; None if it is gone, or cannot be read."""
        with self._lock:
            if key not in self._sizes:
                return None
            self._sizes.move_to_end(key)
            waiting = self._unwritten.get(key)
            size = self._sizes[key]
        if waiting is not None:
            return waiting
        try:
            data = self._path(key).read_bytes()
        except OSError:
            data = b""
        if len(data) == size:
            return data
        with self._lock:
            self._forget(key)
        return None

    def write(self, key: bytes) -> None:
        """Put a waiting page on disk; where that fails it is forgotten."""
        data = self._unwritten.get(key)
        if data is None:
            return
        try:
            self._path(key).write_bytes(data)
        except OSError as error:
            _LOG.warning("a page of the KV cache could not be stored: %s", error)
            with self._lock:
                self._forget(key)
        with self._lock:
            if self._unwritten.get(key) is data:
                del self._unwritten[key]
            if key not in self._sizes:  # forgotten while it was written
                self._path(key).unlink(missing_ok=True)

    def _forget(self, key: bytes) -> None:
        size = self._sizes.pop(key, None)
        if size is not None:
            self._bytes -= size
            self._unwritten.pop(key, None)
            self._path(key).unlink(missing_ok=True)

    def _path(self, key: bytes) -> Path:
        return self._folder / key.hex()


def _clean_up(work: queue.SimpleQueue[bytes | None], folder: Path) -> None:
    work.put(None)
    shutil.rmtree(folder, ignore_errors=True)


def _write(store: weakref.ref[PageStore], work: queue.SimpleQueue[bytes | None]) -> None:
    """The thread of a store, until that is gone."""
    while (key := work.get()) is not None:
        alive = store()
        if alive is not None:
            alive.write(key)
        del alive


def _keys(tokens: Sequence[int], page_size: int) -> Iterator[bytes]:
    """A digest for each whole page of `tokens`, of all tokens up to its end."""
    digest = hashlib.blake2b(digest_size=16)
    for end in range(page_size, len(tokens) + 1, page_size):
        digest.update(np.array(tokens[end - page_size : end], "<i8").tobytes())
        yield digest.copy().digest()
