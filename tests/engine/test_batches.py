"""What a generation gives is its own: neither its company nor a pause changes it."""

import asyncio
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path

import pytest

from engine.backend import mx, to_python
from engine.engine import EngineSettings, ThreadedEngine
from engine.errors import ContextLengthError, ModelLoadError
from engine.factory import ModelFiles, make_engine
from engine.types import GenerateRequest, SamplingParams
from tests.support.generating import Generated, ask, generate
from tests.support.tiny_model import EOS_ID

STORY = "Once upon a time there was a small fox who lived at the edge of a wide forest. "
LENGTHS = {"short": "Say hello.", "middle": STORY * 5, "long": STORY * 115}
PENALISED = SamplingParams(
    0.8, 0.9, 50, 0.01, presence_penalty=0.5, frequency_penalty=0.3, repetition_penalty=1.1, seed=9
)
SAMPLED = [
    SamplingParams(1.0, seed=1),
    SamplingParams(0.7, 0.9, seed=2),
    SamplingParams(1.5, 0.95, seed=5),
    SamplingParams(1.3, top_k=40, seed=3),
    SamplingParams(1.0, min_p=0.05, seed=4),
    SamplingParams(0.0),
]


async def run_together(engine: ThreadedEngine, *requests: GenerateRequest) -> list[Generated]:
    return await asyncio.gather(*(generate(engine, request) for request in requests))


async def test_prompts_of_10_100_and_2000_tokens_answer_as_alone_while_others_come_and_go(
    smollm2: ThreadedEngine,
) -> None:
    wanted = [ask(name, text, 32) for name, text in LENGTHS.items()]
    alone = [await generate(smollm2, request) for request in wanted]
    assert [one.prompt_tokens for one in alone] == pytest.approx([35, 120, 2100], rel=0.2)

    async def disturb() -> None:
        for number in range(4):
            left = smollm2.generate(ask(f"left{number}", LENGTHS["middle"], None))
            async with aclosing(left) as batches:
                await anext(batches)
                await anext(batches)
            await generate(smollm2, ask(f"brief{number}", LENGTHS["short"], 3))

    *together, _ = await asyncio.gather(*(generate(smollm2, one) for one in wanted), disturb())
    assert together == alone


async def test_a_seed_gives_the_same_text_alone_and_in_a_batch(smollm2: ThreadedEngine) -> None:
    wanted = [ask(str(i), LENGTHS["short"], 24, params) for i, params in enumerate(SAMPLED)]
    alone = [await generate(smollm2, request) for request in wanted]
    together = await run_together(smollm2, *wanted, *(ask(f"x{i}", STORY) for i in range(3)))
    assert together[: len(alone)] == alone
    assert len({one.text for one in alone}) == len(alone)


async def test_without_a_seed_every_run_is_another(smollm2: ThreadedEngine) -> None:
    wanted = [ask(str(i), LENGTHS["short"], 16, SamplingParams(1.5)) for i in range(3)]
    assert len({one.text for one in await run_together(smollm2, *wanted)}) == 3


async def test_log_probabilities_are_those_of_the_weights_whatever_is_sampled(
    smollm2: ThreadedEngine,
) -> None:
    plain = ask("plain", LENGTHS["short"], 12, top_logprobs=3)
    banned = SamplingParams(0.0, logit_bias=((28, -100.0),), frequency_penalty=1.0)
    results = await run_together(
        smollm2,
        plain,
        ask("hot", LENGTHS["short"], 12, SamplingParams(1.5, seed=1), top_logprobs=0),
        ask("biased", LENGTHS["short"], 12, banned, top_logprobs=20),
        ask("silent", LENGTHS["short"], 12),
    )
    greedy, hot, biased, silent = results
    assert silent.logprobs == ()
    assert [logprob.top for logprob in hot.logprobs] == [()] * len(hot.logprobs)
    assert all(len(logprob.top) == 20 for logprob in biased.logprobs)
    assert all(logprob.sampled == logprob.top[0] for logprob in greedy.logprobs)
    for one in (greedy, hot, biased):
        assert b"".join(logprob.sampled.token for logprob in one.logprobs).decode() == one.text
        assert measure(smollm2, one) == pytest.approx(
            [logprob.sampled.logprob for logprob in one.logprobs], abs=1e-3
        )


