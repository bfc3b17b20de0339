"""Plugins: hook specifications, the protocols that hooks return, and the manager that loads them."""

from .errors import PluginError
from .families import ModelFamily
from .hookspecs import hookimpl, hookspec
from .manager import ENTRY_POINT_GROUP, Plugins, create_manager, installed
from .metrics import MetricsSink, MetricsSnapshot
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
from .routes import HttpRequest, HttpResponse, Route
from .tools import CallDelta, ContentDelta, Tool, ToolChoice, ToolDelta, ToolFormat, ToolParser

__all__ = [
    "ENTRY_POINT_GROUP",
    "CallDelta",
    "CompiledGrammar",
    "Compiler",
    "ContentDelta",
    "GrammarFrontend",
    "HttpRequest",
    "HttpResponse",
    "Job",
    "KVCache",
    "KVManager",
    "Logits",
    "LogitsProcessor",
    "MaskRows",
    "Matcher",
    "MetricsSink",
    "MetricsSnapshot",
    "ModelFamily",
    "Phase",
    "PluginError",
    "Plugins",
    "Route",
    "Row",
    "Sampler",
    "Scheduler",
    "Tool",
    "ToolChoice",
    "ToolDelta",
    "ToolFormat",
    "ToolParser",
    "create_manager",
    "hookimpl",
    "hookspec",
    "installed",
]
