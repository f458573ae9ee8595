"""However an engine's output is cut, a stream adds up to the reply that is not streamed."""

import itertools
from typing import Any, Literal

from hypothesis import given, settings
from hypothesis import strategies as st

from deployments.resource.events import StreamEvent
from deployments.translate.stream import ResponseStream
from deployments.wire.chat import ChatChunkWriter, ChatStyle, to_chat_completion
from deployments.wire.completions import CompletionChunkWriter, CompletionStyle, to_completion
from engine.types import (
    EngineEvent,
    FinishReason,
    GenerationFinished,
    GenerationStarted,
    ReasoningDelta,
    SampledLogprob,
    TextDelta,
    TokenLogprob,
    ToolCallDelta,
    ToolCallFinished,
    ToolCallStarted,
)
from tests.support.chat_oracles import check_body
from tests.support.chat_streams import join_chat, join_completion, read_chunks

Json = dict[str, Any]
Segment = tuple[Literal["text", "thought", "call"], str]

NOW_S = 1_700_000_000
ENDS: st.SearchStrategy[FinishReason] = st.sampled_from(("stop", "length"))
TEXTS = st.text(max_size=12) | st.sampled_from(["é🙂\u2028", '"}\n\ndata: [DONE]\n\n', "\r\n"])
SEGMENTS = st.lists(st.tuples(st.sampled_from(("text", "thought", "call")), TEXTS), max_size=5)
CUTS = st.integers(1, 5)
limits = settings(max_examples=2 * settings().max_examples, deadline=None)


def say(segments: list[Segment], size: int, reason: FinishReason) -> list[EngineEvent]:
    """What an engine says in pieces of so many characters, each of which is a token."""
    numbers = itertools.count(1)
    events: list[EngineEvent] = [GenerationStarted(5, 3)]
    for kind, text in segments:
        if kind == "call":
            events.append(ToolCallStarted("f", next(numbers)))
        for piece in (text[start : start + size] for start in range(0, len(text), size)):
            number = [next(numbers) for _ in piece][-1]
            match kind:
                case "text":
                    events.append(TextDelta(piece, number, to_logprobs(piece)))
                case "thought":
                    events.append(ReasoningDelta(piece, number))
                case "call":
                    events.append(ToolCallDelta(piece, number))
        if kind == "call":
            events.append(ToolCallFinished(next(numbers)))
    return [*events, GenerationFinished(reason, next(numbers))]


def to_logprobs(piece: str) -> tuple[SampledLogprob, ...]:
    return tuple(SampledLogprob(TokenLogprob(each.encode(), -0.5), ()) for each in piece)


def play(events: list[EngineEvent], num_beats: int) -> tuple[ResponseStream, list[StreamEvent]]:
    """The machine at its end, and all its events, with signs of life in the middle."""
    numbers = itertools.count(1)
    machine = ResponseStream("id_1", "m", NOW_S, lambda prefix: f"{prefix}_{next(numbers)}")
    said = machine.start()
    for event in events:
        said += machine.feed(event, NOW_S)
        if not machine.has_ended:
            said += machine.heartbeat() * num_beats
    return machine, said


def without_blanks(body: Json) -> Json:
    """A whole reply where an empty content or an empty list is none, as a stream cannot tell."""
    (choice,) = body["choices"]
    choice["message"]["content"] = choice["message"]["content"] or None
    if not choice["logprobs"]["content"]:
        choice["logprobs"] = None
    return body


@limits
@given(SEGMENTS, CUTS, CUTS, ENDS, st.integers(0, 2))
def test_a_chat_is_the_same_however_it_is_cut(
    segments: list[Segment], size: int, other_size: int, reason: FinishReason, num_beats: int
) -> None:
    style = ChatStyle(True, True, ("reasoning_content", "reasoning"))
    _, said = play(say(segments, size, reason), num_beats)
    writer = ChatChunkWriter(style)
    stream = b"".join(map(writer.write, said))
    machine, _ = play(say(segments, other_size, reason), 0)
    whole = to_chat_completion(machine.response(), style)
    check_body(whole)
    assert join_chat(read_chunks(stream)) == without_blanks(whole)


@limits
@given(TEXTS, CUTS, CUTS, ENDS, st.integers(0, 2))
def test_a_completion_is_the_same_however_it_is_cut(
    text: str, size: int, other_size: int, reason: FinishReason, num_beats: int
) -> None:
    style = CompletionStyle(has_logprobs=bool(text), streams_usage=True)
    _, said = play(say([("text", text)], size, reason), num_beats)
    writer = CompletionChunkWriter(style)
    stream = b"".join(map(writer.write, said))
    machine, _ = play(say([("text", text)], other_size, reason), 0)
    whole = to_completion(machine.response(), style)
    check_body(whole)
    assert join_completion(read_chunks(stream)) == whole
