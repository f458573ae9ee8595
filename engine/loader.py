"""Reads a model's folder into memory: weights, tokenizer, template, limits."""

import json
import logging
from collections.abc import Collection, Mapping
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
from engine.cache_cost import CacheCost
from engine.caches import check_caches, count_logits, measure_cache_cost, mend_masks
from engine.chat_template import ChatTemplate
from engine.errors import ChatTemplateError, ModelLoadError
from engine.precision import DType

logger = logging.getLogger(__name__)

# The names under which model configurations give the longest context they were trained for.
CONTEXT_KEYS = ("max_position_embeddings", "max_sequence_length", "n_positions", "seq_length")
DEFAULT_CONTEXT_LENGTH = 4096

# What mlx-lm and transformers read as JSON objects without looking.
JSON_OBJECTS = ("config.json", "generation_config.json", "tokenizer_config.json")
NO_LIMIT = int(1e30)  # what transformers writes for none
MAX_REASON_CHARACTERS = 500  # mlx-lm names every weight that is missing


@dataclass(frozen=True, slots=True)
class LoadedModel:
    """A model ready to run. `vocabulary[i]` is the bytes of token i, `special_ids` have no text.

    Token ids from `num_logits` on must never reach the model: it has no embedding for them.
    `begin_id` is the token from which an empty prompt is continued, None where there is none.
    `cache_budget_bytes` is what KV caches may take, known once the weights are in memory;
    `is_memory_bound` says that it limits `context_length`.
    """

    model: Any
    tokenizer: PreTrainedTokenizerBase
    chat_template: ChatTemplate
    vocabulary: tuple[bytes, ...]
    special_ids: frozenset[int]
    stop_ids: frozenset[int]
    context_length: int
    longest_token_bytes: int
    num_logits: int
    cache_cost: CacheCost
    begin_id: int | None = None
    cache_budget_bytes: int = 0
    is_memory_bound: bool = False


def load(
    folder: Path, dtype: DType | None, context_length: int | None, chat_template: str | None
) -> LoadedModel:
    """Load a folder in MLX's or Hugging Face's layout.

    `context_length` and `chat_template` None take what the model's files say.

    Raises:
        ModelLoadError: where a file is missing or wrong, the settings do not fit the model, or its
            KV caches cannot be batched.
    """
    try:
        return load_checked(folder, dtype, context_length, chat_template)
    except ModelLoadError:
        raise
    # Files of strangers go through a hundred architectures and several tokenizers, which raise
    # whatever comes; one architecture ends the process where a package of its own is missing.
    except (Exception, SystemExit) as error:
        raise ModelLoadError(
            f"cannot load the model in {folder}: {describe_error(error)}"
        ) from error


def describe_error(error: BaseException) -> str:
    """The class and, not at any length, the words of an error."""
    words = " ".join(str(error).split())
    if len(words) > MAX_REASON_CHARACTERS:
        words = f"{words[:MAX_REASON_CHARACTERS]}…"
    return f"{type(error).__name__}: {words}"


def load_checked(
    folder: Path, dtype: DType | None, context_length: int | None, chat_template: str | None
) -> LoadedModel:
    """`load`, raising whatever the libraries raise."""
    for name in JSON_OBJECTS:
        check_json_object(folder / name)
    model, config = load_model(folder, lazy=True)
    wrapper = load_tokenizer(folder, eos_token_ids=read_stop_ids(config) or None)
    convert_weights(model, dtype)
    maybe_set_recommended_wired_limit()
    mend_masks(model)
    num_logits = count_logits(model)
    check_caches(model)
    tokenizer: PreTrainedTokenizerBase = wrapper._tokenizer
    tokenizer.model_max_length = NO_LIMIT  # ours is checked in `engine.admission`, with an answer
    try:
        template = ChatTemplate(tokenizer, chat_template)
    except ChatTemplateError as error:
        raise ModelLoadError(f"the chat template of the model in {folder}: {error}") from error
    stop_ids = frozenset(i for i in wrapper.eos_token_ids if i is not None and i < num_logits)
    if not stop_ids:
        logger.warning("the model in %s has no token that ends a text", folder)
    vocabulary = read_vocabulary(tokenizer, num_logits)
    return LoadedModel(
        model=model,
        tokenizer=tokenizer,
        chat_template=template,
        vocabulary=vocabulary,
        special_ids=list_special_ids(tokenizer) | stop_ids,
        stop_ids=stop_ids,
        context_length=choose_context_length(config, context_length),
        longest_token_bytes=max(map(len, vocabulary)),
        num_logits=num_logits,
        cache_cost=measure_cache_cost(model),
        begin_id=find_begin_id(tokenizer, config, stop_ids, num_logits),
    )


