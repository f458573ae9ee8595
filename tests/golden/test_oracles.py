"""Every transcript before every judge."""

from functools import cache

import pytest
from openai.types.responses import ResponseStreamEvent
from pydantic import TypeAdapter

from tests.support.accumulator import accumulate, replaying
from tests.support.oracles import ORACLES, Oracle, judge
from tests.support.replay import check_stream, text_of, with_heartbeats
from tests.support.schemas import Finding
from tests.support.transcripts import NAMES, Event, read_events

EVENT: TypeAdapter[object] = TypeAdapter(ResponseStreamEvent)
COMPLETED = [name for name in NAMES if read_events(name)[-1]["type"] == "response.completed"]
each_oracle = pytest.mark.parametrize("oracle", ORACLES, ids=lambda oracle: oracle.name)
each_name = pytest.mark.parametrize("name", NAMES)


@cache
def judged(oracle: Oracle, name: str) -> frozenset[Finding]:
    return frozenset(judge(oracle, read_events(name)))


@each_oracle
@each_name
def test_a_transcript_differs_from_a_judges_schema_only_where_we_know(
    name: str, oracle: Oracle
) -> None:
    judged(oracle, name)


@each_oracle
def test_every_known_difference_is_met_by_a_transcript(oracle: Oracle) -> None:
    known = [difference.finding for difference in oracle.differences]
    assert len(known) == len(set(known))
    used = {finding for name in NAMES for finding in judged(oracle, name)}
    assert set(known) - used == set()


@each_name
def test_openais_own_types_hold_every_event_whole(name: str) -> None:
    for event in read_events(name):
        held = EVENT.validate_python(event)
        dumped = EVENT.dump_python(held, mode="json", by_alias=True, exclude_unset=True)
        assert dumped == event


@each_name
def test_a_transcript_keeps_the_rules_of_the_protocol(name: str) -> None:
    check_stream(read_events(name))
    check_stream(list(with_heartbeats(read_events(name))))


@pytest.mark.parametrize("heartbeats", [False, True], ids=["", "with heartbeats"])
@each_name
async def test_openais_accumulator_follows_every_event(name: str, heartbeats: bool) -> None:
    events = read_events(name)
    snapshots = await accumulate(list(with_heartbeats(events)) if heartbeats else events)
    output = [item for item in events[-1]["response"]["output"] if item["type"] != "reasoning"]
    assert [snapshots.get(item["id"], "") for item in output] == [text_of(item) for item in output]


@pytest.mark.parametrize("name", COMPLETED)
async def test_openais_accumulator_ends_with_the_final_response(name: str) -> None:
    async with (
        replaying(read_events(name)) as openai,
        openai.responses.stream(model="scripted", input="") as stream,
    ):
        final = await stream.get_final_response()
    body: Event = final.to_dict()
    for item in body["output"]:
        item.pop("parsed_arguments", None)
        for part in item.get("content", []):
            part.pop("parsed", None)
    assert body == read_events(name)[-1]["response"]
