"""A grammar of one's own: the answer is a query of a small language, whatever the model."""

from __future__ import annotations

from slipcast.engine import Engine

GRAMMAR = r"""
%import dates.date

root   ::= "find " what (" where " test (" and " test)*)? (" since " date)?
what   ::= "orders" | "customers"
test   ::= field " " ("=" | "<" | ">") " " value
field  ::= "total" | "name" | "country"
value  ::= [0-9]{1,6} | "'" [A-Za-z ]{1,20} "'"
"""


def main() -> None:
    with Engine() as engine:
        grammar = engine.compiler.grammar(GRAMMAR)
        print("for example:", grammar.sample(4))
        answer = engine.chat.completions.create(
            messages=[{"role": "user", "content": "Query: orders above 100 from Italy since May 2024"}],
            response_format={"type": "grammar", "grammar": GRAMMAR, "syntax": "grammarbnf"},
            max_tokens=60,
            temperature=0,
        )
        text = answer.choices[0].message.content or ""
        assert grammar.accepts(text)
        print("the model:  ", text)


if __name__ == "__main__":
    main()
