"""Loading a model: plan, library, weights, threads, cache size, in this order."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import ConfigError, ModelError
from .checkpoint import Checkpoint
from .cpu import LoadSample, available_memory, free_threads, instruction_set
from .families import ModelFamily, family_of
from .gguf import open_gguf
from .huggingface import open_folder
from .paths import cache_folder
from .plan import ModelPlan
from .progress import Progress, silent
from .stored_tokenizer import read_tokenizer

if TYPE_CHECKING:
    from .model import LoadedModel

_THREADS = "TVM_NUM_THREADS"
# The library is compiled for at least these sizes, so that one serves most configurations; memory is taken as used.
_ROWS, _BATCH = 2048, 256
_CACHE_SHARE = 0.5  # of the memory that is available, at most


def load_model(
    path: Path,
    *,
    max_batch: int = 8,
    max_context: int | None = None,
    prefill_chunk: int = 512,
    kv_tokens: int | None = None,
    threads: int | None = None,
    families: Sequence[ModelFamily] = (),
    progress: Progress | None = None,
) -> LoadedModel:
    """Open a GGUF file or a Hugging Face folder, compile or load its library, and put its weights into memory.

    `max_batch` sequences and `prefill_chunk` tokens fit in a step, `max_context` tokens in a sequence (None: what the
    model was made for; more is cut to that). The KV cache holds `kv_tokens` tokens (None: `max_batch` full sequences),
    or as many as half of the available memory takes; no sequence is longer. `threads` None takes the cores that are
    free while loading, unless TVM_NUM_THREADS says otherwise; TVM fixes the number at the first step of the process.
    `families` come before the shipped ones. `progress(stage, share)` hears of slow stages.

    Raises ModelError (a file that is missing, damaged or not supported, too little memory, a failed compilation) and
    ConfigError (a size below 1).
    """
    sizes = {
        "max_batch": max_batch, "prefill_chunk": prefill_chunk, "max_context": max_context,
        "kv_tokens": kv_tokens, "threads": threads,
    }  # fmt: skip
    for name, value in sizes.items():
        if value is not None and value < 1:
            raise ConfigError(f"{name} is {value} and must be at least 1", key=name)
    since = LoadSample.take()
    report = progress or silent
    checkpoint, family = open_checkpoint(Path(path), families)
    plan = family.plan(checkpoint)
    tokenizer = read_tokenizer(checkpoint, plan.config)
    # Importing TVM takes seconds: a wrong file is refused before.
    from .kernels.attention import PAGE
    from .kernels.isa import INSTRUCTION_SETS
    from .library import host_target, open_library
    from .model import LoadedModel
    from .weights import load_weights

    target = host_target(instruction_set())
    folder = cache_folder() / "libraries"
    rows, batch = max(_ROWS, prefill_chunk), max(_BATCH, max_batch)
    library = open_library(
        plan, target, max_rows=rows, max_batch=batch, folder=folder, progress=report, family=family
    )
    weights = load_weights(checkpoint, plan, library.parameters, report)
    context = min(max_context or plan.config.context_length, plan.config.context_length)
    page_dtype = INSTRUCTION_SETS[target.instruction_set].page_dtype
    token_bytes = _token_bytes(plan, page_dtype)
    pages = _page_count(checkpoint, context, max_batch, kv_tokens, token_bytes)
    if threads is not None:
        os.environ[_THREADS] = str(threads)
    elif _THREADS not in os.environ:
        os.environ[_THREADS] = str(free_threads(since))
    return LoadedModel(
        plan.config, checkpoint.metadata, tokenizer, library.machine, weights,
        weights[library.parameters.index("norm")], max_batch=max_batch,
        max_context=min(context, pages * PAGE), prefill_chunk=prefill_chunk, pages=pages, page_dtype=page_dtype,
        threads=_thread_count(),
    )  # fmt: skip


def _thread_count() -> int:
    """What TVM_NUM_THREADS says; one where it says nothing that makes sense, as TVM has it then."""
    try:
        return max(1, int(os.environ[_THREADS]))
    except ValueError:
        return 1


def open_checkpoint(path: Path, families: Sequence[ModelFamily] = ()) -> tuple[Checkpoint, ModelFamily]:
    """A model file or folder in GGUF's terms, and its family. Raises ModelFileError or UnsupportedModelError."""
    source = open_folder(path) if path.is_dir() else open_gguf(path)
    family = family_of(source, families)
    return family.translate(source), family


def _token_bytes(plan: ModelPlan, page_dtype: str) -> int:
    c = plan.config
    return 2 * c.layers * c.kv_heads * c.head_dim * (2 if page_dtype == "float16" else 4)


def _page_count(
    source: Checkpoint, context: int, max_batch: int, kv_tokens: int | None, token_bytes: int
) -> int:
    from .kernels.attention import PAGE

    wanted = -(-context // PAGE) * max_batch if kv_tokens is None else -(-kv_tokens // PAGE)
    memory = available_memory()
    if memory is None:
        return wanted
    pages = min(wanted, int(memory * _CACHE_SHARE) // (token_bytes * PAGE))
    if pages < 1:
        what = f"{source.path}: no memory is left for the KV cache"
        raise ModelError(what, path=source.path, remedy="use a smaller model")
    return pages
