"""How a server is set up: from flags, the environment and a file, in this order of precedence.

A file is TOML with the names of `ServerSettings`; the environment has them in capitals after `SLIPCAST_SERVE_`, lists
separated by commas. A key that is unknown is refused wherever it stands, and the place is named.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, PositiveFloat, PositiveInt, ValidationError

from .config import EngineConfig, Mode, Speculation
from .errors import ConfigError
from .lines import one_line

PREFIX: Final = "SLIPCAST_SERVE_"


class ServerSettings(BaseModel):
    """Everything that `slipcast serve` can be told."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    model: tuple[str, ...] = Field(("smollm2-135m-instruct",), min_length=1)
    """Models to serve, the default first; each a known name, a path, or NAME=either."""
    host: str = "127.0.0.1"
    port: int = Field(8000, ge=0, le=65535)
    mode: Mode = "local"
    max_body_mb: PositiveInt = 8
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    log_format: Literal["text", "json"] = "text"
    chat_template: str | None = None
    """A file with a Jinja2 chat template to use instead of the models' own."""
    api_key: tuple[str, ...] = ()
    api_key_file: str | None = None
    cors_origin: tuple[str, ...] = ()
    """Origins whose pages may ask; "*": any."""
    tls_certificate: str | None = None
    tls_key: str | None = None
    request_timeout: PositiveFloat | None = None
    """Seconds that a request may take."""
    page: bool = True
    """Whether the chat page is served at /."""
    tool_strict: Literal["always", "absent", "asked"] = "always"
    """Which calls of tools have exactly their tool's schema (see `engine/api/tools.py`)."""
    otel: bool = False
    """Whether traces go to OpenTelemetry, as its own environment variables say."""

    max_batch: PositiveInt | None = None
    max_context: PositiveInt | None = None
    max_waiting: PositiveInt | None = None
    """Requests in line before others are answered with 429."""
    threads: PositiveInt | None = None
    kv_tokens: PositiveInt | None = None
    plugins: tuple[str, ...] = ()
    sampler: str | None = None
    scheduler: str | None = None
    kv_manager: str | None = None
    jump_forward: bool = True
    speculation: Speculation = "off"
    draft_model: str | None = None
    draft_length: PositiveInt | None = None
    """Tokens guessed at once, at most."""

    def engine_options(self) -> dict[str, Any]:
        """What is given here of an engine's configuration."""
        names = (
            "mode", "max_batch", "max_context", "max_waiting", "threads", "kv_tokens", "plugins", "sampler",
            "scheduler", "kv_manager", "jump_forward", "speculation", "draft_model",
            "draft_length",
        )  # fmt: skip
        return {name: value for name in names if (value := getattr(self, name)) is not None}

    def engine_config(self, model: str) -> EngineConfig:
        """The configuration of the engine of one model. Raises ConfigError."""
        return EngineConfig(model=model, **self.engine_options())


def read_settings(
    flags: Mapping[str, Any], environment: Mapping[str, str] | None = None, file: Path | None = None
) -> ServerSettings:
    """The settings from all three places. Raises ConfigError naming the key and where it stands; OSError for a file."""
    values: dict[str, Any] = {}
    places: dict[str, str] = {}
    layers = (
        (str(file), {} if file is None else _file(file)),
        ("the environment", _environment(environment or {})),
        ("the command line", flags),
    )
    for place, layer in layers:
        for key, value in layer.items():
            if key not in ServerSettings.model_fields:
                raise _unknown(key, place)
            values[key] = value
            places[key] = place
    try:
        return ServerSettings.model_validate(values)
    except ValidationError as error:
        detail = error.errors(include_url=False)[0]
        key = str(detail["loc"][0]) if detail["loc"] else ""
        message = one_line(f"{key} in {places.get(key, 'the settings')}: {detail['msg']}")
        raise ConfigError(message, key=key, remedy=f"it was {detail['input']!r}") from None


def _file(path: Path) -> dict[str, Any]:
    try:
        read = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} is not TOML: {one_line(str(error))}", key="config") from None
    return {key: (value,) if _is_list(key) and isinstance(value, str) else value for key, value in read.items()}


def _environment(environment: Mapping[str, str]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in environment.items():
        if not name.startswith(PREFIX):
            continue
        key = name.removeprefix(PREFIX).lower()
        if key not in ServerSettings.model_fields:
            raise _unknown(key, f"the environment ({name})")
        listed = tuple(part for part in (piece.strip() for piece in value.split(",")) if part)
        found[key] = listed if _is_list(key) else value
    return found


def _is_list(key: str) -> bool:
    field = ServerSettings.model_fields.get(key)
    return field is not None and str(field.annotation).startswith("tuple")


def _unknown(key: str, place: str) -> ConfigError:
    near = get_close_matches(key, ServerSettings.model_fields, n=1)
    remedy = f"did you mean {near[0]}?" if near else f"known: {', '.join(ServerSettings.model_fields)}"
    return ConfigError(f"unknown key {key!r} in {place}", key=key, remedy=remedy)
