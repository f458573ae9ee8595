"""A Responses request to the engine's request, and to what the response repeats of it."""

from dataclasses import replace
from typing import Any, Protocol

from deployments.errors import InvalidRequestError
from deployments.resource.response import RequestEcho
from deployments.translate.conversation import Conversation, check_says_something
from deployments.translate.items import add_item
from deployments.translate.media import check_media
from deployments.translate.response_input import PlacedItem, ResponseInput
from deployments.translate.sampling import to_sampling, to_stop
from deployments.translate.tools import (
    ToolUse,
    to_output_format,
    to_shown_tools,
    to_tool_use,
)
from deployments.wire.responses_items import FunctionCallOutput
from deployments.wire.responses_request import CreateResponse
from deployments.wire.tools import AllowedTools, FunctionChoice, FunctionToolField, JsonSchemaFormat
from engine.types import ChatMessage, GenerateRequest, JsonFormat, ModelCard

UNNAMED_FORMAT = "response"  # the contract's responses must name the form of their text


def to_generate_request(
    request: CreateResponse, given: ResponseInput, card: ModelCard, generation_id: str
) -> GenerateRequest:
    """What the engine is asked, `given` being the history and input of the request.

    Raises:
        InvalidRequestError: where nothing is left to answer (RA's effective-input check), and
            where the request wants what it rules out itself or what the model cannot do.
    """
    messages = to_messages(request.instructions, given, card)
    use, output_format = to_use_and_format(request, card)
    return GenerateRequest(
        generation_id=generation_id,
        messages=messages,
        sampling=to_sampling(request, card),
        max_tokens=to_max_tokens(request, card),
        stop=to_stop(request),
        top_logprobs=request.num_logprobs,
        tools=use.tools,
        tool_choice=use.mode,
        max_tool_calls=use.max_calls,
        output_format=output_format,
    )


def to_messages(
    instructions: str | None, given: ResponseInput, card: ModelCard
) -> tuple[ChatMessage, ...]:
    """Instructions as a leading system message, then the history and the input.

    Raises:
        InvalidRequestError: where there is nothing to answer, an output answers no call of what
            went before, or there is a medium that the model cannot take.
    """
    conversation = Conversation()
    if instructions:
        conversation.add_turn("system", [instructions])
    for placed in given.history:
        add_kept(conversation, placed)
    for placed in given.own:
        if given.is_continued and isinstance(placed.item, FunctionCallOutput):
            conversation.check_is_called(placed.item.call_id, f"{placed.param}.call_id")
        add_item(conversation, placed.item, placed.param)
    check_media(conversation.media, card)
    check_says_something(conversation.messages, "input", "instructions")
    return conversation.messages


def add_kept(conversation: Conversation, placed: PlacedItem) -> None:
    """Add an item that no longer stands in the request: what brought it is at fault, if any is.

    Raises:
        InvalidRequestError: where it does not fit what came before.
    """
    num_media = len(conversation.media)
    try:
        add_item(conversation, placed.item, placed.param)
    except InvalidRequestError as error:
        message = f"What went before cannot be gone on from: {error.message}"
        raise InvalidRequestError(message, placed.param, error.code) from None
    new = conversation.media[num_media:]
    conversation.media[num_media:] = [replace(each, param=placed.param) for each in new]


def to_use_and_format(
    request: CreateResponse, card: ModelCard
) -> tuple[ToolUse, JsonFormat | None]:
    use = to_tool_use(
        request.tools, request.tool_choice, request.parallel_tool_calls, request.max_tool_calls
    )
    output_format = to_output_format(request.text.format if request.text else None)
    return to_shown_tools(use, output_format, card, "text.format"), output_format


def to_max_tokens(request: CreateResponse, card: ModelCard) -> int | None:
    return request.max_output_tokens or card.default_max_tokens


class ToolFields(Protocol):
    """What the requests of all routes with tools have."""

    @property
    def tools(self) -> list[FunctionToolField] | None: ...

    @property
    def parallel_tool_calls(self) -> bool | None: ...


def list_powerless(request: ToolFields, card: ModelCard) -> list[str]:
    """The fields that have no effect because of what this model is, whatever the route."""
    if not request.tools or card.takes_tools:
        return []
    bounds = {
        "parallel_tool_calls": request.parallel_tool_calls is False,
        "max_tool_calls": getattr(request, "max_tool_calls", None) is not None,
    }
    return ["tools", *(name for name, is_sent in bounds.items() if is_sent)]


def to_echo(request: CreateResponse, card: ModelCard, is_stored: bool) -> RequestEcho:
    sampling = to_sampling(request, card)
    return RequestEcho(
        temperature=sampling.temperature,
        top_p=sampling.top_p,
        presence_penalty=sampling.presence_penalty,
        frequency_penalty=sampling.frequency_penalty,
        is_stored=is_stored,
        conversation_id=request.conversation_id,
        previous_response_id=request.previous_response_id,
        instructions=request.instructions,
        max_output_tokens=to_max_tokens(request, card),
        max_tool_calls=request.max_tool_calls,
        metadata=request.metadata,
        parallel_tool_calls=request.parallel_tool_calls is not False,
        prompt_cache_key=request.prompt_cache_key,
        reasoning=to_reasoning_echo(request),
        safety_identifier=request.safety_identifier,
        service_tier="default" if request.service_tier is None else request.service_tier,
        text_format=to_format_echo(request),
        tool_choice=to_choice_echo(request),
        tools=tuple(to_tool_echo(tool) for tool in request.tools or ()),
        top_logprobs=request.top_logprobs or 0,
        user=request.user,
        verbosity=request.text.verbosity if request.text else None,
    )


def to_reasoning_echo(request: CreateResponse) -> dict[str, str | None] | None:
    if request.reasoning is None:
        return None
    return {"effort": request.reasoning.effort, "summary": request.reasoning.summary}


def to_tool_echo(tool: FunctionToolField) -> dict[str, Any]:
    return {
        "type": "function",
        "name": tool.name,
        "description": tool.description,
        "parameters": tool.parameters,
        "strict": tool.strict is True,
    }


def to_choice_echo(request: CreateResponse) -> str | dict[str, Any]:
    match request.tool_choice:
        case None:
            return "auto"
        case str(word):
            return word
        case FunctionChoice(name=name):
            return {"type": "function", "name": name}
        case AllowedTools(mode=mode, tools=tools):
            chosen = [{"type": "function", "name": each.name} for each in tools]
            return {"type": "allowed_tools", "mode": mode or "auto", "tools": chosen}


def to_format_echo(request: CreateResponse) -> dict[str, Any]:
    answer = request.text.format if request.text else None
    match answer:
        case None:
            return {"type": "text"}
        case JsonSchemaFormat():
            return {
                "type": "json_schema",
                "name": answer.name or UNNAMED_FORMAT,
                "description": answer.description,
                "schema": answer.schema_,
                "strict": answer.strict is True,
            }
        case _:
            return {"type": answer.type}
