"""The scheduler: who waits, who prefills, who decodes."""

import pytest

from engine.scheduler import HEADROOM_TOKENS, Chunk, Plan, Scheduler


def make_scheduler(max_running: int, chunk_tokens: int, budget_tokens: int = 10**9) -> Scheduler:
    """A scheduler whose caches take a byte a token, every row as long as the longest."""
    return Scheduler(max_running, chunk_tokens, lambda rows, longest: rows * longest, budget_tokens)


def test_a_prompt_is_prefilled_in_chunks_and_its_last_token_starts_it() -> None:
    scheduler = make_scheduler(max_running=2, chunk_tokens=4)
    scheduler.submit("a", 10)
    plans = [scheduler.schedule() for _ in range(4)]
    assert plans == [
        Plan((), False, Chunk("a", 0, 4), None),
        Plan((), False, Chunk("a", 4, 8), None),
        Plan((), False, Chunk("a", 8, 9), "a"),
        Plan((), True, None, None),
    ]


def test_a_prompt_of_one_token_needs_no_chunk() -> None:
    scheduler = make_scheduler(max_running=2, chunk_tokens=4)
    scheduler.submit("a", 1)
    assert scheduler.schedule() == Plan((), False, None, "a")


def test_decoding_goes_on_beside_every_chunk_of_an_arriving_prompt() -> None:
    scheduler = make_scheduler(max_running=2, chunk_tokens=4)
    scheduler.submit("a", 1)
    scheduler.schedule()
    scheduler.submit("b", 20)
    plans = [scheduler.schedule() for _ in range(5)]
    assert [plan.decodes for plan in plans] == [True] * 5
    assert [plan.chunk.end for plan in plans if plan.chunk] == [4, 8, 12, 16, 19]


def test_the_next_waits_until_a_place_is_free_and_comes_in_order() -> None:
    scheduler = make_scheduler(max_running=1, chunk_tokens=4)
    for name in ("a", "b", "c"):
        scheduler.submit(name, 1)
    assert [scheduler.schedule().start, scheduler.schedule().start] == ["a", None]
    assert (scheduler.num_running, scheduler.num_waiting) == (1, 2)
    scheduler.remove("a")
    assert scheduler.schedule().start == "b"


def test_removing_works_in_each_place() -> None:
    scheduler = make_scheduler(max_running=2, chunk_tokens=4)
    for name, num_tokens in (("decoding", 1), ("prefilling", 9), ("waiting", 9)):
        scheduler.submit(name, num_tokens)
        if name != "waiting":
            scheduler.schedule()
    assert (scheduler.num_running, scheduler.num_waiting) == (2, 1)
    assert scheduler.is_waiting("waiting")
    for name in ("waiting", "prefilling", "decoding", "unknown"):
        scheduler.remove(name)
    assert (scheduler.num_running, scheduler.num_waiting) == (0, 0)
    assert scheduler.schedule().is_idle


def start_all(scheduler: Scheduler, *lengths: int) -> None:
    """Submit prompts named by their place and run until all have started."""
    for index, num_tokens in enumerate(lengths):
        scheduler.submit(str(index), num_tokens)
    while scheduler.schedule().start != str(len(lengths) - 1):
        assert scheduler.num_running


def test_a_prompt_waits_until_it_fits_beside_the_others_with_some_headroom() -> None:
    scheduler = make_scheduler(8, 1000, budget_tokens=2 * (500 + HEADROOM_TOKENS) - 1)
    start_all(scheduler, 100)
    scheduler.submit("long", 500)
    assert [scheduler.schedule().start for _ in range(3)] == [None] * 3
    scheduler.remove("0")
    assert scheduler.schedule().start == "long"


def test_a_prompt_alone_is_admitted_whatever_it_takes() -> None:
    scheduler = make_scheduler(8, 1000, budget_tokens=10)
    start_all(scheduler, 100)
    assert scheduler.num_running == 1


def test_caches_that_outgrow_the_budget_lose_the_latest_comer_which_begins_again() -> None:
    scheduler = make_scheduler(8, 1000, budget_tokens=3 * 400)
    start_all(scheduler, 100, 50, 60)
    scheduler.submit("later", 399)
    plans = [scheduler.schedule() for _ in range(302)]
    num_steps = next(number for number, plan in enumerate(plans) if plan.preempted)
    assert plans[num_steps] == Plan(("2",), True, None, None)
    assert scheduler.is_waiting("2")
    assert scheduler.num_running == 2
    scheduler.remove("0")
    scheduler.remove("1")
    resumed = scheduler.schedule()
    assert resumed == Plan((), False, Chunk("2", 0, 60 + num_steps - 1), "2")


def test_a_prompt_in_prefill_is_preempted_first_and_begins_again_in_its_turn() -> None:
    scheduler = make_scheduler(8, 1, budget_tokens=2 * (401 + HEADROOM_TOKENS))
    start_all(scheduler, 400)
    scheduler.submit("prefilling", 350)
    plans = [scheduler.schedule() for _ in range(HEADROOM_TOKENS + 2)]
    assert [plan.preempted for plan in plans if plan.preempted] == [("prefilling",)]
    assert plans[-1] == Plan(("prefilling",), True, None, None)
    scheduler.submit("next", 1)
    scheduler.remove("0")
    assert scheduler.schedule().chunk == Chunk("prefilling", 0, 1)


@pytest.mark.parametrize("budget_tokens", [1, 50, 400])
def test_the_first_is_never_preempted(budget_tokens: int) -> None:
    scheduler = make_scheduler(8, 1000, budget_tokens)
    start_all(scheduler, 10)
    for name in ("b", "c"):
        scheduler.submit(name, 10)
    assert all("0" not in scheduler.schedule().preempted for _ in range(500))
    assert all(scheduler.schedule().decodes for _ in range(10))
