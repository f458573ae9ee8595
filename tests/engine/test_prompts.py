"""Prompts over real models: raw texts, token ids, and counts that say what a generation reads."""

import asyncio
import os
import threading
from collections.abc import Iterator
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest
from tokenizers.processors import TemplateProcessing

from configs.paths import cache_folder
from engine.engine import EngineSettings, ThreadedEngine
from engine.errors import (
    ChatTemplateError,
    ContextLengthError,
    EngineStoppedError,
    NoChatTemplateError,
    QueueFullError,
    RequestError,
    UnknownTokenError,
)
from engine.factory import ModelFiles, make_engine
from engine.loader import find_begin_id
from engine.turns import TemplateTraits
from engine.types import ChatMessage, GenerateRequest, GenerationStarted, Media, ToolCall
from tests.engine.gguf_fixtures import resolve
from tests.support.fetch_test_models import MODELS, fetch
from tests.support.generating import GREEDY, ask, generate
from tests.support.tiny_model import EOS_ID, VOCAB_SIZE, make_tokenizer, save_tiny_model

# What transformers' own reader of GGUF files gives for these texts, recorded once.
STORY, SPECIAL = "Once upon a time", "a<|endoftext|>b  c\n"
PROMPTS = {
    "smollm2-135m": {STORY: [6403, 1980, 253, 655], SPECIAL: [81, 0, 82, 216, 265, 198]},
    "qwen2.5-coder-0.5b": {
        STORY: [12522, 5193, 264, 882],
        SPECIAL: [64, 151643, 65, 220, 272, 198],
    },
    "gemma-3-270m": {
        STORY: [2, 14946, 3324, 496, 990],
        SPECIAL: [
            *[2, 236746, 236820, 236909, 643, 1340, 1005, 111038, 236763, 138, 236755, 107],
        ],
    },
}
# ChatML's first marker, the end of the text before, and BOS.
BEGIN_IDS = {"smollm2-135m": 1, "qwen2.5-coder-0.5b": 151643, "gemma-3-270m": 2}
CONTEXT = 200
TURN_ID = 256  # <|turn|> of the tiny model


def ask_raw(prompt: str | tuple[int, ...], max_tokens: int | None = 8) -> GenerateRequest:
    return GenerateRequest("raw", (), GREEDY, max_tokens, prompt=prompt)


def chat(*messages: ChatMessage) -> GenerateRequest:
    return GenerateRequest("chat", messages, GREEDY, 4)


@pytest.fixture(scope="module")
def tiny(tiny_folder: Path) -> Iterator[ThreadedEngine]:
    settings = EngineSettings("tiny", max_running=1, max_waiting=2)
    engine = make_engine(ModelFiles(tiny_folder, "float32", CONTEXT), settings)
    yield engine
    engine.stop()


@pytest.fixture(scope="module", params=list(MODELS))
def real(request: pytest.FixtureRequest) -> Iterator[tuple[str, ThreadedEngine]]:
    """A published model: its name, and an engine over what was made of its GGUF file."""
    cache = cache_folder(os.environ)
    name: str = request.param
    folder = resolve(fetch(name, cache / "test-models"), cache)
    engine = make_engine(ModelFiles(folder, "float32", 256), EngineSettings(name))
    yield name, engine
    engine.stop()


async def test_a_raw_text_has_the_tokens_that_transformers_gives_it(
    real: tuple[str, ThreadedEngine],
) -> None:
    name, engine = real
    for text, prompt in PROMPTS[name].items():
        assert engine._admission.tokenize(ask_raw(text)) == prompt
        assert await engine.count_tokens(ask_raw(text)) == len(prompt)
    as_ids = ask_raw(tuple(PROMPTS[name][STORY]), 2)
    assert await generate(engine, ask_raw(STORY, 2)) == await generate(engine, as_ids)


def test_the_templates_of_real_models_take_turns_wherever_they_stand(
    real: tuple[str, ThreadedEngine],
) -> None:
    name, engine = real
    template = engine._model.chat_template
    assert template.exists == (name != "gemma-3-270m")
    assert template.traits == TemplateTraits()


