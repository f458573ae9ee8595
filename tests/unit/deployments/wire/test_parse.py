"""Bytes become a JSON object or an error that a caller can act on."""

from typing import Any

import pytest
from pydantic import BaseModel, TypeAdapter, ValidationError

from deployments.errors import InvalidRequestError
from deployments.wire.content import Content, UrlOrText
from deployments.wire.parse import (
    MAX_BRACKETS,
    MAX_SEARCHED_BYTES,
    parse_json_object,
    parse_model,
    to_path,
    to_request_error,
)
from deployments.wire.tools import ToolChoice

MALFORMED = {
    "nothing": b"",
    "a blank": b" \n",
    "text": b"Hi",
    "deep arrays": b"[" * 100_000,
    "deep objects": b'{"a":' * 100_000,
    "deep and closed": b'{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    "a lone high surrogate": rb'{"input":"\ud83d"}',
    "a lone low surrogate": rb'{"input":"\ude00"}',
    "a surrogate as UTF-8": b'{"input":"\xed\xa0\xbd"}',
    "invalid UTF-8": b'{"input":"\xff"}',
    "UTF-16": '{"input":"Hi"}'.encode("utf-16"),
    "a byte order mark": b'\xef\xbb\xbf{"input":"Hi"}',
    "an integer of 5000 digits": b'{"max_output_tokens":' + b"9" * 5000 + b"}",
    "a control character": b'{"input":"\x01"}',
    "a trailing comma": b'{"input":"Hi",}',
    "two values": b"{}{}",
    "single quotes": b"{'input':'Hi'}",
    "cut off": b'{"input":"H',
}
NO_OBJECT = [b"[]", b"null", b"1", b"1e400", b"true", b'"text"', b'[{"input":"Hi"}]']


@pytest.mark.parametrize("body", MALFORMED.values(), ids=list(MALFORMED))
def test_what_is_no_json_is_refused(body: bytes) -> None:
    with pytest.raises(InvalidRequestError) as caught:
        parse_json_object(body)
    assert (caught.value.param, caught.value.code) == (None, "invalid_json")
    assert caught.value.message.startswith("The body is no valid JSON: ")
    assert len(caught.value.message) < 200


@pytest.mark.parametrize(
    ("body", "param"),
    [
        (b'{"a":NaN}', "a"),
        (b'{"a":[1.5,{"b":-Infinity}],"c":NaN}', "a[1].b"),
        (b'{"a":1e999,"b":NaN}', "a"),
        (b'{"":Infinity}', ""),
        (b'{"<text>":[NaN]}', "<text>[0]"),
        (b'{"' + b"k" * 300 + b'":NaN}', "k" * 256),
    ],
)
def test_a_number_that_is_no_json_is_named_by_its_place(body: bytes, param: str) -> None:
    with pytest.raises(InvalidRequestError) as caught:
        parse_json_object(body)
    assert (caught.value.param, caught.value.code) == (param, "invalid_value")


