"""The scheduler under any order of arrivals and departures."""

from hypothesis import given
from hypothesis import strategies as st

from engine.scheduler import Scheduler

ARRIVALS = st.lists(st.tuples(st.integers(1, 40), st.integers(0, 10)), max_size=12)


@given(ARRIVALS, st.integers(1, 4), st.integers(1, 16))
def test_every_prompt_token_is_fed_once_in_order_and_limits_hold(
    arrivals: list[tuple[int, int]], max_running: int, chunk_tokens: int
) -> None:
    scheduler = Scheduler(max_running, chunk_tokens)
    fed = {str(index): 0 for index in range(len(arrivals))}
    left = {str(index): lifetime for index, (_, lifetime) in enumerate(arrivals)}
    started: list[str] = []
    for index, (num_tokens, _) in enumerate(arrivals):
        scheduler.submit(str(index), num_tokens)
    while not (plan := scheduler.schedule()).is_idle:
        assert plan.decodes == bool(set(started) & set(left))
        assert scheduler.num_running <= max_running
        if plan.chunk:
            assert plan.chunk.begin == fed[plan.chunk.generation_id]
            assert 0 < plan.chunk.end - plan.chunk.begin <= chunk_tokens
            fed[plan.chunk.generation_id] = plan.chunk.end
        if plan.start is not None:
            started.append(plan.start)
        for name in [name for name in started if name in left]:
            left[name] -= 1
            if left[name] < 0:
                del left[name]
                scheduler.remove(name)
    assert started == list(fed)
    assert list(fed.values()) == [num_tokens - 1 for num_tokens, _ in arrivals]