def measure(engine: ThreadedEngine, generated: Generated) -> list[float]:
    """The log probabilities of a generation's tokens in one forward pass over all of them."""
    model = engine._model
    text = model.chat_template.render(ask("", LENGTHS["short"]).messages)
    prompt = model.tokenizer.encode(text, add_special_tokens=False)
    to_id = {token: token_id for token_id, token in enumerate(model.vocabulary)}
    ids = [to_id[logprob.sampled.token] for logprob in generated.logprobs]
    with mx.stream(mx.cpu):
        logits = model.model(mx.array([prompt + ids]))[0, len(prompt) - 1 : -1]
        logprobs = logits - mx.logsumexp(logits, axis=-1, keepdims=True)
        rows = to_python(logprobs)
        return [row[token_id] for row, token_id in zip(rows, ids, strict=True)]


async def test_stop_strings_end_a_text_wherever_its_tokens_are_cut(
    smollm2: ThreadedEngine,
) -> None:
    whole = await generate(smollm2, ask("g", LENGTHS["middle"], 40))
    inside = whole.text[9:14]
    stopped, both = await run_together(
        smollm2,
        ask("g", LENGTHS["middle"], 40, stop=(inside,), top_logprobs=0),
        ask("h", LENGTHS["middle"], 40, stop=("never in it", whole.text[5:7])),
    )
    assert stopped.text == whole.text[: whole.text.index(inside)]
    assert both.text == whole.text[: whole.text.index(whole.text[5:7])]
    assert stopped.finished.reason == both.finished.reason == "stop"
    assert stopped.finished.output_tokens < whole.finished.output_tokens


async def test_what_memory_pushes_out_goes_on_later_as_if_nothing_had_been(
    tiny_folder: Path,
) -> None:
    settings = EngineSettings("tiny", max_running=4)
    roomy = make_engine(ModelFiles(tiny_folder, "float32", 700), settings)
    never_ends = ((EOS_ID, -100.0),)
    draws = [SamplingParams(1.0, seed=i) for i in range(3)] + [PENALISED]
    wanted = [
        ask(str(i), "hello " * i, 500, replace(draw, logit_bias=never_ends), top_logprobs=1)
        for i, draw in enumerate(draws)
    ]
    alone = [await generate(roomy, request) for request in wanted]
    bytes_of_one = roomy._model.cache_cost.batch_bytes(1, 700)
    roomy.stop()
    files = ModelFiles(tiny_folder, "float32", 700, kv_cache_bytes=2 * bytes_of_one)
    narrow = make_engine(files, settings)
    together = await run_together(narrow, *wanted)
    stats = narrow.stats()
    assert [one.text for one in together] == [one.text for one in alone]
    assert [one.finished for one in together] == [one.finished for one in alone]
    assert [len(one.logprobs) for one in together] == [len(one.logprobs) for one in alone]
    assert stats.preempted > 0
    assert (stats.running, stats.cache_bytes, stats.failed) == (0, 0, 0)
    narrow.stop()


async def test_memory_for_caches_bounds_the_context(tiny_folder: Path) -> None:
    roomy = make_engine(ModelFiles(tiny_folder, "float32"), EngineSettings("tiny"))
    bytes_of_512 = roomy._model.cache_cost.batch_bytes(1, 512)
    roomy.stop()
    files = ModelFiles(tiny_folder, "float32", kv_cache_bytes=bytes_of_512)
    narrow = make_engine(files, EngineSettings("tiny"))
    assert narrow.card().context_length == 512
    with pytest.raises(ContextLengthError) as caught:
        await generate(narrow, ask("g", "hello " * 200))
    assert "kv_cache_bytes" in caught.value.message
    assert narrow.stats().admitted == 0
    narrow.stop()
    with pytest.raises(ModelLoadError, match="kv_cache_bytes"):
        make_engine(ModelFiles(tiny_folder, "float32", kv_cache_bytes=1000), EngineSettings("tiny"))
