"""Where requests go: keys of what is warm, replicas by rank, metrics of several processes as one. Without a cluster."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families
from slipcast.engine import cli_deploy
from slipcast.engine.cli import build_parser
from slipcast.engine.errors import ConfigError
from slipcast.engine.scale import kept
from slipcast.engine.scale.kept import load_grammars, save_grammars
from slipcast.engine.scale.keys import PIECE, WarmKeys, seeded, warm_keys
from slipcast.engine.scale.merging import merge
from slipcast.engine.scale.warmth import Warmth
from slipcast.grammar import GrammarCompiler, Vocabulary

LONG = "You are a helpful assistant. " * 60


def body(*texts: str, **more: object) -> dict[str, object]:
    return {"messages": [{"role": "user", "content": text} for text in texts], **more}


def test_prompts_that_begin_alike_share_keys() -> None:
    one, two = warm_keys(body(LONG, "a")), warm_keys(body(LONG, "b"))
    assert one.prefixes == two.prefixes
    assert len(one.prefixes) == len(LONG) // PIECE
    assert one.prefixes[0] != warm_keys(body("x" + LONG)).prefixes[0]
    assert warm_keys(body(LONG, model="other")).prefixes[0] != one.prefixes[0]


def test_requests_of_one_shape_share_the_grammars_key() -> None:
    shape = {"type": "json_schema", "json_schema": {"name": "x", "schema": {"type": "object"}}}
    grammar = warm_keys(body("a", response_format=shape)).grammar
    assert grammar == warm_keys(body("b", response_format=shape)).grammar != ""
    assert warm_keys(body("a")).grammar == ""
    assert warm_keys(body("a", guided_regex="a+")).grammar != warm_keys(body("a", guided_regex="b+")).grammar


@pytest.mark.parametrize("odd", [None, 3, [], "x", {"messages": None}, {"messages": [3, None]}, {"prompt": [1, 2]}])
def test_odd_bodies_have_keys_too(odd: object) -> None:
    assert isinstance(warm_keys(odd), WarmKeys)


def test_the_longest_beginning_weighs_most_and_overload_least() -> None:
    warmth: Warmth[str] = Warmth()
    warmth.learn(WarmKeys(("p1",), "g"), "a")
    warmth.learn(WarmKeys(("p1", "p2")), "b")
    warmth.learn(WarmKeys(("p1",)), "a")
    idle = {"a": 0, "b": 0, "c": 0}
    assert warmth.ranked(WarmKeys(("p1", "p2")), idle) == [["b"], ["a"], ["c"]]
    assert warmth.ranked(WarmKeys(("p1", "p9")), idle)[0] == ["a"]
    assert warmth.ranked(WarmKeys(("p7",), "g"), idle)[0] == ["a"]
    assert warmth.ranked(WarmKeys(("p1", "p2")), {"a": 0, "b": 50, "c": 1})[0] == ["a"]
    assert warmth.ranked(WarmKeys(), {"a": 2, "b": 0, "c": 0}) == [["b", "c"], ["a"]]
    warmth.forget("b")
    assert warmth.ranked(WarmKeys(("p1", "p2")), idle)[0] == ["a"]


@given(
    st.lists(st.tuples(st.lists(st.sampled_from("pqrs"), max_size=3), st.sampled_from("abc")), max_size=20),
    st.dictionaries(st.sampled_from("abc"), st.integers(0, 100)),
)
def test_every_replica_has_one_rank(learned: list[tuple[list[str], str]], queues: dict[str, int]) -> None:
    warmth: Warmth[str] = Warmth(most=3)
    for prefixes, replica in learned:
        warmth.learn(WarmKeys(tuple(prefixes)), replica)
    ranked = warmth.ranked(WarmKeys(("p", "q")), queues)
    assert sorted(replica for rank in ranked for replica in rank) == sorted(queues)


def test_a_request_without_a_seed_is_given_one_and_stays_as_it_was() -> None:
    text = b'{"messages": [], "x": 0.1}  '
    with_seed = seeded("/v1/chat/completions", text, json.loads(text))
    assert with_seed.startswith(b'{"messages": [], "x": 0.1,"seed":')
    assert isinstance(json.loads(with_seed)["seed"], int)
    assert isinstance(json.loads(seeded("/v1/completions", b"{}", {}))["seed"], int)
    assert json.loads(seeded("/v1/responses", b'{"seed": null}', {"seed": None}))["seed"] is not None
    for path, same in (("/v1/models", b"{}"), ("/v1/completions", b'{"seed": 1}'), ("/v1/completions", b"[]")):
        assert seeded(path, same, json.loads(same)) == same


def test_metrics_of_replicas_are_one_text() -> None:
    text = '# HELP a_total A\n# TYPE a_total counter\na_total{model="m"} 2.0\n# HELP b B\n# TYPE b gauge\nb 1.0\n'
    merged = merge({"r1": text, "r2": text}).decode()
    families = {family.name: family for family in text_string_to_metric_families(merged)}
    assert [(sample.labels["replica"], sample.value) for sample in families["a"].samples] == [("r1", 2.0), ("r2", 2.0)]
    assert families["b"].samples[1].labels == {"replica": "r2"}
    assert merged.count("# HELP a_total") == 1


def test_replicas_without_ray_are_refused_with_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    for name in [name for name in sys.modules if name.startswith("slipcast.engine.scale.")]:
        monkeypatch.delitem(sys.modules, name)
    with pytest.raises(ConfigError, match=r"Ray Serve, and ray is not installed \(pip install 'slipcast\[ray\]'\)"):
        cli_deploy.run(build_parser().parse_args(["deploy"]))


def test_replicas_keep_grammars_for_each_other(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SLIPCAST_CACHE", str(tmp_path))
    vocabulary = Vocabulary([bytes([byte]) for byte in range(256)] + [None], eos_ids=[256])
    first, second, third = (GrammarCompiler(vocabulary) for _ in range(3))
    first.regex("a+")
    second.json_schema({"type": "integer"})
    save_grammars(first, "org/model")
    save_grammars(second, "org/model")
    load_grammars(third, "org/model")
    assert third.misses == 2
    third.regex("a+")
    third.json_schema({"type": "integer"})
    assert (third.misses, third.hits) == (2, 2)
    monkeypatch.setattr(kept, "MOST", 1)
    save_grammars(first, "org/model")
    only = tmp_path / "grammars" / "org-model.jsonl"
    assert [json.loads(line)["source"] for line in only.read_text().splitlines()] == ["a+"]
    assert list(only.parent.iterdir()) == [only]
    only.write_text("{}\n")
    load_grammars(third, "org/model")
