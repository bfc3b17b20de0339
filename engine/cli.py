"""The command line: what every command has in common (arguments: cli_arguments.py; each command: cli_*.py).

A command's module is imported when it is asked for, so that `--help` and `schema` never wait for the model runtime.
Bad input is one line on stderr (what, where, remedy) and exit code 2.
"""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Callable, Sequence

from .cli_arguments import BAD_INPUT, build_parser
from .errors import EngineError
from .lines import one_line

INTERRUPTED = 130
UNEXPECTED = 1


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns its exit code, see `main_guard`."""
    options = build_parser().parse_args(arguments)
    if isinstance(sys.stdout, io.TextIOWrapper):
        # What a terminal's encoding lacks is spelled out rather than a crash in the middle of an answer.
        sys.stdout.reconfigure(errors="backslashreplace")
    return main_guard(lambda: int(options.run(options)), traceback=options.traceback)


def main_guard(work: Callable[[], int], *, traceback: bool = False) -> int:
    """Run a program, its errors told in one line on stderr: exit code 2 for bad input, 130 when interrupted, 1 for
    a fault of ours.

    With `traceback` a fault is raised instead.
    """
    try:
        return work()
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        # The reader of our output has left, as `head` does; without a stdout the interpreter does not complain at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except Exception as error:
        if isinstance(error, expected_errors()):
            return complain(error)
        if traceback:
            raise
        sys.stderr.write(f"slipcast: unexpected {type(error).__name__}: {told(error)} (--traceback shows where)\n")
        return UNEXPECTED


def expected_errors() -> tuple[type[Exception], ...]:
    """The errors that are about what was given, not about slipcast. Imported late: most runs need none of them."""
    from ..grammar.errors import GrammarError, VocabularyError
    from ..plugins.errors import PluginError
    from ..samplers.errors import SamplingError

    return (EngineError, GrammarError, VocabularyError, PluginError, SamplingError, OSError)


def complain(error: Exception) -> int:
    """Print an expected error as one line; returns the exit code for bad input."""
    sys.stderr.write(f"slipcast: {told(error)}\n")
    return BAD_INPUT


def told(error: Exception) -> str:
    """The error on one line; errors of the operating system as `FILE: reason`."""
    if isinstance(error, OSError) and error.filename is not None:
        return f"{error.filename}: {error.strerror}"
    return one_line(str(error))
