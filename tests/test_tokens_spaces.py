"""Masks that are put together of parts, those after a space among them, beside masks that are walked from nothing."""

from __future__ import annotations

import random

import numpy as np
import pytest
from slipcast.grammar import GrammarCompiler, Vocabulary
from slipcast.grammar.tokens.rows import EMPTY
from slipcast.grammar.tokens.vocabulary import MAIN
from slipcast.grammar.tokens.walkcodes import BELOW

WORDS = (
    *("total", "price", "the", "a", "b", "ab", "if", "for", "in", "not", "and", "import", "self.x", "print(", "A"),
    *("Bc", "é", "x1", "2", "10", "(a", "))", "(", ")", ",", ".", "=", "+", "-", ";", ":", "\n", "\t", "'", '"'),
)
TEXTS = dict.fromkeys(form for word in WORDS for form in (word, " " + word, "  " + word, word + " ", word + ","))
TOKENS = [*(bytes((byte,)) for byte in range(256)), *(text.encode() for text in TEXTS), b"</s>"]
VOCABULARY = Vocabulary(TOKENS, eos_ids=[len(TOKENS) - 1])
ASSIGNMENTS = r"""
root ::= line+
line ::= name " = " sum "\n"
sum ::= product (" + " product | " - " product)*
product ::= name | [0-9]+ | "(" sum ")" | name "(" (sum (", " sum)*)? ")"
name ::= [a-z_] [a-z0-9_]*
"""
KEYWORDS = r"""
root ::= (line "\n")+
line ::= [ ]{0,12} ("import " names | "for " names " in " test ":" | "if " test ":" | names " = " test | test)
test ::= "not "? factor ((" and " | " in ") factor)*
factor ::= ("-"? atom) ("." name | "(" (test (", " test)*)? ")" | "[" test "]")*
atom ::= name | [0-9]+ | "'" [^'\n]* "'" | "(" test ")"
names ::= name (", " name)*
name ::= [a-zA-Z_] [a-zA-Z0-9_]*
"""
LISTS = r"""
root ::= list "\n"
list ::= "(" item (" " item)* ")"
item ::= list | [a-z+=-] [a-z0-9+=-]* | [0-9]+ | "\"" [^"]* "\"" | "'" item
"""
WORDS_OF_ANYTHING = r"""
root ::= ("# " text "\n" | "- " text "\n")+
text ::= ([^*\n]+ | "*" [^*\n]+ "*") (" " text)?
"""
STATEMENTS = r"""
root ::= block "\n"
block ::= "{\n" statement* ws "}"
statement ::= ws (declared | name index* " = " sum ";\n" | "if (" sum ") " block "\n")
declared ::= ("int" | "for") " " name (" = " sum)? ";\n"
sum ::= item (" " ("+" | "-" | "and" | "in") " " item)*
item ::= name (index | "(" (sum (", " sum)*)? ")" | "." name)* | [0-9]+ | "(" sum ")"
index ::= "[" sum "]"
name ::= [a-zA-Z_] [a-zA-Z0-9_]*
ws ::= [ \t]{0,16}
"""


@pytest.mark.parametrize("grammar", [ASSIGNMENTS, KEYWORDS, LISTS, WORDS_OF_ANYTHING, STATEMENTS])
def test_masks_of_parts_are_those_walked_from_nothing(grammar: str) -> None:
    compiled = GrammarCompiler(VOCABULARY).grammar(grammar, syntax="gbnf")
    seen = 0
    for seed in range(12):
        chance = random.Random(seed)
        matcher = compiled.matcher()
        for _ in range(40):
            row = np.zeros(VOCABULARY.words, np.int32)
            matcher.fill_mask(row)
            allowed = ids(row)
            at = matcher._state.configuration
            level = matcher.level
            if at.row != level.tables.end_row:
                item = (MAIN, BELOW, at.frame, at.row, at.length, 0)
                walker = level._masks._walker
                changes = walker.walk([item], base=EMPTY, frame=at.frame, count=at.length, stack=at.stack)
                afresh = np.zeros(VOCABULARY.words, np.int32)
                afresh[changes.words] = changes.values
                assert ids(afresh) == allowed - set(VOCABULARY.eos_ids), at
                seen += 1
            going_on = sorted(allowed - set(VOCABULARY.eos_ids))
            if not going_on:
                break
            token = chance.choice([token for token in going_on if token >= 256] or going_on)
            assert matcher.accept(token)
    assert seen > 100


def ids(row: np.ndarray) -> set[int]:
    return set(np.flatnonzero(np.unpackbits(row.view(np.uint8), bitorder="little")).tolist())
