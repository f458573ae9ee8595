"""The turns of a conversation in the order and the form that a chat template takes. Pure.

Templates differ in which turns they take: some raise on a system turn that comes late or on two
turns of one role, others leave them out without a word. Nothing that was said may be lost, so such
turns are joined, and only for the templates that demand it.
"""

import json
from collections.abc import Sequence, Set
from dataclasses import dataclass, replace
from itertools import dropwhile, groupby
from typing import Any

from engine.types import ChatMessage, Media, Role, ToolCall

BLANK_LINE = "\n\n"

Content = str | tuple[str | Media, ...]


@dataclass(frozen=True, slots=True)
class TemplateTraits:
    """Which turns a template takes. The defaults are those of ChatML, which takes all."""

    takes_system: bool = True
    takes_lone_system: bool = True
    """A conversation of system turns alone."""
    takes_late_system: bool = True
    """System turns after another one."""
    merged_roles: frozenset[Role] = frozenset()
    """Of which no two turns may follow each other."""


def arrange(messages: Sequence[ChatMessage], traits: TemplateTraits) -> list[ChatMessage]:
    """The turns such that a template with these traits takes them."""
    turns = list(messages)
    if not traits.takes_late_system:
        turns = fold_late_systems(turns)
    is_lone = all(turn.role == "system" for turn in turns)
    if not (traits.takes_lone_system if is_lone else traits.takes_system):
        turns = [replace(t, role="user") if t.role == "system" else t for t in turns]
    return merge_neighbours(turns, traits.merged_roles)


def fold_late_systems(turns: list[ChatMessage]) -> list[ChatMessage]:
    """One system turn in front that says what all do, where any comes late."""
    after_first = dropwhile(lambda turn: turn.role == "system", turns)
    if all(turn.role != "system" for turn in after_first):
        return turns
    systems = [turn for turn in turns if turn.role == "system"]
    others = [turn for turn in turns if turn.role != "system"]
    return [*merge_neighbours(systems, {"system"}), *others]


def merge_neighbours(turns: list[ChatMessage], roles: Set[Role]) -> list[ChatMessage]:
    """Turns of these roles joined with those beside them that are of the same role."""
    merged: list[ChatMessage] = []
    for role, group in groupby(turns, key=lambda turn: turn.role):
        neighbours = list(group)
        is_joined = role in roles and len(neighbours) > 1
        merged += [join_turns(neighbours)] if is_joined else neighbours
    return merged


def join_turns(turns: Sequence[ChatMessage]) -> ChatMessage:
    """One turn that says what several of one role do, with a blank line between their texts.

    All at once: one by one, each would copy what those before it said.
    """
    reasonings = [turn.reasoning for turn in turns if turn.reasoning is not None]
    return ChatMessage(
        role=turns[0].role,
        content=join_contents([turn.content for turn in turns]),
        reasoning=BLANK_LINE.join(reasonings) if reasonings else None,
        tool_calls=tuple(call for turn in turns for call in turn.tool_calls),
    )


def join_contents(contents: Sequence[Content]) -> Content:
    said = [content for content in contents if content]
    texts = [content for content in said if isinstance(content, str)]
    if len(texts) == len(said):
        return BLANK_LINE.join(texts)
    parts = [part for content in said for part in (BLANK_LINE, *to_parts(content))]
    return tuple(parts[1:])


def to_parts(content: Content) -> tuple[str | Media, ...]:
    return (content,) if isinstance(content, str) else content


def to_template_turns(messages: Sequence[ChatMessage]) -> list[dict[str, Any]]:
    """The turns as templates read them: OpenAI's chat messages, and what others have added.

    A tool's turn has the name of the call that it answers: the latest before it with its id.
    """
    names: dict[str, str] = {}
    turns = []
    for message in messages:
        names.update((call.call_id, call.name) for call in message.tool_calls)
        turn: dict[str, Any] = {"role": message.role, "content": to_content(message.content)}
        if message.reasoning is not None:
            turn["reasoning"] = turn["reasoning_content"] = message.reasoning
        if message.tool_calls:
            turn["tool_calls"] = [to_template_call(call) for call in message.tool_calls]
        if message.call_id is not None:
            turn["tool_call_id"] = message.call_id
            if message.call_id in names:
                turn["name"] = names[message.call_id]
        turns.append(turn)
    return turns


def to_content(content: Content) -> str | list[dict[str, Any]]:
    """A text, or where there is more than text a list of OpenAI's content parts."""
    texts = [part for part in to_parts(content) if isinstance(part, str)]
    if len(texts) == len(to_parts(content)):
        return "\n".join(texts)
    return [to_content_part(part) for part in content]


def to_content_part(part: str | Media) -> dict[str, Any]:
    if isinstance(part, str):
        return {"type": "text", "text": part}
    match part.kind:
        case "image":
            detail = {} if part.detail is None else {"detail": part.detail}
            return {"type": "image_url", "image_url": {"url": part.source, **detail}}
        case "video":
            return {"type": "video_url", "video_url": {"url": part.source}}
        case "audio":
            sound = {"data": part.source, "format": part.detail}
            return {"type": "input_audio", "input_audio": sound}


def to_template_call(call: ToolCall) -> dict[str, Any]:
    function = {"name": call.name, "arguments": read_arguments(call.arguments)}
    return {"id": call.call_id, "type": "function", "function": function}


def read_arguments(text: str) -> dict[str, Any] | str:
    """The object that a JSON text holds, the text where it is none that can be written again.

    Models write such texts, and a template may write the object back: without a number that is
    none, and without half a character, which no tokenizer takes.
    """
    try:
        arguments = json.loads(text)
        json.dumps(arguments, allow_nan=False, ensure_ascii=False).encode()
    except (ValueError, RecursionError):
        return text
    return arguments if isinstance(arguments, dict) else text
