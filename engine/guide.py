"""Leading a constrained choice home: within its budget its text is always complete.

A way out is known before every token. A drawn token counts only if a way out is left that fits what remains of the
budget; otherwise the first token of the known way is taken instead, after which the known way is one token shorter.
So from a budget that allows any text at all, the end is always reached.
"""

from __future__ import annotations

from .abilities import is_guided
from .choice import Choice
from .errors import GrammarFault


def advance_by(choice: Choice, token: int) -> None:
    """Tell the matcher of a token that nothing but the grammar chose. Raises GrammarFault if it is not taken."""
    if choice.matcher is None or not choice.matcher.accept(token):
        raise GrammarFault(f"the grammar's matcher refused token {token}, which its forced text begins with")


def advance(choice: Choice, token: int) -> int | None:
    """Tell the choice's matcher; the token that was taken, `token` or one that leads home in time. None: the text must
    end here, since it may, and no text that goes on with `token` ends in time.

    Raises GrammarFault if the matcher does not take what its own mask allowed, or raises itself.
    """
    matcher, way = choice.matcher, choice.way
    assert matcher is not None
    try:
        if not matcher.accept(token):
            raise GrammarFault(f"the grammar's matcher refused token {token}, which its mask allowed")
        if way is None or not is_guided(matcher):
            return token
        home = matcher.way_home(way, choice.left - 1)
        if home is None:
            matcher.rollback(1)
            choice.forced_close = True
            if not way.data:
                return None
            token, home = way.step()
            if not matcher.accept(token):
                raise GrammarFault(f"the grammar's matcher refused token {token} of its own way out")
        choice.way = home
    except GrammarFault:
        raise
    except Exception as error:
        raise GrammarFault(f"the grammar's matcher raised {type(error).__name__}: {error}") from error
    return token
