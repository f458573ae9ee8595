"""How much memory KV caches may take: what the machine and the process's limits leave. No MLX."""

from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath

import psutil

GPU_SHARE = 0.9  # the rest is for activations and for what the allocator cannot reuse
# Other models' processes share the machine's memory, and each sees the same free bytes at its
# start; the activations of a prompt and the responses in flight need room as well.
MACHINE_SHARE = 0.5


def share_memory(device: Mapping[str, str | int], active_bytes: int, available_bytes: int) -> int:
    """Bytes for KV caches, once the weights are in memory.

    `device` is what MLX says of its device: Metal gives a `max_recommended_working_set_size`, CUDA
    `total_memory` and `free_memory`, a CPU neither. `active_bytes` is what MLX holds in this
    process, `available_bytes` what the machine has left. CUDA's `free_memory` may be older than
    the weights, so that both of its numbers count.
    """
    shared_bytes = int(available_bytes * MACHINE_SHARE)
    working_set = device.get("max_recommended_working_set_size")
    if isinstance(working_set, int):  # of this process alone, but its memory is the machine's
        return max(0, min(int((working_set - active_bytes) * GPU_SHARE), shared_bytes))
    total, free = device.get("total_memory"), device.get("free_memory")
    if isinstance(total, int):
        left = total - active_bytes
        return max(0, int(min(left, free if isinstance(free, int) else left) * GPU_SHARE))
    return shared_bytes


def read_available_memory(root: Path = Path("/")) -> int:
    """Bytes that this process can allocate: what is free, or less where its control group says so.

    `root` is where `/proc` and `/sys` are looked for.
    """
    return min([psutil.virtual_memory().available, *read_group_rooms(root)])


def read_group_rooms(root: Path) -> Iterator[int]:
    """Bytes left under the memory limits of the control groups (v1 and v2) that hold this process.

    A limit on any parent binds too. In a container the path may not exist: there the mounted root
    is its own group.
    """
    try:
        lines = (root / "proc/self/cgroup").read_text().splitlines()
    except OSError:
        return
    for line in lines:
        number, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if number == "0":
            mount, limit, usage = "sys/fs/cgroup", "memory.max", "memory.current"
            reclaimable = "inactive_file"
        elif "memory" in controllers.split(","):
            mount, limit = "sys/fs/cgroup/memory", "memory.limit_in_bytes"
            usage, reclaimable = "memory.usage_in_bytes", "total_inactive_file"
        else:
            continue
        group = PurePosixPath(path.lstrip("/"))
        for folder in [group, *group.parents]:
            room = read_room(root / mount / folder, limit, usage, reclaimable)
            if room is not None:
                yield room


def read_room(folder: Path, limit: str, usage: str, reclaimable: str) -> int | None:
    """Limit minus usage; None without a limit. Cached pages of files count as free, as the kernel
    gives them back before it kills."""
    try:
        limit_bytes = int((folder / limit).read_text())  # v2 says "max" for none
        used_bytes = int((folder / usage).read_text())
        stat = (folder / "memory.stat").read_text()
    except (OSError, ValueError):
        return None
    cached = [line.split()[1] for line in stat.splitlines() if line.startswith(f"{reclaimable} ")]
    return max(0, limit_bytes - used_bytes + sum(map(int, cached)))
