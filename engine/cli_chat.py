"""`slipcast chat`: a conversation in the terminal, streamed, constrained by a schema at will.

    /schema FILE   answers have this JSON Schema's shape from here on
    /schema off    free text again
    /reset         forget the conversation
    /help          these commands
    /quit          leave (so does the end of input)

At a terminal it edits and remembers lines; with input from a pipe it reads line by line and prints answers only.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from .cli import complain, expected_errors
from .cli_terminal import ProgressBars, open_template, read_text
from .engine import Engine
from .errors import EngineError

HELP = "\n".join((__doc__ or "").split("\n\n")[1].splitlines())


@dataclass
class Conversation:
    """What was said so far, and how answers are to be made."""

    engine: Engine
    options: dict[str, Any]
    system: str | None = None
    response_format: dict[str, Any] | None = None
    said: list[dict[str, str]] = field(default_factory=list)

    def constrain(self, path: str) -> None:
        """Use the JSON Schema in a file; compiled here, so that a bad one is refused before anything is asked."""
        text = read_text(path)
        self.engine.compile("json_schema", text)
        schema = json.loads(text, parse_float=Decimal)
        self.response_format = {"type": "json_schema", "json_schema": {"schema": schema, "whitespace": "spaced"}}

    def ask(self, question: str) -> Iterator[str]:
        """The answer in pieces. The turn is remembered once the answer is complete, or cut short by its reader."""
        opening = [{"role": "system", "content": self.system}] if self.system else []
        turn = {"role": "user", "content": question}
        pieces: list[str] = []
        stream = self.engine.chat.completions.create(
            messages=[*opening, *self.said, turn], response_format=self.response_format, stream=True, **self.options
        )
        with stream:
            try:
                for chunk in stream:
                    for choice in chunk.choices:
                        if choice.delta.content:
                            pieces.append(choice.delta.content)
                            yield choice.delta.content
            finally:
                self.said += [turn, {"role": "assistant", "content": "".join(pieces)}]


def run(options: argparse.Namespace) -> int:
    """Talk until the input ends or `/quit`. An error about one line of input is told, and the conversation goes on."""
    template = open_template(options.chat_template)
    with ProgressBars() as progress:
        engine = Engine(options.model, mode="interactive", chat_template=template, progress=progress)
    with engine:
        sampling = {"temperature": options.temperature, "max_tokens": options.max_tokens, "seed": options.seed}
        conversation = Conversation(engine, sampling, system=options.system)
        if options.schema:
            conversation.constrain(options.schema)
        interactive = sys.stdin.isatty() and sys.stdout.isatty()
        if interactive:
            print(f"{engine.model}. /help lists the commands.")
        for line in lines_from_terminal() if interactive else sys.stdin:
            try:
                if not handle(conversation, line.strip()):
                    break
            except expected_errors() as error:
                complain(error)
            except KeyboardInterrupt:
                if not interactive:
                    raise
                print()
    return 0


def handle(conversation: Conversation, line: str) -> bool:
    """Do what one line of input says; False ends the conversation."""
    command, _, argument = line.partition(" ")
    if not line.startswith("/"):
        if line:
            for piece in conversation.ask(line):
                print(piece, end="", flush=True)
            print(flush=True)
    elif command == "/quit":
        return False
    elif command == "/reset":
        conversation.said.clear()
    elif command == "/help":
        print(HELP)
    elif command == "/schema" and argument.strip() == "off":
        conversation.response_format = None
    elif command == "/schema" and argument.strip():
        conversation.constrain(argument.strip())
    elif command == "/schema":
        raise EngineError("/schema needs a file", remedy="or `off` for free text")
    else:
        raise EngineError(f"the command {command} is unknown", remedy="/help lists the commands")
    return True


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
