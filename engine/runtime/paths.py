"""Where the runtime keeps what it can make or fetch again."""

from __future__ import annotations

import os
from pathlib import Path

import platformdirs

CACHE_VARIABLE = "SLIPCAST_CACHE"


def cache_folder() -> Path:
    """The user's cache folder for slipcast, or what SLIPCAST_CACHE names. It may not exist yet."""
    chosen = os.environ.get(CACHE_VARIABLE)
    return Path(chosen).expanduser() if chosen else Path(platformdirs.user_cache_dir("slipcast", appauthor=False))
