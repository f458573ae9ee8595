"""The one door to MLX and mlx-lm: it preloads a fast BLAS and then imports them, in this order.

On Linux without a GPU, MLX multiplies through the reference BLAS of its wheel, which is 20 to 100
times slower than the machine. libmlx calls `sgemm_`, and the dynamic linker takes the first one in
the global scope, so loading PyTorch's CPU library (which holds MKL) with RTLD_GLOBAL before MLX
replaces it. Once MLX is imported it is too late; hence every other module takes `mx`, `nn` and the
parts of mlx-lm from here.
"""

import ctypes
import importlib.util
import logging
import os
import sys
import time
from pathlib import Path
from typing import Any

logger = logging.getLogger(__name__)


def find_blas() -> Path | None:
    """Where PyTorch's CPU library lies, found without importing torch; None if it is not there."""
    spec = importlib.util.find_spec("torch")
    if spec is None or spec.origin is None:
        return None
    library = Path(spec.origin).parent / "lib" / "libtorch_cpu.so"
    return library if library.exists() else None


def preload_blas() -> Path | None:
    """Put a fast `sgemm_` ahead of MLX's own; on platforms whose MLX brings one, do nothing."""
    if sys.platform != "linux":
        return None
    library = find_blas()
    if library is None:
        return None
    try:
        ctypes.CDLL(str(library), mode=ctypes.RTLD_GLOBAL)
    except OSError as error:
        logger.warning("cannot preload %s, matrix products will be slow: %s", library, error)
        return None
    return library


BLAS = preload_blas()

import mlx.core as mx  # noqa: E402, TID251
import mlx.nn as nn  # noqa: E402, TID251
from mlx_lm.models.cache import (  # noqa: E402, TID251
    ArraysCache,
    BatchKVCache,
    BatchRotatingKVCache,
    CacheList,
    ConcatenateKVCache,
    KVCache,
    QuantizedKVCache,
    RotatingKVCache,
    make_prompt_cache,
)
from mlx_lm.utils import (  # noqa: E402, TID251
    dequantize_model,
    load_model,
    load_tokenizer,
    maybe_set_recommended_wired_limit,
)

__all__ = [
    "BLAS",
    "ArraysCache",
    "BatchKVCache",
    "BatchRotatingKVCache",
    "CacheList",
    "ConcatenateKVCache",
    "dequantize_model",
    "KVCache",
    "QuantizedKVCache",
    "RotatingKVCache",
    "has_gpu",
    "load_model",
    "load_tokenizer",
    "make_prompt_cache",
    "maybe_set_recommended_wired_limit",
    "measure_matmul_gflops",
    "mx",
    "nn",
    "to_python",
]


def to_python(array: mx.array) -> Any:
    """An array's values as a number or nested lists, as soon as they are computed."""
    return array.tolist()


def has_gpu() -> bool:
    """Whether MLX computes on a GPU (Metal or CUDA) in this process."""
    return bool(mx.metal.is_available() or mx.cuda.is_available())


def measure_matmul_gflops() -> float:
    """Speed of a 256x576 by 576x1536 float32 product in 10^9 floating-point operations a second."""
    rows, inner, columns = 256, 576, 1536
    left, right = mx.ones((rows, inner)), mx.ones((inner, columns))
    mx.eval(left @ right)
    started = time.perf_counter()
    mx.eval(left @ right)
    return 2 * rows * inner * columns / (time.perf_counter() - started) / 1e9


def log_backend() -> None:
    """Say once at start how fast this process multiplies, and with what."""
    logger.info(
        "MLX on %s, BLAS %s, OMP_NUM_THREADS %s, matrix product %.0f GFLOP/s",
        mx.default_device(),
        BLAS.name if BLAS else "of MLX",
        os.environ.get("OMP_NUM_THREADS", "unset"),
        measure_matmul_gflops(),
    )
