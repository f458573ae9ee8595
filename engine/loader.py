"""Reads a model's folder into memory: weights, tokenizer, template, limits."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from transformers import PreTrainedTokenizerBase
from xgrammar import TokenizerInfo

from engine.backend import (
    dequantize_model,
    load_model,
    load_tokenizer,
    maybe_set_recommended_wired_limit,
    mx,
)
from engine.chat_template import ChatTemplate
from engine.errors import ChatTemplateError, ModelLoadError
from engine.precision import DType

# The names under which model configurations give the longest context they were trained for.
CONTEXT_KEYS = ("max_position_embeddings", "max_sequence_length", "n_positions", "seq_length")
DEFAULT_CONTEXT_LENGTH = 4096


@dataclass(frozen=True, slots=True)
class LoadedModel:
    """A model ready to run. `vocabulary[i]` is the bytes of token i, `special_ids` have no text."""

    model: Any
    tokenizer: PreTrainedTokenizerBase
    chat_template: ChatTemplate
    vocabulary: tuple[bytes, ...]
    special_ids: frozenset[int]
    stop_ids: frozenset[int]
    context_length: int
    longest_token_bytes: int


def load(
    folder: Path, dtype: DType | None, context_length: int | None, chat_template: str | None
) -> LoadedModel:
    """Load a folder in MLX's or Hugging Face's layout.

    `context_length` and `chat_template` None take what the model's files say.

    Raises:
        ModelLoadError: where a file is missing or wrong, or the settings do not fit the model.
    """
    try:
        model, config = load_model(folder, lazy=True)
        wrapper = load_tokenizer(folder, eos_token_ids=config.get("eos_token_id"))
    except (OSError, ValueError, KeyError, TypeError, json.JSONDecodeError) as error:
        raise ModelLoadError(f"cannot load the model in {folder}: {error}") from error
    convert_weights(model, dtype)
    maybe_set_recommended_wired_limit()
    tokenizer: PreTrainedTokenizerBase = wrapper._tokenizer
    try:
        template = ChatTemplate(tokenizer, chat_template)
    except ChatTemplateError as error:
        raise ModelLoadError(f"the chat template of the model in {folder}: {error}") from error
    vocabulary = tuple(TokenizerInfo.from_huggingface(tokenizer).decoded_vocab)
    return LoadedModel(
        model=model,
        tokenizer=tokenizer,
        chat_template=template,
        vocabulary=vocabulary,
        special_ids=list_special_ids(tokenizer) | frozenset(wrapper.eos_token_ids),
        stop_ids=frozenset(wrapper.eos_token_ids),
        context_length=choose_context_length(config, context_length),
        longest_token_bytes=max(map(len, vocabulary)),
    )


def list_special_ids(tokenizer: PreTrainedTokenizerBase) -> frozenset[int]:
    """The ids that are no text: those with a role (`all_special_ids` knows only these), and the
    added tokens marked as special, such as the markers of turns."""
    added = tokenizer.added_tokens_decoder
    marked = {token_id for token_id, token in added.items() if token.special}
    return frozenset(tokenizer.all_special_ids) | marked


def convert_weights(model: Any, dtype: DType | None) -> None:
    """Give all weights one number type, dequantizing where needed; None leaves them as they are."""
    if dtype is not None:
        dequantize_model(model)
        model.set_dtype(getattr(mx, dtype))
    mx.eval(model.parameters())


def choose_context_length(config: dict[str, Any], asked: int | None) -> int:
    """The context in tokens: what the settings ask for, at most what the model was trained for.

    Raises:
        ModelLoadError: where more is asked for than the model has.
    """
    known = [config[key] for key in CONTEXT_KEYS if isinstance(config.get(key), int)]
    trained = known[0] if known else None
    if asked is None:
        return trained or DEFAULT_CONTEXT_LENGTH
    if trained is not None and asked > trained:
        raise ModelLoadError(
            f"context_length {asked} is more than the {trained} tokens the model was trained for"
        )
    return asked
