"""The launcher sees a taken port, and whether every model answers as a client would see it."""

import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from configs.errors import SettingsError
from configs.serve_file import ServeFile
from configs.settings import ApiSettings, ModelSettings
from deployments.probe import NoAnswerError, check_port, first_answers, wait_for_route
from deployments.startup import AnsweringModel

Answer = Callable[[str, Any], tuple[int, str]]


@contextmanager
def serving(answer: Answer, authorization: str | None = None) -> Iterator[int]:
    """An HTTP server on a free port whose replies are `answer(path, parsed body)`.

    A request whose header `Authorization` is another gets a 401.
    """

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            length = int(self.headers.get("content-length", 0))
            body = json.loads(self.rfile.read(length) or "null")
            is_known = self.headers.get("authorization") == authorization
            status, text = answer(self.path, body) if is_known else (401, "who are you?")
            self.send_response(status)
            self.end_headers()
            self.wfile.write(text.encode())

        do_POST = do_GET

        def log_message(self, format: str, *args: Any) -> None:
            pass

    class Server(ThreadingHTTPServer):
        def handle_error(self, request: Any, client_address: Any) -> None:
            pass  # a client that has given up is what some tests are about

    with Server(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield server.server_address[1]
        finally:
            server.shutdown()
            thread.join()


def make_file(port: int) -> ServeFile:
    models = {name: ModelSettings(name=f"model {name}", source="org/m") for name in ("a", "b")}
    api = ApiSettings(models=("a", "b"))
    return ServeFile(Path("f"), "127.0.0.1", port, ("a", "b", "api"), models, {}, api, "/")


ANSWERING = [AnsweringModel("model a"), AnsweringModel("model b")]
LISTING = json.dumps({"object": "list", "data": [{"id": "model a"}, {"id": "model b"}]})


def test_every_model_is_asked_once_and_the_listed_names_returned() -> None:
    asked = []

    def answer(path: str, body: Any) -> tuple[int, str]:
        if path == "/v1/models":
            return 200, LISTING
        asked.append((path, body["model"], body["store"]))
        return 200, "{}"

    with serving(answer) as port:
        assert first_answers(make_file(port), timeout_s=10) == ANSWERING
    assert asked == [("/v1/responses", "model a", False), ("/v1/responses", "model b", False)]


def test_where_the_server_needs_a_key_each_question_has_one() -> None:
    def answer(path: str, body: Any) -> tuple[int, str]:
        return 200, LISTING if body is None else "{}"

    with serving(answer, authorization="Bearer sk-a-key-of-ours") as port:
        models = first_answers(make_file(port), timeout_s=10, key="sk-a-key-of-ours")
    assert models == ANSWERING


@pytest.mark.parametrize(
    ("status", "text", "message"),
    [
        (500, '{"error": {"message": "no memory"}}', "status 500, no memory"),
        (502, "bad gateway", "status 502, bad gateway"),
        (500, '{"error": "odd"}', 'status 500, {"error": "odd"}'),
        (200, "no json", "no usable reply"),
    ],
)
def test_a_model_that_fails_is_named_with_the_servers_reason(
    status: int, text: str, message: str
) -> None:
    def answer(path: str, body: Any) -> tuple[int, str]:
        fails = body is not None and body["model"] == "model b"
        return (status, text) if fails else (200, LISTING)

    with serving(answer) as port, pytest.raises(NoAnswerError) as caught:
        first_answers(make_file(port), timeout_s=10)
    assert str(caught.value).startswith(f"model 'model b' does not answer: {message}")


NO_TEMPLATE = json.dumps({"error": {"message": "none", "code": "chat_template_missing"}})


def test_a_model_without_a_template_is_asked_to_continue_a_text() -> None:
    asked = []

    def answer(path: str, body: Any) -> tuple[int, str]:
        if body is not None:
            asked.append((path, body["model"]))
        if path == "/v1/responses" and body["model"] == "model b":
            return 400, NO_TEMPLATE
        return 200, LISTING

    with serving(answer) as port:
        models = first_answers(make_file(port), timeout_s=10)
    assert models == [AnsweringModel("model a"), AnsweringModel("model b", takes_messages=False)]
    assert asked[-2:] == [("/v1/responses", "model b"), ("/v1/completions", "model b")]


def test_a_model_that_neither_answers_nor_continues_is_named() -> None:
    def answer(path: str, body: Any) -> tuple[int, str]:
        if path == "/v1/completions":
            return 500, '{"error": {"message": "no memory"}}'
        return (200, LISTING) if body is None else (400, NO_TEMPLATE)

    with (
        serving(answer) as port,
        pytest.raises(NoAnswerError, match="model 'model a' does not answer: .*no memory"),
    ):
        first_answers(make_file(port), timeout_s=10)


def test_a_model_that_hangs_is_given_up() -> None:
    is_over = threading.Event()

    def answer(path: str, body: Any) -> tuple[int, str]:
        if body is not None:
            is_over.wait(10)
        return 200, LISTING

    with serving(answer) as port:
        with pytest.raises(NoAnswerError, match="no reply within 0 s"):
            first_answers(make_file(port), timeout_s=0.1)
        is_over.set()


def test_the_route_is_waited_for_as_long_as_it_takes() -> None:
    replies = iter([(404, "no route"), (404, "no route"), (200, LISTING)])
    pauses: list[float] = []
    with serving(lambda *_: next(replies)) as port:
        wait_for_route(f"http://127.0.0.1:{port}", 10, clock=lambda: 0.0, sleep=pauses.append)
    assert len(pauses) == 2


def test_a_route_that_never_comes_is_given_up_with_the_last_reason() -> None:
    times = iter([0.0, 9.0, 11.0])
    with (
        serving(lambda *_: (404, "no route")) as port,
        pytest.raises(NoAnswerError, match="status 404, no route"),
    ):
        url = f"http://127.0.0.1:{port}"
        wait_for_route(url, 10, clock=times.__next__, sleep=lambda _: None)
    assert not list(times)


def test_no_proxy_of_the_environment_stands_between(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    with serving(lambda *_: (200, LISTING)) as port:
        wait_for_route(f"http://127.0.0.1:{port}", 10)


def test_a_port_that_another_process_listens_at_is_refused() -> None:
    with socket.socket() as other:
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)  # as Serve's proxy does
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        with pytest.raises(SettingsError, match=f"port {port} of 127.0.0.1 is in use"):
            check_port("127.0.0.1", port)
    check_port("127.0.0.1", port)


def test_an_address_of_another_machine_is_refused() -> None:
    with pytest.raises(SettingsError, match=r"cannot listen at 192\.0\.2\.254"):
        check_port("192.0.2.254", 0)


def test_a_refused_connection_is_no_answer() -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]
        with pytest.raises(NoAnswerError, match="no usable reply"):
            wait_for_route(f"http://127.0.0.1:{port}", 10, clock=iter([0.0, 11.0]).__next__)
