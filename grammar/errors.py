"""Every error of the grammar compiler.

    GrammarError                  something is wrong with a schema, pattern or grammar text (ValueError)
        SchemaError               the schema is not what its dialect allows: a wrong keyword value, a dangling $ref
        UnsupportedError          correct, but no automaton can express it, or not yet: always names the keyword
        UnsatisfiableError        no value is valid; `clash` names the two pointers that contradict each other
        PatternError              a regular expression does not parse or is not regular; `position` in the pattern
        BudgetError               construction exceeded its budget of states, depth or time; names the part
            FullError             the tables that grammars share are full
        GrammarTextError          a grammar text is malformed, or its rules are; `line` and `column`
    VocabularyError               the vocabulary cannot be used (ValueError)
    MatcherError                  a matcher was asked the impossible, as rolling back past its start (RuntimeError)

Each carries data: `message`, `pointer` (RFC 6901: "" is the root, `uri#pointer` in another document, None where
there is no schema), `keyword` and `remedy`.
"""

from __future__ import annotations


class GrammarError(ValueError):
    """Base of everything the compiler refuses. `str(error)` is one line: what, where, remedy."""

    def __init__(
        self, message: str, *, pointer: str | None = None, keyword: str | None = None, remedy: str | None = None
    ) -> None:
        self.message = message
        self.pointer = pointer
        self.keyword = keyword
        self.remedy = remedy
        super().__init__(message)

    def __str__(self) -> str:
        # Places in other documents are written with their URI, as "https://example.com/a#/items".
        mark = "#" if self.pointer is not None and self.pointer[:1] in ("", "/") else ""
        where = "" if self.pointer is None else f" at {mark}{self.pointer}"
        remedy = "" if self.remedy is None else f" ({self.remedy})"
        return f"{self.message}{where}{remedy}"


class SchemaError(GrammarError):
    """The schema itself is wrong."""


class UnsupportedError(GrammarError):
    """The schema is right, and this compiler refuses it rather than ignore a part."""


class UnsatisfiableError(GrammarError):
    """No JSON value satisfies the schema; `clash` holds the pointers that contradict each other."""

    def __init__(self, message: str, *, clash: tuple[str, ...] = (), pointer: str | None = None) -> None:
        self.clash = clash
        super().__init__(message, pointer=pointer)


class PatternError(GrammarError):
    """A regular expression is malformed or not regular; `position` is an offset in `pattern`."""

    def __init__(
        self, message: str, *, pattern: str, position: int, pointer: str | None = None, keyword: str | None = None
    ) -> None:
        self.pattern = pattern
        self.position = position
        shown = pattern if len(pattern) <= 200 else f"{pattern[:90]}...{pattern[-90:]}"
        super().__init__(f"{message} in the pattern {shown!r} at offset {position}", pointer=pointer, keyword=keyword)


class BudgetError(GrammarError):
    """Construction was stopped by its budget."""


class FullError(BudgetError):
    """The tables that grammars share are full. A matcher goes on in new ones, if there it gets further."""


class GrammarTextError(GrammarError):
    """A grammar text does not parse, or its rules make no grammar. `line` and `column` count from 1, 0 if unknown."""

    def __init__(self, message: str, *, line: int = 0, column: int = 0, remedy: str | None = None) -> None:
        self.line = line
        self.column = column
        place = f"line {line}, column {column}: " if line else ""
        super().__init__(place + message, remedy=remedy)


class VocabularyError(ValueError):
    """The vocabulary cannot be used for masks."""


class MatcherError(RuntimeError):
    """A matcher was used in a way that its state does not allow."""
