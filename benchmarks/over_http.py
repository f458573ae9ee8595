"""Measures what the way to the engine costs: a running server against its engine in this process.

    python -m benchmarks.over_http --folder FOLDER --base-url http://127.0.0.1:8000/v1 \\
        --model smollm2-135m --clients 1,8,16 --prompt-tokens 60 --max-tokens 128

The engine of this process holds the same weights as the server's. Both play the same rounds of the
same prompts in turns, as in `benchmarks.online`; the first line of each pair is the engine's.
"""

import argparse
import asyncio
import sys
import time
from collections.abc import Sequence
from contextlib import aclosing
from pathlib import Path

import httpx2

from benchmarks.exchange import Exchange
from benchmarks.online import MAX_CLIENTS, Plan, Server, Turn, client_counts, number, play, to_turns
from benchmarks.report import Round, summarize, to_report
from engine.engine import EngineSettings, ThreadedEngine
from engine.errors import EngineError
from engine.factory import ModelFiles, make_engine
from engine.types import (
    ChatMessage,
    GenerateRequest,
    GenerationFinished,
    GenerationStarted,
    SamplingParams,
    TextDelta,
)

ENGINE = "engine"


async def ask(engine: ThreadedEngine, name: str, prompt: str, plan: Plan) -> Exchange:
    """One generation, as `benchmarks.exchange` has one request."""
    sampling = SamplingParams(plan.temperature)
    request = GenerateRequest(name, (ChatMessage("user", prompt),), sampling, plan.max_tokens)
    sent_s = time.perf_counter()
    texts_s: list[float] = []
    prompt_tokens = output_tokens = 0
    error: str | None = None
    try:
        async with aclosing(engine.generate(request)) as batches:
            async for batch in batches:
                for event in batch:
                    match event:
                        case GenerationStarted():
                            prompt_tokens = event.prompt_tokens
                        case TextDelta():
                            texts_s.append(time.perf_counter())
                        case GenerationFinished():
                            output_tokens = event.output_tokens
    except EngineError as failure:
        error = failure.message
    return Exchange(
        error=error,
        ttft_s=texts_s[0] - sent_s if texts_s else None,
        gaps_s=tuple(b - a for a, b in zip(texts_s, texts_s[1:], strict=False)),
        output_tokens=output_tokens,
        is_estimate=False,
        prompt_tokens=prompt_tokens,
        cached_tokens=0,
    )


async def play_in_process(engine: ThreadedEngine, turn: Turn, plan: Plan) -> Round:
    started_s = time.perf_counter()
    exchanges = await asyncio.gather(
        *(ask(engine, str(i), prompt, plan) for i, prompt in enumerate(turn.prompts))
    )
    return Round(ENGINE, len(turn.prompts), time.perf_counter() - started_s, tuple(exchanges))


async def measure(engine: ThreadedEngine, plan: Plan) -> list[Round]:
    """All rounds after the warm-up, in turns."""
    rounds = []
    limits = httpx2.Limits(max_connections=MAX_CLIENTS, max_keepalive_connections=0)
    async with httpx2.AsyncClient(timeout=None, limits=limits, trust_env=False) as http:
        for turn in to_turns(plan):
            if turn.server.name == ENGINE:
                played = await play_in_process(engine, turn, plan)
            else:
                played = await play(http, turn, plan, plan.request_timeout_s)
            print(f"{turn.server.name} {played.clients}: {played.tokens_per_s:.1f} tokens/s")
            if turn.index >= 0:
                rounds.append(played)
    return rounds


def parse_arguments(arguments: Sequence[str]) -> tuple[Path, Plan]:
    parser = argparse.ArgumentParser(prog="benchmarks.over_http", description=__doc__)
    add = parser.add_argument
    add("--folder", type=Path, required=True, help="the model that the server serves, converted")
    add("--base-url", required=True, help="ends before /responses")
    add("--model", required=True, help="what the server calls it")
    add("--clients", type=client_counts, default=(1, 8, 16))
    add("--prompt-tokens", type=number(1, 100_000), default=60)
    add("--max-tokens", type=number(1, 100_000), default=128)
    add("--rounds", type=number(1, 1000), default=3)
    add("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    return options.folder, Plan(
        servers=(
            Server(ENGINE, "", options.model, "responses"),
            Server("http", options.base_url.rstrip("/"), options.model, "responses"),
        ),
        clients=options.clients,
        prompt_tokens=options.prompt_tokens,
        max_tokens=options.max_tokens,
        rounds=options.rounds,
        warmup=1,
        temperature=0.0,
        seed=options.seed,
        request_timeout_s=600,
        max_seconds=86_400,
        json_path=None,
    )


def main(arguments: Sequence[str]) -> int:
    folder, plan = parse_arguments(arguments)
    engine = make_engine(ModelFiles(folder, "float32"), EngineSettings(plan.servers[0].model))
    try:
        rounds = asyncio.run(measure(engine, plan))
    finally:
        engine.stop()
    print(to_report(summarize(rounds, plan.max_tokens)))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
