"""Structural tags: the JSON form in which clients of other servers describe free text with constrained segments.

    {"type": "structural_tag", "format": FORMAT}
    {"structures": [{"begin": "...", "schema": {...}, "end": "..."}], "triggers": ["..."]}     the older form

A format is an object by its `type`: const_string, json_schema, regex, grammar, any_text, sequence, or, optional, plus,
star, repeat, tag, triggered_tags, tags_with_separator, dispatch, token, exclude_token, any_tokens. The vocabulary of
these is that of xgrammar's and vLLM's documentation; what they mean is what ours means:

- free text at the end of a tag's content (any_text, or what is around triggered tags) does not hold the tag's end;
- triggered tags with `at_least_one` begin with a tag at once.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any, Final

from ..errors import SchemaError, UnsupportedError
from ..regular import ALL, whole_pattern
from .ir import (
    Chars,
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
from .read import read
from .walk import renamed

MAX_DEPTH: Final = 60
Given = Mapping[str, Any]


def read_structural_tag(spec: Any, options: Given) -> Grammar:
    """The grammar of a structural tag: Python objects or JSON text. `options` are those of embedded schemas.

    Raises SchemaError for a malformed one, UnsupportedError for a style or type that is known and not done, each with
    its pointer, and what embedded grammars and patterns raise.
    """
    if isinstance(spec, str):
        try:
            spec = json.loads(spec, parse_float=Decimal)
        except (ValueError, RecursionError) as error:
            raise SchemaError(f"the structural tag is no JSON: {error}", keyword="structural_tag") from None
    if not isinstance(spec, Mapping):
        raise SchemaError("a structural tag is an object", keyword="structural_tag", pointer="")
    reader = _Reader(options)
    if "structures" in spec:
        node = reader.structures(spec)
    elif spec.get("type") == "structural_tag":
        node = reader.node(reader.field(spec, "", "format", Mapping), "/format", ())
    else:
        node = reader.node(spec, "", ())
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
        self._grammars = 0
        self._depth = 0
        self._handlers: dict[str, Callable[[Given, str, tuple[str, ...]], Node]] = {
            "const_string": lambda given, at, ends: self._const_string(given, at),
            "json_schema": lambda given, at, ends: self._json_schema(given, at),
            "regex": lambda given, at, ends: self._regex(given, at),
            "grammar": lambda given, at, ends: self._grammar(given, at),
            "any_text": self._any_text,
            "sequence": self._sequence,
            "or": self._or,
            "optional": lambda given, at, ends: Repeat(self._inner(given, at), 0, 1),
            "plus": lambda given, at, ends: Repeat(self._inner(given, at), 1, None),
            "star": lambda given, at, ends: Repeat(self._inner(given, at), 0, None),
            "repeat": lambda given, at, ends: self._repeat(given, at),
            "tag": lambda given, at, ends: self._tag(given, at),
            "triggered_tags": self._triggered_tags,
            "tags_with_separator": lambda given, at, ends: self._tags_with_separator(given, at),
            "dispatch": self._dispatch,
            "token": lambda given, at, ends: self._one_token(given, at),
            "exclude_token": lambda given, at, ends: self._excluding(given, at),
            "any_tokens": lambda given, at, ends: Repeat(self._excluding(given, at)),
        }

    def structures(self, spec: Given) -> Node:
        """The older form: triggered tags with a schema in each."""
        tags = []
        for i, given in enumerate(self.field(spec, "", "structures", list)):
            at = f"/structures/{i}"
            self._known(given, at, "begin", "schema", "end")
            tags.append(
                Tag(
                    self.field(given, at, "begin", str),
                    self._schema(self.field(given, at, "schema", Mapping, bool, str), at + "/schema"),
                    self.field(given, at, "end", str, default=""),
                )
            )
        self._known(spec, "", "type", "structures", "triggers")
        return self._free(spec, "", tuple(tags), ())

    def node(self, given: Any, at: str, ends: tuple[str, ...]) -> Node:
        """The node of a format. `ends`: what ends the tag that this is the last part of."""
        kind = self.field(given, at, "type", str)
        handler = self._handlers.get(kind)
        if handler is None:
            if kind in ("qwen_xml_parameter", "token_triggered_tags", "token_dispatch"):
                raise UnsupportedError(f"the format {kind} is not supported", pointer=at, keyword=kind)
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
        value = given.get(name, default)
        if value is ...:
            raise SchemaError(f"the field {name!r} is missing", pointer=at, keyword=name)
        if name in given and (not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds)):
            wanted = " or ".join({"str": "a string", "list": "a list", "Mapping": "an object", "bool": "a boolean"}.get(
                kind.__name__, kind.__name__) for kind in kinds)  # fmt: skip
            raise SchemaError(f"{name!r} is {type(value).__name__}, not {wanted}", pointer=at, keyword=name)
        return value

    # ---- formats

    def _const_string(self, given: Given, at: str) -> Node:
        self._known(given, at, "type", "value")
        return Text(self.field(given, at, "value", str))

    def _json_schema(self, given: Given, at: str) -> Node:
        self._known(given, at, "type", "json_schema", "style", "any_order", "excludes")
        style = self.field(given, at, "style", str, default="json")
        if style != "json":
            raise UnsupportedError(f"the style {style!r} of a schema is not supported", pointer=at, keyword="style")
        self._refuse(given, at, "excludes")
        order = {"order": "any"} if self.field(given, at, "any_order", bool, default=False) else {}
        return self._schema(self.field(given, at, "json_schema", Mapping, bool, str), at + "/json_schema", order)

    def _schema(self, schema: Any, at: str, options: Given | None = None) -> Node:
        return JsonSchema(dict(schema) if isinstance(schema, Mapping) else schema, {**self._options, **(options or {})})

    def _regex(self, given: Given, at: str) -> Node:
        self._known(given, at, "type", "pattern", "excludes")
        self._refuse(given, at, "excludes")
        pattern = self.field(given, at, "pattern", str)
        return Regex(whole_pattern(pattern), pattern)

    def _grammar(self, given: Given, at: str) -> Node:
        self._known(given, at, "type", "grammar")
        grammar = read(self.field(given, at, "grammar", str), "ebnf")
        self._grammars += 1
        prefix = f"grammar{self._grammars}_"
        for name, rule in grammar.rules.items():
            self.rules[prefix + name] = renamed(rule, prefix.__add__)
        return Reference(prefix + grammar.start)

    def _any_text(self, given: Given, at: str, ends: tuple[str, ...]) -> Node:
        self._known(given, at, "type", "excludes", "excluded_str", "max_chars", "max_tokens")
        self._refuse(given, at, "max_tokens")
        excludes = self._texts(given, at, "excludes") + self._texts(given, at, "excluded_str") + ends
        most = self.field(given, at, "max_chars", int, default=None)
        if most is not None:
            if excludes:
                raise UnsupportedError(
                    "max_chars beside excluded texts is not supported", pointer=at, keyword="max_chars"
                )
            return Repeat(Chars(ALL), 0, most)
        return Free(excludes=excludes)

    def _sequence(self, given: Given, at: str, ends: tuple[str, ...]) -> Node:
        self._known(given, at, "type", "elements")
        elements = self.field(given, at, "elements", list)
        last = len(elements) - 1
        return Sequence(
            tuple(
                self.node(element, f"{at}/elements/{i}", ends if i == last else ())
                for i, element in enumerate(elements)
            )
        )

    def _or(self, given: Given, at: str, ends: tuple[str, ...]) -> Node:
        self._known(given, at, "type", "elements")
        elements = self.field(given, at, "elements", list)
        if not elements:
            raise SchemaError("'or' without elements", pointer=at, keyword="elements")
        return Choice(tuple(self.node(element, f"{at}/elements/{i}", ends) for i, element in enumerate(elements)))

    def _repeat(self, given: Given, at: str) -> Node:
        low, high = self.field(given, at, "min", int), self.field(given, at, "max", int)
        if low < 0 or (high != -1 and high < low):
            raise SchemaError("the bounds of a repeat are out of order", pointer=at, keyword="min")
        return Repeat(self._inner(given, at), low, None if high == -1 else high)

    def _inner(self, given: Given, at: str) -> Node:
        self._known(given, at, "type", "content", "min", "max")
        return self.node(self.field(given, at, "content", Mapping), f"{at}/content", ())

    def _tag(self, given: Given, at: str) -> Node:
        self._known(given, at, "type", "begin", "content", "end")
        begin = self.field(given, at, "begin", str, Mapping)
        ends = self.field(given, at, "end", str, list, Mapping)
        first = Text(begin) if isinstance(begin, str) else self.node(begin, f"{at}/begin", ())
        if isinstance(ends, Mapping):
            content = self.node(self.field(given, at, "content", Mapping), f"{at}/content", ())
            return Sequence((first, content, self.node(ends, f"{at}/end", ())))
        return Sequence((first, self._until(given, at), Choice(tuple(Text(end) for end in self._ends(given, at)))))

    def _until(self, given: Given, at: str) -> Node:
        """The content of a tag with texts for ends."""
        ends = tuple(end for end in self._ends(given, at) if end)
        return self.node(self.field(given, at, "content", Mapping), f"{at}/content", ends)

    def _ends(self, given: Given, at: str) -> tuple[str, ...]:
        end = self.field(given, at, "end", str, list)
        return (end,) if isinstance(end, str) else self._texts(given, at, "end")

    def _triggered_tags(self, given: Given, at: str, ends: tuple[str, ...]) -> Node:
        self._known(given, at, "type", "triggers", "tags", "at_least_one", "stop_after_first", "excludes")
        tags = []
        for i, tag in enumerate(self.field(given, at, "tags", list)):
            place = f"{at}/tags/{i}"
            if self.field(tag, place, "type", str, default="tag") != "tag":
                raise SchemaError("what a trigger starts is a tag", pointer=place, keyword="type")
            self._known(tag, place, "type", "begin", "content", "end")
            begin, content = self.field(tag, place, "begin", str), self._until(tag, place)
            tags += [Tag(begin, content, end) for end in self._ends(tag, place)]
        return self._free(given, at, tuple(tags), ends)

    def _free(self, given: Given, at: str, tags: tuple[Tag, ...], ends: tuple[str, ...]) -> Node:
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
        excludes = self._texts(given, at, "excludes") + ends
        free = Free(triggers, tags, stop_after_first=once, excludes=excludes)
        if not self.field(given, at, "at_least_one", bool, default=False):
            return free
        first = Choice(tuple(Sequence((Text(tag.begin), tag.content, Text(tag.end))) for tag in tags))
        return first if once else Sequence((first, free))

    def _tags_with_separator(self, given: Given, at: str) -> Node:
        self._known(given, at, "type", "tags", "separator", "at_least_one", "stop_after_first")
        tags = self.field(given, at, "tags", list)
        one = Choice(tuple(self._tag(tag, f"{at}/tags/{i}") for i, tag in enumerate(tags)))
        if self.field(given, at, "stop_after_first", bool, default=False):
            several: Node = one
        else:
            separator = Text(self.field(given, at, "separator", str, default=""))
            several = Sequence((one, Repeat(Sequence((separator, one)))))
        return several if self.field(given, at, "at_least_one", bool, default=False) else Repeat(several, 0, 1)

    def _dispatch(self, given: Given, at: str, ends: tuple[str, ...]) -> Node:
        self._known(given, at, "type", "rules", "loop", "excludes")
        tags = []
        for i, rule in enumerate(self.field(given, at, "rules", list)):
            if not isinstance(rule, (list, tuple)) or len(rule) != 2 or not isinstance(rule[0], str) or not rule[0]:
                raise SchemaError("a rule is [text, format]", pointer=f"{at}/rules/{i}", keyword="rules")
            tags.append(Tag(rule[0], self.node(rule[1], f"{at}/rules/{i}/1", ()), ""))
        return Free(
            tuple(dict.fromkeys(tag.begin for tag in tags)),
            tuple(tags),
            stop_after_first=not self.field(given, at, "loop", bool, default=True),
            excludes=self._texts(given, at, "excludes") + ends,
        )

    def _one_token(self, given: Given, at: str) -> Node:
        self._known(given, at, "type", "token")
        return self._token([self.field(given, at, "token", int, str)], at, negated=False)

    def _excluding(self, given: Given, at: str) -> Node:
        self._known(given, at, "type", "exclude_tokens", "max_tokens")
        self._refuse(given, at, "max_tokens")
        return self._token(self.field(given, at, "exclude_tokens", list, default=[]), at, negated=True)

    def _token(self, named: list[Any], at: str, *, negated: bool) -> Node:
        if not all(isinstance(token, (int, str)) and not isinstance(token, bool) for token in named):
            raise SchemaError("a token is an id or the name of a special token", pointer=at, keyword="token")
        return Token(
            frozenset(token for token in named if isinstance(token, int)),
            frozenset(token for token in named if isinstance(token, str)),
            negated,
        )

    # ---- checks

    def _texts(self, given: Given, at: str, name: str, *, needed: bool = False) -> tuple[str, ...]:
        texts = self.field(given, at, name, list, default=... if needed else [])
        if not all(isinstance(text, str) for text in texts):
            raise SchemaError(f"{name!r} is a list of strings", pointer=at, keyword=name)
        return tuple(texts)

    def _known(self, given: Any, at: str, *names: str) -> None:
        """A field that is not known is not ignored."""
        self.field(given, at, "", default=None)
        for name in given:
            if name not in names:
                raise UnsupportedError(
                    f"the field {name!r} of {given.get('type', 'this')} is not supported", pointer=at, keyword=str(name)
                )

    def _refuse(self, given: Given, at: str, name: str) -> None:
        if given.get(name) not in (None, []):
            raise UnsupportedError(f"{name!r} is not supported here", pointer=at, keyword=name)
