"""Where in the schema a text stands: the JSON pointer of the subschema that is in force."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import takewhile

from ..algebra import ArrayView, Goal, ObjectView
from .arrays import ArrayHandler
from .objects import ObjectHandler
from .stepper import Configuration
from .tables import Tables
from .values import ValueHandler


def pointer(tables: Tables, at: Configuration) -> str | None:
    """The pointer of the value being read, or of the container between whose members the text stands.

    Where several subschemas hold at once it is the first that says anything; equal ones are known by their first place.
    None outside of schemas, and where anything may stand. Callers hold the tables' lock.
    """
    handler = tables.handler(at.frame)
    if isinstance(handler, ValueHandler):
        return _of(goal for goal, _ in handler.position.parts)
    if isinstance(handler, ObjectHandler):
        views: list[ObjectView | ArrayView] = [handler.shape.views[i] for i, _, _ in handler.alternatives]
    elif isinstance(handler, ArrayHandler):
        views = [view for view, _, _ in handler.alternatives]
    else:
        return None
    origins = handler.builder.origins
    return _of(origins[view] for view in views if view in origins)


def _of(goals: Iterable[Goal]) -> str | None:
    return next((found for goal in goals if (found := _of_goal(goal)) is not None), None)


def _of_goal(goal: Goal) -> str | None:
    """Of the subschema around the keywords of a goal."""
    places = [getattr(expr, "at", None) for expr, _ in goal.literals]
    around = [place.rpartition("/")[0].split("/") for place in places if place]
    if not around:
        return None
    shared = takewhile(lambda steps: len(set(steps)) == 1, zip(*around, strict=False))
    return "/".join(steps[0] for steps in shared)
