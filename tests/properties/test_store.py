"""Any sequence of calls leaves in a store what a naive model of it holds."""

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test

from stores.types import RecordStatus, ResponseRecord, StoreBounds
from tests.stores.under_test import STORE_FACTORIES, ManualClock, StoreFactory, make_record

KEYS = [(response_id, owner) for owner in ("alice", "bob") for response_id in "abc"]
STATUSES: st.SearchStrategy[RecordStatus] = st.sampled_from(
    ("completed", "incomplete", "failed", "cancelled", "in_progress")
)
BODIES = st.sampled_from(["", "", "x", 10 * "é", 40 * "x", 40 * "é"])
BOUNDS = st.builds(
    StoreBounds,
    max_entries=st.integers(1, 4),
    max_bytes=st.sampled_from([10_000, 10_000, 1600, 1080, 540, 0]),
    ttl_s=st.sampled_from([0, 5]),
)


class NaiveStore:
    """Every rule of the contract as a walk over one list, the least recently used record first."""

    def __init__(self, bounds: StoreBounds) -> None:
        self.bounds = bounds
        self.now_s = 0
        self.aged: list[tuple[ResponseRecord, int]] = []

    def ended(self) -> list[ResponseRecord]:
        return [record for record, _ in self.aged if record.status != "in_progress"]

    def put(self, record: ResponseRecord) -> None:
        self.delete(record.response_id, record.owner)
        is_running = record.status == "in_progress"
        if is_running or record.size_bytes <= self.bounds.max_bytes:
            self.aged.append((record, self.now_s))
        while self.is_over():
            self.aged.remove(next(a for a in self.aged if a[0].status != "in_progress"))

    def is_over(self) -> bool:
        num_bytes = sum(record.size_bytes for record in self.ended())
        return len(self.ended()) > self.bounds.max_entries or num_bytes > self.bounds.max_bytes

    def get(self, response_id: str, owner: str) -> ResponseRecord | None:
        for aged in self.aged:
            if (aged[0].response_id, aged[0].owner) == (response_id, owner):
                self.aged.remove(aged)
                self.aged.append(aged)
                return aged[0]
        return None

    def delete(self, response_id: str, owner: str) -> bool:
        found = self.get(response_id, owner) is not None
        if found:
            self.aged.pop()
        return found

    def advance(self, seconds: int) -> None:
        self.now_s += seconds
        self.aged = [
            (record, since_s)
            for record, since_s in self.aged
            if record.status == "in_progress"
            or self.bounds.ttl_s == 0
            or self.now_s - since_s < self.bounds.ttl_s
        ]


class StoreMachine(RuleBasedStateMachine):
    """One store and its model, told the same things."""

    make_store: StoreFactory

    @initialize(bounds=BOUNDS)
    def open(self, bounds: StoreBounds) -> None:
        self.clock = ManualClock()
        self.store = self.make_store(bounds, self.clock)
        self.model = NaiveStore(bounds)

    @rule(key=st.sampled_from(KEYS), status=STATUSES, body=BODIES)
    def put(self, key: tuple[str, str], status: RecordStatus, body: str) -> None:
        response_id, owner = key
        record = make_record(response_id, owner=owner, status=status, body=body)
        self.store.put(record)
        self.model.put(record)

    @rule(key=st.sampled_from(KEYS))
    def get(self, key: tuple[str, str]) -> None:
        assert self.store.get(*key) == self.model.get(*key)

    @rule(key=st.sampled_from(KEYS))
    def delete(self, key: tuple[str, str]) -> None:
        assert self.store.delete(*key) == self.model.delete(*key)

    @rule(seconds=st.integers(1, 5))
    def advance(self, seconds: int) -> None:
        self.clock.now_s += seconds
        self.model.advance(seconds)

    @rule()
    def compare(self) -> None:
        """Read everything, the least recently used first: reads are uses, so the order stays."""
        expected = [record for record, _ in self.model.aged]
        in_order = [(record.response_id, record.owner) for record in expected]
        keys = in_order + [key for key in KEYS if key not in in_order]
        held = [record for key in keys if (record := self.store.get(*key)) is not None]
        assert held == expected
        ended = [record for record in held if record.status != "in_progress"]
        assert len(ended) <= self.store.bounds.max_entries
        assert sum(record.size_bytes for record in ended) <= self.store.bounds.max_bytes

    def teardown(self) -> None:
        self.compare()


@pytest.mark.parametrize("factory", STORE_FACTORIES.values(), ids=list(STORE_FACTORIES))
def test_a_store_holds_what_its_model_holds(factory: StoreFactory) -> None:
    class Machine(StoreMachine):
        make_store = staticmethod(factory)

    limits = settings(
        max_examples=2 * settings().max_examples,
        stateful_step_count=40,
        deadline=None,
        report_multiple_bugs=False,
    )
    run_state_machine_as_test(Machine, settings=limits)
