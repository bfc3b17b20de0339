"""The token level: the byte automaton times the vocabulary, as bit masks, and the matcher of a request."""

from __future__ import annotations

from .matcher import Automaton, Matcher, TokenLevel
from .vocabulary import Vocabulary

__all__ = ["Automaton", "Matcher", "TokenLevel", "Vocabulary"]
