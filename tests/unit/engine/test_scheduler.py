"""The scheduler: who waits, who prefills, who decodes."""

from engine.scheduler import Chunk, Plan, Scheduler


def test_a_prompt_is_prefilled_in_chunks_and_its_last_token_starts_it() -> None:
    scheduler = Scheduler(max_running=2, chunk_tokens=4)
    scheduler.submit("a", 10)
    plans = [scheduler.schedule() for _ in range(4)]
    assert plans == [
        Plan(False, Chunk("a", 0, 4), None),
        Plan(False, Chunk("a", 4, 8), None),
        Plan(False, Chunk("a", 8, 9), "a"),
        Plan(True, None, None),
    ]


def test_a_prompt_of_one_token_needs_no_chunk() -> None:
    scheduler = Scheduler(max_running=2, chunk_tokens=4)
    scheduler.submit("a", 1)
    assert scheduler.schedule() == Plan(False, None, "a")


def test_decoding_goes_on_beside_every_chunk_of_an_arriving_prompt() -> None:
    scheduler = Scheduler(max_running=2, chunk_tokens=4)
    scheduler.submit("a", 1)
    scheduler.schedule()
    scheduler.submit("b", 20)
    plans = [scheduler.schedule() for _ in range(5)]
    assert [plan.decodes for plan in plans] == [True] * 5
    assert [plan.chunk.end for plan in plans if plan.chunk] == [4, 8, 12, 16, 19]


def test_the_next_waits_until_a_place_is_free_and_comes_in_order() -> None:
    scheduler = Scheduler(max_running=1, chunk_tokens=4)
    for name in ("a", "b", "c"):
        scheduler.submit(name, 1)
    assert [scheduler.schedule().start, scheduler.schedule().start] == ["a", None]
    assert (scheduler.num_running, scheduler.num_waiting) == (1, 2)
    scheduler.remove("a")
    assert scheduler.schedule().start == "b"


def test_removing_works_in_each_place() -> None:
    scheduler = Scheduler(max_running=2, chunk_tokens=4)
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
