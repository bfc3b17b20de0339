"""Chat templates: the Jinja2 source that a model file carries, rendered in a sandbox.

The conventions are those of Hugging Face's `apply_chat_template`: blocks trimmed, `messages`, `tools`,
`add_generation_prompt`, `bos_token` and `eos_token` as variables, the helpers `raise_exception` and `strftime_now`,
a `tojson` that does not escape for HTML, loop controls, and `{% generation %}` blocks, which only mark text for
training.

A template comes with a downloaded file, so it is not trusted: it reaches nothing outside the sandbox, and the short
ways of making much out of little (nested counting loops, doubling, repetition, padding) are bounded before the
result is made.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence, Sized
from datetime import datetime
from decimal import Decimal
from hashlib import sha256
from typing import Any, NoReturn

import jinja2
import jinja2.meta
from jinja2.compiler import CodeGenerator, Frame
from jinja2.ext import Extension
from jinja2.nodes import Concat, Node
from jinja2.parser import Parser
from jinja2.runtime import Context
from jinja2.sandbox import ImmutableSandboxedEnvironment

from ..errors import ConfigError, RequestError
from .messages import Message

MAX_PROMPT_CHARACTERS = 8 << 20
MAX_SOURCE_CHARACTERS = 1 << 20
MAX_RANGE_ITEMS = 100_000
MAX_REPETITION = 1000
MAX_POWER = 64
MAX_INDENT = 16
# These make text of any length out of a short template, and no chat template needs them.
REFUSED_FILTERS = ("center", "format", "wordwrap", "urlize", "batch", "slice")
PADDING_METHODS = ("ljust", "rjust", "center", "zfill", "expandtabs")


class TemplateLimitError(jinja2.TemplateError):
    """The template does more work than a conversation can need."""


class ChatTemplate:
    """A compiled chat template. Stateless once made; any thread may render.

    `bos_token` and `eos_token` are the texts of those tokens, empty where the model has none.
    Raises ConfigError if the source is no Jinja2 template.
    """

    def __init__(
        self,
        source: str,
        *,
        bos_token: str = "",
        eos_token: str = "",
        now: Callable[[], datetime] = datetime.now,
    ) -> None:
        if len(source) > MAX_SOURCE_CHARACTERS:
            raise ConfigError(
                f"the chat template has {len(source)} characters, more than {MAX_SOURCE_CHARACTERS}",
                key="chat_template",
            )
        environment = _Environment(
            trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols", _Generation]
        )
        for name in REFUSED_FILTERS:
            del environment.filters[name]
        environment.filters["tojson"] = _tojson
        environment.globals.update(
            raise_exception=_raise_exception,
            strftime_now=lambda form: now().strftime(form),
            bos_token=bos_token,
            eos_token=eos_token,
        )
        self.source = source
        self._short_ids = re.search(r"length\s*!=\s*9\b", source) is not None
        try:
            self._template = environment.from_string(source)
            self.knows_tools = "tools" in jinja2.meta.find_undeclared_variables(environment.parse(source))
        except (jinja2.TemplateError, RecursionError) as error:
            raise ConfigError(
                f"the chat template is not a valid Jinja2 template: {error}",
                key="chat_template",
                remedy="give another one as chat_template",
            ) from error

    def render(
        self,
        messages: Sequence[Message | Mapping[str, Any]],
        *,
        tools: Sequence[Mapping[str, Any]] | None = None,
        add_generation_prompt: bool = True,
        variables: Mapping[str, Any] | None = None,
        quote: Callable[[str], str] = lambda text: text,
    ) -> str:
        """The prompt for these messages, with the opening of the assistant's turn at its end unless told otherwise.

        `tools`: in OpenAI's form, for templates that `knows_tools`. `variables`: what else a template may ask for, as
        `enable_thinking`. `quote` is applied to each text of the messages and tools before the template sees it. Raises
        RequestError if the template refuses the conversation or exceeds its limits.
        """
        plain = [_quoted(_plain(message, short_ids=self._short_ids), quote) for message in messages]
        for message in plain:
            for call in message.get("tool_calls", ()):
                call["function"]["arguments"] = _arguments(call["function"]["arguments"])
        pieces: list[str] = []
        length = 0
        try:
            for piece in self._template.generate(
                **(variables or {}),
                messages=plain,
                tools=_quoted(list(tools), quote) if tools else None,
                add_generation_prompt=add_generation_prompt,
                range=_Ranges(),
            ):
                length += len(piece)
                _check_size(length)
                pieces.append(piece)
        except RequestError:
            raise
        except Exception as error:
            # A template is a program: whatever it raises is about these messages, and ends this request alone.
            raise RequestError(f"the chat template cannot render these messages: {error}", param="messages") from error
        return "".join(pieces)


def _plain(message: Message | Mapping[str, Any], *, short_ids: bool) -> dict[str, Any]:
    """The message as templates expect it: text content, `system` for OpenAI's newer name, absent fields absent."""
    if not isinstance(message, Message):
        return dict(message)
    plain: dict[str, Any] = {
        "role": "system" if message.role == "developer" else message.role,
        "content": message.text or (message.refusal or "" if message.role == "assistant" else ""),
    }
    name_id = _short_id if short_ids else str
    if message.name is not None:
        plain["name"] = message.name
    if message.reasoning_content is not None:
        plain["reasoning_content"] = message.reasoning_content
    if message.tool_call_id is not None:
        plain["tool_call_id"] = name_id(message.tool_call_id)
    if message.tool_calls:
        plain["tool_calls"] = [{**call.model_dump(), "id": name_id(call.id)} for call in message.tool_calls]
    return plain


