"""Bodies of Chat Completions and Completions that are refused, each with the place of its fault."""

from collections.abc import Callable, Mapping
from typing import Any

from pydantic import BaseModel

from deployments.wire.chat_messages import (
    AssistantMessage,
    SentCall,
    SentFunction,
    SystemMessage,
    ToolMessage,
    UserMessage,
)
from deployments.wire.chat_request import (
    ChatCompletionRequest,
    StreamOptions,
)
from deployments.wire.completions_request import CompletionRequest
from tests.support.wrong_values import (
    INVALID,
    MISSING,
    WORDS,
    WRONG_TYPE,
    find_fields,
    list_bad_numbers,
    list_bad_texts,
    list_wrong_types,
)

Json = dict[str, Any]
BadBody = tuple[Json, str, str]
"""Changes to a good body, and the `param` and the `code` of the refusal."""

HI = {"role": "user", "content": "Hi"}
SPOKEN = {"role": "assistant", "content": "Hi"}
ANSWERED = {"role": "tool", "tool_call_id": "call_1", "content": "4"}
GOOD_CHAT: Json = {"model": "scripted", "messages": [HI]}
GOOD_COMPLETION: Json = {"model": "scripted", "prompt": "Hi"}

UNKNOWN = "unknown_parameter"
ALWAYS_REFUSED = ("function_call", "audio")  # whatever they are, but for null
ANYTHING: list[Any] = [0, "text", [1], {"type": "text"}]


def rename(names: Mapping[str, str]) -> list[BadBody]:
    """A value of each kind under a name that another route has."""
    return [({name: value}, name, UNKNOWN) for name in names for value in ANYTHING]


def refuse(values: Mapping[str, list[Any]]) -> list[BadBody]:
    """Values that would change the answer and are not honoured."""
    return [({name: value}, name, WORDS) for name, each in values.items() for value in each]


def work_out(model: type[BaseModel], place: str, put: Callable[[Json], Json]) -> list[BadBody]:
    """Every field of a model with values that it does not take; `put` builds the changes."""
    fields = find_fields(model)
    wrong = [*list_wrong_types(fields), *list_bad_numbers(fields), *list_bad_texts(fields)]
    return [
        (put({name: value}), f"{place}{name}", code)
        for name, value, code in wrong
        if name not in ALWAYS_REFUSED or value is not None
    ]


def say(*messages: Any) -> Json:
    return {"messages": list(messages)}


