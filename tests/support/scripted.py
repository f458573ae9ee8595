"""An engine without a model: it plays a script, with the real engine's face."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import dataclass, field

from engine.types import (
    EngineEvent,
    EngineStats,
    FinishReason,
    GenerateRequest,
    GenerationFinished,
    GenerationStarted,
    ModelCard,
    ReasoningDelta,
    SamplingParams,
    TextDelta,
    ToolCallDelta,
    ToolCallFinished,
    ToolCallStarted,
)


@dataclass(frozen=True)
class Silence:
    """In a script: nothing is said until someone calls `end_silence`."""


Step = EngineEvent | tuple[EngineEvent, ...] | Exception | asyncio.Event | Silence
Script = Callable[[GenerateRequest], Sequence[Step]]

CARD = ModelCard(
    name="scripted",
    aliases=("echo",),
    created_at=1_700_000_000,
    context_length=1000,
    default_sampling=SamplingParams(0.7, 0.9),
    default_max_tokens=None,
    has_chat_template=True,
    takes_tools=True,
    can_constrain=True,
)


def thinking(*texts: str, before: int = 0) -> list[EngineEvent]:
    """A script that thinks these texts, a token each, after `before` other tokens."""
    return [ReasoningDelta(text, number) for number, text in enumerate(texts, before + 1)]


def calling(name: str, *arguments: str, before: int = 0) -> list[EngineEvent]:
    """A script that makes a call: its name, each piece of its arguments and its end a token."""
    end = before + len(arguments) + 2
    pieces = enumerate(arguments, before + 2)
    return [
        ToolCallStarted(name, before + 1),
        *(ToolCallDelta(piece, number) for number, piece in pieces),
        ToolCallFinished(end),
    ]


def saying(*texts: str, reason: FinishReason = "stop", prompt_tokens: int = 5) -> list[Step]:
    """A script that says these texts, a token each, and ends."""
    return [
        GenerationStarted(prompt_tokens),
        *(TextDelta(text, number) for number, text in enumerate(texts, 1)),
        GenerationFinished(reason, len(texts)),
    ]


@dataclass
class ScriptedEngine:
    """`deployments.router.EngineClient` that plays `script(request)` for every request.

    Events come out one a batch, a tuple of them as one batch; errors are raised; an `asyncio.Event`
    in the script holds the generation there until it is set or the generation is aborted, and sets
    `held`. A `Silence` does the same until `end_silence`.
    """

    script: Script
    shown: ModelCard = CARD
    is_alive: bool = True
    requests: list[GenerateRequest] = field(default_factory=list)
    closed: list[str] = field(default_factory=list)
    held: asyncio.Event = field(default_factory=asyncio.Event)
    _aborts: dict[str, asyncio.Event] = field(default_factory=dict)
    _silence: asyncio.Event | None = None
    _goes_on: asyncio.Event = field(default_factory=asyncio.Event)

    async def card(self) -> ModelCard:
        return self.shown

    async def stats(self) -> list[EngineStats]:
        return [EngineStats("scripted", self.is_alive, len(self._aborts))]

    async def generate(
        self, request: GenerateRequest
    ) -> AsyncGenerator[tuple[EngineEvent, ...], None]:
        self.requests.append(request)
        aborted = self._aborts[request.generation_id] = asyncio.Event()
        num_tokens = 0
        try:
            for step in self.script(request):
                if isinstance(step, asyncio.Event | Silence):
                    await self._hold(step, aborted)
                elif isinstance(step, Exception):
                    raise step
                if aborted.is_set():
                    yield (GenerationFinished("abort", num_tokens),)
                    return
                if not isinstance(step, asyncio.Event | Exception | Silence):
                    batch = step if isinstance(step, tuple) else (step,)
                    num_tokens = getattr(batch[-1], "num_tokens", num_tokens)
                    yield batch
        finally:
            del self._aborts[request.generation_id]
            self.closed.append(request.generation_id)

    @property
    def is_silent(self) -> bool:
        """Whether a generation is at a `Silence` of its script."""
        return self._silence is not None

    async def end_silence(self) -> None:
        """Let the generation that is silent go on; when this returns, it has."""
        assert self._silence is not None
        self._silence.set()
        await self._goes_on.wait()

    async def _hold(self, step: asyncio.Event | Silence, aborted: asyncio.Event) -> None:
        self.held.set()
        if isinstance(step, asyncio.Event):
            await wait_first(step, aborted)
            return
        self._silence = asyncio.Event()
        self._goes_on.clear()
        try:
            await wait_first(self._silence, aborted)
        finally:
            self._silence = None
            self._goes_on.set()

    async def count_tokens(self, request: GenerateRequest) -> int:
        """What the script says, as its generation would."""
        for step in self.script(request):
            if isinstance(step, Exception):
                raise step
            if isinstance(step, GenerationStarted):
                return step.prompt_tokens
        raise AssertionError("the script does not start")

    async def abort(self, generation_id: str) -> bool:
        if generation_id not in self._aborts:
            return False
        self._aborts[generation_id].set()
        return True


@dataclass
class AwayEngine(ScriptedEngine):
    """An engine that, while it `is_away`, shows neither card nor state.

    It raises `error` in their place, or never answers where that is None.
    """

    error: Exception | None = None
    is_away: bool = True

    async def card(self) -> ModelCard:
        await self._be_away()
        return await super().card()

    async def stats(self) -> list[EngineStats]:
        await self._be_away()
        return await super().stats()

    async def _be_away(self) -> None:
        if self.is_away and self.error is not None:
            raise self.error
        if self.is_away:
            await asyncio.Event().wait()


async def wait_first(*events: asyncio.Event) -> None:
    """Wait until one of the events is set."""
    tasks = [asyncio.create_task(event.wait()) for event in events]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
