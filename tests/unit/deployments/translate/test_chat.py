"""The messages of a chat as the turns of a conversation."""

from dataclasses import replace
from typing import Any

import pytest

from deployments.errors import InvalidRequestError
from deployments.translate.chat import to_messages
from deployments.wire.chat_request import ChatCompletionRequest
from deployments.wire.parse import parse_model
from engine.types import ChatMessage, Media, ToolCall
from tests.support.bad_chat_requests import call, calling
from tests.support.scripted import CARD

SEEING = replace(CARD, media=("image",))
PICTURE = {"type": "image_url", "image_url": {"url": "data:,x", "detail": "low"}}
SEEN = Media("image", "data:,x", "low")
MARKER = "[Image output attached in the next message]"


def read(*messages: dict[str, Any]) -> tuple[ChatMessage, ...]:
    body = {"model": "scripted", "messages": list(messages)}
    return to_messages(parse_model(ChatCompletionRequest, body).messages, SEEING)


def say(role: str, *parts: Any, **more: Any) -> dict[str, Any]:
    content = [{"type": "text", "text": p} if isinstance(p, str) else p for p in parts]
    return {"role": role, "content": content, **more}


def test_a_developer_is_the_system() -> None:
    assert read(say("developer", "a"), say("user", "b")) == (
        ChatMessage("system", "a"),
        ChatMessage("user", "b"),
    )


def test_texts_of_one_message_are_joined_with_newlines() -> None:
    assert read(say("user", "a", "b")) == (ChatMessage("user", "a\nb"),)


@pytest.mark.parametrize("kind", ["input_text", "output_text", "text"])
def test_the_other_routes_spellings_of_a_text_are_taken(kind: str) -> None:
    assert read(say("user", {"type": kind, "text": "a"})) == (ChatMessage("user", "a"),)


def test_pictures_of_a_user_stay_and_those_of_others_move_to_a_users_turn() -> None:
    assert read(say("user", "a", PICTURE, "b"), say("system", PICTURE, "c")) == (
        ChatMessage("user", ("a", SEEN, "b")),
        ChatMessage("system", "c"),
        ChatMessage("user", (SEEN,)),
    )


def test_a_picture_of_a_tool_moves_behind_a_line_that_says_so() -> None:
    assert read(say("tool", "done", PICTURE, tool_call_id="c")) == (
        ChatMessage("tool", f"done\n{MARKER}", call_id="c"),
        ChatMessage("user", (SEEN,)),
    )


def test_an_answer_is_one_turn_of_thought_text_and_calls() -> None:
    answer = {**calling(call("a"), call("b")), "content": "So:", "reasoning_content": "Hm."}
    calls = (ToolCall("a", "f", "{}"), ToolCall("b", "f", "{}"))
    assert read(answer) == (ChatMessage("assistant", "So:", "Hm.", calls),)


def test_two_answers_one_after_the_other_stay_two() -> None:
    assert read(say("assistant", "a"), calling(call("b"))) == (
        ChatMessage("assistant", "a"),
        ChatMessage("assistant", "", tool_calls=(ToolCall("b", "f", "{}"),)),
    )


def test_a_refusal_is_what_was_said() -> None:
    expected = (ChatMessage("assistant", "No."),)
    assert read({"role": "assistant", "content": None, "refusal": "No."}) == expected
    assert read(say("assistant", {"type": "refusal", "refusal": "No."})) == expected


def test_a_thought_alone_is_an_answer() -> None:
    assert read({"role": "assistant", "reasoning": "Hm."}) == (ChatMessage("assistant", "", "Hm."),)


def test_an_id_may_come_again_once_it_is_answered() -> None:
    answered = {"role": "tool", "tool_call_id": "a", "content": "4"}
    turns = read(calling(call("a")), answered, calling(call("a")), answered)
    assert [turn.role for turn in turns] == ["assistant", "tool", "assistant", "tool"]


@pytest.mark.parametrize("role", ["system", "user", "assistant"])
def test_a_medium_that_the_model_cannot_take_is_told_by_its_place(role: str) -> None:
    video = {"type": "video_url", "video_url": "http://a/b"}
    with pytest.raises(InvalidRequestError, match="takes no videos") as caught:
        read(say("user", "a"), say(role, "b", video))
    assert caught.value.param == "messages[1].content[1]"


@pytest.mark.parametrize(
    "message",
    [
        calling(call()),
        {"role": "assistant", "reasoning": "Hm."},
        say("user", PICTURE),
        say("system", "a"),
    ],
)
def test_a_call_a_thought_a_picture_and_a_rule_are_input(message: dict[str, Any]) -> None:
    assert read(message)
