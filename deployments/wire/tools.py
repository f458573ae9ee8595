"""Tools, the choice between them, and the form of an answer, in the flat and the nested spelling.

Responses spell them flat (`{"type": "function", "name": …}`), Chat Completions nested
(`{"type": "function", "function": {"name": …}}`); both are taken everywhere.
"""

import json
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Discriminator, Field, Tag, model_validator

from deployments.errors import InvalidRequestError
from deployments.wire.base import JsonObject, WireModel, name_type

MAX_TOOLS = 128
MAX_NAME_CHARACTERS = 128
# Of all that is declared: a stream repeats it in its first, its last and each event of a silence.
MAX_DECLARED_CHARACTERS = 2**20

Name = Annotated[str, Field(pattern=r"^[a-zA-Z0-9_.-]+$", max_length=MAX_NAME_CHARACTERS)]


def flatten(kind: str, value: Any) -> Any:
    """The flat spelling of an object that may nest its fields under the name of its type.

    `wire.parse.to_path` gives the faults of such fields their places in what was sent.
    """
    if isinstance(value, dict) and isinstance(inner := value.get(kind), dict):
        return {**inner, "type": value.get("type")}
    return value


class FunctionToolField(WireModel):
    """An element of `tools`."""

    type: Literal["function"]
    name: Name
    description: str | None = None
    parameters: JsonObject | None = None
    strict: bool | None = None
    # How OpenAI's own service calls a function: nothing here could honour it.
    defer_loading: Literal[False] | None = None
    is_async: Literal[False] | None = Field(None, alias="async")
    allowed_callers: list[Literal["direct"]] | None = Field(None, max_length=1)

    @model_validator(mode="before")
    @classmethod
    def flatten(cls, value: Any) -> Any:
        return flatten("function", value)


def check_declared(tools: list[FunctionToolField]) -> list[FunctionToolField]:
    """Measure what tools say of themselves.

    Raises:
        ValueError: where it is too much.
    """
    total = sum(len(tool.description or "") + count_characters(tool.parameters) for tool in tools)
    if total > MAX_DECLARED_CHARACTERS:
        raise ValueError(f"they have {total} characters; {MAX_DECLARED_CHARACTERS} are the most")
    return tools


def count_characters(schema: dict[str, Any] | None) -> int:
    return len(json.dumps(schema, ensure_ascii=False))


def check_schema(schema: dict[str, Any]) -> dict[str, Any]:
    """Measure the schema of an answer.

    Raises:
        ValueError: where it is too large.
    """
    total = count_characters(schema)
    if total > MAX_DECLARED_CHARACTERS:
        raise ValueError(f"it has {total} characters; {MAX_DECLARED_CHARACTERS} are the most")
    return schema


Tools = Annotated[
    list[FunctionToolField],
    Field(max_length=MAX_TOOLS, fail_fast=True),
    AfterValidator(check_declared),
]


class FunctionChoice(WireModel):
    """A choice of one function."""

    type: Literal["function"]
    name: Annotated[str, Field(min_length=1, max_length=MAX_NAME_CHARACTERS)]

    @model_validator(mode="before")
    @classmethod
    def flatten(cls, value: Any) -> Any:
        return flatten("function", value)


class AllowedTools(WireModel):
    """A choice that narrows the tools."""

    type: Literal["allowed_tools"]
    mode: Literal["none", "auto", "required"] | None = None
    tools: list[FunctionChoice] = Field(min_length=1, max_length=MAX_TOOLS, fail_fast=True)

    @model_validator(mode="before")
    @classmethod
    def flatten(cls, value: Any) -> Any:
        return flatten("allowed_tools", value)


def name_choice(value: object) -> str | None:
    """The branch of a choice: a word, or an object by its type."""
    if isinstance(value, str):
        return "<word>"
    name = name_type(value)
    return f"<{name}>" if name == "<word>" else name  # an object that says so is still no word


ToolChoice = Annotated[
    Annotated[Literal["auto", "none", "required"], Tag("<word>")]
    | Annotated[FunctionChoice, Tag("<function>")]
    | Annotated[AllowedTools, Tag("<allowed_tools>")],
    Discriminator(name_choice),
]


class TextFormat(WireModel):
    """No form at all."""

    type: Literal["text"]


class JsonObjectFormat(WireModel):
    """Any JSON object."""

    type: Literal["json_object"]


class JsonSchemaFormat(WireModel):
    """JSON of a schema."""

    type: Literal["json_schema"]
    name: Annotated[str, Field(pattern=r"^[a-zA-Z0-9_-]+$", max_length=64)] | None = None
    description: str | None = None
    schema_: Annotated[JsonObject, AfterValidator(check_schema)] = Field(alias="schema")
    strict: bool | None = None

    @model_validator(mode="before")
    @classmethod
    def flatten(cls, value: Any) -> Any:
        return flatten("json_schema", value)


AnswerFormat = Annotated[
    Annotated[TextFormat, Tag("<text>")]
    | Annotated[JsonObjectFormat, Tag("<json_object>")]
    | Annotated[JsonSchemaFormat, Tag("<json_schema>")],
    Discriminator(name_type),
]


def refuse_other_tools(body: dict[str, Any]) -> None:
    """Only functions are served: other types are told by type and place.

    Raises:
        InvalidRequestError: for the first tool of another type.
    """
    for index, kind in list_other_tools(body):
        raise InvalidRequestError(
            f"Invalid value for 'tools[{index}].type': '{kind[:64]}' is not served, only "
            "'function' is; the server's setting `unsupported_tools: ignore` would leave such "
            "tools out.",
            f"tools[{index}].type",
            "unsupported_value",
        )


def drop_other_tools(body: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """The body with functions alone, and the places of what was left out, such as `tools[0]`.

    Raises:
        InvalidRequestError: where there are more tools than a request may have, as it was sent.
    """
    others = list_other_tools(body)
    if not others:
        return body, []
    if len(body["tools"]) > MAX_TOOLS:
        raise InvalidRequestError(
            f"Invalid value for 'tools': it has {len(body['tools'])} elements; {MAX_TOOLS} are the "
            "most.",
            "tools",
            "invalid_value",
        )
    dropped = {index for index, _ in others}
    kept = [tool for index, tool in enumerate(body["tools"]) if index not in dropped]
    return {**body, "tools": kept}, [f"tools[{index}]" for index, _ in others]


def list_other_tools(body: dict[str, Any]) -> list[tuple[int, str]]:
    """Index and type of each tool whose type is a word other than `function`."""
    tools = body.get("tools")
    if not isinstance(tools, list):
        return []
    kinds = [tool.get("type") if isinstance(tool, dict) else None for tool in tools]
    return [
        (index, kind)
        for index, kind in enumerate(kinds)
        if isinstance(kind, str) and kind != "function"
    ]
