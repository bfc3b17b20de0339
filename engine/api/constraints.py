"""How a request says what its answer may be: `response_format`, and the fields that other engines have for it.

Beside OpenAI's kinds `response_format` may be `{"type": "regex", "pattern": ...}`, `{"type": "choice", "choices":
[...]}`, `{"type": "grammar", "grammar": ...}` or a structural tag. The fields `guided_json`, `guided_regex`,
`guided_choice`, `guided_grammar` and `structured_outputs` mean what they mean to vLLM; `guided_canonical` beside one of
these, `canonical` in `structured_outputs` and in any `response_format` are this engine's.
A request may say it in one way only.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, Protocol

from pydantic import ConfigDict, Field

from ..errors import RequestError
from .wire import WireConstraint

Syntax = Literal["grammarbnf", "gbnf", "ebnf", "lark"]
GRAMMAR_OPTIONS = ("order", "whitespace", "spelling", "canonical")

Source = tuple[str, Any, Mapping[str, Any]]
"""Kind, source and options of a grammar, for `EngineService.compile`."""


class JsonSchemaFormat(WireConstraint):
    """`response_format.json_schema`. `strict` is accepted and changes nothing: a schema is always enforced exactly.

    `order`, `whitespace`, `spelling` and `canonical` are this engine's extras: how the answer may be written
    (see `slipcast.grammar.GrammarCompiler.json_schema`).
    """

    name: str | None = None
    description: str | None = None
    schema_: dict[str, Any] | bool = Field(alias="schema")
    strict: bool | None = None
    order: Literal["schema", "any"] | None = None
    whitespace: Literal["bounded", "compact", "spaced", "pretty"] | None = None
    spelling: Literal["natural", "any"] | None = None
    canonical: bool | None = None


class TextFormat(WireConstraint):
    """No constraint."""

    type: Literal["text"]


class JsonObjectFormat(WireConstraint):
    """Any JSON object; with `schema`, as some clients send it, the same as `json_schema`."""

    type: Literal["json_object"]
    schema_: dict[str, Any] | bool | None = Field(default=None, alias="schema")
    canonical: bool | None = None


class JsonSchemaResponseFormat(WireConstraint):
    """A value of this schema and nothing else."""

    type: Literal["json_schema"]
    json_schema: JsonSchemaFormat


class RegexFormat(WireConstraint):
    """`response_format`: a text that the ECMA-262 pattern matches as a whole."""

    type: Literal["regex"]
    pattern: str
    canonical: bool | None = None


class ChoiceFormat(WireConstraint):
    """`response_format`: one of these texts."""

    type: Literal["choice"]
    choices: list[str] = Field(min_length=1)
    canonical: bool | None = None


class GrammarFormat(WireConstraint):
    """`response_format`: a text of a context-free grammar. Without `syntax` it is told from the text: `::=` is EBNF's
    sign, which covers GBNF's, and what has none is Lark's.
    """

    type: Literal["grammar"]
    grammar: str
    syntax: Syntax | None = None
    start: str | None = None
    canonical: bool | None = None


class StructuralTagFormat(WireConstraint):
    """`response_format`: free text with constrained segments. Its own fields are read by the grammar compiler."""

    model_config = ConfigDict(extra="allow")
    type: Literal["structural_tag"]
    canonical: bool | None = None


ResponseFormat = Annotated[
    TextFormat
    | JsonObjectFormat
    | JsonSchemaResponseFormat
    | RegexFormat
    | ChoiceFormat
    | GrammarFormat
    | StructuralTagFormat,
    Field(discriminator="type"),
]


class StructuredOutputs(WireConstraint):
    """vLLM's `structured_outputs`: one of its fields. `json` is a schema, or the JSON text of one; so for
    `structural_tag`. `grammar` is EBNF, or Lark's.
    """

    json_: dict[str, Any] | bool | str | None = Field(default=None, alias="json")
    regex: str | None = None
    choice: list[str] | None = Field(default=None, min_length=1)
    json_object: bool | None = None
    grammar: str | None = None
    structural_tag: dict[str, Any] | str | None = None
    canonical: bool | None = None


class Guided(Protocol):
    """The fields of a request that are read here."""

    @property
    def response_format(self) -> ResponseFormat | None: ...

    @property
    def guided_json(self) -> dict[str, Any] | bool | str | None: ...

    @property
    def guided_regex(self) -> str | None: ...

    @property
    def guided_choice(self) -> list[str] | None: ...

    @property
    def guided_grammar(self) -> str | None: ...

    @property
    def guided_canonical(self) -> bool | None: ...

    @property
    def structured_outputs(self) -> StructuredOutputs | None: ...


def grammar_source(wanted: ResponseFormat | None) -> Source | None:
    """Kind, source and options of the grammar that `response_format` asks for; None for free text."""
    if isinstance(wanted, JsonSchemaResponseFormat):
        chosen = wanted.json_schema
        options = {name: value for name in GRAMMAR_OPTIONS if (value := getattr(chosen, name)) is not None}
        return "json_schema", chosen.schema_, options
    if isinstance(wanted, JsonObjectFormat):
        kind = "json_object" if wanted.schema_ is None else "json_schema"
        return kind, wanted.schema_, _canonical(wanted)
    if isinstance(wanted, RegexFormat):
        return "regex", wanted.pattern, _canonical(wanted)
    if isinstance(wanted, ChoiceFormat):
        return "choice", tuple(wanted.choices), _canonical(wanted)
    if isinstance(wanted, GrammarFormat):
        start = {} if wanted.start is None else {"start": wanted.start}
        options = {"syntax": wanted.syntax or _syntax(wanted.grammar), **start, **_canonical(wanted)}
        return "grammar", wanted.grammar, options
    if isinstance(wanted, StructuralTagFormat):
        return "structural_tag", wanted.model_dump(exclude={"canonical"}), _canonical(wanted)
    return None


def _canonical(
    wanted: JsonObjectFormat | RegexFormat | ChoiceFormat | GrammarFormat | StructuralTagFormat,
) -> dict[str, Any]:
    """The option to take only tokens that the tokenizer itself would give, if it is given."""
    return {} if wanted.canonical is None else {"canonical": wanted.canonical}


def _syntax(grammar: str) -> Syntax:
    return "ebnf" if "::=" in grammar else "lark"


def constraint_field(request: object) -> str | None:
    """The field in which a request says what its answer may be; None for `response_format`, and where none does."""
    names = ("guided_json", "guided_regex", "guided_choice", "guided_grammar", "structured_outputs", "schema_")
    found = (name for name in ("response_format", *names) if getattr(request, name, None) is not None)
    name = next(found, "response_format")
    return None if name == "response_format" else name.removesuffix("_")


def one_source(request: Guided) -> Source | None:
    """The grammar that the request asks for, in whichever way; None for free text.

    Raises RequestError if it asks for several.
    """
    wanted = grammar_source(request.response_format)
    found = [] if wanted is None else [("response_format", wanted)]
    named: list[tuple[str, str, Any]] = [
        ("guided_json", "json_schema", request.guided_json),
        ("guided_regex", "regex", request.guided_regex),
        ("guided_choice", "choice", request.guided_choice),
        ("guided_grammar", "grammar", request.guided_grammar),
    ]
    outputs = request.structured_outputs
    if outputs is not None:
        named += [
            ("structured_outputs.json", "json_schema", outputs.json_),
            ("structured_outputs.regex", "regex", outputs.regex),
            ("structured_outputs.choice", "choice", outputs.choice),
            ("structured_outputs.json_object", "json_object", outputs.json_object or None),
            ("structured_outputs.grammar", "grammar", outputs.grammar),
            ("structured_outputs.structural_tag", "structural_tag", outputs.structural_tag),
        ]
    canonical = {"guided": request.guided_canonical, "structured_outputs": outputs.canonical if outputs else None}
    for name, kind, source in named:
        if source is not None:
            options: dict[str, Any] = {"syntax": _syntax(source)} if kind == "grammar" else {}
            asked = canonical.pop(name.partition("_" if name.startswith("guided") else ".")[0], None)
            if asked is not None:
                options["canonical"] = asked
            found.append((name, (kind, None if kind == "json_object" else source, options)))
    if len(found) > 1:
        first, second = found[0][0], found[1][0]
        raise RequestError(f"{first} and {second} both say what the answer may be", param=second, remedy="give one")
    for where, field in (("guided", "guided_canonical"), ("structured_outputs", "structured_outputs.canonical")):
        if canonical.get(where) is not None:
            raise RequestError(f"{field} is about nothing: no constraint stands beside it", param=field)
    return found[0][1] if found else None
