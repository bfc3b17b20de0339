"""What `transformers` says of the tiny models in family_cases.py. Needs the extra `families` (PyTorch, transformers).

    python tests/runtime/golden.py            compare with the files in golden/
    python tests/runtime/golden.py --write    write them
"""

from __future__ import annotations

import argparse
import json
import sys

import numpy as np
import torch
import transformers
from family_cases import CASES, GOLDEN, TOKENS, Floats, case, settings, weight
from slipcast.engine.runtime.blocks import decode, encode_q8_0

LARGEST_DIFFERENCE = 2e-4


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true")
    write = parser.parse_args().write
    facts, worst = {}, 0.0
    for name in CASES:
        model, config, shapes = build(name)
        float32, rounded = (logits(model, config, shapes, rounding=rounding) for rounding in (False, True))
        facts[name] = {"config": config, "shapes": shapes}
        if write:
            GOLDEN.mkdir(exist_ok=True)
            np.savez_compressed(GOLDEN / f"{name}.npz", logits=float32, rounded=rounded)
            continue
        stored = case(name)
        difference = max(np.abs(stored.logits - float32).max(), np.abs(stored.rounded - rounded).max())
        print(f"{name:14} {difference:.1e}")
        worst = max(worst, float(difference))
    if write:
        torch.save(pickled(), GOLDEN / "pickled.bin")
        (GOLDEN / "cases.json").write_text(json.dumps(facts, indent=1, sort_keys=True) + "\n")
    print(f"transformers {transformers.__version__}, torch {torch.__version__}: largest difference {worst:.1e}")
    return 0 if worst <= LARGEST_DIFFERENCE else 1


def pickled() -> dict[str, torch.Tensor]:
    """What a `.bin` may hold: every type, a view into a larger storage, a parameter, and a buffer of integers."""
    base = torch.arange(24, dtype=torch.float32).reshape(4, 6) / 7
    return {
        "f32": base,
        "f16": base.half(),
        "bf16": base.bfloat16(),
        "view": base[1:3],
        "parameter": torch.nn.Parameter(base + 1),
        "vector": base[2],
        "position_ids": torch.arange(5),
        "transposed": base.t().contiguous(),
    }


def build(name: str) -> tuple[torch.nn.Module, dict, dict]:
    kind, arguments = settings(name)
    config = getattr(transformers, kind)(**arguments)
    config._attn_implementation = "eager"
    torch.manual_seed(0)
    model = transformers.AutoModelForCausalLM.from_config(config, attn_implementation="eager").eval()
    described = {key: value for key, value in config.to_dict().items() if not key.startswith("_")}
    described["architectures"] = [type(model).__name__]
    shapes = {key: list(value.shape) for key, value in model.state_dict().items()}
    if config.tie_word_embeddings:
        shapes.pop("lm_head.weight")
    return model, described, shapes


def logits(model: torch.nn.Module, config: dict, shapes: dict, *, rounding: bool) -> Floats:
    state = {}
    for key, shape in shapes.items():
        values = weight(key, tuple(shape), config["model_type"])
        if rounding and len(shape) == 2 and "block_sparse_moe.gate." not in key:
            values = decode(encode_q8_0(values), "Q8_0")
        state[key] = torch.from_numpy(values)
    missing, unexpected = model.load_state_dict(state, strict=False)
    assert not unexpected and set(missing) <= {"lm_head.weight"}, (missing, unexpected)
    model.tie_weights()
    with torch.no_grad():
        return model(torch.tensor([TOKENS])).logits[0].numpy().astype(np.float32)


if __name__ == "__main__":
    sys.exit(main())
