"""Reading JSON Schema: every keyword of five drafts becomes a node of `expr`, references resolved, nothing left to the
text.

`read` is the stage; `inspect` reports on schemas that may be wrong; `expr` is the language the next stage works on.
"""

from .advice import openai_strict
from .content import Content
from .expr import Expr, Schema
from .reader import inspect, read
from .report import Advice, Entry, Report

__all__ = ["Advice", "Content", "Entry", "Expr", "Report", "Schema", "inspect", "openai_strict", "read"]
