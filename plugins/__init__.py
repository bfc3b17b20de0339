"""Plugins: hook specifications, the protocols that hooks return, and the manager that loads them."""

from .errors import PluginError
from .hookspecs import hookimpl, hookspec
from .manager import ENTRY_POINT_GROUP, Plugins, create_manager, installed
from .protocols import (
    CompiledGrammar,
    Compiler,
    GrammarFrontend,
    Job,
    KVCache,
    KVManager,
    Logits,
    LogitsProcessor,
    MaskRows,
    Matcher,
    Phase,
    Row,
    Sampler,
    Scheduler,
)

__all__ = [
    "ENTRY_POINT_GROUP",
    "CompiledGrammar",
    "Compiler",
    "GrammarFrontend",
    "Job",
    "KVCache",
    "KVManager",
    "Logits",
    "LogitsProcessor",
    "MaskRows",
    "Matcher",
    "Phase",
    "PluginError",
    "Plugins",
    "Row",
    "Sampler",
    "Scheduler",
    "create_manager",
    "hookimpl",
    "hookspec",
    "installed",
]
