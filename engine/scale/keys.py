"""What a request will find warm: keys of its prompt's beginning and of its grammar. And its seed."""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, Final

PIECE: Final = 512
MOST_PIECES: Final = 16
# What may stand in a body and decide the grammar.
GRAMMAR_FIELDS: Final = (
    "response_format", "tools", "tool_choice", "text", "guided_json", "guided_regex", "guided_choice", "guided_grammar",
    "structured_outputs",
)  # fmt: skip
SEEDED: Final = frozenset({"/v1/chat/completions", "/v1/completions", "/v1/responses"})
PROMPT_FIELDS: Final = ("messages", "prompt", "instructions", "input")


@dataclass(frozen=True, slots=True)
class WarmKeys:
    """`prefixes`: of the prompt's beginning, each longer than the one before; `grammar`: "" without one."""

    prefixes: tuple[str, ...] = ()
    grammar: str = ""


def warm_keys(body: Any) -> WarmKeys:
    """The keys of a parsed body; none where it is no request for an answer."""
    if not isinstance(body, Mapping):
        return WarmKeys()
    said = [body[name] for name in PROMPT_FIELDS if body.get(name)]
    model = str(body.get("model") or "")
    text = _text(said)
    prefixes: list[str] = []
    chain = blake2b(model.encode(), digest_size=12)
    for start in range(0, min(len(text), PIECE * MOST_PIECES), PIECE):
        piece = text[start : start + PIECE]
        if len(piece) < PIECE and prefixes:
            break  # the end of a prompt is its own
        chain.update(piece.encode("utf-8", "surrogatepass"))
        prefixes.append(chain.hexdigest())
    shape = {name: body[name] for name in GRAMMAR_FIELDS if body.get(name)}
    # The order of properties shapes a grammar, so keys are not sorted.
    grammar = blake2b(json.dumps([model, shape], default=str).encode(), digest_size=12).hexdigest() if shape else ""
    return WarmKeys(tuple(prefixes), grammar)


def _text(value: Any) -> str:
    """All text of a conversation, in order."""
    if isinstance(value, str):
        return value
    if isinstance(value, Mapping):
        return "\n".join(_text(part) for part in value.values())
    if isinstance(value, Sequence):
        return "\n".join(_text(part) for part in value)
    return str(value)


def seeded(path: str, body: bytes, parsed: Any) -> bytes:
    """The body with a seed, so that another replica would answer the same. The text is kept as it is otherwise."""
    if path not in SEEDED or not isinstance(parsed, dict) or parsed.get("seed") is not None:
        return body
    seed = secrets.randbelow(1 << 31)
    if "seed" in parsed:
        return json.dumps({**parsed, "seed": seed}).encode()
    end = body.rindex(b"}")
    comma = b"," if parsed else b""
    return body[:end] + comma + b'"seed":%d' % seed + body[end:]
