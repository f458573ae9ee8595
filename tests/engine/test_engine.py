"""The engine over real models: batches equal solo runs, and every end is clean."""

import asyncio
import json
import threading
import time
from contextlib import aclosing
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from engine.core import EngineCore
from engine.engine import EngineSettings, ThreadedEngine
from engine.errors import (
    ChatTemplateError,
    ContextLengthError,
    DeadlineError,
    EngineStoppedError,
    GenerationFailedError,
    LogitBiasError,
    ModelLoadError,
    NoChatTemplateError,
    QueueFullError,
)
from engine.factory import ModelFiles, load_files, make_engine
from engine.loader import LoadedModel
from engine.runner import Runner
from engine.scheduler import Scheduler
from engine.types import (
    EngineEvent,
    GenerationFinished,
    GenerationStarted,
    SamplingParams,
    TextDelta,
)
from tests.support.generating import ask, generate
from tests.support.tiny_model import CONFIG, EOS_ID, VOCAB_SIZE, save_tiny_model

QUESTIONS = [
    "Say hello.",
    "Count from 1 to 10, then tell me the capital of France.",
    "Name three colours 🎨 and say why.",
    "Write a haiku about the sea.",
    "What is 2+2?",
    "Explain gravity to a child. " * 40,
    "def fibonacci(n):",
    "Wie heißt die Hauptstadt von Österreich?",
]


@pytest.fixture
def tiny(tiny_folder: Path) -> ThreadedEngine:
    settings = EngineSettings("tiny", ("t",), max_running=2, max_waiting=1)
    return make_engine(ModelFiles(tiny_folder, "float32"), settings)


async def test_the_default_model_answers_greedily_as_its_weights_say(
    smollm2: ThreadedEngine,
) -> None:
    answer = await generate(smollm2, ask("g", QUESTIONS[1]))
    assert answer.text == "La femme de France est la France."
    assert answer.finished == GenerationFinished("stop", 10)


async def test_a_batch_gives_the_texts_of_solo_runs(smollm2: ThreadedEngine) -> None:
    solo = [await generate(smollm2, ask("g", text)) for text in QUESTIONS]
    together = await asyncio.gather(
        *(generate(smollm2, ask(str(i), text)) for i, text in enumerate(QUESTIONS))
    )
    assert together == solo


async def test_a_text_is_the_same_while_others_join_leave_and_are_aborted(
    smollm2: ThreadedEngine,
) -> None:
    long = ask("long", QUESTIONS[3], max_tokens=40)
    solo = await generate(smollm2, long)
    running = asyncio.create_task(generate(smollm2, long))
    for round_ in range(3):
        short = asyncio.create_task(generate(smollm2, ask(f"s{round_}", QUESTIONS[5], 4)))
        async with aclosing(smollm2.generate(ask(f"a{round_}", QUESTIONS[2], None))) as left_early:
            await anext(left_early)
            await anext(left_early)
        await short
    assert await running == solo


async def test_sampled_text_differs_between_runs_and_greedy_text_does_not(
    smollm2: ThreadedEngine,
) -> None:
    hot = SamplingParams(temperature=1.5)
    sampled = {(await generate(smollm2, ask("g", QUESTIONS[3], 12, hot))).text for _ in range(3)}
    narrow = SamplingParams(temperature=1.5, top_p=1e-6)
    narrowed = await generate(smollm2, ask("g", QUESTIONS[3], 12, narrow))
    assert len(sampled) > 1
    assert narrowed == await generate(smollm2, ask("g", QUESTIONS[3], 12))


async def test_closing_a_stream_frees_its_row_within_a_step(tiny: ThreadedEngine) -> None:
    async with aclosing(tiny.generate(ask("g", "hello", None))) as batches:
        await anext(batches)
        await anext(batches)
    await generate(tiny, ask("after", "hello", 1))
    stats = tiny.stats()
    assert (stats.running, stats.waiting, stats.cache_bytes) == (0, 0, 0)
    assert (stats.aborted, stats.finished_by_length, stats.failed) == (1, 1, 0)
    assert stats.max_abort_steps <= 1
    tiny.stop()


async def test_an_abort_ends_the_stream_with_the_text_so_far(tiny: ThreadedEngine) -> None:
    events: list[EngineEvent] = []
    async with aclosing(tiny.generate(ask("g", "hello", None))) as batches:
        async for batch in batches:
            if not isinstance(batch[0], GenerationStarted):
                assert tiny.abort("g") or isinstance(batch[-1], GenerationFinished)
            events += batch
    texts = [event for event in events if isinstance(event, TextDelta)]
    assert texts
    assert events[-1] == GenerationFinished("abort", texts[-1].num_tokens)
    assert not tiny.abort("g")
    tiny.stop()


