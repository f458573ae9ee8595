"""Real models from GGUF files speak as llama.cpp and transformers say they should."""

import gc
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sentencepiece import SentencePieceProcessor
from transformers import (
    Gemma3ForCausalLM,
    Gemma3TextConfig,
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedModel,
    PreTrainedTokenizerBase,
    Qwen2Config,
    Qwen2ForCausalLM,
)
from transformers.initialization import no_init_weights
from transformers.modeling_gguf_pytorch_utils import load_gguf_checkpoint
from xgrammar import TokenizerInfo

from configs.paths import cache_folder
from engine.backend import load_model, load_tokenizer, mx
from engine.gguf.reader import GgufFile
from tests.engine.gguf_fixtures import (
    Array,
    load_fast,
    make_sentence_piece,
    read_json,
    resolve,
)
from tests.support.fetch_test_models import fetch

SMOLLM2, QWEN, GEMMA = "smollm2-135m", "qwen2.5-coder-0.5b", "gemma-3-270m"


@dataclass(frozen=True, slots=True)
class RealModel:
    """A file as published, the folder made of it, and that folder's tokenizer."""

    path: Path
    folder: Path
    tokenizer: PreTrainedTokenizerBase


def fetch_and_convert(name: str) -> RealModel:
    """Both are kept between runs, in the cache that the server uses too."""
    cache = cache_folder(os.environ)
    path = fetch(name, cache / "test-models")
    folder = resolve(path, cache)
    return RealModel(path, folder, load_fast(folder))


@pytest.fixture(scope="module")
def smollm2_model(smollm2_folder: Path) -> RealModel:
    path = fetch(SMOLLM2, cache_folder(os.environ) / "test-models")
    return RealModel(path, smollm2_folder, load_fast(smollm2_folder))


@pytest.fixture(scope="module")
def qwen_model() -> RealModel:
    return fetch_and_convert(QWEN)


@pytest.fixture(scope="module")
def gemma_model() -> RealModel:
    return fetch_and_convert(GEMMA)


# Tokens


