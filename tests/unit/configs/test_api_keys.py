"""Keys are read as people write them; what cannot be one is refused by its place, never shown."""

from pathlib import Path

import pytest

from configs import api_keys
from configs.api_keys import check_reach, is_loopback, read_key_file, split_keys
from configs.errors import SettingsError


def write(folder: Path, content: bytes) -> Path:
    path = folder / "the {keys}"
    path.write_bytes(content)
    return path


def test_a_file_has_a_key_a_line_with_blank_lines_and_comments_between(tmp_path: Path) -> None:
    content = b"# alice\nsk-alice-1\n\n  # bob\n  sk-bob#2,3  \n\t\nsk-carol-3"
    assert read_key_file(write(tmp_path, content)) == ("sk-alice-1", "sk-bob#2,3", "sk-carol-3")


def test_a_file_from_windows_is_read_too(tmp_path: Path) -> None:
    content = b"\xef\xbb\xbfsk-alice-1\r\n\r\nsk-bob-22\r\n"
    assert read_key_file(write(tmp_path, content)) == ("sk-alice-1", "sk-bob-22")


def test_a_relative_path_is_looked_up_in_the_current_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, b"sk-alice-1")
    monkeypatch.chdir(tmp_path)
    assert read_key_file(Path("the {keys}")) == ("sk-alice-1",)


@pytest.mark.parametrize("text", ["sk-alice-1,sk-bob-22", " sk-alice-1\n\nsk-bob-22\r\n,"])
def test_a_variable_has_commas_or_line_ends_between_keys(text: str) -> None:
    assert split_keys(text, "KEYS") == ("sk-alice-1", "sk-bob-22")


SIZE, KIND = "has 8 to 512 characters", "is printable ASCII without blanks"


@pytest.mark.parametrize(
    ("key", "reason"),
    [
        ("secret7", SIZE),
        ("s" * 513, SIZE),
        ("secret of mine", KIND),
        ("secret\tof-mine", KIND),
        ("secret-of-mine # why", KIND),
        ("secret-d'été", KIND),
        ("secret\x00of-mine", KIND),
        ("secret\x0bof-mine", KIND),
        ("secret\x85of-mine", KIND),
        ("secret\u2028of-mine", KIND),
        ("secret\x7fof-mine", KIND),
    ],
)
def test_what_cannot_be_a_key_is_refused_by_its_place_alone(
    tmp_path: Path, key: str, reason: str
) -> None:
    path = write(tmp_path, f"# mine\nsk-alice-1\n{key}\n".encode())
    with pytest.raises(SettingsError) as in_file:
        read_key_file(path)
    with pytest.raises(SettingsError) as in_variable:
        split_keys(f"sk-alice-1,{key}", "KEYS")
    assert str(in_file.value) == f"line 3 of {path}: an API key {reason}"
    assert str(in_variable.value) == f"key 2 of KEYS: an API key {reason}"


@pytest.mark.parametrize("key", ["8letters", "s" * 512, "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~"])
def test_what_a_header_can_carry_is_a_key(tmp_path: Path, key: str) -> None:
    assert read_key_file(write(tmp_path, key.encode())) == (key,)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "has no API key"),
        (b"\n \n# sk-alice-1\n", "has no API key"),
        (b"secret-\xff-of-mine", "is not text in UTF-8"),
        ("secret-of-mine".encode("utf-16"), "is not text in UTF-8"),
    ],
)
def test_a_file_without_a_key_is_refused(tmp_path: Path, content: bytes, reason: str) -> None:
    path = write(tmp_path, content)
    with pytest.raises(SettingsError) as caught:
        read_key_file(path)
    assert str(caught.value) == f"{path} {reason}"
    assert caught.value.__cause__ is None


def test_a_file_that_cannot_be_read_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    path = write(tmp_path, b"sk-alice-1")
    monkeypatch.setattr(Path, "open", refuse)  # a test run by root may read every file
    with pytest.raises(SettingsError) as caught:
        read_key_file(path)
    assert str(caught.value) == f"cannot read {path}: Permission denied"


def test_a_folder_a_device_or_nothing_is_no_file_of_keys(tmp_path: Path) -> None:
    for path in (tmp_path, Path("/dev/zero"), tmp_path / "none"):
        with pytest.raises(SettingsError, match="there is no file"):
            read_key_file(path)


def test_a_file_that_is_far_too_large_is_not_read_to_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(api_keys, "MAX_FILE_BYTES", 20)
    read_key_file(write(tmp_path, b"s" * 20))
    with pytest.raises(SettingsError, match="larger than 20 bytes"):
        read_key_file(write(tmp_path, b"s" * 21))


@pytest.mark.parametrize(
    "host", ["localhost", "LocalHost", "127.0.0.1", "127.255.255.254", "::1", "0:0:0:0:0:0:0:1"]
)
def test_a_loopback_host_needs_no_key(host: str) -> None:
    assert is_loopback(host)
    check_reach(host, has_keys=False, allow_without_key=False)


@pytest.mark.parametrize(
    "host",
    [
        "0.0.0.0",
        "::",
        "192.0.2.7",
        "",
        "example.org",
        "localhost.example.org",
        "127.1",
        "128.0.0.1",
    ],
)
def test_any_other_host_needs_one_or_the_permission(host: str) -> None:
    assert not is_loopback(host)
    with pytest.raises(SettingsError, match="use this server without a key"):
        check_reach(host, has_keys=False, allow_without_key=False)
    check_reach(host, has_keys=True, allow_without_key=False)
    check_reach(host, has_keys=False, allow_without_key=True)


def test_where_no_server_listens_nobody_needs_a_key() -> None:
    check_reach(None, has_keys=False, allow_without_key=False)
