"""A family from a plugin: found by its architecture, read, planned and compiled as the shipped ones are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from runtime_models import Shape, make, reference, write_gguf
from slipcast.engine.errors import UnsupportedModelError
from slipcast.engine.runtime import load_model
from slipcast.engine.runtime.checkpoint import Checkpoint
from slipcast.engine.runtime.config import ModelConfig
from slipcast.engine.runtime.families import FAMILIES, Family, family_of
from slipcast.engine.runtime.load import open_checkpoint
from slipcast.plugins import ModelFamily, create_manager, hookimpl

SHAPE = Shape(layers=1, hidden=32, feed_forward=32, heads=2, kv_heads=2, head_dim=16, vocab=64)
TOKENS = [3, 1, 4, 1, 5]


class Turnip(Family):
    """Llama whose logits are bounded."""

    name = "turnip"
    architecture = "turnip"
    architectures = ("turnip", "TurnipForCausalLM")
    paired_heads = True

    def config(self, checkpoint: Checkpoint) -> ModelConfig:
        return replace(super().config(checkpoint), logit_cap=2.0)


class Plugin:
    @hookimpl
    def slipcast_model_families(self) -> Sequence[ModelFamily]:
        return [Turnip()]


plugin = Plugin()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A llama file whose metadata say turnip."""
    tiny = make(tmp_path / "llama.gguf", SHAPE, "F32")
    checkpoint, _ = open_checkpoint(tiny.path)
    metadata = {key.replace("llama.", "turnip."): value for key, value in checkpoint.metadata.items()}
    metadata["general.architecture"] = "turnip"
    tensors = {name: (t.type, t.shape, t.data.tobytes()) for name, t in checkpoint.tensors.items()}
    write_gguf(tmp_path / "turnip.gguf", metadata, tensors)
    return tmp_path / "turnip.gguf"


def test_a_plugins_family_runs(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLIPCAST_CACHE", str(tmp_path))
    with pytest.raises(UnsupportedModelError, match="'turnip' is not supported") as caught:
        load_model(path)
    assert all(family.name in str(caught.value) for family in FAMILIES)
    families = create_manager([f"{__name__}:plugin"]).model_families()
    model = load_model(path, max_batch=2, prefill_chunk=16, threads=1, families=families)
    model.kv.add(0)
    found = model.step([0], [TOKENS], [len(TOKENS)])
    weights = make(tmp_path / "again.gguf", SHAPE, "F32").weights
    expected = 2.0 * np.tanh(reference(weights, SHAPE, TOKENS) / 2.0)
    assert np.abs(expected).max() > 1.5
    np.testing.assert_allclose(found, expected, atol=5e-3)


def test_a_plugins_family_comes_before_a_shipped_one(tmp_path: Path) -> None:
    class Other(Turnip):
        architectures = ("llama",)

    checkpoint, shipped = open_checkpoint(make(tmp_path / "llama.gguf", SHAPE, "F32").path)
    other = Other()
    assert shipped.name == "llama"
    assert family_of(checkpoint, [other]) is other


def test_every_shipped_family_fits_the_protocol() -> None:
    assert all(isinstance(family, ModelFamily) for family in FAMILIES)
    names = [name for family in FAMILIES for name in family.architectures]
    assert len(names) == len(set(names))
    assert len({family.name for family in FAMILIES}) == len(FAMILIES)


def test_a_family_takes_few_lines() -> None:
    from slipcast.engine.runtime import families

    folder = Path(families.__file__).parent
    own = [path for path in folder.glob("*.py") if path.name not in ("__init__.py", "base.py")]
    assert own
    assert {path.name: n for path in own if (n := len(path.read_text().splitlines())) >= 150} == {}
