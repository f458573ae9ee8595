"""The state machine of one response: engine events in, the events of a response out.

                 start                text, thinking, a call             end
    (nothing) ──────────▶ in progress ───────────────▶ an item open ──────────▶ ended
                               │    ◀────────────────     │    ▲                  ▲
                               │      the call is whole   └────┘                  │
                               │                     another kind of item         │
                               └────────────────────── end ───────────────────────┘

It is pure: no clock, no randomness, no I/O; times and ids are arguments. It is also the only place
where a response is put together, so that the stream, the reply to a caller who does not stream and
the stored record cannot differ: all three are `response()` at the end. The rules it keeps, whatever
comes in and however the text is cut:

- `ResponseCreated`, `ResponseInProgress`, then the output, then exactly one `ResponseEnded`, after
  which nothing more is accepted. `heartbeat` repeats `ResponseInProgress` anywhere between.
- At most one item is open, and items come one after the other. What the model thinks is a reasoning
  item, what it says a message, what it calls a function call; when it turns to another kind, or
  calls again, the open item is closed.
- An item that was announced is finished, and is in the final object under the same id, at the same
  index, with the text that its deltas add up to. This holds for a failed or cancelled response too.
- Items are `completed`, but the one that a length stop, a failure or a cancel cut is `incomplete`.
  A call that was whole before the cut stays `completed`: its caller may rely on it. One that is
  whole without arguments has an empty object, which every client can parse.
- An answer that comes to its end without a message or a call has a message with one empty part, so
  that a caller who reads the first part finds it; and so has an answer that is cut before its first
  character by its length. A failure or a cancel before the first character leaves no item.
- After `max_calls` calls the response is completed, whatever the engine would still say: whoever
  drives the machine looks at `has_ended` and stops the engine.
- Usage counts what the engine has sampled, also where the response ends early.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import assert_never

from deployments.resource.events import (
    ResponseCreated,
    ResponseEnded,
    ResponseInProgress,
    StreamEvent,
)
from deployments.resource.response import (
    ItemStatus,
    OutputItem,
    Response,
    ResponseFailure,
    Usage,
)
from deployments.translate.open_item import OpenCall, OpenItem, OpenMessage, OpenReasoning
from engine.types import (
    EngineEvent,
    GenerationFinished,
    GenerationStarted,
    ReasoningDelta,
    TextDelta,
    ToolCallDelta,
    ToolCallFinished,
    ToolCallStarted,
)


class ResponseStream:
    """One response from creation to end."""

    def __init__(
        self,
        response_id: str,
        model: str,
        created_at: int,
        make_id: Callable[[str], str],
        max_calls: int | None = None,
    ) -> None:
        """`make_id` gives an unused id a call, with the prefix that it is given (`msg`, `rs`, …).

        `max_calls` None sets no limit.
        """
        self._response = Response(response_id, created_at, "in_progress", model)
        self._make_id = make_id
        self._max_calls = max_calls
        self._done: list[OutputItem] = []
        self._open: OpenItem | None = None
        self._num_calls = 0
        self._prompt_tokens = 0
        self._cached_tokens = 0
        self._output_tokens = 0
        self._reasoning_tokens = 0

    @property
    def has_ended(self) -> bool:
        return self._response.status != "in_progress"

    def response(self) -> Response:
        """The response as it stands, an open item with what it has so far included."""
        output = list(self._done)
        if self._open is not None:
            output.append(self._open.item("in_progress"))
        return replace(self._response, output=tuple(output))

    def start(self) -> list[StreamEvent]:
        return [ResponseCreated(self.response()), ResponseInProgress(self.response())]

    def heartbeat(self) -> list[StreamEvent]:
        """What fills a silence: a sign of life that carries the response as it stands.

        Raises:
            RuntimeError: where the response has ended.
        """
        self._check_open()
        return [ResponseInProgress(self.response())]

    def feed(self, event: EngineEvent, now: int) -> list[StreamEvent]:
        """What an engine event makes of the response; `now` in seconds since the Unix epoch.

        Raises:
            RuntimeError: where the response has ended, or arguments come without their call.
        """
        self._check_open()
        match event:
            case TextDelta():
                self._output_tokens = event.num_tokens
                return self._add_text(event, now)
            case ReasoningDelta():
                self._reasoning_tokens += event.num_tokens - self._output_tokens
                self._output_tokens = event.num_tokens
                return self._add_reasoning(event.text, now)
            case ToolCallDelta():
                self._output_tokens = event.num_tokens
                return [self._open_call().add(event.arguments)] if event.arguments else []
            case ToolCallStarted():
                self._output_tokens = event.num_tokens
                return self._start_call(event.name, now)
            case ToolCallFinished():
                self._output_tokens = event.num_tokens
                self._open_call()
                return self._leave_item(now)
            case GenerationStarted():
                self._prompt_tokens = event.prompt_tokens
                self._cached_tokens = event.cached_tokens
                return []
            case GenerationFinished():
                self._output_tokens = event.output_tokens
                return self._finish(event, now)
        assert_never(event)

    def fail(
        self, message: str, is_temporary: bool = False, code: str = "server_error"
    ) -> list[StreamEvent]:
        """End the response as failed; `message` and `code` are what the caller is told.

        Raises:
            RuntimeError: where the response has ended.
        """
        self._check_open()
        failure = ResponseFailure(code, message, is_temporary)
        return self._end("incomplete", replace(self._response, status="failed", failure=failure))

    def cancel(self) -> list[StreamEvent]:
        """End the response as cancelled, with the output so far.

        Raises:
            RuntimeError: where the response has ended.
        """
        self._check_open()
        return self._end("incomplete", replace(self._response, status="cancelled"))

    def _finish(self, event: GenerationFinished, now: int) -> list[StreamEvent]:
        match event.reason:
            case "stop":
                return [*self._say_something(now), *self._complete(now)]
            case "length":
                said = [] if self._has_output else self._say_something(now)
                ended = replace(
                    self._response, status="incomplete", incomplete_reason="max_output_tokens"
                )
                return [*said, *self._end("incomplete", ended)]
            case "abort":
                return self.cancel()
        assert_never(event.reason)

    def _complete(self, now: int) -> list[StreamEvent]:
        return self._end("completed", replace(self._response, status="completed", completed_at=now))

    # ── items ────────────────────────────────────────────────────────────────────────────────────

    @property
    def _has_output(self) -> bool:
        return bool(self._done) or self._open is not None

    def _add_text(self, event: TextDelta, now: int) -> list[StreamEvent]:
        if not event.text:
            return []
        if isinstance(self._open, OpenMessage):
            return [self._open.add(event.text, event.logprobs)]
        left = self._leave_item(now)
        if self.has_ended:
            return left
        message = OpenMessage(self._make_id("msg"), len(self._done))
        return [*left, *self._enter(message), message.add(event.text, event.logprobs)]

    def _add_reasoning(self, text: str, now: int) -> list[StreamEvent]:
        if not text:
            return []
        if isinstance(self._open, OpenReasoning):
            return [self._open.add(text)]
        left = self._leave_item(now)
        if self.has_ended:
            return left
        reasoning = OpenReasoning(self._make_id("rs"), len(self._done))
        return [*left, *self._enter(reasoning), reasoning.add(text)]

    def _start_call(self, name: str, now: int) -> list[StreamEvent]:
        left = self._leave_item(now)
        if self.has_ended:
            return left
        self._num_calls += 1
        item_id, call_id = self._make_id("fc"), self._make_id("call")
        return [*left, *self._enter(OpenCall(item_id, len(self._done), call_id, name))]

    def _open_call(self) -> OpenCall:
        if not isinstance(self._open, OpenCall):
            raise RuntimeError("the engine tells of a call that has not started")
        return self._open

    def _say_something(self, now: int) -> list[StreamEvent]:
        """An empty message where the answer has neither a message nor a call."""
        kinds = {item.kind for item in self.response().output}
        if kinds & {"message", "function_call"}:
            return []
        left = self._leave_item(now)
        return [*left, *self._enter(OpenMessage(self._make_id("msg"), len(self._done)))]

    def _enter(self, item: OpenItem) -> list[StreamEvent]:
        self._open = item
        return item.open()

    def _leave_item(self, now: int) -> list[StreamEvent]:
        """Close the open item, if any; after the last call allowed the response is whole."""
        is_last = isinstance(self._open, OpenCall) and self._num_calls == self._max_calls
        closed = self._close("completed")
        return [*closed, *self._complete(now)] if is_last else closed

    def _close(self, status: ItemStatus) -> list[StreamEvent]:
        if self._open is None:
            return []
        item, self._open = self._open, None
        closed = item.close(status)
        self._done.append(item.item(status))
        return closed

    def _end(self, item_status: ItemStatus, ended: Response) -> list[StreamEvent]:
        closed = self._close(item_status)
        usage = Usage(
            self._prompt_tokens, self._output_tokens, self._cached_tokens, self._reasoning_tokens
        )
        self._response = replace(ended, usage=usage)
        return [*closed, ResponseEnded(self.response())]

    def _check_open(self) -> None:
        if self.has_ended:
            raise RuntimeError(f"response {self._response.response_id} has ended")
