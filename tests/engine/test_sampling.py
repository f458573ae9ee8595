"""The batched sampler against the definition of what it does."""

import pytest

from engine.backend import mx
from engine.sampling import BatchSampler, cut_nucleus
from engine.types import SamplingParams

LOGITS = [2.0, 1.0, 0.0, -1.0, -9.0]


def make_sampler(*params: SamplingParams, seed: int = 0) -> BatchSampler:
    return BatchSampler(params, mx.stack([mx.random.key(seed + i) for i in range(len(params))]))


def draw(sampler: BatchSampler, num_rows: int, num_draws: int) -> list[list[int]]:
    """Draws a row, from the same logits in every row."""
    logits = mx.array([LOGITS] * num_rows)
    columns = [sampler(logits).tolist() for _ in range(num_draws)]
    return [list(row) for row in zip(*columns, strict=True)]


def test_temperature_0_takes_the_likeliest_in_any_company() -> None:
    sampler = make_sampler(SamplingParams(0.0), SamplingParams(2.0), SamplingParams(0.0))
    first, _, last = draw(sampler, 3, 50)
    assert first == last == [0] * 50


@pytest.mark.parametrize("temperature", [1e-5, 1e-38, 1e-45, 5e-324])
def test_a_temperature_that_divides_beyond_float32_is_greedy(temperature: float) -> None:
    params = SamplingParams(temperature)
    assert draw(make_sampler(params, SamplingParams(1.0)), 2, 20)[0] == [0] * 20
    assert draw(make_sampler(params), 1, 20)[0] == [0] * 20


@pytest.mark.parametrize("temperature", [0.5, 1.0, 2.0])
def test_frequencies_follow_the_softmax_at_that_temperature(temperature: float) -> None:
    (row,) = draw(make_sampler(SamplingParams(temperature)), 1, 4000)
    expected = mx.softmax(mx.array(LOGITS) / temperature).tolist()
    seen = [row.count(token) / len(row) for token in range(len(LOGITS))]
    assert seen == pytest.approx(expected, abs=0.03)


def test_a_row_draws_the_same_alone_and_among_others_that_come_and_go() -> None:
    params = SamplingParams(1.0, 0.95)
    (alone,) = draw(make_sampler(params, seed=5), 1, 30)
    sampler = make_sampler(params, seed=5)
    sampler.extend(make_sampler(SamplingParams(1.5), SamplingParams(0.0), seed=9))
    together = draw(sampler, 3, 10)[0]
    sampler.filter([0, 2])
    together += draw(sampler, 2, 10)[0]
    sampler.filter([0])
    together += draw(sampler, 1, 10)[0]
    assert together == alone


@pytest.mark.parametrize(
    ("top_p", "kept"), [(0.0, 1), (0.5, 1), (0.65, 2), (0.9, 3), (0.999, 4), (1.0, 5)]
)
def test_the_nucleus_is_the_fewest_likeliest_tokens_that_reach_top_p(
    top_p: float, kept: int
) -> None:
    order = [3, 0, 4, 1, 2]  # the logits need not come sorted
    logits = mx.array([[LOGITS[i] for i in order]])
    cut = cut_nucleus(logits, mx.array([[top_p]]))[0]
    assert sorted(t for i, t in enumerate(order) if not mx.isinf(cut[i]).item()) == list(
        range(kept)
    )


def test_each_row_has_its_own_nucleus() -> None:
    sampler = make_sampler(SamplingParams(1.0, 0.1), SamplingParams(1.0), seed=3)
    narrow, wide = draw(sampler, 2, 200)
    assert set(narrow) == {0}
    assert set(wide) >= {0, 1, 2}