SMOLLM2_IDS = {
    "1.\n\n2.": [33, 30, 1116, 34, 30],
    "    1": [289, 33],
    "12345 678": [33, 34, 35, 36, 37, 216, 38, 39, 40],
    "½ ² ٣": [16738, 216, 19133, 216, 164, 113],
    "I'll it's": [57, 3060, 357, 506],
    "👩‍👩‍👧‍👦": [
        *[10813, 235, 119, 321, 231, 10813, 235, 119, 321, 231],
        *[10813, 235, 117, 321, 231, 10813, 235, 116],
    ],
    "👍🏽 ❤️": [10813, 235, 231, 10813, 233, 138, 4636, 247, 114, 31752],
    "🇫🇷🇩🇪": [10813, 225, 121, 10813, 225, 132, 10813, 225, 119, 10813, 225, 120],
    "🏴\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f": [
        *[10813, 233, 129, 188, 250, 219, 117, 188, 250, 219, 112, 188, 250, 219, 115],
        *[188, 250, 219, 123, 188, 250, 219, 117, 188, 250, 219, 140],
    ],
    "def f(x):\n\treturn x**2  # ok\n": [
        *[1604, 275, 24, 104, 727, 198, 197, 5406, 1792, 828, 34, 216, 907, 10907, 198]
    ],
    "日本語と한국어, русский, עברית": [
        *[23274, 115, 40993, 179, 120, 248, 7365, 118, 33085, 246, 181, 130, 251, 183, 240, 129],
        *[28, 216, 9175, 14714, 9382, 39511, 7872, 24958, 28, 12960, 112, 37657, 30825, 28532],
        120,
    ],
    "x\u00a0y\u3000z\r\n\r\n  ": [104, 15442, 105, 12109, 218, 106, 18682, 256],
    "<|im_start|>user\nHi<|im_end|>\n": [1, 4093, 198, 26843, 2, 198],
    "a<|endoftext|>b": [81, 0, 82],
}
QWEN_IDS = {
    "1.\n\n2.": [16, 382, 17, 13],
    "    1": [262, 220, 16],
    "12345 678": [16, 17, 18, 19, 20, 220, 21, 22, 23],
    "½ ² ٣": [26062, 220, 29456, 220, 149, 96],
    "I'll it's": [40, 3278, 432, 594],
    "I'LL IT'S don't": [40, 6, 4086, 8700, 13272, 1513, 944],
    "👩‍👩‍👧‍👦": [145233, 378, 235, 145233, 378, 235, 145665, 378, 235, 145988],
    "👍🏽 ❤️": [144349, 145375, 70470, 30543],
    "🇫🇷🇩🇪": [145919, 145070, 145862, 145336],
    "def f(x):\n\treturn x**2  # ok\n": [
        *[750, 282, 2075, 982, 853, 856, 334, 17, 220, 671, 5394, 198]
    ],
    "日本語と한국어, русский, עברית": [
        *[101059, 102819, 19182, 23573, 124785, 31079, 11, 18108, 43055, 126302, 11, 131917],
        123826,
    ],
    "x\u00a0y\u3000z\r\n\r\n  ": [87, 4102, 88, 22441, 89, 871, 256],
    "𝔹𐎠 籙": [124026, 117, 151254, 254, 68433, 247],
    "\x00a\x01": [188, 64, 189],
    "<|im_start|>user\nHi<|im_end|>\n": [151644, 872, 198, 13048, 151645, 198],
    "a<tool_call>b": [64, 151657, 65],
}
GEMMA_IDS = {
    "1.\n\n2.": [236770, 236761, 108, 236778, 236761],
    "    1": [140, 236770],
    "12345 678": [236770, 236778, 236800, 236812, 236810, 236743, 236825, 236832, 236828],
    "½ ² ٣": [238612, 145191, 223766],
    "I'll it's": [236777, 236789, 859, 625, 236789, 236751],
    "👩‍👩‍👧‍👦": [243767, 237243, 243767, 237243, 244814, 237243, 244990],
    "👍🏽 ❤️": [240493, 242713, 64813],
    "🇫🇷🇩🇪": [246598, 242644, 246841, 245562],
    "def f(x):\n\treturn x**2  # ok\n": [
        *[2063, 517, 236769, 236781, 1473, 107, 255968, 2060, 1123, 1018, 236778, 138, 236865],
        *[7546, 107],
    ],
    "日本語と한국어, русский, עברית": [
        *[94951, 237032, 114216, 237430, 236764, 170362, 236764, 11173, 104154, 237270]
    ],
    "x\u00a0y\u3000z\r\n\r\n  ": [
        *[236781, 432, 398, 236762, 465, 366, 366, 236802, 251, 107, 251, 107, 138]
    ],
    "𝔹𐎠 籙": [255967, 478, 382, 380, 398, 236743, 255963],
    "\x00a\x01": [238, 236746, 249732],
    "\n\n\n x": [109, 1123],
    "trailing   ": [136697, 139],
    "<0x0A>": [236820, 236771, 236781, 236771, 236776, 236813],
    "<table><tr><td>1</td></tr></table>": [168, 173, 175, 236770, 183, 181, 176],
    "<start_of_turn>user\nHi<end_of_turn>\n": [105, 2364, 107, 10979, 106, 107],
}
"""What llama.cpp's own tokenizer gives for the same files, recorded once."""


def name_cases(cases: dict[str, list[int]]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize(("text", "ids"), cases.items(), ids=map(ascii, cases))


@name_cases(SMOLLM2_IDS)
def test_smollm2_is_tokenized_as_llama_cpp_does(
    smollm2_model: RealModel, text: str, ids: list[int]
) -> None:
    assert smollm2_model.tokenizer.encode(text) == ids
    assert smollm2_model.tokenizer.decode(ids) == text


@name_cases(QWEN_IDS)
def test_qwen_is_tokenized_as_llama_cpp_does(
    qwen_model: RealModel, text: str, ids: list[int]
) -> None:
    assert qwen_model.tokenizer.encode(text) == ids
    assert qwen_model.tokenizer.decode(ids) == text


@name_cases(GEMMA_IDS)
def test_gemma_is_tokenized_as_llama_cpp_does(
    gemma_model: RealModel, text: str, ids: list[int]
) -> None:
    assert gemma_model.tokenizer.encode(text) == [2, *ids]
    assert gemma_model.tokenizer.decode(ids) == text


# The bytes that SmolLM2's vocabulary has no token for: six control characters, and the first bytes
# of planes 4 to 11, where nothing is assigned. Its original tokenizer drops them too.
UNKNOWN_BYTES = frozenset(b"\x04\x06\x13\x14\x16\x1d\xf1\xf2")


@settings(max_examples=300, deadline=None)
@given(text=st.text())
def test_text_survives_smollm2s_tokenizer(smollm2_model: RealModel, text: str) -> None:
    tokenizer = smollm2_model.tokenizer
    text = "".join(c for c in text if UNKNOWN_BYTES.isdisjoint(c.encode("utf-8", "replace")))
    text = text.encode("utf-8", "replace").decode()
    assert tokenizer.decode(tokenizer.encode(text)) == text


def test_smollm2s_special_tokens_end_and_frame_a_turn(smollm2_model: RealModel) -> None:
    tokenizer = smollm2_model.tokenizer
    wrapper = load_tokenizer(smollm2_model.folder, eos_token_ids=[0, 2])
    assert wrapper.eos_token_ids == {0, 2}
    assert sorted(tokenizer.all_special_ids) == list(range(17))
    assert tokenizer.decode([1, 4093, 2], skip_special_tokens=True) == "user"
    prompt = tokenizer.apply_chat_template(
        [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "1+1?"}],
        add_generation_prompt=True,
        tokenize=False,
    )
    assert prompt == (
        "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\n1+1?<|im_end|>\n"
        "<|im_start|>assistant\n"
    )


