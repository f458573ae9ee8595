"""Our ChatML template: plain chats as SmolLM2's own renders them, and tools in the Hermes style."""

import json
from typing import Any

import pytest
from jinja2.sandbox import ImmutableSandboxedEnvironment

from configs.paths import REPOSITORY

OURS = (REPOSITORY / "configs/templates/chatml-hermes-tools.jinja").read_text()
SMOLLM2 = (
    "{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}"
    "{{ '<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face"
    "<|im_end|>\n' }}{% endif %}{{'<|im_start|>' + message['role'] + '\n' + message['content'] + "
    "'<|im_end|>' + '\n'}}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}"
    "{% endif %}"
)
SYSTEM = {"role": "system", "content": "Be brief."}
USER = {"role": "user", "content": "What <b>time</b> is it?"}
ANSWER = {"role": "assistant", "content": "Noon."}
CALL = {"id": "call_1", "type": "function", "function": {"name": "now", "arguments": {"at": "é"}}}
TOOL = {"type": "function", "function": {"name": "now", "parameters": {"type": "object"}}}


def render(source: str, messages: list[dict[str, Any]], trim: bool = True, **more: Any) -> str:
    """Render as transformers does: it trims blocks, and its `tojson` escapes no HTML."""
    environment = ImmutableSandboxedEnvironment(trim_blocks=trim, lstrip_blocks=trim)
    environment.filters["tojson"] = lambda value: json.dumps(value, ensure_ascii=False)
    return environment.from_string(source).render(messages=messages, **more)


@pytest.mark.parametrize("tools", [None, []])
@pytest.mark.parametrize("add_generation_prompt", [True, False])
@pytest.mark.parametrize(
    "messages",
    [[], [USER], [SYSTEM], [SYSTEM, USER], [USER, ANSWER, USER], [USER, SYSTEM, USER, ANSWER]],
)
def test_a_chat_without_tools_is_what_smollm2s_own_template_gives(
    messages: list[dict[str, Any]], add_generation_prompt: bool, tools: list[Any] | None
) -> None:
    given: dict[str, Any] = {"tools": tools, "add_generation_prompt": add_generation_prompt}
    assert render(OURS, messages, **given) == render(SMOLLM2, messages, **given)


def test_tools_stand_in_the_system_turn_as_json_one_a_line() -> None:
    other = {"type": "function", "function": {"name": "later", "description": "a & b"}}
    prompt = render(OURS, [SYSTEM, USER], tools=[TOOL, other], add_generation_prompt=True)
    system, user = prompt.split("<|im_end|>\n", 1)
    assert system.startswith("<|im_start|>system\nBe brief.\n\nYou can call functions.")
    listing = system.split("\n<tools>\n")[1].split("\n</tools>")[0]
    assert [json.loads(line) for line in listing.splitlines()] == [TOOL, other]
    assert '<tool_call>\n{"name": ' in system
    assert user == "<|im_start|>user\nWhat <b>time</b> is it?<|im_end|>\n<|im_start|>assistant\n"


def test_tools_without_a_system_message_follow_the_default_one() -> None:
    prompt = render(OURS, [USER], tools=[TOOL])
    assert prompt.startswith(
        "<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face"
        "\n\nYou can call functions."
    )
    assert prompt.count("<|im_start|>system") == 1


def test_calls_are_rendered_as_the_model_writes_them() -> None:
    second = {"function": {"name": 'a"b', "arguments": '{"raw": 1}'}}
    calling = {"role": "assistant", "content": "Let me see.", "tool_calls": [CALL, second]}
    assert render(OURS, [SYSTEM, calling]).split("<|im_end|>\n")[1] == (
        "<|im_start|>assistant\nLet me see.\n"
        '<tool_call>\n{"name": "now", "arguments": {"at": "é"}}\n</tool_call>\n'
        '<tool_call>\n{"name": "a\\"b", "arguments": {"raw": 1}}\n</tool_call>'
    )


@pytest.mark.parametrize("content", [None, ""])
def test_a_call_without_text_begins_its_turn(content: str | None) -> None:
    calling = {"role": "assistant", "content": content, "tool_calls": [CALL]}
    turn = render(OURS, [SYSTEM, calling]).split("<|im_end|>\n")[1]
    assert turn.startswith("<|im_start|>assistant\n<tool_call>\n")


def test_results_of_one_round_share_a_user_turn() -> None:
    calling = {"role": "assistant", "content": None, "tool_calls": [CALL, CALL]}
    results = [{"role": "tool", "content": "12:00"}, {"role": "tool", "content": "13:00"}]
    prompt = render(OURS, [USER, calling, *results, ANSWER, *results[:1]], tools=[TOOL])
    assert prompt.endswith(
        "</tool_call><|im_end|>\n"
        "<|im_start|>user\n<tool_response>\n12:00\n</tool_response>\n"
        "<tool_response>\n13:00\n</tool_response><|im_end|>\n"
        "<|im_start|>assistant\nNoon.<|im_end|>\n"
        "<|im_start|>user\n<tool_response>\n12:00\n</tool_response><|im_end|>\n"
    )


def test_the_result_does_not_depend_on_how_jinja_treats_blanks() -> None:
    calling = {"role": "assistant", "content": "x", "tool_calls": [CALL]}
    messages: list[dict[str, Any]] = [USER, calling, {"role": "tool", "content": "12:00"}, ANSWER]
    given: dict[str, Any] = {"tools": [TOOL], "add_generation_prompt": True}
    assert render(OURS, messages, trim=True, **given) == render(OURS, messages, trim=False, **given)
