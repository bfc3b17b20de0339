"""From a conversation to token ids: rendered by the model's template, and only the template speaks in special tokens.

A user who writes `<|im_end|>` means those characters. Names of special tokens inside messages are therefore marked
before the template sees them and encoded as plain text afterwards, so that no message can end its own turn or open
another role's.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Protocol

from .api.messages import Message
from .api.templates import ChatTemplate
from .errors import ContextLengthError, RequestError

# Code points that Unicode reserves for use inside programs: neither letters nor blanks to any template.
NONCHARACTERS = tuple(map(chr, range(0xFDD0, 0xFDF0)))
MARK_LENGTH = 16


class PromptTokenizer(Protocol):
    """What a prompt needs of the tokenizer."""

    def encode(self, text: str, /, *, special: bool = True, bos: bool = False) -> Sequence[int]:
        """Token ids; with `special`, names of special tokens become those tokens. `bos` sees to the first of a text."""
        ...

    @property
    def special_names(self) -> Collection[str]:
        """Names that `encode` would turn into special tokens."""
        ...

    def least_tokens(self, text: str, /) -> int:
        """At least so many tokens has the text, found without tokenizing it."""
        ...


def encode_prompt(
    tokenizer: PromptTokenizer,
    template: ChatTemplate,
    messages: Sequence[Message | Mapping[str, Any]],
    *,
    limit: int,
    tools: Sequence[Mapping[str, Any]] | None = None,
    variables: Mapping[str, Any] | None = None,
) -> tuple[int, ...]:
    """The prompt of a conversation; `tools` and `variables` are the template's.

    Raises RequestError for messages that the template refuses or that are no Unicode text, ContextLengthError for a
    text that no tokenizer could fit into `limit` tokens; tokenizing megabytes only to count them takes minutes.
    """
    mark = "".join(secrets.choice(NONCHARACTERS) for _ in range(MARK_LENGTH))
    quote = _quoter(tokenizer.special_names, mark)
    text = template.render(messages, tools=tools, variables=variables, quote=quote)
    check_text(tokenizer, text, limit=limit, param="messages")
    ids: list[int] = []
    for position, piece in enumerate(text.split(mark)):
        if piece or not position:
            ids += tokenizer.encode(piece, special=position % 2 == 0, bos=not position)
    return tuple(ids)


def encode_text(
    tokenizer: PromptTokenizer, text: str, *, limit: int, special: bool = False, bos: bool = True
) -> tuple[int, ...]:
    """The prompt of a plain text. Names of special tokens in it are those tokens if `special`. Raises as
    `encode_prompt`.
    """
    check_text(tokenizer, text, limit=limit, param="prompt")
    return tuple(tokenizer.encode(text, special=special, bos=bos))


def check_text(tokenizer: PromptTokenizer, text: str, *, limit: int, param: str) -> None:
    """Raises RequestError for what is no Unicode text, ContextLengthError for what cannot fit into `limit` tokens."""
    try:
        least = tokenizer.least_tokens(text)
    except UnicodeEncodeError as error:
        raise RequestError(
            f"the text holds half of a surrogate pair, {text[error.start]!a}",
            param=param,
            remedy="send whole characters",
        ) from error
    if least > limit:
        raise ContextLengthError(
            f"the prompt has at least {least} tokens, and the context holds {limit} with the output",
            limit=limit,
            param="prompt",
            remedy="shorten it",
        )


def _quoter(names: Collection[str], mark: str) -> Callable[[str], str]:
    """Puts the mark on both sides of each name in a text."""
    if not names:
        return lambda text: text
    # Of names that begin alike the longest counts, as it does for the tokenizer.
    form = re.compile("|".join(re.escape(name) for name in sorted(names, key=len, reverse=True)))
    return lambda text: form.sub(lambda found: f"{mark}{found.group()}{mark}", text)
