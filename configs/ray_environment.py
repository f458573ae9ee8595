"""The environment that Ray and Serve should run in, and the token that keeps others out of it.

`python -m configs.ray_environment` prints it as `export` lines for a shell. Ray reads a variable
when it is imported: all must be set before that, in the driver and in the cluster's own processes.
"""

import os
import secrets
import shlex
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from configs.errors import SettingsError
from configs.paths import state_folder

RECOMMENDED: Mapping[str, str] = {
    # A shell that knows of some other cluster must not send the models there.
    "RAY_ADDRESS": "local",
    "RAY_USAGE_STATS_ENABLED": "0",
    # Handles and the proxy hop over gRPC with user code in the main loop: half the work for each
    # streamed event, and a replica that dies cancels what it had asked for. The first variable sets
    # gRPC too late for the proxy, hence the second.
    "RAY_SERVE_THROUGHPUT_OPTIMIZED": "1",
    "RAY_SERVE_USE_GRPC_BY_DEFAULT": "1",
    # The first variable also holds back a thousand lines of log: why a request failed would be
    # there minutes later, or never.
    "RAY_SERVE_REQUEST_PATH_LOG_BUFFER_SIZE": "1",
    # Clients talk to the proxy: a replica's own port would move when the replica is replaced.
    "RAY_SERVE_ENABLE_DIRECT_INGRESS": "0",
    # gRPC stops at 4 MiB unless told otherwise; request bodies may be larger.
    "RAY_SERVE_REPLICA_GRPC_MAX_MESSAGE_LENGTH": "268435456",
    # A dead proxy is replaced in about 4 s in place of 23 s.
    "RAY_SERVE_PROXY_HEALTH_CHECK_PERIOD_S": "1",
    "RAY_SERVE_PROXY_HEALTH_CHECK_TIMEOUT_S": "2",
    # A replica that has no place is reported after 15 s in place of 30 to 60 s.
    "RAY_SERVE_SLOW_STARTUP_WARNING_S": "15",
    "RAY_SERVE_SLOW_STARTUP_WARNING_PERIOD_S": "5",
    # Lines that are no news: what THROUGHPUT_OPTIMIZED means, and that a controller which was
    # told to end has ended.
    "RAY_DEDUP_LOGS_SKIP_REGEX": (
        r"Throughput optimized Ray Serve|^\s*(•.*)?$|ServeController\.graceful_shutdown failed"
    ),
    # Engines share the cores: a thread without work must sleep, not spin.
    "OMP_WAIT_POLICY": "PASSIVE",
}

# Ray's ports are open to the network and unpickle what they get. Only the token stands before them.
REQUIRED: Mapping[str, str] = {"RAY_AUTH_MODE": "token"}


def to_ray_environment(
    environment: Mapping[str, str], token_path: Path, temp_folder: Path
) -> dict[str, str]:
    """The variables to add to an environment; what the user has set wins where it is safe."""
    wanted = {**RECOMMENDED, "RAY_TMPDIR": str(temp_folder)}
    if not has_own_token(environment):
        wanted["RAY_AUTH_TOKEN_PATH"] = str(token_path)
    missing = {name: value for name, value in wanted.items() if not environment.get(name)}
    return {**missing, **REQUIRED}


def has_own_token(environment: Mapping[str, str]) -> bool:
    """Whether the user brings a token for Ray, so that none of ours is needed."""
    return bool(environment.get("RAY_AUTH_TOKEN") or environment.get("RAY_AUTH_TOKEN_PATH"))


def prepare_ray_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """The variables to set, once the files that they name are there.

    Raises:
        SettingsError: where the token or the folder of temporary files cannot be trusted.
    """
    token_path = state_folder(environment) / "ray_token"
    if not has_own_token(environment):
        make_token(token_path)
    temp_folder = Path("/tmp") / f"antiphon-{os.getuid()}"
    if not environment.get("RAY_TMPDIR"):
        make_private_folder(temp_folder)
    return to_ray_environment(environment, token_path, temp_folder)


def make_token(path: Path) -> None:
    """Write a random token that only this user can read; keep the one that is there.

    A link appears whole or not at all, so two launchers that start together agree on one token.

    Raises:
        SettingsError: where others can read the token, or it cannot be written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        if not path.exists():
            with tempfile.NamedTemporaryFile(dir=path.parent, prefix=".ray_token-") as draft:
                draft.write(secrets.token_hex(32).encode())
                draft.flush()
                link_once(Path(draft.name), path)
        mode = path.stat().st_mode
    except OSError as error:
        raise SettingsError(f"cannot make the cluster's token {path}: {error.strerror}") from error
    if mode & 0o077:
        raise SettingsError(
            f"others can read the cluster's token {path}: delete it to get a new one"
        )


def link_once(draft: Path, path: Path) -> None:
    """Give a finished file its name, unless another process was faster."""
    try:
        os.link(draft, path)
    except FileExistsError:
        return


def make_private_folder(path: Path) -> None:
    """Make a folder for this user alone. Its path is short, since Ray puts sockets in it, whose
    paths may have about 100 bytes.

    Raises:
        SettingsError: where the folder is another user's, or open to others.
    """
    try:
        path.mkdir(mode=0o700, exist_ok=True)
        status = path.lstat()
    except OSError as error:
        raise SettingsError(
            f"cannot make the folder {path}: {error.strerror}; set RAY_TMPDIR to another"
        ) from error
    if status.st_uid != os.getuid() or status.st_mode & 0o077:
        raise SettingsError(f"{path} is not a folder of this user alone: set RAY_TMPDIR to another")


def format_exports(variables: Mapping[str, str]) -> str:
    """Lines that set variables in a POSIX shell."""
    return "".join(f"export {name}={shlex.quote(value)}\n" for name, value in variables.items())


def main() -> int:
    """Print the variables to set for this shell."""
    try:
        variables = prepare_ray_environment(os.environ)
    except SettingsError as error:
        sys.stderr.write(f"antiphon: {error}\n")
        return 1
    sys.stdout.write(format_exports(variables))
    return 0


if __name__ == "__main__":
    sys.exit(main())