def _short_id(text: str) -> str:
    """The id of a call as Mistral's templates demand it, nine letters and digits, from any other."""
    return text if len(text) == 9 and text.isalnum() else sha256(text.encode("utf-8", "replace")).hexdigest()[:9]


class _Arguments(dict[str, Any]):
    """Arguments of a call: an object to templates that write JSON themselves, a text to those that join texts."""

    def __str__(self) -> str:
        return _tojson(self)

    def __add__(self, other: str) -> str:
        return str(self) + other

    def __radd__(self, other: str) -> str:
        return other + str(self)


def _arguments(text: str) -> _Arguments | str:
    """The arguments for a template; what is no JSON object stays the text that it is."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return text
    return _Arguments(value) if isinstance(value, dict) else text


def _quoted(value: Any, quote: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        return quote(value)
    if isinstance(value, list):
        return [_quoted(item, quote) for item in value]
    if isinstance(value, dict):
        return {key: _quoted(item, quote) for key, item in value.items()}
    return value


def _tojson(value: Any, *, indent: int | None = None, ensure_ascii: bool = False, **options: Any) -> str:
    """JSON as models were trained on it: Jinja2's own filter escapes `<`, `>`, `&` and `'` for HTML."""
    sort_keys = bool(options.get("sort_keys", False))
    separators = options.get("separators")
    if indent is not None and indent > MAX_INDENT:
        raise TemplateLimitError(f"an indent of {indent} is more than {MAX_INDENT}")
    return json.dumps(
        value, indent=indent, ensure_ascii=ensure_ascii, sort_keys=sort_keys, separators=separators, default=_number
    )


def _number(value: Any) -> Any:
    """Numbers of schemas are kept exactly as they came."""
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() and abs(value) < 1 << 53 else float(value)
    raise TypeError(f"{type(value).__name__} is no JSON")


def _raise_exception(message: object) -> NoReturn:
    raise RequestError(f"the chat template refuses these messages: {message}", param="messages")


class _Generation(Extension):
    """`{% generation %}...{% endgeneration %}` renders as its body."""

    tags = {"generation"}  # noqa: RUF012  (declared as an instance attribute by Jinja2)

    def parse(self, parser: Parser) -> Node | list[Node]:
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


class _Ranges:
    """`range` with one allowance for a whole rendering, so that nested loops cannot multiply it."""

    def __init__(self) -> None:
        self._left = MAX_RANGE_ITEMS

    def __call__(self, *bounds: int) -> range:
        items = range(*bounds)
        self._left -= len(items)
        if self._left < 0:
            raise TemplateLimitError(f"the loops count to more than {MAX_RANGE_ITEMS} together")
        return items


class _Code(CodeGenerator):
    """Sends `a ~ b` through the environment, as the sandbox does with the other operators."""

    def visit_Concat(self, node: Concat, frame: Frame) -> None:
        self.write("environment.joined((")
        for part in node.nodes:
            self.visit(part, frame)
            self.write(", ")
        self.write("))")


class _Environment(ImmutableSandboxedEnvironment):
    """The sandbox, with the operators bounded that make much out of little."""

    code_generator_class = _Code
    intercepted_binops = frozenset({"*", "**", "%", "+"})

    def joined(self, parts: Sequence[Any]) -> str:
        """The operator `~`."""
        texts = [str(part) for part in parts]
        _check_size(sum(map(len, texts)))
        return "".join(texts)

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        if operator == "+" and isinstance(left, Sized) and isinstance(right, Sized):
            _check_size(len(left) + len(right))
        elif operator == "%" and isinstance(left, str):
            _check_widths(left)
        elif operator in ("*", "**"):
            _check_repetition(operator, left, right)
        return super().call_binop(context, operator, left, right)

    def call(self, context: Context, obj: Any, *args: Any, **kwargs: Any) -> Any:
        owner, name = getattr(obj, "__self__", None), getattr(obj, "__name__", "")
        if isinstance(owner, str) and name in PADDING_METHODS:
            raise TemplateLimitError(f"str.{name} is not available in chat templates")
        return super().call(context, obj, *args, **kwargs)

    def wrap_str_format(self, value: Any) -> Callable[..., str] | None:
        """Where the sandbox replaces `str.format` by its own."""
        wrapped = super().wrap_str_format(value)
        if wrapped is not None:
            _check_widths(value.__self__)
        return wrapped


def _check_size(size: int) -> None:
    if size > MAX_PROMPT_CHARACTERS:
        raise TemplateLimitError(f"a text exceeds {MAX_PROMPT_CHARACTERS} characters")


def _check_widths(form: str) -> None:
    """Refuse formats with a width of four digits or more, or one that comes from an argument."""
    if re.search(r"\d{4}|%[^a-zA-Z%]*\*|\{[^{}]+\{", form):
        raise TemplateLimitError("a format asks for a padded width of that size")


def _check_repetition(operator: str, left: Any, right: Any) -> None:
    """Refuse products whose size is no business of a template: long repetitions, big powers."""
    sized = next((value for value in (left, right) if isinstance(value, Sized)), None)
    if sized is not None:
        times = right if sized is left else left
        if isinstance(times, int) and len(sized) * times > MAX_REPETITION:
            raise TemplateLimitError(f"a repetition exceeds {MAX_REPETITION} items")
    elif any(abs(value) > 1 << 53 for value in (left, right)) or (operator == "**" and abs(right) > MAX_POWER):
        raise TemplateLimitError("a number is too big")
