"""Tools, the choice between them and the form of the answer: what the engine is asked of them.

The rules are RA's table of tool choices; what a model cannot do is refused here, by its card.
"""

from dataclasses import dataclass

from deployments.errors import InvalidRequestError
from deployments.wire.tools import (
    AllowedTools,
    AnswerFormat,
    FunctionChoice,
    FunctionToolField,
    JsonObjectFormat,
    JsonSchemaFormat,
    TextFormat,
    ToolChoice,
)
from engine.types import FunctionTool, JsonFormat, ModelCard, ToolMode


@dataclass(frozen=True, slots=True)
class ToolUse:
    """The tools that the model is shown, and how it is to use them."""

    tools: tuple[FunctionTool, ...] = ()
    mode: ToolMode = "auto"
    max_calls: int | None = None
    is_narrowed: bool = False
    """Whether only some of the declared tools are allowed."""

    @property
    def is_forced(self) -> bool:
        return self.mode in ("required", "named")


def to_tool_use(
    tools: list[FunctionToolField] | None,
    choice: ToolChoice | None,
    parallel: bool | None,
    max_calls: int | None = None,
) -> ToolUse:
    """What a request says of tools; `parallel` false allows one call.

    Raises:
        InvalidRequestError: where the choice cannot be met by these tools (RA).
    """
    declared = {tool.name: to_function_tool(tool) for tool in tools or ()}
    check_distinct(tools or [])
    limit = 1 if parallel is False else max_calls
    match choice:
        case None | "auto":
            return ToolUse(tuple(declared.values()), "auto", limit)
        case "none":
            return ToolUse(mode="none")
        case "required":
            if not declared:
                raise make_choice_error("it is 'required', but no tools are declared")
            return ToolUse(tuple(declared.values()), "required", limit)
        case FunctionChoice():
            return ToolUse((find_tool(declared, choice),), "named", 1, is_narrowed=True)
        case AllowedTools():
            allowed = {each.name: find_tool(declared, each) for each in choice.tools}
            if choice.mode == "none":
                return ToolUse(mode="none")
            return ToolUse(tuple(allowed.values()), choice.mode or "auto", limit, is_narrowed=True)


def to_function_tool(tool: FunctionToolField) -> FunctionTool:
    return FunctionTool(tool.name, tool.description, tool.parameters, tool.strict is True)


def check_distinct(tools: list[FunctionToolField]) -> None:
    """A call names its tool, so no two may have one name.

    Raises:
        InvalidRequestError: for the second of them.
    """
    seen: set[str] = set()
    for index, tool in enumerate(tools):
        if tool.name in seen:
            raise InvalidRequestError(
                f"Two tools are called '{tool.name}'.", f"tools[{index}]", "invalid_value"
            )
        seen.add(tool.name)


def find_tool(declared: dict[str, FunctionTool], choice: FunctionChoice) -> FunctionTool:
    if choice.name not in declared:
        raise make_choice_error(f"the function '{choice.name}' is not among the tools")
    return declared[choice.name]


def make_choice_error(why: str) -> InvalidRequestError:
    return InvalidRequestError(
        f"Invalid value for 'tool_choice': {why}.", "tool_choice", "invalid_value"
    )


def to_output_format(answer: AnswerFormat | None) -> JsonFormat | None:
    """None where any text will do."""
    match answer:
        case None | TextFormat():
            return None
        case JsonObjectFormat():
            return JsonFormat()
        case JsonSchemaFormat():
            return JsonFormat(
                answer.schema_, answer.name, answer.description, answer.strict is True
            )


def to_shown_tools(
    use: ToolUse, answer: JsonFormat | None, card: ModelCard, format_param: str
) -> ToolUse:
    """What of the tools the model is shown: none where its template knows no tools.

    `format_param` is the route's name for the form of the answer.

    Raises:
        InvalidRequestError: where a choice or a form must hold and cannot.
    """
    if use.is_forced and answer is not None:
        raise InvalidRequestError(
            f"A forced 'tool_choice' cannot be combined with a JSON '{format_param}': each would "
            "claim the whole answer.",
            "tool_choice",
            "unsupported_value",
        )
    if answer is not None and not card.can_constrain:
        raise InvalidRequestError(
            f"This server does not bind the model '{card.name}' to JSON, so '{format_param}' can "
            "only be text.",
            format_param,
            "unsupported_value",
        )
    if card.takes_tools or not use.tools:
        return use
    if use.is_forced or use.is_narrowed:
        raise InvalidRequestError(
            f"This server shows the model '{card.name}' no tools, so 'tool_choice' cannot be held.",
            "tool_choice",
            "unsupported_value",
        )
    return ToolUse()
