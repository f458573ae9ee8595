"""Bodies of `POST /v1/responses` that are refused, each with the place and the code of its fault.

What can be worked out from the wire models is; what is special is written down.
"""

from typing import Any

from deployments.wire.responses_request import CreateResponse
from tests.support.spots import (
    AUDIO,
    CHOSEN,
    OUTPUT_PART,
    PART,
    SCHEMA,
    SPOTS,
    TEXT,
    BadRequest,
    Json,
    call,
    function,
    image,
    in_content,
    in_input,
    in_output,
    in_tools,
    list_faults,
    message,
    output,
)
from tests.support.wrong_values import (
    INVALID,
    MISSING,
    WORDS,
    WRONG_TYPE,
    find_fields,
    find_numbers,
    list_bad_numbers,
    list_bad_texts,
    list_good_numbers,
    list_wrong_types,
)

GOOD = {"model": "scripted", "input": "Hi"}
FIELDS = find_fields(CreateResponse)
NUMBERS = find_numbers(FIELDS)
GOOD_NUMBERS = list_good_numbers(FIELDS)
NOT_FINITE = ("NaN", "Infinity", "-Infinity")

OUT_OF_RANGE: list[BadRequest] = [
    ({"stop": ["a", ""]}, "stop[1]", INVALID),
    ({"stop": ["a", 1]}, "stop[1]", WRONG_TYPE),
    ({"stop": ["a", None]}, "stop[1]", WRONG_TYPE),
    ({"stop": ["a"] * 17}, "stop", INVALID),
    ({"stop": "a" * 1001}, "stop", INVALID),
    ({"logit_bias": {"5": 100.1}}, "logit_bias.5", INVALID),
    ({"logit_bias": {"5": -(2**63)}}, "logit_bias.5", INVALID),
    ({"logit_bias": {"5": "1"}}, "logit_bias.5", WRONG_TYPE),
    ({"logit_bias": {"5": True}}, "logit_bias.5", WRONG_TYPE),
    ({"logit_bias": {"5": None}}, "logit_bias.5", WRONG_TYPE),
    ({"logit_bias": {"-1": 1}}, "logit_bias.-1", INVALID),
    ({"logit_bias": {"05": 1}}, "logit_bias.05", INVALID),
    ({"logit_bias": {"five": 1}}, "logit_bias.five", INVALID),
    ({"logit_bias": {"5\n": 1}}, "logit_bias.5\n", INVALID),
    ({"logit_bias": {"<5>": 1}}, "logit_bias.<5>", INVALID),
    ({"logit_bias": {"9999999999": 1}}, "logit_bias.9999999999", INVALID),
    ({"logit_bias": {str(n): 1 for n in range(1025)}}, "logit_bias", INVALID),
    ({"metadata": {str(n): "" for n in range(17)}}, "metadata", INVALID),
    ({"metadata": {"k" * 65: ""}}, f"metadata.{'k' * 65}", INVALID),
    ({"metadata": {"k" * 1000: 1}}, f"metadata.{'k' * 247}", INVALID),
    ({"metadata": {"key": "v" * 513}}, "metadata.key", INVALID),
    ({"metadata": {"key": 1}}, "metadata.key", WRONG_TYPE),
    ({"metadata": {"key": None}}, "metadata.key", WRONG_TYPE),
    ({"metadata": {"<text>": 1}}, "metadata.<text>", WRONG_TYPE),
    ({"metadata": {"[key]": 1}}, "metadata.[key]", WRONG_TYPE),
    ({"metadata": {"": 1}}, "metadata.", WRONG_TYPE),
    ({"include": ["message.output_text.logprobs", "nothing"]}, "include[1]", WORDS),
    ({"include": [None]}, "include[0]", WORDS),
    ({"include": ["message.output_text.logprobs"] * 17}, "include", INVALID),
]

ITEMS: list[BadRequest] = [
    ({"input": [message(), None]}, "input[1]", WRONG_TYPE),
    ({"input": [message(), "Hi"]}, "input[1]", WRONG_TYPE),
    ({"input": [[message()]]}, "input[0]", WRONG_TYPE),
    ({"input": [{}]}, "input[0].type", MISSING),
    ({"input": [{"content": "Hi"}]}, "input[0].role", MISSING),
    ({"input": [message(role="tool")]}, "input[0].role", WORDS),
    ({"input": [message(), message(content=["Hi"])]}, "input[1].content[0]", WRONG_TYPE),
    ({"input": [message(content=[{"text": "Hi"}])]}, f"{PART}.type", MISSING),
    (
        {"input": [message(content=[TEXT, {**TEXT, "text": 1}])]},
        "input[0].content[1].text",
        WRONG_TYPE,
    ),
    ({"input": [{"type": "web_search_call", "id": "ws_1"}]}, "input[0].type", WORDS),
    ({"input": [message()] * 10_001}, "input", INVALID),
    ({"input": [message(content=[TEXT] * 10_001)]}, "input[0].content", INVALID),
    ({"input": [output(output=[TEXT] * 10_001)]}, "input[0].output", INVALID),
    ({"input": [message(content=[1] * 9_000)] * 6}, "input", INVALID),
    ({"input": [output(output=[1])]}, OUTPUT_PART, WRONG_TYPE),
    ({"input": [output(output=[{"a": 1}])]}, f"{OUTPUT_PART}.type", MISSING),
    ({"input": [output(output=[{"type": 1}])]}, f"{OUTPUT_PART}.type", WRONG_TYPE),
    ({"input": [output(output=[{**TEXT, "text": None}])]}, f"{OUTPUT_PART}.text", WRONG_TYPE),
]

