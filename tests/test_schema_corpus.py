"""Real schemas: each reads or is refused for a listed reason, and the oracle agrees with `jsonschema` on their
instances.
"""

from __future__ import annotations

import json
import lzma
import os
import warnings
from collections.abc import Iterator
from pathlib import Path

import jsonschema
import pytest
from jsonschema.validators import validator_for
from schema_oracle import allowed
from slipcast.grammar.errors import GrammarError, SchemaError, UnsupportedError
from slipcast.grammar.schema import inspect, read
from slipcast.grammar.schema.values import parse_json

DATA = Path(__file__).resolve().parent.parent.parent / "shared" / "data"
# One schema in so many; 1 is all 5,679 of them (about half a minute).
EVERY = int(os.environ.get("SLIPCAST_CORPUS_EVERY", "15"))

REFUSED = {
    # The `id` around makes `#` mean that place, where nothing of the kind is.
    "Github_medium---o44063": (SchemaError, "leads nowhere"),
    "Github_ultra---o91126": (SchemaError, "leads nowhere"),
}
# jsonschema takes 12345.0 for no integer in draft 4, by its spelling; we compare values. See
# `grammar/schema/read_scalars.py`.
BY_SPELLING = {"Github_trivial---o14485"}

pytestmark = pytest.mark.skipif(not DATA.exists(), reason="the shared data is not beside the repository")


def corpus() -> Iterator[dict]:
    with lzma.open(DATA / "maskbench-dev.jsonl.xz", "rt", encoding="utf-8") as lines:
        for index, line in enumerate(lines):
            if index % EVERY == 0:
                yield json.loads(line)


def test_real_schemas_mean_what_jsonschema_says() -> None:
    judged = 0
    for case in corpus():
        schema = case["schema"]
        try:
            result = read(schema, formats=False)
        except UnsupportedError as error:
            assert error.keyword in ("pattern", "patternProperties"), (case["id"], str(error))
            continue
        except GrammarError as error:
            kind, part = REFUSED.get(case["id"], (None, ""))
            assert kind is type(error), (case["id"], str(error))
            assert part in str(error)
            continue
        assert case["id"] not in REFUSED
        validator = validator_for(schema, default=jsonschema.Draft202012Validator)(schema)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Python's `re` on patterns of other dialects
            for test in case["tests"]:
                if case["id"] not in BY_SPELLING:
                    assert allowed(result, test["data"]) == validator.is_valid(test["data"]), (case["id"], test)
                    judged += 1
        assert not inspect(schema, formats=False).refused
    assert judged > 10_000 // EVERY


def test_vectors() -> None:
    """The vectors of what other engines got wrong, as far as values can tell (the rest is a matter of spelling)."""
    for vector in json.loads((DATA / "schema-vectors.json").read_text(encoding="utf-8")):
        if vector["id"] == "type_bogus":
            with pytest.raises(SchemaError, match="did you mean"):
                read(vector["schema"])
            continue
        result = read(vector["schema"])
        for text in vector["valid"]:
            assert allowed(result, parse_json(text)), (vector["id"], text)
        for text in vector["invalid"]:
            try:
                value = parse_json(text)
                verdict = allowed(result, value)
            except GrammarError:
                continue  # not JSON, or a lone surrogate
            except RecursionError:
                continue  # a reference to itself, which the algebra refuses
            assert not verdict or vector["id"].startswith("fmt_"), (vector["id"], text)


def test_schemas_of_frameworks_need_no_advice_about_ignored_keywords() -> None:
    def schemas(part: object) -> Iterator[dict]:
        if isinstance(part, dict):
            for key in ("schema", "parameters"):
                if isinstance(part.get(key), dict) and {"type", "$ref"} & part[key].keys():
                    yield part[key]
            for value in part.values():
                yield from schemas(value)
        elif isinstance(part, list):
            for value in part:
                yield from schemas(value)

    requests = json.loads((DATA / "framework-requests.json").read_text(encoding="utf-8"))
    found = list(schemas(requests))
    assert len(found) > 20
    for schema in found:
        report = read(schema).report()
        assert [each for each in report.advice if "nullable" not in each.message] == []
