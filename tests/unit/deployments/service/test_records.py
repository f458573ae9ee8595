"""A response becomes the store's record and comes back as it was."""

from dataclasses import replace

import pytest

from deployments.resource.response import (
    FunctionCallItem,
    GivenItem,
    MessageItem,
    OutputItem,
    OutputText,
    ReasoningItem,
    ReasoningText,
    RequestEcho,
    Response,
    ResponseFailure,
    ResponseStatus,
    StoredResponse,
    Usage,
)
from deployments.service.records import (
    to_item_record,
    to_lost,
    to_output_items,
    to_record,
    to_stored,
    to_unstored,
    with_end,
)
from engine.types import SampledLogprob, TokenLogprob
from stores.types import ConversationLink, ItemRecord

LOGPROB = SampledLogprob(TokenLogprob(b"\xff", float("-inf")), (TokenLogprob(b"a", -0.5),))
ITEMS: list[OutputItem] = [
    ReasoningItem("rs_1", "completed", (ReasoningText("So."), ReasoningText(""))),
    MessageItem("msg_1", "completed", ()),
    MessageItem("msg_2", "incomplete", (OutputText("é ✓ 🙂"), OutputText("b"))),
    MessageItem("msg_3", "completed", (OutputText("a", (LOGPROB,)),)),
    FunctionCallItem("fc_1", "incomplete", "call_1", "f", '{"given":'),
]
ECHO = RequestEcho(0.7, 0.9, is_stored=True, previous_response_id="resp_0", conversation_id="mine")
RESPONSE = Response("resp_1", 1_700_000_000, "completed", "m", tuple(ITEMS), Usage(5, 2))
STORED = StoredResponse(RESPONSE, ECHO)


def test_a_response_comes_back_as_it_was() -> None:
    record = to_record(STORED, "me")
    assert to_stored(record) == STORED
    assert (record.response_id, record.owner, record.status) == ("resp_1", "me", "completed")
    assert [item.item_id for item in record.output] == [item.item_id for item in ITEMS]
    assert (record.input, record.parent_id, record.conversation) == ((), None, None)


@pytest.mark.parametrize("status", ["in_progress", "incomplete", "failed", "cancelled"])
def test_a_response_of_any_status_comes_back(status: ResponseStatus) -> None:
    failure = ResponseFailure("server_error", "No.", is_temporary=True)
    stored = replace(STORED, response=replace(RESPONSE, status=status, failure=failure))
    assert to_stored(to_record(stored, "me")) == stored


def test_the_body_has_no_item() -> None:
    """Items are kept once, however many responses have them."""
    empty = replace(STORED, response=replace(RESPONSE, output=()))
    assert to_record(STORED, "me").body == to_record(empty, "me").body


@pytest.mark.parametrize("item", ITEMS, ids=lambda item: item.item_id)
def test_an_item_comes_back_as_it_was(item: OutputItem) -> None:
    record = to_item_record(item)
    assert list(to_output_items([record])) == [item]
    assert record.item_id == item.item_id


def test_an_item_that_was_given_is_no_output() -> None:
    with pytest.raises(AssertionError, match="made here"):
        list(to_output_items([to_item_record(GivenItem("msg_1", '{"id":"msg_1"}'))]))


def test_an_end_has_what_its_beginning_went_on_from() -> None:
    link = ConversationLink("mine", 7, 1)
    begun = replace(
        to_record(STORED, "me"),
        status="in_progress",
        parent_id="resp_0",
        conversation=link,
        input=(ItemRecord("msg_0", "{}"),),
    )
    ended = to_record(STORED, "me")
    assert with_end(begun, ended) == replace(
        ended, parent_id="resp_0", conversation=link, input=begun.input
    )


def test_a_lost_response_has_failed_with_what_it_went_on_from_and_said() -> None:
    running = replace(RESPONSE, status="in_progress", usage=None)
    record = replace(to_record(replace(STORED, response=running), "me"), parent_id="resp_0")
    lost = to_lost(record)
    told = to_stored(lost).response
    assert (lost.status, lost.parent_id, lost.owner) == ("failed", "resp_0", "me")
    assert (told.status, told.output, told.usage) == ("failed", RESPONSE.output, None)
    assert told.failure is not None
    assert (told.failure.code, told.failure.is_temporary) == ("server_error", True)


@pytest.mark.parametrize("status", ["completed", "incomplete", "cancelled", "failed"])
def test_a_response_that_could_not_be_stored_has_failed(status: ResponseStatus) -> None:
    response = replace(
        RESPONSE, status=status, completed_at=1, incomplete_reason="max_output_tokens"
    )
    told = to_unstored(response)
    assert (told.status, told.completed_at, told.incomplete_reason) == ("failed", None, None)
    assert told.failure == ResponseFailure("server_error", "The response could not be stored.")
    assert told.output == RESPONSE.output
