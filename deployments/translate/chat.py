"""A request of Chat Completions to the engine's request."""

from typing import assert_never

from deployments.translate.conversation import Conversation, check_says_something
from deployments.translate.items import to_output_parts, to_parts, to_role
from deployments.translate.media import check_media
from deployments.translate.sampling import to_sampling, to_stop
from deployments.translate.tools import to_output_format, to_shown_tools, to_tool_use
from deployments.wire.chat_messages import (
    AssistantMessage,
    Message,
    OtherMessage,
    SystemMessage,
    ToolMessage,
    UserMessage,
)
from deployments.wire.chat_request import ChatCompletionRequest
from engine.types import ChatMessage, GenerateRequest, ModelCard, ToolCall


def to_chat_generation(
    request: ChatCompletionRequest, card: ModelCard, generation_id: str
) -> GenerateRequest:
    """What the engine is asked.

    Raises:
        InvalidRequestError: where nothing is left to answer (RA's effective-input check), and
            where the request wants what it rules out itself or what the model cannot do.
    """
    messages = to_messages(request.messages, card)
    use = to_tool_use(request.tools, request.tool_choice, request.parallel_tool_calls)
    output_format = to_output_format(request.response_format)
    use = to_shown_tools(use, output_format, card, "response_format")
    return GenerateRequest(
        generation_id=generation_id,
        messages=messages,
        sampling=to_sampling(request, card),
        max_tokens=request.max_completion_tokens or request.max_tokens or card.default_max_tokens,
        stop=to_stop(request),
        top_logprobs=request.num_logprobs,
        tools=use.tools,
        tool_choice=use.mode,
        max_tool_calls=use.max_calls,
        output_format=output_format,
    )


def to_messages(messages: list[Message], card: ModelCard) -> tuple[ChatMessage, ...]:
    """The turns of the conversation.

    Raises:
        InvalidRequestError: where there is nothing to answer, where a message does not fit those
            before it, or for a medium that the model cannot take.
    """
    conversation = Conversation()
    for index, message in enumerate(messages):
        add_message(conversation, message, f"messages[{index}]")
    check_media(conversation.media, card)
    check_says_something(conversation.messages, "messages")
    return conversation.messages


def add_message(conversation: Conversation, message: Message, param: str) -> None:
    """Add one message; `param` is its place, such as `messages[3]`.

    Raises:
        InvalidRequestError: where it does not fit what came before.
    """
    match message:
        case SystemMessage() | UserMessage():
            parts = to_parts(message.content, message.role, param)
            conversation.add_turn(to_role(message.role), parts)
        case AssistantMessage():
            add_answer(conversation, message, param)
        case ToolMessage():
            parts = to_output_parts(message.content, f"{param}.content")
            conversation.add_output(message.tool_call_id, parts)
        case OtherMessage():
            raise AssertionError("a message of no known role is never valid")
        case _:
            assert_never(message)


def add_answer(conversation: Conversation, message: AssistantMessage, param: str) -> None:
    """What the model thought, said and called, in one turn."""
    conversation.add_reasoning(message.thought)
    parts = [] if message.content is None else to_parts(message.content, "assistant", param)
    if message.refusal:
        parts.append(message.refusal)
    conversation.add_turn("assistant", parts)
    for index, sent in enumerate(message.tool_calls or ()):
        call = ToolCall(sent.id, sent.function.name, sent.function.arguments)
        conversation.add_call(call, f"{param}.tool_calls[{index}].id")
