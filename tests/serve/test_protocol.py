"""What the protocol says of real models, over a real cluster."""

import json
import socket
from typing import Any, cast
from urllib.parse import urlsplit

import httpx2
import openai
import pytest
from openai.types.responses import ResponseOutputMessage, ResponseOutputText

from tests.support.server import Server

PLAIN = "smollm2-135m"
CAPITAL = "Count from 1 to 10, then tell me the capital of France."
ANSWER = "La femme de France est la France."
TOOL = {
    "type": "function",
    "name": "get_weather",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
}


def find_part(response: Any) -> ResponseOutputText:
    (message,) = response.output
    assert isinstance(message, ResponseOutputMessage)
    return cast(ResponseOutputText, message.content[0])


def test_log_probabilities_are_the_same_streamed_and_whole(v1: openai.OpenAI) -> None:
    asked: Any = {"model": PLAIN, "input": CAPITAL, "temperature": 0, "top_logprobs": 3}
    part = find_part(v1.responses.create(**asked))
    with v1.responses.stream(**asked) as stream:
        deltas = [e.logprobs for e in stream if e.type == "response.output_text.delta"]
        streamed = find_part(stream.get_final_response())
    assert part.logprobs is not None
    assert streamed.logprobs == part.logprobs
    assert [each.to_dict() for delta in deltas for each in delta] == [
        each.to_dict() for each in part.logprobs
    ]


def test_a_greedy_token_ranks_first_and_its_bytes_are_the_texts(v1: openai.OpenAI) -> None:
    part = find_part(
        v1.responses.create(
            model=PLAIN,
            input=CAPITAL,
            temperature=0,
            include=["message.output_text.logprobs"],
            top_logprobs=20,
        )
    )
    assert part.logprobs is not None
    assert b"".join(bytes(each.bytes) for each in part.logprobs) == ANSWER.encode()
    for each in part.logprobs:
        ranked = [top.logprob for top in each.top_logprobs]
        assert len(ranked) == 20
        assert ranked == sorted(ranked, reverse=True)
        assert each.top_logprobs[0].token == each.token
        assert each.top_logprobs[0].logprob == each.logprob <= 0


@pytest.mark.parametrize(
    "body",
    [
        {"input": "Hi"},
        {"input": CAPITAL, "instructions": "Sing."},
        {
            "input": [
                {"role": "developer", "content": "Rhyme."},
                {"role": "user", "content": "Weather?"},
                {"type": "reasoning", "summary": [], "content": []},
                {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"},
                {"type": "function_call_output", "call_id": "c", "output": "rain"},
            ],
            "tools": [TOOL],
        },
    ],
    ids=["text", "instructions", "items"],
)
def test_input_tokens_are_what_usage_says(v1: openai.OpenAI, body: Any) -> None:
    for model in (PLAIN, "smollm2-135m-tools"):
        counted = v1.responses.input_tokens.count(model=model, **body)
        response = v1.responses.create(model=model, max_output_tokens=1, **body)
        assert response.usage is not None
        assert counted.object == "response.input_tokens"
        assert counted.input_tokens == response.usage.input_tokens


@pytest.mark.parametrize("stream", [False, True])
def test_a_model_without_a_template_takes_no_messages(v1: openai.OpenAI, stream: bool) -> None:
    with pytest.raises(openai.BadRequestError) as error:
        v1.responses.create(model="base", input="Hi", stream=stream)
    assert (error.value.code, error.value.param) == ("chat_template_missing", "model")


def test_what_has_no_effect_is_named_and_what_must_hold_is_refused(v1: openai.OpenAI) -> None:
    asked: Any = {"model": PLAIN, "input": "Hi", "max_output_tokens": 1, "tools": [TOOL]}
    reply = v1.responses.with_raw_response.create(
        **asked, user="me", include=["reasoning.encrypted_content"]
    )
    ignored = reply.headers["x-antiphon-ignored"].split(", ")
    assert set(ignored) == {"tools", "user", "include.reasoning.encrypted_content"}
    for more, param in (
        ({"tool_choice": "required"}, "tool_choice"),
        ({"text": {"format": {"type": "json_object"}}}, "text.format"),
        ({"background": True}, "background"),
        ({"truncation": "auto"}, "truncation"),
    ):
        with pytest.raises(openai.BadRequestError) as error:
            v1.responses.create(**{**asked, **more})
        assert error.value.param == param


def test_a_model_without_eyes_refuses_a_picture_by_its_place(v1: openai.OpenAI) -> None:
    picture: Any = {"type": "input_image", "image_url": "http://127.0.0.1:9/never.png"}
    with pytest.raises(openai.BadRequestError) as error:
        v1.responses.create(model=PLAIN, input=[{"role": "user", "content": [picture]}])
    assert error.value.param == "input[0].content[0]"


@pytest.mark.parametrize("path", ["/v1/responses", "/responses", "/v1/nothing"])
def test_a_websocket_is_answered_with_a_426_in_json(server: Server, path: str) -> None:
    assert shake_hands(server, path, server.key) == (426, {"message", "type", "param", "code"})
    assert shake_hands(server, path, "wrong")[0] == 401


def shake_hands(server: Server, path: str, key: str) -> tuple[int, set[str]]:
    """Ask for a WebSocket; the status of the reply and the keys of its error."""
    url = urlsplit(server.url)
    lines = [
        f"GET {path} HTTP/1.1",
        f"Host: {url.netloc}",
        "Connection: Upgrade",
        "Upgrade: websocket",
        "Sec-WebSocket-Version: 13",
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
        f"Authorization: Bearer {key}",
    ]
    with socket.create_connection((url.hostname, url.port or 80), timeout=10) as connection:
        connection.sendall("\r\n".join([*lines, "", ""]).encode())
        reply = read_all(connection)
    head, _, body = reply.partition(b"\r\n\r\n")
    return int(head.split()[1]), set(json.loads(body)["error"])


def read_all(connection: socket.socket) -> bytes:
    """All bytes until the server closes."""
    received = b""
    while piece := connection.recv(65_536):
        received += piece
    return received


def test_a_stored_stream_cannot_be_asked_for_again(server: Server, v1: openai.OpenAI) -> None:
    response = v1.responses.create(model=PLAIN, input="Hi", max_output_tokens=1)
    url = f"{server.url}/v1/responses/{response.id}"
    reply = httpx2.get(url, params={"stream": "true"}, headers=server.headers)
    assert (reply.status_code, reply.json()["error"]["param"]) == (400, "stream")