def test_a_long_body_is_not_searched_for_such_numbers() -> None:
    body = b'{"a":[' + b"[]," * (MAX_SEARCHED_BYTES // 3) + b"NaN]}"
    with pytest.raises(InvalidRequestError) as caught:
        parse_json_object(body)
    assert (caught.value.param, caught.value.code) == (None, "invalid_json")


@pytest.mark.parametrize("body", [b"[NaN]", b"NaN"])
def test_an_array_with_such_a_number_is_no_object_either(body: bytes) -> None:
    with pytest.raises(InvalidRequestError):
        parse_json_object(body)


@pytest.mark.parametrize("body", NO_OBJECT, ids=bytes.decode)
def test_what_is_no_object_is_refused(body: bytes) -> None:
    with pytest.raises(InvalidRequestError) as caught:
        parse_json_object(body)
    assert vars(caught.value) == {
        "message": "The body must be a JSON object.",
        "param": None,
        "code": "invalid_type",
    }


@pytest.mark.parametrize(
    ("body", "value"),
    [
        (b" {} \r\n", {}),
        (b'{"a":1,"b":[],"a":2}', {"a": 2, "b": []}),
        (rb'{"a":"\ud83d\ude00\u0000"}', {"a": "😀\x00"}),
        ('{"é":"\u2028"}'.encode(), {"é": "\u2028"}),
        (b'{"a":9223372036854775808}', {"a": 2**63}),
        (b'{"a":[[[[[[[[]]]]]]]]}', {"a": [[[[[[[[]]]]]]]]}),
    ],
    ids=["blanks", "the last of two keys", "escapes", "UTF-8", "2**63", "arrays in arrays"],
)
def test_json_is_read_as_it_is_meant(body: bytes, value: dict[str, Any]) -> None:
    assert parse_json_object(body) == value


class Inner(BaseModel):
    size: int


class Outer(BaseModel):
    inner: list[Inner]


class Unions(BaseModel):
    inner: list[Inner] = []
    part: Content = ""
    url: UrlOrText = "x"
    choice: ToolChoice = "auto"


@pytest.mark.parametrize(
    ("value", "error"),
    [
        (
            {},
            InvalidRequestError(
                "Missing required parameter: 'inner'.", "inner", "missing_required_parameter"
            ),
        ),
        (
            {"inner": [{"size": 1}, {"size": []}]},
            InvalidRequestError(
                "Invalid value for 'inner[1].size': Input should be a valid integer.",
                "inner[1].size",
                "invalid_type",
            ),
        ),
        (
            {"inner": [{"size": "x"}, {"size": "y"}]},
            InvalidRequestError(
                "Invalid value for 'inner[0].size': Input should be a valid integer, unable to "
                "parse string as an integer.",
                "inner[0].size",
                "invalid_value",
            ),
        ),
    ],
    ids=["missing", "type", "the first of two"],
)
def test_a_fault_is_told_with_its_place(value: dict[str, Any], error: InvalidRequestError) -> None:
    with pytest.raises(InvalidRequestError) as caught:
        parse_model(Outer, value)
    assert vars(caught.value) == vars(error)


def test_the_value_at_fault_is_not_repeated() -> None:
    with pytest.raises(ValidationError) as caught:
        TypeAdapter(dict[str, int]).validate_python({"a": "secret"})
    assert "secret" not in to_request_error(caught.value, {"a": "secret"}).message


LONG = "t" * 10_000_000


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"inner": 1}, "Invalid value for 'inner': Input should be an array."),
        ({"inner": [1]}, "Invalid value for 'inner[0]': Input should be an object."),
        ({"part": 1}, "Invalid value for 'part': Input should be a string or an array."),
        ({"url": 1}, "Invalid value for 'url': Input should be a string or an object."),
        ({"choice": 1}, "Invalid value for 'choice': Input should be a string or an object."),
        ({"choice": {}}, "Missing required parameter: 'choice.type'."),
        (
            {"choice": {"type": []}},
            "Invalid value for 'choice.type': Input should be a valid string.",
        ),
        (
            {"choice": {"type": "word"}},
            "Invalid value for 'choice.type': '<word>' is not supported; it may be 'function', "
            "'allowed_tools'.",
        ),
        (
            {"choice": {"type": "<no object>"}},
            "Invalid value for 'choice.type': '<no object>' is not supported; it may be "
            "'function', 'allowed_tools'.",
        ),
        (
            {"choice": {"type": LONG}},
            f"Invalid value for 'choice.type': '{LONG[:64]}' is not supported; it may be "
            "'function', 'allowed_tools'.",
        ),
        (
            {"choice": {"type": "allowed_tools", "tools": []}},
            "Invalid value for 'choice.tools': it must have at least 1 element.",
        ),
        (
            {"part": [{"type": "text", "text": ""}] * 10_001},
            "Invalid value for 'part': it has 10001 elements; 10000 are the most.",
        ),
    ],
    ids=lambda value: str(value)[:40],
)
def test_a_fault_is_told_in_words_of_json(value: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidRequestError) as caught:
        parse_model(Unions, value)
    assert caught.value.message == message


NESTED = {"choice": {"type": "function", "function": {"name": {}}}}
HOSTILE = {"<text>": {"[key]": 1}, "type": "<text>"}


@pytest.mark.parametrize(
    ("place", "value", "path"),
    [
        ((), None, ""),
        (("input",), {}, "input"),
        (("input", 3, "content", 0, "type"), {}, "input[3].content[0].type"),
        (("input", "<array>", 3, "content", "<text>"), {"input": []}, "input[3].content"),
        (("metadata", "key", "[key]"), {"metadata": {"key": 1}}, "metadata.key"),
        ((0, 1), [[]], "[0][1]"),
        (("<text>", "[key]"), HOSTILE, "<text>.[key]"),
        (("<b>", "x"), {}, "x"),
        (("<b", "b>", "c"), {}, "<b.b>.c"),
        (("choice", "<function>", "name"), NESTED, "choice.function.name"),
        (("choice", "<function>", "type"), NESTED, "choice.type"),
        (("choice", "<function>", "x"), {"choice": {"type": "a", "a": 1}}, "choice.x"),
        (("choice", "<function>", "x"), {"choice": {"type": []}}, "choice.x"),
    ],
)
def test_a_place_is_spelled_as_a_path(place: tuple[int | str, ...], value: Any, path: str) -> None:
    assert to_path(place, value) == path


def test_more_brackets_than_any_request_needs_are_refused_unread() -> None:
    with pytest.raises(InvalidRequestError, match="opening brackets"):
        parse_json_object(b'{"a":[' + b"{}," * MAX_BRACKETS)
