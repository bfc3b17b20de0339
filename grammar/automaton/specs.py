"""What a position of the text may hold, as frozen values: the question that `Lexemes` answers with rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from ..frozen import frozen
from .codes import BIG, FIRST_LABEL, VALUE_END

if TYPE_CHECKING:
    from ..regular import Dfa, Language
    from .keytext import KeyText

Spelling = Literal["natural", "any"]


@frozen
class Whitespace:
    """Where white space may or must stand.

    bounded   anywhere JSON allows it, at most `longest` characters in a run
    compact   nowhere
    spaced    one space after each comma and colon
    pretty    one space after each colon, each member and item on its own line, `indent` spaces a level
    """

    mode: Literal["bounded", "compact", "spaced", "pretty"] = "bounded"
    indent: int = 2
    longest: int = 8

    def __post_init__(self) -> None:
        if self.mode not in ("bounded", "compact", "spaced", "pretty"):
            raise ValueError(f"whitespace mode {self.mode!r} (one of bounded, compact, spaced, pretty)")
        if not 0 <= self.indent <= 16:
            raise ValueError(f"indent {self.indent} (0 to 16)")
        if not 0 <= self.longest <= 64:
            raise ValueError(f"longest run {self.longest} (0 to 64)")


@frozen
class ValueSpec:
    """The values of one position. Each part carries the tags (bits) of the alternatives that it stands for.

    leading      bounded white space may come first (no effect in the other modes)
    first_item   the position follows `[` directly: in pretty mode a line break and the indentation come first
    closable     `]` may come instead of a value (label ARRAY_CLOSE); implies first_item
    depth        levels of indentation of this value (pretty mode only)
    literals     `true`, `false`, `null`; numbers are languages in `numbers`
    """

    strings: tuple[tuple[Language, int], ...] = ()
    numbers: tuple[tuple[Dfa, int], ...] = ()
    literals: tuple[tuple[str, int], ...] = ()
    object: bool = False
    array: bool = False
    closable: bool = False
    all_tags: int = 1
    leading: bool = True
    first_item: bool = False
    depth: int = 0


@frozen
class ValueStart:
    """Where a value begins: `row`, the bounds `low` and `high` for its frame, and what its labels mean."""

    row: int
    low: int = 0
    high: int = BIG
    all_tags: int = 1
    _tags: tuple[int, ...] | list[int] = ()

    def tags_of(self, label: int) -> int:
        """The alternatives that accept a scalar which ended with `label` (VALUE_END: all of `all_tags`)."""
        return self.all_tags if label == VALUE_END else self._tags[label - FIRST_LABEL]

    @property
    def labels(self) -> int:
        """How many labels are in use so far: sets of alternatives get theirs as they are first met."""
        return FIRST_LABEL + len(self._tags)


@frozen
class KeySpec:
    """The keys of an object: declared `names`, and the others told apart by which of `patterns` they match.

    any_other: keys that match no pattern may come too. depth: levels of indentation of a member (pretty mode only).
    """

    names: tuple[str, ...] = ()
    patterns: tuple[Dfa, ...] = ()
    any_other: bool = True
    depth: int = 0


@frozen(eq=False)
class KeyLexeme:
    """Rows that read a key with the punctuation before it and the colon behind it.

    first         row after `{`: a key, or `}` (label OBJECT_CLOSE)
    next          row after a value: a comma and a key, or `}`
    first_open, next_open   the same without the `}`: where it may not come yet. In pretty mode a frame that cannot
                  close must start here, since the line break before `}` differs from the one before a key.
    names, signatures   the keys told apart: a signature is the bit set of the patterns that an undeclared key matches
    used          undeclared keys that came already and may not come again

    Labels: signatures first, then names, since the body of undeclared keys is shared by lexemes of any number of names.
    """

    first: int
    next: int
    first_open: int
    next_open: int
    names: tuple[str, ...]
    signatures: tuple[int, ...]
    used: frozenset[str]
    depth: int
    text: KeyText

    def signature_label(self, index: int) -> int:
        """The label of an undeclared key with the signature `signatures[index]`."""
        return FIRST_LABEL + index

    def name_label(self, index: int) -> int:
        """The label of the key `names[index]`."""
        return FIRST_LABEL + len(self.signatures) + index

    def name_of(self, label: int) -> str | None:
        """The declared name that a label stands for, None for a signature's."""
        index = label - FIRST_LABEL - len(self.signatures)
        return self.names[index] if index >= 0 else None

    def signature_of(self, label: int) -> int | None:
        """The signature that a label stands for, None for a name's."""
        index = label - FIRST_LABEL
        return self.signatures[index] if index < len(self.signatures) else None

    @property
    def labels(self) -> int:
        """How many labels the frame of this lexeme needs."""
        return FIRST_LABEL + len(self.signatures) + len(self.names)

    def allow(self, mask: int) -> int:
        """The value of `allow` for a frame: bit i of `mask` says that a key with label FIRST_LABEL + i may come."""
        return self.text.reach.allow(mask)
