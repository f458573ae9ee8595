"""Tools and the choice between them: RA's table, and what a model cannot do."""

from dataclasses import replace
from typing import Any

import pytest
from pydantic import TypeAdapter

from deployments.errors import InvalidRequestError
from deployments.translate.tools import (
    ToolUse,
    to_output_format,
    to_shown_tools,
    to_tool_use,
)
from deployments.wire.tools import AnswerFormat, ToolChoice, Tools
from engine.types import FunctionTool, JsonFormat
from tests.support.scripted import CARD
from tests.support.spots import function

PLAIN = replace(CARD, takes_tools=False, can_constrain=False)
F, G = FunctionTool("f"), FunctionTool("g")
BOTH = [function(name="f"), function(name="g")]
ONLY_G = function(name="g")


def allow(*names: str, **changes: Any) -> dict[str, Any]:
    return {"type": "allowed_tools", "tools": [function(name=name) for name in names], **changes}


def use(choice: Any = None, tools: Any = BOTH, parallel: Any = None, limit: Any = None) -> ToolUse:
    declared = None if tools is None else TypeAdapter(Tools).validate_python(tools)
    chosen = None if choice is None else TypeAdapter(ToolChoice).validate_python(choice)
    return to_tool_use(declared, chosen, parallel, limit)


def form(value: Any) -> JsonFormat | None:
    return to_output_format(TypeAdapter(AnswerFormat).validate_python(value))


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        (None, ToolUse((F, G))),
        ("auto", ToolUse((F, G))),
        ("none", ToolUse((), "none")),
        ("required", ToolUse((F, G), "required")),
        (ONLY_G, ToolUse((G,), "named", 1, is_narrowed=True)),
        (allow("g"), ToolUse((G,), "auto", is_narrowed=True)),
        (allow("g", "g", "f"), ToolUse((G, F), "auto", is_narrowed=True)),
        (allow("g", mode="required"), ToolUse((G,), "required", is_narrowed=True)),
        (allow("g", mode="none"), ToolUse((), "none")),
    ],
)
def test_a_choice_says_what_is_shown_and_how_it_is_used(choice: Any, expected: ToolUse) -> None:
    assert use(choice) == expected


@pytest.mark.parametrize(
    ("choice", "parallel", "sent", "limit"),
    [
        (None, None, None, None),
        (None, True, 3, 3),
        (None, False, None, 1),
        ("required", False, 3, 1),
        ("required", None, 3, 3),
        (allow("f"), None, 3, 3),
        (ONLY_G, True, 3, 1),
    ],
)
def test_calls_are_counted(choice: Any, parallel: Any, sent: Any, limit: int | None) -> None:
    assert use(choice, parallel=parallel, limit=sent).max_calls == limit


@pytest.mark.parametrize(
    ("choice", "tools", "why"),
    [
        ("required", None, "it is 'required', but no tools are declared"),
        ("required", [], "it is 'required', but no tools are declared"),
        (ONLY_G, None, "the function 'g' is not among the tools"),
        (ONLY_G, BOTH[:1], "the function 'g' is not among the tools"),
        (allow("f", "g"), BOTH[:1], "the function 'g' is not among the tools"),
    ],
)
def test_a_choice_that_the_tools_cannot_meet_is_refused(choice: Any, tools: Any, why: str) -> None:
    with pytest.raises(InvalidRequestError) as caught:
        use(choice, tools)
    assert vars(caught.value) == {
        "message": f"Invalid value for 'tool_choice': {why}.",
        "param": "tool_choice",
        "code": "invalid_value",
    }


def test_no_two_tools_may_have_one_name() -> None:
    with pytest.raises(InvalidRequestError) as caught:
        use(tools=[*BOTH, function(name="f", description="Another.")])
    assert (caught.value.param, caught.value.code) == ("tools[2]", "invalid_value")


def test_a_tool_is_strict_only_where_it_says_so() -> None:
    tools = [function(name=str(strict), strict=strict) for strict in (None, False, True)]
    assert [tool.is_strict for tool in use(tools=tools).tools] == [False, False, True]


@pytest.mark.parametrize(
    ("sent", "asked"),
    [
        ({"type": "text"}, None),
        ({"type": "json_object"}, JsonFormat()),
        ({"type": "json_schema", "schema": {"a": 1}}, JsonFormat({"a": 1})),
        (
            {"type": "json_schema", "schema": {}, "name": "n", "description": "d", "strict": True},
            JsonFormat({}, "n", "d", is_strict=True),
        ),
    ],
)
def test_a_form_is_json_or_none(sent: Any, asked: JsonFormat | None) -> None:
    assert form(sent) == asked
    assert to_output_format(None) is None


@pytest.mark.parametrize("asked", [JsonFormat(), JsonFormat({})])
@pytest.mark.parametrize("choice", ["required", ONLY_G, allow("f", mode="required")])
def test_a_forced_call_and_a_json_answer_exclude_each_other(choice: Any, asked: Any) -> None:
    with pytest.raises(InvalidRequestError) as caught:
        to_shown_tools(use(choice), asked, CARD, "response_format")
    assert (caught.value.param, caught.value.code) == ("tool_choice", "unsupported_value")
    assert "'response_format'" in caught.value.message


@pytest.mark.parametrize("choice", [None, "none", allow("f")])
def test_a_call_that_is_not_forced_may_stand_beside_json(choice: Any) -> None:
    assert to_shown_tools(use(choice), JsonFormat(), CARD, "text.format") == use(choice)


@pytest.mark.parametrize("choice", [None, "auto", "none"])
def test_a_model_without_tools_is_shown_none(choice: Any) -> None:
    assert to_shown_tools(use(choice), None, PLAIN, "text.format").tools == ()


@pytest.mark.parametrize("choice", ["required", ONLY_G, allow("f")])
def test_a_model_without_tools_cannot_hold_a_choice(choice: Any) -> None:
    with pytest.raises(InvalidRequestError) as caught:
        to_shown_tools(use(choice), None, PLAIN, "text.format")
    assert vars(caught.value) == {
        "message": "This server shows the model 'scripted' no tools, so 'tool_choice' cannot be "
        "held.",
        "param": "tool_choice",
        "code": "unsupported_value",
    }


def test_a_model_that_cannot_be_bound_answers_in_text_alone() -> None:
    with pytest.raises(InvalidRequestError) as caught:
        to_shown_tools(ToolUse(), JsonFormat(), PLAIN, "response_format")
    assert (caught.value.param, caught.value.code) == ("response_format", "unsupported_value")
    assert "'scripted'" in caught.value.message
    assert to_shown_tools(ToolUse(), None, PLAIN, "response_format") == ToolUse()
