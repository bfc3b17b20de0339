"""Checks of single sampling options: each returns the normal form, or raises SamplingError."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

from .errors import SamplingError

MAX_STRINGS = 64
MAX_ID_DIGITS = 18


def number(option: str, value: object, low: float, high: float, *, low_open: bool = False) -> float:
    """`value` as a finite float within [low, high] (or (low, high]), or SamplingError."""
    bound = f"a number {'above' if low_open else 'from'} {low:g} to {high:g}"
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise SamplingError(option, value, bound)
    if value < low or value > high or (low_open and value == low):
        raise SamplingError(option, value, bound)
    return float(value)


def integer(option: str, value: object, low: int, high: int | None = None) -> int:
    """`value` as an integer within [low, high]; None: no upper bound."""
    bound = f"an integer of at least {low}" if high is None else f"an integer from {low} to {high}"
    if isinstance(value, bool) or not isinstance(value, int) or value < low or (high is not None and value > high):
        raise SamplingError(option, value, bound)
    return value


def flag(option: str, value: object) -> bool:
    """True or false, and nothing that counts as either."""
    if not isinstance(value, bool):
        raise SamplingError(option, value, "true or false")
    return value


def strings(option: str, value: object) -> tuple[str, ...]:
    """Each string once, in order; null is none."""
    allowed = f"a string or at most {MAX_STRINGS} of them, none empty"
    if value is None:
        return ()
    if isinstance(value, str):
        value = (value,)
    if not isinstance(value, Iterable) or isinstance(value, bytes):
        raise SamplingError(option, value, allowed)
    found = tuple(value)
    if len(found) > MAX_STRINGS or not all(isinstance(s, str) and s for s in found):
        raise SamplingError(option, value, allowed)
    return tuple(dict.fromkeys(found))


def bias_pairs(value: object) -> tuple[tuple[int, float], ...]:
    """Pairs sorted by token id. JSON object keys are strings, so ids written as decimal strings are taken too."""
    allowed = "a mapping of token ids to numbers from -100 to 100"
    if value is None:
        return ()
    pairs: Iterable[object] = value.items() if isinstance(value, Mapping) else ()
    if not isinstance(value, Mapping):
        if not isinstance(value, Sequence) or isinstance(value, str | bytes):
            raise SamplingError("logit_bias", value, allowed)
        pairs = value
    found: dict[int, float] = {}
    for pair in pairs:
        if not isinstance(pair, tuple | list) or len(pair) != 2:
            raise SamplingError("logit_bias", value, allowed)
        token, bias = pair
        if isinstance(token, str) and token.isascii() and token.isdecimal() and len(token) <= MAX_ID_DIGITS:
            token = int(token)
        if isinstance(token, bool) or not isinstance(token, int) or token < 0:
            raise SamplingError("logit_bias", token, "token ids, integers of at least 0, as keys")
        if token in found:
            raise SamplingError("logit_bias", token, "each token id once")
        found[token] = number(f"logit_bias[{token}]", bias, -100.0, 100.0)
    return tuple(sorted(found.items()))
