"""A model is converted once, whoever asks and whatever is killed; no half of one is ever seen."""

import multiprocessing
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import pytest
from filelock import FileLock

from engine.errors import ModelLoadError
from engine.gguf.cache import PARTIAL
from engine.gguf.convert import MODEL_FILES
from engine.precision import DType
from engine.sources import LocalGguf, resolve_source
from tests.engine.gguf_fixtures import (
    die_at_moments,
    folder_digest,
    left_in,
    read_json,
    resolve,
    resolve_and_report,
    resolve_on_a_full_disk,
    stall_in_the_middle,
    write_gguf,
)

spawn = multiprocessing.get_context("spawn")


def test_a_model_is_converted_once_and_again_when_its_file_changes(
    tiny_gguf: Path, cache_dir: Path
) -> None:
    first = resolve(tiny_gguf, cache_dir)
    made_at = (first / "config.json").stat().st_mtime_ns
    assert resolve(tiny_gguf, cache_dir) == first
    assert (first / "config.json").stat().st_mtime_ns == made_at
    write_gguf(tiny_gguf, metadata={"llama.context_length": 64})
    second = resolve(tiny_gguf, cache_dir)
    assert second != first
    assert read_json(second / "config.json")["max_position_embeddings"] == 64


def test_a_model_that_is_there_is_taken_without_a_lock(tiny_gguf: Path, cache_dir: Path) -> None:
    folder = resolve(tiny_gguf, cache_dir)
    with FileLock(f"{folder}.lock"):
        assert resolve(tiny_gguf, cache_dir) == folder


def test_a_converted_model_that_lost_a_file_is_made_again(tiny_gguf: Path, cache_dir: Path) -> None:
    folder = resolve(tiny_gguf, cache_dir)
    (folder / "tokenizer.json").unlink()
    assert resolve(tiny_gguf, cache_dir) == folder
    assert {path.name for path in folder.iterdir()} == set(MODEL_FILES)


def test_the_second_of_two_processes_waits_and_takes_the_first_ones_model(
    tiny_gguf: Path, cache_dir: Path
) -> None:
    events = spawn.Queue()
    may_convert = spawn.Event()

    def start(name: str) -> multiprocessing.process.BaseProcess:
        arguments = (tiny_gguf, cache_dir, name, may_convert, events)
        process = spawn.Process(target=resolve_and_report, args=arguments, daemon=True)
        process.start()
        return process

    processes = [start("first")]
    assert events.get(timeout=60) == ("converts", "first")
    processes.append(start("second"))
    assert events.get(timeout=60) == ("waits", "second")
    assert left_in(cache_dir) == [next(cache_dir.glob("*.partial")).name]
    may_convert.set()
    results = {events.get(timeout=60), events.get(timeout=60)}
    for process in processes:
        process.join(60)
    folder = str(resolve(tiny_gguf, cache_dir))
    assert results == {(folder, "first"), (folder, "second")}
    assert left_in(cache_dir) == [Path(folder).name]


def test_a_killed_conversion_leaves_no_model_and_the_next_one_cleans_up(
    tiny_gguf: Path, cache_dir: Path
) -> None:
    has_stalled = spawn.Event()
    arguments = (tiny_gguf, cache_dir, has_stalled)
    process = spawn.Process(target=stall_in_the_middle, args=arguments, daemon=True)
    process.start()
    assert has_stalled.wait(60)
    [partial] = left_in(cache_dir)
    other = write_gguf(tiny_gguf.with_name("other.gguf"))
    kept = resolve(other, cache_dir)
    assert sorted(left_in(cache_dir)) == sorted([partial, kept.name]), "it is still being made"
    process.kill()
    process.join(60)
    other.touch()
    made = resolve(other, cache_dir)
    assert sorted(left_in(cache_dir)) == sorted([kept.name, made.name])
    folder = resolve(tiny_gguf, cache_dir)
    assert {path.name for path in folder.iterdir()} == set(MODEL_FILES)


def test_a_conversion_killed_at_any_moment_leaves_no_half_of_a_model(
    tmp_path: Path, tiny_gguf: Path, cache_dir: Path
) -> None:
    whole = folder_digest(resolve(tiny_gguf, tmp_path / "whole"))
    with ProcessPoolExecutor(1, mp_context=spawn) as pool:
        left = pool.submit(die_at_moments, tiny_gguf, cache_dir, whole, 30).result(120)
    made = resolve(tiny_gguf, cache_dir)
    assert left_in(cache_dir) == [made.name]
    assert folder_digest(made) == whole
    partial = made.name + PARTIAL
    seen = {tuple(sorted(names)) for names in left}
    assert {(), (partial,), (made.name,)} <= seen, "deaths before, during and after were tried"
    assert seen <= {(), (partial,), (made.name,), (made.name, partial)}


def test_a_full_disk_is_reported_and_leaves_nothing(tiny_gguf: Path, cache_dir: Path) -> None:
    with ProcessPoolExecutor(1, mp_context=spawn) as pool:
        error = pool.submit(resolve_on_a_full_disk, tiny_gguf, cache_dir).exception(60)
    assert isinstance(error, ModelLoadError)
    assert "cannot write the converted model" in error.message
    assert "File too large" in error.message
    assert left_in(cache_dir) == []


def test_a_cache_that_cannot_be_made_is_reported(tiny_gguf: Path, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ModelLoadError, match="cannot write the converted model to .*file/cache"):
        resolve(tiny_gguf, tmp_path / "file" / "cache")


def test_progress_is_shown_only_where_it_is_asked_for(
    tiny_gguf: Path, cache_dir: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    cases: list[tuple[bool, DType]] = [(False, "float32"), (True, "float16")]
    for show_progress, dtype in cases:
        resolve_source(
            LocalGguf(tiny_gguf),
            revision=None,
            dtype=dtype,
            cache_dir=cache_dir,
            show_progress=show_progress,
        )
        assert ("Converting tiny.gguf" in capfd.readouterr().err) is show_progress
