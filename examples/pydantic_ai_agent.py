"""Pydantic AI on Slipcast: an agent whose result is a model, by way of a server on this machine.

Needs `pip install 'pydantic-ai-slim[openai]'`. Starts `slipcast serve` itself unless SLIPCAST_URL names one.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pydantic import BaseModel, Field


class City(BaseModel):
    """What the agent answers."""

    name: str = Field(max_length=30)
    country: str = Field(max_length=30)
    inhabitants: int = Field(ge=0)


@contextmanager
def server() -> Iterator[str]:
    """The address of a running server."""
    if url := os.environ.get("SLIPCAST_URL"):
        yield url
        return
    command = [str(Path(sys.executable).parent / "slipcast"), "serve", "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield process.stdout.readline().split()[-1]  # serving MODEL at http://127.0.0.1:PORT/v1
        process.terminate()


def main() -> None:
    try:
        from pydantic_ai import Agent, NativeOutput
        from pydantic_ai.models.openai import OpenAIChatModel
        from pydantic_ai.providers.openai import OpenAIProvider
    except ImportError:
        print("this example needs pydantic-ai-slim[openai]")
        return
    with server() as url:
        model = OpenAIChatModel("smollm2-135m-instruct", provider=OpenAIProvider(base_url=url, api_key="unused"))
        agent = Agent(model, output_type=NativeOutput(City))
        result = agent.run_sync("Tell me about Paris.", model_settings={"max_tokens": 120, "temperature": 0})
    assert isinstance(result.output, City)
    print(result.output)


if __name__ == "__main__":
    main()
