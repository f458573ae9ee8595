"""Every kind of KV cache, in random models of real architectures: a batch answers as rows alone."""

import gc
import random
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from engine.backend import (
    CacheList,
    ConcatenateKVCache,
    KVCache,
    QuantizedKVCache,
    RotatingKVCache,
    make_prompt_cache,
    mx,
)
from engine.cache_cost import CacheCost
from engine.caches import check_caches, choose_budget, count_logits, measure_cache_cost, mend_masks
from engine.errors import ModelLoadError
from engine.loader import load
from engine.memory import MACHINE_SHARE, read_available_memory
from engine.runner import Runner
from engine.sequence import SequenceParams
from engine.types import SamplingParams
from tests.support.tiny_model import CONFIG, make_model

CHUNK_TOKENS = 128
NUM_IDS = 128
WINDOW = 16
LAYERS = ["sliding_attention", "full_attention"]

# Sizes that most architectures share; each takes what it knows.
SHAPE = {
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "vocab_size": NUM_IDS,
    "max_position_embeddings": 4096,
    "rms_norm_eps": 1e-5,
    "layer_norm_epsilon": 1e-5,
    "norm_eps": 1e-5,
    "rope_theta": 10000.0,
    "attention_bias": False,
    "mlp_bias": False,
    "tie_word_embeddings": False,
    "sliding_window": WINDOW,
    "sliding_window_pattern": 2,
    "query_pre_attn_scalar": 16,
    "rope_local_base_freq": 1000.0,
}
EXPERTS = {
    "num_experts": 4,
    "num_local_experts": 4,
    "num_experts_per_tok": 2,
    "n_routed_experts": 4,
    "n_shared_experts": 1,
    "moe_intermediate_size": 32,
    "shared_expert_intermediate_size": 32,
    "shared_intermediate_size": 32,
    "moe_shared_expert_intermediate_size": 32,
    "norm_topk_prob": True,
    "routed_scaling_factor": 1.0,
    "n_group": 1,
    "topk_group": 1,
    "decoder_sparse_step": 1,
    "mlp_only_layers": [],
}
MAMBA = {
    "state_size": 8,
    "ssm_state_size": 8,
    "conv_kernel": 4,
    "n_groups": 1,
    "use_bias": False,
    "use_conv_bias": True,
    "time_step_rank": 4,
    "time_step_limit": [0.0, 100.0],
    "mamba_num_heads": 4,
    "mamba_head_dim": 16,
    "mamba_n_heads": 4,
    "mamba_d_head": 16,
    "mamba_d_ssm": 64,
    "mamba_d_state": 8,
    "mamba_d_conv": 4,
    "mamba_expand": 2,
    "mamba_n_groups": 1,
    "mamba_conv_bias": True,
    "mamba_proj_bias": False,
}
LATENT = {
    "kv_lora_rank": 16,
    "q_lora_rank": 16,
    "qk_rope_head_dim": 16,
    "qk_nope_head_dim": 16,
    "v_head_dim": 16,
}
GEMMA3N = {
    "num_hidden_layers": 4,
    "layer_types": LAYERS * 2,
    "num_kv_shared_layers": 2,
    "vocab_size_per_layer_input": NUM_IDS,
    "hidden_size_per_layer_input": 16,
    "final_logit_softcapping": 30.0,
    "activation_sparsity_pattern": [0.95, 0.0, 0.0, 0.0],
    "altup_num_inputs": 2,
    "altup_coef_clip": 120.0,
    "altup_correct_scale": True,
    "altup_active_idx": 0,
    "laurel_rank": 8,
}

