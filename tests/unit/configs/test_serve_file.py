"""A Serve YAML is refused with the application and the key at fault, before anything starts."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from configs.errors import SettingsError
from configs.serve_file import API_APP, MODEL_APP, STORE_APP, ServeFile, load_serve_file
from configs.settings import ApiSettings, ModelSettings, StoreSettings

KEYED = {"ANTIPHON_API_KEYS": "sk-a-key-of-ours"}


def model(application: str, **args: Any) -> dict[str, Any]:
    args = {"name": application, "source": "org/name"} | args
    return {"name": application, "import_path": MODEL_APP, "route_prefix": None, "args": args}


def store(**args: Any) -> dict[str, Any]:
    return {"name": "store", "import_path": STORE_APP, "route_prefix": None, "args": args}


def api(*models: str, **args: Any) -> dict[str, Any]:
    return {"name": "api", "import_path": API_APP, "args": {"models": list(models)} | args}


def load(
    folder: Path,
    *applications: dict[str, Any],
    environment: dict[str, str] | None = None,
    **top: Any,
) -> ServeFile:
    path = folder / "serve.yaml"
    content = {"http_options": {"host": "127.0.0.1"}, "applications": list(applications)} | top
    path.write_text(yaml.safe_dump(content))
    return load_serve_file(path, environment or {})


def test_a_good_file_is_read_into_typed_settings(tmp_path: Path) -> None:
    loaded = load(
        tmp_path,
        model("a", aliases=["x"]),
        model("b"),
        store(responses_store_max_entries=5),
        api("a", "b"),
        http_options={"host": "127.0.0.1", "port": 1234},
    )
    assert loaded == ServeFile(
        path=tmp_path / "serve.yaml",
        host="127.0.0.1",
        port=1234,
        applications=("a", "b", "store", "api"),
        models={
            "a": ModelSettings(name="a", aliases=("x",), source="org/name"),
            "b": ModelSettings(name="b", source="org/name"),
        },
        stores={"store": StoreSettings(responses_store_max_entries=5)},
        api=ApiSettings(models=("a", "b")),
        route_prefix="/",
    )


def test_the_environment_overrides_the_stores_settings(tmp_path: Path) -> None:
    environment = {"LLAMA_ARG_RESPONSES_STORE_MAX_ENTRIES": "9"}
    loaded = load(tmp_path, model("a"), store(), api("a"), environment=environment)
    assert loaded.stores == {"store": StoreSettings(responses_store_max_entries=9)}


@pytest.mark.parametrize(
    ("host", "url", "is_loopback"),
    [
        ("127.0.0.1", "http://127.0.0.1:8000", True),
        ("127.1.2.3", "http://127.1.2.3:8000", True),
        ("localhost", "http://localhost:8000", True),
        ("::1", "http://[::1]:8000", True),
        ("0.0.0.0", "http://127.0.0.1:8000", False),
        ("::", "http://[::1]:8000", False),
        ("192.0.2.7", "http://192.0.2.7:8000", False),
    ],
)
def test_a_file_knows_its_address_and_who_can_reach_it(
    tmp_path: Path, host: str, url: str, is_loopback: bool
) -> None:
    http = {"host": host}
    loaded = load(tmp_path, model("a"), store(), api("a"), environment=KEYED, http_options=http)
    assert (loaded.base_url, loaded.is_loopback) == (url, is_loopback)


def test_serves_own_default_host_is_open_to_the_network(tmp_path: Path) -> None:
    applications = model("a"), store(), api("a")
    assert not load(tmp_path, *applications, environment=KEYED, http_options={}).is_loopback


@pytest.mark.parametrize("http", [{"host": "0.0.0.0"}, {"host": "::"}, {"host": "192.0.2.7"}, {}])
def test_the_network_needs_a_key_unless_the_file_says_otherwise(
    tmp_path: Path, http: dict[str, str]
) -> None:
    def load_open(environment: dict[str, str], **args: Any) -> ServeFile:
        applications = model("a"), store(), api("a", **args)
        return load(tmp_path, *applications, environment=environment, http_options=http)

    with pytest.raises(SettingsError) as caught:
        load_open({})
    host = http.get("host", "0.0.0.0")
    assert f"http_options.host is {host!r}" in str(caught.value)
    assert "args.allow_without_key: true" in str(caught.value)
    (tmp_path / "keys").write_text("sk-a-key-of-ours")
    assert not load_open({}, api_keys_file=str(tmp_path / "keys")).is_loopback
    assert not load_open(KEYED).is_loopback
    assert not load_open({}, allow_without_key=True).is_loopback


def test_a_file_of_the_wrong_kind_where_keys_should_be_is_refused_without_its_value(
    tmp_path: Path,
) -> None:
    with pytest.raises(SettingsError) as caught:
        load(tmp_path, model("a"), store(), api("a", api_keys_file=["sk-a-key-of-ours"]))
    assert str(caught.value).startswith("application 'api': args.api_keys_file: Input is not")
    assert "sk-a-key" not in str(caught.value)


def test_keys_that_cannot_be_used_are_refused_on_this_machine_too(tmp_path: Path) -> None:
    applications = model("a"), store(), api("a")
    with pytest.raises(SettingsError, match="ANTIPHON_API_KEYS has no API key"):
        load(tmp_path, *applications, environment={"ANTIPHON_API_KEYS": ""})


def test_the_route_prefix_is_part_of_the_address(tmp_path: Path) -> None:
    loaded = load(tmp_path, model("a"), store(), api("a") | {"route_prefix": "/llm"})
    assert loaded.base_url == "http://127.0.0.1:8000/llm"


@pytest.mark.parametrize(
    ("applications", "message"),
    [
        ([model("a", colour="red"), store(), api("a")], "'a': unknown key args.colour"),
        (
            [model("a", sampling={"heat": 1}), store(), api("a")],
            "'a': unknown key args.sampling.heat",
        ),
        ([store(ttl=1), model("a"), api("a")], "'store': unknown key args.ttl"),
        ([model("a"), store(), api("a", hosts=1)], "'api': unknown key args.hosts"),
        (
            [model("a", max_running="16"), store(), api("a")],
            "'a': args.max_running: Input should be a valid integer (got '16')",
        ),
        ([model("a", aliases=["a"]), store(), api("a")], "'a': args: name and aliases have 'a'"),
        (
            [{"name": "a", "import_path": MODEL_APP}, store(), api("a")],
            "'a': args.name is missing; args.source is missing",
        ),
        (
            [model("a", aliases=["x"]), model("b", name="x"), store(), api("a", "b")],
            "two have the model name or alias 'x'",
        ),
        ([model("a"), model("a"), store(), api("a")], "two have the application 'a'"),
        ([model("a"), store(), api("a", "b")], "'api': args.models: no application 'b'"),
        ([model("a"), store(), api("a", "store")], "args.models: no application 'store'"),
        ([model("a"), model("b"), store(), api("a")], "'b' would run and never be asked"),
        ([model("a"), api("a")], "'api': args.store: no application 'store'"),
        ([model("a"), store(), api("a", store="a")], "args.store: no application 'a'"),
        ([model("a"), store()], f"0 applications have import_path {API_APP}"),
        ([model("a"), store(), api("a"), api("a") | {"name": "api2"}], "2 applications have"),
        (
            [model("a", chat_template="no.jinja"), store(), api("a")],
            "'a': args.chat_template: there is no file",
        ),
        ([model("a"), store(), api("a") | {"route_prefix": None}], "'api': route_prefix is null"),
        ([model("org/a"), store(), api("org/a")], "applications.0.name: String should match"),
        ([model("é"), store(), api("é")], "applications.0.name: String should match"),
        ([], "applications: List should have at least 1 item"),
        ([{"name": "a"}], "applications.0.import_path is missing"),
    ],
)
def test_a_wrong_file_is_refused_by_application_and_key(
    tmp_path: Path, applications: list[dict[str, Any]], message: str
) -> None:
    with pytest.raises(SettingsError) as caught:
        load(tmp_path, *applications)
    assert message in str(caught.value)


def test_an_application_of_the_users_own_is_left_to_serve(tmp_path: Path) -> None:
    mine = {"name": "mine", "import_path": "mine:app", "route_prefix": "/mine", "args": {"any": 1}}
    loaded = load(tmp_path, model("a"), store(), api("a"), mine)
    assert loaded.applications == ("a", "store", "api", "mine")


@pytest.mark.parametrize("text", ["", "[1, 2]", "applications: 7", "a: [", "\x00", "hello"])
def test_what_is_no_serve_file_is_refused_with_its_path(tmp_path: Path, text: str) -> None:
    path = tmp_path / "serve.yaml"
    path.write_text(text)
    with pytest.raises(SettingsError, match=r"serve\.yaml"):
        load_serve_file(path, {})


def test_a_file_that_is_not_there_is_refused_with_its_path(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"cannot read .*no\.yaml: No such file"):
        load_serve_file(tmp_path / "no.yaml", {})
    with pytest.raises(SettingsError, match="cannot read"):
        load_serve_file(tmp_path, {})


def test_a_port_that_is_none_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"http_options\.port"):
        load(tmp_path, model("a"), store(), api("a"), http_options={"port": 70000})