# Wherever a picture may stand, no file may.
FILES: list[Json] = [
    {"type": "input_image", "file_id": "file_1"},
    {"type": "input_image", "file_id": "file_1", "image_url": None},
    {"type": "image_url", "file_id": "file_1"},
    {"type": "input_file", "file_id": "file_1"},
    {"type": "input_file", "file_url": "https://x/y.pdf"},
    {"type": "input_file", "filename": "y.pdf", "file_data": "data:application/pdf;base64,AA"},
    {"type": "input_file"},
    {"type": "file", "file": {"file_id": "file_1"}},
]
NO_FILES: list[BadRequest] = [
    *((in_input(message(content=[TEXT, file])), "input[0].content[1]", WORDS) for file in FILES),
    *((in_content(file), PART, WORDS) for file in FILES),
    *((in_output(file), OUTPUT_PART, WORDS) for file in FILES),
    (
        in_output({"type": "image_url", "image_url": {"file_id": "file_1"}}),
        f"{OUTPUT_PART}.image_url",
        WORDS,
    ),
]

OTHER_TOOLS = (
    "web_search",
    "file_search",
    "computer_use_preview",
    "code_interpreter",
    "image_generation",
    "mcp",
    "custom",
    "apply_patch",
    "function_shell",
    "",
    "x\r\nset-cookie: y",
)
TOOLS: list[BadRequest] = [
    *(({"tools": [function(), {"type": kind}]}, "tools[1].type", WORDS) for kind in OTHER_TOOLS),
    *(({"tool_choice": {"type": kind}}, "tool_choice.type", WORDS) for kind in OTHER_TOOLS),
    ({"tools": [function(name=f"f{n}") for n in range(129)]}, "tools", INVALID),
    ({"tool_choice": "sometimes"}, "tool_choice", WORDS),
    ({"tool_choice": {}}, "tool_choice.type", MISSING),
    ({"tool_choice": {"type": "allowed_tools", "tools": []}}, "tool_choice.tools", INVALID),
    (
        {"tool_choice": {"type": "allowed_tools", "tools": ["f"]}},
        "tool_choice.tools[0]",
        WRONG_TYPE,
    ),
    (
        {"tool_choice": {"type": "allowed_tools", "tools": [function(), {"type": "mcp"}]}},
        "tool_choice.tools[1].type",
        WORDS,
    ),
    ({"text": {"format": {}}}, "text.format.type", MISSING),
    ({"text": {"format": {"type": "grammar"}}}, "text.format.type", WORDS),
]

REDIRECTED: dict[str, str] = {
    "response_format": "text.format",
    "messages": "input",
    "prompt": "input",
    "max_tokens": "max_output_tokens",
    "max_completion_tokens": "max_output_tokens",
    "max_new_tokens": "max_output_tokens",
    "verbosity": "text.verbosity",
    "functions": "tools",
    "function_call": "tool_choice",
    "reasoning_effort": "reasoning.effort",
    "repeat_penalty": "repetition_penalty",
    "logprobs": "top_logprobs",
    "n_predict": "max_output_tokens",
    "num_predict": "max_output_tokens",
    "stop_sequences": "stop",
}
ANYTHING: list[Any] = [0, "text", [1], {"type": "text"}]
OTHERWISE_CALLED: list[BadRequest] = [
    ({key: value}, key, "unknown_parameter") for key in REDIRECTED for value in ANYTHING
]

