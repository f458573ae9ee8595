"""The engine's async face: one thread owns MLX, callers exchange plain values with it."""

import asyncio
import logging
import math
import queue
import secrets
import threading
import time
from collections import deque
from collections.abc import AsyncGenerator, Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict, dataclass, field

from engine.admission import Admission
from engine.core import EngineCore, Generation
from engine.errors import (
    EngineError,
    EngineStoppedError,
    QueueFullError,
)
from engine.loader import LoadedModel
from engine.outbox import Emitted, Outbox
from engine.types import (
    EngineEvent,
    EngineStats,
    GenerateRequest,
    GenerationFinished,
    GenerationStarted,
    ModelCard,
    SamplingParams,
)

logger = logging.getLogger(__name__)

STOPPED = "The model's engine has stopped."

# Text waits so long for more before it is handed over; a reader cannot tell, and every hand-over
# costs each process on the way the same, however much it holds.
HOLD_S = 0.015


@dataclass(frozen=True, slots=True)
class EngineSettings:
    """What the engine must know beside the model's files."""

    name: str
    aliases: tuple[str, ...] = ()
    max_running: int = 16
    max_waiting: int = 64
    default_sampling: SamplingParams = field(default_factory=SamplingParams)
    default_max_tokens: int | None = None
    max_request_s: float = 3600.0
    """A generation's longest time, the time it waits in the queue included."""


@dataclass(frozen=True, slots=True)
class _Abort:
    generation_id: str
    asked_at_step: int


@dataclass(frozen=True, slots=True)
class _Stop:
    pass


_Command = Generation | _Abort | _Stop


@dataclass(slots=True)
class _Stream:
    """What has been emitted for one generation and not yet been read; touched by the loop only."""

    emitted: deque[EngineEvent | EngineError] = field(default_factory=deque)
    has_news: asyncio.Event = field(default_factory=asyncio.Event)
    is_aborted: bool = False

    def push(self, item: EngineEvent | EngineError) -> None:
        self.emitted.append(item)
        self.has_news.set()

    async def read(self) -> tuple[EngineEvent, ...]:
        """All events since the last read, at least one.

        Raises:
            EngineError: where an error comes next.
        """
        await self.has_news.wait()
        events: list[EngineEvent] = []
        while self.emitted:
            item = self.emitted[0]
            if isinstance(item, EngineError):
                if events:
                    return tuple(events)
                self.emitted.popleft()
                raise item
            self.emitted.popleft()
            events.append(item)
        self.has_news.clear()
        return tuple(events)


