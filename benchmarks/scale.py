"""Replicas on Ray Serve, on one machine: what a second one brings, what routing by warmth brings, what a death and an
update cost.

    python benchmarks/scale.py [--seconds N]

Needs `slipcast[ray]`, and two cores that nothing else uses. Each engine has one thread. Writes `build/bench-scale.json`

    rate_2_over_1                   tokens a second of two replicas over one's
    machine_2_over_1                the same of two engines in two processes without Ray: what the machine gives
    prefix_hit_ratio_over_random    share of prompts' tokens found in a cache, by warmth over by chance
    lost                            requests of 50 clients that failed although they had not begun, a replica killed
    cut                             streams that ended with an error event then
    update_failed                   requests and streams that a rolling update under load did not let end
    tokens_per_core                 tokens a second of one replica over the cores that it used
    front_ms, proxy_ms              CPU milliseconds of the front and of Serve's proxy for each token of a stream
    front_request_ms, proxy_..._ms  the same for each small request
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import os
import random
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from report import ROOT, write_report

HOST = "127.0.0.1"
# Clients of each replica: twice its batch, so that a request always waits where one ends.
CLIENTS, TOKENS = 16, 384
TICK = os.sysconf("SC_CLK_TCK")
# Conversations with a beginning in common: together twice what one replica's KV memory holds.
TOPICS, QUESTIONS, KV_TOKENS = 16, 5, 4096
ROLES = {
    "replicas": "ray::ServeReplica:slipcast:Replica",
    "front": "ray::ServeReplica:slipcast:Front",
    "proxy": "ray::ProxyActor",
    "controller": "ray::ServeController",
}


class Site:
    """Serve on this machine. `deploy` puts the application on it, in place of the one before."""

    def __init__(self) -> None:
        from ray import serve
        from slipcast.engine.cli_serve import listen
        from slipcast.engine.scale.application import QUIET
        from slipcast.engine.scale.cluster import start_here

        with listen(HOST, 0) as listener:
            self.port = listener.getsockname()[1]
        start_here(4, log_to_driver=False)
        serve.start(http_options={"host": HOST, "port": self.port}, logging_config=QUIET)

    def deploy(self, replicas: int, *, routing: str = "warm", **settings: Any) -> None:
        """So many replicas, new ones."""
        from ray import serve
        from slipcast.engine.scale.application import Scale, application
        from slipcast.engine.settings import read_settings

        scale = Scale(least=replicas, routing=routing)  # type: ignore[arg-type]
        app = application(read_settings({"threads": 1, **settings}), scale)
        serve.run(app, name="slipcast", route_prefix="/")

    @contextmanager
    def fresh(self, replicas: int, **options: Any) -> Iterator[None]:
        """The application with nothing in its caches, until the end of the block."""
        from ray import serve

        self.deploy(replicas, **options)
        try:
            yield
        finally:
            serve.delete("slipcast")

    def total(self, name: str) -> float:
        """A metric of all replicas."""
        import httpx

        text = httpx.get(f"http://{HOST}:{self.port}/metrics", timeout=30).text
        return sum(float(value) for value in re.findall(rf"^{name}\{{[^}}]*\}} (\S+)$", text, re.MULTILINE))

    async def load(
        self,
        bodies: Iterator[dict[str, Any]],
        clients: int,
        meanwhile: Callable[[], Awaitable[None]] | None = None,
        *,
        leave: bool = False,
    ) -> Counter[str]:
        """What became of the requests: "done", "cut" (a stream that had begun), or "lost". With `leave` clients do not
        wait for their answers once `meanwhile` is over.
        """
        import httpx

        limits = httpx.Limits(max_connections=clients)
        outcomes: Counter[str] = Counter()
        async with httpx.AsyncClient(base_url=f"http://{HOST}:{self.port}", timeout=600, limits=limits) as client:

            async def work() -> None:
                for body in bodies:
                    outcomes[await ask(client, body)] += 1

            working = [asyncio.create_task(work()) for _ in range(clients)]
            if meanwhile is not None:
                await meanwhile()
            for task in working if leave else ():
                task.cancel()
            await asyncio.gather(*working, return_exceptions=leave)
        return outcomes


def body(number: int, tokens: int, *, said: str = "", stream: bool = False) -> dict[str, Any]:
    """A request for so many tokens."""
    return {
        "messages": [{"role": "user", "content": f"{said}Question {number}: what do you know about it?"}],
        "max_tokens": tokens,
        "ignore_eos": True,
        "seed": number,
        "stream": stream,
    }


async def ask(client: Any, request: dict[str, Any]) -> str:
    """One request."""
    try:
        if not request["stream"]:
            response = await client.post("/v1/chat/completions", json=request)
            return "done" if response.status_code == 200 else "lost"
        last, count = "", 0
        async with client.stream("POST", "/v1/chat/completions", json=request) as told:
            async for line in told.aiter_lines():
                if line:
                    last, count = line, count + 1
        return "done" if last == "data: [DONE]" else "cut" if '"error"' in last and count > 1 else "lost"
    except Exception:
        return "lost"


def processes() -> dict[str, list[int]]:
    """Process ids of what this process has started on its cluster, by role."""
    found: dict[str, list[int]] = {role: [] for role in (*ROLES, "rest of Ray")}
    parents: dict[int, int] = {}
    names: dict[int, str] = {}
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            names[int(entry.name)] = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            parents[int(entry.name)] = int((entry / "stat").read_text().rsplit(")", 1)[1].split()[1])
        except OSError:
            continue
    for pid, name in names.items():
        ancestor = pid
        while ancestor not in (0, os.getpid()):
            ancestor = parents.get(ancestor, 0)
        if ancestor == os.getpid() != pid:
            role = next((role for role, title in ROLES.items() if name.startswith(title)), "rest of Ray")
            found[role].append(pid)
    return found


def cpu_seconds() -> dict[str, float]:
    """What each role has used so far, and the client with it."""
    used = {role: sum(map(_cpu, pids)) for role, pids in processes().items()}
    return {**used, "client": _cpu(os.getpid())}


def _cpu(pid: int) -> float:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / TICK


def rate(site: Site, seconds: float, replicas: int, *, stream: bool = False) -> tuple[float, dict[str, float]]:
    """Tokens a second while CLIENTS for each replica ask without a pause, and cores used by role."""
    figures: list[tuple[float, float, dict[str, float]]] = []

    async def measure() -> None:
        await asyncio.sleep(4)
        for pause in (seconds, 0):
            tokens = await asyncio.to_thread(site.total, "slipcast_decoded_tokens_total")
            figures.append((time.perf_counter(), tokens, cpu_seconds()))
            await asyncio.sleep(pause)

    bodies = (body(number, TOKENS, stream=stream) for number in itertools.count())
    asyncio.run(site.load(bodies, CLIENTS * replicas, measure, leave=True))
    (begun, before, used_before), (ended, after, used_after) = figures
    cores = {role: (used_after[role] - used_before.get(role, 0.0)) / (ended - begun) for role in used_after}
    return (after - before) / (ended - begun), cores


def plain(seconds: float) -> float:
    """Tokens a second of one engine with a full batch, in this process and without Ray."""
    from slipcast.engine import Engine
    from slipcast.engine.errors import ClosedError

    engine = Engine(threads=1)

    def work(first: int) -> None:
        with suppress(ClosedError):
            for number in itertools.count(first):
                engine.chat.completions.create(**body(number, TOKENS))

    with ThreadPoolExecutor(8) as pool:
        for first in range(8):
            pool.submit(work, first * 1000)
        time.sleep(4)
        begun, before = time.perf_counter(), engine.service.stats().decoded_tokens
        time.sleep(seconds)
        measured = (engine.service.stats().decoded_tokens - before) / (time.perf_counter() - begun)
        engine.close()
    return measured


def requests_alone(site: Site, count: int = 400) -> dict[str, float]:
    """What a small request costs on its way, whatever the model does."""
    import httpx

    async def ask_all() -> None:
        numbers = iter(range(count))
        async with httpx.AsyncClient(base_url=f"http://{HOST}:{site.port}", timeout=60) as client:

            async def work() -> None:
                for number in numbers:
                    await client.post("/tokenize", json={"prompt": f"Text {number}"})

            await asyncio.gather(*(work() for _ in range(CLIENTS)))

    before = cpu_seconds()
    asyncio.run(ask_all())
    after = cpu_seconds()
    return {f"{role}_request_ms": (after[role] - before[role]) / count * 1e3 for role in ("front", "proxy")}


def machine(seconds: float) -> dict[str, float]:
    """One engine, then two at once."""
    rates: dict[int, float] = {}
    for count in (1, 2):
        command = [sys.executable, __file__, "--plain", str(seconds)]
        started = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(count)]
        rates[count] = sum(float(process.communicate()[0].split()[-1]) for process in started)
        print(f"{count} engine{'s' * (count > 1)} without Ray: {rates[count]:.1f} tokens/s")
    return {"machine_2_over_1": rates[2] / rates[1]}


def shown(cores: dict[str, float]) -> str:
    return ", ".join(f"{role} {value:.2f}" for role, value in cores.items())


def scaling(site: Site, seconds: float) -> dict[str, float]:
    """One replica, two, two again, one again."""
    rates: dict[int, list[float]] = {1: [], 2: []}
    figures: dict[str, float] = {}
    for count, times in ((1, 1), (2, 2), (1, 1)):
        with site.fresh(count):
            for _ in range(times):
                measured, cores = rate(site, seconds, count)
                rates[count].append(measured)
                print(f"{count} replica{'s' * (count > 1)}: {measured:6.1f} tokens/s; cores: {shown(cores)}")
            if count == 1:
                figures["tokens_per_core"] = measured / cores["replicas"]
            else:
                measured, cores = rate(site, seconds, count, stream=True)
                print(f"2 replicas, streams: {measured:6.1f} tokens/s; cores: {shown(cores)}")
                figures |= {f"{role}_ms": cores[role] / measured * 1e3 for role in ("front", "proxy")}
                figures |= requests_alone(site)
    return {"rate_2_over_1": sum(rates[2]) / sum(rates[1]), **figures}


def warmth(site: Site) -> dict[str, float]:
    """Prompts whose beginnings many have in common, in an order that says nothing of it."""
    shares: dict[str, float] = {}
    for routing in ("warm", "random"):
        with site.fresh(2, routing=routing, kv_tokens=KV_TOKENS, max_batch=4):
            topics = [f"You know all about topic {topic}. " * 60 for topic in range(TOPICS)]
            asked = [body(number, 2, said=said) for number in range(QUESTIONS) for said in topics]
            random.Random(1).shuffle(asked)
            asyncio.run(site.load(iter(asked), 4))
            cached = site.total("slipcast_prefix_cached_tokens_total")
            shares[routing] = cached / site.total("slipcast_prompt_tokens_total")
            print(f"routed by {routing}: {shares[routing]:.3f} of prompts' tokens were cached")
    return {"prefix_hit_ratio_over_random": shares["warm"] / max(shares["random"], 1e-9), **{
        f"prefix_hit_share_{routing}": share for routing, share in shares.items()
    }}  # fmt: skip


def faults(site: Site, requests: int) -> dict[str, float]:
    """Fifty clients, every other request a stream: a replica is killed; and the application is deployed anew."""

    def mixed() -> Iterator[dict[str, Any]]:
        return iter([body(number, 32, stream=number % 2 == 0) for number in range(requests)])

    async def die() -> None:
        await asyncio.sleep(4)
        # As a machine that loses its power.
        os.kill(processes()["replicas"][0], signal.SIGKILL)

    async def update() -> None:
        await asyncio.sleep(1)
        await asyncio.to_thread(site.deploy, 2)

    with site.fresh(2):
        killed = asyncio.run(site.load(mixed(), 50, die))
        print(f"a replica killed under 50 clients: {dict(killed)}")
        updated = asyncio.run(site.load(mixed(), 50, update))
        print(f"a rolling update under 50 clients: {dict(updated)}")
    return {"lost": killed["lost"], "cut": killed["cut"], "update_failed": updated["lost"] + updated["cut"]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=12, help="of each rate (default: %(default)s)")
    parser.add_argument("--requests", type=int, default=150, help="of each part with a fault (default: %(default)s)")
    parser.add_argument("--plain", type=float, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.plain is not None:
        print(plain(options.plain))
        return
    try:
        import ray
    except ImportError:
        print("bench-scale is skipped: it needs `pip install 'slipcast[ray]'`")
        return
    begun = time.perf_counter()
    figures = machine(options.seconds)
    site = Site()
    figures |= scaling(site, options.seconds) | warmth(site) | faults(site, options.requests)
    ray.shutdown()
    for name, value in figures.items():
        print(f"  {name:32}{value:8.3f}")
    print(f"{time.perf_counter() - begun:.0f} s; written to {write_report('bench-scale', figures).relative_to(ROOT)}")


if __name__ == "__main__":
    main()
