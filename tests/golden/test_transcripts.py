"""Every byte of a stream, as it was once read by a person and found right."""

import pytest

from tests.golden.cases import CASES, record, without_silences
from tests.support.oracles import check_resource
from tests.support.serving import playing, serving
from tests.support.transcripts import FOLDER, read_events, read_transcript


@pytest.mark.parametrize("name", CASES)
async def test_a_stream_is_its_transcript_to_the_byte(name: str, is_updating: bool) -> None:
    stream = await record(name)
    if is_updating:
        (FOLDER / f"{name}.sse").write_bytes(stream)
    assert stream == read_transcript(name)


def test_every_transcript_has_its_case() -> None:
    assert {path.name for path in FOLDER.iterdir()} == {f"{name}.sse" for name in CASES}


@pytest.mark.parametrize("name", CASES)
def test_a_stream_is_numbered_from_0_without_a_gap(name: str) -> None:
    numbers = [event["sequence_number"] for event in read_events(name)]
    assert numbers == list(range(len(numbers)))


@pytest.mark.parametrize("name", CASES)
async def test_a_reply_that_is_not_streamed_is_the_final_response(name: str) -> None:
    request, script = CASES[name]
    final = read_events(name)[-1]["response"]
    async with serving(playing(*without_silences(script))) as served:
        reply = await served.http.post("/v1/responses", json={"model": "scripted", **request})
    if final["status"] == "failed":
        assert reply.status_code == 500
        return
    body = reply.json()
    assert body == {**final, "completed_at": body["completed_at"]}  # a clock counts its readings
    assert (body["completed_at"] is None) == (final["completed_at"] is None)
    check_resource(body)
