"""One model as a Serve deployment: its engine's face, and the check that has it replaced."""

import os
from collections.abc import AsyncGenerator
from contextlib import aclosing
from pathlib import Path

from configs.paths import cache_folder, find_file
from configs.settings import ModelSettings
from deployments.logs import join_serve_logs
from engine.engine import EngineSettings
from engine.errors import EngineStoppedError, Refusal
from engine.factory import ModelFiles, make_engine
from engine.precision import choose_conversion_dtype, choose_dtype
from engine.sources import parse_source, resolve_source
from engine.types import EngineEvent, EngineStats, GenerateRequest, ModelCard, SamplingParams


class ModelDeployment:
    """A replica: it holds the model from its constructor to its end.

    The constructor raises `ModelLoadError`, which Serve reports as the application's message.
    """

    def __init__(self, settings: ModelSettings) -> None:
        join_serve_logs()
        self._engine = make_engine(to_model_files(settings), to_engine_settings(settings))

    async def generate(
        self, request: GenerateRequest
    ) -> AsyncGenerator[tuple[EngineEvent, ...] | Refusal, None]:
        """The engine's batches, or why there are none.

        A refusal is no fault, so it is a value: Serve logs what is raised as an error of ours, with
        its traceback, and callers could fill the disk with theirs.
        """
        try:
            async with aclosing(self._engine.generate(request)) as batches:
                async for batch in batches:
                    yield batch
        except Refusal as error:
            yield error

    async def count_tokens(self, request: GenerateRequest) -> int | Refusal:
        """The engine's count, or why there is none."""
        try:
            return await self._engine.count_tokens(request)
        except Refusal as error:
            return error

    async def abort(self, generation_id: str) -> bool:
        return self._engine.abort(generation_id)

    async def card(self) -> ModelCard:
        return self._engine.card()

    async def stats(self) -> EngineStats:
        return self._engine.stats()

    async def check_health(self) -> None:
        """Serve calls this; a replica that raises is replaced.

        Raises:
            EngineStoppedError: where the engine's thread has ended.
        """
        if not self._engine.stats().is_alive:
            raise EngineStoppedError("The engine's thread has ended.")


def to_model_files(settings: ModelSettings) -> ModelFiles:
    """The model's folder on this machine, fetched and converted first where it must be.

    Raises:
        ModelLoadError: where it cannot be had.
        SettingsError: where the chat template is not there.
    """
    template: Path | None = settings.chat_template
    return ModelFiles(
        folder=resolve_source(
            parse_source(settings.source),
            revision=settings.revision,
            dtype=choose_conversion_dtype(settings.precision),
            cache_dir=cache_folder(os.environ),
            show_progress=False,
        ),
        dtype=choose_dtype(settings.precision),
        context_length=settings.context_length,
        chat_template=find_file(template).read_text("utf-8") if template else None,
        kv_cache_bytes=settings.kv_cache_bytes,
    )


def to_engine_settings(settings: ModelSettings) -> EngineSettings:
    return EngineSettings(
        name=settings.name,
        aliases=settings.aliases,
        max_running=settings.max_running,
        max_waiting=settings.max_waiting,
        default_sampling=SamplingParams(**settings.sampling.model_dump()),
        default_max_tokens=settings.max_output_tokens,
        max_request_s=settings.max_request_s,
    )
