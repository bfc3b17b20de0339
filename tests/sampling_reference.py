"""What every sampling option means, row by row in float64 and plain loops: slow, and nothing shared with the engine."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from slipcast.samplers import SamplingParams
from slipcast.samplers.random import uniform


@dataclass(eq=False)
class Row:
    """A choice, as far as the chain looks at it."""

    params: SamplingParams
    prompt: list[int] = field(default_factory=list)
    output: list[int] = field(default_factory=list)
    request_id: str = "r"
    index: int = 0
    stream: int = 1
    grammar: object = None
    plugins: dict[str, object] = field(default_factory=dict)


def softmax(x: np.ndarray) -> np.ndarray:
    weights = np.exp(x - x.max())
    return weights / weights.sum()


def best_first(x: np.ndarray) -> list[int]:
    return sorted((i for i in range(len(x)) if x[i] > -np.inf), key=lambda i: (-x[i], i))


def only(x: np.ndarray, kept: Sequence[int]) -> np.ndarray:
    result = np.full(len(x), -np.inf)
    result[list(kept)] = x[list(kept)]
    return result


def penalised(x: np.ndarray, row: Row) -> np.ndarray:
    p, x = row.params, x.copy()
    text = [*row.prompt, *row.output]
    if p.repeat_last_n >= 0:
        text = text[len(text) - min(p.repeat_last_n, len(text)) :]
    for token in set(text) if p.repetition_penalty != 1 else ():
        x[token] = x[token] / p.repetition_penalty if x[token] > 0 else x[token] * p.repetition_penalty
    for token, times in Counter(row.output).items():
        x[token] -= p.presence_penalty + p.frequency_penalty * times
    for token, bias in p.bias_pairs:
        x[token] += bias
    return x


def dry(x: np.ndarray, row: Row, tokens: Sequence[bytes | None] = ()) -> np.ndarray:
    """DRY by its definition: for each token, the longest end of the text that it followed before."""
    p, x, text = row.params, x.copy(), [*row.prompt, *row.output]
    spelled, breaks = b"", []
    for token in text:
        data = (tokens[token] if token < len(tokens) else None) or b""
        before, spelled = len(spelled), spelled + data
        breakers = [b.encode() for b in p.dry_sequence_breakers or ()]
        breaks.append(any(b in spelled[max(0, before - len(b) + 1) :] for b in breakers))
    if p.dry_penalty_last_n >= 0:
        start = max(0, len(text) - p.dry_penalty_last_n)
        text, breaks = text[start:], breaks[start:]
    longest: dict[int, int] = {}
    for place in range(len(text) - 1):
        length = 0
        while length <= place and text[place - length] == text[-1 - length]:
            if breaks[place - length] or breaks[-1 - length]:
                break
            length += 1
        if not breaks[place + 1]:
            longest[text[place + 1]] = max(longest.get(text[place + 1], 0), length)
    for token, length in longest.items():
        if length >= p.dry_allowed_length:
            x[token] -= p.dry_multiplier * p.dry_base ** (min(length, 50) - p.dry_allowed_length)
    return x


def top_n_sigma(x: np.ndarray, n: float) -> np.ndarray:
    finite = x[x > -np.inf]
    mean = finite.sum() / len(finite)
    sigma = math.sqrt(((finite - mean) ** 2).sum() / len(finite))
    return np.where(x >= x.max() - n * sigma, x, -np.inf)


def top_k(x: np.ndarray, k: int) -> np.ndarray:
    return only(x, best_first(x)[:k])


def nucleus(x: np.ndarray, order: Sequence[int], p: float) -> np.ndarray:
    """The first of `order` whose probability together reaches p."""
    probabilities, kept, mass = softmax(x), [], 0.0
    for i in order:
        kept.append(i)
        mass += probabilities[i]
        if mass >= p:
            break
    return only(x, kept)


def top_p(x: np.ndarray, p: float) -> np.ndarray:
    return nucleus(x, best_first(x), p)


def typical(x: np.ndarray, p: float) -> np.ndarray:
    probabilities = softmax(x)
    alive = [i for i in range(len(x)) if probabilities[i] > 0]
    entropy = -sum(probabilities[i] * math.log(probabilities[i]) for i in alive)
    return nucleus(x, sorted(alive, key=lambda i: (abs(-math.log(probabilities[i]) - entropy), i)), p)


def min_p(x: np.ndarray, p: float) -> np.ndarray:
    probabilities = softmax(x)
    return np.where(probabilities >= p * probabilities.max(), x, -np.inf)


def xtc(x: np.ndarray, row: Row) -> np.ndarray:
    chance = uniform([row.stream ^ 0x58544358544358], [len(row.output)])[0]
    if chance >= row.params.xtc_probability:
        return x
    probabilities = softmax(x)
    above = [i for i in best_first(x) if probabilities[i] >= row.params.xtc_threshold]
    return only(x, sorted(set(best_first(x)) - set(above[:-1])))


def mirostat(x: np.ndarray, mu: float) -> np.ndarray:
    probabilities = softmax(x)
    kept = [i for i in best_first(x) if -math.log2(probabilities[i]) <= mu]
    return only(x, kept or best_first(x)[:1])


def distribution(logits: np.ndarray, row: Row, allowed: np.ndarray | None = None) -> np.ndarray:
    """Of the next token, float64 [V]; mirostat as for a first token."""
    p = row.params
    x = penalised(np.array(logits, np.float64), row)
    if p.dry_multiplier:
        x = dry(x, row)
    if allowed is not None:
        x[~allowed] = -np.inf
    if p.temperature == 0:
        return np.eye(len(x))[np.argmax(x)]
    x = x / p.temperature
    x = top_n_sigma(x, p.top_n_sigma) if p.top_n_sigma else x
    x = top_k(x, p.top_k) if p.top_k else x
    x = typical(x, p.typical_p) if p.typical_p < 1 else x
    x = top_p(x, p.top_p) if p.top_p < 1 else x
    x = min_p(x, p.min_p) if p.min_p else x
    x = xtc(x, row) if p.xtc_probability else x
    x = mirostat(x, 2 * p.mirostat_tau) if p.mirostat else x
    return softmax(x)
