"""Builder of the HTTP application (`import_path: deployments.api_app:build`)."""

import os
import secrets
import time

import ray
from ray import serve
from ray.serve.context import _get_global_client
from starlette.applications import Starlette

from configs.api_keys import check_reach
from configs.environment import load_api_keys, override_api_settings
from configs.settings import ApiSettings
from deployments.authentication import KeyRing
from deployments.bodies import Limits
from deployments.chat_routes import ChatRoutes
from deployments.conversation_routes import ConversationRoutes
from deployments.handles import HandleEngineClient, HandleStoreClient
from deployments.ingress import Ingress, make_app
from deployments.logs import join_serve_logs
from deployments.service.completions import CompletionsService
from deployments.service.conversations import ConversationsService
from deployments.service.generation import Generations
from deployments.service.models import ModelDirectory
from deployments.service.responses import ResponsesService


class ApiDeployment:
    """A replica of the ingress: it finds the models and the store by their applications' names."""

    def __init__(self, settings: ApiSettings, keys: KeyRing) -> None:
        join_serve_logs()
        self._settings = settings
        self._keys = keys

    def __serve_build_asgi_app__(self) -> Starlette:
        models = ModelDirectory({name: HandleEngineClient(name) for name in self._settings.models})
        generations = Generations(
            models=models,
            clock=time.time,
            make_id=make_id,
            replica_wait_s=self._settings.replica_wait_s,
            heartbeat_s=self._settings.heartbeat_s,
        )
        store = HandleStoreClient(self._settings.store, make_id("ingress"))
        limits = Limits(self._settings.max_body_bytes, self._settings.unsupported_tools == "ignore")
        alias = self._settings.reasoning_alias_field
        completions = CompletionsService(generations)
        chat = ChatRoutes(completions, limits, None if alias == "none" else alias)
        conversations = ConversationsService(store, time.time, make_id)
        ingress = Ingress(
            ResponsesService(generations, store),
            chat,
            ConversationRoutes(conversations, limits),
            models,
            limits,
        )
        return make_app(ingress, self._keys, is_behind_proxy=True)


def make_id(prefix: str) -> str:
    """An id that nobody can guess: 128 random bits behind the kind of thing that it names."""
    return f"{prefix}_{secrets.token_hex(16)}"


def find_http_host() -> str | None:
    """The host that Serve's proxy listens at; None where no Serve runs yet."""
    if not ray.is_initialized():  # or the question would start a cluster
        return None
    client = _get_global_client(raise_if_no_controller_running=False)
    return client.http_config.host if client else None


def build(args: ApiSettings) -> serve.Application:
    """The application.

    Raises:
        SettingsError: where an API key cannot be read or used, where the network needs none, and
            where a variable has a wrong value.
    """
    args = override_api_settings(args, os.environ)
    # Read here, once: all replicas have the same keys, also one that starts on another machine or
    # after the file has changed. What is sent to them are digests.
    keys = load_api_keys(args, os.environ)
    check_reach(find_http_host(), bool(keys), args.allow_without_key)
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
        .bind(args, KeyRing.of(keys))
    )
