"""smolagents: an agent that calls a tool, and one whose steps are JSON of a schema. `python with_smolagents.py URL`."""

from __future__ import annotations

import json
import sys

import smolagents
from client_models import SUNNY, WEATHER_QUESTION

called: list[str] = []


@smolagents.tool
def weather_of(place: str) -> str:
    """Get the weather of a place.

    Args:
        place: The name of the city.
    """
    called.append(place)
    return SUNNY


model = smolagents.OpenAIServerModel(
    model_id="smollm2-135m-instruct", api_base=sys.argv[1], api_key="none", temperature=0, max_tokens=100
)
agent = smolagents.ToolCallingAgent(tools=[weather_of], model=model, max_steps=3, verbosity_level=0)
agent.run(WEATHER_QUESTION)
steps = [step for step in agent.memory.steps if isinstance(step, smolagents.ActionStep)]
errors = [step.error for step in steps if step.error is not None]
# A model of this size may ask the tool again until its steps are used up.
assert all(isinstance(error, smolagents.utils.AgentMaxStepsError) for error in errors), errors
names = {call.name for step in steps for call in step.tool_calls or []}
assert called and names <= {"weather_of", "final_answer"}, names

coder = smolagents.CodeAgent(
    tools=[], model=model, max_steps=1, verbosity_level=0, use_structured_outputs_internally=True
)
coder.run("What is 2 + 3?")
step = next(step for step in coder.memory.steps if isinstance(step, smolagents.ActionStep))
# What the code does is the model's doing; that its step is whole JSON is the server's.
assert set(json.loads(step.model_output_message.content)) == {"thought", "code"}, step.model_output_message
