"""Chat templates: the conventions that model files count on, and what an unkind one cannot do."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest
from slipcast.engine import ConfigError, RequestError
from slipcast.engine.api.messages import Message
from slipcast.engine.api.templates import ChatTemplate


def render(source: str, *messages: dict[str, Any], **options: Any) -> str:
    template = ChatTemplate(source, bos_token="<s>", eos_token="</s>", now=lambda: datetime(2024, 7, 26))
    conversation = [Message(**message) for message in messages or ({"role": "user", "content": "hi"},)]
    return template.render(conversation, **options)


def test_chatml() -> None:
    source = (
        "{% for m in messages %}{{'<|im_start|>' + m['role'] + '\\n' + m['content'] + '<|im_end|>'}}\n"
        "{% endfor %}\n{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
    )
    turns = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "hi"}]
    text = "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nhi<|im_end|>\n"
    assert render(source, *turns) == text + "<|im_start|>assistant\n"
    assert render(source, *turns, add_generation_prompt=False) == text


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("{{ bos_token }}{{ eos_token }}", "<s></s>"),
        ("{{ strftime_now('%d %B %Y') }}", "26 July 2024"),
        ("{{ {'a': '<é>'} | tojson }}", '{"a": "<é>"}'),
        ("{{ [1] | tojson(indent=2) }}", "[\n  1\n]"),
        ("{% for i in range(9) %}{% if i == 2 %}{% break %}{% endif %}{{ i }}{% endfor %}", "01"),
        ("{% generation %}text{% endgeneration %}", "text"),
        ("{{ 'a' ~ 1 ~ none }}", "a1None"),
        ("{{ '=' * 3 }}{{ '%02d' % 7 }}{{ '{:>3}'.format(7) }}", "===07  7"),
        ("{% set ns = namespace(n=0) %}{% for m in messages %}{% set ns.n = ns.n + 1 %}{% endfor %}{{ ns.n }}", "1"),
        ("{{ messages[0].content.strip().split('i')[0] }}", "h"),
    ],
)
def test_helpers(source: str, expected: str) -> None:
    assert render(source) == expected


def test_developer_is_system_and_null_is_empty() -> None:
    source = "{% for m in messages %}[{{ m.role }}:{{ m.content }}]{% endfor %}"
    turns = [{"role": "developer", "content": [{"type": "text", "text": "a"}]}, {"role": "assistant", "content": None}]
    assert render(source, *turns) == "[system:a][assistant:]"


def test_tool_calls_reach_templates_that_know_them() -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    source = "{% for m in messages %}{% if m.tool_calls %}{{ m.tool_calls[0].function.name }}{% endif %}{% endfor %}"
    assert render(source, {"role": "assistant", "tool_calls": [call]}) == "f"


def test_a_template_may_refuse_a_conversation() -> None:
    with pytest.raises(RequestError, match="roles must alternate") as caught:
        render("{{ raise_exception('roles must alternate') }}")
    assert caught.value.param == "messages"


@pytest.mark.parametrize("source", ["{% if %}", "{{ x", "{% for %}", "{% nonsense %}"])
def test_what_is_no_template_is_refused_when_it_is_loaded(source: str) -> None:
    with pytest.raises(ConfigError, match="chat template"):
        ChatTemplate(source)


@pytest.mark.parametrize(
    "source",
    [
        "{{ ''.__class__.__mro__ }}",
        "{{ messages.append(1) }}",
        "{{ strftime_now.__globals__.x }}",
        "{% include '/etc/passwd' %}",
        "{{ 'a' * 1000000000 }}",
        "{{ [0] * 1000000000 }}",
        "{{ 9 ** 99999999 }}",
        "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}",
        "{% for i in range(99999) %}{{ messages | tojson(indent=1000) }}{% endfor %}",
        "{% set n = namespace(s='aa') %}{% for i in range(60) %}{% set n.s = n.s ~ n.s %}{% endfor %}",
        "{% set n = namespace(s='aa') %}{% for i in range(60) %}{% set n.s = n.s + n.s %}{% endfor %}",
        "{{ '%999999999d' % 1 }}",
        "{{ '%*d' % (999999999, 1) }}",
        "{{ '{:999999999}'.format(1) }}",
        "{{ '{:{}}'.format(1, 999999999) }}",
        "{{ 'a'.ljust(999999999) }}",
        "{{ 'a' | center(999999999) }}",
        "{{ undefined_name.attribute }}",
        "{{ 1 / 0 }}",
        "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
    ],
)
def test_what_an_unkind_template_cannot_do(source: str) -> None:
    """Each ends quickly with an error about this request (or, where it shows when loading, about the configuration)."""
    with pytest.raises((RequestError, ConfigError)) as caught:
        render(source)
    assert len(str(caught.value)) < 300
