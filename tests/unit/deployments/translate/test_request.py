"""A request becomes what the engine is asked and what the response repeats."""

from dataclasses import replace
from typing import Any

import pytest

from deployments.errors import InvalidRequestError
from deployments.resource.response import RequestEcho
from deployments.translate import request as translate
from deployments.translate.request import list_powerless, to_echo
from deployments.translate.response_input import to_response_input
from deployments.wire.parse import parse_model
from deployments.wire.responses_request import CreateResponse
from engine.types import (
    ChatMessage,
    FunctionTool,
    GenerateRequest,
    JsonFormat,
    ModelCard,
    SamplingParams,
    ToolCall,
)
from stores.types import History
from tests.support.scripted import CARD

LIMITED = replace(CARD, default_max_tokens=300)


def request(**fields: Any) -> CreateResponse:
    return parse_model(CreateResponse, {"model": "scripted", **fields})


def to_generate_request(
    wanted: CreateResponse, card: ModelCard, generation_id: str
) -> GenerateRequest:
    given = to_response_input(wanted, History())
    return translate.to_generate_request(wanted, given, card, generation_id)


def to_messages(wanted: CreateResponse, card: ModelCard) -> tuple[ChatMessage, ...]:
    return to_generate_request(wanted, card, "resp_1").messages


def test_a_text_is_a_turn_of_the_user_with_the_models_defaults() -> None:
    assert to_generate_request(request(input="Hi"), CARD, "resp_1") == GenerateRequest(
        "resp_1", (ChatMessage("user", "Hi"),), SamplingParams(0.7, 0.9), max_tokens=None
    )


def test_penalties_are_repeated_as_they_hold() -> None:
    card = replace(CARD, default_sampling=SamplingParams(presence_penalty=0.5))
    echo = to_echo(request(input="Hi", frequency_penalty=-1), card, is_stored=True)
    assert (echo.presence_penalty, echo.frequency_penalty) == (0.5, -1)


@pytest.mark.parametrize(
    ("sent", "limit"), [(None, 300), (1, 1), (301, 301), (2**53 - 1, 2**53 - 1)]
)
def test_the_most_tokens_are_the_requests_else_the_models(sent: int | None, limit: int) -> None:
    wanted = request(input="Hi", max_output_tokens=sent)
    assert to_generate_request(wanted, LIMITED, "resp_1").max_tokens == limit
    assert to_echo(wanted, LIMITED, is_stored=True).max_output_tokens == limit


def test_instructions_come_first() -> None:
    items = [{"role": "system", "content": "Rhyme."}, {"role": "user", "content": "Hi"}]
    assert to_messages(request(instructions="Sing.", input=items), CARD) == (
        ChatMessage("system", "Sing."),
        ChatMessage("system", "Rhyme."),
        ChatMessage("user", "Hi"),
    )


def test_all_that_a_request_asks_reaches_the_engine() -> None:
    sent = request(
        input="Hi",
        temperature=0,
        max_output_tokens=7,
        stop="end",
        top_logprobs=2,
        tools=[{"type": "function", "name": "f", "strict": True}],
        max_tool_calls=3,
        text={"format": {"type": "json_object"}},
    )
    assert to_generate_request(sent, CARD, "resp_1") == GenerateRequest(
        "resp_1",
        (ChatMessage("user", "Hi"),),
        SamplingParams(0, 0.9),
        max_tokens=7,
        stop=("end",),
        top_logprobs=2,
        tools=(FunctionTool("f", is_strict=True),),
        tool_choice="auto",
        max_tool_calls=3,
        output_format=JsonFormat(),
    )


@pytest.mark.parametrize(
    ("more", "powerless"),
    [
        ({}, ["tools"]),
        ({"parallel_tool_calls": True}, ["tools"]),
        ({"parallel_tool_calls": False}, ["tools", "parallel_tool_calls"]),
        ({"max_tool_calls": 2}, ["tools", "max_tool_calls"]),
    ],
)
def test_tools_and_their_bounds_have_no_effect_where_the_model_takes_none(
    more: dict[str, Any], powerless: list[str]
) -> None:
    sent = request(tools=[{"type": "function", "name": "f"}], **more)
    assert list_powerless(sent, replace(CARD, takes_tools=False)) == powerless
    assert list_powerless(sent, CARD) == []
    assert list_powerless(request(tools=[], **more), replace(CARD, takes_tools=False)) == []


