"""The algebra against the official suite: a value is valid exactly if the schema and `const` of it go together."""

from __future__ import annotations

import pytest
from official_suite import SPECIFICATIONS, files, groups, needs_suite, remotes
from slipcast.grammar.algebra import Algebra
from slipcast.grammar.schema import read
from slipcast.grammar.schema.expr import Const
from slipcast.grammar.schema.values import canonical

pytestmark = needs_suite


@pytest.mark.parametrize("draft", SPECIFICATIONS)
def test_every_required_test_is_right(draft: str) -> None:
    wrong = []
    for path in files(draft):
        for group in groups(path):
            algebra = Algebra(read(group["schema"], dialect=draft, formats=False, registry=remotes(draft)))
            for test in group["tests"]:
                value = Const(canonical(test["data"]))
                goal = algebra.goals.of([*algebra.root.literals, (value, True)])
                valid = not algebra.root.impossible and algebra.nonempty(goal)
                if valid is not test["valid"]:
                    wrong.append(f"{path.stem}: {group['description']}: {test['description']}")
    assert wrong == []
