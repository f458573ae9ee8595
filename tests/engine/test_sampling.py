"""The batched sampler against the definition of what it does, in numpy and in plain words."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from engine import sampling
from engine.backend import mx, to_python
from engine.sampling import (
    LOWEST_LOGPROB,
    BatchSampler,
    SampledRow,
    find_likeliest,
    measure_logprobs,
)
from engine.sequence import make_key
from engine.types import SamplingParams

LOGITS = [2.0, 1.0, 0.0, -1.0, -9.0]
PROMPT_END = 4  # the input of a row's first draw


def make_row(params: SamplingParams, seed: int = 0, generated: Sequence[int] = ()) -> SampledRow:
    return SampledRow(params, make_key(seed), generated)


def make_sampler(
    *params: SamplingParams, seed: int = 0, vocab_size: int = len(LOGITS)
) -> BatchSampler:
    rows = [make_row(one, seed + index) for index, one in enumerate(params)]
    return BatchSampler(rows, vocab_size)


def draw(
    sampler: BatchSampler, num_rows: int, num_draws: int, logits: Sequence[float] = LOGITS
) -> list[list[int]]:
    """Draws a row, from the same logits in every row; each token is the input of the next draw."""
    stacked = mx.array([logits] * num_rows)
    inputs = mx.array([PROMPT_END] * num_rows, dtype=mx.uint32)
    columns = []
    for _ in range(num_draws):
        inputs = sampler.settle(sampler(stacked, inputs, None))
        columns.append(to_python(inputs))
    return [list(row) for row in zip(*columns, strict=True)]


def define(logits: Sequence[float], params: SamplingParams, generated: Sequence[int] = ()) -> Any:
    """The distribution of the next token, by the definitions one after another."""
    values = np.array(logits, dtype=np.float64)
    for token_id, bias in params.logit_bias:
        values[token_id] += bias
    counts = np.bincount(list(generated), minlength=len(values))
    repeated = np.where(
        values > 0, values / params.repetition_penalty, values * params.repetition_penalty
    )
    values = np.where(counts > 0, repeated - params.presence_penalty, values)
    values = values - counts * params.frequency_penalty
    if params.temperature == 0:
        return np.eye(len(values))[values.argmax()]
    values = values / params.temperature
    chances = np.exp(values - values.max())
    chances[chances < params.min_p * chances.max()] = 0
    order = np.argsort(-chances, kind="stable")
    if params.top_k:
        chances[order[params.top_k :]] = 0
    chances /= chances.sum()
    before = np.cumsum(chances[order]) - chances[order]
    if params.top_p < 1:
        chances[order[before >= max(params.top_p, 1e-9)]] = 0
    return chances / chances.sum()


def test_temperature_0_takes_the_likeliest_in_any_company() -> None:
    sampler = make_sampler(SamplingParams(0.0), SamplingParams(2.0), SamplingParams(0.0, top_k=3))
    first, _, last = draw(sampler, 3, 50)
    assert first == last == [0] * 50


@pytest.mark.parametrize("temperature", [1e-5, 1e-38, 1e-45, 5e-324])
def test_a_temperature_that_divides_beyond_float32_is_greedy(temperature: float) -> None:
    params = SamplingParams(temperature)
    assert draw(make_sampler(params, SamplingParams(1.0)), 2, 20)[0] == [0] * 20
    assert draw(make_sampler(params), 1, 20)[0] == [0] * 20


@pytest.mark.parametrize(
    "params",
    [
        SamplingParams(),
        SamplingParams(0.5),
        SamplingParams(2.0),
        SamplingParams(top_p=0.0),
        SamplingParams(top_p=0.5),
        SamplingParams(top_p=0.65),
        SamplingParams(top_p=0.9),
        SamplingParams(top_p=0.999),
        SamplingParams(top_k=1),
        SamplingParams(top_k=2),
        SamplingParams(top_k=1000),
        SamplingParams(min_p=0.2),
        SamplingParams(min_p=1.0),
        SamplingParams(1.5, top_p=0.8, top_k=3),
        SamplingParams(2.0, top_p=0.8, top_k=4, min_p=0.3),
        SamplingParams(1.5, logit_bias=((0, -100.0), (4, 10.0))),
        SamplingParams(0.0, logit_bias=((3, 5.0),)),
    ],
    ids=repr,
)
def test_frequencies_follow_the_definition(params: SamplingParams) -> None:
    (row,) = draw(make_sampler(params), 1, 3000)
    expected = define(LOGITS, params)
    seen = np.bincount(row, minlength=len(LOGITS)) / len(row)
    assert seen == pytest.approx(expected, abs=0.035)
    assert set(np.flatnonzero(seen)) <= set(np.flatnonzero(expected))


@pytest.mark.parametrize(
    "params",
    [
        SamplingParams(0.0, presence_penalty=1.5),
        SamplingParams(0.0, frequency_penalty=0.6),
        SamplingParams(0.0, frequency_penalty=-2.0),
        SamplingParams(0.0, repetition_penalty=3.0),
        SamplingParams(0.0, repetition_penalty=0.5, logit_bias=((1, 0.9),)),
        SamplingParams(0.0, 1.0, 0, 0.0, 0.4, 0.3, 1.3, ((2, 1.5),)),
    ],
    ids=repr,
)
def test_penalties_count_what_was_generated_and_not_the_prompt(params: SamplingParams) -> None:
    (row,) = draw(make_sampler(params), 1, 12)
    for number, token in enumerate(row):
        assert token == define(LOGITS, params, row[:number]).argmax()


def test_a_row_draws_the_same_alone_and_among_others_that_come_and_go() -> None:
    params = SamplingParams(1.0, 0.95, presence_penalty=0.5, seed=5)
    (alone,) = draw(make_sampler(params, seed=5), 1, 30)
    sampler = make_sampler(SamplingParams(), seed=3)
    sampler.extend(make_sampler(params, seed=5))
    sampler.extend(make_sampler(SamplingParams(1.5, min_p=0.1), SamplingParams(0.0), seed=9))
    logits = mx.array([LOGITS] * 4)
    inputs = mx.array([PROMPT_END] * 4, dtype=mx.uint32)
    together = []
    for keep in [[0, 1, 2, 3]] * 10 + [[1, 3]] + [[0, 1]] * 9 + [[0]] * 10:
        if len(keep) < inputs.shape[0]:
            sampler.filter(keep)
            inputs, logits = inputs[mx.array(keep)], logits[: len(keep)]
        inputs = sampler.settle(sampler(logits, inputs, None))
        together.append(to_python(inputs)[1 if inputs.shape[0] == 4 else 0])
    assert together == alone


@pytest.mark.parametrize("company", [(), (SamplingParams(0.0),), (SamplingParams(min_p=0.1),)])
def test_a_row_that_begins_again_draws_on_as_if_it_had_not_stopped(
    company: tuple[SamplingParams, ...],
) -> None:
    params = SamplingParams(1.0, 0.95, frequency_penalty=0.3)
    (whole,) = draw(make_sampler(params, seed=5), 1, 30)
    sampler = make_sampler(*company, seed=9)
    sampler.extend(BatchSampler([make_row(params, 5, whole[:12])], len(LOGITS)))
    num_rows = len(company) + 1
    inputs = mx.array([whole[11]] * num_rows, dtype=mx.uint32)
    rest = []
    for _ in range(18):
        inputs = sampler.settle(sampler(mx.array([LOGITS] * num_rows), inputs, None))
        rest.append(to_python(inputs)[-1])
    assert rest == whole[12:]


@pytest.mark.parametrize(
    "params",
    [
        SamplingParams(),
        SamplingParams(1.5, 0.95),
        SamplingParams(top_k=1500),
        SamplingParams(3, 0.95),
    ],
    ids=repr,
)
def test_a_draw_does_not_change_with_the_rounding_of_its_logits(params: SamplingParams) -> None:
    """A batch adds up in another order than a row alone, so logits differ in their last digits."""
    random = np.random.default_rng(1)
    exact = random.normal(size=20_000) * 2
    rounded = exact + random.normal(size=exact.size) * 1e-5
    (one,) = draw(make_sampler(params, vocab_size=exact.size), 1, 150, list(exact))
    (other,) = draw(make_sampler(params, vocab_size=exact.size), 1, 150, list(rounded))
    assert sum(a != b for a, b in zip(one, other, strict=True)) <= 1


def test_seeds_give_their_own_draws_and_neighbours_share_none() -> None:
    rows = [draw(make_sampler(SamplingParams(), seed=seed), 1, 60)[0] for seed in (1, 1, 2, -1)]
    assert rows[0] == rows[1]
    assert len({tuple(row[shift : shift + 50]) for row in rows[1:] for shift in range(10)}) == 30
    assert make_key(2**63) != make_key(-(2**63))


@pytest.mark.parametrize("more", [16, 48])
@pytest.mark.parametrize(
    "params",
    [
        SamplingParams(top_p=0.9),
        SamplingParams(3.0, top_k=40),
        SamplingParams(3.0, top_k=40, top_p=0.8),
    ],
)
def test_candidates_that_do_not_reach_the_cut_are_not_the_last_word(
    params: SamplingParams, more: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sampling, "NUM_CANDIDATES", 8)
    monkeypatch.setattr(sampling, "MORE_CANDIDATES", more)
    logits = np.random.default_rng(0).normal(size=64)
    allowed = set(np.flatnonzero(define(list(logits), params)))
    sampler = make_sampler(params, SamplingParams(0.0), params, vocab_size=64)
    first, greedy, last = draw(sampler, 3, 3000, list(logits))
    assert set(first) == set(last) == allowed
    assert len(allowed) > 8
    assert set(greedy) == {int(logits.argmax())}


def test_forbidden_tokens_are_never_drawn_and_other_rows_do_not_care() -> None:
    sampler = make_sampler(SamplingParams(0.0), SamplingParams(1.0, 0.9), SamplingParams(0.0))
    allowed = mx.array([[False, False, True, True, True]] * 2 + [[True] * 5])
    stacked, inputs = mx.array([LOGITS] * 3), mx.array([0, 0, 0], dtype=mx.uint32)
    seen = [to_python(sampler.settle(sampler(stacked, inputs, allowed))) for _ in range(50)]
    assert {greedy for greedy, _, _ in seen} == {2}
    assert {drawn for _, drawn, _ in seen} <= {2, 3}
    assert {free for _, _, free in seen} == {0}


def test_the_likeliest_come_in_order_and_as_many_as_there_are() -> None:
    logits = mx.array([[0.0, 3.0, -1.0, 2.0]])
    assert to_python(find_likeliest(logits, 2)) == [[1, 3]]
    assert to_python(find_likeliest(logits, 9)) == [[1, 3, 0, 2]]


def test_log_probabilities_are_the_models_own() -> None:
    logits = mx.array([LOGITS, LOGITS[::-1]])
    measured = measure_logprobs(logits, mx.array([1, 1], dtype=mx.uint32), 2)
    expected = np.array(LOGITS) - np.log(np.exp(LOGITS).sum())
    assert to_python(measured.sampled) == pytest.approx([expected[1], expected[3]], abs=1e-5)
    assert to_python(measured.top_ids) == [[0, 1], [4, 3]]
    assert to_python(measured.top_values[0]) == pytest.approx(expected[:2], abs=1e-5)


@pytest.mark.parametrize("num_top", [1, 2, 5, 99])
@pytest.mark.parametrize(
    "logits", [[0.0] * 50, [1.0, 5.0, 5.0, 0.0, 5.0] * 10, LOGITS], ids=["all", "many", "none"]
)
def test_of_equally_likely_tokens_the_greedy_one_is_among_the_likeliest(
    logits: list[float], num_top: int
) -> None:
    greedy = logits.index(max(logits))
    measured = measure_logprobs(mx.array([logits]), mx.array([greedy], dtype=mx.uint32), num_top)
    (ids,), (values,) = to_python(measured.top_ids), to_python(measured.top_values)
    assert greedy in ids
    assert len(set(ids)) == len(ids) == min(num_top, len(logits))
    assert values == sorted(values, reverse=True)
    assert values[0] == to_python(measured.sampled)[0]


@pytest.mark.parametrize(
    "logits",
    [[-np.inf, 1.0, 2.0], [np.nan, 1.0, 2.0], [np.inf, 0.0, 0.0], [3e38, -3e38, 0.0]],
    ids=str,
)
def test_a_log_probability_is_a_number_whatever_a_model_gives(logits: list[float]) -> None:
    for token_id in range(3):
        measured = measure_logprobs(mx.array([logits]), mx.array([token_id], dtype=mx.uint32), 3)
        values = [*to_python(measured.sampled), *to_python(measured.top_values)[0]]
        assert all(LOWEST_LOGPROB <= value <= 0 for value in values)
