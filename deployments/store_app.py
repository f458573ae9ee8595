"""Builder of the application that keeps responses (`import_path: deployments.store_app:build`)."""

import os
import time

from ray import serve

from configs.environment import override_store_settings
from configs.settings import StoreSettings
from deployments.logs import join_serve_logs
from deployments.store_deployment import StoreDeployment
from stores.memory import MemoryResponseStore
from stores.types import StoreBounds


class MemoryStoreDeployment(StoreDeployment):
    """The store of responses in the memory of one replica."""

    def __init__(self, bounds: StoreBounds) -> None:
        join_serve_logs()
        super().__init__(MemoryResponseStore(bounds, time.monotonic))


def build(args: StoreSettings) -> serve.Application:
    settings = override_store_settings(args, os.environ)
    bounds = StoreBounds(
        max_entries=settings.responses_store_max_entries,
        max_bytes=settings.responses_store_max_bytes,
        ttl_s=settings.responses_store_ttl_secs,
    )
    return (
        serve.deployment(name="store")(MemoryStoreDeployment)
        .options(
            num_replicas=1,
            max_ongoing_requests=100_000,
            health_check_period_s=2,
            health_check_timeout_s=10,
            graceful_shutdown_timeout_s=5,
            ray_actor_options={"num_cpus": 0},
        )
        .bind(bounds)
    )