@pytest.fixture(scope="module")
def gemma_pieces(gemma_model: RealModel) -> SentencePieceProcessor:
    file = GgufFile(gemma_model.path)
    return make_sentence_piece(
        file.need_list("tokenizer.ggml.tokens", str),
        file.need_list("tokenizer.ggml.scores", float),
        file.need_list("tokenizer.ggml.token_type", int),
        adds_space=False,
    )


@pytest.fixture(scope="module")
def gemma_bytes(gemma_model: RealModel) -> list[bytes]:
    """The bytes of each piece, as the engine's loader asks for them."""
    vocabulary: list[bytes] = TokenizerInfo.from_huggingface(gemma_model.tokenizer).decoded_vocab
    return vocabulary


WORDS = st.sampled_from(
    [*"  \n\n\taAeinrst.,'09é日本あ한ж👍\u200d", "the ", "haha", "   ", "return ", "</td>", "1234"]
)


@settings(max_examples=300, deadline=None)
@given(text=st.lists(WORDS, max_size=40).map("".join) | st.text(max_size=60))
def test_gemmas_pieces_are_sentencepieces_and_their_bytes_the_text(
    gemma_model: RealModel,
    gemma_pieces: SentencePieceProcessor,
    gemma_bytes: list[bytes],
    text: str,
) -> None:
    text = text.encode("utf-8", "replace").decode()
    tokenizer = gemma_model.tokenizer
    ids = tokenizer.encode(text, add_special_tokens=False)
    assert ids == gemma_pieces.encode(text)
    decoded = tokenizer.decode(ids)
    assert decoded == text.replace("▁", " ")
    assert b"".join(gemma_bytes[token_id] for token_id in ids).decode() == decoded


def test_gemmas_pieces_have_the_bytes_that_they_stand_for(
    gemma_model: RealModel, gemma_bytes: list[bytes]
) -> None:
    ids = gemma_model.tokenizer.get_vocab()
    assert len(gemma_bytes) == len(ids) == 262_144
    expected = {
        "▁the": b" the",
        "▁▁▁▁": b"    ",
        "\n\n": b"\n\n",
        "<table>": b"<table>",
        **{f"<0x{byte:02X}>": bytes([byte]) for byte in range(256)},
    }
    for piece, content in expected.items():
        assert gemma_bytes[ids[piece]] == content


def test_the_ends_of_a_turn_stop_qwen_and_gemma(
    qwen_model: RealModel, gemma_model: RealModel
) -> None:
    for model, ends in ((qwen_model, [151643, 151645]), (gemma_model, [1, 106])):
        assert read_json(model.folder / "config.json")["eos_token_id"] == ends


# Logits


def make_smollm2() -> PreTrainedModel:
    return LlamaForCausalLM(
        LlamaConfig(
            vocab_size=49152,
            hidden_size=576,
            intermediate_size=1536,
            num_hidden_layers=30,
            num_attention_heads=9,
            num_key_value_heads=3,
            max_position_embeddings=8192,
            rms_norm_eps=1e-5,
            rope_parameters={"rope_type": "default", "rope_theta": 100_000.0},
            tie_word_embeddings=True,
        )
    )


