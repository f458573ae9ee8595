"""Measures what a token costs beside its forward pass, on a model so small that this is most of it.

    python -m benchmarks.overhead --tokenizer FOLDER [--streams 8] [--profile]

The model has two random layers and the tokenizer of FOLDER, so its vocabulary is a real one. Three
loops run in turns over the same batch: forward pass and argmax alone; the runner; the engine with
its thread, its text and its streams. What a loop adds to the one before is its cost.
"""

import argparse
import asyncio
import cProfile
import json
import pstats
import shutil
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.online import number
from engine.backend import load_model, make_prompt_cache, mx
from engine.engine import EngineSettings, ThreadedEngine
from engine.factory import ModelFiles, make_engine
from engine.runner import Runner
from engine.sequence import SequenceParams
from engine.types import ChatMessage, GenerateRequest, SamplingParams

PROMPT = list(range(100, 110))
FILES = ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja")


def make_model(folder: Path, tokenizer: Path, hidden_size: int) -> None:
    """Write a random llama of two layers with another model's tokenizer."""
    for name in FILES:
        if (tokenizer / name).exists():
            shutil.copy(tokenizer / name, folder / name)
    config = json.loads((tokenizer / "config.json").read_text())
    small = {
        "model_type": "llama",
        "hidden_size": hidden_size,
        "num_hidden_layers": 2,
        "intermediate_size": 2 * hidden_size,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "rms_norm_eps": 1e-5,
        "vocab_size": config["vocab_size"],
        "max_position_embeddings": 8192,
        "tie_word_embeddings": True,
        "eos_token_id": config["eos_token_id"],
    }
    (folder / "config.json").write_text(json.dumps(small))
    model, _ = load_model(folder, strict=False)
    model.save_weights(str(folder / "model.safetensors"))


def time_bare(model: Any, num_rows: int, num_steps: int) -> float:
    """Seconds a step of the forward pass and argmax, pipelined as mlx-lm does it."""
    cache = [layer.merge([layer] * num_rows) for layer in make_prompt_cache(model)]
    tokens = mx.argmax(model(mx.array([PROMPT] * num_rows), cache=cache)[:, -1, :], axis=-1)
    mx.async_eval(tokens)
    started_s = time.perf_counter()
    for _ in range(num_steps):
        following = mx.argmax(model(tokens[:, None], cache=cache)[:, -1, :], axis=-1)
        mx.async_eval(following)
        tokens.tolist()
        tokens = following
    return (time.perf_counter() - started_s) / num_steps


def time_runner(model: Any, num_rows: int, num_steps: int, sampling: SamplingParams) -> float:
    """Seconds a step of the runner: sampling and the bookkeeping of its rows."""
    runner = Runner(model, 128)
    for row in range(num_rows):
        runner.prefill(str(row), PROMPT[:-1])
        runner.start(str(row), PROMPT[-1], SequenceParams(sampling))
    runner.decode()
    started_s = time.perf_counter()
    for _ in range(num_steps):
        runner.decode()
    return (time.perf_counter() - started_s) / num_steps


async def time_engine(
    engine: ThreadedEngine, num_rows: int, num_steps: int, sampling: SamplingParams
) -> float:
    """Seconds a step of the whole engine, from the first text of the last stream on."""
    started_s: list[float] = []
    biased = replace(sampling, logit_bias=never_end(engine))

    async def read(name: str) -> None:
        request = GenerateRequest(name, (ChatMessage("user", "Hi"),), biased, num_steps)
        async with aclosing(engine.generate(request)) as batches:
            await anext(batches)
            await anext(batches)
            started_s.append(time.perf_counter())
            async for _ in batches:
                pass

    await asyncio.gather(*(read(str(row)) for row in range(num_rows)))
    return (time.perf_counter() - max(started_s)) / num_steps


def never_end(engine: ThreadedEngine) -> tuple[tuple[int, float], ...]:
    """A bias against the tokens that end a text."""
    return tuple((token_id, -100.0) for token_id in engine._model.stop_ids)


def profile_thread(engine: ThreadedEngine, run: Any) -> pstats.Stats:
    """Run something while the engine's thread is profiled."""
    profiler = cProfile.Profile()
    take_commands = engine._take_commands

    def begin(waits: bool) -> Any:
        engine._take_commands = take_commands  # type: ignore[method-assign]
        profiler.enable()  # of the thread that calls it
        return take_commands(waits)

    engine._take_commands = begin  # type: ignore[method-assign]
    run()
    return pstats.Stats(profiler)


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="benchmarks.overhead", description=__doc__)
    add = parser.add_argument
    add("--tokenizer", type=Path, required=True, help="a converted model's folder")
    add("--streams", type=number(1, 64), default=8)
    add("--hidden-size", type=number(8, 4096), default=64)
    add("--steps", type=number(10, 10_000), default=300)
    add("--rounds", type=number(1, 100), default=5)
    add("--temperature", type=float, default=0.0)
    add("--top-p", type=float, default=1.0)
    add("--profile", action="store_true", help="show where the engine's thread spends its time")
    options = parser.parse_args(arguments)
    sampling = SamplingParams(options.temperature, options.top_p)
    rows, steps = options.streams, options.steps
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        make_model(folder, options.tokenizer, options.hidden_size)
        model, _ = load_model(folder)
        settings = EngineSettings("random", max_running=rows)
        engine = make_engine(ModelFiles(folder, "float32"), settings)
        times: dict[str, list[float]] = {"bare": [], "runner": [], "engine": []}
        for index in range(-1, options.rounds):
            for name, elapsed_s in (
                ("bare", time_bare(model, rows, steps)),
                ("runner", time_runner(model, rows, steps, sampling)),
                ("engine", asyncio.run(time_engine(engine, rows, steps, sampling))),
            ):
                if index >= 0:
                    times[name].append(elapsed_s)
        base_s = median(times["bare"])
        print(f"{rows} streams, {steps} steps, median of {options.rounds} rounds, {sampling}")
        for name, values in times.items():
            added_ms = (median(values) - base_s) / rows * 1e3
            spread = f"{min(values) * 1e3:.2f}–{max(values) * 1e3:.2f}"
            print(
                f"{name:7} {median(values) * 1e3:6.2f} ms a step ({spread}), "
                f"{added_ms:+.3f} ms a token"
            )
        if options.profile:
            stats = profile_thread(
                engine, lambda: asyncio.run(time_engine(engine, rows, steps, sampling))
            )
            stats.sort_stats("tottime").print_stats(25)
        engine.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
