"""Puts a real engine together: source → folder → loaded model → core in a thread of its own."""

from dataclasses import dataclass
from functools import partial
from pathlib import Path

from engine.backend import has_gpu, log_backend
from engine.core import EngineCore
from engine.engine import EngineSettings, ThreadedEngine
from engine.loader import LoadedModel, load
from engine.precision import DType
from engine.runner import Runner
from engine.scheduler import Scheduler

# A decoding stream waits for one chunk. On a CPU longer chunks also cost more a token, since the
# attention of a chunk is computed for its masked half too.
CPU_CHUNK_TOKENS, GPU_CHUNK_TOKENS = 128, 512


@dataclass(frozen=True, slots=True)
class ModelFiles:
    """Where a model lies and how to load it; None takes what its files say."""

    folder: Path
    dtype: DType | None
    context_length: int | None = None
    chat_template: str | None = None


def make_engine(files: ModelFiles, settings: EngineSettings) -> ThreadedEngine:
    """Load a model and start its engine; returns when it can take requests.

    Raises:
        ModelLoadError: where the model cannot be loaded.
    """
    log_backend()
    return ThreadedEngine(settings, partial(load_files, files), make_core)


def load_files(files: ModelFiles) -> LoadedModel:
    return load(files.folder, files.dtype, files.context_length, files.chat_template)


def make_core(model: LoadedModel, max_running: int) -> EngineCore:
    """The loop body over a loaded model, made in the thread that will run it."""
    chunk_tokens = GPU_CHUNK_TOKENS if has_gpu() else CPU_CHUNK_TOKENS
    return EngineCore(
        make_runner=partial(Runner, model.model, chunk_tokens),
        scheduler=Scheduler(max_running, chunk_tokens),
        stop_ids=model.stop_ids,
    )
