"""Pydantic AI: typed output by a tool and by a schema, and a tool round trip. `python with_pydantic_ai.py URL`."""

from __future__ import annotations

import sys
from typing import Any

from client_models import QUESTION, Toy
from pydantic_ai import Agent, NativeOutput, RunContext, ToolOutput
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider
from pydantic_ai.tools import ToolDefinition

model = OpenAIChatModel("smollm2-135m-instruct", provider=OpenAIProvider(base_url=sys.argv[1], api_key="none"))
settings: Any = {"temperature": 0, "max_tokens": 200}

for output in (ToolOutput(Toy), NativeOutput(Toy)):
    agent: Any = Agent(model, output_type=output, model_settings=settings)
    assert isinstance(agent.run_sync(QUESTION).output, Toy)

called: list[str] = []


async def once(context: RunContext[None], tool: ToolDefinition) -> ToolDefinition | None:
    """A model of this size would ask again for ever."""
    return None if called else tool


agent = Agent(model, output_type=ToolOutput(Toy), model_settings=settings, retries=5)


@agent.tool_plain(prepare=once)
def toy_shop(place: str) -> str:
    """Ask the shop of a place what toy it has."""
    called.append(place)
    return "a red wooden train"


assert isinstance(agent.run_sync("Ask the toy shop in Paris, then describe the toy.").output, Toy)
assert called, "the tool was not called"
