"""A model's name in, the events of a response out; and the engine is free as soon as it can be."""

import asyncio
from collections.abc import Sequence
from contextlib import aclosing

import pytest

from deployments.errors import InternalError, NotFoundError, TooManyRequestsError, UnavailableError
from deployments.resource.events import (
    ArgumentsDelta,
    ItemAdded,
    ItemDone,
    OutputTextDelta,
    ResponseEnded,
    ResponseInProgress,
    StreamEvent,
)
from deployments.resource.response import ResponseFailure
from deployments.service.generation import Generation, Generations, to_error
from deployments.service.models import ModelDirectory
from engine.errors import GenerationFailedError, QueueFullError
from engine.types import (
    ChatMessage,
    GenerateRequest,
    GenerationFinished,
    GenerationStarted,
    ModelCard,
    SamplingParams,
    TextDelta,
    ToolCallDelta,
    ToolCallFinished,
)
from tests.support.scripted import (
    CARD,
    AwayEngine,
    ScriptedEngine,
    Silence,
    Step,
    calling,
    saying,
    thinking,
)
from tests.support.serving import START_S, make_ids, playing
from tests.support.tasks import tasks_left

STARTED = GenerationStarted(5)
PAUSE = Silence()
SOON_S = 0.001


def make_generations(
    engine: ScriptedEngine, replica_wait_s: float = 60.0, heartbeat_s: float = 60.0
) -> Generations:
    models = ModelDirectory({"app": engine})
    return Generations(models, lambda: START_S + 0.9, make_ids(), replica_wait_s, heartbeat_s)


async def start(generations: Generations, max_calls: int | None = None) -> Generation:
    def make_request(card: ModelCard, generation_id: str) -> GenerateRequest:
        assert card == CARD
        messages = (ChatMessage("user", "Hi"),)
        return GenerateRequest(generation_id, messages, SamplingParams(), max_tool_calls=max_calls)

    return await generations.start("scripted", "resp", make_request)


async def run(engine: ScriptedEngine, generations: Generations) -> list[StreamEvent]:
    """All events of a generation, whose silences last for one heartbeat each."""
    made = []
    async with aclosing(generations.run(await start(generations))) as events:
        async for event in events:
            made.append(event)
            if isinstance(event, ResponseInProgress):
                await engine.end_silence()
    return made


def texts(events: Sequence[StreamEvent]) -> list[str]:
    return [event.delta for event in events if isinstance(event, OutputTextDelta)]


async def test_a_generation_is_called_by_its_prefix_and_keeps_the_first_events() -> None:
    engine = playing(*saying("Hello"))
    generation = await start(make_generations(engine))
    response = generation.machine.response()
    assert (response.response_id, response.model, response.created_at) == (
        "resp_1",
        "scripted",
        START_S,
    )
    assert (generation.card, generation.first) == (CARD, (STARTED,))
    assert [request.generation_id for request in engine.requests] == ["resp_1"]
    await generation.rest.close()
    assert engine.closed == ["resp_1"]


@pytest.mark.parametrize(
    ("script", "error"),
    [
        ([QueueFullError(3)], TooManyRequestsError),
        ([GenerationFailedError("broken")], InternalError),
        ([UnavailableError("away")], UnavailableError),
        ([], RuntimeError),
        ([ValueError("broken")], ValueError),
    ],
    ids=["full", "failed", "away", "nothing", "fault"],
)
async def test_what_cannot_start_is_refused_and_the_engine_is_free(
    script: list[Step], error: type[Exception]
) -> None:
    engine = playing(*script)
    with pytest.raises(error):
        await start(make_generations(engine))
    assert engine.closed == ["resp_1"]


async def test_a_model_that_does_not_begin_in_time_is_not_ready_and_free_again() -> None:
    engine = playing(asyncio.Event())
    with pytest.raises(UnavailableError, match="The model is not ready; try again soon."):
        await start(make_generations(engine, replica_wait_s=0))
    assert engine.closed == ["resp_1"]


async def test_a_caller_who_leaves_before_the_model_begins_frees_it() -> None:
    engine = playing(asyncio.Event())
    starting = asyncio.create_task(start(make_generations(engine)))
    await engine.held.wait()
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    assert engine.closed == ["resp_1"]


async def test_an_unknown_model_is_not_found() -> None:
    with pytest.raises(NotFoundError):
        await make_generations(playing()).start("gpt-9", "resp", lambda *_: pytest.fail())


async def test_tokens_are_counted_under_a_name_of_their_own() -> None:
    named = []

    def make_request(_: ModelCard, generation_id: str) -> GenerateRequest:
        named.append(generation_id)
        return GenerateRequest(generation_id, (), SamplingParams())

    generations = make_generations(playing(GenerationStarted(7)))
    assert await generations.count_tokens("scripted", make_request) == (7, CARD)
    assert named == ["count_1"]


async def test_a_model_that_does_not_count_in_time_is_not_ready() -> None:
    class Slow(AwayEngine):
        async def count_tokens(self, request: GenerateRequest) -> int:
            await asyncio.Event().wait()
            return 0

    generations = make_generations(Slow(lambda _: (), is_away=False), replica_wait_s=0)
    with pytest.raises(UnavailableError, match="The model is not ready; try again soon."):
        await generations.count_tokens(
            "scripted", lambda _, name: GenerateRequest(name, (), SamplingParams())
        )


# Silences

STAGES: dict[str, tuple[list[Step], list[str]]] = {
    "before any output": ([], []),
    "in reasoning": ([*thinking("Hm")], ["in_progress"]),
    "in a text": ([TextDelta("A", 1)], ["in_progress"]),
    "in a call": ([*calling("f", "{")[:-1]], ["in_progress"]),
    "between items": ([*calling("f", "{}")], ["completed"]),
}


