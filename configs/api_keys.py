"""API keys as a file or a variable holds them. No message shows one, nor a part of one."""

import ipaddress
import re
from collections.abc import Sequence
from pathlib import Path

from configs.errors import SettingsError
from configs.paths import find_file

MIN_CHARACTERS = 8
MAX_CHARACTERS = 512  # of a key; a request's header must hold it
MAX_FILE_BYTES = 1_000_000


def read_key_file(path: Path) -> tuple[str, ...]:
    """The keys of a file: one a line, without blank lines and lines that begin with `#`.

    A relative path is looked up as `configs.paths.find_file` does.

    Raises:
        SettingsError: where the file cannot be read, has no key or a wrong one; the message has
            the number of its line.
    """
    place = find_file(path)
    try:
        with place.open("rb") as file:
            content = file.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        raise SettingsError(f"cannot read {place}: {error.strerror}") from error
    if len(content) > MAX_FILE_BYTES:
        raise SettingsError(f"{place} is larger than {MAX_FILE_BYTES} bytes: no file of keys")
    try:
        lines = content.decode("utf-8-sig").split("\n")
    except UnicodeDecodeError:
        # Without its cause, which holds the file's content.
        raise SettingsError(f"{place} is not text in UTF-8") from None
    keys = [("" if line.lstrip().startswith("#") else line) for line in lines]
    return check_keys(keys, "line", str(place))


def split_keys(text: str, variable: str) -> tuple[str, ...]:
    """The keys of an environment variable, with commas or line ends between them.

    Raises:
        SettingsError: where there is none or a wrong one.
    """
    return check_keys(re.split("[,\n]", text), "key", variable)


def check_keys(candidates: Sequence[str], unit: str, whole: str) -> tuple[str, ...]:
    """The candidates that are not blank, without the blanks around them.

    `unit` is what one candidate is counted as, `whole` names where all of them stand.

    Raises:
        SettingsError: where one cannot be a key, or none is left.
    """
    keys = []
    for number, candidate in enumerate(candidates, 1):
        if key := candidate.strip(" \t\r"):
            check_key(key, f"{unit} {number} of {whole}")
            keys.append(key)
    if not keys:
        raise SettingsError(f"{whole} has no API key")
    return tuple(keys)


def check_key(key: str, place: str) -> None:
    """Refuse a key that is easily guessed, or that no header could carry.

    Raises:
        SettingsError: with the place alone.
    """
    if not (key.isascii() and key.isprintable()) or " " in key:
        raise SettingsError(f"{place}: an API key is printable ASCII without blanks")
    if not MIN_CHARACTERS <= len(key) <= MAX_CHARACTERS:
        raise SettingsError(
            f"{place}: an API key has {MIN_CHARACTERS} to {MAX_CHARACTERS} characters"
        )


def is_loopback(host: str | None) -> bool:
    """Whether a server at this host answers this machine alone; None is no server.

    A name other than `localhost` is not: what it means may change.
    """
    if host is None or host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def check_reach(host: str | None, has_keys: bool, allow_without_key: bool) -> None:
    """Refuse to answer a network without asking for a key.

    Raises:
        SettingsError: with the ways out.
    """
    if has_keys or allow_without_key or is_loopback(host):
        return
    raise SettingsError(
        f"the network could use this server without a key, since http_options.host is {host!r} "
        "(0.0.0.0 where it is not given): set ANTIPHON_API_KEYS or args.api_keys_file of the api "
        "application, or http_options.host: 127.0.0.1, or args.allow_without_key: true"
    )
