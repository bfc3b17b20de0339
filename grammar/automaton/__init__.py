"""The byte automaton of a JSON Schema: lexemes are rows (`lexemes`), the stack is frames, both in `tables`."""
