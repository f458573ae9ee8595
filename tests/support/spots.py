"""Where wire models stand inside a body of `POST /v1/responses`, and how each can be wrong there.

Wrong types, texts and numbers out of range and missing fields are worked out from the models.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from deployments.wire.base import WireModel
from deployments.wire.content import (
    Audio,
    ImageUrlPart,
    InputAudioPart,
    InputImagePart,
    RefusalPart,
    TextPart,
    Url,
    VideoUrlPart,
)
from deployments.wire.responses_items import (
    FunctionCall,
    FunctionCallOutput,
    InputMessage,
    ItemReference,
    OwnItem,
    Reasoning,
    ReasoningPart,
    SummaryPart,
)
from deployments.wire.responses_request import (
    ConversationReference,
    ReasoningSettings,
    TextSettings,
)
from deployments.wire.tools import (
    AllowedTools,
    FunctionChoice,
    FunctionToolField,
    JsonObjectFormat,
    JsonSchemaFormat,
    TextFormat,
)
from tests.support.wrong_values import (
    MISSING,
    ONE_OF_EACH_KIND,
    WORDS,
    WRONG_TYPE,
    find_fields,
    find_required,
    list_bad_numbers,
    list_bad_texts,
    list_wrong_types,
)

Json = dict[str, Any]
BadRequest = tuple[Json, str, str]
"""Changes to a good request, `param` and `code`."""


def message(**changes: Any) -> Json:
    return {"role": "user", "content": "Hi", **changes}


def image(**changes: Any) -> Json:
    return {"type": "input_image", "image_url": "data:image/png;base64,AA", **changes}


def call(**changes: Any) -> Json:
    return {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}", **changes}


def output(**changes: Any) -> Json:
    return {"type": "function_call_output", "call_id": "c", "output": "ok", **changes}


def function(**changes: Any) -> Json:
    return {"type": "function", "name": "f", **changes}


@dataclass(frozen=True)
class Spot:
    """Where a wire model stands in a request: `put` makes the changes to `GOOD` of its value.

    The type of one `in_union` says which it is, and where it is a part of an output, any other type
    is taken too. The fields of one that `is_nested` stand under the name of its type.
    """

    model: type[WireModel]
    path: str
    example: Json
    put: Callable[[Any], Json]
    in_union: bool = True
    is_nested: bool = False


def in_input(value: Any) -> Json:
    return {"input": [value]}


def in_content(value: Any) -> Json:
    return in_input(message(role="assistant", content=[value]))


def in_output(value: Any) -> Json:
    return in_input(output(output=[value]))


def in_tools(value: Any) -> Json:
    return {"tools": [value]}


def in_choice(value: Any) -> Json:
    return {"tool_choice": value}


def in_format(value: Any) -> Json:
    return {"text": {"format": value}}


PART, OUTPUT_PART = "input[0].content[0]", "input[0].output[0]"
TEXT, CHOSEN = {"type": "input_text", "text": "Hi"}, {"mode": "auto", "tools": [function()]}
IMAGE_URL: Json = {"type": "image_url", "image_url": "https://x/y.png"}
AUDIO: Json = {"type": "input_audio", "input_audio": {"data": "AA", "format": "wav"}}
THOUGHT: Json = {"type": "reasoning_text", "text": "So."}
SCHEMA: Json = {"name": "n", "description": "d", "schema": {}, "strict": True}
TOOL: Json = {"name": "f", "description": "d", "parameters": {}, "strict": True}
SPOTS = [
    Spot(InputMessage, "input[0]", message(type="message"), in_input),
    Spot(FunctionCall, "input[0]", call(), in_input),
    Spot(FunctionCallOutput, "input[0]", output(), in_input),
    Spot(Reasoning, "input[0]", {"type": "reasoning", "summary": []}, in_input),
    Spot(ItemReference, "input[0]", {"type": "item_reference", "id": "msg_1"}, in_input),
    Spot(
        ReasoningPart,
        PART,
        THOUGHT,
        lambda value: in_input({"type": "reasoning", "content": [value]}),
        in_union=False,
    ),
    Spot(
        SummaryPart,
        "input[0].summary[0]",
        {"type": "summary_text", "text": "So."},
        lambda value: in_input({"type": "reasoning", "summary": [value]}),
        in_union=False,
    ),
    Spot(TextPart, PART, TEXT, in_content),
    Spot(RefusalPart, PART, {"type": "refusal", "refusal": "No."}, in_content),
    Spot(InputImagePart, PART, image(detail="low"), in_content),
    Spot(ImageUrlPart, PART, IMAGE_URL, in_content),
    Spot(VideoUrlPart, PART, {"type": "video_url", "video_url": "https://x/y"}, in_content),
    Spot(InputAudioPart, PART, AUDIO, in_content),
    Spot(
        Url,
        f"{PART}.image_url",
        {"url": "https://x/y.png", "detail": "low"},
        lambda value: in_content({**IMAGE_URL, "image_url": value}),
    ),
    Spot(
        Url,
        f"{PART}.image_url",
        {"url": "https://x/y.png"},
        lambda value: in_content(image(image_url=value)),
    ),
    Spot(
        Audio,
        f"{PART}.input_audio",
        {"data": "AA", "format": "wav"},
        lambda value: in_content({**AUDIO, "input_audio": value}),
    ),
    Spot(InputImagePart, OUTPUT_PART, image(), in_output),
    Spot(ImageUrlPart, OUTPUT_PART, IMAGE_URL, in_output),
    Spot(FunctionToolField, "tools[0]", {"type": "function", **TOOL}, in_tools, in_union=False),
    Spot(
        FunctionToolField,
        "tools[0].function",
        TOOL,
        lambda value: in_tools({"type": "function", "function": value}),
        is_nested=True,
    ),
    Spot(FunctionChoice, "tool_choice", function(), in_choice),
    Spot(
        FunctionChoice,
        "tool_choice.function",
        {"name": "f"},
        lambda value: in_choice({"type": "function", "function": value}),
        is_nested=True,
    ),
    Spot(AllowedTools, "tool_choice", {"type": "allowed_tools", **CHOSEN}, in_choice),
    Spot(
        AllowedTools,
        "tool_choice.allowed_tools",
        CHOSEN,
        lambda value: in_choice({"type": "allowed_tools", "allowed_tools": value}),
        is_nested=True,
    ),
    Spot(
        ConversationReference,
        "conversation",
        {"id": "conv_1"},
        lambda value: {"conversation": value},
    ),
    Spot(TextSettings, "text", {}, lambda value: {"text": value}),
    Spot(ReasoningSettings, "reasoning", {}, lambda value: {"reasoning": value}),
    Spot(TextFormat, "text.format", {"type": "text"}, in_format),
    Spot(JsonObjectFormat, "text.format", {"type": "json_object"}, in_format),
    Spot(JsonSchemaFormat, "text.format", {"type": "json_schema", **SCHEMA}, in_format),
    Spot(
        JsonSchemaFormat,
        "text.format.json_schema",
        SCHEMA,
        lambda value: in_format({"type": "json_schema", "json_schema": value}),
        is_nested=True,
    ),
]


def list_faults(spot: Spot) -> list[BadRequest]:
    """One request for every way in which a value at this spot can be wrong."""
    fields = find_fields(spot.model)
    if issubclass(spot.model, OwnItem):
        del fields["id"]  # which may be anything
    kind = fields.pop("type", None)
    wrong = [*list_wrong_types(fields), *list_bad_numbers(fields), *list_bad_texts(fields)]
    faults = [
        (spot.put({**spot.example, name: value}), f"{spot.path}.{name}", code)
        for name, value, code in wrong
    ]
    missing = [name for name in find_required(spot.model) if name in fields]
    if kind is not None and not spot.is_nested:
        faults += list_faults_of_type(spot)
        missing += ["type"] if "type" in find_required(spot.model) else []
    if not spot.is_nested:
        faults.append((spot.put(1), spot.path, WRONG_TYPE))
    return faults + [
        (spot.put(omit(spot.example, name)), f"{spot.path}.{name}", MISSING) for name in missing
    ]


def list_faults_of_type(spot: Spot) -> list[BadRequest]:
    values = [value for value in ONE_OF_EACH_KIND.values() if not isinstance(value, str | None)]
    words = ["", "1", "t" * 100_000, "<text>", "no object", "no word", "word"]
    return [
        (
            spot.put({**spot.example, "type": value}),
            f"{spot.path}.type",
            WORDS if isinstance(value, str) or not spot.in_union else WRONG_TYPE,
        )
        for value in [*values, *(words if spot.path != OUTPUT_PART else ())]
    ]


def omit(example: Json, name: str) -> Json:
    return {key: value for key, value in example.items() if key != name}
