"""`slipcast convert`: a model in full precision to a quantised GGUF file, and what that costs."""

from __future__ import annotations

import argparse
import sys
from dataclasses import asdict

from .cli_terminal import read_text
from .errors import EngineError
from .fidelity import TEXT, Fidelity, compare
from .runtime import resolve_model
from .runtime.convert import Conversion, convert


def run(options: argparse.Namespace) -> int:
    """Convert, print the errors by kind of tensor, then run both models on a text and print how far they agree."""
    if options.text is not None and options.no_compare:
        raise EngineError("--text says what to compare on, and --no-compare not to", remedy="give one of them")
    text = TEXT if options.text is None else read_text(options.text)
    source = resolve_model(options.model, _progress)
    if options.output.is_dir():
        raise EngineError(f"{options.output}: it is a folder", remedy="name the file to write")
    if options.output.exists() and options.output.samefile(source):
        raise EngineError(f"{options.output}: that is the model to convert", remedy="write to another file")
    done = convert(
        source, options.output, options.quantization, requantize=options.allow_requantize, progress=_progress
    )
    _print_errors(done)
    if not options.no_compare:
        _print_fidelity(compare(source, done.path, text, _progress))
    return 0


def _progress(stage: str, share: float) -> None:
    if sys.stderr.isatty():
        sys.stderr.write(f"\r\x1b[K{stage} {share:.0%}" if share < 1 else "\r\x1b[K")
        sys.stderr.flush()


def _print_errors(done: Conversion) -> None:
    print(f"{'tensors':<24}{'format':<8}{'count':>6}{'bits':>8}{'largest error':>16}{'relative rms':>14}")
    for error in done.errors:
        each = asdict(error)
        print("{kind:<24}{format:<8}{tensors:>6}{bits:>8.3f}{largest:>16.3e}{relative:>14.3e}".format(**each))
    print(f"{done.path}: {done.bytes_after / 1e6:.1f} MB, from {done.bytes_before / 1e6:.1f} MB")


def _print_fidelity(found: Fidelity) -> None:
    divergence = f"divergence {found.mean_divergence:.4f} nats (largest {found.largest_divergence:.3f})"
    perplexity = f"perplexity {found.reference_perplexity:.3f} -> {found.candidate_perplexity:.3f}"
    print(f"on {found.tokens} tokens: {divergence}, {perplexity}, same best token {found.same_best:.1%}")
