"""A file of texts becomes a file of JSON, many at a time, with a progress bar; an interrupted run goes on where it was.

    python examples/batch_jsonl.py IN.jsonl OUT.jsonl

Each line of IN is {"id": ..., "text": ...}; each of OUT {"id": ..., "result": {...}}.
"""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
from pathlib import Path

from pydantic import BaseModel, Field
from slipcast.engine import AsyncEngine
from tqdm import tqdm

AT_ONCE = 8
SAMPLES = ["The soup was cold.", "Best pizza in town!", "Service was slow, food was fine.", "Never again."]


class Review(BaseModel):
    """What is asked of each text."""

    positive: bool
    about: str = Field(max_length=20)


async def convert(source: Path, target: Path) -> int:
    """Convert what `target` does not have yet; returns how many lines that were."""
    done = {json.loads(line)["id"] for line in target.read_text().splitlines()} if target.exists() else set()
    jobs = [job for line in source.read_text().splitlines() if (job := json.loads(line))["id"] not in done]
    gate = asyncio.Semaphore(AT_ONCE)
    async with AsyncEngine() as engine:
        with target.open("a") as out, tqdm(total=len(jobs), disable=None) as progress:

            async def one(job: dict[str, str]) -> None:
                async with gate:
                    prompt = f"Review: {job['text']}\nIs it positive, and what is it about?"
                    review = await engine.generate(prompt, Review, max_tokens=60, temperature=0)
                out.write(json.dumps({"id": job["id"], "result": review.model_dump()}) + "\n")
                out.flush()  # what is written is done, whatever happens next
                progress.update()

            await asyncio.gather(*map(one, jobs))
    return len(jobs)


def main() -> None:
    if len(sys.argv) == 3:
        print(f"{asyncio.run(convert(Path(sys.argv[1]), Path(sys.argv[2])))} lines converted")
        return
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder) / "in.jsonl", Path(folder) / "out.jsonl"
        source.write_text("".join(json.dumps({"id": i, "text": text}) + "\n" for i, text in enumerate(SAMPLES)))
        earlier = {"id": 0, "result": {"positive": False, "about": "soup"}}
        target.write_text(json.dumps(earlier) + "\n")
        print(f"{asyncio.run(convert(source, target))} lines converted")
        print(target.read_text(), end="")


if __name__ == "__main__":
    main()