def check_json_object(path: Path) -> None:
    """Raises ModelLoadError where a file is there and is no JSON object."""
    if not path.exists():
        return
    try:
        is_object = isinstance(json.loads(path.read_bytes()), dict)
    except (ValueError, RecursionError) as error:
        raise ModelLoadError(f"{path} is not JSON: {error}") from error
    if not is_object:
        raise ModelLoadError(f"{path} holds no JSON object")


def read_vocabulary(tokenizer: PreTrainedTokenizerBase, num_logits: int) -> tuple[bytes, ...]:
    """The bytes of every id of the tokenizer and of the model.

    Many models have more rows than their tokenizer has tokens; the ids between have no text.
    """
    vocabulary = tuple(TokenizerInfo.from_huggingface(tokenizer).decoded_vocab)
    return vocabulary + (b"",) * (num_logits - len(vocabulary))


def read_stop_ids(config: Mapping[str, Any]) -> list[int]:
    """The ids that end a text, as the model's configuration has them; empty if it has none.

    mlx-lm adds the tokenizer's own.

    Raises:
        ModelLoadError: where they are no ids.
    """
    given = find_setting(config, "eos_token_id")
    ids = given if isinstance(given, list) else [] if given is None else [given]
    for token_id in ids:
        if type(token_id) is not int or token_id < 0:
            raise ModelLoadError(f"eos_token_id of the model is no token id: {given!r}")
    return ids


def find_begin_id(
    tokenizer: PreTrainedTokenizerBase,
    config: Mapping[str, Any],
    stop_ids: Collection[int],
    num_logits: int,
) -> int | None:
    """The token that begins a text; where the model has none, the one that ends the text before.

    Tokenizers that put nothing in front of a text often name no such token, though the model's
    configuration does.
    """
    named = (tokenizer.bos_token_id, find_setting(config, "bos_token_id"), tokenizer.eos_token_id)
    candidates = (*named, *sorted(stop_ids))
    return next((i for i in candidates if type(i) is int and 0 <= i < num_logits), None)


def find_setting(config: Mapping[str, Any], key: str) -> Any:
    """A setting of the language model; configurations of multimodal models keep it inside."""
    text = config.get("text_config")
    inner = text.get(key) if isinstance(text, dict) else None
    return config.get(key) if config.get(key) is not None else inner


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


def choose_context_length(config: Mapping[str, Any], asked: int | None) -> int:
    """The context in tokens: what the settings ask for, at most what the model was trained for.

    Raises:
        ModelLoadError: where more is asked for than the model has, or the model has none.
    """
    known = [length for key in CONTEXT_KEYS if type(length := find_setting(config, key)) is int]
    trained = known[0] if known else None
    if trained is not None and trained < 1:
        raise ModelLoadError(f"the model's configuration gives a context of {trained} tokens")
    if asked is None:
        return trained or DEFAULT_CONTEXT_LENGTH
    if trained is not None and asked > trained:
        raise ModelLoadError(
            f"context_length {asked} is more than the {trained} tokens the model was trained for"
        )
    return asked
