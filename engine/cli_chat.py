"""`slipcast chat`: a conversation in the terminal, streamed, constrained by a schema at will.

    /schema FILE   answers have this JSON Schema's shape from here on
    /regex P       answers match this pattern as a whole
    /choice A|B    answers are one of these texts
    /grammar FILE  answers follow this grammar: .grammarbnf, .gbnf, .ebnf or .lark
    /schema off    free text again
    /reset         forget the conversation
    /help          these commands
    /quit          leave (so does the end of input)

At a terminal it edits and remembers lines; with input from a pipe it reads line by line and prints answers only.
"""

from __future__ import annotations

import argparse
import io
import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

from ..grammar.bnf.files import with_schemas
from ..grammar.bnf.read import SYNTAXES
from ..samplers import SamplingParams
from .cli import complain, expected_errors
from .cli_grammar import syntax_of
from .cli_terminal import ProgressBars, open_template, print_panel, read_text
from .engine import Engine
from .errors import EngineError

NEEDS = {"/schema": "a file", "/regex": "a pattern", "/choice": "texts with | between them", "/grammar": "a file"}
HELP = "\n".join((__doc__ or "").split("\n\n")[1].splitlines())


@dataclass
class Conversation:
    """What was said so far, and how answers are to be made."""

    engine: Engine
    options: dict[str, Any]
    system: str | None = None
    response_format: dict[str, Any] | None = None
    said: list[dict[str, str]] = field(default_factory=list)
    canonical: bool = False
    """Whether constrained answers take only the tokens that the tokenizer itself would give."""
    ended: dict[str, Any] = field(default_factory=dict)
    """Of the last answer: `finish_reason`, `prompt_tokens`, `completion_tokens`."""

    def constrain(self, path: str) -> None:
        """Use the JSON Schema in a file; compiled here, so that a bad one is refused before anything is asked."""
        text = read_text(path)
        self.engine.compile("json_schema", text, **self._strictly)
        schema = json.loads(text, parse_float=Decimal)
        self.response_format = {
            "type": "json_schema",
            "json_schema": {"schema": schema, "whitespace": "spaced", **self._strictly},
        }

    def match(self, pattern: str) -> None:
        """Answers match an ECMA-262 pattern as a whole."""
        self.engine.compile("regex", pattern, **self._strictly)
        self.response_format = {"type": "regex", "pattern": pattern, **self._strictly}

    def choose(self, choices: list[str]) -> None:
        """Answers are one of these."""
        self.engine.compile("choice", choices, **self._strictly)
        self.response_format = {"type": "choice", "choices": choices, **self._strictly}

    def follow(self, path: str) -> None:
        """Use the grammar in a file, whose suffix names the syntax."""
        syntax = syntax_of(path, remedy=f"end its name with {', '.join('.' + name for name in SYNTAXES)}")
        text = with_schemas(read_text(path), syntax, Path(path).parent)
        self.engine.compile("grammar", text, syntax=syntax, **self._strictly)
        self.response_format = {"type": "grammar", "grammar": text, "syntax": syntax, **self._strictly}

    @property
    def _strictly(self) -> dict[str, Any]:
        return {"canonical": True} if self.canonical else {}

    def ask(self, question: str) -> Iterator[str]:
        """The answer in pieces. The turn is remembered once the answer is complete, or cut short by its reader."""
        opening = [{"role": "system", "content": self.system}] if self.system else []
        turn = {"role": "user", "content": question}
        pieces: list[str] = []
        stream = self.engine.chat.completions.create(
            messages=[*opening, *self.said, turn],
            response_format=self.response_format,
            stream=True,
            stream_options={"include_usage": True},
            **self.options,
        )
        with stream:
            try:
                for chunk in stream:
                    for choice in chunk.choices:
                        if choice.finish_reason:
                            self.ended["finish_reason"] = choice.finish_reason
                        if choice.delta.content:
                            pieces.append(choice.delta.content)
                            yield choice.delta.content
                    if chunk.usage:
                        counts = ("prompt_tokens", "completion_tokens")
                        self.ended |= {name: getattr(chunk.usage, name) for name in counts}
            finally:
                self.said += [turn, {"role": "assistant", "content": "".join(pieces)}]


