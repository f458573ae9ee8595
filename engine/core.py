"""The engine's loop body: schedule, run, emit. Plain Python, no thread; its clock is an argument.

A step has two halves, `decode` and `prefill`, so that the caller can hand over what the first one
gives before the second one, which may take long, begins.
"""

import logging
import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from engine.errors import DeadlineError, EngineError, GenerationFailedError
from engine.outbox import Emitted
from engine.output_text import OutputText, Piece
from engine.scheduler import Plan, Scheduler
from engine.sequence import BatchLostError, SampledToken, SequenceParams, StepOutput
from engine.types import FinishReason, GenerationFinished, TextDelta

logger = logging.getLogger(__name__)

FAILED = "The model failed while it generated this answer."


class ModelRunner(Protocol):
    """What the loop needs of a model; `engine.runner.Runner` is the real one."""

    def prefill(self, generation_id: str, token_ids: Sequence[int]) -> None: ...

    def start(
        self,
        generation_id: str,
        last_token: int,
        params: SequenceParams,
        generated: Sequence[int],
    ) -> None: ...

    def decode(self) -> StepOutput: ...

    def remove(self, generation_ids: set[str]) -> None: ...


@dataclass(slots=True)
class Generation:
    """One running generation: what it was asked, and how far it has come.

    `deadline_s` is a time of the core's clock, `limit_s` how long before it the request came.
    """

    generation_id: str
    prompt: Sequence[int]
    params: SequenceParams
    max_tokens: int
    output: OutputText
    deadline_s: float = math.inf
    limit_s: float = math.inf
    generated: list[int] = field(default_factory=list)

    @property
    def token_ids(self) -> Sequence[int]:
        """The prompt and what has been generated."""
        return [*self.prompt, *self.generated] if self.generated else self.prompt


@dataclass(slots=True)
class Counters:
    """Totals since start, and `cache_bytes` of now, by the names they have in `EngineStats`.

    Only the engine's thread writes them.
    """

    admitted: int = 0
    finished_by_stop: int = 0
    finished_by_length: int = 0
    aborted: int = 0
    failed: int = 0
    preempted: int = 0
    steps: int = 0
    prompt_tokens: int = 0
    output_tokens: int = 0
    max_abort_steps: int = 0
    cache_bytes: int = 0


