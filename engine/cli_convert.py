"""`slipcast convert`: a model in full precision to a quantised GGUF file, and what that costs."""

from __future__ import annotations

import argparse
from dataclasses import asdict

from .cli_terminal import ProgressBars, print_json, print_panel, print_table, read_text
from .errors import EngineError
from .fidelity import TEXT, Fidelity, compare
from .runtime import resolve_model
from .runtime.convert import Conversion, convert


def run(options: argparse.Namespace) -> int:
    """Convert, print the errors by kind of tensor, then run both models on a text and print how far they agree."""
    if options.text is not None and options.no_compare:
        raise EngineError("--text says what to compare on, and --no-compare not to", remedy="give one of them")
    text = TEXT if options.text is None else read_text(options.text)
    with ProgressBars() as progress:
        done, found = _work(options, text, progress)
    if options.json:
        print_json({**asdict(done), "comparison": None if found is None else asdict(found)})
        return 0
    _print_errors(done)
    if found is not None:
        _print_fidelity(found)
    return 0


def _work(options: argparse.Namespace, text: str, progress: ProgressBars) -> tuple[Conversion, Fidelity | None]:
    source = resolve_model(options.model, progress)
    if options.output.is_dir():
        raise EngineError(f"{options.output}: it is a folder", remedy="name the file to write")
    if options.output.exists() and options.output.samefile(source):
        raise EngineError(f"{options.output}: that is the model to convert", remedy="write to another file")
    done = convert(
        source, options.output, options.quantization, requantize=options.allow_requantize, progress=progress
    )
    return done, None if options.no_compare else compare(source, done.path, text, progress)


def _print_errors(done: Conversion) -> None:
    rows = []
    for error in done.errors:
        figures = (f"{error.bits:.3f}", f"{error.largest:.3e}", f"{error.relative:.3e}")
        rows.append((error.kind, error.format, str(error.tensors), *figures))
    columns = ("tensors", "format", "count", "bits", "largest error", "relative rms")
    print_table(columns, rows, numbers=(2, 3, 4, 5))
    print(f"{done.path}: {done.bytes_after / 1e6:.1f} MB, from {done.bytes_before / 1e6:.1f} MB")


def _print_fidelity(found: Fidelity) -> None:
    facts = [
        ("divergence", f"{found.mean_divergence:.4f} nats (largest {found.largest_divergence:.3f})"),
        ("perplexity", f"{found.reference_perplexity:.3f} -> {found.candidate_perplexity:.3f}"),
        ("same best token", f"{found.same_best:.1%}"),
    ]
    print_panel(facts, f"on {found.tokens} tokens")
