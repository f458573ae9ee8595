"""What opens an item, what it grows by and what closes it, a kind at a time."""

import pytest

from deployments.resource.events import (
    ArgumentsDelta,
    ArgumentsDone,
    ItemAdded,
    ItemDone,
    OutputTextDelta,
    OutputTextDone,
    PartAdded,
    PartDone,
    ReasoningTextDelta,
    ReasoningTextDone,
)
from deployments.resource.response import (
    FunctionCallItem,
    ItemStatus,
    MessageItem,
    OutputText,
    ReasoningItem,
    ReasoningText,
)
from deployments.translate.open_item import OpenCall, OpenMessage, OpenReasoning
from engine.types import SampledLogprob, TokenLogprob

LOGPROBS = (SampledLogprob(TokenLogprob(b"\xff", -1.0), ()),)
STATUSES: list[ItemStatus] = ["completed", "incomplete"]


@pytest.mark.parametrize("status", STATUSES)
def test_a_message_is_one_part_that_grows(status: ItemStatus) -> None:
    message = OpenMessage("msg_1", 2)
    part = OutputText("Hello", LOGPROBS)
    assert message.open() == [
        ItemAdded(2, MessageItem("msg_1", "in_progress", ())),
        PartAdded("msg_1", 2, 0, OutputText("")),
    ]
    assert message.add("Hel", ()) == OutputTextDelta("msg_1", 2, 0, "Hel")
    assert message.add("lo", LOGPROBS) == OutputTextDelta("msg_1", 2, 0, "lo", LOGPROBS)
    assert message.item("in_progress") == MessageItem("msg_1", "in_progress", (part,))
    assert message.close(status) == [
        OutputTextDone("msg_1", 2, 0, "Hello", LOGPROBS),
        PartDone("msg_1", 2, 0, part),
        ItemDone(2, MessageItem("msg_1", status, (part,))),
    ]


@pytest.mark.parametrize("status", STATUSES)
def test_a_reasoning_item_is_one_part_that_grows(status: ItemStatus) -> None:
    reasoning = OpenReasoning("rs_1", 2)
    part = ReasoningText("Hm hm")
    assert reasoning.open() == [
        ItemAdded(2, ReasoningItem("rs_1", "in_progress", ())),
        PartAdded("rs_1", 2, 0, ReasoningText("")),
    ]
    assert reasoning.add("Hm") == ReasoningTextDelta("rs_1", 2, 0, "Hm")
    assert reasoning.add(" hm") == ReasoningTextDelta("rs_1", 2, 0, " hm")
    assert reasoning.item("in_progress") == ReasoningItem("rs_1", "in_progress", (part,))
    assert reasoning.close(status) == [
        ReasoningTextDone("rs_1", 2, 0, "Hm hm"),
        PartDone("rs_1", 2, 0, part),
        ItemDone(2, ReasoningItem("rs_1", status, (part,))),
    ]


@pytest.mark.parametrize("status", STATUSES)
def test_a_call_is_its_name_and_arguments_that_grow(status: ItemStatus) -> None:
    call = OpenCall("fc_1", 2, "call_1", "find")
    assert call.open() == [
        ItemAdded(2, FunctionCallItem("fc_1", "in_progress", "call_1", "find", ""))
    ]
    assert call.add('{"q":') == ArgumentsDelta("fc_1", 2, '{"q":')
    assert call.add("1}") == ArgumentsDelta("fc_1", 2, "1}")
    assert call.close(status) == [
        ArgumentsDone("fc_1", 2, "find", '{"q":1}'),
        ItemDone(2, FunctionCallItem("fc_1", status, "call_1", "find", '{"q":1}')),
    ]


def test_what_grows_later_does_not_change_what_was_told() -> None:
    message = OpenMessage("msg_1", 0)
    message.add("Hel", LOGPROBS)
    told = message.item("in_progress")
    message.add("lo", LOGPROBS)
    assert told.content == (OutputText("Hel", LOGPROBS),)
