"""The Responses resource and its stream as `/v1` spells them (Open Responses' schema)."""

from typing import Any, assert_never

from deployments.resource.events import (
    ArgumentsDelta,
    ArgumentsDone,
    ItemAdded,
    ItemDone,
    OutputTextDelta,
    OutputTextDone,
    PartAdded,
    PartDone,
    ReasoningTextDelta,
    ReasoningTextDone,
    ResponseCreated,
    ResponseEnded,
    ResponseInProgress,
    StreamEvent,
)
from deployments.resource.response import (
    ContentPart,
    FunctionCallItem,
    MessageItem,
    OutputItem,
    OutputText,
    ReasoningItem,
    ReasoningText,
    RequestEcho,
    Response,
    StoredResponse,
    Usage,
)
from deployments.sse import DONE, encode_event
from deployments.wire.logprobs import to_logprobs

Json = dict[str, Any]


def to_body(stored: StoredResponse) -> Json:
    """The resource: all of its fields always, null where the contract allows it."""
    return {**_own_fields(stored.response), **_echoed_fields(stored.echo)}


def _own_fields(response: Response) -> Json:
    reason, failure = response.incomplete_reason, response.failure
    return {
        "id": response.response_id,
        "object": "response",
        "created_at": response.created_at,
        "completed_at": response.completed_at,
        "status": response.status,
        "model": response.model,
        "output": [to_item(item) for item in response.output],
        "output_text": response.output_text,
        "usage": None if response.usage is None else to_usage(response.usage),
        "error": failure and {"code": "server_error", "message": failure.message},
        "incomplete_details": None if reason is None else {"reason": reason},
    }


def _echoed_fields(echo: RequestEcho) -> Json:
    text: Json = {"format": echo.text_format}
    if echo.verbosity is not None:
        text["verbosity"] = echo.verbosity
    fields: Json = {
        "background": False,
        "frequency_penalty": echo.frequency_penalty,
        "instructions": echo.instructions,
        "max_output_tokens": echo.max_output_tokens,
        "max_tool_calls": echo.max_tool_calls,
        "metadata": echo.metadata or {},
        "parallel_tool_calls": echo.parallel_tool_calls,
        "presence_penalty": echo.presence_penalty,
        "previous_response_id": echo.previous_response_id,
        "prompt_cache_key": echo.prompt_cache_key,
        "reasoning": echo.reasoning,
        "safety_identifier": echo.safety_identifier,
        "service_tier": echo.service_tier,
        "store": echo.is_stored,
        "temperature": echo.temperature,
        "text": text,
        "tool_choice": echo.tool_choice,
        "tools": list(echo.tools),
        "top_logprobs": echo.top_logprobs,
        "top_p": echo.top_p,
        "truncation": "disabled",
    }
    if echo.conversation_id is not None:
        fields["conversation"] = {"id": echo.conversation_id}
    if echo.user is not None:
        fields["user"] = echo.user
    return fields


def to_item(item: OutputItem) -> Json:
    match item:
        case MessageItem():
            own: Json = {
                "role": "assistant",
                "status": item.status,
                "content": [to_part(part) for part in item.content],
            }
        case ReasoningItem():
            own = {
                "status": item.status,
                "summary": [],
                "content": [to_part(part) for part in item.content],
            }
        case FunctionCallItem():
            own = {
                "status": item.status,
                "call_id": item.call_id,
                "name": item.name,
                "arguments": item.arguments,
            }
        case _:
            assert_never(item)
    return {"id": item.item_id, "type": item.kind, **own}


def to_part(part: ContentPart) -> Json:
    match part:
        case OutputText():
            logprobs = to_logprobs(part.logprobs)
            return {
                "type": "output_text",
                "text": part.text,
                "annotations": [],
                "logprobs": logprobs,
            }
        case ReasoningText():
            return {"type": "reasoning_text", "text": part.text}
    assert_never(part)


def to_usage(usage: Usage) -> Json:
    """`cache_write_tokens` is no part of the contract, but openai's client requires it."""
    return {
        "input_tokens": usage.input_tokens,
        "input_tokens_details": {
            "cached_tokens": usage.cached_tokens,
            "cache_write_tokens": 0,
        },
        "output_tokens": usage.output_tokens,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
        "total_tokens": usage.input_tokens + usage.output_tokens,
    }


# No client knows a cancelled event: the stream of a cancelled response ends as an incomplete one.
TERMINAL_NAMES = {
    "completed": "response.completed",
    "incomplete": "response.incomplete",
    "cancelled": "response.incomplete",
    "failed": "response.failed",
}


NAMES: dict[type[StreamEvent], str] = {
    ResponseCreated: "response.created",
    ResponseInProgress: "response.in_progress",
    ItemAdded: "response.output_item.added",
    ItemDone: "response.output_item.done",
    PartAdded: "response.content_part.added",
    PartDone: "response.content_part.done",
    OutputTextDelta: "response.output_text.delta",
    OutputTextDone: "response.output_text.done",
    ReasoningTextDelta: "response.reasoning_text.delta",
    ReasoningTextDone: "response.reasoning_text.done",
    ArgumentsDelta: "response.function_call_arguments.delta",
    ArgumentsDone: "response.function_call_arguments.done",
}

TextEvent = OutputTextDelta | OutputTextDone | ReasoningTextDelta | ReasoningTextDone


class ResponseEventWriter:
    """The events of one response as numbered server-sent events, from 0."""

    def __init__(self, echo: RequestEcho) -> None:
        self._echo = echo
        self._next_number = 0

    def write(self, event: StreamEvent) -> bytes:
        match event:
            case ResponseCreated() | ResponseInProgress():
                return self._emit(NAMES[type(event)], self._to_resource(event.response))
            case ResponseEnded():
                name = TERMINAL_NAMES[event.response.status]
                return self._emit(name, self._to_resource(event.response)) + DONE
            case ItemAdded() | ItemDone():
                fields = {"output_index": event.output_index, "item": to_item(event.item)}
            case PartAdded() | PartDone():
                fields = {**_place(event), "part": to_part(event.part)}
            case OutputTextDelta() | OutputTextDone():
                logprobs = to_logprobs(event.logprobs)
                fields = {**_place(event), **_to_text(event), "logprobs": logprobs}
            case ReasoningTextDelta() | ReasoningTextDone():
                fields = {**_place(event), **_to_text(event)}
            case ArgumentsDelta() | ArgumentsDone():
                fields = _to_arguments(event)
            case _:
                assert_never(event)
        return self._emit(NAMES[type(event)], fields)

    def _to_resource(self, response: Response) -> Json:
        return {"response": to_body(StoredResponse(response, self._echo))}

    def _emit(self, name: str, fields: Json) -> bytes:
        number = self._next_number
        self._next_number += 1
        return encode_event(name, {"type": name, "sequence_number": number, **fields})


def _place(event: PartAdded | PartDone | TextEvent) -> Json:
    return {
        "item_id": event.item_id,
        "output_index": event.output_index,
        "content_index": event.content_index,
    }


def _to_text(event: TextEvent) -> Json:
    if isinstance(event, OutputTextDelta | ReasoningTextDelta):
        return {"delta": event.delta}
    return {"text": event.text}


def _to_arguments(event: ArgumentsDelta | ArgumentsDone) -> Json:
    place = {"item_id": event.item_id, "output_index": event.output_index}
    if isinstance(event, ArgumentsDelta):
        return {**place, "delta": event.delta}
    return {**place, "name": event.name, "arguments": event.arguments}
