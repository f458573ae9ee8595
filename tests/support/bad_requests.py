"""Bodies of `POST /v1/responses` that are refused, each with the place and the code of its fault.

Wrong types and numbers beyond their range are worked out from the wire model's fields, so that a
new field is covered at once; what lies deeper is written down.
"""

from typing import Any

from deployments.wire.responses_request import CreateResponse

GOOD = {"model": "scripted", "input": "Hi"}

BadRequest = tuple[dict[str, Any], str, str]
"""Changes to `GOOD`, `param` and `code`."""

ONE_OF_EACH_KIND: dict[str, Any] = {
    "boolean": True,
    "integer": 1,
    "number": 1.5,
    "string": "1",
    "array": [],
    "object": {},
}


def list_kinds(schema: dict[str, Any]) -> set[str]:
    """The kinds of JSON values that a field's schema takes, none where it lists the values."""
    branches = [*schema.get("anyOf", []), *schema.get("oneOf", [])]
    kinds = {kind for branch in branches for kind in list_kinds(branch)}
    if "$ref" in schema:
        kinds.add("object")
    if "type" in schema and "enum" not in schema:
        kinds.add(schema["type"])
    return kinds | {"integer"} if "number" in kinds else kinds


def list_wrong_types() -> list[BadRequest]:
    """Every field with one value of each kind that it does not take."""
    fields = CreateResponse.model_json_schema()["properties"]
    return [
        ({name: value}, name, "invalid_type" if list_kinds(schema) - {"null"} else WORDS)
        for name, schema in fields.items()
        for kind, value in ONE_OF_EACH_KIND.items()
        if kind not in list_kinds(schema)
    ]


def find_number(schema: dict[str, Any]) -> dict[str, Any] | None:
    """The branch of a field's schema that takes numbers, with its bounds."""
    branches = [schema, *schema.get("anyOf", [])]
    numbers = [branch for branch in branches if branch.get("type") in ("integer", "number")]
    return numbers[0] if numbers else None


def list_numbers() -> dict[str, dict[str, Any]]:
    """The schemas of all fields that take a number, by name."""
    fields = CreateResponse.model_json_schema()["properties"]
    found = {name: find_number(schema) for name, schema in fields.items()}
    return {name: number for name, number in found.items() if number is not None}


def list_bad_numbers() -> list[BadRequest]:
    """For every number: what lies just beyond its range or far away, and what is none.

    Every number has a range, or this fails: an unbounded one reaches the engine whatever it is.
    """
    bad: list[BadRequest] = []
    for name, schema in list_numbers().items():
        low, high = schema["minimum"], schema["maximum"]
        step = 1 if schema["type"] == "integer" else 1e-9
        candidates = [low - step, high + step, -1, 2**63, -(2**63) - 1]
        beyond = [value for value in candidates if not low <= value <= high]
        bad += [({name: value}, name, "invalid_value") for value in beyond]
        bad += [({name: value}, name, "invalid_type") for value in ("1", True, [1], {"1": 1})]
    return bad


def list_good_numbers() -> list[dict[str, Any]]:
    """Both ends of every number's range, and null, which is the same as absent."""
    return [
        {name: value}
        for name, schema in list_numbers().items()
        for value in (schema["minimum"], schema["maximum"], None)
    ]


NOT_FINITE = ("NaN", "Infinity", "-Infinity")
WORDS = "unsupported_value"
MISSING = "missing_required_parameter"

OUT_OF_RANGE: list[BadRequest] = [
    ({"model": ""}, "model", "invalid_value"),
    ({"model": None}, "model", "invalid_type"),
    ({"stop": ""}, "stop", "invalid_value"),
    ({"stop": ["a", ""]}, "stop[1]", "invalid_value"),
    ({"stop": ["a", 1]}, "stop[1]", "invalid_type"),
    ({"stop": ["a", None]}, "stop[1]", "invalid_type"),
    ({"stop": ["a"] * 17}, "stop", "invalid_value"),
    ({"stop": "a" * 1001}, "stop", "invalid_value"),
    ({"logit_bias": {"5": 100.1}}, "logit_bias.5", "invalid_value"),
    ({"logit_bias": {"5": -(2**63)}}, "logit_bias.5", "invalid_value"),
    ({"logit_bias": {"5": "1"}}, "logit_bias.5", "invalid_type"),
    ({"logit_bias": {"5": True}}, "logit_bias.5", "invalid_type"),
    ({"logit_bias": {"5": None}}, "logit_bias.5", "invalid_type"),
    ({"logit_bias": {"-1": 1}}, "logit_bias.-1", "invalid_value"),
    ({"logit_bias": {"05": 1}}, "logit_bias.05", "invalid_value"),
    ({"logit_bias": {"five": 1}}, "logit_bias.five", "invalid_value"),
    ({"logit_bias": {"5\n": 1}}, "logit_bias.5\n", "invalid_value"),
    ({"logit_bias": {"9999999999": 1}}, "logit_bias.9999999999", "invalid_value"),
    ({"logit_bias": {str(n): 1 for n in range(1025)}}, "logit_bias", "invalid_value"),
    ({"metadata": {str(n): "" for n in range(17)}}, "metadata", "invalid_value"),
    ({"metadata": {"k" * 65: ""}}, f"metadata.{'k' * 65}", "invalid_value"),
    ({"metadata": {"key": "v" * 513}}, "metadata.key", "invalid_value"),
    ({"metadata": {"key": 1}}, "metadata.key", "invalid_type"),
    ({"metadata": {"key": None}}, "metadata.key", "invalid_type"),
    ({"tool_choice": "required"}, "tool_choice", WORDS),
    ({"tool_choice": {"type": "function", "name": "f"}}, "tool_choice", WORDS),
]


