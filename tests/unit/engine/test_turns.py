"""Turns are joined for the templates that demand it, and spelled as templates read them."""

from typing import Any

import pytest

from engine.turns import TemplateTraits, arrange, to_template_turns
from engine.types import ChatMessage, Media, ToolCall

ALTERNATING = TemplateTraits(
    takes_late_system=False, merged_roles=frozenset({"system", "user", "assistant"})
)
CALL = ToolCall("call_1", "now", '{"zone": "é"}')
PICTURE = Media("image", "https://x.test/a.png", "low")


def system(text: str) -> ChatMessage:
    return ChatMessage("system", text)


def user(*parts: str | Media) -> ChatMessage:
    return ChatMessage("user", parts[0] if parts == (str(parts[0]),) else parts)


def assistant(text: str, **more: Any) -> ChatMessage:
    return ChatMessage("assistant", text, **more)


def tool(text: str, call_id: str = "call_1") -> ChatMessage:
    return ChatMessage("tool", text, call_id=call_id)


def test_a_template_that_takes_all_gets_all_as_it_is() -> None:
    turns = [system("a"), system("b"), user("c"), user("d"), system("e"), tool("f"), tool("g")]
    assert arrange(turns, TemplateTraits()) == turns


@pytest.mark.parametrize(
    ("turns", "arranged"),
    [
        (
            [system("a"), user("b"), assistant("c"), system("d"), user("e")],
            [system("a\n\nd"), user("b"), assistant("c"), user("e")],
        ),
        ([user("a"), system("b"), user("c")], [system("b"), user("a\n\nc")]),
        ([system("a"), system("b"), user("c")], [system("a\n\nb"), user("c")]),
        ([user("a"), assistant("b"), assistant("c")], [user("a"), assistant("b\n\nc")]),
        ([user(""), user("a"), user("")], [user("a")]),
    ],
)
def test_what_a_template_does_not_take_is_joined(
    turns: list[ChatMessage], arranged: list[ChatMessage]
) -> None:
    assert arrange(turns, ALTERNATING) == arranged


def test_two_system_turns_in_front_stay_where_only_late_ones_must_go() -> None:
    traits = TemplateTraits(takes_late_system=False)
    early = [system("a"), system("b"), user("c")]
    assert arrange(early, traits) == early
    assert arrange([*early, system("d")], traits) == [system("a\n\nb\n\nd"), user("c")]


def test_a_template_without_a_system_turn_hears_it_from_the_user() -> None:
    traits = TemplateTraits(False, False, False, frozenset({"user"}))
    turns = [system("a"), user("b"), assistant("c"), system("d")]
    assert arrange(turns, traits) == [user("a\n\nd\n\nb"), assistant("c")]
    assert arrange([system("a"), system("b")], traits) == [user("a\n\nb")]


def test_a_system_turn_alone_is_the_users_where_a_template_waits_for_one() -> None:
    traits = TemplateTraits(takes_lone_system=False, merged_roles=frozenset({"system", "user"}))
    assert arrange([system("a"), system("b")], traits) == [user("a\n\nb")]
    assert arrange([system("a"), user("b")], traits) == [system("a"), user("b")]


def test_joined_turns_keep_what_was_thought_called_and_shown() -> None:
    other = ToolCall("call_2", "later", "{}")
    first = assistant("", reasoning="why", tool_calls=(CALL,))
    second = assistant("b", reasoning="how", tool_calls=(other,))
    arranged = arrange(
        [user(PICTURE), user("a"), first, second, assistant("c"), tool("x"), tool("y", "call_2")],
        ALTERNATING,
    )
    assert arranged == [
        user(PICTURE, "\n\n", "a"),
        assistant("b\n\nc", reasoning="why\n\nhow", tool_calls=(CALL, other)),
        tool("x"),
        tool("y", "call_2"),
    ]


def test_turns_are_spelled_as_openai_and_the_templates_spell_them() -> None:
    calling = assistant("", reasoning="hm", tool_calls=(CALL,))
    assert to_template_turns([system("s"), user("a", "b"), calling, tool("12")]) == [
        {"role": "system", "content": "s"},
        {"role": "user", "content": "a\nb"},
        {
            "role": "assistant",
            "content": "",
            "reasoning": "hm",
            "reasoning_content": "hm",
            "tool_calls": [
                {
                    "id": "call_1",
                    "type": "function",
                    "function": {"name": "now", "arguments": {"zone": "é"}},
                }
            ],
        },
        {"role": "tool", "content": "12", "tool_call_id": "call_1", "name": "now"},
    ]


def test_media_are_content_parts_in_their_place() -> None:
    parts = ("see", PICTURE, Media("video", "v.mp4"), Media("audio", "UklGRg==", "wav"))
    [turn] = to_template_turns([user(*parts)])
    assert turn["content"] == [
        {"type": "text", "text": "see"},
        {"type": "image_url", "image_url": {"url": "https://x.test/a.png", "detail": "low"}},
        {"type": "video_url", "video_url": {"url": "v.mp4"}},
        {"type": "input_audio", "input_audio": {"data": "UklGRg==", "format": "wav"}},
    ]


def test_a_result_has_the_name_of_the_latest_call_before_it() -> None:
    again = ToolCall("call_1", "later", "{}")
    first, second = assistant("", tool_calls=(CALL,)), assistant("", tool_calls=(again,))
    turns = to_template_turns([tool("0"), first, tool("1"), second, tool("2"), tool("3", "none")])
    assert [turn.get("name") for turn in turns if turn["role"] == "tool"] == [
        *(None, "now"),
        *("later", None),
    ]


@pytest.mark.parametrize(
    "text",
    [
        *("", "{", "[1]", '"a"', "null", "7", '{"a": NaN}', '{"a": 1e999}', '{"a": "\\ud800"}'),
        '{"a": ' + "9" * 5000 + "}",
        "[" * 100_000,
        '{"a":' * 100_000,
    ],
    ids=lambda text: text[:12],
)
def test_arguments_that_are_no_object_to_be_written_again_stay_text(text: str) -> None:
    [turn] = to_template_turns([assistant("", tool_calls=(ToolCall("c", "f", text),))])
    assert turn["tool_calls"][0]["function"]["arguments"] == text
