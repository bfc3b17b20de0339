"""The engines of a server by the names of their models."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence

from ..chat import model_not_found
from ..engine import AsyncEngine
from ..errors import ConfigError


class Registry:
    """Engines by name. A request that names no model is for the first. Raises ConfigError for two of one name."""

    def __init__(self, engines: Sequence[AsyncEngine]) -> None:
        if not engines:
            raise ConfigError("there is no model to serve", key="model", remedy="name at least one")
        self._engines: dict[str, AsyncEngine] = {}
        for engine in engines:
            if engine.model in self._engines:
                raise ConfigError(
                    f"two models have the name {engine.model!r}", key="model", remedy="name them, as NAME=MODEL"
                )
            self._engines[engine.model] = engine

    @property
    def names(self) -> tuple[str, ...]:
        """The models served, the default first."""
        return tuple(self._engines)

    def __iter__(self) -> Iterator[AsyncEngine]:
        return iter(self._engines.values())

    def find(self, name: str | None) -> AsyncEngine:
        """The engine for a request's `model`. Raises ModelNotFoundError."""
        if not name:
            return next(iter(self))
        engine = self._engines.get(name)
        if engine is None:
            raise model_not_found(name, self.names)
        return engine

    async def close(self) -> None:
        """Close every engine."""
        for engine in self:
            await asyncio.to_thread(engine.close)
