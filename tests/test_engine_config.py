"""The configuration: unknown keys, wrong values, and what the modes decide."""

from __future__ import annotations

import pytest
from slipcast.engine.config import MODES, EngineConfig
from slipcast.engine.errors import ConfigError


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"max_bach": 3}, "max_batch"),
        ({"nonsense": 3}, "known:"),
        ({"mode": "fast"}, "interactive"),
        ({"max_batch": 0}, "max_batch"),
        ({"max_context": "8k"}, "max_context"),
        ({"prefill_chunk": True}, "prefill_chunk"),
        ({"prefill_chunk": 4, "max_batch": 8}, "below max_batch"),
        ({"threads": -1}, "threads"),
        ({"model": ""}, "model"),
        ({"plugins": "one"}, "plugins"),
        ({"plugins": [""]}, "plugins"),
        ({"scheduler": None}, "scheduler"),
    ],
)
def test_wrong_values_name_the_key(values, said):
    with pytest.raises(ConfigError, match=said) as caught:
        EngineConfig.read(values)
    assert caught.value.key in values


def test_the_mode_decides_what_is_left_open():
    assert EngineConfig(mode="server").limits == MODES["server"]
    limits = EngineConfig(mode="local", max_batch=3, max_context=100).limits
    assert (limits.max_batch, limits.max_context) == (3, 100)
    assert limits.prefill_chunk == MODES["local"].prefill_chunk
    assert EngineConfig(max_batch=10_000).limits.prefill_chunk == 10_000
    assert EngineConfig.read({"plugins": ["a"]}).plugins == ("a",)