@pytest.mark.parametrize(("before", "statuses"), STAGES.values(), ids=list(STAGES))
async def test_each_silence_is_filled_with_the_response_as_it_stands(
    before: list[Step], statuses: list[str]
) -> None:
    engine = playing(STARTED, *before, PAUSE, PAUSE, GenerationFinished("stop", 9))
    events = await run(engine, make_generations(engine, heartbeat_s=SOON_S))
    beats = [event.response for event in events if isinstance(event, ResponseInProgress)]
    assert beats == [beats[0], beats[0]]
    assert [item.status for item in beats[0].output] == statuses
    assert isinstance(events[-1], ResponseEnded)
    assert events[-1].response.status == "completed"


async def test_an_engine_that_speaks_is_not_interrupted() -> None:
    engine = playing(*saying(*"Hello"))
    events = await run(engine, make_generations(engine, heartbeat_s=SOON_S))
    assert not any(isinstance(event, ResponseInProgress) for event in events)
    assert texts(events) == list("Hello")


async def test_an_error_after_a_silence_is_a_failure() -> None:
    engine = playing(STARTED, TextDelta("A", 1), PAUSE, GenerationFailedError("Out of memory."))
    *_, last = await run(engine, make_generations(engine, heartbeat_s=SOON_S))
    assert isinstance(last, ResponseEnded)
    assert last.response.failure == ResponseFailure("server_error", "Out of memory.")


async def test_whoever_leaves_in_a_silence_frees_the_engine_at_once() -> None:
    engine = playing(STARTED, PAUSE)
    generations = make_generations(engine, heartbeat_s=SOON_S)
    generation = await start(generations)
    async with aclosing(generations.run(generation)) as events:
        assert isinstance(await anext(events), ResponseInProgress)
        assert engine.is_silent
    await generation.rest.close()
    assert engine.closed == ["resp_1"]
    assert tasks_left() == set()


# Ends


@pytest.mark.parametrize("is_one_batch", [False, True])
async def test_the_engine_is_free_before_the_end_is_told(is_one_batch: bool) -> None:
    said = (STARTED, TextDelta("A", 1), GenerationFinished("stop", 2))
    engine = playing(*([said] if is_one_batch else said))
    generations = make_generations(engine)
    async with aclosing(generations.run(await start(generations))) as events:
        async for event in events:
            if isinstance(event, ItemDone | ResponseEnded):
                assert engine.closed == ["resp_1"]
    assert isinstance(event, ResponseEnded)


@pytest.mark.parametrize("is_one_batch", [False, True])
async def test_after_the_last_call_allowed_the_engine_is_stopped(is_one_batch: bool) -> None:
    more = [*calling("g", "{}", before=3), *calling("h", "{}", before=6)]
    said = (STARTED, *calling("f", "{}"), *more)
    engine = playing(*([said] if is_one_batch else said), asyncio.Event())
    generations = make_generations(engine)
    generation = await start(generations, max_calls=2)
    async with aclosing(generations.run(generation)) as events:
        made = [event async for event in events]
    assert (engine.closed, engine.held.is_set()) == (["resp_1"], False)
    assert sum(isinstance(event, ItemAdded) for event in made) == 2
    assert isinstance(made[-1], ResponseEnded)
    assert made[-1].response.status == "completed"


@pytest.mark.parametrize("wrong", [ToolCallDelta("{", 3), ToolCallFinished(3)], ids=repr)
@pytest.mark.parametrize("is_one_batch", [False, True])
async def test_a_fault_in_the_order_of_events_fails_with_all_that_came_before_it_told(
    wrong: ToolCallDelta | ToolCallFinished, is_one_batch: bool
) -> None:
    said = (STARTED, TextDelta("A", 1), TextDelta("B", 2), wrong, TextDelta("C", 4))
    engine = playing(*([said] if is_one_batch else said), asyncio.Event())
    events = await run(engine, make_generations(engine))
    assert texts(events) == ["A", "B"]
    assert sum(isinstance(event, ItemAdded) for event in events) == 1
    assert isinstance(events[-1], ResponseEnded)
    assert events[-1].response.output_text == "AB"
    assert events[-1].response.failure == ResponseFailure(
        "server_error", "The server had an internal error."
    )
    assert engine.closed == ["resp_1"]


async def test_an_engine_that_raises_in_a_call_leaves_it_incomplete() -> None:
    engine = playing(STARTED, *calling("f", "{")[:-1], GenerationFailedError("Out of memory."))
    events = await run(engine, make_generations(engine))
    assert [event.delta for event in events if isinstance(event, ArgumentsDelta)] == ["{"]
    assert isinstance(events[-1], ResponseEnded)
    assert [item.status for item in events[-1].response.output] == ["incomplete"]
    assert events[-1].response.status == "failed"


@pytest.mark.parametrize("num_read", range(8))
async def test_a_generation_can_be_left_after_any_event(
    num_read: int,
) -> None:
    engine = playing(STARTED, TextDelta("A", 1), *calling("f", "{}"), asyncio.Event())
    generations = make_generations(engine)
    generation = await start(generations)
    async with aclosing(generations.run(generation)) as events:
        for _ in range(num_read):
            await anext(events)
    await generation.rest.close()
    assert engine.closed == ["resp_1"]
    assert tasks_left() == set()


def test_a_failure_is_told_as_the_error_that_it_is() -> None:
    lasting = to_error(ResponseFailure("server_error", "broken"))
    passing = to_error(ResponseFailure("server_error", "away", is_temporary=True))
    assert (type(lasting), lasting.args) == (InternalError, ("broken", None, "server_error"))
    assert (type(passing), passing.args) == (UnavailableError, ("away", None, None))
