"""Reading a Hugging Face folder: config.json, weights in safetensors or PyTorch files (in shards or not), tokenizer.

The checkpoint has the folder's own terms, `config.json` as metadata; the tokenizer is under GGUF's keys already. The
model's family translates the rest (families/base.py).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from ..errors import ModelFileError, UnsupportedModelError
from .checkpoint import AGAIN, Checkpoint, StoredTensor
from .safetensors import read_safetensors
from .stored_tokenizer import END_KEY, JSON_KEY
from .torch_file import read_torch

_Reader = Callable[[Path], tuple[dict[str, StoredTensor], Callable[[], None]]]
_WEIGHTS: Mapping[str, _Reader] = {"model.safetensors": read_safetensors, "pytorch_model.bin": read_torch}
_MAX_TEXT = 256 << 20


def open_folder(path: Path) -> Checkpoint:
    """Raises ModelFileError for files that are missing or damaged."""
    config = _json(path / "config.json")
    if isinstance(config.get("text_config"), dict):  # a model of images and texts: the part that makes texts
        config = {**config, **config["text_config"], "architectures": config.get("architectures", [])}
    if "quantization_config" in config:
        raise UnsupportedModelError(
            f"{path}: its weights are quantised already, in a way that is not supported",
            path=path,
            remedy="use the model in full precision, or a GGUF file",
        )
    tensors: dict[str, StoredTensor] = {}
    forgets: list[Callable[[], None]] = []
    for file, reader in _weight_files(path):
        found, forget = reader(file)
        tensors |= found
        forgets.append(forget)

    def forget_all() -> None:
        for each in forgets:
            each()

    metadata = {**config, **_tokenizer(path, config)}
    return Checkpoint(path, metadata, tensors, paired_heads=False, forget=forget_all)


def _weight_files(path: Path) -> list[tuple[Path, _Reader]]:
    """The files of the first kind that is there: an index of shards, or the one file."""
    for name, reader in _WEIGHTS.items():
        index = path / f"{name}.index.json"
        if index.is_file():
            shards = _json(index).get("weight_map")
            if not isinstance(shards, dict) or not all(isinstance(shard, str) for shard in shards.values()):
                raise ModelFileError(f"{index}: it has no 'weight_map'", path=index, remedy=AGAIN)
            files = sorted(set(shards.values()))
            for shard in files:
                if Path(shard).name != shard:
                    raise ModelFileError(f"{index}: it names a file elsewhere: {shard!r}", path=index, remedy=AGAIN)
            return [(path / shard, reader) for shard in files]
        if (path / name).is_file():
            return [(path / name, reader)]
    raise ModelFileError(
        f"{path}: it has no weights: neither {' nor '.join(_WEIGHTS)}, nor an index of shards",
        path=path,
        remedy="give the folder of a Hugging Face model, or a GGUF file",
    )


def _json(path: Path, *, optional: bool = False) -> dict[str, Any]:
    if optional and not path.is_file():
        return {}
    try:
        if path.stat().st_size > _MAX_TEXT:
            raise ModelFileError(f"{path}: it is too large", path=path)
        found = json.loads(path.read_text("utf-8"))
    except FileNotFoundError as error:
        remedy = "give the folder of a Hugging Face model, or a GGUF file"
        raise ModelFileError(f"{path}: no such file", path=path, remedy=remedy) from error
    except OSError as error:
        raise ModelFileError(f"{path}: cannot be read: {error.strerror or error}", path=path) from error
    except (ValueError, RecursionError) as error:
        raise ModelFileError(f"{path}: it is not JSON: {error}", path=path, remedy=AGAIN) from error
    if not isinstance(found, dict):
        raise ModelFileError(f"{path}: it is no JSON object", path=path, remedy=AGAIN)
    return found


def _tokenizer(path: Path, config: Mapping[str, Any]) -> dict[str, Any]:
    """GGUF's keys for what tokenizer.json, tokenizer_config.json and generation_config.json say."""
    tokenizer = _json(path / "tokenizer.json")
    extra = _json(path / "tokenizer_config.json", optional=True)
    generation = _json(path / "generation_config.json", optional=True)
    tokens = _tokens(path / "tokenizer.json", tokenizer)
    ids = {token: i for i, token in enumerate(tokens) if token}
    ends: list[int] = []
    for value in (generation.get("eos_token_id"), config.get("eos_token_id"), ids.get(_name(extra, "eos_token"))):
        ends += value if isinstance(value, list) else [value] if value is not None else []
    ends = [end for end in dict.fromkeys(ends) if isinstance(end, int) and 0 <= end < len(tokens)]
    bos = ids.get(_name(extra, "bos_token"), config.get("bos_token_id"))
    bos = bos if isinstance(bos, int) and 0 <= bos < len(tokens) else None
    found = {
        JSON_KEY: json.dumps(tokenizer, ensure_ascii=False),
        "tokenizer.ggml.model": "huggingface",
        "tokenizer.ggml.tokens": tuple(tokens),
        "tokenizer.ggml.add_bos_token": bos is not None and _adds(tokenizer, extra, tokens[bos]),
        "tokenizer.chat_template": _template(path, extra),
        "tokenizer.ggml.bos_token_id": bos,
        "tokenizer.ggml.eos_token_id": ends[0] if ends else None,
        "tokenizer.ggml.padding_token_id": ids.get(_name(extra, "pad_token")),
        END_KEY: tuple(ends) or None,
    }
    return {key: value for key, value in found.items() if value is not None}


def _tokens(path: Path, tokenizer: Mapping[str, Any]) -> list[str]:
    """Every id's spelling, "" for ids that nothing has."""
    try:
        vocabulary = tokenizer["model"]["vocab"]
        named = dict(vocabulary) if isinstance(vocabulary, dict) else {t: i for i, (t, _) in enumerate(vocabulary)}
        named |= {added["content"]: added["id"] for added in tokenizer.get("added_tokens") or ()}
        tokens = [""] * (max(named.values()) + 1)
        for token, id_ in named.items():
            tokens[id_] = token
    except (KeyError, TypeError, ValueError, IndexError, MemoryError, AttributeError) as error:
        raise ModelFileError(f"{path}: it has no usable vocabulary", path=path, remedy=AGAIN) from error
    return tokens


def _name(extra: Mapping[str, Any], key: str) -> str:
    """A special token's spelling, which may be wrapped in an object; "" where there is none."""
    value = extra.get(key)
    value = value.get("content") if isinstance(value, dict) else value
    return value if isinstance(value, str) else ""


def _adds(tokenizer: Mapping[str, Any], extra: Mapping[str, Any], bos: str) -> bool:
    """Whether a text begins with the beginning's token: said so, or done by the post-processor."""
    said = extra.get("add_bos_token")
    return said if isinstance(said, bool) else bos in json.dumps(tokenizer.get("post_processor"), ensure_ascii=False)


def _template(path: Path, extra: Mapping[str, Any]) -> str | None:
    """The chat template: in a file of its own, in the configuration, or the default one of several."""
    file = path / "chat_template.jinja"
    if file.is_file():
        return file.read_text("utf-8", errors="replace")
    found = extra.get("chat_template")
    if isinstance(found, list):
        named = {entry.get("name"): entry.get("template") for entry in found if isinstance(entry, dict)}
        found = named.get("default")
    return found if isinstance(found, str) else None
