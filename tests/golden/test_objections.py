"""Every judge before transcripts that are wrong: it must object, and at the right place."""

import copy
import json

import pytest
from openai.types.responses import ResponseStreamEvent
from pydantic import TypeAdapter, ValidationError

from tests.support.accumulator import accumulate
from tests.support.oracles import CONTRACT_ORACLE, OPENAI_ORACLE, ORACLES, Oracle, judge
from tests.support.replay import check_stream
from tests.support.transcripts import NAMES, Event, Mutation, change, read_events

EVENT: TypeAdapter[object] = TypeAdapter(ResponseStreamEvent)
each_oracle = pytest.mark.parametrize("oracle", ORACLES, ids=lambda oracle: oracle.name)
each_name = pytest.mark.parametrize("name", NAMES)


def find(events: list[Event], kind: str) -> int:
    return next(number for number, event in enumerate(events) if event["type"] == kind)


def renumber(events: list[Event]) -> None:
    for number, event in enumerate(events):
        event["sequence_number"] = number


def put(kind: str, **members: object) -> Mutation:
    """Give the first event of a kind other members; `a__b` is `b` inside `a`."""

    def mutate(events: list[Event]) -> None:
        for path, value in members.items():
            *outer, last = path.split("__")
            holder = events[find(events, kind)]
            for step in outer:
                holder = holder[step]
            holder[last] = value

    return mutate


def leave_out(kind: str, *path: str) -> Mutation:
    """Leave out the first event of a kind, or a member of it."""

    def mutate(events: list[Event]) -> None:
        number = find(events, kind)
        if not path:
            del events[number]
            renumber(events)
            return
        holder = events[number]
        for step in path[:-1]:
            holder = holder[step]
        del holder[path[-1]]

    return mutate


def say_nothing(events: list[Event]) -> None:
    """A delta without text, before the first."""
    number = find(events, DELTA)
    events.insert(number, {**events[number], "delta": ""})
    renumber(events)


def leave_open(events: list[Event]) -> None:
    """Never finish the first item, and say so in the end."""
    leave_out(DONE)(events)
    events[-1]["response"]["output"][0]["status"] = "in_progress"


def end_twice(events: list[Event]) -> None:
    events.append(copy.deepcopy(events[-1]))
    renumber(events)


def forget_the_open_item(events: list[Event]) -> None:
    """Let the last heartbeat say nothing of the item that grows."""
    *_, last = (event for event in events if event["type"] == "response.in_progress")
    last["response"]["output"].pop()


CREATED, BEAT, COMPLETE = "response.created", "response.in_progress", "response.completed"
ADDED, DONE = "response.output_item.added", "response.output_item.done"
PART, PART_DONE = "response.content_part.added", "response.content_part.done"
DELTA, TEXT = "response.output_text.delta", "response.output_text.done"
THOUGHT, THOUGHTS = "response.reasoning_text.delta", "response.reasoning_text.done"
ARGUMENT = "response.function_call_arguments.delta"
ARGUMENTS = "response.function_call_arguments.done"
USAGE_DETAILS = ("response", "usage", "output_tokens_details")


@each_oracle
@pytest.mark.parametrize(
    ("name", "mutate", "where", "kind"),
    [
        ("text", put(DELTA, output_index="0"), f"{DELTA}.output_index", "value"),
        ("text", put(DELTA, delta=None), f"{DELTA}.delta", "value"),
        ("text", put(DELTA, sequence_number=4.0), f"{DELTA}.sequence_number", "value"),
        ("text", leave_out(DELTA, "item_id"), f"{DELTA}.item_id", "missing"),
        ("text", put(DELTA, snapshot=""), f"{DELTA}.snapshot", "extra"),
        ("text", put(DELTA, type="response.text.delta"), "response.text.delta.type", "value"),
        ("text", leave_out(DELTA, "type"), "type", "missing"),
        ("text", put(ADDED, item__status="done"), "message.status", "value"),
        ("text", put(ADDED, item__type="text"), "text.type", "value"),
        ("text", leave_out(PART, "part", "annotations"), "output_text.annotations", "missing"),
        ("text", put(CREATED, response__created_at="now"), "response.created_at", "value"),
        ("text", leave_out(CREATED, "response", "tools"), "response.tools", "missing"),
        ("text", put(CREATED, response__text={"format": {"type": "xml"}}), "xml.type", "value"),
        ("text", leave_out(COMPLETE, *USAGE_DETAILS), ".".join(USAGE_DETAILS), "missing"),
        ("one_call", put(ARGUMENT, output_index="0"), f"{ARGUMENT}.output_index", "value"),
        ("one_call", leave_out(ARGUMENTS, "arguments"), f"{ARGUMENTS}.arguments", "missing"),
        ("one_call", leave_out(ADDED, "item", "call_id"), "function_call.call_id", "missing"),
        ("one_call", put(ADDED, item__arguments={}), "function_call.arguments", "value"),
        ("reasoning_alone", leave_out(PART, "part", "text"), "reasoning_text.text", "missing"),
        ("reasoning_alone", leave_out(ADDED, "item", "summary"), "reasoning.summary", "missing"),
        ("reasoning_alone", put(DONE, item__content=""), "reasoning.content", "value"),
    ],
)
def test_a_judge_by_schema_objects(
    oracle: Oracle, name: str, mutate: Mutation, where: str, kind: str
) -> None:
    events = change(name, mutate)
    with pytest.raises(AssertionError) as error:
        judge(oracle, events)
    assert f"where='{where}', kind='{kind}'" in str(error.value)


