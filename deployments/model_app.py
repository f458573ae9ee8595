"""Builder of an application that serves one model (`import_path: deployments.model_app:build`)."""

import os

from ray import serve

from configs.settings import ModelSettings
from deployments.model_deployment import ModelDeployment

# Admission is the engine's, which answers at once; Serve's own limit must never be what is hit.
MAX_ONGOING_REQUESTS = 1_000_000


def build(args: ModelSettings) -> serve.Application:
    deployment = serve.deployment(name="model")(ModelDeployment)
    threads = args.threads or os.cpu_count() or 1
    return deployment.options(
        num_replicas=args.replicas,
        max_ongoing_requests=MAX_ONGOING_REQUESTS,
        health_check_period_s=2,
        health_check_timeout_s=10,
        graceful_shutdown_timeout_s=5,
        # A model that does not load now will not load a moment later, and each try takes seconds.
        max_constructor_retry_count=1,
        # Without num_cpus a replica takes a whole core, and the third one is never placed. Ray then
        # sets OMP_NUM_THREADS to 1, which halves the speed of a step, unless told otherwise.
        ray_actor_options={
            "num_cpus": 0,
            "runtime_env": {"env_vars": {"OMP_NUM_THREADS": str(threads)}},
        },
    ).bind(args)
