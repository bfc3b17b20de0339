"""How slow stages report: the stage's name, and the share of it that is done, from 0 to 1."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

Progress: TypeAlias = Callable[[str, float], None]


def silent(stage: str, share: float) -> None:
    """For callers who do not want to know."""
