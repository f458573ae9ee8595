"""A response that is asked for in one piece."""

from dataclasses import replace
from typing import Any

import pytest
from openai import BadRequestError, InternalServerError, NotFoundError, RateLimitError

from deployments.errors import UnavailableError
from engine.errors import (
    ContextLengthError,
    DeadlineError,
    GenerationFailedError,
    QueueFullError,
)
from engine.types import (
    ChatMessage,
    GenerateRequest,
    GenerationFinished,
    GenerationStarted,
    SamplingParams,
    TextDelta,
)
from stores.errors import StoreError
from tests.support.observed import ObservedStore
from tests.support.resources import CONTRACT_FIELDS, make_message, make_resource, make_usage
from tests.support.scripted import CARD, AwayEngine, ScriptedEngine, Step, saying
from tests.support.serving import playing, serving

ASK: dict[str, Any] = {"model": "scripted", "input": "Greet me."}
HELLO = make_resource(
    status="completed",
    completed_at=1_700_000_004,
    output=[make_message("Hello")],
    output_text="Hello",
    usage=make_usage(5, 2),
)


@pytest.mark.parametrize("prefix", ["", "/v1"])
async def test_a_response_comes_whole(prefix: str) -> None:
    async with serving(playing(*saying("Hel", "lo"))) as served:
        reply = await served.http.post(f"{prefix}/responses", json=ASK)
    assert (reply.status_code, reply.json()) == (200, HELLO)
    assert reply.headers["content-type"] == "application/json"
    assert reply.json().keys() == CONTRACT_FIELDS | {"output_text"}


async def test_openais_client_reads_it() -> None:
    async with serving(playing(*saying("Hel", "lo"))) as served:
        response = await served.openai.responses.create(**ASK)
    assert response.output_text == "Hello"
    assert response.to_dict() == HELLO


async def test_the_engine_is_asked_for_what_was_sent() -> None:
    engine = playing(*saying("La"))
    async with serving(engine) as served:
        response = await served.openai.responses.create(
            model="echo",
            input=[{"role": "user", "content": [{"type": "input_text", "text": "Hi"}]}],
            instructions="Sing.",
            temperature=0,
            max_output_tokens=3,
            metadata={"k": "v"},
        )
    messages = (ChatMessage("system", "Sing."), ChatMessage("user", "Hi"))
    assert engine.requests == [GenerateRequest("resp_1", messages, SamplingParams(0, 0.9), 3)]
    assert (response.model, response.instructions, response.temperature) == ("echo", "Sing.", 0)
    assert (response.max_output_tokens, response.metadata) == (3, {"k": "v"})


async def test_usage_counts_what_the_engine_counted() -> None:
    started, finished = GenerationStarted(12, cached_tokens=8), GenerationFinished("stop", 34)
    async with serving(playing(started, TextDelta("La", 3), finished)) as served:
        response = await served.openai.responses.create(**ASK)
    assert response.usage is not None
    assert response.usage.to_dict() == make_usage(12, 34, cached=8)


async def test_an_answer_cut_at_the_limit_is_incomplete() -> None:
    async with serving(playing(*saying("1, ", "2, ", reason="length"))) as served:
        reply = await served.http.post("/v1/responses", json={**ASK, "max_output_tokens": 2})
    assert reply.json() == make_resource(
        status="incomplete",
        incomplete_details={"reason": "max_output_tokens"},
        max_output_tokens=2,
        output=[make_message("1, 2, ", status="incomplete")],
        output_text="1, 2, ",
        usage=make_usage(5, 2),
    )


async def test_an_answer_without_a_character_is_an_empty_message() -> None:
    async with serving(playing(*saying())) as served:
        response = await served.openai.responses.create(**ASK)
    assert [item.to_dict() for item in response.output] == [make_message("")]


@pytest.mark.parametrize("is_streamed", [False, True])
async def test_what_has_no_effect_is_named_in_a_header(is_streamed: bool) -> None:
    sent = {
        "user": "me",
        "stream_options": {"include_obfuscation": False},
        "reasoning": {"effort": "low", "summary": None},
        "include": ["message.output_text.logprobs", "reasoning.encrypted_content"],
    }
    async with serving(playing(*saying("Hello"))) as served:
        body = {**ASK, **sent, "stream": is_streamed}
        reply = await served.http.post("/v1/responses", json=body)
    assert reply.headers["x-antiphon-ignored"] == (
        "stream_options, user, reasoning.effort, include.reasoning.encrypted_content"
    )


