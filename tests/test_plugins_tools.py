"""The shipped tool-call formats: which model has which, what they let a model write, and how they read it again."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from slipcast.plugins import CallDelta, ContentDelta, Tool, ToolDelta, ToolFormat, create_manager
from slipcast.plugins.call_syntax import CallSyntax
from slipcast.plugins.shipped_tools import FORMATS

TOOLS = [Tool(name, f"Does {name}.", {"type": "object"}) for name in ("get", "get_all", "a.b-c")]
IDS = [f"{form.name}-{position}" for position, form in enumerate(FORMATS)]
SAID = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "Well?"},
    {
        "role": "assistant",
        "content": "",
        "tool_calls": [{"id": "1", "function": {"name": "get", "arguments": '{"a": 1}'}}],
    },
    {"role": "tool", "tool_call_id": "1", "content": "seven"},
    {"role": "user", "content": "And?"},
]

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8) | st.sampled_from(["}", '"', "\\", "</tool_call>"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)
arguments = st.dictionaries(st.text(max_size=4), values, max_size=3)
calls = st.lists(st.tuples(st.sampled_from([tool.name for tool in TOOLS]), arguments), min_size=1, max_size=3)


def written(form: CallSyntax, made: list[tuple[str, Any]]) -> str:
    """The calls as a model of this format writes them."""
    texts = [f"{form.begin}{name}{form.middle}{json.dumps(value)}{form.end}" for name, value in made]
    return f"{form.opening}{form.separator.join(texts)}{form.closing}"


def read(form: ToolFormat, *pieces: str) -> tuple[str, list[tuple[str, str]]]:
    """Content and calls of a text that comes in these pieces; every delta is checked on the way."""
    parser = form.parser(TOOLS)
    deltas: list[ToolDelta] = [delta for piece in pieces for delta in parser.push(piece)] + list(parser.end())
    content = "".join(delta.text for delta in deltas if isinstance(delta, ContentDelta))
    found: list[tuple[str, str]] = []
    for delta in deltas:
        if isinstance(delta, CallDelta):
            if delta.name is not None:
                assert (delta.index, delta.arguments) == (len(found), "")
                found.append((delta.name, ""))
            else:
                assert delta.index == len(found) - 1
                found[-1] = (found[-1][0], found[-1][1] + delta.arguments)
        else:
            assert delta.text
    return content, found


@pytest.mark.parametrize("form", FORMATS, ids=IDS)
@settings(max_examples=30, deadline=None)
@given(before=st.sampled_from(["", "Let me see. ", "{", "<tool", "\n\n"]), made=calls)
def test_calls_are_read_as_they_are_written(form: CallSyntax, before: str, made: list[tuple[str, Any]]) -> None:
    content, found = read(form, before + written(form, made))
    assert content == before
    assert [(name, json.loads(text)) for name, text in found] == made


pieces_of_texts = st.lists(
    st.one_of(
        calls.map(lambda made: ("calls", made)),
        st.sampled_from(['{"name": "', '{"name": "get", "arg', "}", "\n", " ", "text", "[TOOL_CALLS]", "<tool_call>"]),
        st.text(max_size=6),
    ),
    max_size=4,
)


@pytest.mark.parametrize("form", FORMATS, ids=IDS)
@settings(max_examples=50, deadline=None)
@given(parts=pieces_of_texts, cuts=st.lists(st.integers(0, 400), max_size=12), keep=st.integers(0, 400))
def test_any_cutting_reads_the_same(form: CallSyntax, parts: list[Any], cuts: list[int], keep: int) -> None:
    """Whole, letter by letter, or cut anywhere; the text may be of this format or not, and end in the middle."""
    text = "".join(part if isinstance(part, str) else written(form, part[1]) for part in parts)[: keep or None]
    places = sorted({0, len(text), *(cut for cut in cuts if cut < len(text))})
    pieces = [text[start:end] for start, end in pairwise(places)]
    whole = read(form, text)
    assert read(form, *pieces) == whole
    assert read(form, *text) == whole


@pytest.mark.parametrize("form", FORMATS, ids=IDS)
@settings(max_examples=20, deadline=None)
@given(text=st.text(alphabet='{"name: get}<tool_call>[TOOL_CALLS] \n', max_size=60))
def test_no_text_is_lost(form: CallSyntax, text: str) -> None:
    content, found = read(form, text)
    if not found:
        assert content == text


@pytest.mark.parametrize("form", FORMATS, ids=IDS)
@pytest.mark.parametrize("parallel", [True, False])
def test_what_a_model_may_write(form: CallSyntax, parallel: bool) -> None:
    """The structural tag's own texts, put together, are what the parser reads."""
    spec = form.constraint(TOOLS, "required", parallel=parallel)
    assert spec is not None

    def spell(part: Any) -> str:
        if part["type"] == "sequence":
            return "".join(map(spell, part["elements"]))
        if part["type"] == "const_string":
            return str(part["value"])
        if part["type"] == "tags_with_separator":
            assert part["stop_after_first"] is not parallel
            return str(part["separator"]).join(map(spell, part["tags"] if parallel else part["tags"][:1]))
        return f'{part["begin"]}{{"x": "}}"}}{part["end"]}'

    content, found = read(form, spell(spec["format"]))
    assert content == ""
    assert [name for name, _ in found] == [tool.name for tool in TOOLS][: None if parallel else 1]
    free = form.constraint(TOOLS, "auto", parallel=parallel)
    assert free is not None
    assert all(tag["begin"].startswith(form.trigger) for tag in free["format"]["tags"])
    assert form.constraint(TOOLS, "none", parallel=parallel) is None
    either = form.constraint(TOOLS, "auto", parallel=parallel, content={"type": "integer"})
    assert either is not None
    assert either["format"]["elements"][-1] == {"type": "json_schema", "json_schema": {"type": "integer"}}


