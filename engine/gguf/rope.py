"""How a file says that positions turn: the base of the frequencies, and what stretches them."""

import math
from typing import Any

import numpy as np
from gguf import Keys

from engine.gguf.reader import FloatArray, GgufFile

ROPE_FACTORS = "rope_freqs.weight"
DEFAULT_ROPE_BASE = 10_000.0
# Llama 3.1's rope scaling; of the published models up to 3.3 only the factor differs.
LOW_FREQ_FACTOR, HIGH_FREQ_FACTOR, ORIGINAL_CONTEXT = 1.0, 4.0, 8192

SCALING_PREFIX = "{arch}.rope.scaling."
# `finetuned` tells of training and changes nothing. Other keys change YaRN's formula.
KNOWN_SCALING_KEYS = frozenset(
    {
        Keys.Rope.SCALING_TYPE,
        Keys.Rope.SCALING_FACTOR,
        Keys.Rope.SCALING_ORIG_CTX_LEN,
        Keys.Rope.SCALING_FINETUNED,
    }
)


def read_rope_base(file: GgufFile) -> float:
    """The base of the rotary frequencies."""
    return file.find_positive(file.model_key(Keys.Rope.FREQ_BASE)) or DEFAULT_ROPE_BASE


def read_rope_scaling(file: GgufFile) -> dict[str, Any] | None:
    """How positions beyond the first training length are stretched; None where they are not.

    Raises:
        ModelLoadError: the file stretches them in a way that is not known here.
    """
    known = {file.model_key(key) for key in KNOWN_SCALING_KEYS}
    prefix = file.model_key(SCALING_PREFIX)
    unknown = [key for key in file.keys - known if key.startswith(prefix)]
    if unknown:
        raise file.error(f"its rope scaling by {min(unknown)} is not supported")
    kind = file.find(file.model_key(Keys.Rope.SCALING_TYPE), str) or "none"
    match kind:
        case "none":
            return None
        case "linear":
            factor = file.need_positive(file.model_key(Keys.Rope.SCALING_FACTOR))
            return {"rope_type": "linear", "factor": factor}
        case "yarn":
            return read_yarn(file)
    raise file.error(f"its rope scaling {kind} is not supported")


def read_yarn(file: GgufFile) -> dict[str, Any]:
    """YaRN's two numbers; the others have one value in all published models.

    Raises:
        ModelLoadError: one is missing or impossible.
    """
    factor = file.need_positive(file.model_key(Keys.Rope.SCALING_FACTOR))
    original = file.need(file.model_key(Keys.Rope.SCALING_ORIG_CTX_LEN), int)
    if factor < 1 or original < 1:
        raise file.error(f"its rope scaling by {factor} from {original} tokens is impossible")
    return {
        "rope_type": "yarn",
        "factor": factor,
        "original_max_position_embeddings": original,
    }


def recover_llama3_scaling(file: GgufFile, head_dim: int, base: float) -> dict[str, Any]:
    """Turn the tensor of frequency divisors back into the numbers that it was made from.

    Raises:
        ModelLoadError: it was made from others than Llama 3.1's.
    """
    # The shape comes first: `head_dim` may be any number yet.
    if file.shape(ROPE_FACTORS) == (head_dim // 2,):
        found = file.read(ROPE_FACTORS)
        factor = float(found.max())
        if factor >= 1 and np.allclose(found, llama3_divisors(head_dim, base, factor), rtol=1e-3):
            return {
                "rope_type": "llama3",
                "factor": factor,
                "low_freq_factor": LOW_FREQ_FACTOR,
                "high_freq_factor": HIGH_FREQ_FACTOR,
                "original_max_position_embeddings": ORIGINAL_CONTEXT,
            }
    raise file.error(f"its tensor {ROPE_FACTORS} is not the rope scaling of a Llama 3.1")


def llama3_divisors(head_dim: int, base: float, factor: float) -> FloatArray:
    """Divisors of the rotary frequencies, one a pair of dimensions: shape (head_dim / 2,).

    Hugging Face's formula for `rope_type: llama3`: waves longer than the original context are
    stretched by `factor`, those shorter than a quarter of it not at all, those between in part.
    """
    with np.errstate(all="ignore"):  # an absurd base overflows, and then fits no tensor
        wavelengths = 2 * math.pi * base ** (np.arange(0, head_dim, 2) / head_dim)
        turns = ORIGINAL_CONTEXT / wavelengths
    kept = np.clip((turns - LOW_FREQ_FACTOR) / (HIGH_FREQ_FACTOR - LOW_FREQ_FACTOR), 0, 1)
    return (1 / ((1 - kept) / factor + kept)).astype(np.float32)