async def test_what_has_an_effect_or_is_kept_is_not_named() -> None:
    sent = {
        "metadata": {"k": "v"},
        "max_tool_calls": 3,
        "parallel_tool_calls": False,
        "include": ["message.output_text.logprobs"],
        "text": {"format": {"type": "text"}},
        "background": False,
        "truncation": "disabled",
        "colour": "red",
    }
    async with serving(playing(*saying("Hello"))) as served:
        reply = await served.http.post("/v1/responses", json={**ASK, **sent})
    assert reply.status_code == 200
    assert "x-antiphon-ignored" not in reply.headers


@pytest.mark.parametrize(
    ("sent", "asked"),
    [
        ({}, None),
        ({"include": None, "top_logprobs": None}, None),
        ({"include": []}, None),
        ({"top_logprobs": 0}, None),
        ({"top_logprobs": 1}, 1),
        ({"top_logprobs": 20}, 20),
        ({"include": ["message.output_text.logprobs"]}, 0),
        ({"include": ["message.output_text.logprobs"] * 2, "top_logprobs": 2}, 2),
        ({"include": ["reasoning.encrypted_content"]}, None),
    ],
)
async def test_log_probabilities_come_for_a_number_or_an_include(
    sent: dict[str, Any], asked: int | None
) -> None:
    engine = playing(*saying("Hello"))
    async with serving(engine) as served:
        reply = await served.http.post("/v1/responses", json={**ASK, **sent})
    assert [request.top_logprobs for request in engine.requests] == [asked]
    assert reply.json()["top_logprobs"] == (sent.get("top_logprobs") or 0)


async def test_a_response_repeats_what_was_sent_and_says_which_defaults_hold() -> None:
    echoed = {
        "instructions": "Sing.",
        "temperature": 0,
        "presence_penalty": 0.5,
        "frequency_penalty": -0.5,
        "max_output_tokens": 7,
        "max_tool_calls": 3,
        "metadata": {"k": "v"},
        "parallel_tool_calls": False,
        "prompt_cache_key": "key",
        "reasoning": {"effort": "HIGH ", "summary": "auto"},
        "safety_identifier": "safe",
        "service_tier": "flex",
        "store": False,
        "text": {"format": {"type": "json_object"}, "verbosity": "low"},
        "tool_choice": "none",
        "top_logprobs": 5,
        "user": "me",
    }
    async with serving(playing(*saying("Hello"))) as served:
        reply = await served.http.post("/v1/responses", json={**ASK, **echoed})
    body = reply.json()
    assert {key: body[key] for key in echoed} == echoed
    assert (body["top_p"], body["tools"], body["truncation"]) == (0.9, [], "disabled")
    assert (body["background"], body["previous_response_id"]) == (False, None)


async def test_the_models_own_limit_is_repeated_where_none_is_sent() -> None:
    engine = ScriptedEngine(lambda _: saying("Hello"), replace(CARD, default_max_tokens=300))
    async with serving(engine) as served:
        reply = await served.http.post("/v1/responses", json=ASK)
    assert reply.json()["max_output_tokens"] == 300


async def test_an_unknown_model_is_not_found() -> None:
    async with serving(playing()) as served:
        with pytest.raises(NotFoundError) as caught:
            await served.openai.responses.create(model="gpt-9", input="Hi")
    assert caught.value.body == {
        "message": "The model 'gpt-9' does not exist here.",
        "type": "not_found",
        "param": "model",
        "code": "model_not_found",
    }


@pytest.mark.parametrize("name", [" ", "\x00\n\x1b[0m", "../../etc", "scripted ", "é" * 256])
async def test_a_model_may_be_called_anything_and_not_be_there(name: str) -> None:
    async with serving(playing()) as served:
        reply = await served.http.post("/v1/responses", json={"model": name, "input": "Hi"})
    assert (reply.status_code, reply.json()["error"]["code"]) == (404, "model_not_found")


