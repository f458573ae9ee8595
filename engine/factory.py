"""Puts a real engine together: source → folder → loaded model → core in a thread of its own."""

import logging
import time
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from engine.backend import has_gpu, log_backend
from engine.caches import choose_budget
from engine.core import EngineCore
from engine.engine import EngineSettings, ThreadedEngine
from engine.errors import ModelLoadError
from engine.loader import LoadedModel, load
from engine.precision import DType
from engine.runner import Runner
from engine.scheduler import Scheduler

# A decoding stream waits for one chunk. On a CPU longer chunks also cost more a token, since the
# attention of a chunk is computed for its masked half too.
CPU_CHUNK_TOKENS, GPU_CHUNK_TOKENS = 128, 512

SMALLEST_CONTEXT = 256  # tokens of prompt and output; below it a model is of no use

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ModelFiles:
    """Where a model lies and how to load it; None takes what its files say."""

    folder: Path
    dtype: DType | None
    context_length: int | None = None
    chat_template: str | None = None
    kv_cache_bytes: int | None = None


def make_engine(files: ModelFiles, settings: EngineSettings) -> ThreadedEngine:
    """Load a model and start its engine; returns when it can take requests.

    Raises:
        ModelLoadError: where the model cannot be loaded.
    """
    log_backend()
    return ThreadedEngine(settings, partial(load_files, files), make_core)


def load_files(files: ModelFiles) -> LoadedModel:
    """Load a model, and limit its context to what one KV cache may take.

    Raises:
        ModelLoadError: where it cannot be loaded, or no cache of use fits.
    """
    model = load(files.folder, files.dtype, files.context_length, files.chat_template)
    budget_bytes = choose_budget(files.kv_cache_bytes)
    longest = model.cache_cost.longest(budget_bytes)
    smallest = min(SMALLEST_CONTEXT, model.context_length)
    if longest < smallest:
        raise ModelLoadError(
            f"the {budget_bytes} bytes for KV caches are too few for the model in {files.folder}: "
            f"a context of {smallest} tokens takes {model.cache_cost.batch_bytes(1, smallest)}; "
            "free memory or set kv_cache_bytes"
        )
    if longest < model.context_length:
        logger.warning(
            "the %d bytes for KV caches limit the context of %d tokens to %d; set context_length "
            "or kv_cache_bytes to have the same after every start",
            budget_bytes,
            model.context_length,
            longest,
        )
    return replace(
        model,
        context_length=min(model.context_length, longest),
        cache_budget_bytes=budget_bytes,
        is_memory_bound=longest < model.context_length,
    )


def make_core(model: LoadedModel, max_running: int) -> EngineCore:
    """The loop body over a loaded model, made in the thread that will run it."""
    chunk_tokens = GPU_CHUNK_TOKENS if has_gpu() else CPU_CHUNK_TOKENS
    return EngineCore(
        make_runner=partial(Runner, model.model, chunk_tokens),
        scheduler=Scheduler(
            max_running, chunk_tokens, model.cache_cost.batch_bytes, model.cache_budget_bytes
        ),
        stop_ids=model.stop_ids,
        clock=time.monotonic,
    )
