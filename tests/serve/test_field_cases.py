"""Faults that users of comparable servers met, tried on a real cluster where the real thing counts.

`tests/manifest/field_cases.yaml` says which test is there for which fault.
"""

import json
import socket
import struct
from contextlib import ExitStack
from typing import Any
from urllib.parse import urlsplit

import httpx2
import openai
import pytest
from openai.types.responses import ResponseStreamEvent
from pydantic import TypeAdapter

from tests.serve.conftest import LONG_CONTEXT
from tests.serve.test_failures import wait_until
from tests.support.oracles import check_event
from tests.support.replay import check_stream
from tests.support.server import Server

Json = dict[str, Any]

PLAIN, TOOLS = "smollm2-135m", "smollm2-135m-tools"
EVENT: TypeAdapter[object] = TypeAdapter(ResponseStreamEvent)
RUNNING, STEPS = "vllm:num_requests_running", "antiphon:engine_steps_total"
FAILED = "antiphon:requests_failed_total"
ENDLESS = {"logit_bias": {"0": -100, "2": -100}}  # the tokens that end a text


def stream(server: Server, **body: Any) -> list[Json]:
    """The events of a stream, as their bytes are; the stream must have come to its end."""
    url = f"{server.url}/v1/responses"
    sent = {"model": PLAIN, "temperature": 0, "stream": True, **body}
    reply = httpx2.post(url, json=sent, headers=server.headers, timeout=120)
    *frames, done, end = reply.text.split("\n\n")
    assert (reply.status_code, done, end) == (200, "data: [DONE]", "")
    events = [json.loads(frame.partition("\ndata: ")[2]) for frame in frames]
    assert [frame.partition("\n")[0] for frame in frames] == [
        f"event: {event['type']}" for event in events
    ]
    return events


@pytest.mark.parametrize("limit", [4, 64])
def test_a_response_and_its_items_have_one_identity_from_first_to_last(
    server: Server, limit: int
) -> None:
    seen: set[str] = set()
    for _ in range(2):
        events = stream(server, input="Say hello.", max_output_tokens=limit, top_logprobs=1)
        for event in events:
            EVENT.validate_json(json.dumps(event), strict=True)
            check_event(event)
        check_stream(events)
        created, final = events[0]["response"], events[-1]["response"]
        done = [e["item"] for e in events if e["type"] == "response.output_item.done"]
        assert done == final["output"] != []
        url = f"{server.url}/v1/responses/{created['id']}"
        assert httpx2.get(url, headers=server.headers).json() == final
        ids = {final["id"], *(item["id"] for item in final["output"])}
        assert not ids & seen
        seen |= ids


