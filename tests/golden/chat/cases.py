"""The golden streams of Chat Completions and Completions: a request, and the engine's script."""

from typing import Any

from engine.errors import GenerationFailedError
from engine.types import (
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
from tests.support.scripted import Step, saying

Case = tuple[dict[str, Any], list[Step]]
"""Request, beside model and stream, and what the engine says to it."""

USAGE = {"stream_options": {"include_usage": True}}
FAILURE = GenerationFailedError("The model ran out of memory.")


def chat(text: str, **more: Any) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": text}], **more}


def tool(name: str) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name, "parameters": {"type": "object"}}}


TOOLS = {"tools": [tool("weather"), tool("clock")]}


def logprob(token: bytes, value: float, *top: tuple[bytes, float]) -> SampledLogprob:
    return SampledLogprob(
        TokenLogprob(token, value), tuple(TokenLogprob(each, its) for each, its in top)
    )


HEART = "💛".encode()
LIKELY: list[Step] = [
    GenerationStarted(5),
    TextDelta("Hi", 1, (logprob(b"Hi", -0.5, (b"Hi", -0.5), (b"Yo", -1.25)),)),
    TextDelta("💛!", 4, (
        logprob(HEART[:2], -1.0, (b" ", -0.75), (HEART[:2], -1.0)),
        logprob(HEART[2:], -0.0, (HEART[2:], -0.0), (b"\xff", -9.0)),
        logprob(b"!", -2.5, (b".", -0.25), (b"?", -1.5)),
    )),
    GenerationFinished("stop", 5),
]  # fmt: skip
TWO_CALLS: list[Step] = [
    GenerationStarted(20, cached_tokens=16),
    ReasoningDelta("Both.", 2),
    TextDelta("One moment.", 5),
    ToolCallStarted("weather", 6),
    ToolCallDelta('{"place": ', 7),
    ToolCallDelta('"Zürich"}', 9),
    ToolCallFinished(10),
    ToolCallStarted("clock", 11),
    ToolCallDelta("{}", 12),
    ToolCallFinished(13),
    GenerationFinished("stop", 14),
]

CHAT_CASES: dict[str, Case] = {
    "text": (chat("Greet me."), saying("Hel", "lo", " you.")),
    "usage": (chat("Greet me.", **USAGE), saying("Hello")),
    "empty": (chat("Say nothing.", **USAGE), saying()),
    "length": (chat("Count.", max_tokens=2), saying("1, ", "2, ", reason="length")),
    "multi_byte_characters": (
        chat("Ça va ? 🙂"),
        saying("Ça", " \u2028\u2029\x85", "👩\u200d", "👧", "\n\n\r\n", "data: [DONE]\x00"),
    ),
    "reasoning_and_text": (
        chat("Think.", **USAGE),
        [
            GenerationStarted(5),
            ReasoningDelta("Well", 1),
            ReasoningDelta(", well.", 3),
            TextDelta("Yes.", 5),
            GenerationFinished("stop", 6),
        ],
    ),
    "two_calls": (chat("Weather and time?", **TOOLS, **USAGE), TWO_CALLS),
    "one_call_where_two_would_come": (
        chat("Weather and time?", **TOOLS, parallel_tool_calls=False),
        TWO_CALLS,
    ),
    "cut_call": (
        chat("Weather?", **TOOLS, max_completion_tokens=3),
        [
            GenerationStarted(9),
            ToolCallStarted("weather", 2),
            ToolCallDelta('{"pla', 3),
            GenerationFinished("length", 3),
        ],
    ),
    "logprobs": (chat("Hi", logprobs=True, top_logprobs=2), LIKELY),
    "failure_after_the_first_byte": (
        chat("Count.", **USAGE),
        [GenerationStarted(5), TextDelta("1, ", 1), FAILURE],
    ),
    "stopped_by_the_server": (chat("Count."), saying("1, ", reason="abort")),
}

COMPLETION_CASES: dict[str, Case] = {
    "completion_text": ({"prompt": "One, two, "}, saying("three", ", four")),
    "completion_usage": ({"prompt": [1, 2], **USAGE}, saying("three", prompt_tokens=2)),
    "completion_empty": ({"prompt": ""}, saying(prompt_tokens=1)),
    "completion_length": ({"prompt": "1", "max_tokens": 1}, saying("2", reason="length")),
    "completion_logprobs": ({"prompt": "H", "logprobs": 2}, LIKELY),
    "completion_failure_after_the_first_byte": (
        {"prompt": "1"},
        [GenerationStarted(5), TextDelta("2", 1), FAILURE],
    ),
}
