"""A slow compilation does not hold up those who decode under other grammars of the same compiler."""

from __future__ import annotations

import threading

import numpy as np
import pytest
from slipcast.grammar import GrammarCompiler, Vocabulary
from slipcast.grammar.algebra import Algebra

VOCABULARY = Vocabulary([*(bytes((byte,)) for byte in range(256)), None], [256])


def test_masks_are_filled_while_a_schema_is_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    compiler = GrammarCompiler(VOCABULARY)
    matcher = compiler.json_schema({"type": "array", "items": {"enum": ["some", "thing"]}}).matcher()
    inside, go_on = threading.Event(), threading.Event()
    check = Algebra.require_satisfiable

    def slow(self: Algebra) -> None:
        inside.set()
        assert go_on.wait(30)
        check(self)

    monkeypatch.setattr(Algebra, "require_satisfiable", slow)
    compiling = threading.Thread(target=lambda: compiler.json_schema({"type": "integer", "maximum": 3}))
    compiling.start()
    try:
        assert inside.wait(30)
        decoded = threading.Event()

        def decode() -> None:
            row = np.zeros(VOCABULARY.words, np.int32)
            for byte in b'["some"]':
                matcher.fill_mask(row)
                assert row[byte >> 5] >> (byte & 31) & 1 and matcher.accept(byte)
            decoded.set()

        threading.Thread(target=decode, daemon=True).start()
        assert decoded.wait(20)
    finally:
        go_on.set()
        compiling.join()
