"""Each spelling of an item has one normal form, under the id that the server gave it."""

from typing import Any

import pytest
from pydantic import ValidationError

from deployments.resource.response import (
    FunctionCallItem,
    MessageItem,
    OutputItem,
    OutputText,
    ReasoningItem,
    ReasoningText,
)
from deployments.wire.items import parse_given_item, to_given_item
from deployments.wire.responses import to_item
from tests.support.resources import make_call, make_message, make_reasoning
from tests.support.spots import AUDIO, call, image, message, output

DATA = "data:image/png;base64,AA"
PICTURE = {"type": "input_image", "image_url": DATA, "detail": "auto"}
LOW = {"url": DATA, "detail": "low"}
VIDEO: dict[str, Any] = {"type": "video_url", "video_url": {"url": "https://x/y", "detail": "low"}}
REFUSAL = {"type": "refusal", "refusal": "No."}
SENT = {"id": "mine", "status": "incomplete", "phase": "final_answer", "more": 1}


def normal(item: dict[str, Any]) -> dict[str, Any]:
    return to_given_item(parse_given_item(item), "x_1")


def text(text: str) -> dict[str, Any]:
    return {"type": "input_text", "text": text}


@pytest.mark.parametrize("role", ["user", "system", "developer"])
@pytest.mark.parametrize(
    "content",
    ["Hi", *([{"type": f"{kind}text", "text": "Hi"}] for kind in ("", "input_", "output_"))],
)
def test_a_text_is_one_part_whoever_says_it(role: str, content: Any) -> None:
    form = {"id": "x_1", "type": "message", "status": "completed", "role": role}
    assert normal(message(role=role, content=content, **SENT)) == {**form, "content": [text("Hi")]}
    said = message(role="assistant", content=content, type="message", **SENT)
    assert normal(said) == make_message("Hi", item_id="x_1")


@pytest.mark.parametrize("content", ["", []])
def test_what_is_empty_stays_so(content: str | list[Any]) -> None:
    assert normal(message(content=content))["content"] == ([text("")] if content == "" else [])
    assert normal(output(output=content))["output"] == content


@pytest.mark.parametrize(
    ("sent", "form"),
    [
        (image(), PICTURE),
        (image(detail="high"), {**PICTURE, "detail": "high"}),
        (image(file_id="file_1"), PICTURE),
        (image(image_url={"url": DATA}), PICTURE),
        (image(image_url=LOW), {**PICTURE, "detail": "low"}),
        (image(image_url=LOW, detail="high"), {**PICTURE, "detail": "high"}),
        ({"type": "image_url", "image_url": DATA}, PICTURE),
        ({"type": "image_url", "image_url": LOW}, {**PICTURE, "detail": "low"}),
    ],
)
def test_a_picture_has_one_form_wherever_it_stands(
    sent: dict[str, Any], form: dict[str, Any]
) -> None:
    assert normal(message(content=[sent]))["content"] == [form]
    assert normal(output(output=[sent]))["output"] == [form]


@pytest.mark.parametrize("part", [VIDEO, {**VIDEO, "video_url": "https://x/y"}, AUDIO, REFUSAL])
def test_a_part_without_a_form_of_its_own_stays_as_it_is(part: dict[str, Any]) -> None:
    sent = message(role="assistant", content=[{**part, "more": 1}])
    assert normal(sent)["content"] == [part]


def test_the_output_of_a_function_keeps_what_is_no_text_and_no_picture() -> None:
    parts = [{"type": "output_text", "text": "a"}, {"type": "chart", "rows": [1, {"b": None}]}]
    assert normal(output(output=parts, **SENT)) == {
        "id": "x_1",
        "type": "function_call_output",
        "status": "completed",
        "call_id": "c",
        "output": [text("a"), parts[1]],
    }


def test_a_call_keeps_its_arguments_to_the_letter() -> None:
    assert normal(call(arguments='{"q":  1', **SENT)) == {
        "id": "x_1",
        "type": "function_call",
        "status": "completed",
        "call_id": "c",
        "name": "f",
        "arguments": '{"q":  1',
    }


@pytest.mark.parametrize("kind", ["reasoning_text", "text", "output_text"])
def test_a_thought_keeps_its_content_and_its_summary(kind: str) -> None:
    sent = {
        "type": "reasoning",
        "content": [{"type": kind, "text": "a"}],
        "summary": [{"type": "text", "text": "b"}],
        "encrypted_content": "AAAA",
    }
    assert normal(sent) == {
        "id": "x_1",
        "type": "reasoning",
        "content": [{"type": "reasoning_text", "text": "a"}],
        "summary": [{"type": "summary_text", "text": "b"}],
    }
    empty = {"id": "x_1", "type": "reasoning", "content": [], "summary": []}
    assert normal({"type": "reasoning"}) == empty


@pytest.mark.parametrize(
    ("item", "form"),
    [
        (MessageItem("x_1", "incomplete", (OutputText("Hi"),)), make_message("Hi", item_id="x_1")),
        (
            FunctionCallItem("x_1", "incomplete", "call_1", "f", "{"),
            {**make_call("f", "{"), "id": "x_1"},
        ),
        (ReasoningItem("x_1", "completed", (ReasoningText("So."),)), make_reasoning("So.")),
    ],
)
def test_what_a_response_said_has_the_form_of_what_it_is_given(
    item: OutputItem, form: dict[str, Any]
) -> None:
    same = {**form, "id": "x_1"}
    if item.kind == "reasoning":
        del same["status"]  # openai's types need none, and the contract has none
    assert normal(to_item(item)) == same


@pytest.mark.parametrize("value", [{}, {"type": "chart"}, {"role": "user"}, {"type": "message"}])
def test_what_is_no_item_is_refused(value: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        parse_given_item(value)
