"""Builder of the HTTP application (`import_path: deployments.api_app:build`)."""

import secrets
import time

from ray import serve
from starlette.applications import Starlette

from configs.settings import ApiSettings
from deployments.handles import HandleEngineClient, HandleStoreClient
from deployments.ingress import Ingress, make_app
from deployments.logs import join_serve_logs
from deployments.service.models import ModelDirectory
from deployments.service.responses import Ports, ResponsesService


class ApiDeployment:
    """A replica of the ingress: it finds the models and the store by their applications' names."""

    def __init__(self, settings: ApiSettings) -> None:
        join_serve_logs()
        self._settings = settings

    def __serve_build_asgi_app__(self) -> Starlette:
        models = ModelDirectory({name: HandleEngineClient(name) for name in self._settings.models})
        ports = Ports(
            models=models,
            store=HandleStoreClient(self._settings.store, make_id("ingress")),
            clock=time.time,
            make_id=make_id,
            replica_wait_s=self._settings.replica_wait_s,
        )
        ingress = Ingress(ResponsesService(ports), models, self._settings.max_body_bytes)
        return make_app(ingress, is_behind_proxy=True)


def make_id(prefix: str) -> str:
    """An id that nobody can guess: 128 random bits behind the kind of thing that it names."""
    return f"{prefix}_{secrets.token_hex(16)}"


def build(args: ApiSettings) -> serve.Application:
    return (
        serve.deployment(name="api")(serve.ingress()(ApiDeployment))
        .options(
            num_replicas=args.replicas,
            max_ongoing_requests=100_000,
            health_check_period_s=2,
            health_check_timeout_s=10,
            graceful_shutdown_timeout_s=5,
            ray_actor_options={"num_cpus": 0},
        )
        .bind(args)
    )
