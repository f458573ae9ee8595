"""Of a request only what can be honoured is accepted; the rest is refused by name."""

from typing import Any

import pytest
from openai.types.responses.response_create_params import ResponseCreateParamsBase
from pydantic import ValidationError

from deployments.errors import InvalidRequestError
from deployments.wire.base import NOT_SERVED_ANYWHERE, OTHER_NAMES_ANYWHERE, check_served
from deployments.wire.parse import parse_model
from deployments.wire.responses_request import (
    INNER_WITHOUT_EFFECT,
    NOT_SERVED,
    OTHER_NAMES,
    WITHOUT_EFFECT,
    CreateResponse,
    list_ignored,
)
from deployments.wire.tools import refuse_other_tools
from tests.support.bad_requests import (
    GOOD,
    GOOD_NUMBERS,
    NOT_NEUTRAL,
    REDIRECTED,
    name_changes,
)
from tests.support.spots import SPOTS

OPTIONAL = sorted(CreateResponse.model_fields.keys() - {"model"})
NEUTRAL = [
    (key, value)
    for key, values in {**NOT_SERVED_ANYWHERE, **NOT_SERVED}.items()
    for value in (*values, None)
]
AT_THE_EDGE: list[dict[str, Any]] = [
    *GOOD_NUMBERS,
    {"stop": "\n"},
    {"stop": ["s" * 1000] * 16},
    {"stop": []},
    {"logit_bias": {}},
    {"logit_bias": {"0": -100, "999999999": 100}},
    {"logit_bias": {str(n): 0 for n in range(1024)}},
    {"metadata": {}},
    {"metadata": {f"{n:064}": "v" * 512 for n in range(16)}},
    {"metadata": {"<text>": "<array>"}},
    {"model": "org/name:q4 🙂"},
    {"model": "m" * 256},
    {"previous_response_id": "r" * 512},
    {"conversation": "c" * 512},
    {"store": False, "stream": True, "parallel_tool_calls": False},
    {"tool_choice": "none"},
    {"include": []},
    {"include": ["message.output_text.logprobs"] * 16},
    {"stream_options": {}},
    {"input": []},
    {"input": ""},
    {"input": "a" * 10_000_000},
]


def parse(body: dict[str, Any]) -> CreateResponse:
    refuse_other_tools(body)
    request = parse_model(CreateResponse, body)
    check_served(body, OTHER_NAMES, NOT_SERVED)
    return request


def test_a_request_without_a_model_is_refused() -> None:
    with pytest.raises(InvalidRequestError) as caught:
        parse({"input": "Hi"})
    assert (caught.value.param, caught.value.code) == ("model", "missing_required_parameter")


def test_infinity_which_json_can_spell_is_in_no_range() -> None:
    with pytest.raises(InvalidRequestError) as caught:
        parse({**GOOD, "temperature": float("inf")})
    assert caught.value.param == "temperature"


@pytest.mark.parametrize("field", OPTIONAL)
def test_null_is_the_same_as_absent(field: str) -> None:
    body = {key: value for key, value in GOOD.items() if key != field}
    assert parse({**body, field: None}) == parse(body)


@pytest.mark.parametrize("changes", AT_THE_EDGE, ids=name_changes)
def test_the_edges_of_a_range_belong_to_it(changes: dict[str, Any]) -> None:
    request = parse({**GOOD, **changes})
    assert {key: getattr(request, key) for key in changes} == changes


def test_keys_that_nobody_knows_are_ignored() -> None:
    assert parse({**GOOD, "colour": "red", "": [1]}) == parse(GOOD)


@pytest.mark.parametrize(("key", "right"), REDIRECTED.items())
def test_a_key_of_another_route_is_refused_with_the_right_one(key: str, right: str) -> None:
    with pytest.raises(InvalidRequestError) as caught:
        parse({**GOOD, key: "x"})
    assert caught.value.message == (
        f"Unknown parameter: '{key}'. On this route it is called '{right}'."
    )


def test_the_examples_are_all_keys_that_are_refused() -> None:
    assert REDIRECTED == {**OTHER_NAMES_ANYWHERE, **OTHER_NAMES}
    assert set(NOT_NEUTRAL) == {*NOT_SERVED_ANYWHERE, *NOT_SERVED}


def test_every_model_inside_a_request_is_tried_with_bad_values() -> None:
    models = CreateResponse.model_json_schema()["$defs"]
    assert {spot.model.__name__ for spot in SPOTS} == models.keys() - {"FilePart"}


MANY = 100_000


