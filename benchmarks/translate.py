"""Measures what a delta costs between the engine's event and the bytes that a client reads.

    python -m benchmarks.translate [--deltas 20000] [--rounds 5] [--profile text]

No model, no network, one core. The first table is state machine, writer and server-sent events
alone; the second is a batch of one delta on its way through an ingress, in parts: read with a plain
loop, read with a limit on the wait, and through the whole use case to its bytes.
"""

import argparse
import asyncio
import cProfile
import pstats
import sys
import time
from collections.abc import AsyncGenerator, Callable, Coroutine, Sequence
from contextlib import aclosing
from itertools import count
from statistics import median
from typing import Any

from benchmarks.online import number
from benchmarks.report import to_table
from deployments.resource.response import RequestEcho
from deployments.service.batch_reader import Batch, BatchReader
from deployments.service.generation import Generation, Generations
from deployments.service.models import ModelDirectory
from deployments.translate.stream import ResponseStream
from deployments.wire.responses import ResponseEventWriter
from engine.types import (
    EngineEvent,
    GenerationFinished,
    GenerationStarted,
    ModelCard,
    ReasoningDelta,
    SampledLogprob,
    SamplingParams,
    TextDelta,
    TokenLogprob,
    ToolCallDelta,
    ToolCallStarted,
)

NOW_S = 1_700_000_000
ECHO = RequestEcho(temperature=1.0, top_p=1.0, is_stored=True)
PIECE = " größer"  # about as long as a token's text, and not all ASCII
CARD = ModelCard("model", (), NOW_S, 8192, SamplingParams(), None, True)
HEARTBEAT_S = 15.0


def make_logprob(top: int) -> SampledLogprob:
    tokens = [TokenLogprob(PIECE.encode(), -0.123456789 - place) for place in range(top or 1)]
    return SampledLogprob(tokens[0], tuple(tokens[:top]))


def make_texts(num_deltas: int, top: int | None = None) -> list[EngineEvent]:
    logprobs = () if top is None else (make_logprob(top),)
    return [TextDelta(PIECE, index, logprobs) for index in range(num_deltas)]


KINDS: dict[str, Callable[[int], list[EngineEvent]]] = {
    "text": make_texts,
    "reasoning": lambda n: [ReasoningDelta(PIECE, index) for index in range(n)],
    "arguments": lambda n: [ToolCallDelta(PIECE, index) for index in range(n)],
    "text, top_logprobs 0": lambda n: make_texts(n, 0),
    "text, top_logprobs 5": lambda n: make_texts(n, 5),
}


def make_stream() -> ResponseStream:
    numbers = count()
    return ResponseStream("resp_1", "model", NOW_S, lambda prefix: f"{prefix}_{next(numbers)}")


def time_deltas(events: list[EngineEvent]) -> float:
    """Seconds a delta from the engine's event to its bytes."""
    stream, writer = make_stream(), ResponseEventWriter(ECHO)
    stream.feed(GenerationStarted(5), NOW_S)
    if isinstance(events[0], ToolCallDelta):
        stream.feed(ToolCallStarted("find", 0), NOW_S)
    num_bytes = 0
    started_s = time.perf_counter()
    for event in events:
        for made in stream.feed(event, NOW_S):
            num_bytes += len(writer.write(made))
    elapsed_s = time.perf_counter() - started_s
    assert num_bytes > len(events) * len(PIECE.encode())
    return elapsed_s / len(events)


async def play(num_batches: int) -> AsyncGenerator[Batch, None]:
    """An engine whose every batch is one delta that comes with a later turn of the loop."""
    yield (GenerationStarted(5),)
    for index in range(num_batches):
        await asyncio.sleep(0)
        yield (TextDelta(PIECE, index),)
    yield (GenerationFinished("stop", num_batches),)


async def read_plainly(num_batches: int) -> None:
    async for _ in play(num_batches):
        pass


async def read_with_a_limit(num_batches: int) -> None:
    reader = BatchReader(play(num_batches))
    for _ in range(num_batches + 2):
        assert await reader.next(HEARTBEAT_S) is not None
    await reader.close()


async def run_use_case(num_batches: int) -> None:
    reader, writer = BatchReader(play(num_batches)), ResponseEventWriter(ECHO)
    first = await reader.next(HEARTBEAT_S)
    assert first is not None
    generations = Generations(ModelDirectory({}), lambda: NOW_S, str, 60.0, HEARTBEAT_S)
    generation = Generation(CARD, make_stream(), first, reader)
    async with aclosing(generations.run(generation)) as events:
        async for event in events:
            writer.write(event)


WAYS: dict[str, Callable[[int], Coroutine[Any, Any, None]]] = {
    "plain loop": read_plainly,
    "with a limit on the wait": read_with_a_limit,
    "whole use case, to bytes": run_use_case,
}


def time_batches(way: Callable[[int], Coroutine[Any, Any, None]], num_batches: int) -> float:
    """Seconds a batch."""

    async def run() -> float:
        started_s = time.perf_counter()
        await way(num_batches)
        return (time.perf_counter() - started_s) / num_batches

    return asyncio.run(run())


def to_row(name: str, times_s: list[float]) -> list[str]:
    middle_s = median(times_s)
    return [
        name,
        f"{middle_s * 1e6:.2f}",
        f"{min(times_s) * 1e6:.2f}–{max(times_s) * 1e6:.2f}",
        f"{1 / middle_s:,.0f}",
    ]


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="benchmarks.translate", description=__doc__)
    parser.add_argument("--deltas", type=number(100, 10_000_000), default=20_000)
    parser.add_argument("--rounds", type=number(1, 100), default=5)
    parser.add_argument("--profile", choices=list(KINDS), help="show where the time goes")
    options = parser.parse_args(arguments)
    if options.profile:
        events, profiler = KINDS[options.profile](options.deltas), cProfile.Profile()
        profiler.runcall(time_deltas, events)
        pstats.Stats(profiler).sort_stats("tottime").print_stats(20)
        return 0
    rounds = range(options.rounds)
    deltas: dict[str, list[float]] = {kind: [] for kind in KINDS}
    batches: dict[str, list[float]] = {way: [] for way in WAYS}
    for _ in rounds:
        for kind, make_events in KINDS.items():
            deltas[kind].append(time_deltas(make_events(options.deltas)))
        for name, way in WAYS.items():
            batches[name].append(time_batches(way, options.deltas))
    for what, figures in (("delta", deltas), ("batch of one text delta", batches)):
        head = [what, "µs", "by round", "a second"]
        rows = [to_row(name, times_s) for name, times_s in figures.items()]
        print(to_table(head, rows), end="\n\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
