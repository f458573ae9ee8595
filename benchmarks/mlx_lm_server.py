"""Runs mlx_lm.server with the BLAS that Antiphon preloads, so that a comparison is not one of BLAS.

    python -m benchmarks.mlx_lm_server [--no-preload] --model FOLDER --port PORT …

On Linux without a GPU, MLX multiplies through a slow reference BLAS unless a faster `sgemm_` is in
the process before it is imported: see `engine/backend.py`. `--no-preload` runs mlx_lm.server as it
is installed. All other arguments are its own.
"""

import ctypes
import importlib.util
import runpy
import sys
from pathlib import Path

NO_PRELOAD = "--no-preload"


def find_blas() -> Path | None:
    """Where PyTorch's CPU library lies; None if it is not installed, and beside Linux."""
    spec = importlib.util.find_spec("torch") if sys.platform == "linux" else None
    if spec is None or spec.origin is None:
        return None
    library = Path(spec.origin).parent / "lib" / "libtorch_cpu.so"
    return library if library.exists() else None


def main(arguments: list[str]) -> None:
    library = None if NO_PRELOAD in arguments else find_blas()
    if library is not None:
        ctypes.CDLL(str(library), mode=ctypes.RTLD_GLOBAL)
    print(f"BLAS: {library or 'the one of MLX'}", file=sys.stderr, flush=True)
    sys.argv = ["mlx_lm", "server", *(a for a in arguments if a != NO_PRELOAD)]
    runpy.run_module("mlx_lm", run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main(sys.argv[1:])
