"""The command line: `slipcast chat`, `slipcast serve`, `slipcast schema check|sample`, `slipcast convert`.

Each command is a module with `add` (its arguments) and `run` (its work); it is imported when it is asked for, so
that `--help` and `schema` never wait for the model runtime. Bad input is one line on stderr (what, where, remedy)
and exit code 2.
"""

from __future__ import annotations

import argparse
import io
import os
import sys
from collections.abc import Callable, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any, NoReturn

from .errors import EngineError
from .lines import one_line

BAD_INPUT = 2
INTERRUPTED = 130
UNEXPECTED = 1

MODEL_HELP = "known name, GGUF file, Hugging Face folder, or HF://org/name (default: %(default)s)"


class Parser(argparse.ArgumentParser):
    """Says what is wrong with the arguments in one line; argparse itself prints the usage first."""

    def error(self, message: str) -> NoReturn:
        self.exit(BAD_INPUT, f"slipcast: {message} (see `{self.prog} --help`)\n")


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


def build_parser() -> Parser:
    """All commands and their arguments."""
    parser = Parser(prog="slipcast", description="An LLM engine whose output takes the shape of a schema.")
    parser.add_argument("--version", action="version", version=f"slipcast {version('slipcast')}")
    parser.add_argument("--traceback", action="store_true", help="show where an unexpected error comes from")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True, parser_class=Parser)
    _add_chat(commands.add_parser("chat", help="talk with a model in the terminal"))
    _add_serve(commands.add_parser("serve", help="serve a model over OpenAI's REST API"))
    _add_deploy(commands.add_parser("deploy", help="serve replicas of a model on Ray Serve"))
    _add_schema(commands.add_parser("schema", help="look at a JSON Schema: what is enforced, what it lets through"))
    _add_grammar(commands.add_parser("grammar", help="look at a grammar text, or write it in another syntax"))
    _add_convert(commands.add_parser("convert", help="quantise a model, and say what that costs"))
    _add_plugins(commands.add_parser("plugins", help="list plugins, or begin one of your own"))
    _add_compile(commands.add_parser("compile", help="compile a model for this and for other kinds of machines"))
    _add_doctor(commands.add_parser("doctor", help="say what this machine can do, and try it"))
    _add_bench(commands.add_parser("bench", help="measure how fast a model runs here"))
    return parser


