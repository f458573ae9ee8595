"""The loop body over a runner that plays scripts: order, ends, aborts and failures."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest

from engine.core import EngineCore, Generation
from engine.detokenizer import Detokenizer
from engine.errors import DeadlineError, GenerationFailedError
from engine.outbox import Emitted
from engine.output_text import OutputText
from engine.scheduler import Scheduler
from engine.sequence import BatchLostError, SampledToken, SequenceParams, StepOutput
from engine.stop_strings import StopStrings
from engine.types import GenerationFinished, SamplingParams, TextDelta

STOP = 0
VOCABULARY = [b"</s>", b"a", b"b", b"\xf0\x9f", b"\x8e\xa8"]


@dataclass
class ScriptedRunner:
    """Gives each sequence the tokens of its script and records what it was asked.

    What `raising` holds for a name is raised when that sequence starts, for "" when all decode;
    `failing` are the rows that fail alone in the next step. A stuck runner frees no row.
    """

    script: dict[str, list[int]]
    calls: list[tuple[str, ...]] = field(default_factory=list)
    rows: list[str] = field(default_factory=list)
    raising: dict[str, Exception] = field(default_factory=dict)
    is_stuck: bool = False
    failing: frozenset[str] = frozenset()

    def prefill(self, generation_id: str, token_ids: Sequence[int]) -> None:
        self.calls.append(("prefill", generation_id, str(list(token_ids))))

    def start(
        self, generation_id: str, last_token: int, params: SequenceParams, generated: Sequence[int]
    ) -> None:
        self.calls.append(("start", generation_id, str(last_token), str(list(generated))))
        if generation_id in self.raising:
            raise self.raising[generation_id]
        self.rows.append(generation_id)

    def decode(self) -> StepOutput:
        if "" in self.raising:
            raise self.raising[""]
        tokens = {name: SampledToken(self.script[name].pop(0)) for name in self.rows}
        return StepOutput({n: t for n, t in tokens.items() if n not in self.failing}, self.failing)

    def remove(self, generation_ids: set[str]) -> None:
        if self.is_stuck and set(self.rows) & generation_ids:
            raise RuntimeError("an error of an earlier step")
        self.rows = [name for name in self.rows if name not in generation_ids]


@dataclass
class Setup:
    """A core, the runners that it has made, its clock, and a way to submit."""

    script: dict[str, list[int]]
    budget_tokens: int = 10**6
    runners: list[ScriptedRunner] = field(default_factory=list)
    now_s: float = 0.0

    def __post_init__(self) -> None:
        scheduler = Scheduler(2, 2, lambda rows, longest: rows * longest, self.budget_tokens)
        self.core = EngineCore(self._make_runner, scheduler, {STOP}, lambda: self.now_s)

    def _make_runner(self) -> ScriptedRunner:
        self.runners.append(ScriptedRunner(self.script))
        return self.runners[-1]

    def submit(
        self,
        name: str,
        prompt: Sequence[int] = (7,),
        max_tokens: int = 100,
        stop: Sequence[str] = (),
        deadline_s: float = 1.0,
    ) -> Generation:
        output = OutputText(Detokenizer(VOCABULARY, hidden={STOP}), StopStrings(stop))
        params = SequenceParams(SamplingParams())
        generation = Generation(name, prompt, params, max_tokens, output, deadline_s)
        self.core.submit(generation)
        return generation

    def run(self, num_steps: int) -> list[Emitted]:
        emitted = []
        for _ in range(num_steps):
            emitted += self.core.decode()
            emitted += self.core.prefill()
        return emitted


def list_failed(emitted: list[Emitted], kind: type[Exception] = GenerationFailedError) -> set[str]:
    """The generations that ended with such an error."""
    return {name for name, item in emitted if isinstance(item, kind)}


def test_a_generation_gives_its_text_and_its_end() -> None:
    setup = Setup({"g": [1, 2, STOP]})
    setup.submit("g", [7, 8, 9, 10])
    assert setup.run(5) == [
        ("g", TextDelta("a", 1)),
        ("g", TextDelta("b", 2)),
        ("g", GenerationFinished("stop", 3)),
    ]
    assert setup.runners[0].calls == [
        ("prefill", "g", "[7, 8]"),
        ("prefill", "g", "[9]"),
        ("start", "g", "10", "[]"),
    ]
    assert not setup.core.has_work


def test_a_length_stop_gives_the_last_token_and_what_a_cut_character_comes_to() -> None:
    setup = Setup({"g": [1, 3]})
    setup.submit("g", max_tokens=2)
    assert setup.run(3) == [
        ("g", TextDelta("a", 1)),
        ("g", TextDelta("\ufffd", 2)),
        ("g", GenerationFinished("length", 2)),
    ]


def test_a_character_of_two_tokens_comes_once_and_counts_both() -> None:
    setup = Setup({"g": [3, 4, STOP]})
    setup.submit("g")
    assert setup.run(4)[0] == ("g", TextDelta("🎨", 2))


def test_the_stop_token_wins_over_the_length() -> None:
    setup = Setup({"g": [STOP]})
    setup.submit("g", max_tokens=1)
    assert setup.run(2) == [("g", GenerationFinished("stop", 1))]


@pytest.mark.parametrize("num_steps", [0, 1, 2])
def test_an_abort_frees_a_generation_in_any_place_and_others_go_on(num_steps: int) -> None:
    setup = Setup({"g": [1] * 9, "other": [2] * 9})
    setup.submit("other")
    setup.submit("g", [7, 8, 9])
    setup.run(num_steps)
    ended = setup.core.abort("g", asked_at_step=setup.core.counters.steps)
    assert [item for _, item in ended] == [GenerationFinished("abort", 0)]
    assert {name for name, _ in setup.run(3)} == {"other"}
    assert setup.core.scheduler.num_running == 1
    assert (setup.core.counters.aborted, setup.core.counters.max_abort_steps) == (1, 0)


def test_an_abort_of_an_unknown_generation_does_nothing() -> None:
    setup = Setup({})
    assert setup.core.abort("g", 0) == []
    assert setup.core.counters.aborted == 0


def test_the_steps_that_an_abort_waited_are_counted() -> None:
    setup = Setup({"g": [1] * 9})
    setup.submit("g")
    setup.run(3)
    setup.core.abort("g", asked_at_step=1)
    assert setup.core.counters.max_abort_steps == 2


def test_a_step_that_fails_ends_what_runs_and_keeps_what_waits() -> None:
    setup = Setup({"a": [1] * 9, "b": [1] * 9, "c": [2, STOP]})
    for name in ("a", "b", "c"):
        setup.submit(name)
    setup.run(2)
    setup.runners[0].raising[""] = RuntimeError("out of memory")
    assert list_failed(setup.run(1)) == {"a", "b"}
    assert len(setup.runners) == 2
    assert setup.run(3) == [("c", TextDelta("b", 1)), ("c", GenerationFinished("stop", 2))]
    assert setup.core.counters.failed == 2


def test_a_prompt_that_fails_ends_alone() -> None:
    setup = Setup({"a": [1] * 9, "b": [2] * 9})
    setup.submit("a")
    setup.run(1)
    setup.runners[0].raising["b"] = RuntimeError("a bad id")
    setup.submit("b")
    assert list_failed(setup.run(2)) == {"b"}
    assert (setup.core.scheduler.num_running, len(setup.runners)) == (1, 1)
    assert setup.run(1) == [("a", TextDelta("a", 3))]


def test_a_batch_that_a_sequence_could_not_join_is_rebuilt() -> None:
    setup = Setup({"a": [1] * 9, "b": [2] * 9})
    setup.submit("a")
    setup.run(1)
    setup.runners[0].raising["b"] = BatchLostError()
    setup.submit("b")
    assert list_failed(setup.run(1)) == {"a", "b"}
    assert len(setup.runners) == 2
    assert not setup.core.has_work


def test_a_row_that_the_runner_reports_as_failed_ends_alone() -> None:
    setup = Setup({"a": [1] * 9, "b": [2] * 9})
    setup.submit("a")
    setup.submit("b")
    setup.run(2)
    setup.runners[0].failing = frozenset({"b"})
    emitted = setup.run(1)
    assert list_failed(emitted) == {"b"}
    assert setup.runners[0].rows == ["a"]
    assert setup.core.counters.output_tokens == 2  # both of "a"
    setup.runners[0].failing = frozenset()
    assert setup.run(1) == [("a", TextDelta("a", 3))]


@pytest.mark.parametrize("end", ["abort", "stop", "deadline"])
def test_caches_that_cannot_be_freed_end_the_others_and_the_batch_is_rebuilt(end: str) -> None:
    setup = Setup({"a": [1, 1, STOP], "b": [2] * 9, "c": [2, STOP]})
    setup.submit("a", deadline_s=0.5)
    setup.submit("b")
    setup.submit("c")
    setup.run(3)
    setup.runners[0].is_stuck = True
    setup.now_s = 0.5 if end == "deadline" else 0.0
    emitted = setup.core.abort("a", 0) if end == "abort" else []
    emitted += setup.run(1)
    ended = [item for name, item in emitted if name == "a"]
    assert len(ended) == 1
    assert list_failed(emitted) == {"b"}
    assert len(setup.runners) == 2
    assert setup.run(4)[-2:] == [("c", TextDelta("b", 1)), ("c", GenerationFinished("stop", 2))]
    assert not setup.core.has_work


@pytest.mark.parametrize("method", ["feed", "flush"])
def test_a_text_that_cannot_be_decoded_ends_alone(
    method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    setup = Setup({"a": [1, 1, STOP], "b": [2, STOP]})
    setup.submit("a")
    broken = setup.submit("b")
    monkeypatch.setattr(broken, "output", BrokenOutput(broken.output, method))
    emitted = setup.run(5)
    assert list_failed(emitted) == {"b"}
    assert [item for name, item in emitted if name == "a"] == [
        TextDelta("a", 1),
        TextDelta("a", 2),
        GenerationFinished("stop", 3),
    ]
    assert (setup.core.counters.failed, setup.core.counters.finished_by_stop) == (1, 1)


def test_a_broken_text_does_not_stop_an_abort(monkeypatch: pytest.MonkeyPatch) -> None:
    setup = Setup({"a": [1] * 9})
    broken = setup.submit("a")
    monkeypatch.setattr(broken, "output", BrokenOutput(broken.output, "flush"))
    setup.run(2)
    assert list_failed(setup.core.abort("a", 0)) == {"a"}
    assert not setup.core.has_work


class BrokenOutput:
    """An output text one of whose methods fails."""

    def __init__(self, output: OutputText, method: str) -> None:
        self._output = output
        self._method = method

    def __getattr__(self, name: str) -> object:
        if name == self._method:
            raise RuntimeError("a broken tokenizer")
        return getattr(self._output, name)


def test_what_is_overdue_ends_wherever_it_is_and_others_go_on() -> None:
    setup = Setup({"running": [1] * 9, "late": [2] * 9})
    setup.submit("late", deadline_s=0.5)
    setup.submit("running")
    setup.submit("waiting", deadline_s=0.5)
    setup.run(3)
    setup.now_s = 0.5
    assert list_failed(setup.run(1), DeadlineError) == {"late", "waiting"}
    assert {name for name, _ in setup.run(1)} == {"running"}


def test_a_stop_string_ends_a_generation_before_it() -> None:
    setup = Setup({"g": [1, 2, 2, 1]})
    setup.submit("g", stop=["bb"])
    assert setup.run(5) == [
        ("g", TextDelta("a", 1)),
        ("g", GenerationFinished("stop", 3)),
    ]
    assert setup.runners[0].rows == []


def test_a_length_stop_shows_what_was_held_back() -> None:
    setup = Setup({"g": [1, 2, 2, 1]})
    setup.submit("g", max_tokens=2, stop=["bb"])
    assert setup.run(3)[1:] == [("g", TextDelta("b", 2)), ("g", GenerationFinished("length", 2))]


def test_a_preempted_generation_begins_again_with_what_it_has_and_goes_on() -> None:
    setup = Setup({"a": [1] * 300 + [STOP], "b": [2] * 301}, budget_tokens=2 * 280)
    setup.submit("a", [5, 6], max_tokens=1000)
    setup.submit("b", [7, 8], max_tokens=301)
    emitted = setup.run(900)
    assert [item for name, item in emitted if name == "b"] == [
        *(TextDelta("b", number) for number in range(1, 302)),
        GenerationFinished("length", 301),
    ]
    assert setup.core.counters.preempted == 1
    resumed = [call for call in setup.runners[0].calls if call[:2] == ("start", "b")][1]
    generated = [2] * (resumed[3].count(",") + 1)
    assert resumed == ("start", "b", "2", str(generated))
    assert setup.core.counters.cache_bytes == 0


def test_counters_add_up() -> None:
    setup = Setup({"a": [1, STOP], "b": [1, 1]})
    setup.submit("a", [7, 7, 7])
    setup.submit("b", max_tokens=2)
    setup.run(2)
    assert setup.core.counters.cache_bytes == 2 * 4
    setup.run(4)
    counters = setup.core.counters
    assert (counters.finished_by_stop, counters.finished_by_length) == (1, 1)
    assert (counters.admitted, counters.steps, counters.cache_bytes) == (2, 6, 0)
    assert (counters.prompt_tokens, counters.output_tokens) == (4, 4)
