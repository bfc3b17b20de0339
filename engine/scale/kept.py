"""Grammars that replicas keep for each other: one file for each model in the cache folder, which they may share."""

from __future__ import annotations

import logging
import os
from pathlib import Path
from typing import Final

from ...grammar import GrammarCompiler
from ..lines import one_line
from ..runtime.paths import cache_folder

_LOG = logging.getLogger(__name__)
MOST: Final = 256
"""Of a file: compiling them is what a new replica does before it takes requests."""


def load_grammars(compiler: GrammarCompiler, model: str) -> None:
    """Compile what the replicas of this model have kept. A file that cannot be read is none."""
    path = _path(model)
    if not path.exists():
        return
    try:
        _LOG.info("%d grammars are warm", compiler.load(path))
    except (OSError, ValueError, TypeError, KeyError) as error:
        _LOG.warning("%s is not read: %s", path, one_line(f"{type(error).__name__}: {error}"))


def save_grammars(compiler: GrammarCompiler, model: str) -> None:
    """Keep this replica's grammars beside those that others have kept, of which the oldest make room."""
    path = _path(model)
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_suffix(f".{os.uname().nodename}-{os.getpid()}")
    compiler.save(fresh)
    own = fresh.read_text(encoding="utf-8").splitlines()
    known = set(own)
    others = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    kept = [*(line for line in others if line not in known), *own][-MOST:]
    fresh.write_text("".join(f"{line}\n" for line in kept), encoding="utf-8")
    fresh.replace(path)  # at once, for readers: whoever writes meanwhile does it again soon


def _path(model: str) -> Path:
    return cache_folder() / "grammars" / f"{''.join(c if c.isalnum() else '-' for c in model)}.jsonl"
