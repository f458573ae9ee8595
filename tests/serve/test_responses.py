"""The openai client against a real cluster with the default models."""

from concurrent.futures import ThreadPoolExecutor
from functools import partial

import openai
import pytest

PLAIN, TOOLS = "smollm2-135m", "smollm2-135m-tools"
CAPITAL = "Count from 1 to 10, then tell me the capital of France."


def read_stream(client: openai.OpenAI, model: str, text: str, max_output_tokens: int) -> str:
    with client.responses.stream(
        model=model, input=text, temperature=0, max_output_tokens=max_output_tokens
    ) as stream:
        deltas = [event.delta for event in stream if event.type == "response.output_text.delta"]
    return "".join(deltas)


def test_models_are_listed_and_found_by_name_and_alias(client: openai.OpenAI) -> None:
    assert [model.id for model in client.models.list()] == [PLAIN, TOOLS, "long", "base"]
    for name in (PLAIN, "smol", "org/smol:latest"):
        assert client.models.retrieve(name).id == PLAIN


@pytest.mark.parametrize("model", [PLAIN, "smol", "org/smol:latest", TOOLS])
def test_a_response_is_created_by_name_or_alias(client: openai.OpenAI, model: str) -> None:
    response = client.responses.create(model=model, input=CAPITAL, temperature=0)
    assert response.output_text == "La femme de France est la France."
    assert (response.status, response.model) == ("completed", model)
    assert response.usage is not None
    assert (response.usage.output_tokens, response.usage.total_tokens) == (10, 57)


def test_a_stream_gives_the_events_in_order_and_the_same_object(client: openai.OpenAI) -> None:
    with client.responses.stream(model=PLAIN, input=CAPITAL, temperature=0) as stream:
        events = list(stream)
        final = stream.get_final_response()
    deltas = [event for event in events if event.type == "response.output_text.delta"]
    kinds = [event.type for event in events if event not in deltas]
    assert kinds == [
        "response.created",
        "response.in_progress",
        "response.output_item.added",
        "response.content_part.added",
        "response.output_text.done",
        "response.content_part.done",
        "response.output_item.done",
        "response.completed",
    ]
    assert [event.sequence_number for event in events] == list(range(len(events)))
    assert "".join(event.delta for event in deltas) == final.output_text


def test_what_is_stored_is_the_object_of_the_terminal_event(client: openai.OpenAI) -> None:
    *_, last = client.responses.create(
        model=PLAIN, input=CAPITAL, temperature=0, metadata={"a": "b"}, stream=True
    )
    assert last.type == "response.completed"
    assert client.responses.retrieve(last.response.id).to_dict() == last.response.to_dict()
    assert last.response.metadata == {"a": "b"}


def test_instructions_and_message_input_reach_the_model(client: openai.OpenAI) -> None:
    plain = client.responses.create(model=PLAIN, input="Hi", temperature=0, max_output_tokens=5)
    told = client.responses.create(
        model=PLAIN,
        instructions="You are a pirate.",
        input=[
            {"role": "user", "content": [{"type": "input_text", "text": "Hi"}]},
            {"role": "assistant", "content": "Arr!"},
            {"type": "message", "role": "user", "content": "Hi"},
        ],
        temperature=0,
        max_output_tokens=5,
    )
    assert plain.usage is not None
    assert told.usage is not None
    assert told.usage.input_tokens != plain.usage.input_tokens
    assert told.instructions == "You are a pirate."


def test_a_length_stop_is_incomplete(client: openai.OpenAI) -> None:
    response = client.responses.create(
        model=PLAIN, input="Tell me a long story.", max_output_tokens=16
    )
    assert response.status == "incomplete"
    assert response.incomplete_details is not None
    assert response.incomplete_details.reason == "max_output_tokens"
    assert response.usage is not None
    assert response.usage.output_tokens == 16


def test_a_deleted_response_is_gone(client: openai.OpenAI) -> None:
    response = client.responses.create(model=PLAIN, input="Hi", max_output_tokens=2)
    client.responses.delete(response.id)
    with pytest.raises(openai.NotFoundError):
        client.responses.retrieve(response.id)
    with pytest.raises(openai.NotFoundError):
        client.responses.delete(response.id)


def test_a_running_stream_is_cancelled_from_another_connection(client: openai.OpenAI) -> None:
    stream = client.responses.create(model=PLAIN, input="Tell me a story.", stream=True)
    events = []
    for event in stream:
        events.append(event)
        if len(events) == 8:
            assert events[0].type == "response.created"
            cancelled = client.responses.cancel(events[0].response.id)
            assert cancelled.status == "cancelled"
    last = events[-1]
    assert last.type == "response.incomplete"
    assert last.response.to_dict() == cancelled.to_dict()
    assert cancelled.output_text
    assert client.responses.cancel(cancelled.id).to_dict() == cancelled.to_dict()


def test_an_unknown_model_is_a_404_that_programs_understand(client: openai.OpenAI) -> None:
    for call in (
        partial(client.responses.create, model="nope", input="Hi"),
        partial(client.models.retrieve, "nope"),
    ):
        with pytest.raises(openai.NotFoundError) as error:
            call()
        assert (error.value.code, error.value.param) == ("model_not_found", "model")


def test_a_prompt_beyond_the_context_is_refused_before_a_stream_opens(v1: openai.OpenAI) -> None:
    with pytest.raises(openai.BadRequestError) as error:
        v1.responses.create(model=PLAIN, input="hi " * 9000, stream=True)
    assert error.value.code == "context_length_exceeded"


def test_eight_streams_over_both_models_give_the_texts_of_solo_runs(v1: openai.OpenAI) -> None:
    texts = ["Say hello.", CAPITAL, "Name three colours 🎨.", "def fibonacci(n):"]
    asked = [(model, text, 24) for model in (PLAIN, TOOLS) for text in texts]
    solo = [read_stream(v1, *one) for one in asked]
    with ThreadPoolExecutor(8) as pool:
        together = list(pool.map(lambda one: read_stream(v1, *one), asked))
    assert together == solo


def test_a_seed_repeats_a_text_and_a_stop_string_ends_it(v1: openai.OpenAI) -> None:
    def ask(**more: object) -> str:
        return v1.responses.create(
            model=PLAIN,
            input="Name three colours.",
            temperature=1.0,
            max_output_tokens=24,
            extra_body={"seed": 2**63 - 1, "frequency_penalty": 0.5, "top_k": 50, **more},
        ).output_text

    text = ask()
    assert ask() == text
    assert ask(seed=-5) != text
    assert ask(stop=["~never~", text[8:12]]) == text[: text.index(text[8:12])]
