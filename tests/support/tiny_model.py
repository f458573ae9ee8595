"""A random llama of two layers with a byte-level tokenizer: real parts, milliseconds a step.

And random models of any other architecture, without a tokenizer.
"""

import json
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from engine.backend import load_model, mx, nn

VOCAB_SIZE, EOS_ID = 258, 257
CONFIG = {
    "model_type": "llama",
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "intermediate_size": 128,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "rms_norm_eps": 1e-5,
    "vocab_size": VOCAB_SIZE,
    "max_position_embeddings": 4096,
    "tie_word_embeddings": True,
    "eos_token_id": EOS_ID,
}
TEMPLATE = (
    "{% for message in messages %}<|turn|>{{ message.role }}: {{ message.content }}\n"
    "{% if message.content == 'refuse me' %}{{ raise_exception('no such turn') }}{% endif %}"
    "{% endfor %}{% if add_generation_prompt %}<|turn|>assistant: {% endif %}"
)


def save_tiny_model(folder: Path, template: str | None = TEMPLATE, **settings: Any) -> Path:
    """Write the model in Hugging Face's layout; the same weights at every call.

    `settings` take the place of those in CONFIG.
    """
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "model.safetensors").unlink(missing_ok=True)
    (folder / "config.json").write_text(json.dumps({**CONFIG, **settings}))
    mx.random.seed(7)
    model, _ = load_model(folder, strict=False)
    model.save_weights(str(folder / "model.safetensors"))
    make_tokenizer(template).save_pretrained(folder)
    return folder


def make_tokenizer(template: str | None) -> PreTrainedTokenizerFast:
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {character: index for index, character in enumerate(alphabet)}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(["<|turn|>", "<|end|>"])
    return PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]
        tokenizer_object=tokenizer, eos_token="<|end|>", chat_template=template
    )


def make_model(config: Mapping[str, Any]) -> Any:
    """A model of the architecture that `config` describes; the same weights at every call."""
    architecture = import_module(f"mlx_lm.models.{config['model_type']}")
    mx.random.seed(7)
    model = architecture.Model(architecture.ModelArgs.from_dict(dict(config)))
    model.eval()
    model.apply_to_modules(stir)
    mx.eval(model.parameters())
    return model


def stir(_: str, module: Any) -> None:
    """Give a module weights under which the likeliest token depends on the tokens before it.

    MLX begins with small ones, and with zeros where a trained model has none; beside those of the
    embeddings they would count for little.
    """
    if isinstance(module, nn.Embedding):  # type: ignore[attr-defined]
        return
    for name, weights in module.items():
        if not isinstance(weights, mx.array) or weights.dtype != mx.float32:
            continue
        if not weights.any().item():
            module[name] = mx.random.normal(weights.shape) * 0.3
        elif weights.ndim > 1:
            module[name] = weights * 4
