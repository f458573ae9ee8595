"""The loop body over a runner that plays scripts: order, ends, aborts and failures."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest

from engine.core import Emitted, EngineCore, Generation
from engine.detokenizer import Detokenizer
from engine.errors import GenerationFailedError
from engine.scheduler import Scheduler
from engine.types import GenerationFinished, SamplingParams, TextDelta

STOP = 0
VOCABULARY = [b"</s>", b"a", b"b", b"\xf0\x9f", b"\x8e\xa8"]


@dataclass
class ScriptedRunner:
    """Gives each sequence the tokens of its script and records what it was asked."""

    script: dict[str, list[int]]
    calls: list[tuple[str, ...]] = field(default_factory=list)
    rows: list[str] = field(default_factory=list)
    is_broken: bool = False

    def prefill(self, generation_id: str, token_ids: Sequence[int]) -> None:
        self.calls.append(("prefill", generation_id, str(list(token_ids))))

    def start(self, generation_id: str, last_token: int, sampling: SamplingParams) -> None:
        self.calls.append(("start", generation_id, str(last_token)))
        self.rows.append(generation_id)

    def decode(self) -> dict[str, int]:
        if self.is_broken:
            raise RuntimeError("out of memory")
        return {name: self.script[name].pop(0) for name in self.rows}

    def remove(self, generation_ids: set[str]) -> None:
        self.rows = [name for name in self.rows if name not in generation_ids]


@dataclass
class Setup:
    """A core, the runner that it uses now, and a way to submit."""

    script: dict[str, list[int]]
    runners: list[ScriptedRunner] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.core = EngineCore(self._make_runner, Scheduler(2, chunk_tokens=2), {STOP})

    def _make_runner(self) -> ScriptedRunner:
        self.runners.append(ScriptedRunner(self.script))
        return self.runners[-1]

    def submit(self, name: str, prompt: Sequence[int] = (7,), max_tokens: int = 100) -> None:
        detokenizer = Detokenizer(VOCABULARY, hidden={STOP})
        self.core.submit(Generation(name, prompt, SamplingParams(), max_tokens, detokenizer))

    def run(self, num_steps: int) -> list[Emitted]:
        return [item for _ in range(num_steps) for item in self.core.step()]


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
        ("start", "g", "10"),
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
    setup.runners[0].is_broken = True
    failed = setup.run(1)
    assert {name for name, item in failed if isinstance(item, GenerationFailedError)} == {"a", "b"}
    assert len(setup.runners) == 2
    assert setup.run(3) == [("c", TextDelta("b", 1)), ("c", GenerationFinished("stop", 2))]
    assert setup.core.counters.failed == 2


def test_counters_add_up() -> None:
    setup = Setup({"a": [1, STOP], "b": [1, STOP]})
    setup.submit("a", [7, 7, 7])
    setup.submit("b")
    setup.run(6)
    counters = setup.core.counters
    assert (counters.admitted, counters.finished, counters.steps) == (2, 2, 6)
    assert (counters.prompt_tokens, counters.output_tokens) == (4, 4)