@pytest.mark.parametrize("prompt", ["", ()])
async def test_an_empty_prompt_is_continued_from_the_token_that_begins_a_text(
    real: tuple[str, ThreadedEngine], prompt: str | tuple[int, ...]
) -> None:
    name, engine = real
    assert await engine.count_tokens(ask_raw(prompt)) == 1
    begun = await generate(engine, ask_raw(prompt, 2))
    assert begun.prompt_tokens == 1
    assert begun == await generate(engine, ask_raw((BEGIN_IDS[name],), 2))


async def test_a_raw_text_is_continued_and_not_answered(smollm2: ThreadedEngine) -> None:
    continued = await generate(smollm2, ask_raw("The capital of France is", 2))
    assert continued.text == " Paris."
    assert not (await generate(smollm2, ask("chat", "The capital of France is"))).text[0].isspace()


async def test_a_prompt_of_one_token_answers_as_in_a_batch(tiny: ThreadedEngine) -> None:
    alone = await generate(tiny, ask_raw((65,)))
    assert alone.prompt_tokens == 1
    other = GenerateRequest("other", (), GREEDY, 8, prompt=(66, 67, 68))
    together, _ = await asyncio.gather(generate(tiny, ask_raw((65,))), generate(tiny, other))
    assert together == alone


async def test_a_model_without_a_template_continues_texts(tmp_path: Path) -> None:
    folder = save_tiny_model(tmp_path, template=None)
    engine = make_engine(ModelFiles(folder, "float32"), EngineSettings("tiny"))
    assert (await generate(engine, ask_raw("hello"))).prompt_tokens == 5
    with pytest.raises(NoChatTemplateError):
        await engine.count_tokens(ask("g", "hello"))
    engine.stop()


async def test_special_tokens_that_a_hub_tokenizer_adds_are_added(tmp_path: Path) -> None:
    folder = save_tiny_model(tmp_path)
    tokenizer = make_tokenizer(None)
    tokenizer.backend_tokenizer.post_processor = TemplateProcessing(
        single=["<|turn|>", "$A"], special_tokens=[("<|turn|>", TURN_ID)]
    )
    tokenizer.save_pretrained(folder)
    engine = make_engine(ModelFiles(folder, "float32"), EngineSettings("tiny"))
    added = await generate(engine, ask_raw("AB"))
    a, b = engine._model.tokenizer.encode("AB", add_special_tokens=False)
    assert added.prompt_tokens == 3
    assert added == await generate(engine, ask_raw((TURN_ID, a, b)))
    engine.stop()


@pytest.mark.parametrize(
    ("prompt", "error"),
    [
        ((VOCAB_SIZE,), UnknownTokenError),
        ((0, -1), UnknownTokenError),
        ((2**63, 1), UnknownTokenError),
        ((1,) * CONTEXT, ContextLengthError),
        ((VOCAB_SIZE,) * 1_000_000, ContextLengthError),
        ("x" * CONTEXT, ContextLengthError),
        ("x" * 10_000_000, ContextLengthError),
        ("\udcff", RequestError),
    ],
    ids=lambda value: str(value)[:20],
)
async def test_a_prompt_that_cannot_run_is_refused_and_the_engine_serves_on(
    tiny: ThreadedEngine, prompt: str | tuple[int, ...], error: type[RequestError]
) -> None:
    admitted = tiny.stats().admitted
    with pytest.raises(error):
        await anext(tiny.generate(ask_raw(prompt)))
    assert tiny.stats().admitted == admitted
    assert (await generate(tiny, ask_raw((1,) * (CONTEXT - 1)))).finished.output_tokens == 1


async def test_a_count_is_what_a_generation_of_the_same_request_reads(
    smollm2: ThreadedEngine,
) -> None:
    calls = (ToolCall("c1", "now", "{}"), ToolCall("c2", "then", "no JSON"))
    turns = [
        ChatMessage("system", "Be brief."),
        ChatMessage("user", ("Wie heißt", "das? 🎨")),
        ChatMessage("assistant", "So.", reasoning="hm", tool_calls=calls),
        ChatMessage("tool", "12:00", call_id="c1"),
        ChatMessage("system", "Be long."),
        ChatMessage("user", ""),
    ]
    requests = [chat(*turns[begin:end]) for begin in range(4) for end in range(begin + 1, 7)]
    for request in [*requests, ask_raw("Hello"), ask_raw(""), ask_raw((5, 6, 7))]:
        count = await smollm2.count_tokens(request)
        async with aclosing(smollm2.generate(request)) as batches:
            assert await anext(batches) == (GenerationStarted(count),)