def make_qwen() -> PreTrainedModel:
    """As published, but for the output: the file has a quantized copy of the embedding for it."""
    return Qwen2ForCausalLM(
        Qwen2Config(
            vocab_size=151936,
            hidden_size=896,
            intermediate_size=4864,
            num_hidden_layers=24,
            num_attention_heads=14,
            num_key_value_heads=2,
            max_position_embeddings=32768,
            rms_norm_eps=1e-6,
            rope_parameters={"rope_type": "default", "rope_theta": 1_000_000.0},
            tie_word_embeddings=False,
        )
    )


def make_gemma() -> PreTrainedModel:
    """Embeddings are scaled by the root of their length as bfloat16 holds it, which is how Gemma
    was trained and how mlx-lm computes; transformers rounds only where all is bfloat16."""
    local, whole = "sliding_attention", "full_attention"
    model: PreTrainedModel = Gemma3ForCausalLM(
        Gemma3TextConfig(
            vocab_size=262_144,
            hidden_size=640,
            intermediate_size=2048,
            num_hidden_layers=18,
            num_attention_heads=4,
            num_key_value_heads=1,
            head_dim=256,
            query_pre_attn_scalar=256,
            max_position_embeddings=32768,
            rms_norm_eps=1e-6,
            sliding_window=512,
            layer_types=[*[local] * 5, whole] * 3,
            rope_parameters={
                local: {"rope_type": "default", "rope_theta": 10_000.0},
                whole: {"rope_type": "default", "rope_theta": 1_000_000.0},
            },
        )
    )
    rounded = torch.tensor(model.config.hidden_size**0.5).bfloat16().float()
    model.get_submodule("model.embed_tokens").embed_scale = rounded
    return model


def load_with_transformers(make: Callable[[], PreTrainedModel], path: Path) -> PreTrainedModel:
    """The model as published, its weights read by transformers' own reader of GGUF files."""
    with no_init_weights():
        model = make()
    checkpoint = load_gguf_checkpoint(  # type: ignore[no-untyped-call]
        path, return_tensors=True, model_to_load=model
    )
    result = model.load_state_dict(checkpoint["tensors"], strict=False)
    tied = ["lm_head.weight"] if model.config.tie_word_embeddings else []
    assert (result.missing_keys, result.unexpected_keys) == (tied, [])
    model.tie_weights()
    return model


def generate(
    make: Callable[[], PreTrainedModel], path: Path, prompt: list[int], num_tokens: int
) -> tuple[list[int], Array]:
    """The likeliest continuation by transformers, and the logits of prompt and continuation."""
    model: Any = load_with_transformers(make, path)
    with torch.no_grad():
        output = model.generate(
            torch.tensor([prompt]), max_new_tokens=num_tokens, do_sample=False, eos_token_id=None
        )
        logits: Array = model(output).logits[0].numpy()
    return output[0].tolist(), logits


CHAT = "<|im_start|>user\nName the capital of France.<|im_end|>\n<|im_start|>assistant\n"
MIXED = "Zürich, 東京. 👩‍👩‍👧‍👦 1.\n\n2.\n    x = 1\n"
CODE = "def fibonacci(n):\n"


@pytest.mark.parametrize(
    ("name", "make", "text", "continuation"),
    [
        (SMOLLM2, make_smollm2, MIXED + CHAT, "The capital of France is Paris.<|im_end|>"),
        (QWEN, make_qwen, MIXED + CHAT, "The capital of France is Paris.<|im_end|>"),
        (GEMMA, make_gemma, MIXED + CODE, "    if n == 0:\n        return 0\n    elif n == 1:\n"),
    ],
    ids=[SMOLLM2, QWEN, GEMMA],
)
def test_logits_and_greedy_text_are_those_of_transformers(
    request: pytest.FixtureRequest,
    name: str,
    make: Callable[[], PreTrainedModel],
    text: str,
    continuation: str,
) -> None:
    fixture = {SMOLLM2: "smollm2_model", QWEN: "qwen_model", GEMMA: "gemma_model"}[name]
    real: RealModel = request.getfixturevalue(fixture)
    prompt = real.tokenizer.encode(text)
    ids, expected = generate(make, real.path, prompt, 24)
    assert str(real.tokenizer.decode(ids[len(prompt) :])).startswith(continuation)
    gc.collect()
    model, _ = load_model(real.folder)
    found = np.array(model(mx.array([ids]))[0])
    difference = float(np.abs(found - expected).max())
    assert difference < 1e-2, "8e-5 to 1e-4 were measured, of logits up to 41"
    # As the likeliest token is the same at every place, so is the whole greedy text.
    np.testing.assert_array_equal(found.argmax(-1), expected.argmax(-1))
