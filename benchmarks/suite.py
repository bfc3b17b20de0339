"""The official JSON-Schema-Test-Suite and the schema vectors, every text judged by the byte automaton.

    python benchmarks/suite.py [--sample N] [--seconds S]

Required tests run with `order="any", spelling="any", formats=False`. A schema refused as unsatisfiable counts as
right where none of its tests is valid. Optional format tests run with `formats=True` and are listed.
Writes `build/suite.json`.
"""

from __future__ import annotations

import argparse
import json
import random
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import referencing
import referencing.jsonschema
from report import write_report
from slipcast.grammar import CompiledGrammar, GrammarCompiler, GrammarError, UnsatisfiableError, Vocabulary

ROOT = Path(__file__).resolve().parents[1]
DATA = ROOT.parent / "shared" / "data"
SUITE = DATA / "json-schema-test-suite"
DRAFTS = {
    "draft2020-12": "https://json-schema.org/draft/2020-12/schema",
    "draft2019-09": "https://json-schema.org/draft/2019-09/schema",
    "draft7": "http://json-schema.org/draft-07/schema#",
    "draft6": "http://json-schema.org/draft-06/schema#",
    "draft4": "http://json-schema.org/draft-04/schema#",
}


class Judge:
    """Compiles schemas over a vocabulary of single bytes and asks the automaton about texts."""

    def __init__(self) -> None:
        self._compiler = GrammarCompiler(Vocabulary(tokens=[bytes((i,)) for i in range(256)] + [None], eos_ids=[256]))
        self.wrong: list[str] = []

    def group(
        self,
        where: str,
        schema: Any,
        tests: list[tuple[str, str, bool]],
        wrong_schema: type[GrammarError] = UnsatisfiableError,
        **options: Any,
    ) -> Counter[str]:
        """Outcomes of the tests (name, JSON text, valid) of one schema; refusing it as `wrong_schema` may be right."""
        try:
            grammar = self._compiler.json_schema(schema, **options)
        except GrammarError as error:
            if isinstance(error, wrong_schema) and not any(valid for _, _, valid in tests):
                return Counter(right=len(tests))
            self.wrong.append(f"{where}: refused: {error}")
            return Counter(refused=len(tests))
        outcomes: Counter[str] = Counter()
        for name, text, valid in tests:
            outcome = self._outcome(grammar, text, valid)
            outcomes[outcome] += 1
            if outcome != "right":
                self.wrong.append(f"{where}: {name}: {outcome}")
        return outcomes

    def _outcome(self, grammar: CompiledGrammar, text: str, valid: bool) -> str:
        try:
            accepted = grammar.accepts(text)
        except GrammarError as error:
            self.wrong.append(str(error))
            return "refused"
        return "right" if accepted is valid else "accepted_invalid" if accepted else "rejected_valid"


def groups(folder: Path) -> Iterator[tuple[str, Any]]:
    """The groups of tests in a folder of the suite."""
    for path in sorted(folder.glob("*.json")):
        for group in json.loads(path.read_text(encoding="utf-8")):
            yield f"{path.stem}: {group['description']}", group


def remotes(dialect: str) -> referencing.Registry[Any]:
    """The schemas that the suite's references lead to."""
    specification = referencing.jsonschema.specification_with(dialect)
    registry: referencing.Registry[Any] = referencing.Registry()
    for path in (SUITE / "remotes").rglob("*.json"):
        resource = referencing.Resource.from_contents(
            json.loads(path.read_text(encoding="utf-8")), default_specification=specification
        )
        uri = f"http://localhost:1234/{path.relative_to(SUITE / 'remotes').as_posix()}"
        registry = registry.with_resource(uri, resource)
    return registry


def texts(group: Any) -> list[tuple[str, str, bool]]:
    """The tests of a group as JSON texts."""
    return [(test["description"], json.dumps(test["data"]), test["valid"]) for test in group["tests"]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sample", type=int, default=0, help="this many groups of each draft (0: all)")
    parser.add_argument("--seconds", type=float, default=0, help="stop each draft after this time (0: never)")
    options = parser.parse_args()
    if not SUITE.exists():
        raise SystemExit(f"no JSON-Schema-Test-Suite at {SUITE}: put it there to run this")
    judge = Judge()
    figures: dict[str, float] = {}
    print(f"{'':28}{'total':>7}{'right':>7}{'accepted invalid':>18}{'rejected valid':>16}{'refused':>9}")

    def record(name: str, outcomes: Counter[str]) -> None:
        total = sum(outcomes.values())
        key = name.replace("-", "_")
        figures[f"{key}_total"] = total
        for outcome in ("right", "accepted_invalid", "rejected_valid", "refused"):
            figures[f"{key}_{outcome}"] = outcomes[outcome]
        row = [outcomes[name] for name in ("right", "accepted_invalid", "rejected_valid", "refused")]
        print(f"{name:28}{total:7}{row[0]:7}{row[1]:18}{row[2]:16}{row[3]:9}", flush=True)

    for draft, dialect in DRAFTS.items():
        registry = remotes(dialect)
        required = list(groups(SUITE / "tests" / draft))
        if options.sample:
            random.Random(1).shuffle(required)
            required = required[: options.sample]
        outcomes: Counter[str] = Counter()
        started = time.monotonic()
        for where, group in required:
            outcomes += judge.group(
                f"{draft} {where}", group["schema"], texts(group),
                order="any", spelling="any", formats=False, dialect=dialect, registry=registry,
            )  # fmt: skip
            if options.seconds and time.monotonic() - started > options.seconds:
                break
        record(draft, outcomes)
    if not options.sample:
        for draft, dialect in DRAFTS.items():
            outcomes = Counter()
            for where, group in groups(SUITE / "tests" / draft / "optional" / "format"):
                name = f"{draft} format {where}"
                tests = texts(group)
                outcomes += judge.group(name, group["schema"], tests, order="any", spelling="any", dialect=dialect)
            record(f"{draft}_format", outcomes)
    vectors = json.loads((DATA / "schema-vectors.json").read_text(encoding="utf-8"))
    clean = 0
    for vector in vectors:
        tests = [(text, text, kind == "valid") for kind in ("valid", "invalid") for text in vector[kind]]
        where = f"vector {vector['id']}"
        outcomes = judge.group(where, vector["schema"], tests, GrammarError, order="any", spelling="any")
        clean += outcomes["right"] == len(tests)
    figures["vectors_clean"], figures["vectors_total"] = clean, len(vectors)
    print(f"{'vectors':28}{len(vectors):7}{clean:7}")
    for line in judge.wrong:
        print("  " + line)
    write_report("suite", figures)


if __name__ == "__main__":
    main()