@pytest.mark.parametrize("is_streamed", [False, True])
def test_a_tools_output_of_half_a_megabyte_is_refused_before_it_is_computed(
    server: Server, is_streamed: bool
) -> None:
    before = {model: server.engine(model)[STEPS] for model in (PLAIN, "long")}
    picture = json.dumps({"type": "image", "data": "iVBORw0KGgo" * 45_000})
    items = [
        {"role": "user", "content": "What is on the screen?"},
        {"type": "function_call", "call_id": "c", "name": "shoot", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c", "output": picture},
    ]
    for model in (PLAIN, "long"):
        body = {"model": model, "input": items, "stream": is_streamed}
        url = f"{server.url}/v1/responses"
        reply = httpx2.post(url, json=body, headers=server.headers, timeout=60)
        error = reply.json()["error"]
        assert (reply.status_code, error["code"]) == (400, "context_length_exceeded")
        assert server.engine(model)[STEPS] == before[model]


def test_the_context_that_models_show_stays_as_it_is(server: Server, v1: openai.OpenAI) -> None:
    def read_contexts() -> dict[str, int]:
        reply = httpx2.get(f"{server.url}/v1/models", headers=server.headers)
        return {model["id"]: model["context_length"] for model in reply.json()["data"]}

    shown = read_contexts()
    assert shown["long"] == LONG_CONTEXT
    with v1.responses.create(model="long", input="a" * 20_000, stream=True) as running:
        wait_until(lambda: server.engine("long")["antiphon:kv_cache_bytes"] > 0, 30)
        assert read_contexts() == shown
        assert next(iter(running)).type == "response.created"
    wait_until(lambda: server.engine("long")[RUNNING] == 0, 10)
    assert read_contexts() == shown


def test_twenty_connections_reset_in_mid_stream_hurt_nobody(
    server: Server, v1: openai.OpenAI
) -> None:
    wait_until(lambda: server.health()[0] == 200, 30)
    pids = list_processes(server)
    failed = server.engine(PLAIN)[FAILED]
    for _ in range(20):
        reset_in_mid_stream(server)
    wait_until(lambda: server.engine(PLAIN)[RUNNING] == 0, 10)
    assert v1.responses.create(model=PLAIN, input="Hi", max_output_tokens=2).output_text
    assert server.engine(PLAIN)[FAILED] == failed
    assert list_processes(server) == pids


def list_processes(server: Server) -> set[int]:
    """The process ids of all replicas and of the proxy before them."""
    replicas, proxies = server.pids("ServeReplica:"), server.pids("ProxyActor")
    assert (len(replicas), len(proxies)) == (6, 1)
    return {*replicas, *proxies}


def reset_in_mid_stream(server: Server) -> None:
    """Read a stream up to its first text, then drop the connection with a TCP reset."""
    url = urlsplit(server.url)
    body = json.dumps({"model": PLAIN, "input": "Tell me a story.", "stream": True})
    lines = [
        "POST /v1/responses HTTP/1.1",
        f"Host: {url.netloc}",
        f"Authorization: Bearer {server.key}",
        "Content-Type: application/json",
        f"Content-Length: {len(body)}",
    ]
    with socket.create_connection((url.hostname, url.port or 80), timeout=60) as connection:
        connection.sendall("\r\n".join([*lines, "", body]).encode())
        received = b""
        while b"output_text.delta" not in received:
            piece = connection.recv(65_536)
            assert piece, received
            received += piece
        # To linger for no time at all: close sends a reset.
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def test_streams_that_begin_together_grow_together(server: Server, v1: openai.OpenAI) -> None:
    with ExitStack() as stack:
        streams = [
            stack.enter_context(
                v1.responses.create(model=PLAIN, input="Hi", stream=True, extra_body=ENDLESS)
            )
            for _ in range(4)
        ]
        for each in streams:
            assert any(event.type == "response.output_text.delta" for event in each)
        assert server.engine(PLAIN)[RUNNING] == 4
    wait_until(lambda: server.engine(PLAIN)[RUNNING] == 0, 10)


@pytest.mark.parametrize(
    ("sent", "num_top"),
    [
        ({"include": ["message.output_text.logprobs"], "top_logprobs": 3}, 3),
        ({"top_logprobs": 3}, 3),
        ({"include": ["message.output_text.logprobs"]}, 0),
    ],
)
def test_as_many_alternatives_are_told_as_were_asked_for(
    server: Server, sent: Json, num_top: int
) -> None:
    events = stream(server, input="Say hello.", max_output_tokens=4, **sent)
    (item,) = events[-1]["response"]["output"]
    (part,) = item["content"]
    assert len(part["logprobs"]) == 4
    assert [len(each["top_logprobs"]) for each in part["logprobs"]] == [num_top] * 4


def test_six_turns_of_thought_calls_and_effort_are_answered(v1: openai.OpenAI) -> None:
    items: list[Any] = []
    for turn in range(6):
        call_id = f"call_{turn}"
        items += [
            {"role": "user", "content": "And now?"},
            {"type": "reasoning", "summary": [{"type": "summary_text", "text": "Hm."}]},
            {"type": "function_call", "call_id": call_id, "name": "f", "arguments": "{}"},
            {"type": "function_call_output", "call_id": call_id, "output": "rain"},
        ]
        response = v1.responses.create(
            model=TOOLS, input=items, reasoning={"effort": "high"}, max_output_tokens=2
        )
        assert response.status in ("completed", "incomplete")
        items += [item.to_dict() for item in response.output]


@pytest.mark.parametrize("name", ["api_key", "key", "token"])
def test_a_key_in_the_address_is_none(server: Server, name: str) -> None:
    for path in ("/v1/models", "/metrics", "/v1/nothing"):
        reply = httpx2.get(server.url + path, params={name: server.key})
        assert reply.status_code == 401
        assert reply.json()["error"].keys() == {"message", "type", "param", "code"}
