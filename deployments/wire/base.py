"""What the bodies of all generating routes share: strict models, sampling, refusals by name."""

import json
import re
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Annotated, Any, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    Tag,
)

from deployments.errors import InvalidRequestError

# Items of an input and parts of an item: beyond what any context holds, and parsed in milliseconds.
MAX_ELEMENTS = 10_000
MAX_PARTS = 50_000  # of all items together
MAX_STOPS, MAX_STOP_CHARACTERS = 16, 1000
MAX_BIASES = 1024
MAX_COUNT = 2**53 - 1  # the largest whole number that every JSON parser reads exactly
MAX_LOGPROBS = 20  # OpenAI's
# Names and labels that are kept and echoed, but never read.
Label = Annotated[str, Field(max_length=512)]
CallId = Annotated[str, Field(min_length=1, max_length=512)]


class WireModel(BaseModel):
    """Strict, so that a string is never a number. Unknown keys are ignored."""

    model_config = ConfigDict(extra="ignore", strict=True, frozen=True, allow_inf_nan=False)


Element = TypeVar("Element")
# A list whose first fault is the only one that is looked for: a body has room for millions.
Array = Annotated[list[Element], Field(max_length=MAX_ELEMENTS, fail_fast=True)]


def check_finite(value: dict[str, Any]) -> dict[str, Any]:
    """An object that is kept and sent on as it is.

    Raises:
        ValueError: where it has a number like 1e999, which JSON can spell and no float can hold.
    """
    try:
        json.dumps(value, allow_nan=False)
    except ValueError:
        raise ValueError("it has a number that is too large") from None
    return value


JsonObject = Annotated[dict[str, Any], AfterValidator(check_finite)]


def check_size(value: object, max_entries: int) -> object:
    """Count the entries of an object before any is looked at.

    Raises:
        ValueError: where there are too many.
    """
    if isinstance(value, dict) and len(value) > max_entries:
        raise ValueError(f"it has {len(value)} entries; {max_entries} are the most")
    return value


def check_total(items: object) -> object:
    """Count the parts of all items of an input before any is looked at.

    Raises:
        ValueError: where there are too many.
    """
    if isinstance(items, list) and len(items) <= MAX_ELEMENTS:
        inner = (value for item in items if isinstance(item, dict) for value in item.values())
        total = sum(len(value) for value in inner if isinstance(value, list))
        if total > MAX_PARTS:
            raise ValueError(f"its elements have {total} parts; {MAX_PARTS} are the most")
    return items


# ── unions ───────────────────────────────────────────────────────────────────────────────────────
# A branch is named like `<text>`: `wire.parse` takes such names out of the paths of errors. What
# has no branch is named without the brackets, so that no word of a client's is taken for it.

NO_OBJECT, NO_WORD = "no object", "no word"

# Kinds of errors that wire models raise under our own codes.
MISSING, UNSUPPORTED = "missing_required_parameter", "unsupported_value"


def name_form(value: object) -> str:
    """The branch of a value that is a string or an array."""
    return "<text>" if isinstance(value, str) else "<array>"


def name_type(value: object) -> str | None:
    """The branch of an object by its key `type`; None where it has none."""
    if isinstance(value, BaseModel):
        return f"<{getattr(value, 'type', None)}>"
    if not isinstance(value, dict):
        return NO_OBJECT
    kind = value.get("type")
    return None if kind is None else f"<{kind}>" if isinstance(kind, str) else NO_WORD


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
Biases = Annotated[
    dict[TokenKey, Bias], BeforeValidator(partial(check_size, max_entries=MAX_BIASES))
]
MetadataKey = Annotated[str, Field(max_length=64)]
MetadataValue = Annotated[str, Field(max_length=512)]
Metadata = Annotated[
    dict[MetadataKey, MetadataValue], BeforeValidator(partial(check_size, max_entries=16))
]


