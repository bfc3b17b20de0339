"""Structural tags: the JSON form in which clients of other servers describe free text with constrained segments.

    {"type": "structural_tag", "format": FORMAT}
    {"structures": [{"begin": "...", "schema": {...}, "end": "..."}], "triggers": ["..."]}     the older form

A format is an object by its `type`: const_string, json_schema, regex, grammar, any_text, sequence, or, optional, plus,
star, repeat, tag, triggered_tags, tags_with_separator, dispatch, token, exclude_token, any_tokens,
token_triggered_tags, token_dispatch. The vocabulary of these is that of xgrammar's and vLLM's documentation; what they
mean is what ours means:

- free text within a tag (any_text, or what is around triggered tags) does not hold what ends the innermost tag around
  it, nor do free tokens hold the token that does;
- triggered tags with `at_least_one` begin with a tag at once;
- a field that is null is one that is not given.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any, Final

from ..automaton.specs import Whitespace
from ..errors import SchemaError, UnsupportedError
from ..frozen import frozen
from ..regular import Language, whole_pattern
from .ir import (
    Choice,
    Free,
    Grammar,
    JsonSchema,
    Node,
    Reference,
    Regex,
    Repeat,
    Sequence,
    Tag,
    Text,
    Token,
)
from .macros import dispatch_on_tokens
from .parameters import STYLES, Parameters
from .read import read
from .triggers import text_without
from .walk import renamed

MAX_DEPTH: Final = 60
_MOST_SPACE: Final = 64
Given = Mapping[str, Any]


@frozen
class _Ends:
    """What ends the innermost tag around a format."""

    texts: tuple[str, ...] = ()
    token: Token = Token()


_Handler = Callable[[Given, str, _Ends], Node]
_OUTSIDE: Final = _Ends()


def read_structural_tag(spec: Any, options: Given) -> Grammar:
    """The grammar of a structural tag: Python objects or JSON text. `options` are those of embedded schemas.

    Raises SchemaError for a malformed one, UnsupportedError for a style or type that is known and not done, each with
    its pointer, and what embedded grammars and patterns raise.
    """
    if isinstance(spec, str):
        spec = _parsed(spec, "the structural tag", "", "structural_tag")
    if not isinstance(spec, Mapping):
        raise SchemaError("a structural tag is an object", keyword="structural_tag", pointer="")
    reader = _Reader(options)
    if "structures" in spec:
        node = reader.structures(spec)
    elif spec.get("type") == "structural_tag":
        node = reader.node(reader.field(spec, "", "format", Mapping), "/format", _OUTSIDE)
    else:
        node = reader.node(spec, "", _OUTSIDE)
    return Grammar({**reader.rules, "root": node}, "root", "structural_tag")


def exact_json(spec: Any) -> str:
    """A specification as JSON text, its Decimals digit by digit. Raises TypeError and ValueError for other objects."""
    mark = f"\x00{secrets.token_hex(8)}\x00"

    def marked(value: Any) -> str:
        if isinstance(value, Decimal) and value.is_finite():
            return f"{mark}{value}{mark}"
        raise TypeError(f"{type(value).__name__} is no JSON")

    text = json.dumps(spec, default=marked, ensure_ascii=False)
    quoted = json.dumps(mark)[1:-1]
    return text.replace(f'"{quoted}', "").replace(f'{quoted}"', "")


class _Reader:
    def __init__(self, options: Given) -> None:
        self.rules: dict[str, Node] = {}
        self._options = dict(options)
        self._inner_rules = 0
        self._depth = 0
        self._handlers: dict[str, _Handler] = {
            "const_string": self._const_string,
            "json_schema": self._json_schema,
            "regex": self._regex,
            "grammar": self._grammar,
            "any_text": self._any_text,
            "sequence": self._sequence,
            "or": self._or,
            "optional": lambda given, at, ends: Repeat(self._inner(given, at, ends), 0, 1),
            "plus": lambda given, at, ends: Repeat(self._inner(given, at, ends), 1, None),
            "star": lambda given, at, ends: Repeat(self._inner(given, at, ends), 0, None),
            "repeat": self._repeat,
            "tag": lambda given, at, ends: self._tag(given, at),
            "triggered_tags": self._triggered_tags,
            "tags_with_separator": lambda given, at, ends: self._tags_with_separator(given, at),
            "dispatch": self._dispatch,
            "token": lambda given, at, ends: self._one_token(given, at),
            "exclude_token": self._exclude_token,
            "any_tokens": self._any_tokens,
            "token_triggered_tags": self._token_triggered_tags,
            "token_dispatch": self._token_dispatch,
            "qwen_xml_parameter": self._qwen_xml_parameter,
        }

    def structures(self, spec: Given) -> Node:
        """The older form: triggered tags with a schema in each."""
        self._known(spec, "", "type", "structures", "triggers")
        tags = []
        for i, given in enumerate(self.field(spec, "", "structures", list)):
            at = f"/structures/{i}"
            self._known(given, at, "begin", "schema", "end")
            schema = self._schema(self.field(given, at, "schema", Mapping, bool, str), self._options)
            tags.append(Tag(self.field(given, at, "begin", str), schema, self.field(given, at, "end", str, default="")))
        return self._free(spec, "", tuple(tags), _OUTSIDE)

    def node(self, given: Any, at: str, ends: _Ends) -> Node:
        """The node of a format. `ends`: of the innermost tag around it."""
        kind = self.field(given, at, "type", str)
        handler = self._handlers.get(kind)
        if handler is None:
            raise SchemaError(
                f"unknown format {kind!r}", pointer=at, keyword="type", remedy=f"one of {', '.join(self._handlers)}"
            )
        if self._depth >= MAX_DEPTH:
            raise SchemaError(f"formats nest deeper than {MAX_DEPTH} levels", pointer=at, keyword="type")
        self._depth += 1
        node = handler(given, at, ends)
        self._depth -= 1
        return node

    def field(self, given: Any, at: str, name: str, *kinds: type, default: Any = ...) -> Any:
        """A field of a format, of one of these types."""
        if not isinstance(given, Mapping):
            raise SchemaError("a format is an object", pointer=at, keyword="format")
        value = given.get(name)
        if value is None:
            if default is ...:
                raise SchemaError(f"the field {name!r} is missing", pointer=at, keyword=name)
            return default
        if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
            wanted = " or ".join({"str": "a string", "list": "a list", "Mapping": "an object", "bool": "a boolean"}.get(
                kind.__name__, kind.__name__) for kind in kinds)  # fmt: skip
            raise SchemaError(f"{name!r} is {type(value).__name__}, not {wanted}", pointer=at, keyword=name)
        return value

    # ---- formats

    def _const_string(self, given: Given, at: str, ends: _Ends) -> Node:
        self._known(given, at, "type", "value")
        return Text(self.field(given, at, "value", str))

    def _json_schema(self, given: Given, at: str, ends: _Ends) -> Node:
        self._known(given, at, "type", "json_schema", "style", "any_order", "max_whitespace_cnt")
        options = dict(self._options)
        longest = self._count(given, at, "max_whitespace_cnt")
        if longest is not None:
            options["whitespace"] = Whitespace(longest=min(longest, _MOST_SPACE))
        if self.field(given, at, "any_order", bool, default=False):
            options["order"] = "any"
        style = self.field(given, at, "style", str, default="json")
        schema = self.field(given, at, "json_schema", Mapping, bool, str)
        if style == "json":
            return self._schema(schema, options)
        return self._parameters(schema, f"{at}/json_schema", style, options)

    def _qwen_xml_parameter(self, given: Given, at: str, ends: _Ends) -> Node:
        self._known(given, at, "type", "json_schema")
        schema = self.field(given, at, "json_schema", Mapping, bool, str)
        return self._parameters(schema, f"{at}/json_schema", "qwen_xml", self._options)

    def _parameters(self, schema: Any, at: str, style: str, options: Given) -> Node:
        """A schema's value as parameters in tags."""
        if style not in STYLES:
            raise UnsupportedError(
                f"the style {style!r} of a schema is not supported", pointer=at, keyword="style",
                remedy=f"one of json, {', '.join(STYLES)}",
            )  # fmt: skip
        if isinstance(schema, str):
            schema = _parsed(schema, "the schema", at, "json_schema")
        space = options.get("whitespace")
        longest = space.longest if isinstance(space, Whitespace) else 0 if space == "compact" else Whitespace().longest
        self._inner_rules += 1
        return Parameters(STYLES[style], schema, at, options, longest, self.rules).node(
            f"parameters{self._inner_rules}_"
        )

    def _schema(self, schema: Any, options: Given) -> Node:
        return JsonSchema(dict(schema) if isinstance(schema, Mapping) else schema, options)

    def _regex(self, given: Given, at: str, ends: _Ends) -> Node:
        self._known(given, at, "type", "pattern")
        pattern = self.field(given, at, "pattern", str)
        return Regex(whole_pattern(pattern), pattern)

    def _grammar(self, given: Given, at: str, ends: _Ends) -> Node:
        self._known(given, at, "type", "grammar")
        grammar = read(self.field(given, at, "grammar", str), "ebnf")
        self._inner_rules += 1
        prefix = f"grammar{self._inner_rules}_"
        for name, rule in grammar.rules.items():
            self.rules[prefix + name] = renamed(rule, prefix.__add__)
        return Reference(prefix + grammar.start)

    def _any_text(self, given: Given, at: str, ends: _Ends) -> Node:
        self._known(given, at, "type", "excludes", "excluded_str", "max_chars", "max_tokens")
        if given.get("max_tokens") is not None:
            raise UnsupportedError(
                "a text of at most so many tokens is not supported", pointer=at, keyword="max_tokens",
                remedy="bound it with max_chars; thinking has a budget in the request, reasoning={...}",
            )  # fmt: skip
        excludes = self._texts(given, at, "excludes") + self._texts(given, at, "excluded_str") + ends.texts
        most = self._count(given, at, "max_chars")
        if most is None:
            return Free(excludes=excludes)
        return Regex(Language(text_without(excludes).dfa, 0, most))

    def _sequence(self, given: Given, at: str, ends: _Ends) -> Node:
        return Sequence(self._elements(given, at, ends))

    def _or(self, given: Given, at: str, ends: _Ends) -> Node:
        return Choice(self._elements(given, at, ends))

    def _elements(self, given: Given, at: str, ends: _Ends) -> tuple[Node, ...]:
        self._known(given, at, "type", "elements")
        elements = self._list(given, at, "elements")
        return tuple(self.node(element, f"{at}/elements/{i}", ends) for i, element in enumerate(elements))

    def _repeat(self, given: Given, at: str, ends: _Ends) -> Node:
        low, high = self.field(given, at, "min", int), self.field(given, at, "max", int)
        if low < 0 or (high != -1 and high < low):
            raise SchemaError("the bounds of a repeat are out of order", pointer=at, keyword="min")
        return Repeat(self._inner(given, at, ends), low, None if high == -1 else high)

    def _inner(self, given: Given, at: str, ends: _Ends) -> Node:
        self._known(given, at, "type", "content", "min", "max")
        return self.node(self.field(given, at, "content", Mapping), f"{at}/content", ends)

    def _tag(self, given: Given, at: str) -> Node:
        self._known(given, at, "type", "begin", "content", "end")
        if self.field(given, at, "type", str, default="tag") != "tag":
            raise SchemaError("a tag belongs here", pointer=at, keyword="type")
        begin = self.field(given, at, "begin", str, Mapping)
        first = Text(begin) if isinstance(begin, str) else self._marker(begin, f"{at}/begin")
        return Sequence((first, *self._rest(given, at)))

    def _rest(self, given: Given, at: str) -> tuple[Node, Node]:
        """The content and the end of a tag."""
        end = self.field(given, at, "end", str, list, Mapping)
        content = self.field(given, at, "content", Mapping)
        if isinstance(end, Mapping):
            marker = self._marker(end, f"{at}/end")
            return self.node(content, f"{at}/content", _Ends(token=marker)), marker
        texts = self._ends(given, at)
        ends = _Ends(tuple(text for text in texts if text))
        return self.node(content, f"{at}/content", ends), Choice(tuple(Text(text) for text in texts))

    def _marker(self, given: Given, at: str) -> Token:
        if self.field(given, at, "type", str, default="token") != "token":
            raise SchemaError("a tag begins and ends with a text or a token", pointer=at, keyword="type")
        return self._one_token(given, at)

    def _ends(self, given: Given, at: str) -> tuple[str, ...]:
        end = self.field(given, at, "end", str, list)
        if isinstance(end, str):
            return (end,)
        self._list(given, at, "end")
        return self._texts(given, at, "end")

    def _triggered_tags(self, given: Given, at: str, ends: _Ends) -> Node:
        self._known(given, at, "type", "triggers", "tags", "at_least_one", "stop_after_first", "excludes")
        tags = []
        for i, tag in enumerate(self._list(given, at, "tags")):
            place = f"{at}/tags/{i}"
            if self.field(tag, place, "type", str, default="tag") != "tag":
                raise SchemaError("what a trigger starts is a tag", pointer=place, keyword="type")
            self._known(tag, place, "type", "begin", "content", "end")
            begin = self.field(tag, place, "begin", str)
            content, end = self._rest(tag, place)
            if isinstance(end, Choice):
                tags += [Tag(begin, content, text) for text in self._ends(tag, place)]
            else:
                tags.append(Tag(begin, Sequence((content, end)), ""))
        return self._free(given, at, tuple(tags), ends)

    def _free(self, given: Given, at: str, tags: tuple[Tag, ...], ends: _Ends) -> Node:
        triggers = self._texts(given, at, "triggers", needed=True)
        for tag in tags:
            if not any(tag.begin.startswith(trigger) for trigger in triggers):
                raise SchemaError(f"no trigger begins {tag.begin!r}", pointer=f"{at}/triggers", keyword="triggers")
        for i, trigger in enumerate(triggers):
            if not trigger or not any(tag.begin.startswith(trigger) for tag in tags):
                raise SchemaError(
                    f"the trigger {trigger!r} begins no tag", pointer=f"{at}/triggers/{i}", keyword="triggers"
                )
        once = self.field(given, at, "stop_after_first", bool, default=False)
        free = Free(triggers, tags, stop_after_first=once, excludes=self._excludes(given, at, triggers) + ends.texts)
        if not self.field(given, at, "at_least_one", bool, default=False):
            return free
        first = Choice(tuple(Sequence((Text(tag.begin), tag.content, Text(tag.end))) for tag in tags))
        return first if once else Sequence((first, free))

    def _excludes(self, given: Given, at: str, triggers: tuple[str, ...]) -> tuple[str, ...]:
        """Excluded texts; with one in a trigger the trigger could never come."""
        excludes = self._texts(given, at, "excludes")
        for i, text in enumerate(excludes):
            for trigger in triggers:
                if text in trigger:
                    raise SchemaError(
                        f"the excluded text {text!r} is part of {trigger!r}, which could then never come",
                        pointer=f"{at}/excludes/{i}", keyword="excludes",
                    )  # fmt: skip
        return excludes

    def _tags_with_separator(self, given: Given, at: str) -> Node:
        self._known(given, at, "type", "tags", "separator", "at_least_one", "stop_after_first")
        tags = self._list(given, at, "tags")
        one = Choice(tuple(self._tag(tag, f"{at}/tags/{i}") for i, tag in enumerate(tags)))
        if self.field(given, at, "stop_after_first", bool, default=False):
            several: Node = one
        else:
            separator = Text(self.field(given, at, "separator", str, default=""))
            several = Sequence((one, Repeat(Sequence((separator, one)))))
        return several if self.field(given, at, "at_least_one", bool, default=False) else Repeat(several, 0, 1)

    def _dispatch(self, given: Given, at: str, ends: _Ends) -> Node:
        self._known(given, at, "type", "rules", "loop", "excludes")
        tags = tuple(Tag(text, node, "") for text, node in self._rules_of(given, at, ends, str))
        triggers = tuple(dict.fromkeys(tag.begin for tag in tags))
        once = not self.field(given, at, "loop", bool, default=True)
        excludes = self._excludes(given, at, triggers) + ends.texts
        return Free(triggers, tags, stop_after_first=once, excludes=excludes)

    def _rules_of(self, given: Given, at: str, ends: _Ends, *kinds: type) -> list[tuple[Any, Node]]:
        """The rules of a dispatch: what starts them, of one of these types, and what follows."""
        found = []
        for i, rule in enumerate(self.field(given, at, "rules", list)):
            place = f"{at}/rules/{i}"
            if not isinstance(rule, (list, tuple)) or len(rule) != 2 or rule[0] == "" or not _is(rule[0], *kinds):
                what = "text" if kinds == (str,) else "token"
                raise SchemaError(f"a rule is [{what}, format]", pointer=place, keyword="rules")
            found.append((rule[0], self.node(rule[1], f"{place}/1", ends)))
        return found

    # ---- tokens

    def _one_token(self, given: Given, at: str) -> Token:
        self._known(given, at, "type", "token")
        return _tokens([self.field(given, at, "token", int, str)])

    def _exclude_token(self, given: Given, at: str, ends: _Ends) -> Node:
        self._known(given, at, "type", "exclude_tokens")
        return self._others(given, at, ends)

    def _any_tokens(self, given: Given, at: str, ends: _Ends) -> Node:
        self._known(given, at, "type", "exclude_tokens", "max_tokens")
        return Repeat(self._others(given, at, ends), 0, self._count(given, at, "max_tokens"))

    def _others(self, given: Given, at: str, ends: _Ends) -> Token:
        """Any token but the excluded ones and the one that ends the tag around."""
        return _joined(_tokens(self._named(given, at, "exclude_tokens")), ends.token, negated=True)

    def _token_triggered_tags(self, given: Given, at: str, ends: _Ends) -> Node:
        self._known(given, at, "type", "trigger_tokens", "tags", "exclude_tokens", "at_least_one", "stop_after_first")
        triggers = self._named(given, at, "trigger_tokens", needed=True)
        pairs: list[tuple[Token, Node]] = []
        for i, tag in enumerate(self._list(given, at, "tags")):
            place = f"{at}/tags/{i}"
            self._known(tag, place, "type", "begin", "content", "end")
            begin = self._marker(self.field(tag, place, "begin", Mapping), f"{place}/begin")
            if tag["begin"]["token"] not in triggers:
                raise SchemaError("no trigger begins the tag", pointer=f"{place}/begin", keyword="trigger_tokens")
            pairs.append((begin, Sequence(self._rest(tag, place))))
        for i, trigger in enumerate(triggers):
            if _tokens([trigger]) not in (begin for begin, _ in pairs):
                raise SchemaError(
                    f"the trigger {trigger!r} begins no tag",
                    pointer=f"{at}/trigger_tokens/{i}",
                    keyword="trigger_tokens",
                )
        once = self.field(given, at, "stop_after_first", bool, default=False)
        free = self._token_free(given, at, pairs, ends, once=once)
        if not self.field(given, at, "at_least_one", bool, default=False):
            return free
        first = Choice(tuple(Sequence(pair) for pair in pairs))
        return first if once else Sequence((first, free))

    def _token_dispatch(self, given: Given, at: str, ends: _Ends) -> Node:
        self._known(given, at, "type", "rules", "loop", "exclude_tokens")
        pairs = [(_tokens([token]), node) for token, node in self._rules_of(given, at, ends, int, str)]
        return self._token_free(given, at, pairs, ends, once=not self.field(given, at, "loop", bool, default=True))

    def _token_free(self, given: Given, at: str, pairs: list[tuple[Token, Node]], ends: _Ends, *, once: bool) -> Node:
        excluded = _tokens(self._named(given, at, "exclude_tokens"))
        for token, _ in pairs:
            if token.ids & excluded.ids or token.names & excluded.names:
                raise SchemaError("a trigger is excluded", pointer=at, keyword="exclude_tokens")
        return dispatch_on_tokens(pairs, _joined(excluded, ends.token, negated=False), loop=not once)

    # ---- checks

    def _named(self, given: Given, at: str, name: str, *, needed: bool = False) -> list[int | str]:
        named: list[int | str] = self.field(given, at, name, list, default=... if needed else [])
        if not all(_is(token, int, str) for token in named):
            raise SchemaError("a token is an id or the name of a special token", pointer=at, keyword=name)
        return named

    def _texts(self, given: Given, at: str, name: str, *, needed: bool = False) -> tuple[str, ...]:
        texts = self.field(given, at, name, list, default=... if needed else [])
        if not all(isinstance(text, str) for text in texts):
            raise SchemaError(f"{name!r} is a list of strings", pointer=at, keyword=name)
        if name != "end" and "" in texts:
            raise SchemaError(f"an empty text in {name!r}", pointer=at, keyword=name)
        return tuple(texts)

    def _list(self, given: Given, at: str, name: str) -> list[Any]:
        """A list that is not empty."""
        found: list[Any] = self.field(given, at, name, list)
        if not found:
            raise SchemaError(f"{name!r} is empty", pointer=at, keyword=name)
        return found

    def _count(self, given: Given, at: str, name: str) -> int | None:
        found: int | None = self.field(given, at, name, int, default=None)
        if found is not None and found < 0:
            raise SchemaError(f"{name!r} is negative", pointer=at, keyword=name)
        return found

    def _known(self, given: Any, at: str, *names: str) -> None:
        """A field that is not known is not ignored."""
        self.field(given, at, "", default=None)
        for name in given:
            if name not in names and given[name] is not None:
                raise UnsupportedError(
                    f"the field {name!r} of {given.get('type', 'this')} is not supported", pointer=at, keyword=str(name)
                )


def _parsed(text: str, what: str, at: str, keyword: str) -> Any:
    try:
        return json.loads(text, parse_float=Decimal)
    except (ValueError, RecursionError) as error:
        raise SchemaError(f"{what} is no JSON: {error}", pointer=at, keyword=keyword) from None


def _is(value: Any, *kinds: type) -> bool:
    return isinstance(value, kinds) and not isinstance(value, bool)


def _tokens(named: list[int | str]) -> Token:
    """Any of these, by id or name."""
    return Token(
        frozenset(token for token in named if isinstance(token, int)),
        frozenset(token for token in named if isinstance(token, str)),
    )


def _joined(one: Token, other: Token, *, negated: bool) -> Token:
    return Token(one.ids | other.ids, one.names | other.names, negated)
