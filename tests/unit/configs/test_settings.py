"""Settings are typed as written, bounded, frozen, and know all their keys."""

from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel, ValidationError

from configs.settings import ApiSettings, ModelSettings, SamplingSettings, StoreSettings

MODEL: dict[str, Any] = {"name": "m", "source": "org/m"}


def test_a_model_needs_only_a_name_and_a_source() -> None:
    assert ModelSettings.model_validate(MODEL) == ModelSettings(
        name="m",
        aliases=(),
        source="org/m",
        revision=None,
        precision="auto",
        context_length=None,
        replicas=1,
        max_running=16,
        max_waiting=64,
        chat_template=None,
        sampling=SamplingSettings(temperature=1.0, top_p=1.0),
        max_output_tokens=None,
        threads=None,
    )


def test_a_store_keeps_on_disk_within_the_documented_bounds() -> None:
    assert StoreSettings.model_validate({}) == StoreSettings(
        store_backend="sqlite",
        data_folder=None,
        responses_store_max_entries=1024,
        responses_store_max_bytes=268_435_456,
        responses_store_ttl_secs=3600,
        conversation_store_max_entries=256,
        conversation_store_max_bytes=67_108_864,
        conversation_store_ttl_secs=3600,
    )


def test_a_folder_is_taken_as_it_is_written() -> None:
    settings = StoreSettings.model_validate({"data_folder": "~/my store"})
    assert settings.data_folder == Path("~/my store")


@pytest.mark.parametrize("folder", ["", " x", "x\n", "a\x00b", 5, True, ["x"]])
def test_what_names_no_folder_is_refused(folder: object) -> None:
    with pytest.raises(ValidationError, match="data_folder"):
        StoreSettings.model_validate({"data_folder": folder})


def test_yaml_lists_mappings_and_whole_temperatures_are_taken() -> None:
    settings = ModelSettings.model_validate(
        MODEL | {"aliases": ["a", "b"], "chat_template": "t.jinja", "sampling": {"temperature": 0}}
    )
    assert settings.aliases == ("a", "b")
    assert settings.chat_template == Path("t.jinja")
    assert settings.sampling == SamplingSettings(temperature=0.0)


@pytest.mark.parametrize("name", ["qwen3:14b-q4_k_m", "org/name", "modèle 7 « été »", "x" * 256])
def test_any_printable_text_names_a_model(name: str) -> None:
    assert ModelSettings(name=name, source="org/m").name == name


@pytest.mark.parametrize("name", ["", " m", "m ", "m\n", "a\x00b", "a\tb", "\u202em", "x" * 257])
def test_a_name_that_cannot_be_read_or_is_too_long_is_refused(name: str) -> None:
    with pytest.raises(ValidationError, match="name"):
        ModelSettings.model_validate(MODEL | {"name": name})


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (ModelSettings, MODEL | {"max_running": "16"}),
        (ModelSettings, MODEL | {"max_running": True}),
        (ModelSettings, MODEL | {"max_running": 16.0}),
        (ModelSettings, MODEL | {"name": 7}),
        (ModelSettings, MODEL | {"aliases": "a"}),
        (ModelSettings, MODEL | {"aliases": [7]}),
        (SamplingSettings, {"temperature": "0"}),
        (SamplingSettings, {"temperature": False}),
        (StoreSettings, {"responses_store_max_bytes": "1024"}),
        (StoreSettings, {"conversation_store_max_entries": "1"}),
        (StoreSettings, {"conversation_store_ttl_secs": 1.0}),
        (ApiSettings, {"models": ["m"], "replica_wait_s": "60"}),
    ],
)
def test_no_value_is_coerced_to_another_type(kind: type[BaseModel], values: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        kind.model_validate(values)


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (ModelSettings, MODEL | {"replicas": 0}),
        (ModelSettings, MODEL | {"max_running": 0}),
        (ModelSettings, MODEL | {"max_waiting": -1}),
        (ModelSettings, MODEL | {"context_length": 0}),
        (ModelSettings, MODEL | {"max_output_tokens": 0}),
        (ModelSettings, MODEL | {"threads": 0}),
        (ModelSettings, MODEL | {"precision": "int4"}),
        (ModelSettings, MODEL | {"source": ""}),
        (SamplingSettings, {"temperature": 2.1}),
        (SamplingSettings, {"temperature": -0.1}),
        (SamplingSettings, {"temperature": float("nan")}),
        (SamplingSettings, {"top_p": 0}),
        (SamplingSettings, {"top_p": 1.1}),
        (StoreSettings, {"responses_store_ttl_secs": -1}),
        (StoreSettings, {"conversation_store_max_entries": -1}),
        (StoreSettings, {"conversation_store_max_bytes": -1}),
        (StoreSettings, {"conversation_store_ttl_secs": -1}),
        (StoreSettings, {"store_backend": "postgres"}),
        (StoreSettings, {"store_backend": None}),
        (ApiSettings, {"models": []}),
        (ApiSettings, {"models": ["m"], "max_body_bytes": 0}),
        (ApiSettings, {"models": ["m"], "replica_wait_s": 0}),
        (ApiSettings, {"models": ["m"], "replica_wait_s": float("inf")}),
    ],
)
def test_values_out_of_bounds_are_refused(kind: type[BaseModel], values: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        kind.model_validate(values)


@pytest.mark.parametrize("aliases", [["m"], ["a", "a"]])
def test_names_of_one_model_differ(aliases: list[str]) -> None:
    with pytest.raises(ValidationError, match="more than once"):
        ModelSettings.model_validate(MODEL | {"aliases": aliases})


def test_the_api_names_each_application_once() -> None:
    with pytest.raises(ValidationError, match="'m' more than once"):
        ApiSettings.model_validate({"models": ["m", "n", "m"]})


@pytest.mark.parametrize(
    ("kind", "values"),
    [(ModelSettings, MODEL), (StoreSettings, {}), (ApiSettings, {"models": ["m"]})],
)
def test_an_unknown_key_is_refused_by_name(kind: type[BaseModel], values: dict[str, Any]) -> None:
    with pytest.raises(ValidationError, match="colour"):
        kind.model_validate(values | {"colour": "red"})


def test_settings_never_change() -> None:
    with pytest.raises(ValidationError, match="frozen"):
        StoreSettings().responses_store_max_entries = 1
