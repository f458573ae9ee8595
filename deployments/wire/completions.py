"""A response and its stream as Completions spells them (OpenAI's `Completion`, for both)."""

import codecs
from dataclasses import dataclass
from typing import Any

from deployments.resource.events import (
    OutputTextDelta,
    ResponseCreated,
    ResponseEnded,
    ResponseInProgress,
    StreamEvent,
)
from deployments.resource.response import MessageItem, Response
from deployments.wire.chat import ChunkWriter, to_finish_reason, to_head, to_usage
from engine.types import SampledLogprob, TokenLogprob

Json = dict[str, Any]

KIND = "text_completion"


@dataclass(frozen=True, slots=True)
class CompletionStyle:
    """How a reply is written."""

    has_logprobs: bool = False
    streams_usage: bool = False


class LegacyLogprobs:
    """Log probabilities in four lists of one length, as this route alone has them.

    `text_offset` counts characters from the completion's start. A token that begins inside a
    character has the offset of that character.
    """

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self._num_characters = 0

    def feed(self, sampled: tuple[SampledLogprob, ...]) -> Json:
        """The lists of the next tokens."""
        return {
            "tokens": [to_token(each.sampled) for each in sampled],
            "token_logprobs": [each.sampled.logprob for each in sampled],
            "top_logprobs": [to_alternatives(each) for each in sampled],
            "text_offset": [self._pass(each.sampled) for each in sampled],
        }

    def _pass(self, token: TokenLogprob) -> int:
        """The offset of a token, which is left behind."""
        offset = self._num_characters
        self._num_characters += len(self._decoder.decode(token.token))
        return offset


def to_token(token: TokenLogprob) -> str:
    r"""A token as text; one that is no whole characters as OpenAI spells it, `bytes:\xf0\x9f`."""
    try:
        return token.token.decode()
    except UnicodeDecodeError:
        return "bytes:" + "".join(f"\\x{byte:02x}" for byte in token.token)


def to_alternatives(sampled: SampledLogprob) -> dict[str, float]:
    """The likeliest tokens and, in any case, the one that was sampled."""
    tokens = (*sampled.top, sampled.sampled)
    return {to_token(token): token.logprob for token in tokens}


def to_completion(response: Response, style: CompletionStyle) -> Json:
    """The reply to a request that is not streamed, of a response that has ended well."""
    logprobs = tuple(
        each
        for item in response.output
        if isinstance(item, MessageItem)
        for part in item.content
        for each in part.logprobs
    )
    choice = {
        "index": 0,
        "text": response.output_text,
        "logprobs": LegacyLogprobs().feed(logprobs) if style.has_logprobs else None,
        "finish_reason": to_finish_reason(response),
    }
    return {**to_head(response, KIND), "choices": [choice], "usage": to_usage(response)}


class CompletionChunkWriter:
    """The events of one response as chunks: its texts, its end, and a sign of life between."""

    def __init__(self, style: CompletionStyle) -> None:
        self._chunks = ChunkWriter(KIND, style.streams_usage)
        self._logprobs = LegacyLogprobs() if style.has_logprobs else None

    def write(self, event: StreamEvent) -> bytes:
        match event:
            case ResponseCreated(response):
                self._chunks.begin(response)
                return b""
            case ResponseInProgress():
                return self._chunks.beat()
            case OutputTextDelta():
                return self._text(event.delta, event.logprobs)
            case ResponseEnded(response):
                last = self._text("", (), to_finish_reason(response))
                return last + self._chunks.end(response)
            case _:
                return b""

    def _text(
        self, text: str, sampled: tuple[SampledLogprob, ...], finish_reason: str | None = None
    ) -> bytes:
        logprobs = self._logprobs.feed(sampled) if self._logprobs and sampled else None
        return self._chunks.chunk(
            {"text": text, "logprobs": logprobs, "finish_reason": finish_reason}
        )
