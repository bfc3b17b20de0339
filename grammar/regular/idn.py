"""Internationalised host names: IDNA 2008 (RFC 5891 to 5893), as far as it is regular.

A label is made of the code points RFC 5892 allows, some of them only in context, and does not begin with a combining
mark. A name with a right-to-left character anywhere obeys the Bidi rule (RFC 5893, section 2) in every label.
The tables are those of the `idna` package; directions and categories are Python's.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable
from functools import lru_cache
from itertools import groupby

from .charset import CharSet
from .dfa import Dfa, LazyDfa, interned, star
from .language import Language
from .patterns import template
from .products import all_of, any_of, none_of
from .unicode import property_set

_LABEL_LENGTH = 63
# A non-ASCII label becomes "xn--" and at least one character for each of its own, and a delta has at least two digits
# for the first one outside ASCII.
_UNICODE_LENGTH = _LABEL_LENGTH - 4 - 1
_NAME_LENGTH = 253


def _decoded(ranges: tuple[int, ...]) -> CharSet:
    """Ranges packed as the idna package has them: 32 bits for the first code point, 32 for the one after the last."""
    return CharSet.of(*((packed >> 32, (packed & 0xFFFFFFFF) - 1) for packed in ranges))


@lru_cache(1)
def _sets() -> dict[str, CharSet]:
    """The sets that the rules below name."""
    from idna import idnadata  # a large module, for one rare format

    valid = _decoded(idnadata.codepoint_classes["PVALID"])
    context = _decoded(idnadata.codepoint_classes["CONTEXTO"]) | _decoded(idnadata.codepoint_classes["CONTEXTJ"])
    scripts = {name.lower(): _decoded(ranges) for name, ranges in idnadata.scripts.items()}
    marks = (valid | context) & property_set("M")
    viramas = [(mark, mark) for mark in marks if unicodedata.combining(chr(mark)) == 9]
    # Most characters are ideographs and Hangul syllables, left to right all of them but for marks.
    many = ((scripts["han"] | property_set("Script=Hangul")) & (valid | context)) - marks
    directions: dict[str, list[tuple[int, int]]] = {"L": list(many.ranges())}
    for first, last in ((valid | context) - many).ranges():
        for direction, run in groupby(range(first, last + 1), lambda point: unicodedata.bidirectional(chr(point))):
            points = list(run)
            directions.setdefault(direction, []).append((points[0], points[-1]))
    directions["L"] += [(ord("A"), ord("Z"))]
    sets = {f"bidi_{name or 'none'}": CharSet.of(*ranges) for name, ranges in directions.items()}
    for name in ("L", "R", "AL", "AN", "EN", "ES", "CS", "ET", "ON", "BN", "NSM"):
        sets.setdefault(f"bidi_{name}", CharSet.of())
    joining = {f"join_{kind}": _decoded(ranges) for kind, ranges in idnadata.joining_types.items()}
    cjk = scripts["hiragana"] | scripts["katakana"] | scripts["han"]
    return {
        **sets, **scripts, **joining, "valid": valid - CharSet.chars("-"), "mark": marks,
        "virama": CharSet.of(*viramas),
        "cjk": cjk - CharSet.chars("\u30fb"),
    }


# RFC 5892, appendix A: the code points that need a context. Each is one alternative of a label's character.
_CONTEXTS = (
    r"(?:(?<=\p{virama})[\u200c\u200d]"
    r"|(?<=[\p{join_L}\p{join_D}]\p{join_T}*)\u200c(?=\p{join_T}*[\p{join_R}\p{join_D}])"
    r"|(?<=l)\u00b7(?=l)|\u0375(?=\p{greek})|(?<=\p{hebrew})[\u05f3\u05f4]|[\u30fb\u0660-\u0669\u06f0-\u06f9])"
)
_LABEL = rf"[A-Za-z0-9\-]+|(?:[\p{{valid}}\-]|{_CONTEXTS})+"
_LENGTH = rf"[ -~]{{1,{_LABEL_LENGTH}}}|[^]{{1,{_UNICODE_LENGTH}}}"
_REFUSED = (
    r"(?:\p{mark}|-|[^]{2}--)[^]*|[^]*-",  # RFC 5891, section 4.2.3
    r"[^]*(?:[\u0660-\u0669][^]*[\u06f0-\u06f9]|[\u06f0-\u06f9][^]*[\u0660-\u0669])[^]*",  # RFC 5892, A.8 and A.9
    r"[^\p{cjk}]*\u30fb[^\p{cjk}]*",  # RFC 5892, A.7
)
_NEUTRAL = r"\p{bidi_ES}\p{bidi_CS}\p{bidi_ET}\p{bidi_ON}\p{bidi_BN}\p{bidi_NSM}"
_RIGHT = r"\p{bidi_R}\p{bidi_AL}"
_BIDI = (
    rf"[{_RIGHT}](?:[{_RIGHT}\p{{bidi_EN}}{_NEUTRAL}]*[{_RIGHT}\p{{bidi_EN}}])?\p{{bidi_NSM}}*"
    rf"|[{_RIGHT}](?:[{_RIGHT}\p{{bidi_AN}}{_NEUTRAL}]*[{_RIGHT}\p{{bidi_AN}}])?\p{{bidi_NSM}}*"
    rf"|\p{{bidi_L}}(?:[\p{{bidi_L}}\p{{bidi_EN}}{_NEUTRAL}]*[\p{{bidi_L}}\p{{bidi_EN}}])?\p{{bidi_NSM}}*"
)
_SEPARATOR = CharSet.chars(".\u3002\uff0e\uff61")


class ListDfa(LazyDfa[int]):
    """One or more words of `item`, separated by one character that no item holds."""

    def __init__(self, item: Dfa, separator: CharSet) -> None:
        super().__init__(("list", item, separator), f"a list of {item.name}", item.start)
        self.item, self.separator = item, separator

    def _moves(self, state: int) -> Iterable[tuple[CharSet, int]]:
        yield from self.item.step(state)
        if self.item.accepting(state) and self.item.start is not None:
            yield self.separator, self.item.start

    def _accepts(self, state: int) -> bool:
        return self.item.accepting(state)

    def _distance(self, start: int) -> int:
        found = self._distances[start] = self.item.shortest(self._states[start])
        return found

    def _nearby(self, state: int) -> int:
        return self.item.near(self._states[state])


def idn_hostname() -> Language:
    """Format `idn-hostname`; `formats` names what is not checked."""
    sets = _sets()
    label = all_of([
        template(_LABEL, sets).dfa, template(_LENGTH, sets).dfa, *(none_of(template(r, sets).dfa) for r in _REFUSED),
    ])
    right_to_left = sets["bidi_R"] | sets["bidi_AL"] | sets["bidi_AN"]
    plain = all_of([label, star(~right_to_left)])
    bidi = all_of([label, template(_BIDI, sets).dfa])
    return Language(any_of([_list_of(plain), _list_of(bidi)]), 0, _NAME_LENGTH)


def _list_of(label: Dfa) -> Dfa:
    return interned(("list", label, _SEPARATOR), lambda: ListDfa(label, _SEPARATOR))
