"""OpenAI Agents, over chat completions and over the Responses API: a tool called, then typed output.

`python with_agents.py URL`.
"""

from __future__ import annotations

import asyncio
import sys
from typing import Any

import agents
import openai
from client_models import QUESTION, Toy, weather

agents.set_tracing_disabled(True)


async def run(kind: Any) -> None:
    client = openai.AsyncOpenAI(base_url=sys.argv[1], api_key="none")
    called: list[str] = []

    @agents.function_tool
    def weather_of(place: str) -> str:
        """Get the weather of a place."""
        called.append(place)
        return weather(place)

    agent: Any = agents.Agent(
        name="x",
        instructions="Call the tool once, then answer.",
        model=kind(model="smollm2-135m-instruct", openai_client=client),
        tools=[weather_of],
        output_type=Toy,
        # Required for the first turn; after a call the framework leaves it to the model, which may call or answer.
        model_settings=agents.ModelSettings(temperature=0, max_tokens=200, tool_choice="required"),
    )
    result = await agents.Runner.run(agent, QUESTION, max_turns=8)
    assert called, "the tool was not called"
    assert isinstance(result.final_output, Toy)


for kind in (agents.OpenAIChatCompletionsModel, agents.OpenAIResponsesModel):
    asyncio.run(run(kind))
