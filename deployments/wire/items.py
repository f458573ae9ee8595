"""The normal form of an input's items: how they are shown, and how they are kept.

However a client spelled an item, this is the one spelling of Open Responses' `ItemField` and of
openai's `ResponseItem`; read again, it says what the client said.
"""

from typing import Any, assert_never

from pydantic import TypeAdapter

from deployments.wire.content import (
    ImageUrlPart,
    InputAudioPart,
    InputImagePart,
    OutputPart,
    Part,
    RefusalPart,
    TextPart,
    VideoUrlPart,
)
from deployments.wire.responses_items import (
    ContentItem,
    FunctionCall,
    FunctionCallOutput,
    InputItem,
    InputMessage,
    ItemReference,
    Reasoning,
)

Json = dict[str, Any]

INPUT_ITEM: TypeAdapter[InputItem] = TypeAdapter(InputItem)
NO_DETAIL = "auto"  # of a picture that was sent without one: the contract requires it


def parse_given_item(value: Json) -> ContentItem:
    """An item in the normal form, or one that a response gave out, as if it had just been sent.

    Raises:
        pydantic.ValidationError: where it is none.
    """
    item = INPUT_ITEM.validate_python(value)
    assert not isinstance(item, ItemReference), "what is kept says its type"
    return item


def to_given_item(item: ContentItem, item_id: str) -> Json:
    """The normal form of an item under an id of ours; whatever id and status it had are gone."""
    match item:
        case InputMessage():
            own: Json = {
                "type": "message",
                "status": "completed",
                "role": item.role,
                "content": to_content(item.content, item.role),
            }
        case FunctionCall():
            own = {
                "type": "function_call",
                "status": "completed",
                "call_id": item.call_id,
                "name": item.name,
                "arguments": item.arguments,
            }
        case FunctionCallOutput():
            own = {
                "type": "function_call_output",
                "status": "completed",
                "call_id": item.call_id,
                "output": to_output(item.output),
            }
        case Reasoning():
            own = {
                "type": "reasoning",
                "summary": [to_text("summary_text", part.text) for part in item.summary or ()],
                "content": [to_text("reasoning_text", part.text) for part in item.content or ()],
            }
        case _:
            assert_never(item)
    return {"id": item_id, **own}


def to_content(content: str | list[Part], role: str) -> list[Json]:
    if isinstance(content, str):
        return [to_message_text(content, role)]
    return [to_message_part(part, role) for part in content]


def to_message_part(part: Part, role: str) -> Json:
    match part:
        case TextPart():
            return to_message_text(part.text, role)
        case RefusalPart():
            return {"type": "refusal", "refusal": part.refusal}
        case InputImagePart() | ImageUrlPart():
            return to_image(part)
        case VideoUrlPart() | InputAudioPart():
            # The contract has no spelling that keeps all that was sent.
            sent: Json = part.model_dump(exclude_none=True)
            return sent
        case _:
            raise AssertionError("a file is refused when it is parsed")


def to_message_text(text: str, role: str) -> Json:
    if role == "assistant":
        return {**to_text("output_text", text), "annotations": [], "logprobs": []}
    return to_text("input_text", text)


def to_text(kind: str, text: str) -> Json:
    return {"type": kind, "text": text}


def to_image(part: InputImagePart | ImageUrlPart) -> Json:
    """A picture with its URL as a text; a detail beside the URL beats one inside of it."""
    detail = part.detail if isinstance(part, InputImagePart) else None
    place = part.image_url
    source = place if isinstance(place, str) else place.url
    inner = None if isinstance(place, str) else place.detail
    return {"type": "input_image", "image_url": source, "detail": detail or inner or NO_DETAIL}


def to_output(output: str | list[OutputPart]) -> str | list[Json]:
    """A function's output: texts and pictures in the normal form, any other part as it is."""
    if isinstance(output, str):
        return output
    return [to_output_part(part) for part in output]


def to_output_part(part: OutputPart) -> Json:
    match part:
        case TextPart():
            return to_text("input_text", part.text)
        case InputImagePart() | ImageUrlPart():
            return to_image(part)
        case dict():
            return part
        case _:
            raise AssertionError("a file is refused when it is parsed")
