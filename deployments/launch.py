"""What `make serve` starts: it checks the file, fetches the models, and hands over to Serve.

It imports neither Ray nor MLX. Ray reads its environment when it is imported, so that environment
is set first, and the process then becomes `deployments.serve_run`.
"""

import argparse
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from configs.environment import load_api_keys
from configs.errors import SettingsError
from configs.paths import cache_folder
from configs.ray_environment import prepare_ray_environment
from configs.serve_file import ServeFile, load_serve_file
from configs.settings import ModelSettings
from deployments.probe import check_port
from deployments.stop_signals import STOP_SIGNALS
from engine.errors import ModelLoadError
from engine.precision import choose_conversion_dtype
from engine.sources import parse_source, resolve_source

INTERRUPTED = 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Make everything ready and become the server; returns only where something is wrong."""
    parser = argparse.ArgumentParser(prog="deployments.launch", description=__doc__)
    parser.add_argument("config", nargs="?", type=Path, default=Path("serve_config.yaml"))
    path = parser.parse_args(arguments).config
    try:
        environment = prepare(path, os.environ)
    except (SettingsError, ModelLoadError) as error:
        sys.stderr.write(f"antiphon: {error}\n")
        return 1
    except KeyboardInterrupt:
        return INTERRUPTED
    # Held back until the next process can end well; a mask outlives `execve`, a handler does not.
    signal.pthread_sigmask(signal.SIG_BLOCK, STOP_SIGNALS)
    command = [sys.executable, "-m", "deployments.serve_run", str(path)]
    os.execve(sys.executable, command, environment)


def prepare(path: Path, environment: Mapping[str, str]) -> dict[str, str]:
    """Check the file, its port and its models; the environment to serve in.

    Raises:
        SettingsError: where the file, a variable or the address is wrong.
        ModelLoadError: where a model cannot be fetched or converted.
    """
    serve_file = load_serve_file(path, environment)
    check_port(serve_file.host, serve_file.port)
    if not serve_file.is_loopback:
        has_keys = bool(load_api_keys(serve_file.api, environment))
        sys.stderr.write(
            f"antiphon: the server answers the network, {'with' if has_keys else 'without'} "
            f"asking for a key: http_options.host is {serve_file.host}\n"
        )
    fetch_models(serve_file, cache_folder(environment))
    return {**environment, **prepare_ray_environment(environment)}


def fetch_models(serve_file: ServeFile, cache: Path) -> None:
    """Fetch and convert each distinct model once, with a bar, so that the replicas find it ready.

    Raises:
        ModelLoadError: where that fails; the message names the application.
    """
    fetched = set()
    for application, model in serve_file.models.items():
        what = (model.source, model.revision, choose_conversion_dtype(model.precision))
        if what in fetched:
            continue
        try:
            fetch_model(model, cache)
        except ModelLoadError as error:
            raise ModelLoadError(f"application {application!r}: {error.message}") from error
        fetched.add(what)


def fetch_model(model: ModelSettings, cache: Path) -> Path:
    """The folder of one model, fetched and converted first where it must be."""
    return resolve_source(
        parse_source(model.source),
        revision=model.revision,
        dtype=choose_conversion_dtype(model.precision),
        cache_dir=cache,
        show_progress=True,
    )


if __name__ == "__main__":
    sys.exit(main())
