"""Turns of a conversation, put together from the items or messages of a request, in their order.

It keeps RA's rules that span several items:

- What a model thought goes with the assistant's turn that follows, or stands alone.
- Calls join the assistant's turn just before them, unless something was thought in between.
- Pictures and other media stay in the user's turns. Templates render them nowhere else, so those of
  another turn follow it in a user's turn of their own; a function's output then says so in a line.
- An output answers the latest unanswered call with its id.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from deployments.errors import InvalidRequestError
from deployments.translate.media import PlacedMedia
from engine.types import ChatMessage, Media, Role, ToolCall

MOVED = "[Image output attached in the next message]"

TurnPart = str | PlacedMedia


@dataclass(slots=True)
class Conversation:
    """Add what a request has, in its order; then take `messages`."""

    media: list[PlacedMedia] = field(default_factory=list)
    """All media so far, with their places."""
    _messages: list[ChatMessage] = field(default_factory=list)
    _thoughts: list[str] = field(default_factory=list)
    _called: set[str] = field(default_factory=set)
    _unanswered: set[str] = field(default_factory=set)
    _calls: list[ToolCall] = field(default_factory=list)
    """Those of the last turn, which may get more."""

    @property
    def messages(self) -> tuple[ChatMessage, ...]:
        """The turns; thoughts that no turn followed are a turn of their own."""
        if not self._calls:
            return (*self._messages, *self._trailing())
        return (*self._messages[:-1], self._last_with_calls(), *self._trailing())

    def add_turn(self, role: Role, parts: Sequence[TurnPart]) -> None:
        """A turn of anyone but a tool; its texts are joined with newlines."""
        placed = [part for part in parts if isinstance(part, PlacedMedia)]
        self.media += placed
        if role == "user" and placed:
            self._flush_thoughts()
            content = tuple(to_content(part) for part in parts)
            self._append(ChatMessage("user", content))
            return
        if role == "assistant":
            self._add_assistant(join_texts(parts))
        else:
            self._flush_thoughts()
            self._append(ChatMessage(role, join_texts(parts)))
        self._add_moved(placed)

    def add_reasoning(self, text: str) -> None:
        """What the model thought before the assistant's next turn."""
        if text:
            self._thoughts.append(text)

    def add_call(self, call: ToolCall, param: str) -> None:
        """A call by the assistant; `param` is where its id stands.

        Raises:
            InvalidRequestError: where an earlier call with this id has no answer yet.
        """
        if call.call_id in self._unanswered:
            raise InvalidRequestError(
                f"Two calls with the id '{call.call_id}' are without an answer: which one an "
                "output belongs to cannot be told.",
                param,
                "invalid_value",
            )
        self._called.add(call.call_id)
        self._unanswered.add(call.call_id)
        is_open = bool(self._messages) and self._messages[-1].role == "assistant"
        if not is_open or self._thoughts:
            self._add_assistant("")
        self._calls.append(call)

    def check_is_called(self, call_id: str, param: str) -> None:
        """There is a call with this id so far.

        Raises:
            InvalidRequestError: where there is none.
        """
        if call_id not in self._called:
            raise InvalidRequestError(
                f"No call with the id '{call_id}' is in what went before: which function gave this "
                "output cannot be told.",
                param,
                "invalid_value",
            )

    def add_output(self, call_id: str, parts: Sequence[TurnPart]) -> None:
        """What a function gave; a call with this id need not be there (RA)."""
        self._flush_thoughts()
        self._unanswered.discard(call_id)
        placed = [part for part in parts if isinstance(part, PlacedMedia)]
        self.media += placed
        lines = [part for part in parts if isinstance(part, str)]
        content = "\n".join([*lines, MOVED] if placed else lines)
        self._append(ChatMessage("tool", content, call_id=call_id))
        self._add_moved(placed)

    def _add_assistant(self, content: str) -> None:
        thoughts = "\n".join(self._thoughts) or None
        self._thoughts.clear()
        self._append(ChatMessage("assistant", content, thoughts))

    def _trailing(self) -> list[ChatMessage]:
        """The turn of thoughts that none has followed yet."""
        thoughts = "\n".join(self._thoughts)
        return [ChatMessage("assistant", "", thoughts)] if thoughts else []

    def _add_moved(self, placed: Sequence[PlacedMedia]) -> None:
        if placed:
            content = tuple(each.media for each in placed)
            self._append(ChatMessage("user", content))

    def _flush_thoughts(self) -> None:
        if self._thoughts:
            self._add_assistant("")

    def _append(self, message: ChatMessage) -> None:
        """A turn after the last one, which gets no more calls."""
        if self._calls:
            self._messages[-1] = self._last_with_calls()
            self._calls.clear()
        self._messages.append(message)

    def _last_with_calls(self) -> ChatMessage:
        """All at once: one by one, each would copy those before it."""
        return replace(self._messages[-1], tool_calls=tuple(self._calls))


def join_texts(parts: Sequence[TurnPart]) -> str:
    return "\n".join(part for part in parts if isinstance(part, str))


def to_content(part: TurnPart) -> str | Media:
    return part if isinstance(part, str) else part.media


def check_says_something(messages: Sequence[ChatMessage], *params: str) -> None:
    """RA's effective-input check; `params` are the route's names for its input, the main one first.

    Raises:
        InvalidRequestError: where there is no word, no medium, no call and no thought anywhere.
    """
    if not any(says_something(message) for message in messages):
        raise InvalidRequestError(
            f"The request has no effective input: give {' or '.join(map(repr, params))} some text.",
            params[0],
            "missing_required_parameter",
        )


def says_something(message: ChatMessage) -> bool:
    if message.tool_calls or (message.reasoning or "").strip():
        return True
    if isinstance(message.content, str):
        return bool(message.content.strip())
    return any(isinstance(part, Media) or part.strip() for part in message.content)
