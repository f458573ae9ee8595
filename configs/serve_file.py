"""Reads a Serve YAML before Serve does, to refuse in plain words what would fail late or never.

It checks what is ours (the `args:`, and how applications name one another); the rest is Serve's.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from configs.api_keys import check_reach, is_loopback
from configs.environment import load_api_keys, override_api_settings, override_store_settings
from configs.errors import SettingsError
from configs.paths import find_file
from configs.settings import ApiSettings, ModelSettings, StoreSettings

MODEL_APP = "deployments.model_app:build"
STORE_APP = "deployments.store_app:build"
API_APP = "deployments.api_app:build"

AnySettings = TypeVar("AnySettings", bound=BaseModel)


class HttpOptions(BaseModel):
    """The part of Serve's `http_options` that a launcher needs, with Serve's defaults."""

    model_config = ConfigDict(strict=True)

    host: str = "0.0.0.0"
    port: int = Field(default=8000, ge=1, le=65535)


class ApplicationEntry(BaseModel):
    """The part of one entry of `applications` that is checked here."""

    # Serve makes file names and metric labels of it, and breaks on other characters.
    name: str = Field(default="default", pattern=r"^[A-Za-z0-9._-]{1,100}$")
    import_path: str
    route_prefix: str | None = "/"
    args: dict[str, Any] = {}


class FileOutline(BaseModel):
    """The part of the whole file that is checked here; Serve checks the rest."""

    model_config = ConfigDict(strict=True)

    http_options: HttpOptions = HttpOptions()
    applications: list[ApplicationEntry] = Field(min_length=1)


@dataclass(frozen=True)
class ServeFile:
    """A checked Serve YAML. `models` and `stores` are by application name, in the file's order."""

    path: Path
    host: str
    port: int
    applications: tuple[str, ...]
    models: Mapping[str, ModelSettings]
    stores: Mapping[str, StoreSettings]
    api: ApiSettings
    route_prefix: str

    @property
    def is_loopback(self) -> bool:
        """Whether HTTP answers this machine alone."""
        return is_loopback(self.host)

    @property
    def base_url(self) -> str:
        """Where a client on this machine reaches the api, without a slash at the end."""
        host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(self.host, self.host)
        bracketed = f"[{host}]" if ":" in host else host
        return f"http://{bracketed}:{self.port}{self.route_prefix.rstrip('/')}"


def load_serve_file(path: Path, environment: Mapping[str, str]) -> ServeFile:
    """Read and check a Serve YAML, with the overrides of the environment.

    Raises:
        SettingsError: where the file or a variable is wrong; the message names the application and
            the key. Also where the network could use the server without an API key.
    """
    outline = read_outline(path)
    names = tuple(entry.name for entry in outline.applications)
    check_unique("application", names)
    models = read_applications(outline, MODEL_APP, ModelSettings)
    stores = read_applications(outline, STORE_APP, StoreSettings)
    api_entry = find_api(outline)
    api = override_api_settings(to_settings(ApiSettings, api_entry), environment)
    keys = load_api_keys(api, environment)
    check_reach(outline.http_options.host, bool(keys), api.allow_without_key)
    check_models(models)
    check_references(api_entry.name, api, models, stores)
    return ServeFile(
        path=path,
        host=outline.http_options.host,
        port=outline.http_options.port,
        applications=names,
        models=models,
        stores={name: override_store_settings(it, environment) for name, it in stores.items()},
        api=api,
        route_prefix=api_entry.route_prefix or "/",
    )


def read_outline(path: Path) -> FileOutline:
    """The file's own structure.

    Raises:
        SettingsError: where it cannot be read, is no YAML, or misses a part.
    """
    try:
        content = yaml.safe_load(path.read_bytes())
    except OSError as error:
        raise SettingsError(f"cannot read {path}: {error.strerror}") from error
    except yaml.YAMLError as error:
        raise SettingsError(f"{path} is not valid YAML: {error}") from error
    try:
        return FileOutline.model_validate(content)
    except ValidationError as error:
        raise SettingsError(f"{path}: {describe(error)}") from error


