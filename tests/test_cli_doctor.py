"""`slipcast doctor` and `slipcast bench`."""

from __future__ import annotations

import json

import pytest
from slipcast.engine import cli_doctor
from slipcast.engine.cli import main


def test_the_doctor_looks_at_everything_without_a_model(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--no-model", "--json"]) == 0
    findings = {finding["what"]: finding for finding in json.loads(capsys.readouterr().out)}
    assert {"system", "kernels", "cores", "slipcast", "cache", "grammar"} <= set(findings)
    assert findings["grammar"]["verdict"] == "ok"


def test_what_does_not_work_is_a_fault_and_not_a_crash(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken() -> None:
        raise RuntimeError("no\ngrammar")

    monkeypatch.setattr(cli_doctor, "byte_vocabulary", broken)
    assert main(["doctor", "--no-model"]) == 1
    assert "fault" in (printed := capsys.readouterr().out)
    assert "RuntimeError: no grammar" in printed


@pytest.mark.model
def test_the_doctor_asks_the_model(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--json"]) == 0
    findings = {finding["what"]: finding for finding in json.loads(capsys.readouterr().out)}
    assert findings["answer"]["verdict"] == "ok"


@pytest.mark.model
def test_the_bench_measures_free_and_constrained_work(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "--tokens", "16", "--batch", "2", "--json"]) == 0
    results = json.loads(capsys.readouterr().out)["results"]
    assert [row["what"] for row in results] == ["prefill", *["decode", "decode, constrained"] * 2]
    assert all(row["rate"] > 0 for row in results)
