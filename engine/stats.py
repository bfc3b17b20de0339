"""What the engine counts and measures."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class Counters:
    """Running totals of a loop; times in seconds of wall clock. `mask_seconds` are those that the loop waited for
    matchers, and `late_matches` how often it went on without one that took long.

    `decoded_tokens` were computed one by one, after a prompt; `prefilled_tokens` in chunks, what a preemption made
    necessary again among them. `forced_closes`: choices that were completed because their budget was about to end.
    `forced_tokens` were taken without a step of their own, since the grammar allowed nothing else. `drafted_tokens`
    were guessed and computed beside decoded ones, and `accepted_tokens` of them turned out right; `draft_seconds` went
    into the guessing.
    """

    requests: int = 0
    failed: int = 0
    steps: int = 0
    prefilled_tokens: int = 0
    decoded_tokens: int = 0
    forced_closes: int = 0
    forced_tokens: int = 0
    drafted_tokens: int = 0
    accepted_tokens: int = 0
    mask_seconds: float = 0.0
    model_seconds: float = 0.0
    sample_seconds: float = 0.0
    draft_seconds: float = 0.0
    late_matches: int = 0


@dataclass(frozen=True, slots=True)
class Stats:
    """A snapshot: the counters, and what is in the engine at the moment."""

    requests: int
    failed: int
    steps: int
    prefilled_tokens: int
    decoded_tokens: int
    forced_closes: int
    forced_tokens: int
    drafted_tokens: int
    accepted_tokens: int
    mask_seconds: float
    model_seconds: float
    sample_seconds: float
    draft_seconds: float
    late_matches: int
    preemptions: int
    running: int
    waiting: int
    free_pages: int
    total_pages: int
