"""Abuses a running server and tells what is left: its counters, its memory, its answers.

    python -m benchmarks.soak --base-url http://127.0.0.1:8000 --model NAME \\
        --sequential 2000 --concurrent 500 --hasty 500 --leaving 200 --at-once 200

One after another: requests in sequence; requests over 8 clients; connections closed at random
moments of their first 50 ms; streams left after their first text; requests all at once. After each
part it waits until nothing runs or waits, and shows the resident memory of the server's processes
on this machine. Processes are found by the titles that Ray gives them: run one server at a time.
"""

import argparse
import asyncio
import os
import random
import sys
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

import httpx2
import psutil
from prometheus_client.parser import text_string_to_metric_families

from benchmarks.online import number

REQUEST_S = 600.0  # whatever takes longer hangs
HASTE_S = 0.05
CLIENTS, LEAVING_CLIENTS = 8, 16
TITLES = ("ray::ServeReplica", "ray::ProxyActor")


@dataclass
class Soak:
    """One server under abuse, and what came of it."""

    http: httpx2.AsyncClient
    model: str
    max_tokens: int
    rng: random.Random = field(default_factory=lambda: random.Random(0))

    async def ask(self) -> str:
        """One whole answer; its status code, or what went wrong."""
        body = self._body(stream=False)
        try:
            reply = await self.http.post("/v1/responses", json=body)
        except httpx2.HTTPError as error:
            return type(error).__name__
        return str(reply.status_code)

    async def leave_hastily(self) -> str:
        """Close the connection at a random moment, whatever has come by then."""
        try:
            async with asyncio.timeout(self.rng.uniform(0, HASTE_S)):
                async with self.http.stream(
                    "POST", "/v1/responses", json=self._body(stream=True, max_tokens=None)
                ) as reply:
                    async for _ in reply.aiter_bytes():
                        pass
        except TimeoutError:
            return "closed"
        except httpx2.HTTPError as error:
            return type(error).__name__
        return str(reply.status_code)

    async def leave_in_mid_stream(self) -> str:
        """Close the connection after the first text."""
        try:
            async with self.http.stream(
                "POST", "/v1/responses", json=self._body(stream=True, max_tokens=None)
            ) as reply:
                async for line in reply.aiter_lines():
                    if "output_text.delta" in line:
                        return "closed"
        except httpx2.HTTPError as error:
            return type(error).__name__
        return str(reply.status_code)

    async def repeat(
        self, what: Callable[[], Awaitable[str]], times: int, num_clients: int
    ) -> Counter[str]:
        """Do something so many times, from so many clients at once, and count how it ended."""
        left = iter(range(times))
        ends: Counter[str] = Counter()

        async def work() -> None:
            for _ in left:
                ends[await what()] += 1

        await asyncio.gather(*(work() for _ in range(num_clients)))
        return ends

    async def read_engines(self) -> dict[str, dict[str, float]]:
        """Every replica's numbers, by its name."""
        page = (await self.http.get("/metrics")).text
        engines: dict[str, dict[str, float]] = {}
        for family in text_string_to_metric_families(page):
            for sample in family.samples:
                if sample.labels.get("model_name") == self.model and "engine" in sample.labels:
                    name = sample.name + sample.labels.get("finished_reason", "")
                    engines.setdefault(sample.labels["engine"], {})[name] = sample.value
        return engines

    async def wait_idle(self) -> float:
        """Seconds until nothing runs or waits on any replica."""
        started_s = time.monotonic()
        while True:
            engines = await self.read_engines()
            busy = ("vllm:num_requests_running", "vllm:num_requests_waiting")
            if engines and not any(one[name] for one in engines.values() for name in busy):
                return time.monotonic() - started_s
            if time.monotonic() - started_s > REQUEST_S:
                raise TimeoutError(f"never idle: {engines}")
            await asyncio.sleep(0.05)

    def _body(self, stream: bool, max_tokens: int | None = -1) -> dict[str, object]:
        limit = self.max_tokens if max_tokens == -1 else max_tokens
        text = f"Count from {self.rng.randrange(1000)}."
        return {
            "model": self.model,
            "input": text,
            "stream": stream,
            "max_output_tokens": limit,
            "store": self.rng.random() < 0.5,
        }


def measure_memory() -> dict[str, float]:
    """Resident megabytes of the server's processes, by title and process id."""
    memory = {}
    for process in psutil.process_iter(["cmdline", "memory_info"]):
        title = " ".join(process.info["cmdline"] or [])
        if title.startswith(TITLES):
            name = f"{title.removeprefix('ray::').split('#')[0][:40]} ({process.pid})"
            memory[name] = process.info["memory_info"].rss / 1e6
    return memory


async def run(soak: Soak, options: argparse.Namespace) -> None:
    parts: list[tuple[str, Callable[[], Awaitable[str]], int, int]] = [
        ("warm-up", soak.ask, 100, CLIENTS),
        *(
            (f"sequential {begin + 500}", soak.ask, min(500, options.sequential - begin), 1)
            for begin in range(0, options.sequential, 500)
        ),
        (f"over {CLIENTS} clients", soak.ask, options.concurrent, CLIENTS),
        ("closed within 50 ms", soak.leave_hastily, options.hasty, 50),
        ("closed in mid-stream", soak.leave_in_mid_stream, options.leaving, LEAVING_CLIENTS),
        ("at once", soak.ask, options.at_once, options.at_once),
    ]
    for name, what, times, num_clients in parts:
        if not times:
            continue
        started_s = time.monotonic()
        ends = await soak.repeat(what, times, num_clients)
        took_s = time.monotonic() - started_s
        idle_s = await soak.wait_idle()
        memory = ", ".join(f"{title} {size:.0f}" for title, size in measure_memory().items())
        print(f"{name}: {dict(ends)} in {took_s:.1f} s, idle after {idle_s:.2f} s; MB: {memory}")
    print("then every replica:", await try_all_replicas(soak))
    for engine, values in (await soak.read_engines()).items():
        print(engine, {key.split(":")[1]: value for key, value in values.items()})


async def try_all_replicas(soak: Soak) -> str:
    """Ask until each replica has finished one more answer."""
    before = await soak.read_engines()
    ends: Counter[str] = Counter()
    for _ in range(100):
        ends[await soak.ask()] += 1
        after = await soak.read_engines()
        done = "vllm:request_success_totallength"
        if all(after[name][done] > before[name][done] for name in before):
            return f"{len(before)} answered, {dict(ends)}"
    return f"not all answered, {dict(ends)}"


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="benchmarks.soak", description=__doc__)
    add = parser.add_argument
    add("--base-url", required=True, help="without /v1")
    add("--model", required=True)
    add("--max-tokens", type=number(1, 1000), default=8)
    for part, times in (
        ("sequential", 2000),
        ("concurrent", 500),
        ("hasty", 500),
        ("leaving", 200),
        ("at-once", 200),
    ):
        add(f"--{part}", type=number(0, 100_000), default=times)
    options = parser.parse_args(arguments)
    key = os.environ.get("OPENAI_API_KEY", "none")

    async def drive() -> None:
        async with httpx2.AsyncClient(
            base_url=options.base_url,
            headers={"authorization": f"Bearer {key}"},
            timeout=REQUEST_S,
            limits=httpx2.Limits(max_connections=1000, max_keepalive_connections=20),
            trust_env=False,
        ) as http:
            await run(Soak(http, options.model, options.max_tokens), options)

    asyncio.run(drive())
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
