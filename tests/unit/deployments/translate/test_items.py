"""Each item of a Responses input becomes a turn, part of one, or a refusal by its place."""

from typing import Any

import pytest
from pydantic import TypeAdapter

from deployments.errors import InvalidRequestError
from deployments.translate.conversation import MOVED, Conversation
from deployments.translate.items import add_item
from deployments.wire.responses_items import InputItem
from engine.types import ChatMessage, Media, ToolCall
from tests.support.spots import call, image, message, output

ITEM: TypeAdapter[Any] = TypeAdapter(InputItem)
PICTURE = Media("image", "data:image/png;base64,AA")


def to_messages(*items: dict[str, Any]) -> tuple[ChatMessage, ...]:
    conversation = Conversation()
    for index, item in enumerate(items):
        add_item(conversation, ITEM.validate_python(item), f"input[{index}]")
    return conversation.messages


def test_every_role_has_its_turn_and_a_developer_speaks_as_the_system() -> None:
    roles = ["developer", "user", "assistant", "system"]
    assert to_messages(*(message(role=role, content=role) for role in roles)) == (
        ChatMessage("system", "developer"),
        ChatMessage("user", "user"),
        ChatMessage("assistant", "assistant"),
        ChatMessage("system", "system"),
    )


@pytest.mark.parametrize("changes", [{}, {"type": "message"}, {"type": None}, {"id": "msg_1"}])
def test_the_type_of_a_message_may_be_left_out(changes: dict[str, Any]) -> None:
    assert to_messages(message(**changes)) == (ChatMessage("user", "Hi"),)


@pytest.mark.parametrize("role", ["user", "assistant", "system", "developer"])
@pytest.mark.parametrize("kind", ["input_text", "output_text", "text"])
def test_a_text_may_be_spelled_in_three_ways(kind: str, role: str) -> None:
    (turn,) = to_messages(message(role=role, content=[{"type": kind, "text": "Hi"}]))
    assert turn.content == "Hi"


def test_a_refusal_is_what_the_assistant_said() -> None:
    parts = [{"type": "output_text", "text": "Well."}, {"type": "refusal", "refusal": "No."}]
    assert to_messages(message(role="assistant", content=parts)) == (
        ChatMessage("assistant", "Well.\nNo."),
    )


@pytest.mark.parametrize("role", ["user", "system", "developer"])
def test_only_the_assistant_refuses(role: str) -> None:
    with pytest.raises(InvalidRequestError) as caught:
        to_messages(message(), message(role=role, content=[{"type": "refusal", "refusal": "No."}]))
    assert caught.value.param == "input[1].content[0]"


def thought(*texts: str) -> list[dict[str, Any]]:
    return [{"type": "reasoning_text", "text": text} for text in texts]


def summary(*texts: str) -> list[dict[str, Any]]:
    return [{"type": "summary_text", "text": text} for text in texts]


@pytest.mark.parametrize(
    ("fields", "reasoning"),
    [
        ({"content": thought("a", "b")}, "a\nb"),
        ({"content": thought("a"), "summary": []}, "a"),
        ({"content": thought("a"), "summary": summary("c")}, "a"),
        ({"content": [], "summary": summary("c", "d")}, "c\nd"),
        ({"content": None, "summary": summary("c")}, "c"),
        ({"content": thought(""), "summary": summary("c")}, "c"),
        ({"summary": summary("c"), "encrypted_content": "x", "id": "rs_1", "status": None}, "c"),
    ],
)
def test_a_thought_is_its_content_or_else_its_summary(
    fields: dict[str, Any], reasoning: str
) -> None:
    item = {"type": "reasoning", **fields}
    assert to_messages(item) == (ChatMessage("assistant", "", reasoning),)


@pytest.mark.parametrize("fields", [{}, {"content": [], "summary": []}, {"encrypted_content": "x"}])
def test_a_thought_without_a_word_is_none(fields: dict[str, Any]) -> None:
    assert to_messages({"type": "reasoning", **fields}) == ()


@pytest.mark.parametrize("arguments", ["{}", "", '{"a":'])
def test_a_call_keeps_its_arguments_however_broken(arguments: str) -> None:
    item = call(id="fc_1", status="incomplete", arguments=arguments, namespace=None)
    assert to_messages(item) == (
        ChatMessage("assistant", "", tool_calls=(ToolCall("c", "f", arguments),)),
    )


@pytest.mark.parametrize(
    ("sent", "content"),
    [
        ("", ""),
        ("ok", "ok"),
        ([], ""),
        ([{"type": "input_text", "text": "a"}, {"type": "text", "text": "b"}], "a\nb"),
        ([{"type": "output_text", "text": "a", "annotations": []}], "a"),
        (
            [{"type": "input_text", "text": "a"}, {"type": "input_audio", "é": [1, None]}],
            'a\n{"type": "input_audio", "é": [1, null]}',
        ),
        ([{"type": "refusal", "refusal": "No."}], '{"type": "refusal", "refusal": "No."}'),
        ([{"type": "video_url", "video_url": 5}], '{"type": "video_url", "video_url": 5}'),
    ],
)
def test_an_output_is_text_and_other_parts_of_it_are_json(sent: object, content: str) -> None:
    assert to_messages(output(output=sent)) == (ChatMessage("tool", content, call_id="c"),)


def test_pictures_of_an_output_follow_it() -> None:
    nested = {"type": "image_url", "image_url": {"url": PICTURE.source, "detail": "low"}}
    parts = [image(), {"type": "input_text", "text": "captured"}, nested]
    assert to_messages(call(), output(output=parts))[1:] == (
        ChatMessage("tool", f"captured\n{MOVED}", call_id="c"),
        ChatMessage("user", (PICTURE, Media("image", PICTURE.source, "low"))),
    )


@pytest.mark.parametrize(
    ("items", "param"),
    [
        ([message(), call(), call()], "input[2].call_id"),
        ([call(), output(), call(), call()], "input[3].call_id"),
    ],
)
def test_an_item_that_does_not_fit_is_refused_by_its_place(
    items: list[dict[str, Any]], param: str
) -> None:
    with pytest.raises(InvalidRequestError) as caught:
        to_messages(*items)
    assert caught.value.param == param