NOT_NEUTRAL: dict[str, list[Any]] = {
    "adapters": ["lora"],
    "add_generation_prompt": [False],
    "add_special_tokens": [False],
    "allowed_token_ids": [[1]],
    "audio": [{"voice": "alloy"}],
    "background": [True, 0, "false"],
    "continue_final_message": [True],
    "documents": [[{"text": "a"}]],
    "dry_multiplier": [0.8],
    "include_stop_str_in_output": [True],
    "length_penalty": [1.5],
    "modalities": [["text", "audio"]],
    "n_probs": [5],
    "personality": ["friendly"],
    "prompt_embeds": ["AAAA"],
    "prompt_logprobs": [1],
    "reasoning_strength": ["high"],
    "repetition_context_size": [20],
    "role_mapping": [{}],
    "skip_special_tokens": [False],
    "tfs_z": [0.9],
    "thinking": [{"type": "enabled"}],
    "thinking_budget": [100],
    "truncate_prompt_tokens": [10],
    "use_beam_search": [True],
    "web_search_options": [{}],
    "xtc_probability": [0.5],
    "truncation": ["auto", ""],
    "context_management": [[{"type": "compaction"}], {}],
    "moderation": [{"model": "m"}],
    "n": [2, 0, True, "1"],
    "chat_template": ["{{ messages }}", ""],
    "chat_template_kwargs": [{"enable_thinking": False}],
    "enable_thinking": [False],
    "preserve_thinking": [True],
    "best_of": [3, True],
    "echo": [True, 0],
    "suffix": ["end"],
    "min_tokens": [1],
    "ignore_eos": [True],
    "stop_token_ids": [[2]],
    "bad_words": [["no"]],
    "typical_p": [0.5],
    "mirostat": [2],
    "grammar": ['root ::= "yes"'],
    "json_schema": [{}],
    "guided_json": [{}],
    "guided_regex": ["a+"],
    "guided_choice": [["a"]],
    "guided_grammar": ["root"],
    "structured_outputs": [{}],
}
NOT_SERVED: list[BadRequest] = [
    ({key: value}, key, WORDS) for key, values in NOT_NEUTRAL.items() for value in values
]

# A response goes on from one thing.
BOTH: list[BadRequest] = [
    ({"previous_response_id": "resp_1", "conversation": conversation}, "conversation", WORDS)
    for conversation in ("conv_1", {"id": "conv_1"})
]

BAD_REQUESTS: list[BadRequest] = [
    *(
        ({name: value}, name, code)
        for name, value, code in [
            *list_wrong_types(FIELDS),
            *list_bad_numbers(FIELDS),
            *list_bad_texts(FIELDS),
        ]
        if value is not None or name == "model"
    ),
    *(fault for spot in SPOTS for fault in list_faults(spot)),
    *OUT_OF_RANGE,
    *ITEMS,
    *NO_FILES,
    *TOOLS,
    *OTHERWISE_CALLED,
    *NOT_SERVED,
    *BOTH,
]

# ── what is well-formed and contradicts itself ───────────────────────────────────────────────────

JSON_FORM = {"format": {"type": "json_object"}}
SCHEMA_FORM = {"format": {"type": "json_schema", **SCHEMA}}
NOT_FOUND = "item_not_found"  # nothing is kept where these are sent
CONTRADICTIONS: list[BadRequest] = [
    ({"tool_choice": "required"}, "tool_choice", INVALID),
    ({"tool_choice": "required", "tools": []}, "tool_choice", INVALID),
    ({"tool_choice": function()}, "tool_choice", INVALID),
    ({"tool_choice": function(name="g"), "tools": [function()]}, "tool_choice", INVALID),
    (
        {
            "tool_choice": {"type": "allowed_tools", "tools": [function(name="g")]},
            **in_tools(function()),
        },
        "tool_choice",
        INVALID,
    ),
    ({"tools": [function(), function(name="g"), function()]}, "tools[2]", INVALID),
    *(
        ({"tools": [function()], "tool_choice": choice, "text": text}, "tool_choice", WORDS)
        for choice in (
            "required",
            function(),
            {"type": "allowed_tools", **CHOSEN, "mode": "required"},
        )
        for text in (JSON_FORM, SCHEMA_FORM)
    ),
    ({"input": [call(), call()]}, "input[1].call_id", INVALID),
    ({"input": [call(), output(), call(), call()]}, "input[3].call_id", INVALID),
    ({"input": [message(content=[{"type": "refusal", "refusal": "No."}])]}, PART, WORDS),
    ({"input": [{"type": "item_reference", "id": "msg_1"}]}, "input[0].id", NOT_FOUND),
    ({"input": [message(), {"id": "msg_1"}]}, "input[1].id", NOT_FOUND),
    ({"input": [message(), message(content=[image()])]}, "input[1].content[0]", WORDS),
    ({"input": [output(output=[TEXT, image()])]}, "input[0].output[1]", WORDS),
    ({"input": [message(content=[AUDIO])]}, PART, WORDS),
    *(
        ({"input": blank}, "input", MISSING)
        for blank in ("", " \n\t\u3000", [], [message(content=" ")])
    ),
    ({"input": [output(output=" "), {"type": "reasoning", "summary": []}]}, "input", MISSING),
]


def name_changes(changes: object) -> str | None:
    """A test's id: the changes themselves, without what stands beside them in a row."""
    return str(changes)[1:-1][:60] if isinstance(changes, dict) else ""
