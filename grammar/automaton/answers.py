"""What a frame's handler answers when a lexeme of it ends."""

from __future__ import annotations

from typing import Final, Protocol

from ..frozen import frozen


class Depends:
    """The type of DEPENDS, the answer of `Handler.fill` where only the recorded text can tell."""

    def __repr__(self) -> str:
        return "DEPENDS"


DEPENDS: Final = Depends()


@frozen
class Open:
    """Go on in `row` and `frame`, with the frame `back` put on the stack."""

    row: int
    frame: int
    back: int


@frozen
class Close:
    """Take the top frame from the stack and follow its transition of `label`; with an empty stack no text goes on."""

    label: int


Exact = tuple[int, int] | Open | Close | None
"""(row, frame): go on there with the stack as it is. None: no text goes on."""
Answer = Exact | Depends


class Handler(Protocol):
    """What a frame does when a lexeme of it ends.

    Called under the tables' lock, which may be lent to others meanwhile (see `turns`).
    """

    def fill(self, frame: int, label: int) -> Answer:
        """What is next; DEPENDS: the recorded text decides (`resolve`)."""

    def resolve(self, frame: int, label: int, texts: tuple[bytes, ...]) -> Exact:
        """The same with the texts given that the frame records, exact. Asked only of frames with scopes."""
