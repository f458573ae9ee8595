"""The arithmetic of KV caches: rows, windows, states, and the longest row of a budget."""

from hypothesis import given
from hypothesis import strategies as st

from engine.cache_cost import MAX_CHUNK_TOKENS, STEP_TOKENS, UNBOUNDED_TOKENS, CacheCost

EVERY_TOKEN = CacheCost(token_bytes=10)
WINDOWS = CacheCost(0, windows=((100, 3), (1000, 2)))
STATES = CacheCost(0, row_bytes=7)

sizes = st.integers(0, 10_000)
costs = st.builds(
    CacheCost, sizes, st.lists(st.tuples(st.integers(1, 5000), sizes), max_size=2).map(tuple), sizes
)


def test_every_row_is_as_long_as_the_longest_and_has_a_step_of_room() -> None:
    assert EVERY_TOKEN.batch_bytes(3, 1000) == 3 * 10 * (1000 + STEP_TOKENS - 1)


def test_a_window_never_grows_but_for_the_chunk_of_one_prompt() -> None:
    chunks = MAX_CHUNK_TOKENS * (3 + 2)
    assert WINDOWS.batch_bytes(4, 9000) == 4 * (100 * 3 + 1000 * 2) + chunks
    assert WINDOWS.batch_bytes(4, 90_000) == WINDOWS.batch_bytes(4, 9000)


def test_a_row_shorter_than_the_window_takes_what_it_needs() -> None:
    assert CacheCost(0, ((1000, 2),)).batch_bytes(1, 5) == 2 * (5 + STEP_TOKENS - 1)


def test_a_state_has_one_size() -> None:
    assert STATES.batch_bytes(3, 1) == STATES.batch_bytes(3, 10**6) == 21


def test_no_rows_take_nothing() -> None:
    assert CacheCost(10, ((100, 3),), 7).batch_bytes(0, 1000) == 0


def test_a_budget_below_one_token_has_room_for_none() -> None:
    assert EVERY_TOKEN.longest(EVERY_TOKEN.batch_bytes(1, 1) - 1) == 0
    assert EVERY_TOKEN.longest(-5) == STATES.longest(6) == 0


def test_a_model_whose_caches_stop_growing_has_no_longest_row() -> None:
    assert STATES.longest(7) == UNBOUNDED_TOKENS
    assert WINDOWS.longest(10**6) == UNBOUNDED_TOKENS


@given(costs, st.integers(0, 10**9))
def test_the_longest_row_fits_and_a_longer_one_does_not(cost: CacheCost, budget_bytes: int) -> None:
    longest = cost.longest(budget_bytes)
    assert longest == 0 or cost.batch_bytes(1, longest) <= budget_bytes
    assert longest == UNBOUNDED_TOKENS or cost.batch_bytes(1, longest + 1) > budget_bytes


@given(costs, st.integers(1, 100), st.integers(0, 10**6), st.integers(0, 1000))
def test_more_rows_or_tokens_never_take_less(
    cost: CacheCost, num_rows: int, num_tokens: int, more: int
) -> None:
    bytes_now = cost.batch_bytes(num_rows, num_tokens)
    assert cost.batch_bytes(num_rows, num_tokens + more) >= bytes_now
    assert cost.batch_bytes(num_rows + more, num_tokens) >= bytes_now
