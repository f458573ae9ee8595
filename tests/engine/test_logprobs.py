"""Log probabilities as the default model's engine hands them out: whole, in order, its own."""

import asyncio
import math
from contextlib import aclosing
from dataclasses import replace

import pytest

from engine.engine import ThreadedEngine
from engine.types import GenerateRequest, SampledLogprob, SamplingParams, TextDelta
from tests.support.generating import GREEDY, Generated, ask, generate

QUESTION = "Say hello in three languages, and draw a face: 🙂 ¿é?"
EMOJI = "🎨🙂é" * 6


def continue_emoji(name: str, max_tokens: int = 24, **more: object) -> GenerateRequest:
    """A raw prompt that is continued by characters of several tokens each."""
    return replace(ask(name, "", max_tokens, top_logprobs=2), prompt=EMOJI, **more)  # type: ignore[arg-type]


def values(logprobs: tuple[SampledLogprob, ...]) -> list[float]:
    return [one.logprob for each in logprobs for one in (each.sampled, *each.top)]


@pytest.mark.parametrize("num_top", [0, 1, 5, 20])
async def test_the_greedy_token_is_the_first_of_as_many_as_were_asked_for(
    smollm2: ThreadedEngine, num_top: int
) -> None:
    answer = await generate(smollm2, ask("g", QUESTION, top_logprobs=num_top))
    assert [len(each.top) for each in answer.logprobs] == [num_top] * len(answer.logprobs)
    assert all(each.top[0] == each.sampled for each in answer.logprobs if num_top)
    for each in answer.logprobs:
        ranked = [one.logprob for one in each.top]
        assert ranked == sorted(ranked, reverse=True)
        assert len(set(each.top)) == num_top


@pytest.mark.parametrize(
    "sampling",
    [
        SamplingParams(0.0, logit_bias=((28, -100.0), (30, 100.0))),
        SamplingParams(0.0, presence_penalty=2.0, frequency_penalty=2.0, repetition_penalty=1.8),
        SamplingParams(1.9, seed=3),
        SamplingParams(1.0, 0.1, top_k=3, seed=4),
    ],
    ids=repr,
)
async def test_what_changes_the_choice_does_not_change_how_likely_it_was(
    smollm2: ThreadedEngine, sampling: SamplingParams
) -> None:
    answer = await generate(smollm2, ask("g", QUESTION, 16, sampling, top_logprobs=20))
    plain = await generate(smollm2, ask("g", QUESTION, 1, top_logprobs=20))
    assert values(answer.logprobs[:1])[1:] == pytest.approx(values(plain.logprobs)[1:], abs=1e-4)
    for each in answer.logprobs:
        assert each.sampled in each.top or each.sampled.logprob <= each.top[-1].logprob
        assert math.fsum(math.exp(one.logprob) for one in each.top) <= 1 + 1e-5


async def test_every_value_is_a_number_even_of_tokens_that_are_all_but_impossible(
    smollm2: ThreadedEngine,
) -> None:
    forced = SamplingParams(0.0, logit_bias=((40_000, 1000.0),))
    answer = await generate(smollm2, ask("g", QUESTION, 8, forced, top_logprobs=20))
    assert all(math.isfinite(value) and value <= 0 for value in values(answer.logprobs))
    assert answer.logprobs[0].sampled.logprob < -10


async def check_stream(engine: ThreadedEngine, request: GenerateRequest) -> Generated:
    """Read a generation; after each event the tokens so far must spell the text so far."""
    text, spelled = "", b""
    logprobs: list[SampledLogprob] = []
    async with aclosing(engine.generate(request)) as batches:
        async for batch in batches:
            for event in batch:
                if isinstance(event, TextDelta):
                    text += event.text
                    logprobs += event.logprobs
                    spelled = b"".join(each.sampled.token for each in logprobs)
                    assert spelled == text.encode()
                last = event
    assert spelled == text.encode()
    return Generated(text, last, 0, tuple(logprobs))  # type: ignore[arg-type]


async def test_tokens_spell_the_text_and_have_the_same_values_alone_and_in_company(
    smollm2: ThreadedEngine,
) -> None:
    wanted = [
        continue_emoji("emoji"),
        ask("plain", QUESTION, sampling=GREEDY, top_logprobs=5),
        ask("drawn", QUESTION, sampling=SamplingParams(0.7, seed=8), top_logprobs=0),
    ]
    alone = [await check_stream(smollm2, request) for request in wanted]
    silent = generate(smollm2, ask("silent", "Tell me a story.", 30))
    *together, _ = await asyncio.gather(
        *(check_stream(smollm2, request) for request in wanted), silent
    )
    for one, other in zip(alone, together, strict=True):
        assert (one.text, one.finished) == (other.text, other.finished)
        assert values(one.logprobs) == pytest.approx(values(other.logprobs), abs=1e-3)
    assert "🎨" in alone[0].text
    assert len(alone[0].logprobs) > len(alone[0].text)


async def test_a_stop_string_cuts_the_tokens_where_it_cuts_the_text(
    smollm2: ThreadedEngine,
) -> None:
    whole = await generate(smollm2, continue_emoji("whole"))
    cut = await generate(smollm2, continue_emoji("cut", stop=(whole.text[4:6],)))
    assert cut.text == whole.text[: whole.text.index(whole.text[4:6])]
    spelled = b"".join(each.sampled.token for each in cut.logprobs)
    assert cut.text.encode().startswith(spelled)
    assert cut.logprobs == whole.logprobs[: len(cut.logprobs)]


async def test_the_token_that_ends_a_text_is_not_told(smollm2: ThreadedEngine) -> None:
    answer = await generate(smollm2, ask("g", "Say hello.", 60, top_logprobs=1))
    assert answer.finished.reason == "stop"
    assert len(answer.logprobs) == answer.finished.output_tokens - 1