# model_type: what differs from SHAPE. The cache classes stand at the right.
FAMILIES: dict[str, Mapping[str, Any]] = {
    "llama": {},  # KVCache
    "gpt2": {"n_ctx": 4096, "n_positions": 4096, "n_embd": 64, "n_head": 4, "n_layer": 2},
    "gemma2": {},  # KVCache, scores in groups
    "gemma3_text": {},  # RotatingKVCache and KVCache, as in all with sliding layers
    "gpt_oss": {**EXPERTS, "layer_types": LAYERS},
    "ministral3": {
        "layer_types": LAYERS,
        "rope_parameters": {
            "rope_theta": 10000.0,
            "llama_4_scaling_beta": 0.1,
            "original_max_position_embeddings": 32,
        },
    },
    "gemma3n": {"text_config": {**SHAPE, **GEMMA3N, "model_type": "gemma3n_text"}},  # shared
    "gemma4_text": {**GEMMA3N, "global_head_dim": 32},
    "mamba": {**MAMBA, "intermediate_size": 128},  # ArraysCache
    "mamba2": {**MAMBA, "intermediate_size": 128, "num_heads": 4, "head_dim": 32},
    "rwkv7": {
        "a_low_rank_dim": 8,
        "v_low_rank_dim": 8,
        "gate_low_rank_dim": 8,
        "decay_low_rank_dim": 8,
    },
    "jamba": {  # ArraysCache and KVCache
        **MAMBA,
        **EXPERTS,
        "attn_layer_offset": 1,
        "attn_layer_period": 2,
        "expert_layer_offset": 1,
        "expert_layer_period": 2,
    },
    "nemotron_h": {**MAMBA, **EXPERTS, "hybrid_override_pattern": list("M*")},
    "granitemoehybrid": {
        **MAMBA,
        **EXPERTS,
        "layer_types": ["mamba", "attention"],
        "position_embedding_type": "nope",
        "embedding_multiplier": 1.0,
        "attention_multiplier": 0.25,
        "logits_scaling": 1.0,
        "residual_multiplier": 1.0,
    },
    "lfm2": {
        "full_attn_idxs": [1],
        "conv_bias": False,
        "conv_L_cache": 3,
        "block_dim": 64,
        "block_ff_dim": 96,
        "block_multiple_of": 16,
        "block_ffn_dim_multiplier": 1.0,
        "block_auto_adjust_ff_dim": False,
    },
    "qwen3_next": {
        **EXPERTS,
        "linear_num_value_heads": 4,
        "linear_num_key_heads": 2,
        "linear_key_head_dim": 16,
        "linear_value_head_dim": 16,
        "linear_conv_kernel_dim": 4,
        "partial_rotary_factor": 0.5,
        "full_attention_interval": 2,
    },
    "recurrent_gemma": {  # ArraysCache and RotatingKVCache
        "block_types": ["recurrent", "attention"],
        "attention_window_size": WINDOW,
        "conv1d_width": 4,
        "logits_soft_cap": 30.0,
    },
    "falcon_h1": MAMBA,  # CacheList of ArraysCache and KVCache
    "baichuan_m1": {  # CacheList of ArraysCache and RotatingKVCache or KVCache
        "sliding_window_layers": [0],
        "conv_window": 2,
        "num_swa_attention_heads": 4,
        "num_swa_key_value_heads": 2,
    },
    "deepseek_v32": {  # CacheList of two KVCache
        **LATENT,
        **EXPERTS,
        "index_head_dim": 32,
        "index_n_heads": 2,
        "index_topk": 8,
        "first_k_dense_replace": 1,
    },
    "longcat_flash": {
        **LATENT,
        **EXPERTS,
        "attention_method": "MLA",
        "zero_expert_type": "identity",
        "zero_expert_num": 2,
        "num_layers": 2,
        "ffn_hidden_size": 96,
        "expert_ffn_hidden_size": 32,
        "moe_topk": 2,
        "mla_scale_q_lora": True,
        "mla_scale_kv_lora": True,
    },
}

# Rows: tokens of the prompt, tokens to generate, and the step before which the row joins.
ROWS = ((40, 24, 0), (1, 36, 3), (140, 16, 5), (7, 24, 5), (18, 12, 12))


def make_family(family: str, **size: int) -> Any:
    model = make_model({**SHAPE, "model_type": family, **FAMILIES[family], **size})
    mend_masks(model)
    return model


def make_prompt(row: int, num_tokens: int) -> list[int]:
    dice = random.Random(row)
    return [dice.randrange(NUM_IDS) for _ in range(num_tokens)]


def begin(runner: Runner, name: str, prompt: Sequence[int]) -> None:
    runner.prefill(name, prompt[:-1])
    runner.start(name, prompt[-1], SequenceParams(SamplingParams(temperature=0.0)))


