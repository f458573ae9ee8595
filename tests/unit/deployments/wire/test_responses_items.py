"""Items are read by their type; what outputs have beside is tolerated."""

from typing import Any

import pytest
from pydantic import BaseModel, TypeAdapter

from deployments.wire.content import TextPart
from deployments.wire.responses_items import (
    FunctionCall,
    FunctionCallOutput,
    InputItem,
    InputMessage,
    ItemReference,
    Reasoning,
)
from tests.support.spots import call, message, output

EXTRA: dict[str, Any] = {
    "id": "x_1",
    "status": "incomplete",
    "phase": "final_answer",
    "encrypted_content": "AAAA",
    "namespace": None,
    "caller": {"type": "direct"},
    "created_by": 1,
}
TEXT = {"type": "reasoning_text", "text": "So."}


def parse(item: Any) -> Any:
    return TypeAdapter(InputItem).validate_python(item)


@pytest.mark.parametrize(
    ("item", "kind"),
    [
        (message(), InputMessage),
        (message(type="message"), InputMessage),
        (message(type=None), InputMessage),
        (call(), FunctionCall),
        (output(), FunctionCallOutput),
        ({"type": "reasoning"}, Reasoning),
        ({"type": "reasoning", "content": None, "summary": None}, Reasoning),
        ({"type": "item_reference", "id": "msg_1"}, ItemReference),
    ],
)
@pytest.mark.parametrize("extra", [{}, EXTRA], ids=["bare", "extra"])
def test_an_item_is_read_by_its_type(
    item: dict[str, Any], kind: type[BaseModel], extra: dict[str, Any]
) -> None:
    parsed = parse({**extra, **item})
    assert type(parsed) is kind
    if kind is not ItemReference:
        assert parsed == parse({**item, "id": extra.get("id")})


@pytest.mark.parametrize("item", [{"id": "msg_1"}, {"id": "msg_1", "type": None}])
def test_an_id_alone_is_a_reference(item: dict[str, Any]) -> None:
    assert parse(item) == ItemReference(id="msg_1")


@pytest.mark.parametrize("sent", [None, "", 5, ["x"], {"a": 1}, "x" * 1000])
@pytest.mark.parametrize("item", [message(), call(), output(), {"type": "reasoning"}])
def test_the_id_of_an_item_may_be_anything(item: dict[str, Any], sent: object) -> None:
    assert parse({**item, "id": sent}) == parse(item).model_copy(update={"id": sent})


def test_a_message_of_the_assistant_is_read_as_responses_have_it() -> None:
    parts = [
        {"type": "output_text", "text": "a", "annotations": [], "logprobs": []},
        {"type": "input_text", "text": "b"},
    ]
    item = message(type="message", role="assistant", content=parts, **EXTRA)
    assert parse(item) == InputMessage(
        id="x_1",
        type="message",
        role="assistant",
        content=[TextPart(type="output_text", text="a"), TextPart(type="input_text", text="b")],
    )


@pytest.mark.parametrize("kind", ["reasoning_text", "text", "output_text"])
def test_a_thought_has_several_spellings(kind: str) -> None:
    item = {"type": "reasoning", "content": [{**TEXT, "type": kind}], "summary": []}
    assert parse(item).text == "So."


def test_the_content_of_a_thought_beats_its_summary() -> None:
    summary = [{"type": "summary_text", "text": text} for text in ("a", "b")]
    assert parse({"type": "reasoning", "summary": summary}).text == "a\nb"
    assert parse({"type": "reasoning", "summary": summary, "content": [TEXT, TEXT]}).text == (
        "So.\nSo."
    )
    assert parse({"type": "reasoning", "encrypted_content": "AAAA"}).text == ""