@pytest.mark.parametrize("instructions", [None, ""])
def test_without_instructions_nothing_comes_first(instructions: str | None) -> None:
    assert to_messages(request(instructions=instructions, input="Hi"), CARD) == (
        ChatMessage("user", "Hi"),
    )


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"input": None},
        {"input": ""},
        {"input": " \n\t\u3000"},
        {"input": []},
        {"input": [{"role": "user", "content": ""}]},
        {"input": [{"role": "user", "content": []}, {"role": "system", "content": " "}]},
        {"input": [{"role": "user", "content": [{"type": "input_text", "text": "\n"}]}]},
        {"input": " ", "instructions": " "},
        {"input": [{"type": "reasoning", "content": [], "summary": []}]},
        {"input": [{"type": "function_call_output", "call_id": "c", "output": ""}]},
    ],
    ids=str,
)
def test_a_request_that_says_nothing_is_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequestError) as caught:
        to_generate_request(request(**fields), CARD, "resp_1")
    assert vars(caught.value) == {
        "message": "The request has no effective input: give 'input' or 'instructions' some text.",
        "param": "input",
        "code": "missing_required_parameter",
    }


@pytest.mark.parametrize(
    ("fields", "messages"),
    [
        ({"instructions": "Sing."}, [ChatMessage("system", "Sing.")]),
        (
            {"instructions": "Sing.", "input": " "},
            [ChatMessage("system", "Sing."), ChatMessage("user", " ")],
        ),
        (
            {"input": [{"role": "assistant", "content": "Hi"}]},
            [ChatMessage("assistant", "Hi")],
        ),
        (
            {"input": [{"type": "function_call_output", "call_id": "c", "output": "ok"}]},
            [ChatMessage("tool", "ok", call_id="c")],
        ),
        (
            {"input": [{"type": "function_call", "call_id": "c", "name": "f", "arguments": ""}]},
            [ChatMessage("assistant", "", tool_calls=(ToolCall("c", "f", ""),))],
        ),
        (
            {"input": [{"type": "reasoning", "summary": [{"type": "summary_text", "text": "a"}]}]},
            [ChatMessage("assistant", "", "a")],
        ),
    ],
    ids=str,
)
def test_one_word_anywhere_is_an_input(fields: dict[str, Any], messages: list[ChatMessage]) -> None:
    asked = to_generate_request(request(**fields), CARD, "resp_1")
    assert asked.messages == tuple(messages)


def test_a_response_repeats_the_defaults_in_force() -> None:
    assert to_echo(request(input="Hi"), CARD, is_stored=True) == RequestEcho(
        temperature=0.7,
        top_p=0.9,
        is_stored=True,
        instructions=None,
        max_output_tokens=None,
        max_tool_calls=None,
        metadata=None,
        parallel_tool_calls=True,
        prompt_cache_key=None,
        reasoning=None,
        safety_identifier=None,
        service_tier="default",
        tool_choice="auto",
        user=None,
        verbosity=None,
    )


def test_a_response_repeats_what_was_sent() -> None:
    sent = request(
        input="Hi",
        instructions="Sing.",
        temperature=0.0,
        top_p=1.0,
        max_output_tokens=7,
        max_tool_calls=3,
        metadata={"k": "v"},
        parallel_tool_calls=False,
        prompt_cache_key="key",
        reasoning={"effort": "low"},
        safety_identifier="safe",
        service_tier="flex",
        store=True,
        text={"format": {"type": "json_object"}, "verbosity": "low"},
        tool_choice={"type": "function", "function": {"name": "f"}},
        tools=[{"type": "function", "function": {"name": "f", "parameters": {"z": 1, "a": 1.0}}}],
        top_logprobs=4,
        user="me",
    )
    assert to_echo(sent, CARD, is_stored=False) == RequestEcho(
        temperature=0.0,
        top_p=1.0,
        is_stored=False,
        instructions="Sing.",
        max_output_tokens=7,
        max_tool_calls=3,
        metadata={"k": "v"},
        parallel_tool_calls=False,
        prompt_cache_key="key",
        reasoning={"effort": "low", "summary": None},
        safety_identifier="safe",
        service_tier="flex",
        text_format={"type": "json_object"},
        tool_choice={"type": "function", "name": "f"},
        tools=(
            {
                "type": "function",
                "name": "f",
                "description": None,
                "parameters": {"z": 1, "a": 1.0},
                "strict": False,
            },
        ),
        top_logprobs=4,
        user="me",
        verbosity="low",
    )
