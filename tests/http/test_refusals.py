"""What the server refuses, always in one shape, and without asking any model."""

import re
from typing import Any

import pytest

from tests.support.bad_requests import (
    BAD_REQUESTS,
    CONTRADICTIONS,
    GOOD,
    NOT_FINITE,
    NUMBERS,
)
from tests.support.refusals import Fault, check_bad, send, shorten, sort_by_param
from tests.support.scripted import saying
from tests.support.serving import MAX_BODY_BYTES, playing, serving

NEW_ID = re.compile(r"req_[0-9a-f]{32}")
METHODS = {
    "/responses": {"POST"},
    "/responses/resp_1": {"GET", "HEAD", "DELETE"},
    "/responses/resp_1/cancel": {"POST"},
    "/chat/completions": {"POST"},
    "/completions": {"POST"},
    "/models": {"GET", "HEAD"},
    "/models/org/name": {"GET", "HEAD"},
}
MALFORMED = {
    "nothing": b"",
    "no JSON": b"Hi",
    "an array": b"[]",
    "null": b"null",
    "a number": b"1",
    "deep": b"[" * 100_000,
    "a lone surrogate": rb'{"model":"scripted","input":"\ud83d"}',
    "invalid UTF-8": b'{"model":"scripted","input":"\xff"}',
    "a huge integer": b'{"model":"scripted","input":"Hi","seed":' + b"9" * 5000 + b"}",
}


def envelope(
    message: str, kind: str = "invalid_request_error", param: Any = None, code: Any = None
) -> dict[str, Any]:
    return {"error": {"message": message, "type": kind, "param": param, "code": code}}


@pytest.mark.parametrize(
    ("param", "faults", "is_quoted"),
    [
        *((param, faults, True) for param, faults in sort_by_param(BAD_REQUESTS).items()),
        *((param, faults, False) for param, faults in sort_by_param(CONTRADICTIONS).items()),
    ],
    ids=lambda value: "" if isinstance(value, list | bool) else value,
)
async def test_a_bad_request_is_refused_before_any_model_is_asked(
    param: str, faults: list[Fault], is_quoted: bool
) -> None:
    engine = playing(*saying("Hello"))
    async with serving(engine) as served:
        for changes, code in faults:
            told = await send(served.http, "/v1/responses", {**GOOD, "stream": True, **changes})
            message = check_bad(told, changes, param, code)
            assert f"'{param}'" in message or not is_quoted, shorten(changes)
            assert engine.requests == [], shorten(changes)


@pytest.mark.parametrize("word", NOT_FINITE)
@pytest.mark.parametrize(
    ("value", "param"),
    [
        *((f'"{name}": NUMBER', name) for name in NUMBERS),
        ('"logit_bias": {"5": NUMBER}', "logit_bias.5"),
        ('"input": [{"role": "user", "content": [1, NUMBER]}]', "input[0].content[1]"),
        ('"unknown": [NUMBER]', "unknown[0]"),
    ],
)
async def test_what_is_no_number_in_json_is_refused_by_its_place(
    value: str, param: str, word: str
) -> None:
    engine = playing(*saying("Hello"))
    body = '{"model": "scripted", "input": "Hi", ' + value.replace("NUMBER", word) + "}"
    async with serving(engine) as served:
        reply = await served.http.post("/v1/responses", content=body)
    error = reply.json()["error"]
    assert (reply.status_code, error["param"], error["code"]) == (400, param, "invalid_value")
    assert engine.requests == []


async def test_words_that_are_no_numbers_may_stand_in_a_text() -> None:
    async with serving(playing(*saying("Hello"))) as served:
        reply = await served.http.post("/v1/responses", json={**GOOD, "input": "NaN or Infinity?"})
    assert reply.status_code == 200


