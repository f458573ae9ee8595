"""What is left for KV caches, of a GPU's memory, the machine's and a control group's."""

from pathlib import Path

import psutil
import pytest

from engine.memory import read_available_memory, read_group_rooms, share_memory

GIB = 2**30


def test_metal_leaves_a_tenth_of_its_working_set_beside_the_weights() -> None:
    device: dict[str, str | int] = {
        "max_recommended_working_set_size": 20 * GIB,
        "memory_size": 32 * GIB,
    }
    assert share_memory(device, 10 * GIB, available_bytes=20 * GIB) == 9 * GIB
    assert share_memory(device, 10 * GIB, available_bytes=8 * GIB) == 4 * GIB
    assert share_memory(device, 21 * GIB, available_bytes=20 * GIB) == 0


def test_cuda_counts_what_others_hold_and_what_was_read_before_the_weights() -> None:
    device: dict[str, str | int] = {
        "device_name": "L4",
        "total_memory": 24 * GIB,
        "free_memory": 10 * GIB,
    }
    assert share_memory(device, 4 * GIB, available_bytes=GIB) == 9 * GIB
    assert share_memory(device, 19 * GIB, available_bytes=GIB) == int(4.5 * GIB)
    assert share_memory({"total_memory": 24 * GIB}, 14 * GIB, available_bytes=GIB) == 9 * GIB


def test_a_cpu_leaves_half_of_the_machine_to_others() -> None:
    device: dict[str, str | int] = {"architecture": "x86_64", "device_name": "some"}
    assert share_memory(device, 10 * GIB, available_bytes=8 * GIB) == 4 * GIB


def write_group(folder: Path, **files: object) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (folder / name.replace("__", ".")).write_text(f"{content}\n")


def write_own_groups(root: Path, lines: str) -> None:
    (root / "proc/self").mkdir(parents=True)
    (root / "proc/self/cgroup").write_text(lines)


def test_a_limit_on_a_group_or_its_parent_binds(tmp_path: Path) -> None:
    write_own_groups(tmp_path, "0::/pod/container\n")
    groups = tmp_path / "sys/fs/cgroup"
    usage = {"memory__current": 3 * GIB, "memory__stat": f"anon 5\ninactive_file {GIB}\n"}
    write_group(groups / "pod/container", memory__max="max", **usage)
    write_group(groups / "pod", memory__max=10 * GIB, **usage)
    assert list(read_group_rooms(tmp_path)) == [8 * GIB]


def test_an_older_kernels_groups_count_too(tmp_path: Path) -> None:
    write_own_groups(tmp_path, "9:cpu:/x\n4:hugetlb,memory:/docker/abc\n0::/\n")
    group = tmp_path / "sys/fs/cgroup/memory"  # what a container sees in place of /docker/abc
    write_group(
        group,
        memory__limit_in_bytes=2 * GIB,
        memory__usage_in_bytes=3 * GIB,
        memory__stat="cache 7\ntotal_inactive_file 0",
    )
    assert list(read_group_rooms(tmp_path)) == [0]
    assert read_available_memory(tmp_path) == 0


@pytest.mark.parametrize("lines", ["", "0::/\n", "0::/../../elsewhere\n", "nonsense\n"])
def test_without_a_limit_the_machines_memory_counts(tmp_path: Path, lines: str) -> None:
    write_own_groups(tmp_path, lines)
    assert list(read_group_rooms(tmp_path)) == []
    machine = psutil.virtual_memory().available
    assert read_available_memory(tmp_path) == pytest.approx(machine, rel=0.2)
    assert read_available_memory(tmp_path / "no proc here") == pytest.approx(machine, rel=0.2)
