"""Reads generations of an engine to their end."""

from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

from engine.types import (
    ChatMessage,
    Engine,
    EngineEvent,
    GenerateRequest,
    GenerationFinished,
    GenerationStarted,
    SampledLogprob,
    SamplingParams,
    TextDelta,
)

GREEDY = SamplingParams(temperature=0.0)


@dataclass(frozen=True)
class Generated:
    """All that came of a generation."""

    text: str
    finished: GenerationFinished
    prompt_tokens: int
    logprobs: tuple[SampledLogprob, ...] = ()


def ask(
    name: str,
    text: str,
    max_tokens: int | None = 24,
    sampling: SamplingParams = GREEDY,
    **more: Any,
) -> GenerateRequest:
    """A request of one turn; `more` are further fields of it."""
    return GenerateRequest(name, (ChatMessage("user", text),), sampling, max_tokens, **more)


async def generate(engine: Engine, request: GenerateRequest) -> Generated:
    events: list[EngineEvent] = []
    async with aclosing(engine.generate(request)) as batches:
        async for batch in batches:
            events += batch
    started, *deltas, finished = events
    assert isinstance(started, GenerationStarted)
    assert isinstance(finished, GenerationFinished)
    texts = [delta for delta in deltas if isinstance(delta, TextDelta)]
    assert len(texts) == len(deltas)
    return Generated(
        "".join(delta.text for delta in texts),
        finished,
        started.prompt_tokens,
        tuple(logprob for delta in texts for logprob in delta.logprobs),
    )
