"""`slipcast doctor`: what this machine can do, and whether what is installed works."""

from __future__ import annotations

import argparse
import platform
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from importlib import metadata
from typing import Any, Literal

from rich.text import Text

from ..grammar import GrammarCompiler
from .cli_schema import byte_vocabulary
from .cli_terminal import ProgressBars, print_json, print_table
from .lines import one_line

Verdict = Literal["ok", "note", "fault"]
COLOURS: dict[Verdict, str] = {"ok": "green", "note": "yellow", "fault": "red"}
EXTRAS = {"ray": "ray", "traces": "opentelemetry-sdk", "xgrammar": "xgrammar", "llguidance": "llguidance"}
PERSON = {
    "type": "object",
    "properties": {"name": {"type": "string", "maxLength": 20}, "age": {"type": "integer", "minimum": 0}},
    "required": ["name", "age"],
    "additionalProperties": False,
}


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at."""

    what: str
    found: str
    verdict: Verdict = "ok"


def run(options: argparse.Namespace) -> int:
    """Look at everything; exit code 1 if something does not work."""
    findings: list[Finding] = []
    checks: list[Callable[[], Iterator[Finding]]] = [_machine, _packages, _caches, _grammar]
    if not options.no_model:
        checks.append(lambda: _model(options.model))
    for check in checks:
        try:
            findings += check()
        except Exception as error:
            findings.append(Finding(check.__name__.strip("_<>"), one_line(f"{type(error).__name__}: {error}"), "fault"))
    if options.json:
        print_json([asdict(finding) for finding in findings])
    else:
        rows = [(Text(one.verdict, COLOURS[one.verdict]), one.what, one.found) for one in findings]
        print_table(("", "", ""), rows)
    return 1 if any(finding.verdict == "fault" for finding in findings) else 0


def _machine() -> Iterator[Finding]:
    from .runtime.cpu import available_memory, instruction_set, usable_cores

    yield Finding("system", f"{platform.system()} {platform.machine()}, Python {platform.python_version()}")
    kernels = instruction_set()
    yield Finding("kernels", kernels, "ok" if kernels != "portable" else "note")
    yield Finding("cores", str(usable_cores()))
    memory = available_memory()
    if memory is not None:
        yield Finding("free memory", f"{memory / 2**30:.1f} GiB", "ok" if memory > 1 << 30 else "note")


def _packages() -> Iterator[Finding]:
    for name in ("slipcast", "apache-tvm", "numpy", "tokenizers", "pydantic", "starlette", "uvicorn"):
        yield Finding(name, metadata.version(name))
    for extra, package in EXTRAS.items():
        try:
            yield Finding(f"extra {extra}", metadata.version(package))
        except metadata.PackageNotFoundError:
            yield Finding(f"extra {extra}", "not installed", "note")


def _caches() -> Iterator[Finding]:
    from .runtime.paths import cache_folder

    folder = cache_folder()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        probe = folder / ".probe"
        probe.write_bytes(b"")
        probe.unlink()
    except OSError as error:
        yield Finding("cache", f"{folder}: {error.strerror}", "fault")
        return
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    yield Finding("cache", f"{folder}, {size / 2**20:.0f} MiB")


def _grammar() -> Iterator[Finding]:
    """A schema compiled and sampled, without a model."""
    begun = time.perf_counter()
    grammar = GrammarCompiler(byte_vocabulary()).json_schema(PERSON)
    text = grammar.sample(1)
    good = grammar.accepts(text)
    yield Finding("grammar", f"{(time.perf_counter() - begun) * 1e3:.0f} ms, as {text}", "ok" if good else "fault")


def _model(name: str) -> Iterator[Finding]:
    """A constrained answer of the real model; fetched and compiled if this is its first use."""
    from .engine import Engine

    begun = time.perf_counter()
    with ProgressBars() as progress, Engine(name, progress=progress) as engine:
        loaded = time.perf_counter()
        body: dict[str, Any] = {"type": "json_schema", "json_schema": {"name": "person", "schema": PERSON}}
        answer = engine.chat.completions.create(
            messages=[{"role": "user", "content": "Invent a person."}], response_format=body, max_tokens=48, seed=1
        )
        ended = time.perf_counter()
        text = answer.choices[0].message.content or ""
        good = engine.compiler.json_schema(PERSON).accepts(text)
        yield Finding("model", f"{engine.model}, ready after {loaded - begun:.1f} s")
        count = answer.usage.completion_tokens
        shown = " ".join(text.split())
        yield Finding("answer", f"{count} tokens in {ended - loaded:.1f} s: {shown}", "ok" if good else "fault")