def part(kind: str, **fields: Any) -> Json:
    """A message of the user with one good part and one more."""
    return {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": kind, **fields}]}


def call(call_id: Any = "call_1", **changes: Any) -> Json:
    function = {"name": "f", "arguments": "{}"}
    return {"id": call_id, "type": "function", "function": function, **changes}


def calling(*calls: Any) -> Json:
    return {"role": "assistant", "tool_calls": list(calls)}


def tool(name: str, **more: Any) -> Json:
    return {"type": "function", "function": {"name": name, **more}}


SHARED: list[BadBody] = [
    ({"stop": ["a", ""]}, "stop[1]", INVALID),
    ({"stop": ["a"] * 17}, "stop", INVALID),
    ({"logit_bias": {"five": 1}}, "logit_bias.five", INVALID),
    ({"logit_bias": {"5": 101}}, "logit_bias.5", INVALID),
    *work_out(StreamOptions, "stream_options.", lambda it: {"stream_options": it}),
    *refuse(
        {
            "n": [2, 0, True, "1"],
            "best_of": [3],
            "echo": [True],
            "suffix": ["end"],
            "guided_json": [{}],
            "min_tokens": [1],
            "previous_response_id": ["resp_1"],
            "conversation": ["conv_1"],
            "background": [True],
            "truncation": ["auto"],
        }
    ),
    *rename({"repeat_penalty": "repetition_penalty", "stop_sequences": "stop"}),
]

CHAT_NAMES = {
    "input": "messages",
    "prompt": "messages",
    "instructions": "messages",
    "max_output_tokens": "max_completion_tokens",
    "max_new_tokens": "max_completion_tokens",
    "n_predict": "max_completion_tokens",
    "text": "response_format",
    "functions": "tools",
    "function_call": "tool_choice",
    "reasoning": "reasoning_effort",
}

MESSAGES: list[BadBody] = [
    (say("Hi"), "messages[0]", WRONG_TYPE),
    (say(HI, None), "messages[1]", WRONG_TYPE),
    (say({"content": "Hi"}), "messages[0].role", MISSING),
    (say({"role": "robot", "content": "Hi"}), "messages[0].role", WORDS),
    (say({"role": "function", "name": "f", "content": "Hi"}), "messages[0].role", WORDS),
    (say({"role": "user"}), "messages[0].content", MISSING),
    (say({"role": "user", "content": ["Hi"]}), "messages[0].content[0]", WRONG_TYPE),
    (say({"role": "user", "content": [{"text": "Hi"}]}), "messages[0].content[0].type", MISSING),
    (say(HI, part("text")), "messages[1].content[1].text", MISSING),
    (say(HI, part("poem", text="")), "messages[1].content[1].type", WORDS),
    (say(HI, part("refusal", refusal="No.")), "messages[1].content[1]", WORDS),
    (say(HI, part("file", file={"file_id": "f"})), "messages[1].content[1]", WORDS),
    (say(HI, part("input_file", file_id="f")), "messages[1].content[1]", WORDS),
    (say(HI, part("input_image", file_id="f")), "messages[1].content[1]", WORDS),
    (say(HI, part("image_url", image_url={})), "messages[1].content[1].image_url.url", MISSING),
    (say(HI, part("image_url", image_url="data:")), "messages[1].content[1]", WORDS),
    (say(HI, part("video_url", video_url="http:")), "messages[1].content[1]", WORDS),
    (say(HI, part("input_audio", input_audio={"data": "AA=="})), "messages[1].content[1]", WORDS),
    (say({"role": "assistant"}), "messages[0].content", MISSING),
    (say({"role": "assistant", "tool_calls": []}), "messages[0].content", MISSING),
    (say({"role": "assistant", "refusal": ""}), "messages[0].content", MISSING),
    (say({**HI, "role": "assistant", "function_call": {}}), "messages[0].function_call", WORDS),
    (say({**HI, "role": "assistant", "audio": {"id": "a"}}), "messages[0].audio", WORDS),
    (say(calling(call(type="custom"))), "messages[0].tool_calls[0].type", WORDS),
    (say(calling({"function": {}})), "messages[0].tool_calls[0].id", MISSING),
    (say(HI, calling(call(), call())), "messages[1].tool_calls[1].id", INVALID),
    (say(HI, calling(call()), calling(call())), "messages[2].tool_calls[0].id", INVALID),
    (say({"role": "tool", "content": "4"}), "messages[0].tool_call_id", MISSING),
    (say({"role": "tool", "tool_call_id": "c"}), "messages[0].content", MISSING),
    (
        say({"role": "tool", "tool_call_id": "c", "content": [{"type": "file"}]}),
        "messages[0].content[0]",
        WORDS,
    ),
    (
        say({**part("image_url", image_url="u"), "role": "tool", "tool_call_id": "c"}),
        "messages[0].content[1]",
        WORDS,
    ),
    ({"messages": [HI] * 10_001}, "messages", INVALID),
]
SAYS_NOTHING: list[BadBody] = [
    ({"messages": []}, "messages", MISSING),
    (say({"role": "user", "content": " \n"}), "messages", MISSING),
    (say({"role": "user", "content": []}), "messages", MISSING),
    (say({"role": "user", "content": [{"type": "text", "text": ""}]}), "messages", MISSING),
    (say({"role": "system", "content": ""}, {**HI, "content": ""}), "messages", MISSING),
]
TOOLS: list[BadBody] = [
    ({"tools": [{"type": "web_search"}]}, "tools[0].type", WORDS),
    ({"tools": [tool("f"), {"type": "custom", "custom": {}}]}, "tools[1].type", WORDS),
    ({"tools": [tool("f")] * 129}, "tools", INVALID),
    ({"tool_choice": "required"}, "tool_choice", INVALID),
    ({"tool_choice": "any"}, "tool_choice", WORDS),
    ({"tool_choice": tool("g"), "tools": [tool("f")]}, "tool_choice", INVALID),
    ({"tool_choice": {"type": "custom"}, "tools": [tool("f")]}, "tool_choice.type", WORDS),
    (
        {
            "tool_choice": "required",
            "tools": [tool("f")],
            "response_format": {"type": "json_object"},
        },
        "tool_choice",
        WORDS,
    ),
]
OTHERS: list[BadBody] = [
    ({"top_logprobs": 2}, "top_logprobs", WORDS),
    ({"top_logprobs": 0, "logprobs": False}, "top_logprobs", WORDS),
    ({"response_format": {}}, "response_format.type", MISSING),
    ({"response_format": {"type": "xml"}}, "response_format.type", WORDS),
    ({"response_format": {"type": "json_schema"}}, "response_format.schema", MISSING),
    ({"metadata": {"key": 1}}, "metadata.key", WRONG_TYPE),
    *refuse(
        {
            "audio": [{"voice": "alloy", "format": "wav"}],
            "modalities": [["text", "audio"], "text"],
            "web_search_options": [{}],
            "moderation": [{"model": "m"}],
            "max_tool_calls": [1],
            "chat_template": ["{{ messages }}"],
            "chat_template_kwargs": [{"enable_thinking": False}],
            "add_generation_prompt": [False],
            "continue_final_message": [True],
            "documents": [[{"text": "a"}]],
        }
    ),
]
BAD_CHATS: list[BadBody] = [
    *work_out(ChatCompletionRequest, "", lambda field: field),
    *work_out(SystemMessage, "messages[0].", lambda it: say({**HI, "role": "system", **it})),
    *work_out(UserMessage, "messages[0].", lambda it: say({**HI, **it})),
    *work_out(AssistantMessage, "messages[0].", lambda it: say({**SPOKEN, **it})),
    *work_out(ToolMessage, "messages[0].", lambda it: say({**ANSWERED, **it})),
    *work_out(SentCall, "messages[0].tool_calls[0].", lambda it: say(calling(call(**it)))),
    *work_out(
        SentFunction,
        "messages[0].tool_calls[0].function.",
        lambda it: say(calling(call(function={"name": "f", "arguments": "", **it}))),
    ),
    *SHARED,
    *MESSAGES,
    *SAYS_NOTHING,
    *TOOLS,
    *OTHERS,
    *rename(CHAT_NAMES),
]

COMPLETION_NAMES = {
    "input": "prompt",
    "messages": "prompt",
    "instructions": "prompt",
    "max_output_tokens": "max_tokens",
    "max_completion_tokens": "max_tokens",
    "max_new_tokens": "max_tokens",
    "n_predict": "max_tokens",
    "top_logprobs": "logprobs",
}
PROMPTS: list[BadBody] = [
    ({"prompt": " \t\n"}, "prompt", MISSING),
    ({"prompt": [" "]}, "prompt", MISSING),
    ({"prompt": ["a", "b"]}, "prompt", WORDS),
    ({"prompt": [[1], [2]]}, "prompt", WORDS),
    ({"prompt": ["a", 1]}, "prompt", WORDS),
    ({"prompt": [True]}, "prompt[0]", WRONG_TYPE),
    ({"prompt": [1, 2.0]}, "prompt[1]", WRONG_TYPE),
    ({"prompt": [1, "a"]}, "prompt[1]", WRONG_TYPE),
    ({"prompt": [{}]}, "prompt[0]", WRONG_TYPE),
    ({"prompt": [-1]}, "prompt[0]", INVALID),
    ({"prompt": [2**31]}, "prompt[0]", INVALID),
    ({"prompt": [[1, None]]}, "prompt[0][1]", WRONG_TYPE),
]
BAD_COMPLETIONS: list[BadBody] = [
    *work_out(CompletionRequest, "", lambda field: field),
    *SHARED,
    *PROMPTS,
    *rename(COMPLETION_NAMES),
    *refuse(
        {
            "tools": [[tool("f")], {}],
            "tool_choice": ["required"],
            "functions": [[{}]],
            "response_format": [{"type": "json_object"}],
            "text": [{}],
            "reasoning": [{}],
            "reasoning_effort": ["low"],
            "prompt_embeds": ["AAAA"],
        }
    ),
]