@pytest.mark.parametrize(
    ("value", "param"),
    [
        ('"temperature": NUMBER', "temperature"),
        ('"metadata": {"key": NUMBER}', "metadata.key"),
        (
            '"tools": [{"type": "function", "name": "f", "parameters": NUMBER}]',
            "tools[0].parameters",
        ),
        (
            '"tools": [{"type": "function", "name": "f", "parameters": {"a": [NUMBER]}}]',
            "tools[0].parameters",
        ),
        (
            '"text": {"format": {"type": "json_schema", "schema": {"maximum": NUMBER}}}',
            "text.format.schema",
        ),
        (
            '"input": [{"type": "function_call_output", "call_id": "c", "output": '
            '[{"type": "x", "a": NUMBER}]}]',
            "input[0].output[0]",
        ),
    ],
)
async def test_a_number_that_no_float_can_hold_is_refused(value: str, param: str) -> None:
    body = '{"model": "scripted", "input": "Hi", ' + value.replace("NUMBER", "-1e999") + "}"
    async with serving(playing(*saying("Hello"))) as served:
        reply = await served.http.post("/v1/responses", content=body)
    assert (reply.status_code, reply.json()["error"]["param"]) == (400, param)


@pytest.mark.parametrize("name", NUMBERS)
async def test_a_number_of_hundreds_of_digits_is_refused(name: str) -> None:
    body = '{"model":"scripted","input":"Hi","' + name + '":' + "9" * 400 + "}"
    async with serving(playing(*saying("Hello"))) as served:
        reply = await served.http.post("/v1/responses", content=body)
    assert (reply.status_code, reply.json()["error"]["param"]) == (400, name)


@pytest.mark.parametrize("body", MALFORMED.values(), ids=list(MALFORMED))
async def test_a_body_that_is_no_json_object_is_refused(body: bytes) -> None:
    engine = playing(*saying("Hello"))
    async with serving(engine) as served:
        reply = await served.http.post("/v1/responses", content=body)
    error = reply.json()["error"]
    assert (reply.status_code, error["type"]) == (400, "invalid_request_error")
    assert (error["param"], error["code"]) in ((None, "invalid_json"), (None, "invalid_type"))
    assert engine.requests == []


async def test_a_request_that_says_nothing_is_refused() -> None:
    engine = playing(*saying("Hello"))
    async with serving(engine) as served:
        reply = await served.http.post("/v1/responses", json={"model": "scripted", "input": " "})
    assert (reply.status_code, reply.json()) == (
        400,
        envelope(
            "The request has no effective input: give 'input' or 'instructions' some text.",
            param="input",
            code="missing_required_parameter",
        ),
    )
    assert engine.requests == []


@pytest.mark.parametrize("is_chunked", [False, True])
async def test_a_body_that_is_too_large_is_refused(is_chunked: bool) -> None:
    body = b" " * (MAX_BODY_BYTES + 1)

    async def chunks() -> Any:
        yield body

    async with serving(playing()) as served:
        content = chunks() if is_chunked else body
        reply = await served.http.post("/v1/responses", content=content)
    assert (reply.status_code, reply.json()) == (
        413,
        envelope("The body is larger than 1000000 bytes."),
    )


async def test_a_body_that_just_fits_is_read() -> None:
    body = b'{"model":"scripted","input":"Hi"}'.ljust(MAX_BODY_BYTES)
    async with serving(playing(*saying("Hello"))) as served:
        reply = await served.http.post("/v1/responses", content=body)
    assert reply.status_code == 200


@pytest.mark.parametrize(
    ("headers", "message"),
    [
        (
            {"content-type": "text/plain"},
            "The content type 'text/plain' is not served; send application/json.",
        ),
        ({"content-encoding": "gzip"}, "Compressed bodies are not served."),
    ],
)
async def test_a_body_of_another_kind_is_refused(headers: dict[str, str], message: str) -> None:
    async with serving(playing()) as served:
        reply = await served.http.post("/v1/responses", json=GOOD, headers=headers)
    assert (reply.status_code, reply.json()) == (415, envelope(message))


