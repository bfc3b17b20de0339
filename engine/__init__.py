"""The engine: a model, its scheduler and its API.

    from slipcast.engine import Engine, AsyncEngine

    with Engine(model="smollm2-135m-instruct") as engine:
        answer = engine.chat.completions.create(messages=[{"role": "user", "content": "Hello"}])

The names are imported when they are first used (PEP 562): opening an engine brings in the compiled runtime, which takes
over a second, and neither `slipcast --help` nor a program that only catches errors should wait for it.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from .errors import (
    BusyError,
    ClosedError,
    CompileError,
    ConfigError,
    ContextLengthError,
    DownloadError,
    EngineError,
    GrammarFault,
    ModelError,
    ModelFault,
    ModelFileError,
    PagesExhaustedError,
    PluginFault,
    RequestError,
    RequestFault,
    StepError,
    TokenizerError,
    UnsupportedModelError,
)

if TYPE_CHECKING:
    from .config import EngineConfig
    from .engine import AsyncEngine, AsyncStream, Engine, Stream

_HOMES = {
    "AsyncEngine": "engine",
    "AsyncStream": "engine",
    "Engine": "engine",
    "EngineConfig": "config",
    "Stream": "engine",
}

__all__ = [
    "AsyncEngine",
    "AsyncStream",
    "BusyError",
    "ClosedError",
    "CompileError",
    "ConfigError",
    "ContextLengthError",
    "DownloadError",
    "Engine",
    "EngineConfig",
    "EngineError",
    "GrammarFault",
    "ModelError",
    "ModelFault",
    "ModelFileError",
    "PagesExhaustedError",
    "PluginFault",
    "RequestError",
    "RequestFault",
    "StepError",
    "Stream",
    "TokenizerError",
    "UnsupportedModelError",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f".{_HOMES[name]}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