class SamplingFields(WireModel):
    """How tokens are picked, and where the text ends; the same keys on every route."""

    temperature: float | None = Field(None, ge=0, le=2)
    top_p: float | None = Field(None, ge=0, le=1)
    top_k: int | None = Field(None, ge=0, le=MAX_COUNT)
    min_p: float | None = Field(None, ge=0, le=1)
    presence_penalty: float | None = Field(None, ge=-2, le=2)
    frequency_penalty: float | None = Field(None, ge=-2, le=2)
    repetition_penalty: float | None = Field(None, ge=0.01, le=100)
    logit_bias: Biases | None = None
    seed: int | None = Field(None, ge=-(2**63), le=2**63 - 1)
    stop: (
        Annotated[
            Annotated[StopString, Tag("<text>")]
            | Annotated[
                list[StopString], Field(max_length=MAX_STOPS, fail_fast=True), Tag("<array>")
            ],
            Discriminator(name_form),
        ]
        | None
    ) = None


# ── keys that are refused or have no effect ──────────────────────────────────────────────────────

# Extensions that other servers know and this one cannot honour, on any route: silence would be a
# wrong answer. The values beside them change nothing and are accepted.
NOT_SERVED_ANYWHERE: dict[str, tuple[Any, ...]] = {
    "n": (1,),
    "best_of": (1,),
    "chat_template": (),
    "chat_template_kwargs": ({},),
    "enable_thinking": (),
    "preserve_thinking": (),
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
    "adapters": (),
    "add_special_tokens": (True,),
    "add_generation_prompt": (True,),
    "allowed_token_ids": ([],),
    "audio": (),
    "continue_final_message": (False,),
    "documents": ([],),
    "dry_multiplier": (0,),
    "include_stop_str_in_output": (False,),
    "length_penalty": (1,),
    "modalities": (["text"], []),
    "n_probs": (0,),
    "personality": (),
    "prompt_embeds": (),
    "prompt_logprobs": (False,),
    "reasoning_strength": (),
    "repetition_context_size": (),
    "role_mapping": (),
    "skip_special_tokens": (True,),
    "tfs_z": (1,),
    "thinking": (),
    "thinking_budget": (),
    "truncate_prompt_tokens": (),
    "use_beam_search": (False,),
    "web_search_options": (),
    "xtc_probability": (0,),
}

# Names that other servers have for keys that every route here has.
OTHER_NAMES_ANYWHERE = {"repeat_penalty": "repetition_penalty", "stop_sequences": "stop"}


def check_served(
    body: Mapping[str, Any],
    other_names: Mapping[str, str],
    not_served: Mapping[str, tuple[Any, ...]],
) -> None:
    """Refuse what would change the answer and is not honoured.

    `other_names` has the right key for each wrong one; `not_served` the values that change nothing.

    Raises:
        InvalidRequestError: with the key at fault, and the right one where there is one.
    """
    for key, right in {**OTHER_NAMES_ANYWHERE, **other_names}.items():
        value = body.get(key)
        if not (value is None or value is False or value == []):  # which say nothing
            raise InvalidRequestError(
                f"Unknown parameter: '{key}'. On this route it is called '{right}'.",
                key,
                "unknown_parameter",
            )
    for key, neutral in {**NOT_SERVED_ANYWHERE, **not_served}.items():
        value = body.get(key)
        if value is not None and not any(is_same(value, other) for other in neutral):
            this = f"'{key}' with this value" if neutral else f"'{key}'"
            raise InvalidRequestError(
                f"{this} is not supported by this server.",
                key,
                "unsupported_value",
            )


def is_same(value: object, other: object) -> bool:
    """Equality as JSON has it: true is not 1."""
    return value == other and isinstance(value, bool) == isinstance(other, bool)


def list_sent(body: Mapping[str, Any], keys: Iterable[str]) -> list[str]:
    """Those of the keys that a body gives a value."""
    return [key for key in keys if body.get(key) is not None]
