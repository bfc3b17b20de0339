"""The arguments of every command, with examples of each. Nothing here imports what the commands need to run."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final, NoReturn

BAD_INPUT: Final = 2
MODEL_HELP: Final = "known name, GGUF file, Hugging Face folder, or HF://org/name (default: %(default)s)"
SYNTAXES: Final = ("grammarbnf", "gbnf", "ebnf", "lark")


class Parser(argparse.ArgumentParser):
    """Says what is wrong with the arguments in one line; argparse itself prints the usage first.

    `examples`: command lines that stand at the end of its help, each perhaps with a comment.
    """

    def __init__(self, *, examples: Sequence[str] = (), **how: Any) -> None:
        shown = "\n".join(["examples:", *(f"  {example}" for example in examples)]) if examples else None
        super().__init__(epilog=shown, formatter_class=argparse.RawDescriptionHelpFormatter, **how)
        self.examples = tuple(examples)

    def error(self, message: str) -> NoReturn:
        self.exit(BAD_INPUT, f"slipcast: {message} (see `{self.prog} --help`)\n")


def build_parser() -> Parser:
    """All commands and their arguments."""
    parser = Parser(
        prog="slipcast",
        description="An LLM engine whose output takes the shape of a schema.",
        examples=("slipcast chat", "slipcast serve --port 8000", "slipcast schema check person.json"),
    )
    parser.add_argument("--version", action="version", version=f"slipcast {version('slipcast')}")
    parser.add_argument("--traceback", action="store_true", help="show where an unexpected error comes from")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True, parser_class=Parser)
    for add in (
        _add_chat, _add_serve, _add_deploy, _add_schema, _add_grammar, _add_convert, _add_plugins, _add_compile,
        _add_doctor, _add_bench,
    ):  # fmt: skip
        add(commands)
    return parser


Commands = Any  # argparse has no public name for what add_subparsers returns


def _command(commands: Commands, name: str, what: str, *examples: str) -> Parser:
    said = f"{what[0].upper()}{what[1:]}."
    parser: Parser = commands.add_parser(name, help=what, description=said, examples=examples)
    return parser


def _actions(parser: Parser, *, required: bool = True) -> Commands:
    return parser.add_subparsers(title="actions", metavar="ACTION", required=required, parser_class=Parser)


def _add_json(parser: Parser, what: str) -> None:
    parser.add_argument("--json", action="store_true", help=f"print {what} as JSON")


def _add_chat(commands: Commands) -> None:
    parser = _command(
        commands, "chat", "talk with a model in the terminal",
        "slipcast chat",
        "slipcast chat --schema person.json --temperature 0",
        "slipcast chat --choice yes --choice no --system 'Answer with yes or no.'",
        "echo 'Describe a cow.' | slipcast chat --schema person.json --json",
    )  # fmt: skip
    add = parser.add_argument
    add("--model", default="smollm2-135m-instruct", metavar="M", help=MODEL_HELP)
    add("--chat-template", metavar="FILE", help="Jinja2 chat template to use instead of the model's own")
    shape = parser.add_mutually_exclusive_group()
    shape.add_argument("--schema", metavar="FILE", help="constrain every answer to this JSON Schema")
    shape.add_argument("--regex", metavar="PATTERN", help="constrain every answer to this pattern, as a whole")
    shape.add_argument("--choice", metavar="TEXT", action="append", help="one of the answers to choose from; repeat it")
    shape.add_argument("--grammar", metavar="FILE", help="constrain every answer to this grammar (.gbnf, .ebnf, .lark)")
    add("--canonical", action="store_true", help="with a constraint: only tokens that the tokenizer itself would give")
    add("--system", metavar="TEXT", help="system message")
    add("--temperature", type=float, metavar="T", help="0 is greedy (default: 1)")
    add("--max-tokens", type=int, metavar="N", help="longest answer in tokens")
    add("--seed", type=int, metavar="N", help="the same seed gives the same answers")
    _add_json(parser, "each answer, a line each,")
    parser.set_defaults(run=_later("cli_chat"))


def _add_serve(commands: Commands) -> None:
    parser = _command(
        commands, "serve", "serve a model over OpenAI's REST API",
        "slipcast serve --port 8000",
        "slipcast serve --model smollm2-135m-instruct --model big=/models/llama-3.gguf --mode server",
        "slipcast serve --host 0.0.0.0 --api-key-file keys.txt --request-timeout 120 --log-format json",
        "slipcast serve --config serve.toml",
    )  # fmt: skip
    _add_settings(parser)
    _add_json(parser, "the address and the models")
    parser.set_defaults(run=_later("cli_serve"))


def _add_settings(parser: Parser) -> None:
    """Flags have no defaults here: what is not given may stand in the environment or in the file (see settings.py)."""

    def flag(name: str, what: str, **how: Any) -> None:
        parser.add_argument(name, default=argparse.SUPPRESS, help=what, **how)

    flag("--config", "settings in TOML; flags and SLIPCAST_SERVE_... variables go before it", metavar="FILE")
    models = MODEL_HELP.partition(" (default")[0]
    flag("--model", f"{models}, or NAME=either; repeat it to serve several", action="append", metavar="M")
    flag("--chat-template", "Jinja2 chat template to use instead of the models' own", metavar="FILE")
    flag("--host", "address to listen on (default: 127.0.0.1)")
    flag("--port", "port, 0 for any free one (default: 8000)", type=port_number)
    flag("--mode", "sizes of batch and memory (default: local)", choices=("local", "interactive", "server"))
    flag("--max-batch", "requests computed together (default: by the mode)", type=positive, metavar="N")
    flag("--max-context", "tokens of prompt and answer together (default: by the mode)", type=positive, metavar="N")
    flag("--kv-tokens", "tokens that the KV memory holds (default: by the mode)", type=positive, metavar="N")
    flag("--threads", "threads of the model (default: the machine's cores)", type=positive, metavar="N")
    flag("--max-body-mb", "longest request body (default: 8)", type=positive, metavar="N")
    flag("--api-key", "a key that requests must carry; repeat it for several", action="append", metavar="KEY")
    flag("--api-key-file", "a file of such keys, one a line", metavar="FILE")
    flag("--cors-origin", "an origin whose pages may ask, * for any; repeat it", action="append", metavar="ORIGIN")
    flag("--tls-certificate", "serve HTTPS with this certificate", metavar="FILE")
    flag("--tls-key", "the certificate's key", metavar="FILE")
    flag("--request-timeout", "seconds that a request may take", type=float, metavar="S")
    flag("--max-waiting", "requests in line before others get 429", type=positive, metavar="N")
    flag("--page", "serve the chat page at / (default: yes)", action=argparse.BooleanOptionalAction)
    flag("--tool-strict", "calls with exactly their tool's schema", choices=("always", "absent", "asked"))
    flag("--plugins", "plugins to activate, by name; repeat it", action="append", metavar="NAME")
    flag("--sampler", "sampler, as an active plugin calls it", metavar="NAME")
    flag("--scheduler", "scheduling policy", metavar="NAME")
    flag("--kv-manager", "manager of keys and values", metavar="NAME")
    forced = "forced text without steps of the model (default: yes)"
    flag("--jump-forward", forced, action=argparse.BooleanOptionalAction)
    flag("--speculation", "how tokens are guessed ahead", choices=("off", "prompt-lookup", "draft"))
    flag("--draft-model", "the model that guesses for --speculation draft", metavar="M")
    flag("--draft-length", "tokens guessed at once, at most (default: 7)", type=positive, metavar="N")
    flag("--log-level", "(default: info)", choices=("debug", "info", "warning", "error"))
    flag("--log-format", "(default: text)", choices=("text", "json"))
    flag("--otel", "send traces to OpenTelemetry's collector", action="store_true")


def _add_deploy(commands: Commands) -> None:
    parser = _command(
        commands, "deploy", "serve replicas of a model on Ray Serve",
        "slipcast deploy --replicas 2",
        "slipcast deploy --config serve.toml --replicas 2 --max-replicas 8 --cpus 4",
    )  # fmt: skip
    _add_settings(parser)
    add = parser.add_argument
    add("--replicas", type=positive, default=1, metavar="N", help="how many, or how few (default: %(default)s)")
    add("--max-replicas", type=positive, metavar="N", help="how many when there is much to do (default: as few)")
    add("--target-requests", type=positive, default=8, metavar="N", help="of each replica, to decide how many")
    add("--cpus", type=float, metavar="N", help="of each replica, and threads of its engines (default: 1)")
    add("--drain", type=positive, default=120, metavar="S", help="seconds that a replaced replica has to end answers")
    add("--fronts", type=positive, default=1, metavar="N", help="processes that take requests (default: %(default)s)")
    parser.set_defaults(run=_later("cli_deploy"))


def _add_schema(commands: Commands) -> None:
    group = _command(
        commands, "schema", "look at a JSON Schema: what is enforced, what it lets through",
        "slipcast schema check person.json",
        "slipcast schema sample person.json -n 3",
    )  # fmt: skip
    actions = _actions(group)
    check = _command(
        actions, "check", "compile a schema and say what is enforced",
        "slipcast schema check person.json",
        "curl -s https://json.schemastore.org/package.json | slipcast schema check - --json",
    )  # fmt: skip
    sample = _command(
        actions, "sample", "print random texts that the schema lets through",
        "slipcast schema sample person.json -n 3 --seed 7",
        "slipcast schema sample person.json --order any --json",
    )  # fmt: skip
    to_gbnf = _command(
        actions, "to-gbnf", "print the schema as a grammar for llama.cpp",
        "slipcast schema to-gbnf person.json > person.gbnf",
    )  # fmt: skip
    for action in (check, sample, to_gbnf):
        action.add_argument("file", metavar="FILE", help="JSON Schema; - reads standard input")
        action.add_argument("--no-formats", action="store_true", help="take `format` as an annotation")
    for action in (check, sample):
        action.add_argument(
            "--order", choices=("schema", "any"), default="schema", help="key order (default: %(default)s)"
        )
    _add_sampling(sample)
    _add_json(check, "the report")
    _add_json(sample, "the texts")
    _add_json(to_gbnf, "the grammar, and what it cannot say,")
    check.set_defaults(run=_later("cli_schema", "check"))
    sample.set_defaults(run=_later("cli_schema", "sample"))
    to_gbnf.set_defaults(run=_later("cli_schema", "to_gbnf"))


def _add_sampling(parser: Parser) -> None:
    parser.add_argument("-n", type=int, default=5, metavar="N", help="how many (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="first seed (default: %(default)s)")


def _add_grammar(commands: Commands) -> None:
    group = _command(
        commands, "grammar", "look at a grammar text, or write it in another syntax",
        "slipcast grammar check chess.gbnf",
        "slipcast grammar convert chess.lark --to gbnf",
    )  # fmt: skip
    actions = _actions(group)
    check = _command(
        actions, "check", "compile a grammar and say what is odd about it",
        "slipcast grammar check chess.gbnf",
        "cat chess.txt | slipcast grammar check - --from lark --json",
    )  # fmt: skip
    sample = _command(
        actions, "sample", "print random texts of the grammar",
        "slipcast grammar sample chess.gbnf -n 3",
    )  # fmt: skip
    convert = _command(
        actions, "convert", "print the grammar in another syntax",
        "slipcast grammar convert chess.lark --to gbnf > chess.gbnf",
    )  # fmt: skip
    for action in (check, sample, convert):
        action.add_argument("file", metavar="FILE", help="grammar text; - reads standard input")
        action.add_argument("--from", dest="syntax", choices=SYNTAXES, help="syntax of the file (default: its suffix)")
    _add_sampling(sample)
    convert.add_argument(
        "--to", choices=("grammarbnf", "gbnf"), default="grammarbnf", help="syntax to print (default: %(default)s)"
    )
    _add_json(check, "the findings")
    _add_json(sample, "the texts")
    _add_json(convert, "the grammar")
    check.set_defaults(run=_later("cli_grammar", "check"))
    sample.set_defaults(run=_later("cli_grammar", "sample"))
    convert.set_defaults(run=_later("cli_grammar", "convert"))


def _add_convert(commands: Commands) -> None:
    parser = _command(
        commands, "convert", "quantise a model, and say what that costs",
        "slipcast convert HF://HuggingFaceTB/SmolLM2-135M-Instruct -q q4f16_1 -o smollm2-q4.gguf",
        "slipcast convert ./my-model -q q8f16_1 -o my-model.gguf --text sample.txt --json",
    )  # fmt: skip
    add = parser.add_argument
    add("model", metavar="MODEL", help="GGUF file, Hugging Face folder, or HF://org/name")
    names = "q4f16_1, q4f16_0, q8f16_1, q0f16, q0bf16 or q0f32"
    add("-q", "--quantization", required=True, metavar="NAME", help=names)
    add("-o", "--output", required=True, type=Path, metavar="OUT", help="GGUF file to write")
    add("--text", metavar="FILE", help="compare the models on this text; - reads standard input")
    add("--no-compare", action="store_true", help="do not run the models to compare them")
    add("--allow-requantize", action="store_true", help="take a model that is quantised already, and lose twice")
    _add_json(parser, "the errors and the comparison")
    parser.set_defaults(run=_later("cli_convert"))


def _add_plugins(commands: Commands) -> None:
    parser = _command(
        commands, "plugins", "list plugins, or begin one of your own",
        "slipcast plugins",
        "slipcast plugins --url http://127.0.0.1:8000 --json",
        "slipcast plugins new my-plugin",
    )  # fmt: skip
    add = parser.add_argument
    add("--activate", metavar="NAME", action="append", help="activate this one as well; repeat it")
    add("--url", metavar="URL", help="list those of a running server, with the time spent in them")
    add("--api-key", metavar="KEY", help="the server's key")
    _add_json(parser, "the list")
    parser.set_defaults(run=_later("cli_plugins"))
    new = _command(
        _actions(parser, required=False), "new", "make a folder with a plugin to start from",
        "slipcast plugins new my-plugin --folder plugins/my-plugin",
    )  # fmt: skip
    new.add_argument("name", metavar="NAME", help="small letters, digits and single hyphens")
    new.add_argument("--folder", metavar="FOLDER", help="where (default: NAME)")
    _add_json(new, "what was made")
    new.set_defaults(run=_later("cli_plugins", "new"))


def _add_compile(commands: Commands) -> None:
    parser = _command(
        commands, "compile", "compile a model for this and for other kinds of machines",
        "slipcast compile smollm2-135m-instruct --target x86_64-linux-avx2",
        "slipcast compile smollm2-135m-instruct --target all -o libraries --json",
    )  # fmt: skip
    add = parser.add_argument
    add("model", metavar="MODEL", help="name of a known model, or path of a model")
    add("--target", action="append", required=True, metavar="T", help="as aarch64-linux; repeat it, or `all`")
    add("-o", "--output", default=".", metavar="FOLDER", help="where to write (default: here)")
    _add_json(parser, "what became of each target")
    parser.set_defaults(run=_later("cli_compile"))


def _add_doctor(commands: Commands) -> None:
    parser = _command(
        commands, "doctor", "say what this machine can do, and try it",
        "slipcast doctor",
        "slipcast doctor --no-model --json",
    )  # fmt: skip
    parser.add_argument("--model", default="smollm2-135m-instruct", metavar="M", help=MODEL_HELP)
    parser.add_argument("--no-model", action="store_true", help="leave out the constrained answer of a real model")
    _add_json(parser, "the findings")
    parser.set_defaults(run=_later("cli_doctor"))


def _add_bench(commands: Commands) -> None:
    parser = _command(
        commands, "bench", "measure how fast a model runs here",
        "slipcast bench",
        "slipcast bench --model my-model.gguf --batch 16 --tokens 64 --json",
    )  # fmt: skip
    add = parser.add_argument
    add("--model", default="smollm2-135m-instruct", metavar="M", help=MODEL_HELP)
    add("--tokens", type=positive, default=128, metavar="N", help="of each answer (default: %(default)s)")
    add("--batch", type=positive, default=8, metavar="N", help="requests at once (default: %(default)s)")
    _add_json(parser, "the figures")
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


def _later(module: str, function: str = "run") -> Callable[[argparse.Namespace], int]:
    """A command that imports its module when it is called."""

    def run(options: argparse.Namespace) -> int:
        from importlib import import_module

        code: int = getattr(import_module(f".{module}", __package__), function)(options)
        return code

    return run
