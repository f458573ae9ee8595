"""Any sequence of calls leaves in a store what a naive model of it holds."""

import shutil
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from stores.errors import StoreRefusal
from stores.sqlite import SqliteStore
from stores.types import (
    Bounds,
    ConversationLink,
    ConversationRecord,
    History,
    HistoryQuery,
    ItemRecord,
    PageQuery,
    RecordStatus,
    ResponseRecord,
    StoreBounds,
)
from tests.stores.naive_store import NaiveStore
from tests.stores.under_test import STORE_FACTORIES, ManualClock, StoreFactory

# One id has one body for ever.
ITEMS = [ItemRecord(f"i{n}", f"{n}" + n * 50 * "é") for n in range(7)]
ITEM_IDS = [item.item_id for item in ITEMS]

OWNERS = st.sampled_from(["alice", "alice", "alice", "bob"])
RESPONSE_IDS = st.sampled_from("abcdef")
CONVERSATION_IDS = st.sampled_from("xyz")
SOME_ITEMS = st.lists(st.sampled_from(ITEMS), max_size=3, unique=True).map(tuple)
TEXTS = st.sampled_from(["", "{}", 60 * "x", 300 * "é"])
ENDS: st.SearchStrategy[RecordStatus] = st.sampled_from(
    ("completed", "completed", "completed", "incomplete", "failed", "cancelled")
)
PAGES = st.builds(
    PageQuery,
    limit=st.integers(1, 4),
    after=st.none() | st.sampled_from(ITEM_IDS),
    is_descending=st.booleans(),
)
BOUNDS = st.builds(
    Bounds,
    max_entries=st.sampled_from([4, 3, 2, 1, 1000, 0]),
    max_bytes=st.sampled_from([1_000_000, 6000, 4000, 2500, 1600, 800, 0]),
    ttl_s=st.sampled_from([0, 5]),
)
STORE_BOUNDS = st.builds(StoreBounds, BOUNDS, BOUNDS)