def message(**changes: Any) -> dict[str, Any]:
    return {"role": "user", "content": "Hi", **changes}


INSIDE: list[BadRequest] = [
    ({"input": ["Hi"]}, "input[0]", "invalid_type"),
    ({"input": [message(), None]}, "input[1]", "invalid_type"),
    ({"input": [{"content": "Hi"}]}, "input[0].role", MISSING),
    ({"input": [message(role="tool")]}, "input[0].role", WORDS),
    ({"input": [message(role=None)]}, "input[0].role", WORDS),
    ({"input": [{"role": "user"}]}, "input[0].content", MISSING),
    ({"input": [message(content=None)]}, "input[0].content", "invalid_type"),
    ({"input": [message(content={})]}, "input[0].content", "invalid_type"),
    ({"input": [message(type="function_call")]}, "input[0].type", WORDS),
    ({"input": [message(), message(content=["Hi"])]}, "input[1].content[0]", "invalid_type"),
    ({"input": [message(content=[{"text": "Hi"}])]}, "input[0].content[0].type", MISSING),
    (
        {"input": [message(content=[{"type": "input_image", "image_url": "x"}])]},
        "input[0].content[0].type",
        WORDS,
    ),
    (
        {"input": [message(content=[{"type": "text", "text": ""}, {"type": "text"}])]},
        "input[0].content[1].text",
        MISSING,
    ),
    (
        {"input": [message(content=[{"type": "input_text", "text": 1}])]},
        "input[0].content[0].text",
        "invalid_type",
    ),
    ({"input": [message()] * 10_001}, "input", "invalid_value"),
    (
        {"input": [message(content=[{"type": "text", "text": "a"}] * 10_001)]},
        "input[0].content",
        "invalid_value",
    ),
    ({"model": "m" * 257}, "model", "invalid_value"),
    ({"user": "u" * 513}, "user", "invalid_value"),
    ({"reasoning": {"effort": "e" * 513}}, "reasoning.effort", "invalid_value"),
    ({"metadata": {"k" * 1000: 1}}, f"metadata.{'k' * 247}", "invalid_value"),
    ({"text": {"format": "text"}}, "text.format", "invalid_type"),
    ({"text": {"format": {}}}, "text.format.type", MISSING),
    ({"text": {"format": {"type": "json_object"}}}, "text.format.type", WORDS),
    ({"text": {"verbosity": "loud"}}, "text.verbosity", WORDS),
    ({"reasoning": {"effort": 1}}, "reasoning.effort", "invalid_type"),
    ({"reasoning": {"summary": []}}, "reasoning.summary", "invalid_type"),
    ({"reasoning": {"generate_summary": True}}, "reasoning.generate_summary", "invalid_type"),
]

REDIRECTED: dict[str, str] = {
    "response_format": "text.format",
    "messages": "input",
    "prompt": "input",
    "max_tokens": "max_output_tokens",
    "max_completion_tokens": "max_output_tokens",
    "functions": "tools",
    "repeat_penalty": "repetition_penalty",
    "logprobs": "top_logprobs",
    "n_predict": "max_output_tokens",
    "stop_sequences": "stop",
}
ANYTHING: list[Any] = [0, "text", [], {"type": "text"}]
OTHERWISE_CALLED: list[BadRequest] = [
    ({key: value}, key, "unknown_parameter") for key in REDIRECTED for value in ANYTHING
]

NOT_NEUTRAL: dict[str, list[Any]] = {
    "previous_response_id": ["resp_1", ""],
    "conversation": ["conv_1", {"id": "conv_1"}],
    "tools": [[{"type": "function", "name": "f"}], {}, "[]"],
    "include": [["message.output_text.logprobs"], "", {}],
    "top_logprobs": [1, False, "0"],
    "background": [True, 0, "false"],
    "truncation": ["auto", ""],
    "n": [2, 0, True, "1"],
    "chat_template_kwargs": [{"enable_thinking": False}],
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

BAD_REQUESTS: list[BadRequest] = [
    *list_wrong_types(),
    *list_bad_numbers(),
    *OUT_OF_RANGE,
    *INSIDE,
    *OTHERWISE_CALLED,
    *NOT_SERVED,
]


def name_changes(changes: object) -> str | None:
    """A test's id: the changes themselves, without what stands beside them in a row."""
    return str(changes)[1:-1][:60] if isinstance(changes, dict) else ""