@dataclass(slots=True)
class EngineCore:
    """All sequences of one model. `make_runner` is called again after a step that failed."""

    make_runner: Callable[[], ModelRunner]
    scheduler: Scheduler
    stop_ids: Collection[int]
    clock: Callable[[], float]
    counters: Counters = field(default_factory=Counters)
    _generations: dict[str, Generation] = field(default_factory=dict)
    _runner: ModelRunner = field(init=False)
    _plan: Plan | None = None

    def __post_init__(self) -> None:
        self._runner = self.make_runner()

    @property
    def has_work(self) -> bool:
        return bool(self._generations)

    @property
    def has_prefill(self) -> bool:
        """Whether the half of the step that is left has anything to do."""
        return self._plan is not None

    def submit(self, generation: Generation) -> None:
        self._generations[generation.generation_id] = generation
        self.scheduler.submit(generation.generation_id, len(generation.prompt))
        self.counters.admitted += 1
        self.counters.prompt_tokens += len(generation.prompt)

    def abort(self, generation_id: str, asked_at_step: int) -> list[Emitted]:
        """Free a generation at once; its stream ends with the text that it had come to."""
        generation = self._generations.get(generation_id)
        if generation is None:
            return []
        waited = self.counters.steps - asked_at_step
        self.counters.max_abort_steps = max(self.counters.max_abort_steps, waited)
        self.counters.aborted += 1
        lost = self._remove({generation_id})
        try:
            return self._end(generation, "abort") + lost
        except Exception:  # a fault in one text must not become everyone's
            logger.exception("the text of generation %s failed", generation_id)
            return [(generation_id, GenerationFailedError(FAILED)), *lost]

    def decode(self) -> list[Emitted]:
        """Begin a step: end what is overdue, plan, advance the decode batch."""
        self.counters.steps += 1
        emitted = self._expire()
        plan = self.scheduler.schedule()
        self.counters.preempted += len(plan.preempted)
        self._plan = plan if plan.chunk is not None or plan.start is not None else None
        try:
            self._runner.remove(set(plan.preempted))
            output = self._runner.decode() if plan.decodes else StepOutput()
        except Exception:  # whatever MLX raises, the process goes on serving
            logger.exception("a step failed, its generations end and the batch is rebuilt")
            return emitted + self._fail_all()
        emitted += self._take_all(output)
        self.counters.cache_bytes = self.scheduler.cache_bytes
        return emitted

    def prefill(self) -> list[Emitted]:
        """End the step: its chunk of a prompt, and the sequence that joins the batch.

        What fails here is alone in its cache, so it fails alone.
        """
        plan, self._plan = self._plan, None
        if plan is None:
            return []
        name = plan.start or (plan.chunk.generation_id if plan.chunk is not None else "")
        generation = self._generations.get(name)
        if generation is None:
            return []
        try:
            self._feed(plan, generation)
        except BatchLostError:
            logger.exception("the batch is lost, its generations end and it is rebuilt")
            return self._fail_all()
        except Exception:  # as above
            logger.exception("the prompt of generation %s failed", name)
            return self._fail({name: GenerationFailedError(FAILED)})
        return []

    def _feed(self, plan: Plan, generation: Generation) -> None:
        token_ids = generation.token_ids
        name = generation.generation_id
        if plan.chunk is not None:
            self._runner.prefill(name, token_ids[plan.chunk.begin : plan.chunk.end])
        if plan.start is not None:
            self._runner.start(name, token_ids[-1], generation.params, generation.generated)

    def _expire(self) -> list[Emitted]:
        """Fail the generations whose time is over, wherever they are."""
        now_s = self.clock()
        overdue: dict[str, EngineError] = {
            name: DeadlineError(generation.limit_s)
            for name, generation in self._generations.items()
            if now_s >= generation.deadline_s
        }
        return self._fail(overdue)

    def _take_all(self, output: StepOutput) -> list[Emitted]:
        emitted: list[Emitted] = []
        ended: set[str] = set()
        failed: dict[str, EngineError] = {
            name: GenerationFailedError(FAILED) for name in output.failed
        }
        for name, token in output.tokens.items():
            generation = self._generations[name]
            try:
                reason = self._take(generation, token, emitted)
                if reason is not None:
                    emitted += self._end(generation, reason)
                    ended.add(name)
            except Exception:  # a fault in one text must not become everyone's
                logger.exception("the text of generation %s failed", name)
                failed[name] = GenerationFailedError(FAILED)
        self.counters.output_tokens += len(output.tokens)
        emitted += self._remove(ended)
        return emitted + self._fail(failed)

    def _take(
        self, generation: Generation, token: SampledToken, emitted: list[Emitted]
    ) -> FinishReason | None:
        """Add a token to a generation and its text to `emitted`; say whether it was the last."""
        generation.generated.append(token.token_id)
        if token.token_id in self.stop_ids:
            return "stop"
        emitted += to_deltas(generation, generation.output.feed(token))
        if generation.output.is_stopped:
            return "stop"
        return "length" if len(generation.generated) >= generation.max_tokens else None

    def _end(self, generation: Generation, reason: FinishReason) -> list[Emitted]:
        """What ends a stream: the text that was held back if there is any, then the reason."""
        rest = to_deltas(generation, generation.output.flush())
        if reason == "stop":
            self.counters.finished_by_stop += 1
        elif reason == "length":
            self.counters.finished_by_length += 1
        finished = GenerationFinished(reason, len(generation.generated))
        return [*rest, (generation.generation_id, finished)]

    def _remove(self, generation_ids: set[str]) -> list[Emitted]:
        """Forget generations that have ended; what others come to if their caches cannot be freed.

        The arrays of a batch are computed late, so an error of an earlier step may surface here.
        """
        for generation_id in generation_ids:
            del self._generations[generation_id]
            self.scheduler.remove(generation_id)
        try:
            self._runner.remove(generation_ids)
        except Exception:  # as in a step
            logger.exception("caches cannot be freed, the batch is rebuilt")
            return self._fail_all()
        self.counters.cache_bytes = self.scheduler.cache_bytes
        return []

    def _fail(self, errors: dict[str, EngineError]) -> list[Emitted]:
        """End those of these generations that have not ended yet with their errors."""
        failed = {name: error for name, error in errors.items() if name in self._generations}
        self.counters.failed += len(failed)
        return [*failed.items(), *self._remove(set(failed))]

    def _fail_all(self) -> list[Emitted]:
        """End every generation that holds a KV cache: a failed step may have advanced any.

        Those that wait have none, so they stay and run on the new runner.
        """
        self._plan = None
        lost = [name for name in self._generations if not self.scheduler.is_waiting(name)]
        self._runner = self.make_runner()
        return self._fail({name: GenerationFailedError(FAILED) for name in lost})


def to_deltas(generation: Generation, piece: Piece) -> list[Emitted]:
    """The event of a piece of text; none where it is empty."""
    if not piece.text:
        return []
    delta = TextDelta(piece.text, len(generation.generated), piece.logprobs)
    return [(generation.generation_id, delta)]
