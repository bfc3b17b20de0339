"""instructor: typed output by a tool and by a schema. `python with_instructor.py URL`."""

from __future__ import annotations

import sys
from typing import Any

import instructor
import openai
from client_models import QUESTION, Toy

MODEL = "smollm2-135m-instruct"
messages: Any = [{"role": "user", "content": QUESTION}]

for mode in (instructor.Mode.TOOLS, instructor.Mode.TOOLS_STRICT, instructor.Mode.JSON_SCHEMA):
    client = instructor.from_openai(openai.OpenAI(base_url=sys.argv[1], api_key="none"), mode=mode)
    asked: Any = {"model": MODEL, "messages": messages, "temperature": 0, "max_tokens": 200, "max_retries": 0}
    assert isinstance(client.chat.completions.create(response_model=Toy, **asked), Toy), mode
    *_, last = client.chat.completions.create_partial(response_model=Toy, **asked)
    Toy.model_validate(last.model_dump())
