"""From the text of a pattern to its language.

JSON Schema searches a pattern anywhere in the text, so it is read as *anything, pattern, anything*; what `^` and `$`
make of that is sorted out here, on the tree: they mostly take the "anything" away again. Three rewrites then keep
automata small:

- A repeat at the open end of a search needs only its least count: `.*x{2,9}.*` is `.*xx.*`.
- `^a[b-z]{3,500}c$` is `^a[b-z]*c$` with a length of 5 to 502: a bound instead of 500 positions.
- Look-aheads right after `^` are intersections, `^(?=A)B$` is `^A` and `^B$`, and negative ones complements.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from ..errors import PatternError
from . import nodes
from .charset import CharSet
from .dfa import Dfa, interned, star
from .ecma import parse
from .language import ANY, EMPTY, Language, complement, intersect, union, words
from .lookaround import LookDfa
from .nodes import ANYTHING, EPSILON, NOTHING, Assert, Chars, Choice, Look, Node, Repeat, Sequence
from .position_dfa import PositionDfa
from .positions import Builder

_CACHED_PATTERNS = 1024
# Below this many copies a repeat stays a repeat: a bound beside the automaton is one more thing for every product.
_LEAST_COUNTED = 12
_ANCHOR_DEPTH = 4
_MOST_LITERAL = 1000
_FEW_POSITIONS = 500
"""So few that building them is certainly within all limits."""


@lru_cache(_CACHED_PATTERNS)
def pattern(source: str) -> Language:
    """The texts in which ECMA-262 pattern `source` is found, as JSON Schema's `pattern` means it.

    Raises PatternError (malformed, or a back-reference) and BudgetError (too deep, too long, too many positions).
    """
    return _search(parse(source), f"the pattern {_shown(source)}")


@lru_cache(_CACHED_PATTERNS)
def whole_pattern(source: str) -> Language:
    """The texts that `source` matches from end to end. Raises as `pattern` does."""
    return _language(parse(source), f"the pattern {_shown(source)}")


def template(source: str, sets: Mapping[str, CharSet]) -> Language:
    """`whole_pattern` of a pattern that may name any of `sets` as `\\p{name}`."""
    return _language(parse(source, sets=sets), f"the pattern {_shown(source)}")


def is_pattern(source: str) -> bool:
    """Whether `source` is valid with ECMA-262's `u` flag; back-references count as valid here."""
    try:
        parse(source, strict=True, references=True)
    except PatternError:
        return False
    return True


def _shown(source: str) -> str:
    return repr(source if len(source) <= 80 else source[:77] + "...")


def _search(tree: Node, name: str) -> Language:
    body, at_start, at_end = _anchors(tree)
    first, *rest = body.parts if isinstance(body, Sequence) and body.parts else (body,)
    if at_start and isinstance(first, Look) and first.ahead:
        return _ahead(first, rest, at_end, name)
    if not at_start:
        body = nodes.sequence([ANYTHING, _trimmed(body, last=False)])
    if not at_end:
        body = nodes.sequence([_trimmed(body, last=True), ANYTHING])
    return _language(body, name)


def _ahead(look: Look, parts: list[Node], at_end: bool, name: str) -> Language:
    """`^`, a look-ahead, and then `parts`: the intersection with what the look-ahead looks for."""
    start = Assert(nodes.AT_START)
    end = [Assert(nodes.AT_END)] if at_end else []
    rest = _search(nodes.sequence([start, *parts, *end]), name)
    seen = _search(nodes.sequence([start, look.body]), name)
    if not look.negative:
        return intersect(rest, seen)
    found = EMPTY
    for part in complement(seen):
        found = union(found, intersect(rest, part))
    return found


