"""Replicas on Ray Serve, on one machine: what a second one brings, what routing by warmth brings, what a death costs.

    python benchmarks/scale.py [--requests N]

Needs `slipcast[ray]`. Each engine has one thread. Writes `build/bench-scale.json`:

    rate_2_over_1                   tokens a second of two replicas over one's, the machine being free
    prefix_hit_ratio_over_random    share of prompts' tokens found in a cache, by warmth over by queues alone
    lost                            requests of 50 clients that failed although they had not begun, a replica killed
"""

from __future__ import annotations

import argparse
import asyncio
import os
import re
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from report import ROOT, write_report

HOST, PORT = "127.0.0.1", 8137
TOPICS = ("rivers", "planets", "birds", "metals", "poets", "engines", "islands", "spices")


@contextmanager
def replicas(count: int, *, warm: bool = True) -> Iterator[None]:
    """The application with so many replicas, until the end of the block."""
    from ray import serve
    from slipcast.engine.scale.application import Scale, application
    from slipcast.engine.settings import read_settings

    serve.start(http_options={"host": HOST, "port": PORT})
    settings = read_settings({"threads": 1, "mode": "local"})
    serve.run(application(settings, Scale(least=count, most=count, warm=warm)), name="slipcast", route_prefix="/")
    try:
        yield
    finally:
        serve.shutdown()


def body(number: int, tokens: int) -> dict[str, Any]:
    """A request whose prompt begins as those of an eighth of the others do."""
    topic = TOPICS[number % len(TOPICS)]
    system = f"You know all about {topic}. " * 40
    return {
        "messages": [{"role": "system", "content": system}, {"role": "user", "content": f"Question {number}."}],
        "max_tokens": tokens,
        "ignore_eos": True,
        "seed": number,
    }


async def ask(client: Any, number: int, tokens: int, stream: bool = False) -> str:
    """What became of one request: "done", "cut" (after it began), or "lost"."""
    try:
        if not stream:
            response = await client.post("/v1/chat/completions", json=body(number, tokens))
            return "done" if response.status_code == 200 else "lost"
        async with client.stream("POST", "/v1/chat/completions", json={**body(number, tokens), "stream": True}) as told:
            lines = [line async for line in told.aiter_lines() if line]
        return "done" if lines[-1] == "data: [DONE]" else "cut" if '"error"' in lines[-1] else "lost"
    except Exception:
        return "lost"


async def load(requests: int, clients: int, tokens: int, *, mixed: bool = False) -> tuple[float, dict[str, int]]:
    """Seconds that the requests took from so many clients, and what became of them."""
    import httpx

    limits = httpx.Limits(max_connections=clients)
    async with httpx.AsyncClient(base_url=f"http://{HOST}:{PORT}", timeout=600, limits=limits) as client:
        numbers = iter(range(requests))

        async def work() -> list[str]:
            return [await ask(client, number, tokens, mixed and number % 2 == 0) for number in numbers]

        begun = time.perf_counter()
        outcomes = [one for many in await asyncio.gather(*(work() for _ in range(clients))) for one in many]
    return time.perf_counter() - begun, {kind: outcomes.count(kind) for kind in ("done", "cut", "lost")}


def metrics() -> str:
    import httpx

    return httpx.get(f"http://{HOST}:{PORT}/metrics", timeout=30).text


def total(text: str, name: str) -> float:
    return sum(float(value) for value in re.findall(rf"^{name}\{{[^}}]*\}} (\S+)$", text, re.MULTILINE))


def settled(name: str, least: float) -> str:
    """The metrics once all replicas have shown theirs."""
    deadline = time.monotonic() + 60
    while total(text := metrics(), name) < least and time.monotonic() < deadline:
        time.sleep(1)
    return text


def kill_one() -> int:
    """Kill a replica as a machine that loses its power does; its process id."""
    found = (int(number) for number in re.findall(r'replica="replica-(\d+)"', metrics()))
    alive = next(number for number in found if os.path.exists(f"/proc/{number}"))
    os.kill(alive, signal.SIGKILL)
    return alive


async def death(requests: int, clients: int) -> dict[str, int]:
    """A replica is killed under load."""
    task = asyncio.create_task(load(requests, clients, 24, mixed=True))
    await asyncio.sleep(6)
    print(f"killed the replica with process id {await asyncio.to_thread(kill_one)}")
    _, outcomes = await task
    return outcomes


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=64, help="of each part")
    options = parser.parse_args()
    try:
        import ray
    except ImportError:
        print("bench-scale is skipped: it needs `pip install 'slipcast[ray]'`")
        return
    os.environ.setdefault("RAY_SERVE_LOG_TO_STDERR", "0")
    ray.init(num_cpus=4, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
    figures: dict[str, float] = {}
    rates = {}
    for count in (1, 2):
        with replicas(count):
            asyncio.run(load(8, 8, 8))
            seconds, outcomes = asyncio.run(load(options.requests, 16, 32))
            rates[count] = outcomes["done"] * 32 / seconds
            print(f"{count} replica(s): {rates[count]:.1f} tokens/s, {outcomes}")
    figures["rate_2_over_1"] = rates[2] / rates[1]
    shares = {}
    for warm in (True, False):
        with replicas(2, warm=warm):
            asyncio.run(load(options.requests, 4, 2))
            text = settled("slipcast_prompt_tokens_total", options.requests)
            cached = total(text, "slipcast_prefix_cached_tokens_total")
            shares[warm] = cached / max(1.0, total(text, "slipcast_prompt_tokens_total"))
            how = "warmth" if warm else "queues alone"
            print(f"routed by {how}: {shares[warm]:.3f} of prompts' tokens were cached")
    figures["prefix_hit_ratio_over_random"] = shares[True] / max(shares[False], 1e-9)
    with replicas(2):
        asyncio.run(load(8, 8, 8))
        time.sleep(3)
        outcomes = asyncio.run(death(options.requests * 2, 50))
        print(f"a replica killed under 50 clients: {outcomes}")
        figures["lost"] = outcomes["lost"]
        figures["cut"] = outcomes["cut"]
    ray.shutdown()
    for name, value in figures.items():
        print(f"  {name:32}{value:8.3f}")
    print(f"written to {write_report('bench-scale', figures).relative_to(ROOT)}")


if __name__ == "__main__":
    main()
