"""Conversations are made, changed and filled by bodies whose every fault is named."""

from typing import Any

import pytest
from openai.types.conversations import Conversation, ConversationDeletedResource
from openai.types.conversations.conversation_create_params import ConversationCreateParams
from openai.types.conversations.conversation_update_params import ConversationUpdateParams
from openai.types.conversations.item_create_params import ItemCreateParams
from pydantic import BaseModel, ValidationError

from deployments.errors import InvalidRequestError
from deployments.wire.conversations import (
    CreateConversation,
    CreateItems,
    UpdateConversation,
    to_conversation,
    to_deleted_conversation,
)
from deployments.wire.parse import parse_model
from tests.support.spots import SPOTS, call, list_faults, message, output
from tests.support.wrong_values import INVALID, MISSING, WORDS, WRONG_TYPE

Body = dict[str, Any]
EVERY_ITEM = [message(), call(), output(), {"type": "reasoning", "summary": []}, {"id": "msg_1"}]
MANY = 100_000

NO_OBJECTS: list[Any] = [1, "a", [], True]
NO_ARRAYS: list[Any] = [1, "Hi", {}, True, message()]
BadValue = tuple[Any, str, str]
WRONG_METADATA: list[BadValue] = [
    *((value, "metadata", WRONG_TYPE) for value in NO_OBJECTS),
    ({"a": 1}, "metadata.a", WRONG_TYPE),
    ({"a": None}, "metadata.a", WRONG_TYPE),
    ({"k" * 65: ""}, f"metadata.{'k' * 65}", INVALID),
    ({"a": "v" * 513}, "metadata.a", INVALID),
    ({str(number): "" for number in range(17)}, "metadata", INVALID),
]
WRONG_ITEMS: list[BadValue] = [
    *((value, "items", WRONG_TYPE) for value in NO_ARRAYS),
    ([message(), 1], "items[1]", WRONG_TYPE),
    ([message(), None], "items[1]", WRONG_TYPE),
    ([[message()]], "items[0]", WRONG_TYPE),
    ([{}], "items[0].type", MISSING),
    ([message()] * 10_001, "items", INVALID),
    ([message(content=[1] * 9_000)] * 6, "items", INVALID),
]
SAID: list[Any] = ["Hi", [message()], {}]
Refusal = tuple[type[BaseModel], Body, str, str]
WRONG: list[Refusal] = [
    *(
        (kind, {"metadata": value}, param, code)
        for kind in (CreateConversation, UpdateConversation)
        for value, param, code in WRONG_METADATA
    ),
    *(
        (kind, {"items": value}, param, code)
        for kind in (CreateConversation, CreateItems)
        for value, param, code in WRONG_ITEMS
    ),
    *(
        (kind, {"items": [message()], name: value}, name, WORDS)
        for kind in (CreateConversation, CreateItems)
        for name in ("messages", "input")
        for value in SAID
    ),
    (CreateItems, {}, "items", MISSING),
    (CreateItems, message(), "items", MISSING),
    (CreateItems, {"items": None}, "items", WRONG_TYPE),
    (CreateItems, {"items": []}, "items", INVALID),
    (UpdateConversation, {}, "metadata", MISSING),
    (UpdateConversation, {"metadata": {}, "items": [message()]}, "items", WORDS),
]


def check_refused(kind: type[BaseModel], body: Body, param: str, code: str) -> None:
    with pytest.raises(InvalidRequestError) as caught:
        parse_model(kind, body)
    assert (caught.value.param, caught.value.code) == (param, code)
    assert f"'{param}'" in caught.value.message


@pytest.mark.parametrize(
    ("kind", "body", "param", "code"), WRONG, ids=lambda value: str(value)[:40]
)
def test_a_fault_is_told_by_its_place(
    kind: type[BaseModel], body: Body, param: str, code: str
) -> None:
    check_refused(kind, body, param, code)


@pytest.mark.parametrize("kind", [CreateConversation, CreateItems])
def test_items_are_as_wrong_here_as_in_an_input(kind: type[BaseModel]) -> None:
    faults = [fault for spot in SPOTS for fault in list_faults(spot) if "input" in fault[0]]
    assert len(faults) > 100
    for changes, param, code in faults:
        body = {"items": changes["input"]}
        check_refused(kind, body, param.replace("input[", "items[", 1), code)


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        (CreateConversation, {"items": [1] * MANY}),
        (CreateItems, {"items": [message(content=[1] * MANY)]}),
        (UpdateConversation, {"metadata": dict.fromkeys(map(str, range(MANY)), 1)}),
    ],
    ids=["items", "parts", "metadata"],
)
def test_of_many_faults_only_the_first_is_looked_for(kind: type[BaseModel], body: Body) -> None:
    with pytest.raises(ValidationError) as caught:
        kind.model_validate(body)
    assert caught.value.error_count() == 1


@pytest.mark.parametrize("kind", [CreateConversation, CreateItems])
def test_every_item_of_an_input_is_taken(kind: type[CreateConversation | CreateItems]) -> None:
    nothing: Body = {"messages": [], "input": None, "colour": "red"}
    request = parse_model(kind, {"items": EVERY_ITEM, **nothing})
    assert [type(item).__name__ for item in request.items or ()] == [
        "InputMessage",
        "FunctionCall",
        "FunctionCallOutput",
        "Reasoning",
        "ItemReference",
    ]


@pytest.mark.parametrize("body", [{}, {"items": None, "metadata": None}])
def test_a_conversation_may_begin_empty(body: Body) -> None:
    request = parse_model(CreateConversation, body)
    assert (request.items, request.metadata) == (None, None)


@pytest.mark.parametrize("sent", [{}, {f"{n:064}": "v" * 512 for n in range(16)}, None])
def test_an_update_replaces_all_metadata(sent: dict[str, str] | None) -> None:
    body = {"metadata": sent, "items": None, "name": "x"}
    assert parse_model(UpdateConversation, body).metadata == (sent or {})


def test_every_field_of_openais_client_is_taken() -> None:
    assert ConversationCreateParams.__annotations__.keys() <= CreateConversation.model_fields.keys()
    assert ConversationUpdateParams.__annotations__.keys() <= UpdateConversation.model_fields.keys()
    in_query = {"include"}
    assert ItemCreateParams.__annotations__.keys() - in_query <= CreateItems.model_fields.keys()


def test_replies_are_what_openais_types_hold() -> None:
    shown = to_conversation("conv_1", 1_700_000_000, {"a": "b"})
    assert shown == {
        "id": "conv_1",
        "object": "conversation",
        "created_at": 1_700_000_000,
        "metadata": {"a": "b"},
    }
    assert Conversation.model_validate(shown, strict=True).model_dump() == shown
    gone = to_deleted_conversation("conv_1")
    assert gone == {"id": "conv_1", "object": "conversation.deleted", "deleted": True}
    assert ConversationDeletedResource.model_validate(gone, strict=True).model_dump() == gone
