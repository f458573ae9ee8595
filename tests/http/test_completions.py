"""A raw prompt that is continued, in one piece and as a stream."""

from typing import Any

import pytest
from openai import APIError

from engine.errors import GenerationFailedError
from engine.types import GenerateRequest, GenerationStarted, SamplingParams, TextDelta
from tests.golden.chat.cases import COMPLETION_CASES
from tests.support.bad_chat_requests import GOOD_COMPLETION
from tests.support.chat_oracles import check_body
from tests.support.scripted import saying
from tests.support.serving import playing, serving

PATH = "/v1/completions"
HELLO = {
    "id": "cmpl_1",
    "object": "text_completion",
    "created": 1_700_000_000,
    "model": "scripted",
    "choices": [{"index": 0, "text": "Hello", "logprobs": None, "finish_reason": "stop"}],
    "usage": {
        "prompt_tokens": 5,
        "completion_tokens": 2,
        "total_tokens": 7,
        "prompt_tokens_details": {"cached_tokens": 0},
        "completion_tokens_details": {"reasoning_tokens": 0},
    },
}


@pytest.mark.parametrize("path", [PATH, "/completions"])
async def test_a_completion_comes_whole(path: str) -> None:
    async with serving(playing(*saying("Hel", "lo"))) as served:
        reply = await served.http.post(path, json=GOOD_COMPLETION)
    assert (reply.status_code, reply.json()) == (200, HELLO)
    check_body(reply.json())


async def test_openais_client_reads_it_whole_and_streamed() -> None:
    async with serving(playing(*saying("Hel", "lo"))) as served:
        completion = await served.openai.completions.create(**GOOD_COMPLETION)
        stream = await served.openai.completions.create(**GOOD_COMPLETION, stream=True)
        chunks = [chunk async for chunk in stream]
    assert completion.to_dict() == HELLO
    assert [chunk.choices[0].text for chunk in chunks] == ["Hel", "lo", ""]
    assert [chunk.choices[0].finish_reason for chunk in chunks] == [None, None, "stop"]


@pytest.mark.parametrize(
    ("sent", "prompt"),
    [
        ("Hi", "Hi"),
        (" Hi\n", " Hi\n"),
        ("", ""),
        (None, ""),
        (["Hi"], "Hi"),
        ([""], ""),
        ([1, 2], (1, 2)),
        ([[1, 2]], (1, 2)),
        ([], ()),
        ([[]], ()),
    ],
)
async def test_a_prompt_reaches_the_engine_as_it_is(sent: Any, prompt: Any) -> None:
    engine = playing(*saying("Hello"))
    async with serving(engine) as served:
        reply = await served.http.post(PATH, json={**GOOD_COMPLETION, "prompt": sent})
    assert reply.status_code == 200
    (asked,) = engine.requests
    assert asked == GenerateRequest("cmpl_1", (), SamplingParams(0.7, 0.9), prompt=prompt)


async def test_the_engine_is_asked_for_what_was_sent() -> None:
    engine = playing(*saying("Hello"))
    async with serving(engine) as served:
        await served.openai.completions.create(
            model="echo",
            prompt="Hi",
            max_tokens=3,
            temperature=0,
            top_p=1,
            seed=7,
            stop="a",
            logprobs=0,
            n=1,
            best_of=1,
            echo=False,
            suffix=None,
        )
    assert engine.requests == [
        GenerateRequest(
            "cmpl_1",
            (),
            SamplingParams(0, 1, seed=7),
            max_tokens=3,
            stop=("a",),
            top_logprobs=0,
            prompt="Hi",
        )
    ]


async def test_log_probabilities_are_four_lists_of_one_length() -> None:
    request, script = COMPLETION_CASES["completion_logprobs"]
    async with serving(playing(*script)) as served:
        completion = await served.openai.completions.create(model="scripted", **request)
    logprobs = completion.choices[0].logprobs
    assert logprobs is not None
    assert logprobs.to_dict() == {
        "tokens": ["Hi", "bytes:\\xf0\\x9f", "bytes:\\x92\\x9b", "!"],
        "token_logprobs": [-0.5, -1.0, -0.0, -2.5],
        "top_logprobs": [
            {"Hi": -0.5, "Yo": -1.25},
            {" ": -0.75, "bytes:\\xf0\\x9f": -1.0},
            {"bytes:\\x92\\x9b": -0.0, "bytes:\\xff": -9.0},
            {".": -0.25, "?": -1.5, "!": -2.5},
        ],
        "text_offset": [0, 2, 2, 3],
    }


async def test_what_has_no_effect_is_named_in_a_header() -> None:
    sent = {"user": "me", "stream_options": {"include_usage": True}}
    async with serving(playing(*saying("Hello"))) as served:
        reply = await served.http.post(PATH, json={**GOOD_COMPLETION, **sent})
    assert reply.headers["x-antiphon-ignored"] == "user, stream_options"


async def test_a_failure_after_the_first_byte_reaches_openais_client_as_an_error() -> None:
    failure = GenerationFailedError("The model ran out of memory.")
    async with serving(playing(GenerationStarted(5), TextDelta("1", 1), failure)) as served:
        stream = await served.openai.completions.create(**GOOD_COMPLETION, stream=True)
        with pytest.raises(APIError, match="ran out of memory"):
            _ = [chunk async for chunk in stream]


async def test_nothing_of_a_completion_is_kept() -> None:
    async with serving(playing(*saying("Hello"))) as served:
        completion = await served.openai.completions.create(**GOOD_COMPLETION)
        reply = await served.http.get(f"/v1/responses/{completion.id}")
    assert reply.status_code == 404
