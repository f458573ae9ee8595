"""Prompts of tens of thousands of tokens against a real cluster."""

import time

import httpx2
import openai
import pytest

from tests.serve.conftest import HEARTBEAT_S, LONG_CONTEXT
from tests.support.server import Server

# One token a character, and a few of the template.
PROMPT = "a" * 30_000


def test_a_long_prefill_keeps_its_stream_alive_and_ends_it(v1: openai.OpenAI) -> None:
    begun_s = time.monotonic()
    signs_s: list[float] = []
    with v1.responses.create(
        model="long", input=PROMPT, max_output_tokens=2, stream=True
    ) as stream:
        for event in stream:
            if event.type == "response.output_item.added":
                silence_s = time.monotonic() - begun_s
            if event.type == "response.in_progress":
                signs_s.append(time.monotonic())
                assert event.response.output == []
    assert event.type == "response.incomplete"
    assert event.response.usage is not None
    assert event.response.usage.input_tokens > len(PROMPT)
    # The first is no heartbeat; how many follow depends on how fast the machine is.
    assert abs(len(signs_s) - 1 - silence_s // HEARTBEAT_S) <= 1


def test_a_client_that_leaves_during_a_long_prefill_frees_the_engine(server: Server) -> None:
    body = {"model": "long", "input": PROMPT, "stream": True}
    url, headers = f"{server.url}/v1/responses", server.headers
    with httpx2.stream("POST", url, json=body, headers=headers, timeout=60) as reply:
        assert reply.status_code == 200
        wait_for(server, running=1)
    left_s = time.monotonic()
    wait_for(server, running=0)
    assert time.monotonic() - left_s < 2
    engine = server.engine("long")
    assert engine["antiphon:engine_abort_steps_max"] <= 1
    assert engine["antiphon:kv_cache_bytes"] == 0


def wait_for(server: Server, running: int) -> None:
    """Until so many generations are in the batch or the queue of the model."""
    deadline_s = time.monotonic() + 30
    while True:
        engine = server.engine("long")
        if engine["vllm:num_requests_running"] + engine["vllm:num_requests_waiting"] == running:
            return
        assert time.monotonic() < deadline_s
        time.sleep(0.05)


@pytest.mark.parametrize("stream", [False, True])
def test_a_prompt_beyond_a_long_context_is_refused_before_a_stream_opens(
    v1: openai.OpenAI, stream: bool
) -> None:
    with pytest.raises(openai.BadRequestError) as error:
        v1.responses.create(model="long", input="a" * LONG_CONTEXT, stream=stream)
    assert (error.value.code, error.value.param) == ("context_length_exceeded", "input")


def test_the_output_is_cut_where_the_context_ends(v1: openai.OpenAI) -> None:
    completion = v1.completions.create(
        model="base", prompt="a" * 4090, max_tokens=100, extra_body={"logit_bias": {"257": -100}}
    )
    assert completion.usage is not None
    assert completion.usage.total_tokens == 4096
    assert completion.choices[0].finish_reason == "length"
