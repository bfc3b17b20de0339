"""A KV cache without pages, to ask plugins for schedulers and KV managers before there is a model."""

from __future__ import annotations


class NoCache:
    """Serves as a KVCache that holds nothing and has room for nothing."""

    page_size = 16
    total_pages = 0
    free_pages = 0
    sequences: tuple[int, ...] = ()

    def add(self, sequence: int, /) -> None:
        """Nothing is held."""

    def remove(self, sequence: int, /) -> None:
        """Nothing is held."""

    def fork(self, parent: int, child: int, /, position: int = -1) -> None:
        """Nothing is held."""

    def truncate(self, sequence: int, count: int, /) -> None:
        """Nothing is held."""

    def length(self, sequence: int, /) -> int:
        """Nothing."""
        return 0

    def read(self, sequence: int, start: int, stop: int, /) -> bytes:
        """Nothing."""
        return b""

    def write(self, sequence: int, data: bytes, /) -> None:
        """Nothing is held."""