def _anchors(tree: Node, depth: int = 0) -> tuple[Node, bool, bool]:
    """`tree` without the `^` and `$` at its ends, and whether they were there. All parts of a choice must have them.

    Choices are looked into only so deep: what stays in the tree is still understood, at the price of more states.
    """
    if isinstance(tree, Choice):
        if depth > _ANCHOR_DEPTH:
            return tree, False, False
        parts = [_anchors(part, depth + 1) for part in tree.parts]
        if all(start for _, start, _ in parts):
            if all(end for _, _, end in parts):
                return nodes.choice(body for body, _, _ in parts), True, True
            return nodes.choice(_with_end(body, end) for body, _, end in parts), True, False
        if all(end for _, _, end in parts):
            return nodes.choice(_with_start(body, start) for body, start, _ in parts), False, True
        return tree, False, False
    if not isinstance(tree, Sequence):
        tree = Sequence((tree,))
    parts_ = list(tree.parts)
    start = end = False
    while parts_:
        if isinstance(parts_[0], Assert) and parts_[0].gaps == nodes.AT_START:
            parts_.pop(0)
            start = True
        elif isinstance(parts_[0], Choice):
            body, inner, inner_end = _anchors(parts_[0], depth + 1)
            if not inner:
                break
            parts_[0] = _with_end(body, inner_end)
            start = True
            break
        else:
            break
    while parts_:
        if isinstance(parts_[-1], Assert) and parts_[-1].gaps == nodes.AT_END:
            parts_.pop()
            end = True
        elif isinstance(parts_[-1], Choice):
            body, inner_start, inner = _anchors(parts_[-1], depth + 1)
            if not inner:
                break
            parts_[-1] = _with_start(body, inner_start)
            end = True
            break
        else:
            break
    return nodes.sequence(parts_), start, end


def _with_start(body: Node, start: bool) -> Node:
    return nodes.sequence([Assert(nodes.AT_START), body]) if start else body


def _with_end(body: Node, end: bool) -> Node:
    return nodes.sequence([body, Assert(nodes.AT_END)]) if end else body


def _trimmed(node: Node, *, last: bool) -> Node:
    """What is left of `node` at an open end of a search, beside "anything": a part that can be empty adds nothing."""
    if _is_plain(node) and _can_be_empty(node):
        return EPSILON
    if isinstance(node, Repeat) and _is_plain(node):
        return nodes.repeat(node.body, node.low, node.low)
    if isinstance(node, Choice):
        return nodes.choice(_trimmed(part, last=last) for part in node.parts)
    if not isinstance(node, Sequence):
        return node
    parts = list(node.parts)
    end = -1 if last else 0
    while parts and _is_plain(parts[end]) and _can_be_empty(parts[end]):
        parts.pop(end)
    if parts:
        parts[end] = _trimmed(parts[end], last=last)
    return nodes.sequence(parts)


def _is_plain(node: Node) -> bool:
    """Whether no assertion or look-around is in `node`."""
    if isinstance(node, Repeat):
        return _is_plain(node.body)
    if isinstance(node, (Sequence, Choice)):
        return all(_is_plain(part) for part in node.parts)
    return isinstance(node, Chars)


def _can_be_empty(node: Node) -> bool:
    if isinstance(node, Repeat):
        return node.low == 0 or _can_be_empty(node.body)
    if isinstance(node, Sequence):
        return all(_can_be_empty(part) for part in node.parts)
    if isinstance(node, Choice):
        return any(_can_be_empty(part) for part in node.parts)
    return False


def _language(tree: Node, name: str) -> Language:
    """The texts that `tree` matches from end to end."""
    if tree == NOTHING:
        return EMPTY
    if tree == ANYTHING:
        return ANY
    if tree == EPSILON:
        return words([""])
    literal = _literals(tree)
    if literal is not None:
        return words(literal)
    low, high, tree = _counted(tree)
    if isinstance(tree, Repeat) and isinstance(tree.body, Chars) and (tree.low, tree.high) == (0, None):
        return Language(star(tree.body.set), low, high)
    dfa = tree_dfa(tree, name)
    return EMPTY if dfa.start is None else Language(dfa, low, high)


