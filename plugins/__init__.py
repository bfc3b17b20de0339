"""Plugins: hook specifications, the protocols that hooks return, and the manager that loads them."""

from .base import BaseProcessor, BaseSampler, BaseScheduler
from .errors import PluginError, PluginOptionError
from .families import ModelFamily
from .hookspecs import hookimpl, hookspec
from .loading import ENTRY_POINT_GROUP, installed
from .manager import Plugins, PluginStatus, create_manager
from .metrics import MetricsSink, MetricsSnapshot
from .protocols import (
    ChoiceView,
    CompiledGrammar,
    Compiler,
    Following,
    GrammarFrontend,
    KVCache,
    KVManager,
    Logits,
    LogitsProcessor,
    MaskRows,
    Matcher,
    Phase,
    Sampler,
    Scheduler,
)
from .routes import HttpRequest, HttpResponse, Route
from .tools import CallDelta, ContentDelta, Tool, ToolChoice, ToolDelta, ToolFormat, ToolParser
from .version import API_VERSION

__all__ = [
    "API_VERSION",
    "ENTRY_POINT_GROUP",
    "BaseProcessor",
    "BaseSampler",
    "BaseScheduler",
    "CallDelta",
    "ChoiceView",
    "CompiledGrammar",
    "Compiler",
    "ContentDelta",
    "Following",
    "GrammarFrontend",
    "HttpRequest",
    "HttpResponse",
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
    "PluginOptionError",
    "PluginStatus",
    "Plugins",
    "Route",
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