def _add_model(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--model", default="smollm2-135m-instruct", metavar="M", help=MODEL_HELP)
    parser.add_argument(
        "--chat-template", metavar="FILE", help="Jinja2 chat template to use instead of the model's own"
    )


def _add_chat(parser: argparse.ArgumentParser) -> None:
    _add_model(parser)
    shape = parser.add_mutually_exclusive_group()
    shape.add_argument("--schema", metavar="FILE", help="constrain every answer to this JSON Schema")
    shape.add_argument("--regex", metavar="PATTERN", help="constrain every answer to this pattern, as a whole")
    shape.add_argument("--choice", metavar="TEXT", action="append", help="one of the answers to choose from; repeat it")
    shape.add_argument("--grammar", metavar="FILE", help="constrain every answer to this grammar (.gbnf, .ebnf, .lark)")
    parser.add_argument("--system", metavar="TEXT", help="system message")
    parser.add_argument("--temperature", type=float, metavar="T", help="0 is greedy (default: 1)")
    parser.add_argument("--max-tokens", type=int, metavar="N", help="longest answer in tokens")
    parser.add_argument("--seed", type=int, metavar="N", help="the same seed gives the same answers")
    parser.set_defaults(run=_later("cli_chat"))


def _add_serve(parser: argparse.ArgumentParser) -> None:
    """Flags have no defaults here: what is not given may stand in the environment or in the file (see settings.py)."""

    def flag(name: str, what: str, **how: Any) -> None:
        parser.add_argument(name, default=argparse.SUPPRESS, help=what, **how)

    flag("--config", "settings in TOML; flags and SLIPCAST_SERVE_... variables go before it", metavar="FILE")
    flag("--model", f"{MODEL_HELP}, or NAME=either; repeat it to serve several", action="append", metavar="M")
    flag("--chat-template", "Jinja2 chat template to use instead of the models' own", metavar="FILE")
    flag("--host", "address to listen on (default: 127.0.0.1)")
    flag("--port", "port, 0 for any free one (default: 8000)", type=port_number)
    flag("--mode", "sizes of batch and memory (default: local)", choices=("local", "interactive", "server"))
    flag("--max-body-mb", "longest request body (default: 8)", type=positive, metavar="N")
    flag("--api-key", "a key that requests must carry; repeat it for several", action="append", metavar="KEY")
    flag("--api-key-file", "a file of such keys, one a line", metavar="FILE")
    flag("--cors-origin", "an origin whose pages may ask, * for any; repeat it", action="append", metavar="ORIGIN")
    flag("--tls-certificate", "serve HTTPS with this certificate", metavar="FILE")
    flag("--tls-key", "the certificate's key", metavar="FILE")
    flag("--request-timeout", "seconds that a request may take", type=float, metavar="S")
    flag("--max-waiting", "requests in line before others get 429", type=positive, metavar="N")
    flag("--tool-strict", "calls with exactly their tool's schema", choices=("always", "absent", "asked"))
    flag("--plugins", "plugins to activate, by name; repeat it", action="append", metavar="NAME")
    flag("--sampler", "sampler, as an active plugin calls it", metavar="NAME")
    flag("--scheduler", "scheduling policy", metavar="NAME")
    flag("--kv-manager", "manager of keys and values", metavar="NAME")
    flag("--speculation", "how tokens are guessed ahead", choices=("off", "prompt-lookup", "draft"))
    flag("--draft-model", "the model that guesses for --speculation draft", metavar="M")
    flag("--draft-length", "tokens guessed at once, at most (default: 7)", type=positive, metavar="N")
    flag("--log-level", "(default: info)", choices=("debug", "info", "warning", "error"))
    flag("--log-format", "(default: text)", choices=("text", "json"))
    flag("--otel", "send traces to OpenTelemetry's collector", action="store_true")
    parser.set_defaults(run=_later("cli_serve"))


def _add_deploy(parser: argparse.ArgumentParser) -> None:
    _add_serve(parser)
    add = parser.add_argument
    add("--replicas", type=positive, default=1, metavar="N", help="how many, or how few (default: %(default)s)")
    add("--max-replicas", type=positive, metavar="N", help="how many when there is much to do (default: as few)")
    add("--target-requests", type=positive, default=8, metavar="N", help="of each replica, to decide how many")
    add("--cpus", type=float, default=1.0, metavar="N", help="of each replica, for Ray (default: %(default)s)")
    parser.set_defaults(run=_later("cli_deploy"))


def _add_schema(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(title="actions", metavar="ACTION", required=True, parser_class=Parser)
    check = actions.add_parser("check", help="compile a schema and say what is enforced")
    sample = actions.add_parser("sample", help="print random texts that the schema lets through")
    to_gbnf = actions.add_parser("to-gbnf", help="print the schema as a grammar for llama.cpp")
    for action in (check, sample, to_gbnf):
        action.add_argument("file", metavar="FILE", help="JSON Schema; - reads standard input")
        action.add_argument("--no-formats", action="store_true", help="take `format` as an annotation")
    to_gbnf.set_defaults(run=_later("cli_schema", "to_gbnf"))
    for action in (check, sample):
        action.add_argument(
            "--order", choices=("schema", "any"), default="schema", help="key order (default: %(default)s)"
        )
    check.add_argument("--json", action="store_true", help="print the report as JSON")
    check.set_defaults(run=_later("cli_schema", "check"))
    sample.add_argument("-n", type=int, default=5, metavar="N", help="how many (default: %(default)s)")
    sample.add_argument("--seed", type=int, default=0, metavar="N", help="first seed (default: %(default)s)")
    sample.set_defaults(run=_later("cli_schema", "sample"))


def _add_grammar(parser: argparse.ArgumentParser) -> None:
    syntaxes = ("grammarbnf", "gbnf", "ebnf", "lark")
    actions = parser.add_subparsers(title="actions", metavar="ACTION", required=True, parser_class=Parser)
    check = actions.add_parser("check", help="compile a grammar and say what is odd about it")
    sample = actions.add_parser("sample", help="print random texts of the grammar")
    convert = actions.add_parser("convert", help="print the grammar in another syntax")
    for action in (check, sample, convert):
        action.add_argument("file", metavar="FILE", help="grammar text; - reads standard input")
        action.add_argument("--from", dest="syntax", choices=syntaxes, help="syntax of the file (default: its suffix)")
    check.set_defaults(run=_later("cli_grammar", "check"))
    sample.add_argument("-n", type=int, default=5, metavar="N", help="how many (default: %(default)s)")
    sample.add_argument("--seed", type=int, default=0, metavar="N", help="first seed (default: %(default)s)")
    sample.set_defaults(run=_later("cli_grammar", "sample"))
    convert.add_argument(
        "--to", choices=("grammarbnf", "gbnf"), default="grammarbnf", help="syntax to print (default: %(default)s)"
    )
    convert.set_defaults(run=_later("cli_grammar", "convert"))


def _add_plugins(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--activate", metavar="NAME", action="append", help="activate this one as well; repeat it")
    parser.add_argument("--url", metavar="URL", help="list those of a running server, with the time spent in them")
    parser.add_argument("--api-key", metavar="KEY", help="the server's key")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(run=_later("cli_plugins"))
    new = parser.add_subparsers(title="actions", metavar="ACTION", parser_class=Parser).add_parser(
        "new", help="make a folder with a plugin to start from"
    )
    new.add_argument("name", metavar="NAME", help="small letters, digits and single hyphens")
    new.add_argument("--folder", metavar="FOLDER", help="where (default: NAME)")
    new.set_defaults(run=_later("cli_plugins", "new"))


def _add_compile(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", metavar="MODEL", help="name of a known model, or path of a model")
    parser.add_argument(
        "--target", action="append", required=True, metavar="T", help="as aarch64-linux; repeat it, or `all`"
    )
    parser.add_argument("-o", "--output", default=".", metavar="FOLDER", help="where to write (default: here)")
    parser.add_argument("--json", action="store_true", help="print what became of each target as JSON")
    parser.set_defaults(run=_later("cli_compile"))


def _add_doctor(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--model", default="smollm2-135m-instruct", metavar="M", help=MODEL_HELP)
    parser.add_argument("--no-model", action="store_true", help="leave out the constrained answer of a real model")
    parser.add_argument("--json", action="store_true", help="print the findings as JSON")
    parser.set_defaults(run=_later("cli_doctor"))


def _add_bench(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--model", default="smollm2-135m-instruct", metavar="M", help=MODEL_HELP)
    parser.add_argument(
        "--tokens", type=positive, default=128, metavar="N", help="of each answer (default: %(default)s)"
    )
    parser.add_argument(
        "--batch", type=positive, default=8, metavar="N", help="requests at once (default: %(default)s)"
    )
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    parser.set_defaults(run=_later("cli_bench"))


def port_number(text: str) -> int:
    """A TCP port, for argparse."""
    if not text.isdecimal() or int(text) > 65535:
        raise argparse.ArgumentTypeError(f"{text!r} is not a port from 0 to 65535")
    return int(text)


def positive(text: str) -> int:
    """An integer of at least 1, for argparse."""
    if not text.isdecimal() or len(text) > 9 or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not an integer of at least 1")
    return int(text)


def _add_convert(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", metavar="MODEL", help="GGUF file, Hugging Face folder, or HF://org/name")
    names = "q4f16_1, q4f16_0, q8f16_1, q0f16, q0bf16 or q0f32"
    parser.add_argument("-q", "--quantization", required=True, metavar="NAME", help=names)
    parser.add_argument("-o", "--output", required=True, type=Path, metavar="OUT", help="GGUF file to write")
    parser.add_argument("--text", metavar="FILE", help="compare the models on this text; - reads standard input")
    parser.add_argument("--no-compare", action="store_true", help="do not run the models to compare them")
    parser.add_argument(
        "--allow-requantize", action="store_true", help="take a model that is quantised already, and lose twice"
    )
    parser.set_defaults(run=_later("cli_convert"))


def _later(module: str, function: str = "run") -> Callable[[argparse.Namespace], int]:
    """A command that imports its module when it is called."""

    def run(options: argparse.Namespace) -> int:
        from importlib import import_module

        code: int = getattr(import_module(f".{module}", __package__), function)(options)
        return code

    return run


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
