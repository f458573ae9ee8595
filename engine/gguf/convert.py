"""One GGUF file turned into one folder that mlx-lm and transformers can load."""

import json
from collections.abc import Mapping
from pathlib import Path

from engine.gguf.architecture import Architecture, make_config, read_shape
from engine.gguf.gemma3 import GEMMA3
from engine.gguf.llama import LLAMA
from engine.gguf.qwen2 import QWEN2
from engine.gguf.qwen3 import QWEN3
from engine.gguf.reader import GgufFile
from engine.gguf.tokenizer import build_tokenizer, make_tokenizer_config
from engine.gguf.vocabulary import read_vocabulary
from engine.gguf.weights import plan_tensors, write_safetensors
from engine.precision import DType

# Raise it whenever the same GGUF file gives another folder: old folders are then left unused.
CONVERTER_VERSION = 2
MODEL_FILES = ("config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json")
ARCHITECTURES: Mapping[str, Architecture] = {
    "gemma3": GEMMA3,
    "llama": LLAMA,
    "qwen2": QWEN2,
    "qwen3": QWEN3,
}


def convert_gguf(path: Path, folder: Path, *, dtype: DType, show_progress: bool) -> None:
    """Fill an empty folder with the model of a GGUF file, its weights dequantized to `dtype`.

    Whatever can be wrong with the file is found before the weights, the long part, are written;
    only damaged numbers are found on the way.

    Raises:
        ModelLoadError: the file is damaged, or of a kind that is not known here.
        OSError: the folder cannot be written.
    """
    file = GgufFile(path)
    architecture = choose_architecture(file)
    vocabulary = read_vocabulary(file)
    shape = read_shape(file, len(vocabulary.tokens))
    tokenizer = build_tokenizer(file, vocabulary)
    tensors = plan_tensors(file, architecture, shape)
    config = make_config(file, architecture, shape)
    write_json(
        folder / "config.json",
        {
            **config,
            "torch_dtype": dtype,
            "bos_token_id": vocabulary.bos_id,
            "eos_token_id": vocabulary.stop_ids,
            "pad_token_id": vocabulary.pad_id,
        },
    )
    context_length = config["max_position_embeddings"]
    write_json(
        folder / "tokenizer_config.json",
        make_tokenizer_config(file, vocabulary, tokenizer, context_length),
    )
    (folder / "tokenizer.json").write_text(tokenizer.to_str(), encoding="utf-8")
    write_safetensors(
        file,
        tensors,
        shape,
        folder / "model.safetensors",
        dtype=dtype,
        show_progress=show_progress,
    )


def choose_architecture(file: GgufFile) -> Architecture:
    """Look the file's family up.

    Raises:
        ModelLoadError: the family is not known here.
    """
    architecture = ARCHITECTURES.get(file.architecture)
    if architecture is None:
        known = ", ".join(sorted(ARCHITECTURES))
        raise file.error(f"its architecture {file.architecture} is not one of: {known}")
    return architecture


def write_json(path: Path, content: Mapping[str, object]) -> None:
    path.write_text(json.dumps(content, ensure_ascii=False, indent=2), encoding="utf-8")


def is_complete(folder: Path) -> bool:
    """Whether a folder has all the files of a converted model."""
    return all((folder / name).is_file() for name in MODEL_FILES)
