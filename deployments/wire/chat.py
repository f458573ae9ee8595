"""A response and its stream as Chat Completions spells them (OpenAI's `ChatCompletion` and chunk).

A call that a length stop cut stays in `tool_calls` as far as it came: a stream has told its pieces
by then, and both tell the same. The finish reason `length` warns who would run it.
"""

from dataclasses import dataclass
from typing import Any, Literal

from deployments.resource.events import (
    ArgumentsDelta,
    ItemAdded,
    OutputTextDelta,
    ReasoningTextDelta,
    ResponseCreated,
    ResponseEnded,
    ResponseInProgress,
    StreamEvent,
)
from deployments.resource.response import (
    FunctionCallItem,
    MessageItem,
    ReasoningItem,
    Response,
    Usage,
)
from deployments.sse import COMMENT, DONE, encode_data
from deployments.wire.logprobs import to_logprobs
from engine.types import SampledLogprob

Json = dict[str, Any]
FinishReason = Literal["stop", "length", "tool_calls"]

REASONING = "reasoning_content"


@dataclass(frozen=True, slots=True)
class ChatStyle:
    """How a reply is written: `reasoning_names` are the keys that all carry the same thought."""

    has_logprobs: bool = False
    streams_usage: bool = False
    reasoning_names: tuple[str, ...] = (REASONING,)

    def to_reasoning(self, text: str) -> Json:
        return dict.fromkeys(self.reasoning_names, text)

    def to_logprobs(self, sampled: tuple[SampledLogprob, ...]) -> Json | None:
        if not self.has_logprobs:
            return None
        return {"content": to_logprobs(sampled), "refusal": None}


# ── the whole ────────────────────────────────────────────────────────────────────────────────────


def to_chat_completion(response: Response, style: ChatStyle) -> Json:
    """The reply to a request that is not streamed, of a response that has ended well."""
    parts = [
        part for item in response.output if isinstance(item, MessageItem) for part in item.content
    ]
    choice = {
        "index": 0,
        "message": to_message(response, style),
        "logprobs": style.to_logprobs(tuple(each for part in parts for each in part.logprobs)),
        "finish_reason": to_finish_reason(response),
    }
    return {
        **to_head(response, "chat.completion"),
        "choices": [choice],
        "usage": to_usage(response),
    }


def to_message(response: Response, style: ChatStyle) -> Json:
    """One message of all items; its content is null where there is none that says something."""
    has_content = any(isinstance(item, MessageItem) for item in response.output)
    message: Json = {
        "role": "assistant",
        "content": response.output_text if has_content else None,
        "refusal": None,
    }
    thoughts = [item for item in response.output if isinstance(item, ReasoningItem)]
    if thought := "".join(part.text for item in thoughts for part in item.content):
        message |= style.to_reasoning(thought)
    calls = [item for item in response.output if isinstance(item, FunctionCallItem)]
    if calls:
        message["tool_calls"] = [to_call(call) for call in calls]
    return message


def to_call(call: FunctionCallItem) -> Json:
    function = {"name": call.name, "arguments": call.arguments}
    return {"id": call.call_id, "type": "function", "function": function}


def to_head(response: Response, kind: str) -> Json:
    """What begins every body and every chunk."""
    return {
        "id": response.response_id,
        "object": kind,
        "created": response.created_at,
        "model": response.model,
    }


def to_finish_reason(response: Response) -> FinishReason:
    if response.status == "incomplete":
        return "length"
    has_calls = any(isinstance(item, FunctionCallItem) for item in response.output)
    return "tool_calls" if has_calls else "stop"


def to_usage(response: Response) -> Json:
    usage = response.usage or Usage(0, 0)
    return {
        "prompt_tokens": usage.input_tokens,
        "completion_tokens": usage.output_tokens,
        "total_tokens": usage.input_tokens + usage.output_tokens,
        "prompt_tokens_details": {"cached_tokens": usage.cached_tokens},
        "completion_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
    }


# ── the stream ───────────────────────────────────────────────────────────────────────────────────


class ChunkWriter:
    """What the chunks of both routes share: a head, one choice, and perhaps a count at the end.

    A response that failed has no chunk of its end: its error is written in its place.
    """

    def __init__(self, kind: str, streams_usage: bool) -> None:
        self._kind = kind
        self._streams_usage = streams_usage
        self._head: Json = {}
        self._has_begun = False

    def begin(self, response: Response) -> None:
        self._head = to_head(response, self._kind)

    def beat(self) -> bytes:
        """A sign of life, but for the one that only says that the response has begun."""
        is_first, self._has_begun = not self._has_begun, True
        return b"" if is_first else COMMENT

    def chunk(self, choice: Json) -> bytes:
        usage = {"usage": None} if self._streams_usage else {}
        return encode_data({**self._head, "choices": [{"index": 0, **choice}], **usage})

    def end(self, response: Response) -> bytes:
        """What follows the last choice."""
        if not self._streams_usage:
            return DONE
        return encode_data({**self._head, "choices": [], "usage": to_usage(response)}) + DONE


class ChatChunkWriter:
    """The events of one response as chunks; most of the events that only frame others have none."""

    def __init__(self, style: ChatStyle) -> None:
        self._style = style
        self._chunks = ChunkWriter("chat.completion.chunk", style.streams_usage)
        self._num_calls = 0

    def write(self, event: StreamEvent) -> bytes:
        match event:
            case ResponseCreated(response):
                self._chunks.begin(response)
                return self._delta({"role": "assistant", "content": ""})
            case ResponseInProgress():
                return self._chunks.beat()
            case OutputTextDelta():
                logprobs = self._style.to_logprobs(event.logprobs) if event.logprobs else None
                return self._delta({"content": event.delta}, logprobs)
            case ReasoningTextDelta():
                return self._delta(self._style.to_reasoning(event.delta))
            case ItemAdded(item=FunctionCallItem() as call):
                self._num_calls += 1
                return self._call_delta(to_call(call))
            case ArgumentsDelta():
                return self._call_delta({"function": {"arguments": event.delta}})
            case ResponseEnded(response):
                last = self._delta({}, finish_reason=to_finish_reason(response))
                return last + self._chunks.end(response)
            case _:
                return b""

    def _call_delta(self, delta: Json) -> bytes:
        """A piece of the call that began last: calls come one after the other."""
        return self._delta({"tool_calls": [{"index": self._num_calls - 1, **delta}]})

    def _delta(
        self, delta: Json, logprobs: Json | None = None, finish_reason: FinishReason | None = None
    ) -> bytes:
        return self._chunks.chunk(
            {"delta": delta, "logprobs": logprobs, "finish_reason": finish_reason}
        )
