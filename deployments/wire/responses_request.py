"""The body of `POST /v1/responses`: what is accepted, with its ranges; null means absent."""

import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Discriminator, Field, Tag

from deployments.errors import InvalidRequestError

# Keys that would change the answer and that other routes or older APIs call so: RA and OpenAI's own
# servers ignore them silently, and their users wonder.
OTHER_NAMES = {
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

# Keys of this API, or extensions of it that other servers know, that this server cannot honour:
# silence would be a wrong answer. The values beside them change nothing and are accepted.
NOT_SERVED: dict[str, tuple[Any, ...]] = {
    "previous_response_id": (),
    "conversation": (),
    "tools": ([],),
    "include": ([],),
    "top_logprobs": (0,),
    "background": (False,),
    "truncation": ("disabled",),
    "n": (1,),
    "chat_template_kwargs": ({},),
    "best_of": (1,),
    "echo": (False,),
    "suffix": ("",),
    "min_tokens": (0,),
    "ignore_eos": (False,),
    "stop_token_ids": ([],),
    "bad_words": ([],),
    "typical_p": (1,),
    "mirostat": (0,),
    "grammar": ("",),
    "json_schema": (),
    "guided_json": (),
    "guided_regex": (),
    "guided_choice": (),
    "guided_grammar": (),
    "structured_outputs": (),
}

# Accepted without effect; the reply's header `x-antiphon-ignored` lists those that were sent.
WITHOUT_EFFECT = (
    "reasoning",
    "service_tier",
    "prompt_cache_key",
    "max_tool_calls",
    "stream_options",
)


# Items of an input and parts of an item: beyond what any context holds, and parsed in milliseconds.
MAX_ELEMENTS = 10_000
MAX_STOPS, MAX_STOP_CHARACTERS = 16, 1000
MAX_BIASES = 1024
MAX_COUNT = 2**53 - 1  # the largest whole number that every JSON parser reads exactly
# Names and labels that are kept and echoed, but never read.
Label = Annotated[str, Field(max_length=512)]


class WireModel(BaseModel):
    """Strict, so that a string is never a number. Unknown keys are ignored."""

    model_config = ConfigDict(extra="ignore", strict=True, frozen=True, allow_inf_nan=False)


class TextPart(WireModel):
    """A text part in any spelling: Responses' own and Chat Completions'."""

    type: Literal["input_text", "output_text", "text"]
    text: str


def _name_form(value: object) -> str:
    return "<text>" if isinstance(value, str) else "<array>"


Content = Annotated[
    Annotated[str, Tag("<text>")]
    | Annotated[list[TextPart], Field(max_length=MAX_ELEMENTS), Tag("<array>")],
    Discriminator(_name_form),
]


class InputMessage(WireModel):
    """A message of the input; its `type` may be left out."""

    type: Literal["message"] | None = None
    role: Literal["user", "assistant", "system", "developer"]
    content: Content


class TextFormat(WireModel):
    """`text.format`."""

    type: Literal["text"]


class TextSettings(WireModel):
    """`text`."""

    format: TextFormat | None = None
    verbosity: Literal["low", "medium", "high"] | None = None


class ReasoningSettings(WireModel):
    """`reasoning`, echoed as sent."""

    effort: Label | None = None
    summary: Label | None = None
    generate_summary: Label | None = None


MetadataKey = Annotated[str, Field(max_length=64)]
MetadataValue = Annotated[str, Field(max_length=512)]


TOKEN_KEY = re.compile(r"0|[1-9][0-9]{0,8}")


def check_token_key(key: str) -> str:
    """A key of `logit_bias`.

    Raises:
        ValueError: where it is no token id in decimal digits.
    """
    if not TOKEN_KEY.fullmatch(key):
        raise ValueError('it must be a token id, such as "1234"')
    return key


StopString = Annotated[str, Field(min_length=1, max_length=MAX_STOP_CHARACTERS)]
TokenKey = Annotated[str, AfterValidator(check_token_key)]
Bias = Annotated[float, Field(ge=-100, le=100)]


class CreateResponse(WireModel):
    """What this server takes of a request."""

    model: str = Field(min_length=1, max_length=256)
    input: (
        Annotated[
            Annotated[str, Tag("<text>")]
            | Annotated[list[InputMessage], Field(max_length=MAX_ELEMENTS), Tag("<array>")],
            Discriminator(_name_form),
        ]
        | None
    ) = None
    instructions: str | None = None
    temperature: float | None = Field(None, ge=0, le=2)
    top_p: float | None = Field(None, ge=0, le=1)
    top_k: int | None = Field(None, ge=0, le=MAX_COUNT)
    min_p: float | None = Field(None, ge=0, le=1)
    presence_penalty: float | None = Field(None, ge=-2, le=2)
    frequency_penalty: float | None = Field(None, ge=-2, le=2)
    repetition_penalty: float | None = Field(None, ge=0.01, le=100)
    logit_bias: dict[TokenKey, Bias] | None = Field(None, max_length=MAX_BIASES)
    seed: int | None = Field(None, ge=-(2**63), le=2**63 - 1)
    stop: (
        Annotated[
            Annotated[StopString, Tag("<text>")]
            | Annotated[list[StopString], Field(max_length=MAX_STOPS), Tag("<array>")],
            Discriminator(_name_form),
        ]
        | None
    ) = None
    max_output_tokens: int | None = Field(None, ge=1, le=MAX_COUNT)
    max_tool_calls: int | None = Field(None, ge=1, le=MAX_COUNT)
    metadata: dict[MetadataKey, MetadataValue] | None = Field(None, max_length=16)
    parallel_tool_calls: bool | None = None
    prompt_cache_key: Label | None = None
    reasoning: ReasoningSettings | None = None
    safety_identifier: Label | None = None
    service_tier: Label | None = None
    store: bool | None = None
    stream: bool | None = None
    text: TextSettings | None = None
    tool_choice: Literal["auto", "none"] | None = None
    user: Label | None = None


def check_served(body: Mapping[str, Any]) -> None:
    """Refuse what would change the answer and is not honoured.

    Raises:
        InvalidRequestError: with the key at fault, and the right one where there is one.
    """
    for key, right in OTHER_NAMES.items():
        if body.get(key) is not None:
            raise InvalidRequestError(
                f"Unknown parameter: '{key}'. On this route it is called '{right}'.",
                key,
                "unknown_parameter",
            )
    for key, neutral in NOT_SERVED.items():
        value = body.get(key)
        if value is not None and not any(is_same(value, other) for other in neutral):
            raise InvalidRequestError(
                f"'{key}' with this value is not supported by this server.",
                key,
                "unsupported_value",
            )


def is_same(value: object, other: object) -> bool:
    """Equality as JSON has it: true is not 1."""
    return value == other and isinstance(value, bool) == isinstance(other, bool)


def list_ignored(body: Mapping[str, Any]) -> list[str]:
    """The keys that were sent and have no effect."""
    ignored = [key for key in WITHOUT_EFFECT if body.get(key) is not None]
    text = body.get("text") or {}
    return ignored if text.get("verbosity") is None else [*ignored, "text.verbosity"]
