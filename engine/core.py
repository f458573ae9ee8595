"""The engine's loop body: schedule, run, emit. Plain Python, no thread, no clock."""

import logging
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from engine.detokenizer import Detokenizer
from engine.errors import EngineError, GenerationFailedError
from engine.scheduler import Plan, Scheduler
from engine.types import EngineEvent, FinishReason, GenerationFinished, SamplingParams, TextDelta

logger = logging.getLogger(__name__)

Emitted = tuple[str, EngineEvent | EngineError]


class ModelRunner(Protocol):
    """What the loop needs of a model; `engine.runner.Runner` is the real one."""

    def prefill(self, generation_id: str, token_ids: Sequence[int]) -> None: ...

    def start(self, generation_id: str, last_token: int, sampling: SamplingParams) -> None: ...

    def decode(self) -> dict[str, int]: ...

    def remove(self, generation_ids: set[str]) -> None: ...


@dataclass(slots=True)
class Generation:
    """One running generation: what it was asked, and how far it has come."""

    generation_id: str
    prompt: Sequence[int]
    sampling: SamplingParams
    max_tokens: int
    detokenizer: Detokenizer
    num_tokens: int = 0


@dataclass(slots=True)
class Counters:
    """Totals since start; other threads read them, only the engine's writes."""

    admitted: int = 0
    finished: int = 0
    aborted: int = 0
    failed: int = 0
    steps: int = 0
    prompt_tokens: int = 0
    output_tokens: int = 0
    max_abort_steps: int = 0


@dataclass(slots=True)
class EngineCore:
    """All sequences of one model. `make_runner` is called again after a step that failed."""

    make_runner: Callable[[], ModelRunner]
    scheduler: Scheduler
    stop_ids: Collection[int]
    counters: Counters = field(default_factory=Counters)
    _generations: dict[str, Generation] = field(default_factory=dict)
    _runner: ModelRunner = field(init=False)

    def __post_init__(self) -> None:
        self._runner = self.make_runner()

    @property
    def has_work(self) -> bool:
        return bool(self._generations)

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
        self._remove({generation_id})
        return end_events(generation, "abort")

    def step(self) -> list[Emitted]:
        """One turn: at most one decode step and one prefill chunk."""
        self.counters.steps += 1
        plan = self.scheduler.schedule()
        try:
            tokens = self._run(plan)
        except Exception:  # whatever MLX raises, the process goes on serving
            logger.exception("a step failed, its generations end and the batch is rebuilt")
            return self._fail_all()
        return self._emit(tokens)

    def _run(self, plan: Plan) -> dict[str, int]:
        tokens = self._runner.decode() if plan.decodes else {}
        if plan.chunk is not None:
            prompt = self._generations[plan.chunk.generation_id].prompt
            self._runner.prefill(
                plan.chunk.generation_id, prompt[plan.chunk.begin : plan.chunk.end]
            )
        if plan.start is not None:
            generation = self._generations[plan.start]
            self._runner.start(plan.start, generation.prompt[-1], generation.sampling)
        return tokens

    def _emit(self, tokens: dict[str, int]) -> list[Emitted]:
        emitted: list[Emitted] = []
        ended: set[str] = set()
        for generation_id, token_id in tokens.items():
            generation = self._generations[generation_id]
            reason = self._take(generation, token_id, emitted)
            if reason is not None:
                ended.add(generation_id)
                emitted += end_events(generation, reason)
        self.counters.output_tokens += len(tokens)
        self.counters.finished += len(ended)
        self._remove(ended)
        return emitted

    def _take(
        self, generation: Generation, token_id: int, emitted: list[Emitted]
    ) -> FinishReason | None:
        """Add a token to a generation and its text to `emitted`; say whether it was the last."""
        generation.num_tokens += 1
        if token_id in self.stop_ids:
            return "stop"
        text = generation.detokenizer.feed(token_id)
        if text:
            emitted.append((generation.generation_id, TextDelta(text, generation.num_tokens)))
        return "length" if generation.num_tokens >= generation.max_tokens else None

    def _remove(self, generation_ids: set[str]) -> None:
        if not generation_ids:
            return
        self._runner.remove(generation_ids)
        for generation_id in generation_ids:
            del self._generations[generation_id]
            self.scheduler.remove(generation_id)

    def _fail_all(self) -> list[Emitted]:
        """End every generation that holds a KV cache: a failed step may have advanced any.

        Those that wait have none, so they stay and run on the new runner.
        """
        lost = [name for name in self._generations if not self.scheduler.is_waiting(name)]
        self._runner = self.make_runner()
        self._remove(set(lost))
        self.counters.failed += len(lost)
        error = GenerationFailedError("The model failed while it generated this answer.")
        return [(generation_id, error) for generation_id in lost]


def end_events(generation: Generation, reason: FinishReason) -> list[Emitted]:
    """What ends a stream: the text of an unfinished character if there is one, then the reason."""
    name, num_tokens = generation.generation_id, generation.num_tokens
    rest = generation.detokenizer.flush()
    finished = GenerationFinished(reason, num_tokens)
    return [(name, TextDelta(rest, num_tokens)), (name, finished)] if rest else [(name, finished)]
