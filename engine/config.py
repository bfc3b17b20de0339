"""The engine's configuration: one frozen record, checked once; what it leaves open, the mode decides."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from difflib import get_close_matches
from typing import Any, Literal, Self, get_args

from ..plugins.manager import TIMEOUT
from ..samplers.guard import FAULT_LIMIT
from .errors import ConfigError

Mode = Literal["local", "interactive", "server"]
Speculation = Literal["off", "prompt-lookup", "draft"]
DRAFT_LENGTH = 7


@dataclass(frozen=True, slots=True)
class Limits:
    """Sizes that the engine runs with.

    `max_batch`: rows in a step. `max_context`: tokens of one sequence; None, as many as the model was made for.
    `prefill_chunk`: most tokens in one step, so the longest that running requests wait for a newcomer's prompt.
    `kv_tokens`: tokens that all sequences' keys and values together have room for; None, `max_batch` full contexts.
    """

    max_batch: int
    max_context: int | None
    prefill_chunk: int
    kv_tokens: int | None


# interactive: one conversation, shortest waits. local: a person and a few programs. server: many clients.
MODES: Mapping[Mode, Limits] = {
    "interactive": Limits(max_batch=1, max_context=None, prefill_chunk=512, kv_tokens=None),
    "local": Limits(max_batch=8, max_context=4096, prefill_chunk=256, kv_tokens=16384),
    "server": Limits(max_batch=32, max_context=None, prefill_chunk=512, kv_tokens=65536),
}


# What must be at least 1 where it is given.
COUNTS = (
    "max_batch", "max_context", "prefill_chunk", "kv_tokens", "threads", "max_waiting", "draft_length",
    "plugin_fault_limit",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineConfig:
    """How an engine is opened.

    `model`: a known name or the path of a GGUF file. `mode` decides what is None here: see `MODES` and `Limits`.
    `threads`: of the model's step; None, the free cores. `plugins`: names of installed plugins, or "module:attribute",
    or "name=module:attribute", to activate beside the shipped ones. `sampler`, `scheduler`, `kv_manager`: names that an
    active plugin offers. `plugin_timeout`: seconds that one call of a plugin may take; None, any number.
    `plugin_fault_limit`: requests in a row that fail by a plugin before it is not called any more.
    `max_waiting`: requests in line before BusyError. `jump_forward`: text that a grammar forces is taken without a step
    of the model for each of its tokens.

    `speculation`: how tokens are guessed, to be verified several at a time; outputs do not depend on it. "draft" needs
    `draft_model`, named as `model` is and with the same vocabulary. `draft_length`: the most tokens that are guessed at
    once, None for 7; fewer are where that is faster.

    Raises ConfigError naming the key.
    """

    model: str = "smollm2-135m-instruct"
    mode: Mode = "local"
    max_batch: int | None = None
    max_context: int | None = None
    prefill_chunk: int | None = None
    kv_tokens: int | None = None
    threads: int | None = None
    plugins: tuple[str, ...] = ()
    sampler: str = "seeded"
    scheduler: str = "fcfs"
    kv_manager: str = "prefix"
    plugin_timeout: float | None = TIMEOUT
    plugin_fault_limit: int = FAULT_LIMIT
    max_waiting: int = 1024
    jump_forward: bool = True
    speculation: Speculation = "off"
    draft_model: str | None = None
    draft_length: int | None = None

    def __post_init__(self) -> None:
        if self.mode not in get_args(Mode):
            raise ConfigError(f"mode is {self.mode!r}", key="mode", remedy=f"use one of {', '.join(MODES)}")
        for key in COUNTS:
            value = getattr(self, key)
            if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 1):
                raise ConfigError(f"{key} is {value!r}", key=key, remedy="give an integer of at least 1")
        for key in ("model", "sampler", "scheduler", "kv_manager"):
            value = getattr(self, key)
            if not isinstance(value, str) or not value:
                raise ConfigError(f"{key} is {value!r}", key=key, remedy="give a name")
        seconds = self.plugin_timeout
        if seconds is not None and (type(seconds) not in (int, float) or not seconds > 0):
            raise ConfigError(f"plugin_timeout is {seconds!r}", key="plugin_timeout", remedy="give seconds above 0")
        if not isinstance(self.jump_forward, bool):
            raise ConfigError(f"jump_forward is {self.jump_forward!r}", key="jump_forward", remedy="give true or false")
        self._check_speculation()
        object.__setattr__(self, "plugins", _names(self.plugins))
        limits = self.limits
        if limits.prefill_chunk < limits.max_batch:
            raise ConfigError(
                f"prefill_chunk is {limits.prefill_chunk}, below max_batch, {limits.max_batch}",
                key="prefill_chunk",
                remedy="a step must have room for one token of each running request",
            )

    def _check_speculation(self) -> None:
        kinds = get_args(Speculation)
        if self.speculation not in kinds:
            raise ConfigError(
                f"speculation is {self.speculation!r}", key="speculation", remedy=f"use one of {', '.join(kinds)}"
            )
        if self.draft_model is not None and (not isinstance(self.draft_model, str) or not self.draft_model):
            raise ConfigError(f"draft_model is {self.draft_model!r}", key="draft_model", remedy="give a name")
        if self.speculation == "draft" and self.draft_model is None:
            raise ConfigError(
                'speculation is "draft", and no draft_model is given',
                key="draft_model",
                remedy='name a smaller model of the same vocabulary, or use "prompt-lookup"',
            )
        for key, needed in (("draft_model", ("draft",)), ("draft_length", ("draft", "prompt-lookup"))):
            if getattr(self, key) is not None and self.speculation not in needed:
                raise ConfigError(
                    f'{key} is given, and speculation is "{self.speculation}"',
                    key=key,
                    remedy=f'set speculation to "{needed[0]}", or leave {key} out',
                )

    @classmethod
    def read(cls, values: Mapping[str, Any]) -> Self:
        """From a mapping, as a configuration file gives it. Raises ConfigError for an unknown key."""
        known = [field.name for field in fields(cls)]
        for key in values:
            if key not in known:
                near = get_close_matches(key, known, n=1)
                remedy = f"did you mean {near[0]}?" if near else f"known: {', '.join(known)}"
                raise ConfigError(f"unknown key {key!r}", key=key, remedy=remedy)
        return cls(**values)

    @property
    def limits(self) -> Limits:
        """What is given here, and the mode's values for the rest."""
        mode = MODES[self.mode]
        chunk = mode.prefill_chunk if self.max_batch is None else max(mode.prefill_chunk, self.max_batch)
        return Limits(
            max_batch=self.max_batch or mode.max_batch,
            max_context=self.max_context or mode.max_context,
            prefill_chunk=self.prefill_chunk or chunk,
            kv_tokens=self.kv_tokens or mode.kv_tokens,
        )


def _names(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list | tuple) or not all(isinstance(name, str) and name for name in value):
        raise ConfigError(f"plugins is {value!r}", key="plugins", remedy="give a list of names")
    return tuple(value)
