"""The body of `POST /v1/completions`: what is accepted, with its ranges; null means absent."""

from collections.abc import Mapping
from typing import Annotated, Any, cast

from pydantic import BeforeValidator, Discriminator, Field, Tag
from pydantic_core import PydanticCustomError

from deployments.wire.base import MAX_LOGPROBS, UNSUPPORTED, list_sent
from deployments.wire.chat_request import StreamFields, list_ignored_options

MAX_PROMPT_TOKENS = 2**22  # beyond what any context holds
MAX_TOKEN_ID = 2**31 - 1

# Keys that would change the answer and that other routes or other servers call so.
OTHER_NAMES = {
    "input": "prompt",
    "messages": "prompt",
    "instructions": "prompt",
    "max_output_tokens": "max_tokens",
    "max_completion_tokens": "max_tokens",
    "max_new_tokens": "max_tokens",
    "n_predict": "max_tokens",
    "num_predict": "max_tokens",
    "top_logprobs": "logprobs",
}

# Keys that this route cannot honour; the values beside them change nothing.
NOT_SERVED: dict[str, tuple[Any, ...]] = {
    "echo": (False,),
    "suffix": ("",),
    "tools": ([],),
    "tool_choice": ("auto", "none"),
    "functions": ([],),
    "function_call": ("auto", "none"),
    "response_format": ({"type": "text"},),
    "text": (),
    "reasoning": (),
    "reasoning_effort": (),
    "previous_response_id": (),
    "conversation": (),
    "background": (False,),
    "truncation": ("disabled",),
}

# Accepted without effect; the reply's header `x-antiphon-ignored` lists those that were sent.
WITHOUT_EFFECT = ("user",)


def check_single(prompts: object) -> object:
    """One prompt a request, before any of them is read.

    Raises:
        PydanticCustomError: where there are more.
    """
    if isinstance(prompts, list) and len(prompts) > 1:
        raise PydanticCustomError(
            UNSUPPORTED, "only one prompt a request is served; send a request for each"
        )
    return prompts


def name_prompt(value: object) -> str:
    """The branch of a prompt, by the first of its elements where it has some."""
    if isinstance(value, str):
        return "<text>"
    first = value[0] if isinstance(value, list) and value else None
    if isinstance(first, str):
        return "<texts>"
    return "<token arrays>" if isinstance(first, list) else "<array>"


TokenId = Annotated[int, Field(ge=0, le=MAX_TOKEN_ID)]
TokenIds = Annotated[list[TokenId], Field(max_length=MAX_PROMPT_TOKENS, fail_fast=True)]

Prompt = Annotated[
    Annotated[str, Tag("<text>")]
    | Annotated[TokenIds, Tag("<array>")]
    | Annotated[list[str], BeforeValidator(check_single), Tag("<texts>")]
    | Annotated[list[TokenIds], BeforeValidator(check_single), Tag("<token arrays>")],
    Discriminator(name_prompt),
]


class CompletionRequest(StreamFields):
    """What this server takes of a request."""

    prompt: Prompt | None
    logprobs: int | None = Field(None, ge=0, le=MAX_LOGPROBS)

    @property
    def single_prompt(self) -> str | tuple[int, ...]:
        """The text, or the token ids; null means from the beginning, as OpenAI has it."""
        if self.prompt is None:
            return ""
        first = self.prompt[0] if isinstance(self.prompt, list) and self.prompt else None
        prompt = first if isinstance(first, str | list) else self.prompt
        return prompt if isinstance(prompt, str) else tuple(cast(list[int], prompt))


def list_ignored(body: Mapping[str, Any]) -> list[str]:
    """The keys of a checked body that have no effect, whatever the model."""
    return [*list_sent(body, WITHOUT_EFFECT), *list_ignored_options(body)]