async def test_to_count_runs_no_model(tiny: ThreadedEngine) -> None:
    before = tiny.stats()
    assert await tiny.count_tokens(ask_raw("hello")) == 5
    assert await tiny.count_tokens(ask("g", "hello")) > 5
    assert tiny.stats() == before


async def test_what_is_too_long_to_run_is_counted(tiny: ThreadedEngine) -> None:
    assert await tiny.count_tokens(ask_raw("x" * 500)) == 500
    assert await tiny.count_tokens(ask_raw((1,) * 100_000)) == 100_000
    with pytest.raises(ContextLengthError):
        await tiny.count_tokens(ask_raw("x" * 10_000_000))


@pytest.mark.parametrize(
    ("request_", "error"),
    [
        (ask_raw((VOCAB_SIZE,)), UnknownTokenError),
        (ask("g", "refuse me"), ChatTemplateError),
        (chat(), ChatTemplateError),
    ],
)
async def test_what_cannot_be_read_is_not_counted(
    tiny: ThreadedEngine, request_: GenerateRequest, error: type[RequestError]
) -> None:
    with pytest.raises(error):
        await tiny.count_tokens(request_)


async def test_media_that_no_model_takes_do_not_break_it(tiny: ThreadedEngine) -> None:
    picture = ChatMessage("user", ("a", Media("image", "b")))
    assert (await generate(tiny, chat(picture))).prompt_tokens == await tiny.count_tokens(
        chat(picture)
    )


async def test_a_flood_of_counting_finds_the_queue_full_and_leaves_it_free(
    tiny: ThreadedEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    is_released = threading.Event()
    monkeypatch.setattr(tiny._admission, "tokenize", lambda _: is_released.wait(30) and [1, 2])
    refused = tiny.stats().refused
    counts = [asyncio.create_task(tiny.count_tokens(ask_raw("x"))) for _ in range(3)]
    await asyncio.sleep(0)  # now all places are taken
    try:
        with pytest.raises(QueueFullError):
            await tiny.count_tokens(ask_raw("x"))
        with pytest.raises(QueueFullError):
            await anext(tiny.generate(ask_raw("x")))
        counts[2].cancel()
        await asyncio.wait(counts[2:])
    finally:
        is_released.set()
    assert await tiny.count_tokens(ask_raw("x")) == 2
    assert await asyncio.gather(*counts[:2]) == [2, 2]
    assert tiny.stats().refused == refused + 2
    assert tiny._num_counting == 0


async def test_an_engine_that_has_stopped_counts_nothing(tiny_folder: Path) -> None:
    engine = make_engine(ModelFiles(tiny_folder, "float32"), EngineSettings("tiny"))
    engine.stop()
    with pytest.raises(EngineStoppedError):
        await engine.count_tokens(ask_raw("hello"))


@pytest.mark.parametrize(
    ("config", "begin_id"),
    [
        ({}, EOS_ID),
        ({"bos_token_id": TURN_ID}, TURN_ID),
        ({"text_config": {"bos_token_id": TURN_ID}}, TURN_ID),
        ({"bos_token_id": VOCAB_SIZE}, EOS_ID),
        ({"bos_token_id": -1}, EOS_ID),
        ({"bos_token_id": [TURN_ID]}, EOS_ID),
    ],
)
def test_the_token_that_begins_a_text_is_one_that_the_model_has(
    config: dict[str, Any], begin_id: int
) -> None:
    assert find_begin_id(make_tokenizer(None), config, {EOS_ID}, VOCAB_SIZE) == begin_id


def test_a_model_without_any_such_token_has_none() -> None:
    tokenizer = make_tokenizer(None)
    tokenizer.eos_token = None
    assert find_begin_id(tokenizer, {}, set(), VOCAB_SIZE) is None
    assert find_begin_id(tokenizer, {}, {9, 7}, VOCAB_SIZE) == 7


def test_a_model_of_today_takes_neither_media_nor_tools_nor_grammars(tiny: ThreadedEngine) -> None:
    card = tiny.card()
    assert (card.media, card.takes_tools, card.can_constrain) == ((), False, False)
