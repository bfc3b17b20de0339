"""Look-arounds."""
from __future__ import annotations
from ..errors import UnsupportedError
from .dfa import Dfa


def LookDfa(*args: object) -> Dfa:
    raise UnsupportedError("look-around inside a pattern is not supported yet")
