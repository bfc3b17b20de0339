"""A toolbox of regular languages over code points: patterns, formats, numbers, words, and their boolean algebra."""

from .charset import ALL, CharSet, partition
from .dfa import EMPTY_DFA, INFINITE, Dfa, star
from .formats import EXAMPLES, FORMATS, format_language
from .language import ANY, EMPTY, Language, complement, intersect, joined, union, words
from .number_spec import NumberSpec, contains, number_count, number_values, numbers_empty
from .numbers import Spelling, natural_texts, numbers
from .patterns import is_pattern, pattern, whole_pattern
from .products import all_of, any_of, counted, none_of

__all__ = [
    "ALL", "ANY", "EMPTY", "EMPTY_DFA", "EXAMPLES", "FORMATS", "INFINITE", "CharSet", "Dfa", "Language", "NumberSpec",
    "Spelling", "all_of", "any_of", "complement", "contains", "counted", "format_language", "intersect", "is_pattern",
    "joined", "natural_texts", "none_of", "number_count", "number_values", "numbers", "numbers_empty", "partition",
    "pattern", "star", "union", "whole_pattern", "words",
]