def generate_together(
    model: Any, rows: Sequence[tuple[Sequence[int], int, int]]
) -> list[list[int]]:
    """What the real runner generates for rows of (prompt, tokens, step at which it joins)."""
    runner = Runner(model, CHUNK_TOKENS)
    texts: dict[str, list[int]] = {str(row): [] for row in range(len(rows))}
    wanted = {str(row): num_tokens for row, (_, num_tokens, _) in enumerate(rows)}
    for step in range(1000):
        for row, (prompt, _, joins_at) in enumerate(rows):
            if joins_at == step:
                begin(runner, str(row), prompt)
        for name, token in runner.decode().tokens.items():
            texts[name].append(token.token_id)
        runner.remove({name for name in texts if len(texts[name]) == wanted[name]})
        if all(len(texts[name]) == wanted[name] for name in texts):
            break
    return list(texts.values())


def is_greedy(model: Any, prompt: Sequence[int], text: Sequence[int]) -> bool:
    """Whether mlx-lm's own caches, fed token by token, give the same text.

    Of two tokens that are equal but for rounding either may come.
    """
    caches = make_prompt_cache(model)
    for token in prompt[:-1]:
        mx.eval(model(mx.array([[token]]), cache=caches))
    for previous, token in zip([prompt[-1], *text], text, strict=False):
        logits = model(mx.array([[previous]]), cache=caches)[0, -1]
        highest, spread = logits.max(), logits.max() - logits.min()
        if (highest - logits[token] > 1e-3 * spread).item():
            return False
    return True


@pytest.mark.parametrize("family", FAMILIES)
def test_rows_that_join_and_leave_get_the_texts_that_they_get_alone(family: str) -> None:
    model = make_family(family)
    check_caches(model)
    rows = [(make_prompt(row, ROWS[row][0]), *ROWS[row][1:]) for row in range(len(ROWS))]
    together = generate_together(model, rows)
    for (prompt, num_tokens, _), text in zip(rows, together, strict=True):
        [alone] = generate_together(model, [(prompt, num_tokens, 0)])
        assert is_greedy(model, prompt, alone)
        assert text == alone or is_greedy(model, prompt, text)
    # The comparison means something: texts have several tokens and depend on what came before.
    prompt, num_tokens, _ = rows[0]
    changed = [*prompt[:-2], (prompt[-2] + 1) % NUM_IDS, prompt[-1]]
    assert len({token for text in together for token in text}) > 10
    assert generate_together(model, [(changed, num_tokens, 0)]) != together[:1]


AFM7 = {
    "hidden_dim": 64,
    "hidden_dim_scale_factor": 1.5,
    "num_layers": 3,
    "num_kv_reuse_layers": 1,
    "num_heads": 4,
    "num_kv_heads": 2,
}
REFUSED: dict[str, tuple[Mapping[str, Any], str]] = {
    "afm7": (AFM7, "in a batch they answer differently"),
    "gpt_bigcode": ({"n_embd": 64, "n_head": 4, "n_layer": 2, "n_inner": 96}, "fail in a batch"),
    "longcat_flash_ngram": (
        {
            **FAMILIES["longcat_flash"],
            "ngram_vocab_size_ratio": 4,
            "emb_neighbor_num": 3,
            "emb_split_num": 2,
        },
        "fail in a batch",
    ),
    "llama4": (
        {
            "text_config": {
                **SHAPE,
                **EXPERTS,
                "model_type": "llama4_text",
                "num_experts_per_tok": 1,
                "interleave_moe_layer_step": 1,
                "intermediate_size_mlp": 96,
                "attention_chunk_size": WINDOW,
                "rope_scaling": None,
                "use_qk_norm": True,
            }
        },
        "their ChunkedKVCache is not made for a batch",
    ),
}


@pytest.mark.parametrize("family", REFUSED)
def test_a_model_that_cannot_be_batched_is_refused(family: str) -> None:
    config, reason = REFUSED[family]
    extra = {"n_positions": 4096, "multi_query": False, "attention_bias": True}
    model = make_model({**SHAPE, **extra, **config, "model_type": family})
    with pytest.raises(ModelLoadError, match=f"models of type {family} .*{reason}"):
        check_caches(model)


def test_a_model_whose_mask_lacks_an_axis_is_refused_until_it_is_mended() -> None:
    model = make_model({**SHAPE, "model_type": "gemma2"})
    with pytest.raises(ModelLoadError, match="models of type gemma2 cannot be served"):
        check_caches(model)
    mend_masks(model)
    check_caches(model)


