"""Every hook, and nothing else.

Hooks are called when the engine starts or when a grammar is compiled, never per token: they return objects of the
protocols in `plugins/protocols.py`, and the engine calls those. An implementation may take fewer arguments than its
hook offers. Where several plugins answer, the one registered last is asked first; the shipped ones are asked last of
all.
"""

from __future__ import annotations

from collections.abc import Sequence

import pluggy
from pydantic import BaseModel

from .families import ModelFamily
from .metrics import MetricsSink
from .protocols import GrammarFrontend, KVCache, KVManager, LogitsProcessor, Sampler, Scheduler
from .routes import Route
from .tools import ToolFormat

PROJECT = "slipcast"

hookspec = pluggy.HookspecMarker(PROJECT)
hookimpl = pluggy.HookimplMarker(PROJECT)


@hookspec
def slipcast_logits_processors(vocabulary_size: int, tokens: Sequence[bytes | None]) -> Sequence[LogitsProcessor]:
    """Logits processors to add to the chain, each with a name of its own.

    Called once per engine start. `vocabulary_size` is V, the width of the logits. `tokens` has the bytes of each token
    by its id, None for special ones; ids from len(tokens) on are padding, and never drawn. Every active plugin's answer
    is used; a processor's `wants` decides per request.
    """
    raise NotImplementedError


@hookspec
def slipcast_request_parameters() -> type[BaseModel]:
    """The pydantic model of what a request may give this plugin: `plugins={"name": {...}}`, by the plugin's name.

    Called once, when the plugin is activated. A request that does not fit is refused at the door; one that does carries
    an instance of the model, which `ChoiceView.options(model)` returns. Keys that the model does not know are refused
    unless it sets `extra` itself.
    """
    raise NotImplementedError


@hookspec(firstresult=True)
def slipcast_sampler(name: str) -> Sampler | None:
    """The sampler that the configuration's `sampler` names, or None if this plugin has none of that name.

    Called once per engine start.
    """
    raise NotImplementedError


@hookspec(firstresult=True)
def slipcast_scheduler(name: str, kv: KVManager) -> Scheduler | None:
    """The scheduling policy that the configuration's `scheduler` names, or None. Called once per engine start.

    `kv.match` tells a policy how much of a prompt is in the cache.
    """
    raise NotImplementedError


@hookspec(firstresult=True)
def slipcast_kv_manager(name: str, cache: KVCache) -> KVManager | None:
    """The manager of `cache` that the configuration's `kv_manager` names, or None. Called once per engine start."""
    raise NotImplementedError


@hookspec(firstresult=True)
def slipcast_grammar_frontend(kind: str) -> GrammarFrontend | None:
    """The front end for grammars of `kind` (as "json_schema" or "regex"), or None. Called per grammar."""
    raise NotImplementedError


@hookspec(firstresult=True)
def slipcast_tool_format(name: str, template: str) -> ToolFormat | None:
    """The tool-call format of that name ("hermes", "llama3", ...); for the name "auto", one that suits `template`.

    None if this plugin has none. `template` is the model's chat template, Jinja2 source. Called once per engine start.
    """
    raise NotImplementedError


@hookspec
def slipcast_model_families() -> Sequence[ModelFamily]:
    """Model families that this plugin can build. Called once, before the model is loaded."""
    raise NotImplementedError


@hookspec
def slipcast_routes() -> Sequence[Route]:
    """HTTP routes to serve beside the engine's own. Called once, when the server starts."""
    raise NotImplementedError


@hookspec
def slipcast_metrics_sinks() -> Sequence[MetricsSink]:
    """Who wants the engine's numbers. Called once per engine start."""
    raise NotImplementedError
