"""The body of a chat completion: what it takes beyond what is refused, and what has no effect."""

from typing import Any

import pytest
from openai.types.chat.completion_create_params import CompletionCreateParamsBase

from deployments.wire.base import NOT_SERVED_ANYWHERE
from deployments.wire.chat_messages import (
    AssistantMessage,
    Message,
    SystemMessage,
    ToolMessage,
    UserMessage,
)
from deployments.wire.chat_request import (
    NOT_SERVED,
    OTHER_NAMES,
    WITHOUT_EFFECT,
    ChatCompletionRequest,
    list_ignored,
)
from deployments.wire.parse import parse_model
from tests.support.bad_chat_requests import GOOD_CHAT, HI, call


def parse(**changes: Any) -> ChatCompletionRequest:
    return parse_model(ChatCompletionRequest, {**GOOD_CHAT, **changes})


def parse_message(**message: Any) -> Message:
    (parsed,) = parse(messages=[message]).messages
    return parsed


def test_each_role_has_its_own_message() -> None:
    roles = ("system", "developer", "user", "assistant")
    kinds = [type(parse_message(role=role, content="a")) for role in roles]
    assert kinds == [SystemMessage, SystemMessage, UserMessage, AssistantMessage]
    tool = parse_message(role="tool", content="4", tool_call_id="c")
    assert isinstance(tool, ToolMessage)


@pytest.mark.parametrize(
    "rest",
    [
        {"content": ""},
        {"content": []},
        {"content": None, "tool_calls": [call()]},
        {"tool_calls": [{"id": "c", "function": {"name": "f", "arguments": "broken"}}]},
        {"content": None, "refusal": "No."},
        {"reasoning_content": "Hm."},
        {"reasoning": "Hm.", "content": None, "function_call": None, "audio": None},
    ],
)
def test_an_assistant_may_say_nothing_where_it_did_something(rest: dict[str, Any]) -> None:
    assert isinstance(parse_message(role="assistant", **rest), AssistantMessage)


@pytest.mark.parametrize(
    ("rest", "thought"),
    [
        ({}, ""),
        ({"reasoning": "b"}, "b"),
        ({"reasoning_content": "a"}, "a"),
        ({"reasoning_content": "a", "reasoning": "b"}, "a"),
        ({"reasoning_content": "", "reasoning": "b"}, "b"),
    ],
)
def test_a_thought_comes_under_either_name(rest: dict[str, Any], thought: str) -> None:
    message = parse_message(role="assistant", content="", **rest)
    assert isinstance(message, AssistantMessage)
    assert message.thought == thought


def test_keys_that_nobody_knows_are_ignored() -> None:
    parsed = parse(messages=[{**HI, "annotations": [], "id": 1}], unknown={"a": 1})
    assert parsed == parse()


@pytest.mark.parametrize(
    ("sent", "number"),
    [
        ({}, None),
        ({"logprobs": False}, None),
        ({"logprobs": True}, 0),
        ({"logprobs": True, "top_logprobs": None}, 0),
        ({"logprobs": True, "top_logprobs": 20}, 20),
    ],
)
def test_log_probabilities_are_told_where_they_are_asked_for(
    sent: dict[str, Any], number: int | None
) -> None:
    assert parse(**sent).num_logprobs == number


@pytest.mark.parametrize(
    ("sent", "ignored"),
    [
        ({}, []),
        ({"store": False, "user": None}, []),
        ({"store": True, "user": "me"}, ["user", "store"]),
        ({"verbosity": "low", "prediction": {}}, ["prediction", "verbosity"]),
        ({"max_tokens": 1}, []),
        ({"max_tokens": 1, "max_completion_tokens": 2}, ["max_tokens"]),
        ({"messages": [HI, {**HI, "name": "Ann"}]}, ["messages.name"]),
        ({"stream_options": {"include_usage": True}}, ["stream_options"]),
        ({"stream_options": {"include_usage": True}, "stream": True}, []),
        ({"stream_options": {}, "stream": False}, []),
        (
            {"stream_options": {"include_obfuscation": True}, "stream": True},
            ["stream_options.include_obfuscation"],
        ),
        ({"stream_options": {"include_obfuscation": False}, "stream": True}, []),
    ],
)
def test_what_has_no_effect_is_listed(sent: dict[str, Any], ignored: list[str]) -> None:
    parse(**sent)
    assert list_ignored({**GOOD_CHAT, **sent}) == ignored


def test_every_field_of_openais_client_is_taken_refused_or_said_to_be_ignored() -> None:
    taken = {*ChatCompletionRequest.model_fields, *WITHOUT_EFFECT}
    refused = {*OTHER_NAMES, *NOT_SERVED, *NOT_SERVED_ANYWHERE}
    assert set(CompletionCreateParamsBase.__annotations__) - taken - refused == set()
