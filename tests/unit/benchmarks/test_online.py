"""The command line, the order of the rounds, and requests that go wrong."""

import json
from collections.abc import Callable
from pathlib import Path

import httpx2
import pytest

from benchmarks.exchange import Exchange
from benchmarks.online import Plan, Server, parse_arguments, send, to_json, to_turns
from benchmarks.report import Round

OURS = ["--base-url", "ours=http://127.0.0.1:8000/v1/", "--model", "m"]
THEIRS = ["--base-url", "http://[::1]:8081/v1", "--model", "default_model"]


def test_the_defaults_make_a_plan() -> None:
    assert parse_arguments(OURS) == Plan(
        servers=(Server("ours", "http://127.0.0.1:8000/v1", "m", "responses"),),
        clients=(1, 4, 8),
        prompt_tokens=128,
        max_tokens=64,
        rounds=3,
        warmup=1,
        temperature=0.0,
        seed=0,
        request_timeout_s=120,
        max_seconds=900,
        json_path=None,
    )


def test_each_server_has_its_own_model_and_api() -> None:
    plan = parse_arguments([*OURS, "--api", "responses", *THEIRS, "--api", "chat"])
    assert plan.servers == (
        Server("ours", "http://127.0.0.1:8000/v1", "m", "responses"),
        Server("[::1]:8081", "http://[::1]:8081/v1", "default_model", "chat"),
    )


def test_one_model_and_one_api_hold_for_all_servers() -> None:
    plan = parse_arguments([*OURS, *THEIRS[:2], "--api", "completions"])
    assert [(s.model, s.api) for s in plan.servers] == [("m", "completions")] * 2


def test_numbers_of_clients_come_in_the_order_given_and_once() -> None:
    assert parse_arguments([*OURS, "--clients", "8,1,8"]).clients == (8, 1)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([*OURS, *OURS], "two servers have the same name"),
        ([*OURS, *THEIRS, "--base-url", "x=http://127.0.0.1:1"], "once for all servers, or once"),
        ([*OURS, "--api", "chat", "--api", "chat"], "once for all servers, or once"),
        ([*OURS, "--clients", "0"], "0 is not from 1 to 256"),
        ([*OURS, "--clients", "1,x"], "invalid client_counts value"),
        ([*OURS, "--rounds", "1001"], "1001 is not from 1 to 1000"),
        ([*OURS, "--max-tokens", "0"], "0 is not from 1 to 100000"),
        ([*OURS, "--temperature", "nan"], "nan is not from 0 to 2"),
        ([*OURS, "--json", "/nowhere/at/all.json"], "/nowhere/at is not a folder"),
        (["--base-url", "ftp://127.0.0.1", "--model", "m"], "is not an http address"),
        (["--base-url", "127.0.0.1:8000", "--model", "m"], "is not an http address"),
    ],
)
def test_a_senseless_command_line_is_refused(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match="2"):
        parse_arguments(arguments)
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    "url", ["http://192.0.2.1:8000", "http://127.0.0.1.example:8000", "https://example.com/v1"]
)
def test_an_address_beyond_this_host_must_be_asked_for(
    url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["--base-url", url, "--model", "m"]
    with pytest.raises(SystemExit, match="2"):
        parse_arguments(arguments)
    assert "is not on this host" in capsys.readouterr().err
    assert parse_arguments([*arguments, "--allow-remote"]).servers[0].base_url == url


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "127.1.2.3", "[::1]"])
def test_an_address_of_this_host_is_measured(host: str) -> None:
    url = f"http://{host}:8000/v1"
    assert parse_arguments(["--base-url", url, "--model", "m"]).servers[0].base_url == url


def test_servers_take_turns_and_the_order_turns_about() -> None:
    plan = parse_arguments([*OURS, *THEIRS, "--clients", "2,1", "--rounds", "2"])
    turns = [(len(t.prompts), t.index, t.server.name) for t in to_turns(plan)]
    ours, theirs = "ours", "[::1]:8081"
    assert turns == [
        (clients, index, name)
        for clients in (2, 1)
        for index, names in ((-1, (theirs, ours)), (0, (ours, theirs)), (1, (theirs, ours)))
        for name in names
    ]


def test_all_servers_get_the_same_prompts_and_each_prompt_once() -> None:
    plan = parse_arguments([*OURS, *THEIRS, "--clients", "1,4"])
    sent = {
        server.name: [p for t in to_turns(plan) if t.server == server for p in t.prompts]
        for server in plan.servers
    }
    ours, theirs = sent.values()
    assert sorted(ours) == sorted(theirs)
    assert len(set(ours)) == len(ours) == (1 + 4) * (1 + 3)


async def exchange_with(answer: Callable[[httpx2.Request], httpx2.Response]) -> Exchange:
    plan = parse_arguments([*OURS, "--max-tokens", "7"])
    async with httpx2.AsyncClient(transport=httpx2.MockTransport(answer)) as http:
        return await send(http, plan.servers[0], plan, "prompt", timeout_s=60)


def to_stream(*data: str) -> httpx2.Response:
    content = "".join(f"data: {line}\n\n" for line in data)
    return httpx2.Response(200, content=content, headers={"content-type": "text/event-stream"})


async def test_a_request_goes_to_the_path_of_its_api_and_is_read_to_its_end() -> None:
    def answer(request: httpx2.Request) -> httpx2.Response:
        assert str(request.url) == "http://127.0.0.1:8000/v1/responses"
        assert json.loads(request.content)["max_output_tokens"] == 7
        return to_stream('{"type": "response.output_text.delta", "delta": "a"}', "[DONE]")

    exchange = await exchange_with(answer)
    assert (exchange.error, exchange.output_tokens, exchange.gaps_s) == (None, 1, ())
    assert exchange.ttft_s is not None
    assert exchange.ttft_s > 0


def refuse(request: httpx2.Request) -> httpx2.Response:
    raise httpx2.ConnectError("refused", request=request)


def time_out(request: httpx2.Request) -> httpx2.Response:
    raise TimeoutError


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (refuse, "ConnectError: refused"),
        (time_out, "not finished after 60 s"),
        (lambda _: httpx2.Response(503, content=b"busy \xff" * 100), "HTTP 503: busy \ufffd"),
        (lambda _: httpx2.Response(302, headers={"location": "http://192.0.2.1"}), "HTTP 302:"),
        (lambda _: httpx2.Response(200, text="<html>"), "SSEError: Expected response"),
        (lambda _: to_stream(), "the stream ended early"),
        (lambda _: to_stream('{"error": "no room"}'), "no room"),
    ],
    ids=["refused", "too slow", "status", "redirect", "no stream", "empty", "error event"],
)
async def test_a_request_that_goes_wrong_is_counted_and_not_raised(
    answer: Callable[[httpx2.Request], httpx2.Response], error: str
) -> None:
    exchange = await exchange_with(answer)
    assert exchange.error is not None
    assert exchange.error.startswith(error)
    assert exchange.output_tokens == 0


def test_the_file_holds_plan_summaries_and_every_round() -> None:
    plan = parse_arguments([*OURS, "--json", str(Path(__file__).with_name("out.json"))])
    failed = Exchange("refused", None, (), 0, True, 0, 0)
    whole = json.loads(to_json(plan, [Round("ours", 1, 0.0, (failed,))]))
    assert whole["plan"]["servers"][0]["name"] == "ours"
    assert whole["summaries"][0]["ttft_p50_s"] is None
    assert whole["rounds"][0]["exchanges"][0]["error"] == "refused"
