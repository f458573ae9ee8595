"""The state machine of one response: engine events in, the events of a response out.

                 start                    text                     end
    (nothing) ──────────▶ in progress ──────────▶ message open ──────────▶ ended
                               │                                             ▲
                               └────────────────── end ──────────────────────┘

It is pure: no clock, no randomness, no I/O; times and ids are arguments. It is also the only place
where a response is put together, so that the stream, the reply to a caller who does not stream and
the stored record cannot differ: all three are `response()` at the end. The rules it keeps, whatever
comes in and however the text is cut:

- `ResponseCreated`, `ResponseInProgress`, then the output, then exactly one `ResponseEnded`, after
  which nothing more is accepted.
- An item that was announced is finished, and is in the final object under the same id, at the same
  index, with the text that its deltas add up to. This holds for a failed or cancelled response too.
- Items are `completed`, but the one that a length stop, a failure or a cancel cut is `incomplete`.
- An answer without a single character is a message with one empty part, so that a caller who reads
  the first part of the first item finds it. A failure or a cancel before the first character leaves
  no item.
- Usage counts what the engine has sampled, also where the response ends early.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import assert_never

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
    ItemStatus,
    MessageItem,
    OutputItem,
    OutputText,
    Response,
    ResponseFailure,
    Usage,
)
from engine.types import EngineEvent, GenerationFinished, GenerationStarted, TextDelta


class ResponseStream:
    """One response from creation to end. `new_item_id` gives an unused `msg_…` id a call."""

    def __init__(
        self, response_id: str, model: str, created_at: int, new_item_id: Callable[[], str]
    ) -> None:
        self._response = Response(response_id, created_at, "in_progress", model)
        self._new_item_id = new_item_id
        self._done: list[OutputItem] = []
        self._message_id: str | None = None
        self._text: list[str] = []
        self._usage = Usage(0, 0)

    @property
    def has_ended(self) -> bool:
        return self._response.status != "in_progress"

    def response(self) -> Response:
        """The response as it stands, an open message with the text so far included."""
        output = list(self._done)
        if self._message_id is not None:
            output.append(self._message("in_progress"))
        return replace(self._response, output=tuple(output))

    def start(self) -> list[StreamEvent]:
        return [ResponseCreated(self.response()), ResponseInProgress(self.response())]

    def feed(self, event: EngineEvent, now: int) -> list[StreamEvent]:
        """What an engine event makes of the response; `now` in seconds since the Unix epoch.

        Raises:
            RuntimeError: where the response has ended.
        """
        self._check_open()
        match event:
            case GenerationStarted():
                self._usage = Usage(event.prompt_tokens, 0, event.cached_tokens)
                return []
            case TextDelta():
                self._usage = replace(self._usage, output_tokens=event.num_tokens)
                return self._add_text(event.text)
            case GenerationFinished():
                self._usage = replace(self._usage, output_tokens=event.output_tokens)
                return self._finish(event, now)
        assert_never(event)

    def fail(self, message: str, is_temporary: bool = False) -> list[StreamEvent]:
        """End the response as failed; `message` is what the caller is told."""
        self._check_open()
        failure = ResponseFailure("server_error", message, is_temporary)
        return self._end("incomplete", replace(self._response, status="failed", failure=failure))

    def cancel(self) -> list[StreamEvent]:
        """End the response as cancelled, with the output so far."""
        self._check_open()
        return self._end("incomplete", replace(self._response, status="cancelled"))

    def _finish(self, event: GenerationFinished, now: int) -> list[StreamEvent]:
        response = self._response
        match event.reason:
            case "stop":
                ended = replace(response, status="completed", completed_at=now)
                return [*self._open_message(), *self._end("completed", ended)]
            case "length":
                ended = replace(
                    response, status="incomplete", incomplete_reason="max_output_tokens"
                )
                return [*self._open_message(), *self._end("incomplete", ended)]
            case "abort":
                return self.cancel()
        assert_never(event.reason)

    def _add_text(self, text: str) -> list[StreamEvent]:
        opened = self._open_message()
        self._text.append(text)
        assert self._message_id is not None
        return [*opened, OutputTextDelta(self._message_id, len(self._done), 0, text)]

    def _open_message(self) -> list[StreamEvent]:
        if self._message_id is not None:
            return []
        self._message_id = self._new_item_id()
        index = len(self._done)
        return [
            ItemAdded(index, MessageItem(self._message_id, "in_progress", ())),
            PartAdded(self._message_id, index, 0, OutputText("")),
        ]

    def _close_message(self, status: ItemStatus) -> list[StreamEvent]:
        if self._message_id is None:
            return []
        item, index = self._message(status), len(self._done)
        part = item.content[0]
        self._done.append(item)
        self._message_id = None
        self._text.clear()
        return [
            OutputTextDone(item.item_id, index, 0, part.text),
            PartDone(item.item_id, index, 0, part),
            ItemDone(index, item),
        ]

    def _message(self, status: ItemStatus) -> MessageItem:
        assert self._message_id is not None
        return MessageItem(self._message_id, status, (OutputText("".join(self._text)),))

    def _end(self, item_status: ItemStatus, ended: Response) -> list[StreamEvent]:
        closed = self._close_message(item_status)
        self._response = replace(ended, usage=self._usage)
        return [*closed, ResponseEnded(self.response())]

    def _check_open(self) -> None:
        if self.has_ended:
            raise RuntimeError(f"response {self._response.response_id} has ended")