async def test_output_is_clamped_to_the_context(tiny_folder: Path) -> None:
    tiny = make_engine(ModelFiles(tiny_folder, "float32", 40), EngineSettings("tiny"))
    answer = await generate(tiny, ask("g", "hi", 2**63))
    assert answer.finished == GenerationFinished("length", 40 - answer.prompt_tokens)
    tiny.stop()


@pytest.mark.parametrize(
    ("text", "error"),
    [("x" * 5000, ContextLengthError), ("refuse me", ChatTemplateError)],
)
async def test_a_request_that_cannot_run_is_refused_before_its_first_event(
    tiny: ThreadedEngine, text: str, error: type[Exception]
) -> None:
    with pytest.raises(error):
        await anext(tiny.generate(ask("g", text)))
    assert tiny.stats().admitted == 0
    assert (await generate(tiny, ask("g", "fine"))).text
    tiny.stop()


async def test_beyond_running_and_waiting_the_queue_is_full(tiny: ThreadedEngine) -> None:
    streams = [tiny.generate(ask(str(i), "hello", None)) for i in range(4)]
    for stream in streams[:3]:
        assert isinstance((await anext(stream))[0], GenerationStarted)
    with pytest.raises(QueueFullError):
        await anext(streams[3])
    await streams[0].aclose()
    assert (await generate(tiny, ask("next", "hello", 1))).finished.reason == "length"
    for stream in streams:
        await stream.aclose()
    tiny.stop()


async def test_a_generation_that_takes_too_long_fails_and_frees_its_place(
    tiny_folder: Path,
) -> None:
    settings = EngineSettings("tiny", max_running=1, max_waiting=2, max_request_s=0.5)
    tiny = make_engine(ModelFiles(tiny_folder, "float32"), settings)
    asked = [ask(str(i), "hello", None) for i in range(3)]
    ended = await asyncio.gather(*(generate(tiny, one) for one in asked), return_exceptions=True)
    assert [type(error) for error in ended] == [DeadlineError] * 3
    assert (await generate(tiny, ask("next", "hello", 1))).finished.reason == "length"
    assert tiny.stats().failed == 3
    tiny.stop()


async def test_a_bias_for_a_token_that_does_not_exist_is_refused(tiny: ThreadedEngine) -> None:
    for token_id in (VOCAB_SIZE, 999_999_999):
        biased = SamplingParams(logit_bias=((token_id, 1.0),))
        with pytest.raises(LogitBiasError, match=str(token_id)):
            await anext(tiny.generate(ask("g", "hello", 1, biased)))
    assert tiny.stats().admitted == 0
    tiny.stop()


async def test_refused_requests_are_counted(tiny: ThreadedEngine) -> None:
    streams = [tiny.generate(ask(str(i), "hello", None)) for i in range(3)]
    for stream in streams:
        await anext(stream)
    for _ in range(2):
        with pytest.raises(QueueFullError):
            await anext(tiny.generate(ask("more", "hello", None)))
    assert tiny.stats().refused == 2
    for stream in streams:
        await stream.aclose()
    tiny.stop()


async def test_texts_of_quick_steps_are_handed_over_together(tiny: ThreadedEngine) -> None:
    never_ends = SamplingParams(0.0, logit_bias=((EOS_ID, -100.0),))
    texts = []
    async with aclosing(tiny.generate(ask("g", "hello", 1000, never_ends))) as batches:
        async for batch in batches:
            texts += [event for event in batch if isinstance(event, TextDelta)]
    assert texts[0].num_tokens <= 4  # the first went at once
    assert texts[-1].num_tokens == 1000
    assert len(texts) < 500
    tiny.stop()


async def test_what_is_decoded_does_not_wait_for_the_prompt_that_comes_after_it(
    tiny_folder: Path,
) -> None:
    engine, model = make_breakable(tiny_folder)
    never_ends = SamplingParams(0.0, logit_bias=((EOS_ID, -100.0),))
    async with aclosing(engine.generate(ask("running", "hello", None, never_ends))) as batches:
        await anext(batches)
        await anext(batches)
        model.is_released.clear()  # the next prompt is held in its first forward pass
        arriving = asyncio.create_task(generate(engine, ask("arriving", "hello", 1)))
        assert await asyncio.to_thread(model.is_waiting.wait, 30)
        num_read = 0
        async with asyncio.timeout(10):
            while num_read < engine.stats().output_tokens:
                events = await anext(batches)
                num_read = events[-1].num_tokens if isinstance(events[-1], TextDelta) else 0
        model.is_released.set()
        await arriving
    engine.stop()


async def test_special_tokens_give_no_text(tiny: ThreadedEngine) -> None:
    answer = await generate(tiny, ask("g", "hello", 400, SamplingParams(2.0)))
    assert "<|" not in answer.text
    tiny.stop()


