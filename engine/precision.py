"""Which number type a model's weights get; decided without importing MLX, so anyone can ask."""

import importlib.util
import platform
import sys
from typing import Literal

DType = Literal["float32", "float16", "bfloat16"]
Precision = Literal["auto", "float32", "float16", "bfloat16"]


def has_accelerated_mlx() -> bool:
    """Whether the installed MLX computes on a GPU: Metal on Apple silicon, or the CUDA build."""
    if sys.platform == "darwin":
        return platform.machine() == "arm64"
    return any(importlib.util.find_spec(f"mlx_cuda_{n}") for n in (12, 13))


def choose_dtype(precision: Precision) -> DType | None:
    """The type to hold weights in; None keeps what the files have, quantised weights too.

    On a CPU only float32 products reach a BLAS: bfloat16, float16 and quantised ones run on one
    scalar loop, 5 to 20 times slower, so `auto` means float32 there.
    """
    if precision != "auto":
        return precision
    return None if has_accelerated_mlx() else "float32"


def choose_conversion_dtype(precision: Precision) -> DType:
    """The type that a converted GGUF file is written in, where `choose_dtype` may leave it open."""
    return choose_dtype(precision) or "float16"
