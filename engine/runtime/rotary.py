"""Rotary positions (Su et al., RoFormer, 2021): frequencies of each scaling, and the table of angles.

Every scaling comes down to a frequency for each pair of columns and one factor for all cosines and sines, so kernels
know none of them: they read a table.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Rotary:
    """`frequencies`: radians a position, one for each pair of a head's columns; 0 for pairs that stay as they are.

    `magnitude` multiplies cosines and sines of the pairs that turn. `long_frequencies` take the place of `frequencies`
    where the context exceeds `original_context` tokens.
    """

    frequencies: tuple[float, ...]
    magnitude: float = 1.0
    long_frequencies: tuple[float, ...] = ()
    original_context: int = 0


def rotary_table(rotary: Rotary, positions: int) -> npt.NDArray[np.float32]:
    """float32 [positions, head_dim]: the cosines, then the sines, of each position below `positions`."""
    long = bool(rotary.long_frequencies) and positions > rotary.original_context
    frequencies = np.array(rotary.long_frequencies if long else rotary.frequencies)
    angles = np.arange(positions)[:, None] * frequencies
    magnitude = np.where(frequencies > 0, rotary.magnitude, 1.0)
    return np.concatenate([np.cos(angles) * magnitude, np.sin(angles) * magnitude], axis=1).astype(np.float32)


def plain(theta: float, columns: int, head_dim: int | None = None) -> tuple[float, ...]:
    """theta ** (-2i / columns): the unscaled frequencies of `columns` rotated columns, in a head of `head_dim`."""
    frequencies = theta ** (-np.arange(0, columns, 2) / columns)
    return (*frequencies.tolist(), *[0.0] * (((head_dim or columns) - columns) // 2))


def divided(frequencies: Sequence[float], factors: Sequence[float] | float) -> tuple[float, ...]:
    """Each frequency divided by its factor, or all by one (linear scaling)."""
    each = [factors] * len(frequencies) if isinstance(factors, float) else factors
    return tuple(frequency / factor for frequency, factor in zip(frequencies, each, strict=True))


def llama3_factors(
    theta: float, columns: int, *, factor: float, low: float, high: float, original: float
) -> tuple[float, ...]:
    """Llama 3.1's scaling: wave lengths beyond original / low divided by `factor`, below original / high untouched,
    smoothly between.

    Source: the reference implementation of Meta's release (llama-models, apply_scaling).
    """
    turns = original * np.array(plain(theta, columns)) / (2 * math.pi)  # full turns over the original context
    kept = np.clip((turns - low) / (high - low), 0.0, 1.0)
    return tuple((1 / (kept + (1 - kept) / factor)).tolist())


def yarn(
    theta: float, columns: int, *, factor: float, original: float, fast: float = 32.0, slow: float = 1.0
) -> tuple[float, ...]:
    """YaRN's frequencies (Peng et al., 2023, section 3.2): slow pairs divided by `factor`, fast ones untouched, a ramp
    between the pairs that turn `fast` and `slow` times over the original context.
    """

    def pair(turns: float) -> float:
        return columns * math.log(original / (turns * 2 * math.pi)) / (2 * math.log(theta))

    low = max(math.floor(pair(fast)), 0)
    high = min(math.ceil(pair(slow)), columns - 1)
    ramp = np.clip((np.arange(columns // 2) - low) / max(high - low, 0.001), 0.0, 1.0)
    frequencies = np.array(plain(theta, columns))
    scaled: Floats = frequencies * (1 - ramp) + frequencies / factor * ramp
    return tuple(scaled.tolist())


def yarn_magnitude(factor: float) -> float:
    """What YaRN multiplies cosines and sines by (section 3.4): queries and keys grow by it alike."""
    return 0.1 * math.log(factor) + 1.0 if factor > 1 else 1.0
