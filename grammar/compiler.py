"""The face of the grammar package: `GrammarCompiler` and what it gives, `CompiledGrammar`."""

from __future__ import annotations

import json
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

from .automaton.automaton import JsonAutomaton
from .automaton.frames import Order
from .automaton.specs import Spelling, Whitespace
from .automaton.text import TextAutomaton
from .bnf.automaton import GrammarAutomaton
from .bnf.captures import Captured, symbols
from .bnf.checks import GrammarReport
from .bnf.files import with_schemas
from .bnf.ir import Grammar
from .bnf.read import Syntax, read
from .bnf.structural import exact_json, read_structural_tag
from .courtesy import COURTESY
from .errors import GrammarError, SchemaError
from .pause import COLLECTOR
from .pipeline import Arena, JsonOptions, Registry, WhitespaceMode
from .regular import whole_pattern, words
from .sampling import sample
from .schema import Content, Report, inspect
from .tokens import Matcher, TokenLevel, Vocabulary
from .tokens.canonical import Canonical
from .tokens.canonical_matcher import CanonicalLevel
from .tokens.matcher import MaskRow

ARENA_BYTES: Final = 256 << 20
MASK_BYTES: Final = 32 << 20
CACHED_GRAMMARS: Final = 1024
BYTES_PER_OBJECT: Final = 200
"""What an object that a compilation leaves takes with all that it holds: 51 schemas left 820,000 and took 167 MB."""
Automaton = JsonAutomaton | TextAutomaton | GrammarAutomaton
Level = TokenLevel | CanonicalLevel
Made = tuple[Automaton, Level]
_TAG_OPTIONS: Final = ("order", "whitespace", "spelling", "formats")
_ANY_OBJECT: Final = {"type": "object"}


class CompiledGrammar:
    """A grammar ready for requests; shared by all that use it, safe for threads. What it allows never changes."""

    def __init__(
        self,
        automaton: Automaton,
        level: Level,
        kind: str,
        report: Callable[[], Report] | None = None,
        rules: GrammarReport | None = None,
    ) -> None:
        self.kind = kind
        """"json_schema", "json_object", "regex", "choice", "grammar" or "structural_tag"."""
        self.rules = GrammarReport() if rules is None else rules
        """Of a grammar of rules: which are used and which are not, and warnings."""
        self._made = automaton, level
        self._again: Callable[[], CompiledGrammar] | None = None
        self._report = report

    @property
    def _automaton(self) -> Automaton:
        return self._made[0]

    @property
    def _level(self) -> Level:
        return self._made[1]

    def matcher(self) -> Matcher:
        """A new matcher at the beginning of a text."""
        automaton, level = self._roomy()
        matcher = level.matcher(automaton)
        matcher.afresh = self.matcher
        return matcher

    def _roomy(self) -> Made:
        """The automaton and its level, in tables with room for another text: texts fill them too, since each key that
        an open object has used is remembered there.
        """
        if self._again is not None and self._automaton.tables.crowded:
            self._made = self._again()._made
        return self._made

    @property
    def canonical(self) -> bool:
        """Whether the matchers take canonical tokens only."""
        return isinstance(self._level, CanonicalLevel)

    def with_canonical(self, tokenizer: Canonical) -> CompiledGrammar:
        """The same grammar for canonical tokens only."""
        assert isinstance(self._level, TokenLevel)
        level = CanonicalLevel.over(self._level, tokenizer)
        made = CompiledGrammar(self._automaton, level, self.kind, self._report, self.rules)
        if (again := self._again) is not None:
            made._again = lambda: again().with_canonical(tokenizer)
        return made

    def accepts(self, text: str | bytes) -> bool:
        """Whether the grammar allows the whole text (bytes are UTF-8): the byte automaton's verdict."""
        return self._roomy()[0].accepts(text)

    def captures(self, output: str | bytes | Sequence[int]) -> tuple[Captured, ...]:
        """What the named parts of a grammar matched in a text, or in tokens, in the order in which they begin.

        Of several ways to read the text that one counts which takes the first of alternatives that match the same
        stretch, and each part, from the left, as long as the rest allows.

        Raises GrammarError if the text is not one of the grammar's, BudgetError if it is too hard to parse.
        """
        parser = getattr(self._roomy()[0], "parser", None)
        if parser is None:
            return ()
        found: tuple[Captured, ...] = parser.captures(symbols(output, self._level.vocabulary.tokens))
        return found

    def sample(self, seed: int = 0) -> str:
        """A random text that the grammar allows; the same seed gives the same text."""
        return sample(self._roomy()[0], seed)

    @property
    def shortest(self) -> bytes:
        """A shortest text (or nearly) that the grammar allows."""
        automaton, _ = self._roomy()
        return automaton.completion(automaton.start)

    @property
    def report(self) -> Report:
        """Per pointer of the schema: enforced, annotation, or refused and why. Empty for grammars without a schema."""
        return Report("") if self._report is None else self._report()