class StoreMachine(RuleBasedStateMachine):
    """One store and its model, told the same things. Serials are the model's but in the store."""

    make_store: StoreFactory

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="store-"))
        self.clock = ManualClock()
        self.serials: dict[int, int] = {}

    @initialize(bounds=STORE_BOUNDS)
    def open(self, bounds: StoreBounds) -> None:
        self.store = self.make_store(bounds, self.clock, self.folder)
        self.model = NaiveStore(bounds)

    def teardown(self) -> None:
        if hasattr(self, "store"):
            self.read_all()
            self.store.close()
        shutil.rmtree(self.folder)

    # ── calls ────────────────────────────────────────────────────────────────────────────────────

    def call(self, name: str, *args: Any) -> Any:
        """Make a call of both, which must say the same; returns what they say."""
        told = [self.to_store(it) if isinstance(it, ResponseRecord) else it for it in args]
        expected, answer = answer_of(self.model, name, *args), answer_of(self.store, name, *told)
        if isinstance(answer, History) and isinstance(expected, History):
            answer = self.to_model(answer, expected)
        if name == "list_running":
            expected = expected if isinstance(expected, type) else [*map(self.to_store, expected)]
            answer = answer if isinstance(answer, type) else [*answer]
        assert answer == expected
        return expected

    def to_store(self, record: ResponseRecord) -> ResponseRecord:
        link = record.conversation
        if link is None or link.serial is None:
            return record
        return replace(record, conversation=replace(link, serial=self.serials[link.serial]))

    def to_model(self, answer: History, expected: History) -> History:
        """One serial of the model's is one of the store's, which no other conversation has."""
        serial, stored = expected.conversation_serial, answer.conversation_serial
        if serial is None or stored is None:
            return answer
        assert self.serials.setdefault(serial, stored) == stored
        assert len(set(self.serials.values())) == len(self.serials)
        return replace(answer, conversation_serial=serial)

    # ── responses ────────────────────────────────────────────────────────────────────────────────

    @rule(
        response_id=RESPONSE_IDS,
        owner=OWNERS,
        body=TEXTS,
        parent_id=st.none() | RESPONSE_IDS,
        conversation_id=st.none() | CONVERSATION_IDS,
        old_serial=st.none() | st.integers(1, 8),
        new=SOME_ITEMS,
        output=SOME_ITEMS,
        status=ENDS,
        steps=st.sampled_from([("begin",), ("finish",), ("begin", "finish")]),
    )
    def respond(
        self,
        response_id: str,
        owner: str,
        body: str,
        parent_id: str | None,
        conversation_id: str | None,
        old_serial: int | None,
        new: tuple[ItemRecord, ...],
        output: tuple[ItemRecord, ...],
        status: RecordStatus,
        steps: tuple[str, ...],
    ) -> None:
        link = None
        if conversation_id is not None:
            serial = old_serial if old_serial in self.serials else None
            query = HistoryQuery(owner, conversation_id=conversation_id)
            history = self.call("read_history", query)
            if isinstance(history, History) and serial is None:
                serial = history.conversation_serial
            link = ConversationLink(conversation_id, serial, num_read=len(new) // 2)
        record = ResponseRecord(
            response_id, owner, "in_progress", 7, body, parent_id, link, input=new
        )
        for step in steps:
            ended = replace(record, status=status, output=output, body=body + "!")
            self.call(step, record if step == "begin" else ended)

    @rule(data=st.data(), status=ENDS, body=TEXTS, output=SOME_ITEMS)
    @precondition(lambda self: self.model.running)
    def finish_one(
        self, data: st.DataObject, status: RecordStatus, body: str, output: tuple[ItemRecord, ...]
    ) -> None:
        running = data.draw(st.sampled_from(self.model.running)).record
        keys = {"response_id": running.response_id, "owner": running.owner}
        self.call("finish", ResponseRecord(**keys, status=status, created_at=7, body=body,
                                           output=output))  # fmt: skip

    @rule(response_id=RESPONSE_IDS, owner=OWNERS, name=st.sampled_from(["get", "delete"]))
    def get_or_delete(self, response_id: str, owner: str, name: str) -> None:
        self.call(name, response_id, owner)

    @rule(response_id=RESPONSE_IDS, owner=OWNERS, page=PAGES)
    def list_input(self, response_id: str, owner: str, page: PageQuery) -> None:
        self.call("list_input_items", response_id, owner, page)

    @rule(
        owner=OWNERS,
        parent_id=st.none() | RESPONSE_IDS,
        conversation_id=st.none() | CONVERSATION_IDS,
    )
    def read_history(self, owner: str, parent_id: str | None, conversation_id: str | None) -> None:
        self.call("read_history", HistoryQuery(owner, parent_id, conversation_id, (*ITEM_IDS,)))

    # ── conversations ────────────────────────────────────────────────────────────────────────────

    @rule(conversation_id=CONVERSATION_IDS, owner=OWNERS, metadata=TEXTS, items=SOME_ITEMS)
    def create(
        self, conversation_id: str, owner: str, metadata: str, items: tuple[ItemRecord, ...]
    ) -> None:
        record = ConversationRecord(conversation_id, owner, 7, metadata)
        self.call("create_conversation", record, items)

    @rule(conversation_id=CONVERSATION_IDS, owner=OWNERS, metadata=TEXTS)
    def update(self, conversation_id: str, owner: str, metadata: str) -> None:
        self.call("update_conversation", conversation_id, owner, metadata)

    @rule(conversation_id=CONVERSATION_IDS, owner=OWNERS, items=SOME_ITEMS)
    def append(self, conversation_id: str, owner: str, items: tuple[ItemRecord, ...]) -> None:
        self.call("append_items", conversation_id, owner, items)

    @rule(
        conversation_id=CONVERSATION_IDS,
        owner=OWNERS,
        name=st.sampled_from(["get_conversation", "delete_conversation"]),
    )
    def get_or_delete_conversation(self, conversation_id: str, owner: str, name: str) -> None:
        self.call(name, conversation_id, owner)

    @rule(conversation_id=CONVERSATION_IDS, owner=OWNERS, page=PAGES)
    def list_items(self, conversation_id: str, owner: str, page: PageQuery) -> None:
        self.call("list_conversation_items", conversation_id, owner, page)

    @rule(
        conversation_id=CONVERSATION_IDS,
        owner=OWNERS,
        item_id=st.sampled_from(ITEM_IDS),
        name=st.sampled_from(["get_conversation_item", "delete_conversation_item"]),
    )
    def get_or_delete_item(self, conversation_id: str, owner: str, item_id: str, name: str) -> None:
        self.call(name, conversation_id, owner, item_id)

    # ── time, restarts, and what must hold ───────────────────────────────────────────────────────

    @rule(seconds=st.integers(1, 5))
    def wait(self, seconds: int) -> None:
        self.clock.now_s += seconds
        self.model.now_s += seconds

    @rule(bounds=st.none() | st.none() | STORE_BOUNDS)
    @precondition(lambda self: isinstance(self.store, SqliteStore))
    def reopen(self, bounds: StoreBounds | None) -> None:
        self.store.close()
        bounds = bounds or self.store.bounds
        self.store = self.make_store(bounds, self.clock, self.folder)
        self.model.reopen(bounds)

    @rule()
    def read_all(self) -> None:
        """Read everything, the least recently used first: reads are uses, so the order stays."""
        self.call("list_running")
        for response in list(self.model.entries):
            self.call("get", response.record.response_id, response.record.owner)
            query = HistoryQuery(response.record.owner, response.record.response_id)
            self.call("read_history", query)
        for conversation in list(self.model.conversations):
            conversation_id, owner = conversation.key
            self.call("read_history", HistoryQuery(owner, conversation_id=conversation_id))

    @invariant()
    def weighs_what_the_model_weighs(self) -> None:
        if hasattr(self, "store"):
            self.store._tick()
            self.model.expire()
            index, model = self.store._index, self.model
            assert index.responses.num_bytes == model.num_bytes(model.entries)
            counted = sum(it.num_bytes for it in model.counted())
            assert index.conversations.num_bytes == counted
            bounds = model.bounds
            assert counted <= bounds.conversations.max_bytes
            assert len(model.entries) <= bounds.responses.max_entries
            most = max(bounds.responses.max_bytes, model.num_bytes([]))
            assert index.responses.num_bytes <= most


def answer_of(store: Any, name: str, *args: Any) -> Any:
    """What a call returns, or the class of the refusal that it raises."""
    try:
        return getattr(store, name)(*args)
    except StoreRefusal as refusal:
        return type(refusal)


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
