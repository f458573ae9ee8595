"""Tools, choices and forms are read in the flat and in the nested spelling."""

from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from deployments.errors import InvalidRequestError
from deployments.wire.tools import (
    MAX_DECLARED_CHARACTERS,
    AllowedTools,
    AnswerFormat,
    FunctionChoice,
    FunctionToolField,
    JsonSchemaFormat,
    ToolChoice,
    Tools,
    drop_other_tools,
    list_other_tools,
    refuse_other_tools,
)

SCHEMA = {"type": "object", "required": ["a"], "$defs": {"<x>": {"maximum": 10**40}}}
FIELDS: dict[str, Any] = {"name": "f", "description": "d", "parameters": SCHEMA, "strict": False}
SEARCH, MCP = {"type": "web_search"}, {"type": "mcp", "server_url": "https://x"}
FUNCTION = {"type": "function", "name": "f"}


def parse(kind: Any, value: Any) -> Any:
    return TypeAdapter(kind).validate_python(value)


@pytest.mark.parametrize("nested", [False, True])
def test_a_tool_has_two_spellings(nested: bool) -> None:
    sent = {"function": FIELDS} if nested else FIELDS
    tool = FunctionToolField(type="function", **FIELDS)
    assert parse(Tools, [{"type": "function", **sent}]) == [tool]


@pytest.mark.parametrize("key", ["description", "parameters", "strict"])
def test_null_is_the_same_as_absent(key: str) -> None:
    assert parse(FunctionToolField, {**FUNCTION, key: None}) == parse(FunctionToolField, FUNCTION)


@pytest.mark.parametrize("nested", [{"function": {"name": "f"}}, {"name": "f", "function": None}])
def test_a_choice_of_a_function_has_two_spellings(nested: dict[str, Any]) -> None:
    chosen = FunctionChoice(type="function", name="f")
    assert parse(ToolChoice, {"type": "function", **nested}) == chosen
    assert parse(ToolChoice, FUNCTION) == chosen


@pytest.mark.parametrize("mode", ["none", "auto", "required", None])
def test_allowed_tools_have_two_spellings(mode: Any) -> None:
    fields = {"mode": mode, "tools": [FUNCTION, {"type": "function", "function": {"name": "g"}}]}
    chosen = [FunctionChoice(type="function", name=name) for name in ("f", "g")]
    allowed = AllowedTools(type="allowed_tools", mode=mode, tools=chosen)
    assert parse(ToolChoice, {"type": "allowed_tools", **fields}) == allowed
    assert parse(ToolChoice, {"type": "allowed_tools", "allowed_tools": fields}) == allowed


@pytest.mark.parametrize("name", ["n", "n" * 64, None])
def test_a_schema_has_two_spellings_and_may_have_no_name(name: Any) -> None:
    fields = {"name": name, "schema": SCHEMA, "strict": True}
    form = JsonSchemaFormat(type="json_schema", **fields)
    assert form.schema_ == SCHEMA
    assert parse(AnswerFormat, {"type": "json_schema", **fields}) == form
    assert parse(AnswerFormat, {"type": "json_schema", "json_schema": fields}) == form


@pytest.mark.parametrize("tools", [None, [], {}, "x", [FUNCTION], [1, None, {"type": ["mcp"]}, {}]])
def test_what_is_no_tool_of_another_type_is_left_to_the_parser(tools: Any) -> None:
    body = {"tools": tools}
    refuse_other_tools(body)
    assert list_other_tools(body) == []
    assert drop_other_tools(body) == (body, [])


def test_the_first_tool_of_another_type_is_refused() -> None:
    with pytest.raises(InvalidRequestError) as caught:
        refuse_other_tools({"tools": [FUNCTION, MCP, SEARCH]})
    assert (caught.value.param, caught.value.code) == ("tools[1].type", "unsupported_value")
    assert "'mcp'" in caught.value.message


def test_of_a_long_type_only_the_beginning_is_told() -> None:
    with pytest.raises(InvalidRequestError) as caught:
        refuse_other_tools({"tools": [{"type": "t" * 1_000_000}]})
    assert len(caught.value.message) < 300


def test_tools_of_other_types_are_dropped_by_their_places() -> None:
    body = {"model": "m", "tools": [SEARCH, FUNCTION, MCP, 1]}
    kept, dropped = drop_other_tools(body)
    assert kept == {"model": "m", "tools": [FUNCTION, 1]}
    assert dropped == ["tools[0]", "tools[2]"]
    assert body["tools"] == [SEARCH, FUNCTION, MCP, 1]


def test_more_tools_than_there_may_be_are_not_dropped() -> None:
    assert drop_other_tools({"tools": [SEARCH] * 128})[0] == {"tools": []}
    with pytest.raises(InvalidRequestError) as caught:
        drop_other_tools({"tools": [SEARCH] * 129})
    assert (caught.value.param, caught.value.code) == ("tools", "invalid_value")


@pytest.mark.parametrize("kind", ["description", "parameters"])
@pytest.mark.parametrize("num_tools", [1, 2])
def test_what_is_declared_is_bounded_as_a_whole(kind: str, num_tools: int) -> None:
    def declare(num_characters: int) -> list[dict[str, Any]]:
        text = "d" * (num_characters // num_tools)
        value = text if kind == "description" else {"d": text}
        return [{**FUNCTION, kind: value} for _ in range(num_tools)]

    assert len(parse(Tools, declare(MAX_DECLARED_CHARACTERS - 100))) == num_tools
    with pytest.raises(ValidationError, match="are the most"):
        parse(Tools, declare(MAX_DECLARED_CHARACTERS + 2))


def test_the_schema_of_an_answer_is_bounded() -> None:
    small, large = (
        {"d": "d" * n} for n in (MAX_DECLARED_CHARACTERS - 100, MAX_DECLARED_CHARACTERS)
    )
    assert parse(AnswerFormat, {"type": "json_schema", "schema": small})
    with pytest.raises(ValidationError, match="are the most"):
        parse(AnswerFormat, {"type": "json_schema", "schema": large})
