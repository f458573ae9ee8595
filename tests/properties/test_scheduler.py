"""The scheduler under any order of arrivals and departures."""

from hypothesis import given
from hypothesis import strategies as st

from engine.scheduler import Scheduler

ARRIVALS = st.lists(st.tuples(st.integers(1, 40), st.integers(1, 60)), max_size=12)


@given(ARRIVALS, st.integers(1, 4), st.integers(1, 16), st.integers(1, 1500))
def test_every_token_is_fed_once_in_order_and_limits_hold(
    arrivals: list[tuple[int, int]], max_running: int, chunk_tokens: int, budget: int
) -> None:
    """A naive runner keeps what each sequence has in its cache; all end with all their tokens."""
    scheduler = Scheduler(max_running, chunk_tokens, lambda rows, longest: rows * longest, budget)
    for index, (num_tokens, _) in enumerate(arrivals):
        scheduler.submit(str(index), num_tokens)
    total = {str(index): num_tokens for index, (num_tokens, _) in enumerate(arrivals)}
    left = {str(index): num_new for index, (_, num_new) in enumerate(arrivals)}
    cached: dict[str, int] = {}
    decoding: list[str] = []
    while not (plan := scheduler.schedule()).is_idle:
        for name in plan.preempted:
            del cached[name]
            if name in decoding:
                decoding.remove(name)
        assert plan.decodes == bool(decoding)
        for name in list(decoding):
            total[name] += 1
            cached[name] += 1
            left[name] -= 1
            if not left[name]:
                decoding.remove(name)
                del cached[name]
                scheduler.remove(name)
        if plan.chunk:
            assert plan.chunk.begin == cached.get(plan.chunk.generation_id, 0)
            assert 0 < plan.chunk.end - plan.chunk.begin <= chunk_tokens
            cached[plan.chunk.generation_id] = plan.chunk.end
        if plan.start is not None:
            assert cached.setdefault(plan.start, 0) == total[plan.start] - 1
            decoding.append(plan.start)
        assert scheduler.num_running == len(cached) <= max_running
        used = len(cached) * max((total[name] for name in cached), default=0)
        assert used <= budget or len(cached) == 1
    assert not any(left.values())
