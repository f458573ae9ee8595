"""Any sequence of calls leaves in a store what a naive model of it holds."""

import shutil
import tempfile
from dataclasses import dataclass, replace
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
RESPONSE_IDS = st.sampled_from("abcdefghij")
CONVERSATION_IDS = st.sampled_from("xyz")
SOME_ITEMS = st.lists(st.sampled_from(ITEMS), max_size=3, unique=True).map(tuple)
TEXTS = st.sampled_from(["", "{}", 60 * "x", 300 * "é"])
ENDS: st.SearchStrategy[RecordStatus] = st.sampled_from(
    ("completed", "completed", "completed", "incomplete", "failed", "cancelled")
)
Items = tuple[ItemRecord, ...]
# An id, or which of the entries it is, counted from the latest used.
Place = int | str
PLACES: st.SearchStrategy[Place] = st.integers(1, 3) | RESPONSE_IDS


@dataclass(frozen=True)
class Draft:
    """How a response may begin and end."""

    response_id: str
    parent: Place | None
    new: Items
    body: str
    status: RecordStatus
    output: Items

    def end(self, record: ResponseRecord) -> ResponseRecord:
        return replace(record, status=self.status, body=self.body + "!", output=self.output)


@dataclass(frozen=True)
class Conversation:
    """The conversation of a response, as it is now, or as it was at one of the first serials."""

    conversation_id: str
    old_serial: int | None


DRAFTS = st.builds(
    Draft, RESPONSE_IDS, st.none() | st.integers(1, 3), SOME_ITEMS, TEXTS, ENDS, SOME_ITEMS
)
CONVERSATIONS = st.none() | st.builds(
    Conversation, CONVERSATION_IDS, st.none() | st.none() | st.integers(1, 8)
)
PAGES = st.builds(
    PageQuery,
    limit=st.integers(1, 4),
    after=st.none() | st.sampled_from(ITEM_IDS),
    is_descending=st.booleans(),
)
BOUNDS = st.builds(
    Bounds,
    max_entries=st.sampled_from([4, 3, 2, 1000, 1000, 1000, 1, 0]),
    max_bytes=st.sampled_from([12_000, 1_000_000, 8000, 5000, 6400, 3200, 1600, 0]),
    ttl_s=st.sampled_from([0, 8]),
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
        try:
            if hasattr(self, "store"):
                self.read_all()
        finally:
            if hasattr(self, "store"):
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
            expected = tuple(map(self.to_store, expected))
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

    @rule(owner=OWNERS, drafts=st.lists(DRAFTS, min_size=1, max_size=4))
    def respond(self, owner: str, drafts: list[Draft]) -> None:
        """Responses begin and end, some of them children of those before."""
        for draft in drafts:
            record = self.to_record(owner, draft)
            self.call("begin", record)
            self.call("finish", draft.end(record))

    @rule(owner=OWNERS, draft=DRAFTS, conversation=CONVERSATIONS)
    def begin(self, owner: str, draft: Draft, conversation: Conversation | None) -> None:
        self.call("begin", self.to_record(owner, draft, conversation))

    @rule(owner=OWNERS, draft=DRAFTS, conversation=CONVERSATIONS)
    def finish_unknown(self, owner: str, draft: Draft, conversation: Conversation | None) -> None:
        self.call("finish", draft.end(self.to_record(owner, draft, conversation)))

    @rule(place=st.integers(0, 5), draft=DRAFTS)
    @precondition(lambda self: self.model.running)
    def finish_running(self, place: int, draft: Draft) -> None:
        """What runs ends, or what has failed; it need not say again how it began."""
        failed = [it for it in self.model.entries if it.record.status == "failed"]
        ending = (self.model.running + failed)[place % len(self.model.running + failed)].record
        self.call("finish", draft.end(replace(ending, input=(), conversation=None)))

    @rule(owner=OWNERS, place=PLACES, name=st.sampled_from(["get", "delete", "delete"]))
    def get_or_delete(self, owner: str, place: Place, name: str) -> None:
        self.call(name, self.to_id(owner, place), owner)

    @rule(owner=OWNERS, place=PLACES, page=PAGES)
    def list_input(self, owner: str, place: Place, page: PageQuery) -> None:
        self.call("list_input_items", self.to_id(owner, place), owner, page)

    @rule(owner=OWNERS, place=st.none() | PLACES, conversation_id=st.none() | CONVERSATION_IDS)
    def read_history(self, owner: str, place: Place | None, conversation_id: str | None) -> None:
        parent_id = None if place is None else self.to_id(owner, place)
        self.call("read_history", HistoryQuery(owner, parent_id, conversation_id, (*ITEM_IDS,)))

    def to_id(self, owner: str, place: Place) -> str:
        """An id as it is, or that of the latest used entry, the one before, …"""
        if isinstance(place, str):
            return place
        entries = [it.record for it in self.model.entries if it.record.owner == owner]
        return entries[-place].response_id if place <= len(entries) else "unknown"

    def to_record(
        self, owner: str, draft: Draft, conversation: Conversation | None = None
    ) -> ResponseRecord:
        """A record that begins, with the serial that its conversation has, or once had."""
        link = None
        if conversation is not None:
            query = HistoryQuery(owner, conversation_id=conversation.conversation_id)
            history = self.call("read_history", query)
            serial = history.conversation_serial if isinstance(history, History) else None
            if conversation.old_serial in self.serials:
                serial = conversation.old_serial
            link = ConversationLink(query.conversation_id or "", serial, len(draft.new) // 2)
        parent_id = None if draft.parent is None else self.to_id(owner, draft.parent)
        parent_id = None if parent_id == "unknown" else parent_id
        return ResponseRecord(
            draft.response_id, owner, "in_progress", 7, draft.body, parent_id, link, draft.new
        )

    # ── conversations ────────────────────────────────────────────────────────────────────────────

    @rule(conversation_id=CONVERSATION_IDS, owner=OWNERS, metadata=TEXTS, items=SOME_ITEMS)
    def create(self, conversation_id: str, owner: str, metadata: str, items: Items) -> None:
        record = ConversationRecord(conversation_id, owner, 7, metadata)
        self.call("create_conversation", record, items)

    @rule(conversation_id=CONVERSATION_IDS, owner=OWNERS, what=TEXTS | SOME_ITEMS)
    def update_or_append(self, conversation_id: str, owner: str, what: str | Items) -> None:
        name = "update_conversation" if isinstance(what, str) else "append_items"
        self.call(name, conversation_id, owner, what)

    @rule(conversation_id=CONVERSATION_IDS, owner=OWNERS, page=st.none() | PAGES)
    def list_or_delete(self, conversation_id: str, owner: str, page: PageQuery | None) -> None:
        if page is None:
            self.call("delete_conversation", conversation_id, owner)
        else:
            self.call("get_conversation", conversation_id, owner)
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

    @rule(seconds=st.integers(1, 4))
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
        max_examples=4 * settings().max_examples,
        stateful_step_count=40,
        deadline=None,
        report_multiple_bugs=False,
    )
    run_state_machine_as_test(Machine, settings=limits)