@pytest.mark.parametrize(
    ("make_cache", "reason"),
    [
        (lambda: RotatingKVCache(WINDOW, keep=4), "keep the first 4 tokens"),
        (ConcatenateKVCache, "ConcatenateKVCache is not made for a batch"),
        (QuantizedKVCache, "QuantizedKVCache is not made for a batch"),
        (lambda: CacheList(KVCache(), QuantizedKVCache()), "QuantizedKVCache"),
    ],
)
def test_a_kind_of_cache_that_cannot_be_batched_is_refused(
    make_cache: Callable[[], Any], reason: str
) -> None:
    model = make_model(CONFIG)
    object.__setattr__(model, "make_cache", lambda: [make_cache() for _ in model.layers])
    with pytest.raises(ModelLoadError, match=f"models of type llama cannot be served: .*{reason}"):
        check_caches(model)


def test_a_model_that_computes_no_numbers_is_refused() -> None:
    model = make_model(CONFIG)
    model.model.norm.weight = mx.full((64,), float("nan"))
    with pytest.raises(ModelLoadError, match="not numbers"):
        check_caches(model)


COSTS = {
    "llama": CacheCost(token_bytes=2 * 2 * 2 * 16 * 4),
    "gemma3_text": CacheCost(2 * 2 * 16 * 4, windows=((WINDOW, 2 * 2 * 16 * 4),)),
    "gemma4_text": CacheCost(2 * 2 * 32 * 4, windows=((WINDOW, 2 * 2 * 16 * 4),)),
    "lfm2": CacheCost(2 * 2 * 16 * 4, row_bytes=2 * 64 * 4),
    "deepseek_v32": CacheCost(2 * (16 + 16 + 32 + 32) * 4),  # the indexer's keys stand twice
    "recurrent_gemma": CacheCost(0, ((WINDOW, 2 * 16 * 4),), row_bytes=(3 * 64 + 64) * 4),
}


@pytest.mark.parametrize("family", COSTS)
def test_what_a_cache_takes_is_measured(family: str) -> None:
    assert measure_cache_cost(make_family(family)) == COSTS[family]


def measure_growth(model: Any, num_rows: int, num_tokens: int) -> int:
    """Bytes by which MLX's memory grows for a batch of rows of which one is long."""
    runner = Runner(model, CHUNK_TOKENS)
    gc.collect()  # or models of other tests are freed in the midst of it
    mx.clear_cache()
    before = mx.get_active_memory()
    for row in range(num_rows):
        begin(runner, str(row), make_prompt(row, num_tokens if row == 0 else 20))
    for _ in range(3):
        runner.decode()
    assert runner._batch is not None
    mx.eval([layer.state for layer in runner._batch._cache])
    return mx.get_active_memory() - before


@pytest.mark.parametrize(
    ("family", "size"),
    [
        ("llama", {}),
        ("gemma3_text", {"sliding_window": 512}),
        ("recurrent_gemma", {"attention_window_size": 512}),
        ("jamba", {}),
        ("mamba", {"state_size": 512}),
        ("falcon_h1", {"mamba_d_state": 1024}),
        ("deepseek_v32", {}),
    ],
)
def test_the_estimate_is_never_below_what_a_batch_takes_and_not_far_above(
    family: str, size: Mapping[str, int]
) -> None:
    model = make_family(family, **size)
    estimate = measure_cache_cost(model).batch_bytes(4, 703)
    growth = measure_growth(model, 4, 700)
    others = 65_536  # logits and what else is in flight
    assert growth - others <= estimate <= 1.5 * growth


def test_the_default_models_estimate_is_true(smollm2_folder: Path) -> None:
    loaded = load(smollm2_folder, "float32", None, None)
    assert loaded.cache_cost == CacheCost(token_bytes=30 * 2 * 3 * 64 * 4)
    assert loaded.num_logits == len(loaded.vocabulary) == 49152
    growth = measure_growth(loaded.model, 2, 300)
    assert growth <= loaded.cache_cost.batch_bytes(2, 303) <= 1.5 * growth


def test_a_budget_is_as_asked_for_or_what_is_left() -> None:
    assert choose_budget(12345) == 12345
    chosen = choose_budget(None)
    if mx.default_device() == mx.cpu:
        assert chosen == pytest.approx(read_available_memory() * MACHINE_SHARE, rel=0.2)
    assert chosen > 2**20


def test_a_models_logits_are_counted() -> None:
    assert count_logits(make_model(CONFIG)) == CONFIG["vocab_size"]
