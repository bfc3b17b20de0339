"""The composition root: from a configuration to the parts of a service."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from ..grammar import GrammarCompiler, Matcher, Vocabulary
from ..plugins import create_manager
from .config import EngineConfig
from .service import Parts
from .tokenizer import build_tokenizer


def open_parts(config: EngineConfig, progress: Callable[[str, float], None] | None = None) -> Parts:
    """Load everything that `config` names. `progress` is called with a stage and the share of it that is done.

    Raises ConfigError, PluginError, TokenizerError, VocabularyError, and the runtime's ModelError for files.
    """
    # Plugins first: a misspelt name, of one or of what it offers, is found before a model is loaded.
    plugins = create_manager(config.plugins)
    plugins.check(sampler=config.sampler, scheduler=config.scheduler, kv_manager=config.kv_manager)
    # Not imported above, since it brings in TVM: who only reads this module's types should not wait for that.
    from .runtime import load_model, resolve_model

    limits = config.limits
    path = resolve_model(config.model, progress)
    model = load_model(
        path,
        max_batch=limits.max_batch,
        max_context=limits.max_context,
        prefill_chunk=limits.prefill_chunk,
        kv_tokens=limits.kv_tokens,
        threads=config.threads,
        progress=progress,
    )
    tokenizer = build_tokenizer(model.tokenizer_spec)
    vocabulary = Vocabulary(tokenizer.token_bytes, tokenizer.eos_ids, size=model.config.vocab_size)
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
        fill_masks=compiler.fill_masks,
        native_matcher=Matcher,
    )
