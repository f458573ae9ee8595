"""Raw HTTP against a real cluster: the envelope on every path, ids, limits."""

import httpx2
import pytest

from tests.support.server import Server


@pytest.mark.parametrize(
    ("method", "path", "content", "kind", "status"),
    [
        ("GET", "/nope", b"", "application/json", 404),
        ("GET", "/v1/nope", b"", "application/json", 404),
        ("PUT", "/v1/responses", b"", "application/json", 405),
        ("GET", "/v1/responses/resp_unknown", b"", "application/json", 404),
        ("POST", "/v1/responses", b'{"model"', "application/json", 400),
        ("POST", "/v1/responses", b"a=b", "application/x-www-form-urlencoded", 415),
        ("POST", "/v1/responses", b" " * 33_554_433, "application/json", 413),
    ],
)
def test_errors_are_json_with_all_four_keys_and_an_id(
    server: Server, method: str, path: str, content: bytes, kind: str, status: int
) -> None:
    headers = {**server.headers, "content-type": kind, "x-request-id": "mine"}
    reply = httpx2.request(method, server.url + path, content=content, headers=headers, timeout=30)
    assert reply.status_code == status
    assert set(reply.json()["error"]) == {"message", "type", "param", "code"}
    assert reply.headers.get_list("x-request-id") == ["mine"]


def test_every_reply_has_an_id_streams_too(server: Server) -> None:
    body = {"model": "smollm2-135m", "input": "Hi", "max_output_tokens": 1}
    url, headers = f"{server.url}/v1/responses", server.headers
    for reply, status in (
        (httpx2.get(f"{server.url}/health"), 200),
        (httpx2.post(url, json=body, headers=headers, timeout=60), 200),
        (httpx2.post(url, json={**body, "stream": True}, headers=headers, timeout=60), 200),
        (httpx2.post(url, json=body, timeout=60), 401),
    ):
        assert reply.status_code == status
        assert len(reply.headers.get_list("x-request-id")) == 1


def test_a_stream_ends_with_done_and_then_closes(server: Server) -> None:
    body = {"model": "smollm2-135m", "input": "Hi", "max_output_tokens": 2, "stream": True}
    url = f"{server.url}/v1/responses"
    reply = httpx2.post(url, json=body, headers=server.headers, timeout=60)
    assert reply.headers["content-type"].startswith("text/event-stream")
    assert reply.text.endswith("\n\ndata: [DONE]\n\n")


def test_what_a_caller_does_wrong_is_no_error_in_the_logs(server: Server) -> None:
    before = count_failures(server)
    url, headers = f"{server.url}/v1", server.headers
    long = {"model": "smollm2-135m", "input": "hi " * 9000}
    for path, body in (
        ("responses", long),
        ("responses/input_tokens", {**long, "input": "a" * 9_000_000}),
        ("completions", {"model": "base", "prompt": [257_000]}),
    ):
        reply = httpx2.post(f"{url}/{path}", json=body, headers=headers, timeout=60)
        assert reply.status_code == 400
    assert count_failures(server) == before


def count_failures(server: Server) -> int:
    """Of requests, in all logs of Serve's replicas."""
    return sum(
        path.read_text(errors="replace").count("Request failed")
        for path in server.log_folder.rglob("*.log*")
    )
