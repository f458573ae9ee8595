"""Measures servers that speak an OpenAI API over HTTP as a user sees them, side by side.

    python -m benchmarks.online \\
        --base-url ours=http://127.0.0.1:8000/v1 --model smollm2-135m --api responses \\
        --base-url mlx-lm=http://127.0.0.1:8081/v1 --model default_model --api chat

In a round every client sends one request, all at once, and the round ends with the last answer.
The servers take turns round by round, and the order turns about, so that a machine that slows down
slows all of them. All get the same prompts. See benchmarks/README.md for what the figures mean.
"""

import argparse
import asyncio
import ipaddress
import json
import os
import platform
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import httpx2

from benchmarks.exchange import PATHS, Api, Exchange, ExchangeReader, make_body, make_prompt
from benchmarks.report import Round, summarize, to_report

MAX_CLIENTS: Final = 256


@dataclass(frozen=True, slots=True)
class Server:
    """One address to measure; `base_url` ends before `/responses` or `/chat/completions`."""

    name: str
    base_url: str
    model: str
    api: Api


@dataclass(frozen=True, slots=True)
class Plan:
    """Everything that decides what is sent. `rounds` and `warmup` are per number of clients."""

    servers: tuple[Server, ...]
    clients: tuple[int, ...]
    prompt_tokens: int
    max_tokens: int
    rounds: int
    warmup: int
    temperature: float
    seed: int
    request_timeout_s: int
    max_seconds: int
    json_path: Path | None


@dataclass(frozen=True, slots=True)
class Turn:
    """One round of one server: a prompt a client. `index` is negative in the warm-up."""

    server: Server
    index: int
    prompts: tuple[str, ...]


def to_turns(plan: Plan) -> Iterator[Turn]:
    """All rounds in the order in which they are played; no prompt comes twice to one server."""
    for num_clients in plan.clients:
        for index in range(-plan.warmup, plan.rounds):
            seeds = [f"{plan.seed}/{num_clients}/{index}/{client}" for client in range(num_clients)]
            prompts = tuple(make_prompt(seed, plan.prompt_tokens) for seed in seeds)
            for server in plan.servers if index % 2 == 0 else reversed(plan.servers):
                yield Turn(server, index, prompts)


async def send(
    http: httpx2.AsyncClient, server: Server, plan: Plan, prompt: str, timeout_s: float
) -> Exchange:
    """One request, read to its end; whatever goes wrong is the result's error."""
    url = server.base_url + PATHS[server.api]
    body = make_body(server.api, server.model, prompt, plan.max_tokens, plan.temperature)
    reader = ExchangeReader(time.perf_counter())
    try:
        async with (
            asyncio.timeout(timeout_s),
            http.sse(url, method="POST", json=body) as events,
        ):
            if events.response.status_code != httpx2.codes.OK:
                text = (await events.response.aread()).decode(errors="replace")
                return reader.finish(f"HTTP {events.response.status_code}: {text}")
            async for event in events:
                reader.feed(event.data, time.perf_counter())
    except TimeoutError:
        return reader.finish(f"not finished after {timeout_s:.0f} s")
    except httpx2.HTTPError as error:
        return reader.finish(f"{type(error).__name__}: {error}")
    return reader.finish()


async def play(http: httpx2.AsyncClient, turn: Turn, plan: Plan, timeout_s: float) -> Round:
    started = time.perf_counter()
    async with asyncio.TaskGroup() as group:
        tasks = [
            group.create_task(send(http, turn.server, plan, prompt, timeout_s))
            for prompt in turn.prompts
        ]
    wall_s = time.perf_counter() - started
    exchanges = tuple(task.result() for task in tasks)
    return Round(turn.server.name, len(turn.prompts), wall_s, exchanges)


async def measure(plan: Plan, take: Callable[[Round], None]) -> None:
    """Play all rounds and hand over those after the warm-up, until the plan or its time ends.

    A round that the end of the time cuts short says nothing of its server and is left out.
    Every request has a connection of its own: one kept open could be closed by its server while
    the others have their turns, and be found dead at the wrong moment.
    """
    deadline = time.perf_counter() + plan.max_seconds
    limits = httpx2.Limits(max_connections=MAX_CLIENTS, max_keepalive_connections=0)
    async with httpx2.AsyncClient(timeout=None, limits=limits, trust_env=False) as http:
        for turn in to_turns(plan):
            left_s = deadline - time.perf_counter()
            played = await play(http, turn, plan, min(plan.request_timeout_s, left_s))
            if time.perf_counter() >= deadline:
                print(f"Stopped after {plan.max_seconds} s, within a round.", file=sys.stderr)
                return
            print_progress(played, turn, plan)
            if turn.index >= 0:
                take(played)


def print_progress(played: Round, turn: Turn, plan: Plan) -> None:
    what = f"round {turn.index + 1}/{plan.rounds}" if turn.index >= 0 else "warm-up"
    num_errors = sum(e.error is not None for e in played.exchanges)
    print(
        f"clients {played.clients}, {what}, {played.server}: {played.tokens_per_s:.1f} tokens/s "
        f"in {played.wall_s:.1f} s, {num_errors} errors",
        file=sys.stderr,
        flush=True,
    )