class BrokenModel:
    """Wraps a model; `failures` says what its next forward passes raise.

    Prompts wait in it until `is_released` is set, as it is at first; then `is_waiting` is set.
    """

    def __init__(self, model: object) -> None:
        self._model = model
        self.failures: list[BaseException] = []
        self.is_released, self.is_waiting = threading.Event(), threading.Event()
        self.is_released.set()

    def __call__(self, *args: Any, **kwargs: object) -> object:
        if self.failures:
            raise self.failures.pop()
        if args[0].shape[1] > 1 and not self.is_released.is_set():
            self.is_waiting.set()
            self.is_released.wait(30)
        return self._model(*args, **kwargs)  # type: ignore[operator]

    def __getattr__(self, name: str) -> object:
        return getattr(self._model, name)


def make_breakable(folder: Path) -> tuple[ThreadedEngine, BrokenModel]:
    broken: list[BrokenModel] = []

    def make_broken_core(model: LoadedModel, max_running: int) -> EngineCore:
        broken.append(BrokenModel(model.model))
        scheduler = Scheduler(max_running, 128, lambda rows, longest: 0, 0)
        return EngineCore(
            partial(Runner, broken[0], 128), scheduler, model.stop_ids, time.monotonic
        )

    load = partial(load_files, ModelFiles(folder, "float32"))
    return ThreadedEngine(EngineSettings("tiny"), load, make_broken_core), broken[0]


async def test_a_step_that_fails_ends_its_generation_and_the_next_succeeds(
    tiny_folder: Path,
) -> None:
    engine, model = make_breakable(tiny_folder)
    solo = await generate(engine, ask("g", "hello"))
    model.failures = [RuntimeError("out of memory")]
    with pytest.raises(GenerationFailedError):
        await generate(engine, ask("g", "hello"))
    assert await generate(engine, ask("g", "hello")) == solo
    assert engine.stats().failed == 1
    engine.stop()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
async def test_a_thread_that_dies_ends_all_streams_and_says_so(tiny_folder: Path) -> None:
    engine, model = make_breakable(tiny_folder)
    stream = engine.generate(ask("g", "hello", None))
    await anext(stream)
    model.failures = [SystemExit()]
    with pytest.raises(EngineStoppedError):
        async for _ in stream:
            pass
    assert not engine.stats().is_alive
    with pytest.raises(EngineStoppedError):
        await generate(engine, ask("g", "hello"))
    engine.stop()


def test_a_model_that_cannot_be_loaded_says_why(tmp_path: Path, tiny_folder: Path) -> None:
    settings = EngineSettings("tiny")
    with pytest.raises(ModelLoadError, match=str(tmp_path)):
        make_engine(ModelFiles(tmp_path, "float32"), settings)
    with pytest.raises(ModelLoadError, match="4097 is more than the 4096"):
        make_engine(ModelFiles(tiny_folder, "float32", 4097), settings)
    for template in ("{% if %}", ""):
        with pytest.raises(ModelLoadError, match="chat template"):
            make_engine(ModelFiles(tiny_folder, "float32", None, template), settings)


def test_code_in_a_models_folder_is_never_run(tmp_path: Path) -> None:
    folder = save_tiny_model(tmp_path)
    (folder / "config.json").write_text(json.dumps({**CONFIG, "model_file": "evil.py"}))
    (folder / "evil.py").write_text("raise SystemExit('code of the model ran')")
    with pytest.raises(ModelLoadError, match=r"evil\.py"):
        make_engine(ModelFiles(folder, "float32"), EngineSettings("tiny"))


async def test_a_model_without_a_template_refuses_messages(tmp_path: Path) -> None:
    folder = save_tiny_model(tmp_path, template=None)
    engine = make_engine(ModelFiles(folder, "float32"), EngineSettings("tiny"))
    assert not engine.card().has_chat_template
    with pytest.raises(NoChatTemplateError):
        await generate(engine, ask("g", "hello"))
    engine.stop()


async def test_a_prompt_of_megabytes_is_refused_without_being_tokenized(
    tiny: ThreadedEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tiny._model.tokenizer, "encode", None)
    with pytest.raises(ContextLengthError):
        await anext(tiny.generate(ask("g", "word " * 1_000_000)))
    tiny.stop()


async def test_an_abort_before_the_prompt_is_tokenized_holds(tiny: ThreadedEngine) -> None:
    stream = tiny.generate(ask("g", "hello", None))
    first = asyncio.ensure_future(anext(stream))
    await asyncio.sleep(0)  # now it waits for its tokens
    assert tiny.abort("g")
    started, finished = await first
    assert isinstance(started, GenerationStarted)
    assert finished == GenerationFinished("abort", 0)
    assert [batch async for batch in stream] == []
    assert tiny.stats().admitted == 0
    tiny.stop()