@pytest.mark.parametrize("name", ["x-request-disconnect-disabled", "X-Request-Timeout-Seconds"])
@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_a_header_that_steers_serves_proxy_is_refused_on_every_route(
    name: str, method: str
) -> None:
    engine = playing(*saying("Hello"))
    async with serving(engine) as served:
        reply = await served.http.request(method, "/v1/responses", json=GOOD, headers={name: "?1"})
    message = f"The header '{name.lower()}' is not served."
    assert (reply.status_code, reply.json()) == (400, envelope(message))
    assert engine.requests == []


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/"),
        ("GET", "/v1"),
        ("GET", "/v2/models"),
        ("POST", "/v1/responses/"),
        ("POST", "/v1/v1/responses"),
        ("GET", "/v1/responses/resp_1/nothing"),
        ("POST", "/v1/embeddings"),
        ("POST", "/v1/responses/compact"),
        ("GET", "/v1/health"),
    ],
)
async def test_a_route_that_is_not_there_is_not_found(method: str, path: str) -> None:
    async with serving(playing()) as served:
        reply = await served.http.request(method, path)
    assert (reply.status_code, reply.json()) == (
        404,
        envelope(f"No such route: {method} {path}", "not_found"),
    )


@pytest.mark.parametrize("prefix", ["", "/v1"])
@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"])
@pytest.mark.parametrize("path", METHODS)
async def test_a_method_that_a_route_does_not_take_is_answered_with_all_that_it_takes(
    prefix: str, method: str, path: str
) -> None:
    async with serving(playing()) as served:
        reply = await served.http.request(method, prefix + path)
    if method in METHODS[path]:
        assert reply.status_code != 405
        return
    assert (reply.status_code, reply.json()) == (
        405,
        envelope(f"The route {prefix}{path} does not take {method}."),
    )
    assert set(reply.headers["allow"].split(", ")) == METHODS[path]


REPLIES: list[tuple[str, str, dict[str, Any], int]] = [
    ("POST", "/v1/responses", {"json": GOOD}, 200),
    ("POST", "/v1/responses", {"json": {**GOOD, "stream": True}}, 200),
    ("POST", "/v1/responses", {"json": {}}, 400),
    ("GET", "/v1/models", {}, 200),
    ("HEAD", "/v1/models", {}, 200),
    ("GET", "/health", {}, 200),
    ("GET", "/v1/responses/resp_9", {}, 404),
    ("GET", "/nowhere", {}, 404),
    ("PUT", "/v1/models", {}, 405),
    ("POST", "/v1/responses", {"content": b" " * (MAX_BODY_BYTES + 1)}, 413),
    ("POST", "/v1/responses", {"content": b"", "headers": {"content-type": "a/b"}}, 415),
]


@pytest.mark.parametrize(("method", "path", "options", "status"), REPLIES)
async def test_every_reply_has_an_id(
    method: str, path: str, options: dict[str, Any], status: int
) -> None:
    async with serving(playing(*saying("Hello"))) as served:
        reply = await served.http.request(method, path, **options)
        headers = {**options.get("headers", {}), "x-request-id": "mine"}
        echoed = await served.http.request(method, path, **{**options, "headers": headers})
    assert (reply.status_code, echoed.status_code) == (status, status)
    assert NEW_ID.fullmatch(reply.headers["x-request-id"])
    assert echoed.headers["x-request-id"] == "mine"


async def test_a_fault_of_ours_is_told_without_its_cause() -> None:
    async with serving(playing(ValueError("/home/me/secret.py"))) as served:
        reply = await served.http.post("/v1/responses", json=GOOD)
    assert (reply.status_code, reply.json()) == (
        500,
        envelope("The server had an internal error.", "server_error", code="server_error"),
    )
    assert NEW_ID.fullmatch(reply.headers["x-request-id"])
