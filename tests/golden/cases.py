"""The golden streams: what is asked of a scripted engine, and what it says to that."""

import math
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
    ToolCallStarted,
)
from tests.support.scripted import Silence, Step, calling, saying, thinking
from tests.support.serving import playing, serving

Case = tuple[dict[str, Any], list[Step]]

FIND = {
    "type": "function",
    "name": "find",
    "description": "Finds things.",
    "parameters": {"type": "object", "properties": {"q": {"type": "string"}}},
    "strict": True,
}
NOW = {"type": "function", "name": "now"}
TOOLS = {"input": "Find ü.", "tools": [FIND, NOW]}
STARTED = GenerationStarted(5)
FAILURE = GenerationFailedError("The model ran out of memory.")
PAUSE = Silence()


def logprob(token: bytes, value: float, *others: tuple[bytes, float]) -> SampledLogprob:
    top = tuple(TokenLogprob(*other) for other in others)
    return SampledLogprob(TokenLogprob(token, value), top)


# Request, beside model and stream, and what the engine says to it.
TEXTS: dict[str, Case] = {
    "text": ({"input": "Greet me."}, saying("Hel", "lo", " you.")),
    "empty_text": ({"input": "Say nothing."}, saying(prompt_tokens=4)),
    "multi_byte_characters": (
        {"input": "Ça va ? 🙂", "instructions": "Réponds.\u2028Vite."},
        saying("Ça", " \u2028\u2029\x85", "🙂", "👩\u200d", "👧", "\n\n\r\n", "data: [DONE]\x00"),
    ),
    "logprobs": (
        {"input": "Smile.", "top_logprobs": 2},
        [
            STARTED,
            TextDelta("Hi ", 1, (logprob(b"Hi ", -0.25, (b"Hi ", -0.25), (b"Ho ", -1.5)),)),
            TextDelta(
                "🙂",
                3,
                (
                    logprob(b"\xf0\x9f", -0.5, (b"\xf0\x9f", -0.5), (b"!", -math.inf)),
                    logprob(b"\x99\x82", 0.0, (b"\x99\x82", 0.0), (b"\x99\x83", -20.0)),
                ),
            ),
            GenerationFinished("stop", 4),
        ],
    ),
    "all_echoes": (
        {
            "input": [
                {"role": "developer", "content": [{"type": "input_text", "text": "Rhyme."}]},
                {"role": "user", "content": "Hi"},
            ],
            "instructions": "Sing.",
            "temperature": 0,
            "top_p": 0.5,
            "presence_penalty": 0.5,
            "frequency_penalty": -0.5,
            "max_output_tokens": 7,
            "max_tool_calls": 3,
            "metadata": {"k": "v"},
            "parallel_tool_calls": False,
            "prompt_cache_key": "key",
            "reasoning": {"effort": "low"},
            "safety_identifier": "safe",
            "service_tier": "flex",
            "text": {
                "format": {
                    "type": "json_schema",
                    "name": "song",
                    "schema": {"type": "object", "properties": {"La": {"type": "string"}}},
                },
                "verbosity": "low",
            },
            "tools": [FIND, NOW],
            "tool_choice": {"type": "allowed_tools", "mode": "auto", "tools": [NOW]},
            "user": "me",
        },
        [
            GenerationStarted(9, cached_tokens=8),
            (TextDelta('{"La":', 2), TextDelta('"la"}', 3), GenerationFinished("stop", 4)),
        ],
    ),
    "echo_of_a_named_function": (
        {**TOOLS, "tool_choice": {"type": "function", "name": "now"}, "store": False},
        [STARTED, *calling("now", "{}"), GenerationFinished("stop", 4)],
    ),
}
REASONING: dict[str, Case] = {
    "reasoning_and_text": (
        {"input": "Greet me."},
        [
            STARTED,
            *thinking("Ü", "ber", "legt."),
            TextDelta("Hel", 5),
            TextDelta("lo", 6),
            GenerationFinished("stop", 7),
        ],
    ),
    "reasoning_alone": (
        {"input": "Say nothing."},
        [STARTED, *thinking("Noth", "ing."), GenerationFinished("stop", 4)],
    ),
    "reasoning_after_text": (
        {"input": "Think twice."},
        [
            STARTED,
            *thinking("Hm"),
            TextDelta("Well", 2),
            ReasoningDelta("Hm hm", 4),
            TextDelta(", yes.", 5),
            GenerationFinished("stop", 6),
        ],
    ),
}
CALLS: dict[str, Case] = {
    "one_call": (
        TOOLS,
        [STARTED, *calling("find", '{"q":', '"ü"}'), GenerationFinished("stop", 5)],
    ),
    "two_calls": (
        TOOLS,
        [
            STARTED,
            *calling("find", '{"q":', '"ü"}'),
            *calling("now", "{}", before=4),
            GenerationFinished("stop", 8),
        ],
    ),
    "call_after_reasoning_and_text": (
        TOOLS,
        [
            STARTED,
            *thinking("Look", " it up."),
            TextDelta("One moment.", 5),
            *calling("find", '{"q":"ü"}', before=5),
            GenerationFinished("stop", 9),
        ],
    ),
    "call_without_arguments": (TOOLS, [STARTED, *calling("now"), GenerationFinished("stop", 3)]),
    "call_of_an_empty_object": (
        TOOLS,
        [STARTED, *calling("now", "{}"), GenerationFinished("stop", 4)],
    ),
    "max_tool_calls": (
        {**TOOLS, "max_tool_calls": 2},
        [
            STARTED,
            *calling("now", "{}"),
            *calling("now", "{}", before=3),
            *calling("now", "{}", before=6),
            GenerationFinished("stop", 10),
        ],
    ),
    "no_parallel_tool_calls": (
        {**TOOLS, "parallel_tool_calls": False},
        [
            STARTED,
            (*calling("find", '{"q":"ü"}'), *calling("now", "{}", before=3)),
            GenerationFinished("stop", 7),
        ],
    ),
}
ENDS: dict[str, Case] = {
    "length_stop": (
        {"input": "Count.", "max_output_tokens": 2},
        saying("1, ", "2, ", reason="length"),
    ),
    "length_stop_before_the_first_character": (
        {"input": "Smile.", "max_output_tokens": 1},
        [STARTED, GenerationFinished("length", 1)],
    ),
    "length_stop_in_reasoning": (
        {"input": "Count.", "max_output_tokens": 2},
        [STARTED, *thinking("Let", " me"), GenerationFinished("length", 2)],
    ),
    "length_stop_in_a_call": (
        {**TOOLS, "max_output_tokens": 6},
        [
            STARTED,
            *calling("now", "{}"),
            ToolCallStarted("find", 4),
            ToolCallDelta('{"q":', 5),
            GenerationFinished("length", 6),
        ],
    ),
    "cancel": ({"input": "Count.", "store": False}, saying("1, ", "2, ", reason="abort")),
    "cancel_before_the_first_character": ({"input": "Count."}, saying(reason="abort")),
    "cancel_in_reasoning": (
        {"input": "Count."},
        [STARTED, *thinking("Let", " me"), GenerationFinished("abort", 2)],
    ),
    "cancel_in_a_call": (
        TOOLS,
        [
            STARTED,
            ToolCallStarted("find", 1),
            ToolCallDelta('{"q":', 2),
            GenerationFinished("abort", 3),
        ],
    ),
    "failure_after_the_first_byte": ({"input": "Count."}, [STARTED, TextDelta("1, ", 1), FAILURE]),
    "failure_before_the_first_character": ({"input": "Count."}, [STARTED, FAILURE]),
    "failure_in_a_call": (
        TOOLS,
        [STARTED, ToolCallStarted("find", 1), ToolCallDelta('{"q":', 2), FAILURE],
    ),
}
HEARTBEATS: dict[str, Case] = {
    "heartbeat_before_any_output": (
        {"input": "Greet me."},
        [STARTED, PAUSE, TextDelta("Hello", 1), GenerationFinished("stop", 2)],
    ),
    "heartbeat_in_reasoning": (
        {"input": "Greet me."},
        [
            STARTED,
            *thinking("Hm"),
            PAUSE,
            *thinking("hm", before=1),
            TextDelta("Hello", 4),
            GenerationFinished("stop", 5),
        ],
    ),
    "heartbeat_in_a_text": (
        {"input": "Greet me.", "include": ["message.output_text.logprobs"]},
        [
            STARTED,
            TextDelta("Hel", 1, (logprob(b"Hel", -1.0),)),
            PAUSE,
            TextDelta("lo", 2, (logprob(b"lo", -0.5),)),
            PAUSE,
            GenerationFinished("stop", 3),
        ],
    ),
    "heartbeat_in_a_call": (
        TOOLS,
        [
            STARTED,
            ToolCallStarted("find", 1),
            PAUSE,
            ToolCallDelta('{"q":', 2),
            PAUSE,
            *calling("find", '"ü"}', before=1)[1:],
            GenerationFinished("stop", 5),
        ],
    ),
    "heartbeat_between_items": (
        TOOLS,
        [
            STARTED,
            *calling("now", "{}"),
            PAUSE,
            *calling("find", '{"q":"ü"}', before=3),
            GenerationFinished("stop", 7),
        ],
    ),
}
CASES: dict[str, Case] = {**TEXTS, **REASONING, **CALLS, **ENDS, **HEARTBEATS}


def without_silences(script: list[Step]) -> list[Step]:
    return [step for step in script if not isinstance(step, Silence)]


async def record(name: str) -> bytes:
    """A case's stream as a client reads it, who makes each silence last for one heartbeat."""
    request, script = CASES[name]
    engine = playing(*script)
    body = {"model": "scripted", "stream": True, **request}
    heartbeat_s = 0.001 if PAUSE in script else 60
    read = b""
    async with (
        serving(engine, heartbeat_s=heartbeat_s) as served,
        served.http.stream("POST", "/v1/responses", json=body) as reply,
    ):
        assert reply.status_code == 200
        async for chunk in reply.aiter_raw():
            read += chunk
            if engine.is_silent and chunk.startswith(b"event: response.in_progress\n"):
                await engine.end_silence()
    return read