def _literals(tree: Node) -> list[str] | None:
    """The words that `tree` is a plain choice of, if it is one."""
    found = []
    for word in tree.parts if isinstance(tree, Choice) else (tree,):
        text = ""
        for part in word.parts if isinstance(word, Sequence) else (word,):
            low, high, body = (part.low, part.high, part.body) if isinstance(part, Repeat) else (1, 1, part)
            if low != high or low > _MOST_LITERAL or not isinstance(body, Chars) or len(body.set) != 1:
                return None
            text += body.set.sample() * low
        found.append(text)
    return found


def _counted(tree: Node) -> tuple[int, int | None, Node]:
    """Turns the one part of varying length of a sequence, if it repeats a set, into a bound on the whole length."""
    if isinstance(tree, Repeat) and isinstance(tree.body, Chars):
        return tree.low, tree.high, nodes.repeat(tree.body, 0, None)
    if not isinstance(tree, Sequence):
        return 0, None, tree
    fixed, varying = 0, -1
    for index, part in enumerate(tree.parts):
        length = _fixed_length(part)
        if length is not None:
            fixed += length
        elif varying >= 0:
            return 0, None, tree
        else:
            varying = index
    part = tree.parts[varying]
    if varying < 0 or not isinstance(part, Repeat) or not isinstance(part.body, Chars):
        return 0, None, tree
    if max(part.low, part.high or 0) < _LEAST_COUNTED:
        return 0, None, tree
    loop = nodes.repeat(part.body, 0, None)
    high = None if part.high is None else part.high + fixed
    return part.low + fixed, high, Sequence((*tree.parts[:varying], loop, *tree.parts[varying + 1 :]))


def _fixed_length(node: Node) -> int | None:
    """The length of every match of `node`, if it is one number."""
    if isinstance(node, Chars):
        return 1
    if isinstance(node, (Assert, Look)):
        return 0
    if isinstance(node, Repeat):
        length = _fixed_length(node.body)
        return length * node.low if length is not None and node.low == node.high else None
    lengths = [_fixed_length(part) for part in node.parts]
    if isinstance(node, Sequence):
        total = 0
        for length in lengths:
            if length is None:
                return None
            total += length
        return total
    return lengths[0] if len(set(lengths)) == 1 else None


def tree_dfa(tree: Node, name: str) -> Dfa:
    """The automaton of the texts that `tree` matches from end to end."""

    def build() -> Dfa:
        split = _asks_for_words(tree)
        if _has_look(tree):
            return LookDfa(("regex", tree), name, tree, split)
        plain = not split and 0 < _size(tree) <= _FEW_POSITIONS
        return PositionDfa(("regex", tree), name, lambda: Builder(name, split=split).whole(tree), plain=plain)

    return interned(("regex", tree), build)


def _size(node: Node) -> int:
    """At most so many positions; 0 if there may be some from where no end can be reached."""
    if isinstance(node, Chars):
        return 1 if node.set else 0
    if isinstance(node, Repeat):
        return _size(node.body) * max(node.low + 1, node.high or 0)
    if isinstance(node, (Sequence, Choice)):
        sizes = [_size(part) for part in node.parts]
        return sum(sizes) if all(sizes) else 0
    return 0


def _has_look(node: Node) -> bool:
    if isinstance(node, Repeat):
        return _has_look(node.body)
    if isinstance(node, (Sequence, Choice)):
        return any(_has_look(part) for part in node.parts)
    return isinstance(node, Look)


def _asks_for_words(node: Node) -> bool:
    """Whether an assertion tells word characters from others: `\\b` or `\\B`."""
    if isinstance(node, Assert):
        return node.gaps not in (nodes.AT_START, nodes.AT_END, 0)
    if isinstance(node, (Repeat, Look)):
        return _asks_for_words(node.body)
    return isinstance(node, (Sequence, Choice)) and any(_asks_for_words(part) for part in node.parts)

