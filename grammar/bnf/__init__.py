"""Grammar texts: their readers, the one form they are read into (`ir`), and its automaton."""