@pytest.mark.parametrize(
    "changes",
    [
        {"input": [1] * MANY},
        {"input": [{"role": "user", "content": [1] * MANY}]},
        {"input": [{"role": "user", "content": [1] * 9_000}] * 5},
        {"input": [{"role": "user", "content": [1] * 9_000}] * 100},
        {"input": [{"type": "function_call_output", "call_id": "c", "output": [1] * MANY}]},
        {"input": [{"type": "reasoning", "content": [1] * MANY}]},
        {"input": [{"type": "reasoning", "summary": [1] * MANY}]},
        {"metadata": dict.fromkeys(map(str, range(MANY)), 1)},
        {"logit_bias": dict.fromkeys(map(str, range(MANY)), "1")},
        {"stop": [1] * MANY},
        {"include": [1] * MANY},
        {"tools": [1] * MANY},
        {"tool_choice": {"type": "allowed_tools", "tools": [1] * MANY}},
    ],
    ids=name_changes,
)
def test_of_many_faults_only_the_first_is_looked_for(changes: dict[str, Any]) -> None:
    with pytest.raises(ValidationError) as caught:
        CreateResponse.model_validate({**GOOD, **changes})
    assert caught.value.error_count() == 1


@pytest.mark.parametrize(("key", "value"), [*NEUTRAL, *((key, None) for key in REDIRECTED)])
def test_a_value_that_changes_nothing_is_accepted(key: str, value: object) -> None:
    assert parse({**GOOD, key: value}) == parse(GOOD)


def test_a_neutral_number_is_neutral_in_every_spelling() -> None:
    assert parse({**GOOD, "n": 1.0}) == parse(GOOD)


@pytest.mark.parametrize(
    ("sent", "number"),
    [
        ({}, None),
        ({"include": []}, None),
        ({"top_logprobs": 0}, None),
        ({"top_logprobs": 20}, 20),
        ({"include": ["message.output_text.logprobs"]}, 0),
        ({"include": ["message.output_text.logprobs"], "top_logprobs": 3}, 3),
        ({"include": ["reasoning.encrypted_content"], "top_logprobs": 0}, None),
    ],
)
def test_log_probabilities_are_asked_for_in_two_ways(
    sent: dict[str, Any], number: int | None
) -> None:
    assert parse({**GOOD, **sent}).num_logprobs == number


@pytest.mark.parametrize(
    ("sent", "conversation_id"),
    [({}, None), ({"conversation": "c"}, "c"), ({"conversation": {"id": "c", "more": 1}}, "c")],
)
def test_a_conversation_has_two_spellings(
    sent: dict[str, Any], conversation_id: str | None
) -> None:
    assert parse({**GOOD, **sent}).conversation_id == conversation_id


@pytest.mark.parametrize("conversation", ["conv_1", {"id": "conv_1"}])
def test_a_response_goes_on_from_one_thing(conversation: object) -> None:
    both = {"previous_response_id": "resp_1", "conversation": conversation}
    with pytest.raises(InvalidRequestError) as caught:
        parse({**GOOD, **both})
    assert caught.value.message == (
        "Invalid value for 'conversation': it cannot stand beside 'previous_response_id'; "
        "send one of the two."
    )
    for key in both:
        parse({**GOOD, **both, key: None})


def test_what_has_no_effect_is_listed_in_a_fixed_order() -> None:
    body = {
        **GOOD,
        "include": ["reasoning.encrypted_content", "message.output_text.logprobs"],
        "text": {"verbosity": "low", "format": {"type": "text"}},
        "reasoning": dict.fromkeys(INNER_WITHOUT_EFFECT["reasoning"], "auto"),
        "stream_options": {},
        "prompt_cache_options": {},
        **{
            key: "x"
            for key in reversed(WITHOUT_EFFECT)
            if not key.endswith("_options") or key == "background_options"
        },
    }
    parse(body)
    assert list_ignored(body) == [
        "access_programs",
        "background_options",
        "image",
        "service_tier",
        "prompt_cache_key",
        "prompt_cache_options",
        "prompt_cache_retention",
        "stream_options",
        "user",
        "safety_identifier",
        "reasoning.context",
        "reasoning.effort",
        "reasoning.generate_summary",
        "reasoning.mode",
        "reasoning.summary",
        "text.verbosity",
        "include.reasoning.encrypted_content",
    ]


@pytest.mark.parametrize("text", [None, {}, {"verbosity": None}, {"format": {"type": "text"}}])
def test_what_is_absent_or_null_is_not_listed(text: dict[str, Any] | None) -> None:
    body = {**GOOD, **dict.fromkeys(WITHOUT_EFFECT), "text": text, "reasoning": {"effort": None}}
    assert list_ignored({**body, "include": None, "metadata": {"k": "v"}}) == []


KNOWN_TO_CLIENTS = ResponseCreateParamsBase.__annotations__.keys() | {"stream"}


def test_every_field_of_openais_client_is_taken_or_refused() -> None:
    known = {*CreateResponse.model_fields, *NOT_SERVED, *OTHER_NAMES, *WITHOUT_EFFECT}
    assert known >= KNOWN_TO_CLIENTS
