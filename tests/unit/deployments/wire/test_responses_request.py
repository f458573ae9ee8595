"""Of a request only what can be honoured is accepted; the rest is refused by name."""

from typing import Any

import pytest

from deployments.errors import InvalidRequestError
from deployments.wire.parse import parse_model
from deployments.wire.responses_request import (
    NOT_SERVED,
    OTHER_NAMES,
    WITHOUT_EFFECT,
    CreateResponse,
    InputMessage,
    TextPart,
    check_served,
    list_ignored,
)
from tests.support.bad_requests import (
    BAD_REQUESTS,
    GOOD,
    NOT_NEUTRAL,
    REDIRECTED,
    list_good_numbers,
    name_changes,
)

OPTIONAL = sorted(CreateResponse.model_fields.keys() - {"model"})
NEUTRAL = [(key, value) for key, values in NOT_SERVED.items() for value in (*values, None)]
AT_THE_EDGE: list[dict[str, Any]] = [
    *list_good_numbers(),
    {"stop": "\n"},
    {"stop": ["s" * 1000] * 16},
    {"stop": []},
    {"logit_bias": {}},
    {"logit_bias": {"0": -100, "999999999": 100}},
    {"metadata": {}},
    {"metadata": {f"{n:064}": "v" * 512 for n in range(16)}},
    {"model": "org/name:q4 🙂"},
    {"store": False, "stream": True, "parallel_tool_calls": False},
    {"tool_choice": "none"},
    {"input": []},
    {"input": ""},
]


def parse(body: dict[str, Any]) -> CreateResponse:
    request = parse_model(CreateResponse, body)
    check_served(body)
    return request


@pytest.mark.parametrize(("changes", "param", "code"), BAD_REQUESTS, ids=name_changes)
def test_a_bad_request_is_refused_at_its_place(
    changes: dict[str, Any], param: str, code: str
) -> None:
    with pytest.raises(InvalidRequestError) as caught:
        parse({**GOOD, **changes})
    assert (caught.value.param, caught.value.code) == (param, code)
    assert f"'{param}'" in caught.value.message


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
    assert REDIRECTED == OTHER_NAMES
    assert set(NOT_NEUTRAL) == set(NOT_SERVED)


@pytest.mark.parametrize(("key", "value"), [*NEUTRAL, *((key, None) for key in REDIRECTED)])
def test_a_value_that_changes_nothing_is_accepted(key: str, value: object) -> None:
    assert parse({**GOOD, key: value}) == parse(GOOD)


def test_a_neutral_number_is_neutral_in_every_spelling() -> None:
    assert parse({**GOOD, "n": 1.0}) == parse(GOOD)


def test_messages_are_accepted_in_all_their_spellings() -> None:
    request = parse(
        {
            "model": "scripted",
            "input": [
                {"role": "user", "content": "Hi"},
                {"type": "message", "role": "developer", "content": []},
                {
                    "type": "message",
                    "id": "msg_1",
                    "status": "completed",
                    "role": "assistant",
                    "content": [
                        {"type": "output_text", "text": "a", "annotations": [], "logprobs": []},
                        {"type": "input_text", "text": "b"},
                        {"type": "text", "text": "c"},
                    ],
                },
            ],
        }
    )
    parts = [
        TextPart(type="output_text", text="a"),
        TextPart(type="input_text", text="b"),
        TextPart(type="text", text="c"),
    ]
    assert request.input == [
        InputMessage(role="user", content="Hi"),
        InputMessage(type="message", role="developer", content=[]),
        InputMessage(type="message", role="assistant", content=parts),
    ]


def test_what_has_no_effect_is_listed_in_a_fixed_order() -> None:
    sent: dict[str, Any] = {key: {} for key in reversed(WITHOUT_EFFECT)}
    assert list_ignored({**GOOD, "text": {"verbosity": "low"}, **sent, "user": "me"}) == [
        "reasoning",
        "service_tier",
        "prompt_cache_key",
        "max_tool_calls",
        "stream_options",
        "text.verbosity",
    ]


@pytest.mark.parametrize("text", [None, {}, {"verbosity": None}, {"format": {"type": "text"}}])
def test_what_is_absent_or_null_is_not_listed(text: dict[str, Any] | None) -> None:
    assert list_ignored({**GOOD, **dict.fromkeys(WITHOUT_EFFECT), "text": text}) == []
