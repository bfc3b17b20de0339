"""Every error of the engine.

    EngineError                       base; `str(error)` is one line: what, where, remedy
        ConfigError                   an unknown key or a wrong value in the configuration (ValueError)
        RequestError                  this request cannot be served as asked (ValueError); `param` names the option
            ContextLengthError        prompt and max_tokens do not fit in the model's context or the cache
        BusyError                     the waiting line is full; try again later
        TokenizerError                the model file's tokenizer is missing, malformed or of unknown kind (ValueError)
        RequestFault                  a part of this request failed while it ran; other requests are not affected
            PluginFault               ... and it was the plugin named by `plugin`
            GrammarFault              ... and it was its grammar's matcher
        ModelError                    the model cannot be had, read or run here; `path` names its file
            ModelFileError            missing, truncated or damaged file, or no GGUF at all
            UnsupportedModelError     a sound file of a kind that the runtime does not run
            DownloadError             the default model could not be fetched or verified
            CompileError              the model's library could not be compiled or loaded
        StepError                     a step of the model was asked wrongly: ids, tokens or lengths (ValueError)
            PagesExhaustedError       the KV cache has too few free pages for this step; nothing was changed
        ModelFault                    the model's step failed: every request in the batch fails, the engine stays usable
        ClosedError                   the engine was closed

The grammar compiler has its own tree (grammar/errors.py) and so have sampling options (samplers/errors.py) and plugin
loading (plugins/errors.py); none of these is wrapped, since each already says what is wrong with the caller's input.
"""

from __future__ import annotations

from pathlib import Path


class EngineError(Exception):
    """Base of everything the engine raises or reports in a `Failed` event."""

    def __init__(self, message: str, *, remedy: str | None = None) -> None:
        self.message = message
        self.remedy = remedy
        super().__init__(message)

    def __str__(self) -> str:
        return self.message if self.remedy is None else f"{self.message} ({self.remedy})"


class ConfigError(EngineError, ValueError):
    """The configuration cannot be used; `key` names the entry."""

    def __init__(self, message: str, *, key: str | None = None, remedy: str | None = None) -> None:
        self.key = key
        super().__init__(message, remedy=remedy)


class RequestError(EngineError, ValueError):
    """The request cannot be served as asked; `param` names the option at fault, where there is one."""

    def __init__(self, message: str, *, param: str | None = None, remedy: str | None = None) -> None:
        self.param = param
        super().__init__(message, remedy=remedy)


class ContextLengthError(RequestError):
    """Prompt and output do not fit; `limit` is what would fit, in tokens."""

    def __init__(self, message: str, *, limit: int, param: str | None = None, remedy: str | None = None) -> None:
        self.limit = limit
        super().__init__(message, param=param, remedy=remedy)


class BusyError(EngineError):
    """The waiting line is full."""


class TokenizerError(EngineError, ValueError):
    """A tokenizer cannot be built from the model file."""


class RequestFault(EngineError):
    """Something of this one request raised while it ran; the cause is chained."""


class PluginFault(RequestFault):
    """A plugin raised, or returned what its protocol forbids; `plugin` names it."""

    def __init__(self, message: str, *, plugin: str, remedy: str | None = None) -> None:
        self.plugin = plugin
        super().__init__(message, remedy=remedy)


class GrammarFault(RequestFault):
    """A matcher raised, refused a token that its own mask allowed, or allowed none."""


class ModelError(EngineError):
    """The model cannot be had, read or run here; `path` is its file, where there is one."""

    def __init__(self, message: str, *, path: Path | None = None, remedy: str | None = None) -> None:
        self.path = path
        super().__init__(message, remedy=remedy)


class ModelFileError(ModelError):
    """The model file is missing, truncated, damaged, or no GGUF."""


class UnsupportedModelError(ModelError):
    """The file is sound, but its architecture, format or dimensions are not supported."""


class DownloadError(ModelError):
    """The default model could not be fetched or verified."""


class CompileError(ModelError):
    """The model's library could not be compiled or loaded."""


class StepError(EngineError, ValueError):
    """A step or a change of the KV cache was asked with ids, tokens or lengths that it cannot take."""


class PagesExhaustedError(StepError):
    """The KV cache has `free` pages and `needed` are wanted; nothing was changed."""

    def __init__(self, message: str, *, needed: int, free: int, remedy: str | None = None) -> None:
        self.needed = needed
        self.free = free
        super().__init__(message, remedy=remedy)


class ModelFault(EngineError):
    """The compiled model failed in a step."""


class ClosedError(EngineError):
    """The engine was closed before the request was done."""
