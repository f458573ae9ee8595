"""The Responses resource and its stream as `/v1` spells them (Open Responses' schema)."""

from typing import Any, assert_never

from deployments.resource.events import (
    ItemAdded,
    ItemDone,
    OutputTextDelta,
    OutputTextDone,
    PartAdded,
    PartDone,
    ResponseCreated,
    ResponseEnded,
    ResponseInProgress,
    StreamEvent,
)
from deployments.resource.response import (
    OutputItem,
    OutputText,
    RequestEcho,
    Response,
    StoredResponse,
    Usage,
)
from deployments.sse import DONE, encode_event

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
        "output_text": "".join(part.text for item in response.output for part in item.content),
        "usage": None if response.usage is None else to_usage(response.usage),
        "error": None if failure is None else {"code": failure.code, "message": failure.message},
        "incomplete_details": None if reason is None else {"reason": reason},
    }


def _echoed_fields(echo: RequestEcho) -> Json:
    text: Json = {"format": {"type": "text"}}
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
        "previous_response_id": None,
        "prompt_cache_key": echo.prompt_cache_key,
        "reasoning": echo.reasoning,
        "safety_identifier": echo.safety_identifier,
        "service_tier": echo.service_tier,
        "store": echo.is_stored,
        "temperature": echo.temperature,
        "text": text,
        "tool_choice": echo.tool_choice,
        "tools": [],
        "top_logprobs": 0,
        "top_p": echo.top_p,
        "truncation": "disabled",
    }
    return fields if echo.user is None else {**fields, "user": echo.user}


def to_item(item: OutputItem) -> Json:
    return {
        "id": item.item_id,
        "type": "message",
        "role": "assistant",
        "status": item.status,
        "content": [to_part(part) for part in item.content],
    }


def to_part(part: OutputText) -> Json:
    return {"type": "output_text", "text": part.text, "annotations": [], "logprobs": []}


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


class ResponseEventWriter:
    """The events of one response as numbered server-sent events, from 0."""

    def __init__(self, echo: RequestEcho) -> None:
        self._echo = echo
        self._next_number = 0

    def write(self, event: StreamEvent) -> bytes:
        match event:
            case ResponseCreated():
                return self._write_response("response.created", event.response)
            case ResponseInProgress():
                return self._write_response("response.in_progress", event.response)
            case ItemAdded():
                return self._write_item("response.output_item.added", event)
            case PartAdded():
                return self._write_part("response.content_part.added", event)
            case OutputTextDelta():
                text = {"delta": event.delta, "logprobs": []}
                return self._write_text("response.output_text.delta", event, text)
            case OutputTextDone():
                text = {"text": event.text, "logprobs": []}
                return self._write_text("response.output_text.done", event, text)
            case PartDone():
                return self._write_part("response.content_part.done", event)
            case ItemDone():
                return self._write_item("response.output_item.done", event)
            case ResponseEnded():
                name = TERMINAL_NAMES[event.response.status]
                return self._write_response(name, event.response) + DONE
        assert_never(event)

    def _write_response(self, name: str, response: Response) -> bytes:
        return self._emit(name, {"response": to_body(StoredResponse(response, self._echo))})

    def _write_item(self, name: str, event: ItemAdded | ItemDone) -> bytes:
        return self._emit(name, {"output_index": event.output_index, "item": to_item(event.item)})

    def _write_part(self, name: str, event: PartAdded | PartDone) -> bytes:
        return self._emit(name, {**_place(event), "part": to_part(event.part)})

    def _write_text(self, name: str, event: OutputTextDelta | OutputTextDone, text: Json) -> bytes:
        return self._emit(name, {**_place(event), **text})

    def _emit(self, name: str, fields: Json) -> bytes:
        number = self._next_number
        self._next_number += 1
        return encode_event(name, {"type": name, "sequence_number": number, **fields})


def _place(event: PartAdded | PartDone | OutputTextDelta | OutputTextDone) -> Json:
    return {
        "item_id": event.item_id,
        "output_index": event.output_index,
        "content_index": event.content_index,
    }