class ThreadedEngine:
    """`engine.types.Engine` over one model in one thread.

    The thread loads the model, then alternates between commands and steps until it is told to stop.
    Between two steps it takes every command that has come, so an abort waits for one step at most.
    """

    def __init__(
        self,
        settings: EngineSettings,
        load: Callable[[], LoadedModel],
        make_core: Callable[[LoadedModel, int], EngineCore],
    ) -> None:
        """Start the thread and wait until the model is loaded.

        Raises:
            ModelLoadError: where `load` does.
        """
        self._settings = settings
        self._make_core = make_core
        self._commands: queue.SimpleQueue[_Command] = queue.SimpleQueue()
        self._streams: dict[str, _Stream] = {}
        self._prompt_pool = ThreadPoolExecutor(1, thread_name_prefix="prompts")
        self._created_at = int(time.time())
        self._engine_id = secrets.token_hex(8)
        self._num_refused = 0
        self._num_counting = 0
        self._step_s = 0.0
        self._core: EngineCore | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._has_stopped = False
        loaded: Future[LoadedModel] = Future()
        self._thread = threading.Thread(
            target=self._run, args=(load, loaded), name="engine", daemon=True
        )
        self._thread.start()
        self._model = loaded.result()
        self._admission = Admission(self._model)

    def card(self) -> ModelCard:
        return ModelCard(
            name=self._settings.name,
            aliases=self._settings.aliases,
            created_at=self._created_at,
            context_length=self._model.context_length,
            default_sampling=self._settings.default_sampling,
            default_max_tokens=self._settings.default_max_tokens,
            has_chat_template=self._model.chat_template.exists,
        )

    def stats(self) -> EngineStats:
        assert self._core is not None
        return EngineStats(
            engine_id=self._engine_id,
            is_alive=not self._has_stopped,
            running=self._core.scheduler.num_running,
            waiting=self._core.scheduler.num_waiting,
            cache_budget_bytes=self._core.scheduler.budget_bytes,
            refused=self._num_refused,
            step_s=self._step_s,
            **asdict(self._core.counters),
        )

    async def generate(
        self, request: GenerateRequest
    ) -> AsyncGenerator[tuple[EngineEvent, ...], None]:
        """See `engine.types.Engine.generate`."""
        if self._has_stopped:
            raise EngineStoppedError(STOPPED)
        limit_s = self._settings.max_request_s
        deadline_s = time.monotonic() + limit_s
        self._check_room()
        self._loop = asyncio.get_running_loop()
        stream = self._streams[request.generation_id] = _Stream()
        try:
            prompt = await self._loop.run_in_executor(
                self._prompt_pool, self._admission.tokenize, request
            )
            generation = self._admission.make_generation(request, prompt, deadline_s, limit_s)
            if self._has_stopped:
                raise EngineStoppedError(STOPPED)
            if stream.is_aborted:
                yield GenerationStarted(len(prompt)), GenerationFinished("abort", 0)
                return
            self._commands.put(generation)
            yield (GenerationStarted(len(prompt)),)
            is_finished = False
            while not is_finished:
                events = await stream.read()
                is_finished = isinstance(events[-1], GenerationFinished)
                yield events
        finally:
            del self._streams[request.generation_id]
            self._commands.put(self._abort_command(request.generation_id))

    async def count_tokens(self, request: GenerateRequest) -> int:
        """See `engine.types.Engine.count_tokens`; it takes a place in the queue while it counts.

        Raises:
            QueueFullError: where there is none.
        """
        if self._has_stopped:
            raise EngineStoppedError(STOPPED)
        self._check_room()
        self._num_counting += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(
                self._prompt_pool, self._admission.count, request
            )
        finally:
            self._num_counting -= 1

    def abort(self, generation_id: str) -> bool:
        """See `engine.types.Engine.abort`."""
        stream = self._streams.get(generation_id)
        if stream is None:
            return False
        stream.is_aborted = True  # it may not have come to the engine's thread yet
        self._commands.put(self._abort_command(generation_id))
        return True

    def stop(self) -> None:
        """End the thread after its current step; generations that run fail."""
        self._commands.put(_Stop())
        self._thread.join()
        self._prompt_pool.shutdown()

    def _abort_command(self, generation_id: str) -> _Abort:
        assert self._core is not None
        return _Abort(generation_id, self._core.counters.steps)

    def _check_room(self) -> None:
        num_taken = len(self._streams) + self._num_counting
        if num_taken >= self._settings.max_running + self._settings.max_waiting:
            self._num_refused += 1
            raise QueueFullError(self._settings.max_waiting)

    # ── the engine thread ────────────────────────────────────────────────────────────────────────

    def _run(self, load: Callable[[], LoadedModel], loaded: "Future[LoadedModel]") -> None:
        try:
            model = load()
            core = self._core = self._make_core(model, self._settings.max_running)
        except BaseException as error:  # noqa: BLE001  (it is raised again by the one who waits)
            self._has_stopped = True
            loaded.set_exception(error)
            return
        loaded.set_result(model)
        try:
            self._serve(core)
        except BaseException:
            logger.exception("the engine thread dies")
            raise
        finally:
            self._has_stopped = True  # before the streams are told: one that opens now sees it
            self._post(self._deliver_stop)

    def _serve(self, core: EngineCore) -> None:
        outbox = Outbox(HOLD_S)
        decode_s = 0.0
        while True:
            for command in self._take_commands(waits=not core.has_work):
                match command:
                    case Generation():
                        core.submit(command)
                    case _Abort():
                        ended = core.abort(command.generation_id, command.asked_at_step)
                        outbox.add(ended, time.monotonic())
                    case _Stop():
                        return
            if core.has_work:
                begun_s = time.monotonic()
                outbox.add(core.decode(), begun_s)
                decode_s = time.monotonic() - begun_s
                if core.has_prefill:  # which takes long: nothing waits for it
                    self._hand_over(outbox, math.inf)
                    outbox.add(core.prefill(), begun_s)
                self._step_s += time.monotonic() - begun_s
            self._hand_over(outbox, decode_s if core.has_work else math.inf)

    def _hand_over(self, outbox: Outbox, next_step_s: float) -> None:
        emitted = outbox.take(time.monotonic(), next_step_s)
        if emitted:
            self._post(self._deliver, emitted)

    def _take_commands(self, waits: bool) -> list[_Command]:
        """All commands that have come; with `waits`, at least one."""
        commands = [self._commands.get()] if waits else []
        while True:
            try:
                commands.append(self._commands.get_nowait())
            except queue.Empty:
                return commands

    def _post(self, callback: Callable[..., None], *args: object) -> None:
        """Run a callback in the event loop; once a step, not once a token."""
        if self._loop is None:
            return
        try:
            self._loop.call_soon_threadsafe(callback, *args)
        except RuntimeError:  # the loop is closed: nobody is left to be told
            logger.debug("the event loop has gone, its streams' events are dropped")

    # ── the event loop ───────────────────────────────────────────────────────────────────────────

    def _deliver(self, emitted: list[Emitted]) -> None:
        for generation_id, item in emitted:
            stream = self._streams.get(generation_id)
            if stream is not None:
                stream.push(item)

    def _deliver_stop(self) -> None:
        for stream in self._streams.values():
            stream.push(EngineStoppedError(STOPPED))