async def test_an_unknown_model_may_be_one_that_is_loading() -> None:
    loading = AwayEngine(lambda _: (), error=UnavailableError("The model is away."))
    async with serving(playing(), loading) as served:
        with pytest.raises(InternalServerError) as caught:
            await served.openai.responses.create(model="large", input="Hi")
    assert caught.value.body == {
        "message": "Not all models are loaded yet; this name may belong to one of them.",
        "type": "server_busy",
        "param": "model",
        "code": "model_loading",
    }
    assert (caught.value.status_code, caught.value.response.headers["retry-after"]) == (503, "2")


@pytest.mark.parametrize("is_streamed", [False, True])
async def test_a_full_queue_is_told_at_once_with_a_time_to_come_again(is_streamed: bool) -> None:
    async with serving(playing(QueueFullError(64))) as served:
        with pytest.raises(RateLimitError) as caught:
            await served.openai.responses.create(**ASK, stream=is_streamed)
    assert caught.value.body == {
        "message": QueueFullError(64).message,
        "type": "too_many_requests",
        "param": None,
        "code": "queue_full",
    }
    assert caught.value.response.headers["retry-after"] == "2"


@pytest.mark.parametrize("is_streamed", [False, True])
async def test_an_input_beyond_the_context_is_refused_before_any_stream(is_streamed: bool) -> None:
    async with serving(playing(ContextLengthError(1200, 1000))) as served:
        with pytest.raises(BadRequestError) as caught:
            await served.openai.responses.create(**ASK, stream=is_streamed)
    assert caught.value.body == {
        "message": ContextLengthError(1200, 1000).message,
        "type": "invalid_request_error",
        "param": "input",
        "code": "context_length_exceeded",
    }
    assert caught.value.response.headers["content-type"] == "application/json"


FAILURE: list[Step] = [
    GenerationStarted(5),
    TextDelta("Hel", 1),
    GenerationFailedError("The model ran out of memory."),
]


@pytest.mark.parametrize("route", ["responses", "chat/completions"])
async def test_what_took_too_long_is_not_begun_again_by_openais_client(route: str) -> None:
    engine = playing(GenerationStarted(5), DeadlineError(60.0))
    async with serving(engine) as served:
        patient = served.openai.with_options(max_retries=3)
        with pytest.raises(InternalServerError) as caught:
            if route == "responses":
                await patient.responses.create(**ASK)
            else:
                await patient.chat.completions.create(
                    model="scripted", messages=[{"role": "user", "content": "Hi"}]
                )
    assert (caught.value.status_code, caught.value.code) == (500, "deadline_exceeded")
    assert len(engine.requests) == 1


async def test_a_failure_is_an_error_and_the_record_of_it_is_kept() -> None:
    async with serving(playing(*FAILURE)) as served:
        with pytest.raises(InternalServerError) as caught:
            await served.openai.responses.create(**ASK)
        stored = await served.http.get("/v1/responses/resp_1")
    assert (caught.value.status_code, caught.value.body) == (
        500,
        {
            "message": "The model ran out of memory.",
            "type": "server_error",
            "param": None,
            "code": "server_error",
        },
    )
    assert stored.json() == make_resource(
        status="failed",
        error={"code": "server_error", "message": "The model ran out of memory."},
        output=[make_message("Hel", status="incomplete")],
        output_text="Hel",
        usage=make_usage(5, 1),
    )


async def test_a_response_that_cannot_be_stored_is_an_error() -> None:
    store = ObservedStore()
    store.records.broken = StoreError("the disk is full")
    async with serving(playing(*saying("Hello")), store=store) as served:
        with pytest.raises(InternalServerError) as caught:
            await served.openai.responses.create(**ASK)
    assert caught.value.body == {
        "message": "The response could not be stored.",
        "type": "server_error",
        "param": None,
        "code": "server_error",
    }


@pytest.mark.parametrize("script", [[], [ValueError("/home/me")]], ids=["nothing", "a fault"])
async def test_an_engine_that_breaks_its_contract_is_our_fault(script: list[Step]) -> None:
    async with serving(playing(*script)) as served:
        with pytest.raises(InternalServerError) as caught:
            await served.openai.responses.create(**ASK)
    assert (caught.value.status_code, caught.value.body) == (
        500,
        {
            "message": "The server had an internal error.",
            "type": "server_error",
            "param": None,
            "code": "server_error",
        },
    )