class GrammarCompiler:
    """Compiles schemas and patterns for one vocabulary, and keeps what it compiled. Safe for threads.

    `arena_bytes` bounds what grammars build beside masks: beyond it new grammars start afresh, older ones live as long
    as somebody uses them. `mask_bytes` bounds the table of mask rows, `cached` the number of grammars kept.
    """

    def __init__(
        self,
        vocabulary: Vocabulary,
        *,
        arena_bytes: int = ARENA_BYTES,
        mask_bytes: int = MASK_BYTES,
        cached: int = CACHED_GRAMMARS,
    ) -> None:
        self.vocabulary = vocabulary
        self._arena_bytes = arena_bytes
        self._mask_bytes = mask_bytes
        self._cached = cached
        self._cache: OrderedDict[tuple[object, ...], CompiledGrammar] = OrderedDict()
        self._lock = threading.Lock()
        self._arena = Arena(vocabulary, mask_bytes)
        self._tokenizer: Canonical | None = None
        self.hits = 0
        self.misses = 0

    def json_schema(
        self,
        schema: dict[str, Any] | bool | str,
        *,
        order: Order = "schema",
        whitespace: WhitespaceMode | Whitespace = "bounded",
        spelling: Spelling = "natural",
        formats: bool = True,
        dialect: str | None = None,
        registry: Registry | None = None,
        max_digits: int = 40,
        canonical: bool = False,
    ) -> CompiledGrammar:
        """The grammar of the JSON texts whose value is valid.

        schema      Python objects, or JSON text
        order       "schema": declared keys in the order of `properties`, others after them; "any": all orders
        whitespace  "bounded" (runs of at most 8), "compact", "spaced" (", " and ": "), "pretty", or a `Whitespace`
        spelling    "natural": values as JSON writers spell them; "any": every spelling that JSON allows
        formats     whether `format` is asserted
        dialect     the URI of a draft, where the schema has no `$schema`
        registry    schemas that `$ref` may lead to
        max_digits  the longest number, in characters
        canonical   matchers take only tokens that the tokenizer itself would give (see `tokens.canonical`)

        Raises SchemaError, UnsupportedError, UnsatisfiableError, PatternError or BudgetError, each with its place.
        """
        space = whitespace if isinstance(whitespace, Whitespace) else Whitespace(whitespace)
        options = JsonOptions(order, space, spelling, formats, dialect, max_digits)
        # What a registry holds is not looked at, so what depends on one is not kept.
        content = None if registry is not None else schema if isinstance(schema, str) else Content.of(schema)
        key = None if content is None else ("json_schema", content, options)

        def build(arena: Arena) -> CompiledGrammar:
            automaton, read = arena.json(schema, options, registry)
            report = read.report
            if isinstance(content, Content):  # of the schema as it was, whatever becomes of the caller's objects

                def report() -> Report:
                    return inspect(content.schema(), dialect=dialect, formats=formats)

            return CompiledGrammar(automaton, arena.level, "json_schema", report)

        return self._get(key, build, canonical)

    def json_object(
        self, *, whitespace: WhitespaceMode | Whitespace = "bounded", canonical: bool = False
    ) -> CompiledGrammar:
        """The grammar of all JSON objects."""
        return self.json_schema(_ANY_OBJECT, whitespace=whitespace, canonical=canonical)

    def regex(self, pattern: str, *, canonical: bool = False) -> CompiledGrammar:
        """The grammar of the texts that an ECMA-262 pattern matches as a whole.

        Raises PatternError, UnsatisfiableError, BudgetError.
        """
        return self._get(
            ("regex", pattern),
            lambda arena: CompiledGrammar(
                arena.text(whole_pattern(pattern), f"the pattern {pattern!r}"), arena.level, "regex"
            ),
            canonical,
        )

    def choice(self, choices: Iterable[str], *, canonical: bool = False) -> CompiledGrammar:
        """The grammar of a list of texts. Raises SchemaError if the list is empty or holds anything but strings."""
        chosen = tuple(choices)
        if not chosen or not all(isinstance(text, str) for text in chosen):
            raise SchemaError("choices are a list of one or more strings", keyword="choice")
        return self._get(
            ("choice", chosen),
            lambda arena: CompiledGrammar(arena.text(words(chosen), "the list of choices"), arena.level, "choice"),
            canonical,
        )

    def grammar(
        self,
        text: str,
        syntax: Syntax = "grammarbnf",
        *,
        start: str | None = None,
        folder: Path | None = None,
        canonical: bool = False,
    ) -> CompiledGrammar:
        """The grammar that a text describes.

        syntax  "grammarbnf" (the product's own), "gbnf" (llama.cpp), "ebnf" (xgrammar) or "lark" (Lark with
                llguidance's extensions)
        start   the rule to start with; None: `root`, or what `%start` names, or `start` in Lark
        folder  where GrammarBNF's `json_schema("file.json")` looks; None refuses files

        Raises GrammarTextError with line and column, UnsupportedError, BudgetError, and what embedded schemas raise.
        """
        if folder is not None:
            text = with_schemas(text, syntax, folder)
        return self._get(
            ("grammar", text, syntax, start),
            lambda arena: self._rules(arena, read(text, syntax, start=start)),
            canonical,
        )

    def structural_tag(
        self,
        spec: dict[str, Any] | str,
        *,
        order: Order = "schema",
        whitespace: WhitespaceMode = "bounded",
        spelling: Spelling = "natural",
        formats: bool = True,
        canonical: bool = False,
    ) -> CompiledGrammar:
        """Free text with constrained segments, in the JSON form of `response_format` (see `bnf.structural`).

        spec  `{"type": "structural_tag", "format": {...}}` or the older `{"structures": [...], "triggers": [...]}`,
              as Python objects or JSON text; the other options are those of its schemas, as in `json_schema`

        Raises SchemaError, UnsupportedError, BudgetError, with a pointer into the specification, and what its schemas,
        patterns and grammars raise.
        """
        options = dict(zip(_TAG_OPTIONS, (order, whitespace, spelling, formats), strict=True))
        try:
            content = spec if isinstance(spec, str) else exact_json(spec)
        except (TypeError, ValueError, RecursionError):
            raise SchemaError("the structural tag is no JSON", keyword="structural_tag") from None
        return self._get(
            ("structural_tag", content, *options.values()),
            lambda arena: self._rules(arena, read_structural_tag(spec, options), "structural_tag"),
            canonical,
        )

    def compile(self, grammar: Grammar, *, canonical: bool = False) -> CompiledGrammar:
        """The grammar of rules in the one form that all readers produce; it is not kept. Raises as `grammar`."""
        return self._get(None, lambda arena: self._rules(arena, grammar), canonical)

    def _rules(self, arena: Arena, grammar: Grammar, kind: str = "grammar") -> CompiledGrammar:
        automaton, report = arena.grammar(grammar)
        return CompiledGrammar(automaton, arena.level, kind, rules=report)

    def fill_masks(self, matchers: Sequence[Matcher], rows: MaskRow) -> None:
        """Writes the mask of `matchers[i]` to `rows[i]`: int32 or uint32 [len(matchers) or more, ceil(size / 32)]."""
        levels = {id(matcher.level): matcher.level for matcher in matchers}
        if len(levels) == 1:
            next(iter(levels.values())).fill_masks(matchers, rows)
            return
        for matcher, row in zip(matchers, rows, strict=False):
            matcher.fill_mask(row)

    def clear(self) -> None:
        """Forgets all grammars. Those in use go on."""
        with self._lock:
            self._cache.clear()
            self._arena = Arena(self.vocabulary, self._mask_bytes)

    def save(self, path: Path) -> int:
        """Writes what is needed to compile the cached grammars again, as JSON lines; returns how many."""
        with self._lock:
            keys = list(self._cache)
        lines = [line for key in keys if (line := _line(key)) is not None]
        path.write_text("".join(line + "\n" for line in lines), encoding="utf-8")
        return len(lines)

    def load(self, path: Path) -> int:
        """Compiles the grammars that `save` wrote; returns how many. Those that fail today are left out."""
        count = 0
        for line in path.read_text(encoding="utf-8").splitlines():
            record = json.loads(line)
            options = record.get("options", {})
            try:
                if record["kind"] == "json_schema":
                    whitespace = Whitespace(**options.pop("whitespace"))
                    self.json_schema(json.loads(record["source"]), whitespace=whitespace, **options)
                elif record["kind"] == "regex":
                    self.regex(record["source"])
                elif record["kind"] == "grammar":
                    self.grammar(record["source"], **options)
                elif record["kind"] == "structural_tag":
                    self.structural_tag(record["source"], **options)
                else:
                    self.choice(record["source"])
            except GrammarError:
                continue
            count += 1
        return count

    def _get(
        self, key: tuple[object, ...] | None, build: Callable[[Arena], CompiledGrammar], canonical: bool
    ) -> CompiledGrammar:
        if not canonical:
            return self._kept(key, build)
        with self._lock:
            if self._tokenizer is None:  # before the grammar: without its tokenizer there is nothing to compile it for
                self._tokenizer = Canonical(self.vocabulary)
        return self._kept(key, build).with_canonical(self._tokenizer)

    def _kept(self, key: tuple[object, ...] | None, build: Callable[[Arena], CompiledGrammar]) -> CompiledGrammar:
        with self._lock:
            tables = self._arena.tables
            if tables.nbytes() > self._arena_bytes or tables.crowded:
                self._cache.clear()
                self._arena = Arena(self.vocabulary, self._mask_bytes)
                COLLECTOR.dropped += 1
            arena = self._arena
            tables = arena.tables
            found = self._cache.get(key) if key is not None else None
            if found is not None and key is not None:
                self._cache.move_to_end(key)
                self.hits += 1
                return found
            self.misses += 1
        with COURTESY.working(), COLLECTOR.held():  # outside the lock: a hit must not wait for a slow compile
            before = COLLECTOR.made
            grammar = build(arena)
            with tables.lock:
                tables.outside += BYTES_PER_OBJECT * max(COLLECTOR.made - before, 0)
        grammar._again = partial(self._kept, key, build)
        if key is not None:
            with self._lock:
                if arena is self._arena:
                    grammar = self._cache.setdefault(key, grammar)
                    while len(self._cache) > self._cached:
                        self._cache.popitem(last=False)
        return grammar


def _line(key: tuple[object, ...]) -> str | None:
    kind, source, *rest = key
    if isinstance(source, Content):
        source = source.json()
        if source is None:
            return None
    record: dict[str, Any] = {"kind": kind, "source": source}
    if kind == "grammar":
        record["options"] = dict(zip(("syntax", "start"), rest, strict=True))
    elif kind == "structural_tag":
        record["options"] = dict(zip(_TAG_OPTIONS, rest, strict=True))
    elif rest:
        options = rest[0]
        assert isinstance(options, JsonOptions)
        space = options.whitespace
        record["options"] = {
            "order": options.order,
            "whitespace": {"mode": space.mode, "indent": space.indent, "longest": space.longest},
            "spelling": options.spelling,
            "formats": options.formats,
            "dialect": options.dialect,
            "max_digits": options.max_digits,
        }
    return json.dumps(record, ensure_ascii=False)
