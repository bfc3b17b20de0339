"""The table of rotary angles."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from .config import ModelConfig


def rotary_table(config: ModelConfig, positions: int) -> npt.NDArray[np.float32]:
    """float32 [positions, head_dim]: the cosines, then the sines, of each position (Su et al., RoFormer, 2021)."""
    frequencies = config.rope_theta ** (-np.arange(0, config.head_dim, 2) / config.head_dim)
    angles = np.arange(positions)[:, None] / config.rope_scale * frequencies
    return np.concatenate([np.cos(angles), np.sin(angles)], axis=1).astype(np.float32)
