"""The bodies of `/v1/conversations` and what it answers."""

from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field
from pydantic_core import PydanticCustomError

from deployments.wire.base import UNSUPPORTED, Array, Metadata, WireModel, check_total
from deployments.wire.responses_items import InputItem


def refuse_other_name(value: object) -> object:
    """Refuse what a request for a response calls its items: to drop it would lose them silently.

    Raises:
        PydanticCustomError: where there is such a value.
    """
    if value is not None and value != []:
        raise PydanticCustomError(UNSUPPORTED, "on this route items are called 'items'")
    return None


def refuse_items(value: object) -> object:
    """Refuse items where none can be added.

    Raises:
        PydanticCustomError: where there are some.
    """
    if value is not None and value != []:
        raise PydanticCustomError(
            UNSUPPORTED, "an update takes no items; post them to the conversation's '/items'"
        )
    return None


OtherName = Annotated[object, AfterValidator(refuse_other_name)]


class ItemsBody(WireModel):
    """What both bodies with items share."""

    input: OtherName = None
    messages: OtherName = None


class CreateConversation(ItemsBody):
    """The body of `POST /v1/conversations`."""

    items: Annotated[Array[InputItem], BeforeValidator(check_total)] | None = None
    metadata: Metadata | None = None


class UpdateConversation(WireModel):
    """The body of `POST /v1/conversations/{id}`; null takes all metadata away."""

    items: Annotated[object, AfterValidator(refuse_items)] = None
    metadata: Annotated[Metadata, BeforeValidator(lambda value: {} if value is None else value)]


class CreateItems(ItemsBody):
    """The body of `POST /v1/conversations/{id}/items`."""

    items: Annotated[Array[InputItem], Field(min_length=1), BeforeValidator(check_total)]


def to_conversation(
    conversation_id: str, created_at: int, metadata: dict[str, str]
) -> dict[str, Any]:
    """A conversation; `created_at` is in whole seconds since the Unix epoch."""
    return {
        "id": conversation_id,
        "object": "conversation",
        "created_at": created_at,
        "metadata": metadata,
    }


def to_deleted_conversation(conversation_id: str) -> dict[str, Any]:
    return {"id": conversation_id, "object": "conversation.deleted", "deleted": True}
