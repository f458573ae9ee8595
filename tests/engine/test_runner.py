"""The rows of a batch under constraints: each has its own, and one that fails ends alone."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from engine.backend import load_model, mx
from engine.constraint import Constraint
from engine.runner import MeasuredLogprobs, Runner, to_sampled_tokens
from engine.sampling import Logprobs
from engine.sequence import SequenceParams
from engine.types import SamplingParams

PROMPTS = {"free": [72, 73, 74], "held": [65] * 40, "other": [66, 67]}


@pytest.fixture(scope="module")
def model(tiny_folder: Path) -> Any:
    loaded, _ = load_model(tiny_folder)
    return loaded


@dataclass
class Alternating:
    """Allows even ids first, then odd ones, and so on; raises where it is told to."""

    fails_at: int = -1
    in_accept: bool = False
    seen: list[int] = field(default_factory=list)

    def accept(self, token_id: int) -> None:
        self.seen.append(token_id)
        if self.in_accept and len(self.seen) == self.fails_at:
            raise ValueError("not in the grammar")

    def fill(self, allowed: npt.NDArray[np.bool_]) -> None:
        if not self.in_accept and len(self.seen) == self.fails_at:
            raise RuntimeError("the matcher is broken")
        allowed[1 - len(self.seen) % 2 :: 2] = False


class Nothing:
    """Allows no token at all from its third on."""

    num_seen = 0

    def accept(self, token_id: int) -> None:
        self.num_seen += 1

    def fill(self, allowed: npt.NDArray[np.bool_]) -> None:
        allowed[:] = self.num_seen < 2


def run(
    model: Any, constraints: dict[str, Constraint | None], num_steps: int = 12
) -> tuple[dict[str, list[int]], dict[str, int]]:
    """The tokens of each row, and after how many tokens rows have failed."""
    runner = Runner(model, chunk_tokens=16)
    tokens: dict[str, list[int]] = {name: [] for name in constraints}
    failed: dict[str, int] = {}
    for name, constraint in constraints.items():
        runner.prefill(name, PROMPTS[name][:-1])
        params = SequenceParams(SamplingParams(0.0), constraint=constraint)
        runner.start(name, PROMPTS[name][-1], params)
    for _ in range(num_steps):
        output = runner.decode()
        for name, token in output.tokens.items():
            tokens[name].append(token.token_id)
        failed |= {name: len(tokens[name]) for name in output.failed}
        runner.remove(set(output.failed))
    return tokens, failed


def test_constraints_hold_for_their_row_and_leave_others_alone(model: Any) -> None:
    alone = {name: run(model, {name: None})[0][name] for name in PROMPTS}
    mine, theirs = Alternating(), Alternating()
    tokens, failed = run(model, {"free": None, "held": mine, "other": theirs})
    assert failed == {}
    assert tokens["free"] == alone["free"]
    for name in ("held", "other"):
        assert [token_id % 2 for token_id in tokens[name]] == [0, 1] * 6
        assert tokens[name] != alone[name]
    assert mine.seen == tokens["held"]
    assert tokens["held"] == run(model, {"held": Alternating()})[0]["held"]


@pytest.mark.parametrize(
    ("broken", "num_given"),
    [
        (Alternating(0), 0),
        (Alternating(3), 3),
        (Alternating(3, in_accept=True), 3),
        (Nothing(), 2),
    ],
    ids=["at once", "fill", "accept", "nothing allowed"],
)
def test_a_constraint_that_fails_ends_its_row_alone_after_the_tokens_it_had(
    model: Any, broken: Constraint, num_given: int
) -> None:
    alone = run(model, {"free": None})[0]["free"]
    also_held = run(model, {"other": Alternating()})[0]["other"]
    tokens, failed = run(model, {"free": None, "held": broken, "other": Alternating()})
    assert failed == {"held": num_given}
    assert tokens["free"] == alone
    assert tokens["other"] == also_held


def test_a_constraint_may_say_nothing_more_after_the_token_that_ends_a_text(model: Any) -> None:
    runner = Runner(model, chunk_tokens=16)
    for name, constraint in (("held", Nothing()), ("free", None)):
        runner.prefill(name, PROMPTS[name][:-1])
        params = SequenceParams(SamplingParams(0.0), constraint=constraint)
        runner.start(name, PROMPTS[name][-1], params)
    outputs = [runner.decode(), runner.decode()]
    assert ["held" in output.tokens for output in outputs] == [True, True]
    runner.remove({"held"})  # its second token was its last
    assert runner.decode().failed == frozenset()


def test_log_probabilities_of_equal_tokens_are_in_the_order_of_their_ids() -> None:
    measured = Logprobs(mx.array([-1.0]), mx.array([[7, 2, 5]]), mx.array([[-1.0, -1.0, -0.5]]))
    params = [SequenceParams(SamplingParams(), top_logprobs=3)]
    (token,) = to_sampled_tokens([2], MeasuredLogprobs((0,), measured), params)
    assert token.top == ((5, -0.5), (2, -1.0), (7, -1.0))


def test_a_constraint_holds_on_when_its_row_was_pushed_out_and_begins_again(model: Any) -> None:
    whole = run(model, {"held": Alternating()}, 20)[0]["held"]
    constraint = Alternating()
    params = SequenceParams(SamplingParams(0.0), constraint=constraint)
    tokens: list[int] = []
    for _ in range(2):
        runner = Runner(model, chunk_tokens=16)
        fed: Sequence[int] = [*PROMPTS["held"], *tokens]
        runner.prefill("held", fed[:-1])
        runner.start("held", fed[-1], params, tuple(tokens))
        tokens += [runner.decode().tokens["held"].token_id for _ in range(10)]
    assert tokens == whole
    assert constraint.seen == whole
