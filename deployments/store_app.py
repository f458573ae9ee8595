"""Builder of the application that keeps responses (`import_path: deployments.store_app:build`)."""

import os
import time
from collections.abc import Callable
from pathlib import Path

from ray import serve

from configs.environment import override_store_settings
from configs.paths import data_folder
from configs.settings import StoreSettings
from deployments.logs import join_serve_logs
from deployments.store_deployment import StoreDeployment, tell_refusals
from stores.memory import MemoryStore
from stores.sqlite import SqliteStore
from stores.types import Bounds, Store, StoreBounds

FILE_NAME = "store.sqlite3"


@tell_refusals
class StoreReplica(StoreDeployment):
    """The store of one replica: in a file of this folder, or where there is none in memory."""

    def __init__(self, folder: Path | None, bounds: StoreBounds) -> None:
        join_serve_logs()
        clock = make_clock()
        self._opened = open_store(folder, bounds, clock)
        super().__init__(self._opened, clock)

    async def check_health(self) -> None:
        """Called by Serve, which replaces the replica where this raises."""
        if isinstance(self._opened, SqliteStore):
            self._opened.check()

    def __del__(self) -> None:
        """Serve calls it when it stops a replica: the last uses are written then."""
        opened = getattr(self, "_opened", None)
        if isinstance(opened, SqliteStore):
            opened.close()


def open_store(folder: Path | None, bounds: StoreBounds, clock: Callable[[], float]) -> Store:
    if folder is None:
        return MemoryStore(bounds, clock)
    return SqliteStore(folder / FILE_NAME, bounds, clock)


def make_clock() -> Callable[[], float]:
    """Seconds since the Unix epoch that never run backwards in this process.

    They are compared with those of earlier processes.
    """
    start_s, start = time.time(), time.monotonic()
    return lambda: start_s + (time.monotonic() - start)


def to_bounds(settings: StoreSettings) -> StoreBounds:
    return StoreBounds(
        Bounds(
            settings.responses_store_max_entries,
            settings.responses_store_max_bytes,
            settings.responses_store_ttl_secs,
        ),
        Bounds(
            settings.conversation_store_max_entries,
            settings.conversation_store_max_bytes,
            settings.conversation_store_ttl_secs,
        ),
    )


def build(args: StoreSettings) -> serve.Application:
    """The application.

    Raises:
        SettingsError: where a variable has a wrong value.
    """
    settings = override_store_settings(args, os.environ)
    is_on_disk = settings.store_backend == "sqlite"
    folder = data_folder(settings.data_folder, os.environ) if is_on_disk else None
    return (
        serve.deployment(name="store")(StoreReplica)
        .options(
            num_replicas=1,
            max_ongoing_requests=100_000,
            health_check_period_s=2,
            health_check_timeout_s=10,
            graceful_shutdown_timeout_s=5,
            ray_actor_options={"num_cpus": 0},
        )
        .bind(folder, to_bounds(settings))
    )
