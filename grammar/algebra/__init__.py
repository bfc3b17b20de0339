"""The algebra of schemas: what a schema allows, type by type, as unions of flat conjunctions, and whether it does.

The point of the normal form is local reasoning: after it, each property and each item can be decided by looking at one
clause, never back at the schema. `Algebra` is its face: goals in, forms out.
"""

from __future__ import annotations

from ..schema.expr import Schema
from .algebra import Algebra
from .alphabet import Alphabet, alphabet
from .arrays import ArrayProgress, ArrayView
from .clauses import ArrayClause, ObjectClause
from .costs import FAR, Costs
from .distinct import MAX_DISTINCT
from .goals import Goal, Literal
from .objects import ObjectView, Progress, bits

__all__ = [
    "FAR",
    "MAX_DISTINCT",
    "Algebra",
    "Alphabet",
    "ArrayClause",
    "ArrayProgress",
    "ArrayView",
    "Costs",
    "Goal",
    "Literal",
    "ObjectClause",
    "ObjectView",
    "Progress",
    "Schema",
    "alphabet",
    "bits",
]