def read_applications(
    outline: FileOutline, import_path: str, kind: type[AnySettings]
) -> dict[str, AnySettings]:
    """The settings of all applications of one kind, by application name."""
    return {
        entry.name: to_settings(kind, entry)
        for entry in outline.applications
        if entry.import_path == import_path
    }


def to_settings(kind: type[AnySettings], entry: ApplicationEntry) -> AnySettings:
    """One application's `args:`, typed.

    Raises:
        SettingsError: where a key is unknown or missing, or a value is wrong.
    """
    try:
        return kind.model_validate(entry.args)
    except ValidationError as error:
        raise SettingsError(f"application {entry.name!r}: {describe(error, 'args')}") from error


def find_api(outline: FileOutline) -> ApplicationEntry:
    """The one application that clients talk to.

    Raises:
        SettingsError: where there is none, or more than one.
    """
    entries = [entry for entry in outline.applications if entry.import_path == API_APP]
    if len(entries) != 1:
        raise SettingsError(f"{len(entries)} applications have import_path {API_APP}, not one")
    if entries[0].route_prefix is None:
        raise SettingsError(
            f"application {entries[0].name!r}: route_prefix is null: no route leads here"
        )
    return entries[0]


def check_models(models: Mapping[str, ModelSettings]) -> None:
    """Refuse models that could not stand beside each other or could not load.

    Raises:
        SettingsError: where two models share a name or alias, or a chat template is not there.
    """
    check_unique(
        "model name or alias",
        (name for model in models.values() for name in (model.name, *model.aliases)),
    )
    for application, model in models.items():
        if model.chat_template is None:
            continue
        try:
            find_file(model.chat_template)
        except SettingsError as error:
            raise SettingsError(
                f"application {application!r}: args.chat_template: {error}"
            ) from error


def check_references(
    api_name: str,
    api: ApiSettings,
    models: Mapping[str, ModelSettings],
    stores: Mapping[str, StoreSettings],
) -> None:
    """Refuse applications that would wait for one another for ever, or run and never be asked.

    Raises:
        SettingsError: where the api names an application that is not there, or leaves out a model.
    """
    for name in api.models:
        if name not in models:
            raise SettingsError(
                f"application {api_name!r}: args.models: no application {name!r} "
                f"with import_path {MODEL_APP}"
            )
    for name in models:
        if name not in api.models:
            raise SettingsError(
                f"application {name!r} would run and never be asked: add it to args.models of "
                f"application {api_name!r}"
            )
    if api.store not in stores:
        raise SettingsError(
            f"application {api_name!r}: args.store: no application {api.store!r} "
            f"with import_path {STORE_APP}"
        )


def check_unique(what: str, names: Iterable[str]) -> None:
    """Refuse a name that stands twice.

    Raises:
        SettingsError: where one does.
    """
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise SettingsError(f"two have the {what} {name!r}")
        seen.add(name)


def describe(error: ValidationError, prefix: str = "") -> str:
    """What is wrong with settings, each fault as `key: reason`, as they stand in the file."""
    return "; ".join(
        describe_fault(fault["type"], (prefix, *fault["loc"]), fault["msg"], fault["input"])
        for fault in error.errors()
    )


def describe_fault(kind: str, location: tuple[int | str, ...], message: str, value: object) -> str:
    """One fault of settings in the file's own words."""
    key = ".".join(str(part) for part in location if part != "")
    if key.endswith("api_keys_file"):
        return f"{key}: {message}"  # without the value, which may be a key in the wrong place
    match kind:
        case "extra_forbidden":
            return f"unknown key {key}"
        case "missing":
            return f"{key} is missing"
        case "value_error":
            return f"{key}: {message.removeprefix('Value error, ')}"
        case _:
            return f"{key}: {message} (got {value!r})"
