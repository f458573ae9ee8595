"""Clients that leave and replicas that die: only the one concerned is told."""

import os
import signal
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import httpx2
import openai

from tests.support.server import Server

PLAIN, TOOLS = "smollm2-135m", "smollm2-135m-tools"
RUNNING, STEPS = "vllm:num_requests_running", "antiphon:engine_steps_total"
CANCELLED, ABORT_STEPS = "antiphon:requests_cancelled_total", "antiphon:engine_abort_steps_max"


def wait_until(condition: Callable[[], bool], timeout_s: float) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, "it did not come to that in time"
        time.sleep(0.05)


def open_stream_and_leave(server: Server, text: str, num_lines: int) -> None:
    body = {"model": PLAIN, "input": text, "stream": True}
    url = f"{server.url}/v1/responses"
    with httpx2.stream("POST", url, json=body, headers=server.headers, timeout=60) as reply:
        lines = reply.iter_lines()
        for _ in range(num_lines):
            next(lines)


def check_row_is_freed(server: Server, text: str, num_lines: int) -> None:
    """Leave a stream; its row must go within one step, which the engine itself counts."""
    before = server.engine(PLAIN)
    open_stream_and_leave(server, text, num_lines)
    wait_until(lambda: server.engine(PLAIN)[RUNNING] == 0, 10)
    after = server.engine(PLAIN)
    assert after[CANCELLED] == before[CANCELLED] + 1
    assert after[ABORT_STEPS] <= 1


def test_a_client_that_leaves_in_mid_stream_frees_its_row(server: Server) -> None:
    check_row_is_freed(server, "Tell me a very long story.", num_lines=20)


def test_a_client_that_leaves_during_prefill_frees_its_row(server: Server) -> None:
    before = server.engine(PLAIN)[STEPS]
    check_row_is_freed(server, "word " * 6000, num_lines=6)
    assert server.engine(PLAIN)[STEPS] - before < 6000 / 128, "it was prefilled to its end"


def test_a_client_that_leaves_leaves_a_cancelled_record(server: Server, v1: openai.OpenAI) -> None:
    with v1.responses.create(model=PLAIN, input="Tell me a story.", stream=True) as stream:
        created = next(iter(stream))
        assert created.type == "response.created"
    response_id = created.response.id
    wait_until(lambda: v1.responses.retrieve(response_id).status == "cancelled", 10)


def test_a_killed_engine_fails_its_own_stream_alone_and_comes_back(
    server: Server, v1: openai.OpenAI
) -> None:
    def read(model: str) -> list[str]:
        kinds: list[str] = []
        with v1.responses.create(
            model=model, input="Tell me a story.", stream=True, max_output_tokens=150
        ) as stream:
            for event in stream:
                kinds.append(event.type)
                if model == PLAIN and len(kinds) == 10:
                    (pid,) = server.pids(f"ServeReplica:{PLAIN}:")
                    os.kill(pid, signal.SIGKILL)
        return kinds

    with ThreadPoolExecutor(2) as pool:
        killed, other = pool.map(read, (PLAIN, TOOLS))
    assert killed[-1] == "response.failed"
    assert other[-1] in ("response.completed", "response.incomplete")
    again = v1.responses.create(model=PLAIN, input="Hi", max_output_tokens=2)
    assert again.status == "incomplete"
    wait_until(lambda: server.health()[0] == 200, 30)


def test_what_a_killed_ingress_was_generating_has_failed(server: Server, v1: openai.OpenAI) -> None:
    with v1.responses.create(model=PLAIN, input="Tell me a story.", stream=True) as stream:
        created = next(iter(stream))
        assert created.type == "response.created"
        (pid,) = server.pids("ServeReplica:api:")
        os.kill(pid, signal.SIGKILL)
    wait_until(lambda: is_failed(server, created.response.id), 30)
    wait_until(lambda: server.engine(PLAIN)[RUNNING] == 0, 10)
    assert v1.responses.cancel(created.response.id).status == "failed"
    check_first_client_may_leave(server, v1)


def check_first_client_may_leave(server: Server, client: openai.OpenAI) -> None:
    """The ingress's own call to the store began in that client's request and must outlive it."""
    story = "Tell me a story."
    with client.responses.create(model=TOOLS, input=story, stream=True) as first:
        next(iter(first))
        second = client.responses.create(
            model=PLAIN, input=story, stream=True, max_output_tokens=200
        )
        created = next(iter(second))
        assert created.type == "response.created"
    with second:
        wait_until(lambda: server.engine(TOOLS)[RUNNING] == 0, 10)
        assert client.responses.retrieve(created.response.id).status == "in_progress"


def is_failed(server: Server, response_id: str) -> bool:
    try:
        url = f"{server.url}/v1/responses/{response_id}"
        reply = httpx2.get(url, headers=server.headers, timeout=10)
    except httpx2.HTTPError:  # the proxy has no ingress to ask yet
        return False
    return reply.status_code == 200 and reply.json()["status"] == "failed"


def test_an_engine_whose_thread_dies_fails_its_stream_and_is_replaced(
    server: Server, v1: openai.OpenAI
) -> None:
    (old,) = server.pids(f"ServeReplica:{PLAIN}:")
    kinds: list[str] = []
    with v1.responses.create(model=PLAIN, input="Tell me a story.", stream=True) as stream:
        for event in stream:
            kinds.append(event.type)
            if len(kinds) == 10:
                server.kill_engine_thread(PLAIN)
    assert kinds[-1] == "response.failed"
    wait_until(lambda: server.pids(f"ServeReplica:{PLAIN}:") not in ([], [old]), 60)
    wait_until(lambda: server.health()[0] == 200, 60)
    assert v1.responses.create(model=PLAIN, input="Hi", max_output_tokens=2).output_text