def number(least: int, most: int) -> Callable[[str], int]:
    """A parser of whole numbers from `least` to `most`."""

    def parse(text: str) -> int:
        value = int(text)
        if not least <= value <= most:
            raise argparse.ArgumentTypeError(f"{value} is not from {least} to {most}")
        return value

    parse.__name__ = "number"
    return parse


def temperature(text: str) -> float:
    value = float(text)
    if not 0 <= value <= 2:
        raise argparse.ArgumentTypeError(f"{value} is not from 0 to 2")
    return value


def client_counts(text: str) -> tuple[int, ...]:
    parse = number(1, MAX_CLIENTS)
    return tuple(dict.fromkeys(parse(part) for part in text.split(",")))


def named_url(text: str) -> tuple[str, str]:
    """`NAME=URL`, or a URL that its host and port name."""
    name, equals, url = text.partition("=")
    if not equals or "://" in name:
        name, url = "", text
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise argparse.ArgumentTypeError(f"{url!r} is not an http address")
    return name or parts.netloc, url.rstrip("/")


def is_loopback(url: str) -> bool:
    host = urlsplit(url).hostname or ""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="benchmarks.online",
        description="Measure OpenAI-compatible servers side by side, as a user sees them.",
        epilog="--model and --api are given once for all servers, or once for each, in order.",
    )
    add = parser.add_argument
    add("--base-url", action="append", required=True, type=named_url, metavar="[NAME=]URL")
    add("--model", action="append", required=True)
    add("--api", action="append", choices=list(PATHS), help="default: responses")
    add("--clients", type=client_counts, default=(1, 4, 8), help="default: 1,4,8")
    add("--prompt-tokens", type=number(1, 100_000), default=128, help="about; default: 128")
    add("--max-tokens", type=number(1, 100_000), default=64, help="default: 64")
    add("--rounds", type=number(1, 1000), default=3, help="default: 3")
    add("--warmup", type=number(0, 1000), default=1, help="unmeasured rounds; default: 1")
    add("--temperature", type=temperature, default=0.0, help="default: 0, which is greedy")
    add("--seed", type=int, default=0, help="of the prompts; change it to repeat without caches")
    add("--request-timeout", type=number(1, 3600), default=120, help="seconds; default: 120")
    add("--max-seconds", type=number(1, 86_400), default=900, help="of it all; default: 900")
    add("--json", type=Path, metavar="FILE", help="write every figure there")
    add("--allow-remote", action="store_true", help="measure addresses that are not of this host")
    return parser


def parse_arguments(arguments: Sequence[str]) -> Plan:
    """The plan that the command line asks for; exits with status 2 where it makes no sense."""
    parser = make_parser()
    options = parser.parse_args(arguments)
    names = [name for name, _ in options.base_url]
    models = options.model * len(names) if len(options.model) == 1 else options.model
    apis = options.api or ["responses"]
    apis = apis * len(names) if len(apis) == 1 else apis
    if not len(names) == len(models) == len(apis):
        parser.error("give --model and --api once for all servers, or once for each")
    if len(set(names)) < len(names):
        parser.error("two servers have the same name")
    for _, url in options.base_url:
        if not options.allow_remote and not is_loopback(url):
            parser.error(f"{url} is not on this host; --allow-remote measures it all the same")
    if options.json is not None and not options.json.parent.is_dir():
        parser.error(f"{options.json.parent} is not a folder")
    servers = zip(options.base_url, models, apis, strict=True)
    return Plan(
        servers=tuple(Server(name, url, model, api) for (name, url), model, api in servers),
        clients=options.clients,
        prompt_tokens=options.prompt_tokens,
        max_tokens=options.max_tokens,
        rounds=options.rounds,
        warmup=options.warmup,
        temperature=options.temperature,
        seed=options.seed,
        request_timeout_s=options.request_timeout,
        max_seconds=options.max_seconds,
        json_path=options.json,
    )


def to_json(plan: Plan, rounds: Sequence[Round]) -> str:
    machine = {
        "platform": platform.platform(),
        "python": platform.python_version(),
        "num_cpus": os.cpu_count(),
    }
    whole = {
        "plan": asdict(plan),
        "machine": machine,
        "summaries": [asdict(s) for s in summarize(rounds, plan.max_tokens)],
        "rounds": [asdict(r) for r in rounds],
    }
    return json.dumps(whole, indent=1, default=str, allow_nan=False)


def main(arguments: Sequence[str]) -> int:
    """Measure and report; 1 where some server has not answered a single request."""
    plan = parse_arguments(arguments)
    rounds: list[Round] = []
    try:
        asyncio.run(measure(plan, rounds.append))
    except KeyboardInterrupt:
        print("Interrupted: these are the rounds so far.", file=sys.stderr)
    print(to_report(summarize(rounds, plan.max_tokens)))
    if plan.json_path is not None:
        plan.json_path.write_text(to_json(plan, rounds), encoding="utf-8")
    answered = {r.server for r in rounds if any(e.error is None for e in r.exchanges)}
    return 0 if answered == {server.name for server in plan.servers} else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