def run(options: argparse.Namespace) -> int:
    """Talk until the input ends or `/quit`. An error about one line of input is told, and the conversation goes on."""
    sampling = {"temperature": options.temperature, "max_tokens": options.max_tokens, "seed": options.seed}
    # Before a model is loaded for nothing.
    SamplingParams(**{name: value for name, value in sampling.items() if value is not None})
    template = open_template(options.chat_template)
    with ProgressBars() as progress:
        engine = Engine(options.model, mode="interactive", chat_template=template, progress=progress)
    with engine:
        conversation = Conversation(engine, sampling, system=options.system, canonical=options.canonical)
        if options.schema:
            conversation.constrain(options.schema)
        elif options.regex is not None:
            conversation.match(options.regex)
        elif options.choice:
            conversation.choose(options.choice)
        elif options.grammar:
            conversation.follow(options.grammar)
        interactive = sys.stdin.isatty() and sys.stdout.isatty()
        if interactive and not options.json:
            shape = "free text" if conversation.response_format is None else conversation.response_format["type"]
            print_panel([("model", engine.model), ("answers", shape), ("help", "/help")], "slipcast chat")
        for line in lines_from_terminal() if interactive else lines_from_pipe():
            try:
                if not handle(conversation, line.strip(), as_json=options.json):
                    break
            except BrokenPipeError:
                raise  # nobody is there to be told
            except expected_errors() as error:
                complain(error)
            except KeyboardInterrupt:
                if not interactive:
                    raise
                print()
    return 0


def handle(conversation: Conversation, line: str, *, as_json: bool = False) -> bool:
    """Do what one line of input says; False ends the conversation. Answers are printed as they come, or as JSON."""
    command, _, argument = line.partition(" ")
    if not line.startswith("/"):
        if line and as_json:
            answer = "".join(conversation.ask(line))
            told = {"question": line, "answer": answer, **conversation.ended}
            print(json.dumps(told, ensure_ascii=False), flush=True)
        elif line:
            for piece in conversation.ask(line):
                print(piece, end="", flush=True)
            print(flush=True)
    elif command == "/quit":
        return False
    elif command == "/reset":
        conversation.said.clear()
    elif command == "/help":
        print(HELP)
    elif command in NEEDS and argument.strip() == "off":
        conversation.response_format = None
    elif command == "/regex" and argument.strip():
        conversation.match(argument.strip())
    elif command == "/choice" and argument.strip():
        conversation.choose([text.strip() for text in argument.split("|")])
    elif command == "/schema" and argument.strip():
        conversation.constrain(argument.strip())
    elif command == "/grammar" and argument.strip():
        conversation.follow(argument.strip())
    elif command in NEEDS:
        raise EngineError(f"{command} needs {NEEDS[command]}", remedy="or `off` for free text")
    else:
        raise EngineError(f"the command {command} is unknown", remedy="/help lists the commands")
    return True


def lines_from_pipe() -> Iterator[str]:
    """Lines of standard input. What is no text in it becomes U+FFFD, as a terminal shows it."""
    if isinstance(sys.stdin, io.TextIOWrapper):
        sys.stdin.reconfigure(errors="replace")
    yield from sys.stdin


def lines_from_terminal() -> Iterator[str]:
    """Lines with editing and history. Ctrl-C drops the line, Ctrl-D ends the input."""
    from prompt_toolkit import PromptSession

    session: PromptSession[str] = PromptSession()
    while True:
        try:
            yield session.prompt("> ")
        except KeyboardInterrupt:
            continue
        except EOFError:
            return
