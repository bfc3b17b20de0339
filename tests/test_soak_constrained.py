"""The soak of constrained decoding, for a few seconds."""

from __future__ import annotations

import random
import sys
from pathlib import Path

import pytest
from slipcast.engine.config import EngineConfig
from slipcast.engine.errors import DownloadError

pytestmark = pytest.mark.model
BENCHMARKS = Path(__file__).resolve().parents[1] / "benchmarks"


def test_every_answer_is_valid_and_nothing_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    import soak_constrained as soak

    if not soak.DATA.exists():
        pytest.skip(f"{soak.DATA} is not here")
    from slipcast.engine.assembly import open_parts

    try:
        parts = open_parts(EngineConfig(max_batch=16, max_context=1024, kv_tokens=8192, prefill_chunk=256))
    except DownloadError as error:
        pytest.skip(f"the default model cannot be had here: {error}")
    monkeypatch.setattr(soak, "LONGEST", 40)
    monkeypatch.setattr(soak, "PAGES", 80)
    rng = random.Random(1)
    schemas = soak.load_schemas(parts, 8, 1)
    first = soak.completions(parts, schemas, 8, 60, rng)
    assert first["valid_share"] == 1 and first["completions"] == 8
    second = soak.chaos(parts, schemas, 1, rng)
    assert second["wrong"] == second["lost"] == second["matchers_left"] == 0
    assert second["requests"] > 10
    assert parts.cache.free_pages == parts.cache.total_pages
    sys.modules.pop("soak_constrained")