@pytest.mark.parametrize("form", FORMATS, ids=IDS)
def test_a_conversation_for_a_template_that_knows_no_tools(form: CallSyntax) -> None:
    told = form.render(SAID, TOOLS)
    roles = [message["role"] for message in told]
    assert roles == ["system", "user", "assistant", "user"]
    assert all(set(message) == {"role", "content"} for message in told)
    place = told[0 if form.place == "system" else 1]["content"]
    assert "Does get_all." in place and form.middle in place
    assert read(form, told[2]["content"]) == ("", [("get", '{"a": 1}')])
    assert told[3]["content"] == "Result of get:\nseven\n\nAnd?"
    assert [message["content"] for message in form.render(SAID, [])][:2] == ["Be brief.", "Well?"]


# The parts of published chat templates that tell the families apart.
TEMPLATES = {
    "hermes": (r"""{%- if tools %}{{- "</tools>\n<tool_call>\n{\"name\": <name>, \"arguments\": <args>}\n" }}"""),
    "llama3": """<|start_header_id|>{{- '{"name": "' + call.name + '", ' }}{{- '"parameters": ' }}""",
    "mistral": """{{- "[TOOL_CALLS][" }}{{- '{"name": "' }}""",
    "phi": "<|tool|>{{ message['tools'] }}<|/tool|>",
    "gemma": "{{ '<start_of_turn>' + role }}",
    "deepseek": "<｜tool▁calls▁begin｜>{{ '```json' }}",  # noqa: RUF001
}


def test_models_are_told_by_their_templates() -> None:
    plugins = create_manager()
    for name, template in TEMPLATES.items():
        found = plugins.tool_format("auto", template)
        assert found is not None and found.name == name
    assert plugins.tool_format("auto", "{% for m in messages %}<|im_start|>{{ m.role }}{% endfor %}") is None
    # Qwen 3 Coder writes XML, which is none of these.
    assert plugins.tool_format("auto", "<tool_call>\n<function={{ name }}>") is None
    variants = {
        'x [TOOL_CALLS] [{"name"': "[TOOL_CALLS] [",
        "[TOOL_CALLS]{{ name }}[ARGS]": "",
        "[TOOL_CALLS][": "[TOOL_CALLS][",
    }
    for template, opening in variants.items():
        form = plugins.tool_format("mistral", template)
        assert isinstance(form, CallSyntax) and form.opening == opening
