"""A response and its events as `/v1` spells them."""

import json
from dataclasses import replace
from typing import Any, get_args

import pytest
from openai.types.responses import Response as OpenAiResponse

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
    ResponseCreated,
    ResponseEnded,
    ResponseInProgress,
    StreamEvent,
)
from deployments.resource.response import (
    FunctionCallItem,
    ItemStatus,
    MessageItem,
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
from deployments.wire.responses import ResponseEventWriter, to_body, to_item
from engine.types import SampledLogprob, TokenLogprob
from tests.support.resources import (
    CONTRACT_FIELDS,
    make_call,
    make_logprob,
    make_message,
    make_part,
    make_reasoning,
    make_resource,
    make_usage,
)

BEGUN = Response("resp_1", 1_700_000_000, "in_progress", "scripted")
ECHO = RequestEcho(temperature=0.7, top_p=0.9, is_stored=True)
ITEM = MessageItem("msg_1", "completed", (OutputText("Hello"),))
CALL = FunctionCallItem("fc_1", "completed", "call_1", "find", '{"q":1}')
LOGPROBS = (SampledLogprob(TokenLogprob(b"Hel", -0.5), (TokenLogprob(b"\xff", -1.5),)),)
WIRE_LOGPROBS = [make_logprob(b"Hel", -0.5, (b"\xff", -1.5))]
PLACE = {"item_id": "msg_1", "output_index": 2, "content_index": 3}
RS_PLACE = {**PLACE, "item_id": "rs_1"}
FC_PLACE = {"item_id": "fc_1", "output_index": 2}
EVENTS: list[tuple[StreamEvent, str, dict[str, Any]]] = [
    (ResponseCreated(BEGUN), "response.created", {"response": make_resource()}),
    (ResponseInProgress(BEGUN), "response.in_progress", {"response": make_resource()}),
    (
        ItemAdded(2, MessageItem("msg_1", "in_progress", ())),
        "response.output_item.added",
        {"output_index": 2, "item": make_message(status="in_progress")},
    ),
    (
        PartAdded("msg_1", 2, 3, OutputText("")),
        "response.content_part.added",
        {**PLACE, "part": make_part("")},
    ),
    (
        OutputTextDelta("msg_1", 2, 3, "Hel", LOGPROBS),
        "response.output_text.delta",
        {**PLACE, "delta": "Hel", "logprobs": WIRE_LOGPROBS},
    ),
    (
        OutputTextDone("msg_1", 2, 3, "Hello"),
        "response.output_text.done",
        {**PLACE, "text": "Hello", "logprobs": []},
    ),
    (
        ReasoningTextDelta("rs_1", 2, 3, "Hm"),
        "response.reasoning_text.delta",
        {**RS_PLACE, "delta": "Hm"},
    ),
    (
        ReasoningTextDone("rs_1", 2, 3, "Hm hm"),
        "response.reasoning_text.done",
        {**RS_PLACE, "text": "Hm hm"},
    ),
    (
        ArgumentsDelta("fc_1", 2, '{"q":'),
        "response.function_call_arguments.delta",
        {**FC_PLACE, "delta": '{"q":'},
    ),
    (
        ArgumentsDone("fc_1", 2, "find", '{"q":1}'),
        "response.function_call_arguments.done",
        {**FC_PLACE, "name": "find", "arguments": '{"q":1}'},
    ),
    (
        PartDone("msg_1", 2, 3, OutputText("Hello")),
        "response.content_part.done",
        {**PLACE, "part": make_part("Hello")},
    ),
    (
        ItemDone(2, ITEM),
        "response.output_item.done",
        {"output_index": 2, "item": make_message("Hello")},
    ),
]
ENDS = {
    "completed": "response.completed",
    "incomplete": "response.incomplete",
    "cancelled": "response.incomplete",
    "failed": "response.failed",
}


def test_a_response_that_has_begun_has_all_fields() -> None:
    body = to_body(StoredResponse(BEGUN, ECHO))
    assert body == make_resource()
    assert body.keys() == CONTRACT_FIELDS | {"output_text"}


def test_a_response_that_has_ended_says_how() -> None:
    response = Response(
        response_id="resp_1",
        created_at=1_700_000_000,
        status="incomplete",
        model="scripted",
        output=(
            MessageItem("msg_1", "completed", (OutputText("Hel"), OutputText("lo"))),
            ReasoningItem("rs_1", "completed", (ReasoningText("Hm"),)),
            CALL,
            MessageItem("msg_2", "incomplete", (OutputText(" you"),)),
        ),
        usage=Usage(5, 6, cached_tokens=3, reasoning_tokens=2),
        completed_at=1_700_000_009,
        failure=ResponseFailure("server_error", "Out of memory."),
        incomplete_reason="max_output_tokens",
    )
    assert to_body(StoredResponse(response, ECHO)) == make_resource(
        status="incomplete",
        completed_at=1_700_000_009,
        output=[
            make_message("Hel", "lo"),
            make_reasoning("Hm"),
            make_call("find", '{"q":1}'),
            make_message(" you", item_id="msg_2", status="incomplete"),
        ],
        output_text="Hello you",
        usage=make_usage(5, 6, cached=3, reasoning=2),
        error={"code": "server_error", "message": "Out of memory."},
        incomplete_details={"reason": "max_output_tokens"},
    )


def test_a_response_repeats_its_request() -> None:
    echo = RequestEcho(
        temperature=0.0,
        top_p=1.0,
        is_stored=False,
        presence_penalty=0.5,
        frequency_penalty=-0.5,
        instructions="Sing.",
        max_output_tokens=7,
        max_tool_calls=3,
        metadata={"k": "v"},
        parallel_tool_calls=False,
        prompt_cache_key="key",
        reasoning={"effort": "low", "summary": None},
        safety_identifier="safe",
        service_tier="flex",
        text_format={"type": "json_object"},
        tool_choice={"type": "function", "name": "find"},
        tools=({"type": "function", "name": "find"},),
        top_logprobs=3,
        user="me",
        verbosity="low",
    )
    assert to_body(StoredResponse(BEGUN, echo)) == make_resource(
        temperature=0.0,
        top_p=1.0,
        store=False,
        presence_penalty=0.5,
        frequency_penalty=-0.5,
        instructions="Sing.",
        max_output_tokens=7,
        max_tool_calls=3,
        metadata={"k": "v"},
        parallel_tool_calls=False,
        prompt_cache_key="key",
        reasoning={"effort": "low", "summary": None},
        safety_identifier="safe",
        service_tier="flex",
        tool_choice={"type": "function", "name": "find"},
        tools=[{"type": "function", "name": "find"}],
        top_logprobs=3,
        user="me",
        text={"format": {"type": "json_object"}, "verbosity": "low"},
    )


def test_a_response_says_what_it_went_on_from() -> None:
    chained = replace(ECHO, previous_response_id="resp_0")
    body = to_body(StoredResponse(BEGUN, chained))
    assert body == make_resource(previous_response_id="resp_0")
    talking = replace(ECHO, conversation_id="conv_1")
    body = to_body(StoredResponse(BEGUN, talking))
    assert body == make_resource(conversation={"id": "conv_1"})
    held = OpenAiResponse.model_validate(body)
    assert held.conversation is not None
    assert held.conversation.id == "conv_1"


STATUSES: list[ItemStatus] = ["in_progress", "completed", "incomplete"]


@pytest.mark.parametrize("status", STATUSES)
def test_every_item_has_a_status_and_no_part_that_is_null(status: ItemStatus) -> None:
    written = [
        to_item(MessageItem("msg_1", status, (OutputText("Hel", LOGPROBS),))),
        to_item(ReasoningItem("rs_1", status, ())),
        to_item(ReasoningItem("rs_1", status, (ReasoningText("Hm"),))),
        to_item(FunctionCallItem("fc_1", status, "call_1", "find", "")),
    ]
    message = make_message("Hel", status=status)
    message["content"] = [{**make_part("Hel"), "logprobs": WIRE_LOGPROBS}]
    assert written == [
        message,
        make_reasoning(status=status),
        make_reasoning("Hm", status=status),
        make_call("find", "", status=status),
    ]


def read(event: bytes) -> tuple[str, dict[str, Any]]:
    """The name and the data of one event's bytes."""
    name, data, *rest = event.decode().split("\n")
    assert rest == ["", ""]
    return name.removeprefix("event: "), json.loads(data.removeprefix("data: "))


@pytest.mark.parametrize(("event", "name", "fields"), EVENTS, ids=[e[1] for e in EVENTS])
def test_an_event_is_written_as(event: StreamEvent, name: str, fields: dict[str, Any]) -> None:
    written = read(ResponseEventWriter(ECHO).write(event))
    assert written == (name, {"type": name, "sequence_number": 0, **fields})


def test_the_examples_are_all_events() -> None:
    assert {type(event) for event, _, _ in EVENTS} | {ResponseEnded} == set(get_args(StreamEvent))
    assert set(ENDS) | {"in_progress"} == set(get_args(ResponseStatus))


@pytest.mark.parametrize("status", ENDS)
def test_the_terminal_event_says_how_a_response_ended(status: ResponseStatus) -> None:
    ended = Response("resp_1", 1_700_000_000, status, "scripted", (ITEM,))
    terminal, done, end = ResponseEventWriter(ECHO).write(ResponseEnded(ended)).split(b"\n\n")
    resource = make_resource(status=status, output=[make_message("Hello")], output_text="Hello")
    assert read(terminal + b"\n\n") == (
        ENDS[status],
        {"type": ENDS[status], "sequence_number": 0, "response": resource},
    )
    assert (done, end) == (b"data: [DONE]", b"")


def test_events_are_numbered_in_the_order_of_writing() -> None:
    writer = ResponseEventWriter(ECHO)
    numbers = [read(writer.write(event))[1]["sequence_number"] for event, _, _ in EVENTS]
    assert numbers == list(range(len(EVENTS)))
