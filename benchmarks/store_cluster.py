"""A Ray cluster of this process's own, with nothing but store applications as a server has them."""

import logging
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import psutil
import ray
from ray import serve

from configs.settings import StoreSettings
from deployments.handles import HandleStoreClient
from deployments.store_app import FILE_NAME, build

BACKENDS: Final = ("sqlite", "memory")
MAX_ENTRIES: Final = 20_000


@dataclass(frozen=True, slots=True)
class Running:
    """A store application that runs, and a client of it; in memory where it has no folder."""

    name: str
    client: HandleStoreClient
    folder: Path | None

    def find_process(self) -> psutil.Process:
        """The process of its one replica.

        Raises:
            LookupError: where there is none now.
        """
        title = f"ray::ServeReplica:{self.name}:store"
        for process in psutil.Process().children(recursive=True):
            try:
                if " ".join(process.cmdline()).startswith(title):
                    return process
            except psutil.Error:
                continue
        raise LookupError(f"there is no process {title}")

    def measure_memory(self) -> int:
        """Resident bytes."""
        return int(self.find_process().memory_info().rss)

    def measure_file(self, suffix: str = "") -> int:
        """Bytes of the file, or of its log with the suffix `-wal`; 0 in memory."""
        file = None if self.folder is None else self.folder / f"{FILE_NAME}{suffix}"
        return file.stat().st_size if file is not None and file.exists() else 0


@contextmanager
def own_cluster() -> Iterator[Path]:
    """A cluster in a short temporary folder of its own, without HTTP; both are gone afterwards."""
    folder = Path(tempfile.mkdtemp(prefix="b", dir=os.environ["RAY_TMPDIR"]))
    try:
        ray.init(
            address="local",
            namespace="serve",
            include_dashboard=False,
            logging_level=logging.WARNING,
            log_to_driver=False,
            _temp_dir=str(folder / "ray"),
        )
        logging.getLogger("ray.serve").setLevel(logging.CRITICAL)  # it tells of each kill
        serve.start(proxy_location="Disabled")
        yield folder
    finally:
        # Not Serve first: its handles would be closed in an event loop that has ended.
        ray.shutdown()
        shutil.rmtree(folder, ignore_errors=True)


def deploy(name: str, backend: str, max_bytes: int, parent: Path) -> Running:
    """Run a store application and wait until it is there."""
    folder = parent / name if backend == "sqlite" else None
    settings = StoreSettings.model_validate(
        {
            "store_backend": backend,
            "data_folder": folder,
            "responses_store_max_entries": MAX_ENTRIES,
            "responses_store_max_bytes": max_bytes,
            "responses_store_ttl_secs": 0,
        }
    )
    serve.run(build(settings), name=name, route_prefix=None)
    return Running(name, HandleStoreClient(name, f"ingress_{name}"), folder)


def deploy_both(prefix: str, max_bytes: int, parent: Path) -> list[Running]:
    """A store of each backend. They stay: one that is deleted is waited for by its client."""
    return [deploy(f"{prefix}-{backend}", backend, max_bytes, parent) for backend in BACKENDS]
