"""Keys of objects with the punctuation around them: from after `{` or a value to the label behind the colon."""

from __future__ import annotations

import numpy as np

from .charrows import CharRows
from .codes import FIRST_LABEL, OBJECT_CLOSE
from .keybodies import KeyBodies
from .keyreach import KeyReach
from .keytext import KeyText, KeyTexts
from .specs import KeyLexeme, KeySpec
from .spelling import QUOTE
from .tables import Tables
from .whitespace import COMMA, SPACE, RunTemplate, Spacing

_CLOSE = (0x7D, -(OBJECT_CLOSE + 1))


class Keys:
    """Makes key lexemes, and their extensions by used keys."""

    def __init__(self, tables: Tables, chars: CharRows, spacing: Spacing) -> None:
        self.tables = tables
        self.spacing = spacing
        self.texts = KeyTexts(KeyBodies(tables, chars, spacing))
        key, close, comma = (QUOTE, 0), (_CLOSE[0], 1), (COMMA, 2)
        edges = [[key], [key, close], [key], [comma, close], [comma]]
        self._block = RunTemplate(tables, spacing.longest, edges)
        self._lexemes: dict[tuple[KeyText, int], KeyLexeme] = {}
        self._unread: dict[bool, KeyText] = {}

    def lexeme(self, spec: KeySpec) -> KeyLexeme:
        """The lexeme of a specification."""
        return self._around(self.texts.text(spec.names, spec.patterns, spec.any_other), spec.depth)

    def extended(self, lexeme: KeyLexeme, name: str) -> KeyLexeme:
        """The same lexeme without the undeclared key `name`, which was used."""
        if name in lexeme.names or name in lexeme.used:
            raise ValueError(f"{name!r} is no undeclared key that may still come")
        return self._around(self.texts.extended(lexeme.text, name), lexeme.depth)

    def unread(self, depth: int, *, some: bool) -> KeyLexeme:
        """The lexeme that ends where a key has begun, with the label FIRST_LABEL; `some`: a key may come at all.

        It is for masks that do not know which keys came before: what a key is depends on the text.
        """
        text = self._unread.get(some)
        if text is None:
            root = 0
            if some:
                root = self.tables.dense()
                self.tables.rows[root, SPACE:] = -(FIRST_LABEL + 1)
            text = self._unread[some] = KeyText(root, KeyReach(self.tables, 1, False), (), (0,), False)
        return self._around(text, depth)

    def _around(self, text: KeyText, depth: int) -> KeyLexeme:
        depth = depth if self.spacing.mode == "pretty" else 0
        lexeme = self._lexemes.get((text, depth))
        if lexeme is None:
            lexeme = self._lexemes[text, depth] = self._lexeme(text, depth)
        return lexeme

    def _lexeme(self, text: KeyText, depth: int) -> KeyLexeme:
        first, first_open, following, following_open = self._punctuation(text, depth)
        return KeyLexeme(
            first, following, first_open, following_open, text.names, text.signatures, text.used, depth, text
        )

    def _punctuation(self, text: KeyText, depth: int) -> tuple[int, int, int, int]:
        """The rows `first`, `first_open`, `next` and `next_open` of a lexeme."""
        tables, spacing = self.tables, self.spacing
        line = spacing.line(depth) if spacing.mode == "pretty" else b""
        close = spacing.edge(spacing.line(depth - 1) + b"}", _CLOSE[1]) if line else _CLOSE
        if not text.root:
            return spacing.runs([_CLOSE]), 0, spacing.runs([close]), 0
        reach = int(tables.reach[text.root])
        flag = text.reach.flag_of(reach)
        key = (QUOTE, text.root | flag)
        if spacing.mode in ("bounded", "compact"):
            # In order: the row after a comma, `first`, `first_open`, `next`, `next_open`.
            block = self._block
            start = tables.sparse(block.rows)
            tables.reach[start] = reach
            block.write(start, [key[1], _CLOSE[1], start | flag])
            run = spacing.longest + 1
            return start + run, start + 2 * run, start + 3 * run, start + 4 * run
        between = line or b" "
        key = spacing.edge(line + b'"', key[1], flag, reach)
        comma = spacing.edge(b"," + between + b'"', text.root | flag, flag, reach)
        edges = [[key, _CLOSE], [key, key], [comma, close], [comma, comma]]
        first, first_open, following, following_open = spacing.run_block(np.array(edges, np.int32)).tolist()
        return first, first_open, following, following_open
