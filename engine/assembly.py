"""The composition root: from a configuration to the parts of a service."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from pathlib import Path

from ..grammar import GrammarCompiler, Vocabulary
from ..plugins import create_manager
from ..samplers.quick import QuickDraw
from .config import EngineConfig
from .errors import ConfigError
from .service import DraftParts, Parts
from .tokenizer import TextTokenizer, build_tokenizer

_LOG = logging.getLogger(__name__)


def open_parts(config: EngineConfig, progress: Callable[[str, float], None] | None = None) -> Parts:
    """Load everything that `config` names. `progress` is called with a stage and the share of it that is done.

    Raises ConfigError, PluginError, TokenizerError, VocabularyError, and the runtime's ModelError for files.
    """
    # Plugins first: a misspelt name, of one or of what it offers, is found before a model is loaded.
    plugins = create_manager(config.plugins, timeout=config.plugin_timeout, fault_limit=config.plugin_fault_limit)
    plugins.check(sampler=config.sampler, scheduler=config.scheduler, kv_manager=config.kv_manager)
    # Not imported above, since it brings in TVM: who only reads this module's types should not wait for that.
    from .runtime import known_template, load_model, resolve_model

    limits = config.limits
    path = resolve_model(config.model, progress)
    load = partial(
        load_model,
        max_batch=limits.max_batch,
        max_context=limits.max_context,
        prefill_chunk=limits.prefill_chunk,
        kv_tokens=limits.kv_tokens,
        threads=config.threads,
        families=plugins.model_families(),
        progress=progress,
    )
    model = load(path)
    tokenizer = build_tokenizer(model.tokenizer_spec)
    tokenizer.chat_template = tokenizer.chat_template or known_template(config.model)
    draft = None
    if config.draft_model is not None:
        smaller = load(resolve_model(config.draft_model, progress))
        _check_same_vocabulary(tokenizer, build_tokenizer(smaller.tokenizer_spec), config.draft_model)
        draft = DraftParts(smaller, smaller.kv, smaller.max_context)
    vocabulary = Vocabulary(
        tokenizer.token_bytes, tokenizer.eos_ids, size=model.config.vocab_size, tokenizer=tokenizer.tokenizer
    )
    compiler = GrammarCompiler(vocabulary)
    return Parts(
        name=path.stem if Path(config.model).suffix == ".gguf" else config.model,
        model=model,
        cache=model.kv,
        tokenizer=tokenizer,
        plugins=plugins,
        vocabulary_size=model.config.vocab_size,
        context_length=model.max_context,
        compiler=compiler,
        draft=draft,
        draw=_draw_kernel(),
    )


def _draw_kernel() -> QuickDraw | None:
    """The kernel for the common sampling chain; None where it cannot be had, and numpy does."""
    from .runtime.draw import Draw

    try:
        return Draw()
    except Exception:
        _LOG.warning("the sampling kernel could not be compiled; sampling is slower without it", exc_info=True)
        return None


def _check_same_vocabulary(tokenizer: TextTokenizer, draft: TextTokenizer, name: str) -> None:
    """Raises ConfigError: guesses are token ids, which must mean the same to both models."""
    if draft.size != tokenizer.size:
        what = f"{draft.size} tokens, and the model {tokenizer.size}"
    elif draft.token_bytes != tokenizer.token_bytes or draft.eos_ids != tokenizer.eos_ids:
        what = "other tokens than the model"
    else:
        return
    raise ConfigError(
        f"the draft model {name!r} has {what}", key="draft_model", remedy="use a smaller model of the same family"
    )
