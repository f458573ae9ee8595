"""The items of a Responses input to the turns of a conversation."""

import json
from typing import assert_never

from deployments.errors import InvalidRequestError
from deployments.translate.conversation import Conversation, TurnPart
from deployments.translate.media import PlacedMedia, to_media
from deployments.wire.content import OutputPart, Part, RefusalPart, TextPart
from deployments.wire.responses_items import (
    ContentItem,
    FunctionCall,
    FunctionCallOutput,
    InputMessage,
    Reasoning,
)
from engine.types import Role, ToolCall

ROLES: dict[str, Role] = {"developer": "system"}  # RA: a developer is treated like the system


def add_item(conversation: Conversation, item: ContentItem, param: str) -> None:
    """Add one item; `param` is its place, such as `input[3]`.

    Raises:
        InvalidRequestError: where it does not fit what came before.
    """
    match item:
        case InputMessage():
            conversation.add_turn(to_role(item.role), to_parts(item.content, item.role, param))
        case Reasoning():
            conversation.add_reasoning(item.text)
        case FunctionCall():
            call = ToolCall(item.call_id, item.name, item.arguments)
            conversation.add_call(call, f"{param}.call_id")
        case FunctionCallOutput():
            conversation.add_output(item.call_id, to_output_parts(item.output, f"{param}.output"))
        case _:
            assert_never(item)


def to_role(role: str) -> Role:
    return ROLES.get(role) or role  # type: ignore[return-value]


def to_parts(content: str | list[Part], role: str, param: str) -> list[TurnPart]:
    """The parts of a message's content.

    Raises:
        InvalidRequestError: for a refusal of anyone but the assistant.
    """
    if isinstance(content, str):
        return [content]
    return [
        to_turn_part(part, role, f"{param}.content[{index}]") for index, part in enumerate(content)
    ]


def to_turn_part(part: Part, role: str, param: str) -> TurnPart:
    if isinstance(part, TextPart):
        return part.text
    if isinstance(part, RefusalPart):
        if role != "assistant":
            raise InvalidRequestError(
                "Only an assistant's message can have a refusal.", param, "unsupported_value"
            )
        return part.refusal
    media = to_media(part)
    assert media is not None
    return PlacedMedia(media, param)


def to_output_parts(output: str | list[OutputPart], param: str) -> list[TurnPart]:
    """A function's output: texts and pictures as they are, any other part as JSON (RA)."""
    if isinstance(output, str):
        return [output]
    parts: list[TurnPart] = []
    for index, part in enumerate(output):
        if isinstance(part, TextPart):
            parts.append(part.text)
        elif isinstance(part, dict):
            parts.append(json.dumps(part, ensure_ascii=False))
        else:
            media = to_media(part)
            assert media is not None
            parts.append(PlacedMedia(media, f"{param}[{index}]"))
    return parts