@pytest.mark.parametrize(
    ("oracle", "name"), [(CONTRACT_ORACLE, "response.reasoning.delta"), (OPENAI_ORACLE, THOUGHT)]
)
def test_an_event_with_a_name_of_ours_is_held_against_the_judges_own(
    oracle: Oracle, name: str
) -> None:
    events = change("reasoning_alone", put(THOUGHT, content_index="0"))
    with pytest.raises(AssertionError, match=rf"'{name}\.content_index', kind='value'"):
        judge(oracle, events)


def test_a_difference_of_one_judge_is_not_one_of_the_other() -> None:
    events = change("text", leave_out(CREATED, "response", "store"))
    judge(OPENAI_ORACLE, events)
    with pytest.raises(AssertionError, match=r"response\.store"):
        judge(CONTRACT_ORACLE, events)
    events = change("text", leave_out(DELTA, "logprobs"))
    judge(CONTRACT_ORACLE, events)
    with pytest.raises(AssertionError, match=r"logprobs"):
        judge(OPENAI_ORACLE, events)


@each_name
def test_the_judge_by_openais_types_is_as_strict_as_pydantic(name: str) -> None:
    wrong, *_ = change(name, put(CREATED, response__model=1))
    for event in [wrong, *read_events(name)]:
        values = {each for each in OPENAI_ORACLE.event.find(event) if each.kind != "extra"}
        try:
            EVENT.validate_json(json.dumps(event), strict=True)
        except ValidationError:
            assert values
        else:
            assert values == set()


@pytest.mark.parametrize(
    ("name", "mutate"),
    [
        ("text", put(DELTA, item_id="msg_2")),
        ("text", put(DELTA, output_index=1)),
        ("text", put(DELTA, content_index=1)),
        ("text", put(DELTA, delta="")),
        ("text", put(DELTA, delta="He")),
        ("text", put(DELTA, sequence_number=5)),
        ("text", put(TEXT, text="Hello")),
        ("text", put(TEXT, type=THOUGHTS)),
        ("text", put(PART_DONE, part__text="Hello")),
        ("text", put(DONE, item__id="msg_2")),
        ("text", put(DONE, item__status="in_progress")),
        ("text", put(DONE, item__content=[])),
        ("text", put(COMPLETE, response__output=[])),
        ("text", put(COMPLETE, response__output_text="")),
        ("text", put(COMPLETE, response__id="resp_2")),
        ("text", put(COMPLETE, response__status="incomplete")),
        ("text", put(BEAT, response__output_text="H")),
        ("text", leave_out(CREATED)),
        ("text", leave_out(ADDED)),
        ("text", leave_out(PART)),
        ("text", leave_out(DELTA)),
        ("text", leave_out(DONE)),
        ("text", leave_out(COMPLETE)),
        ("text", list.reverse),
        ("text", say_nothing),
        ("text", leave_open),
        ("text", end_twice),
        ("two_calls", leave_open),
        ("logprobs", put(DELTA, logprobs=[])),
        ("two_calls", put(ARGUMENT, item_id="fc_2")),
        ("two_calls", put(ARGUMENT, output_index=1)),
        ("two_calls", put(ARGUMENTS, arguments="{}")),
        ("two_calls", put(ARGUMENTS, name="lose")),
        ("two_calls", put(ADDED, item__arguments="{")),
        ("two_calls", put(ADDED, item__id="fc_2")),
        ("two_calls", put(DONE, item__call_id="call_2")),
        ("two_calls", leave_out(ARGUMENT)),
        ("two_calls", leave_out(DONE)),
        ("reasoning_alone", put(THOUGHT, item_id="rs_2")),
        ("reasoning_alone", put(PART, part__type="output_text")),
        ("reasoning_alone", leave_out(PART)),
        ("heartbeat_in_reasoning", forget_the_open_item),
        ("heartbeat_in_a_call", forget_the_open_item),
        ("heartbeat_in_a_text", forget_the_open_item),
    ],
)
def test_the_judge_by_the_protocols_rules_objects(name: str, mutate: Mutation) -> None:
    events = change(name, mutate)
    with pytest.raises((AssertionError, KeyError, IndexError)):
        check_stream(events)


@pytest.mark.parametrize(
    ("name", "mutate", "error"),
    [
        ("text", leave_out(CREATED), RuntimeError),
        ("text", leave_out(ADDED), RuntimeError),
        ("text", leave_out(PART), IndexError),
        ("text", put(DELTA, output_index=1), RuntimeError),
        ("text", put(DELTA, content_index=1), IndexError),
        ("text", put(BEAT, response__id="resp_2"), RuntimeError),
        ("text", put(DONE, item__id="msg_2"), RuntimeError),
        ("one_call", leave_out(ADDED), RuntimeError),
        ("one_call", put(DONE, item__call_id="call_2"), RuntimeError),
    ],
)
async def test_openais_accumulator_objects(
    name: str, mutate: Mutation, error: type[Exception]
) -> None:
    events = change(name, mutate)
    with pytest.raises(error):
        await accumulate(events)


async def test_openais_accumulator_tells_a_wrong_delta_from_a_right_one() -> None:
    assert await accumulate(read_events("text")) == {"msg_1": "Hello you."}
    assert await accumulate(change("text", put(DELTA, delta="He"))) == {"msg_1": "Helo you."}
