"""Looks at the server's address as a client does: free before the start, answering after it."""

import errno
import json
import socket
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from typing import Any

from configs.errors import SettingsError
from configs.serve_file import ServeFile
from deployments.errors import NO_TEMPLATE
from deployments.startup import AnsweringModel

# The proxy learns of a new route a moment after Serve calls the application RUNNING.
ROUTE_WAIT_S = 30.0
POLL_S = 0.2


class NoAnswerError(Exception):
    """The server is up but does not answer as it should; the message says which request and why.

    `code` is the one of our error envelope, None where the reply was none.
    """

    def __init__(self, message: str, code: str | None = None) -> None:
        super().__init__(message)
        self.code = code


def check_port(host: str, port: int) -> None:
    """Refuse an address that another process listens at.

    Serve would not notice: it shares its port, and clients would reach one server or the other.

    Raises:
        SettingsError: where the address is taken or is not this machine's.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_STREAM) as listener:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind((host, port))
            listener.listen()
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise SettingsError(
                f"port {port} of {host} is in use by another process: end it, or give another "
                "http_options.port"
            ) from error
        raise SettingsError(f"cannot listen at {host}:{port}: {error.strerror}") from error


def first_answers(
    serve_file: ServeFile, timeout_s: float, key: str | None = None
) -> list[AnsweringModel]:
    """Ask every model for one short answer; those that the server lists, in its order.

    Each request may take `timeout_s`: a model's first answer can include compiling its kernels.
    `key` is one that the server knows, where it asks for keys.

    Raises:
        NoAnswerError: where a request fails.
    """
    url = serve_file.base_url
    wait_for_route(url, ROUTE_WAIT_S, key)
    bare = {
        model.name
        for model in serve_file.models.values()
        if not answers_messages(url, model.name, timeout_s, key)
    }
    listing = fetch_json(f"{url}/v1/models", timeout_s, key)
    return [AnsweringModel(model["id"], model["id"] not in bare) for model in listing["data"]]


def answers_messages(url: str, name: str, timeout_s: float, key: str | None) -> bool:
    """Ask a model for a token; False where it only continues texts.

    Raises:
        NoAnswerError: where it does neither.
    """
    question = {"model": name, "input": "Hello", "max_output_tokens": 1, "store": False}
    try:
        try:
            fetch_json(f"{url}/v1/responses", timeout_s, key, question)
        except NoAnswerError as error:
            if error.code != NO_TEMPLATE:
                raise
            text = {"model": name, "prompt": "Hello", "max_tokens": 1}
            fetch_json(f"{url}/v1/completions", timeout_s, key, text)
            return False
    except NoAnswerError as error:
        raise NoAnswerError(f"model {name!r} does not answer: {error}") from error
    return True


def wait_for_route(
    url: str,
    wait_s: float,
    key: str | None = None,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Wait until the proxy passes requests on to the api.

    Raises:
        NoAnswerError: where it does not within `wait_s`; with the last reply's reason.
    """
    end_s = clock() + wait_s
    while True:
        try:
            fetch_json(f"{url}/v1/models", wait_s, key)
        except NoAnswerError:
            if clock() >= end_s:
                raise
            sleep(POLL_S)
        else:
            return


def fetch_json(
    url: str, timeout_s: float, key: str | None = None, body: dict[str, Any] | None = None
) -> Any:
    """GET, or POST where there is a body, with no proxy between.

    Raises:
        NoAnswerError: where there is no reply in time, an error status, or no JSON.
    """
    headers = {"content-type": "application/json"}
    if key is not None:
        headers["authorization"] = f"Bearer {key}"
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data=data, headers=headers)
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(request, timeout=timeout_s) as reply:
            return json.load(reply)
    except urllib.error.HTTPError as error:
        with error:
            raise read_refusal(error.code, error.read()) from error
    except TimeoutError as error:
        raise NoAnswerError(f"no reply within {timeout_s:.0f} s") from error
    except (OSError, ValueError) as error:
        raise NoAnswerError(f"no usable reply: {error}") from error


def read_refusal(status: int, content: bytes) -> NoAnswerError:
    """An error reply in a line: the message of our envelope, or the beginning of what came."""
    text = content.decode(errors="replace").strip()
    try:
        error = json.loads(text)["error"]
        return NoAnswerError(f"status {status}, {error['message']}", error.get("code"))
    except (ValueError, TypeError, LookupError, AttributeError):
        return NoAnswerError(f"status {status}, {text[:200]}")
