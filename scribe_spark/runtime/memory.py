"""The memory of the machine or container, the share of the JVM's heap, and malloc's free memory."""

from __future__ import annotations

import ctypes
from pathlib import Path

_GIB = 2**30

#: Up to this number of nodes, tables are small in comparison with the JVM's other data.
SMALL = 20_000

#: From this number of nodes on, tables take most of the heap.
LARGE = 500_000

#: Options of glibc's mallopt (malloc.h): how much free memory stays with the process, how much more
#: than it needs it asks for, and from which size on memory is mapped; in bytes.
_MALLOC = {-1: 2**29, -2: 2**26, -3: 2**30}


def heap_mib(
    nodes: int, limit: int | None = None, *, worlds: bool = False, mapped: bool = False
) -> int:
    """Return the size of the JVM's heap for `nodes` overlay nodes, in MiB.

    It is 3 GiB and 2.5 KiB per node; for worlds 2 GiB and 1 KiB, and half of that if tasks map
    tables from files (`mapped`); at most 60 % of `limit` bytes, at least 1 GiB.
    """
    limit = memory_limit() if limit is None else limit
    wanted = 2 * _GIB + nodes * 1024 if worlds else 3 * _GIB + nodes * 2560
    if worlds and mapped:
        wanted //= 2
    return int(max(_GIB, min(wanted, 0.6 * limit)) / 2**20)


def young_mib(heap: int, nodes: int) -> int:
    """Return the part of a heap (MiB) for new objects, which a round makes and drops: half of it.

    For up to :data:`SMALL` nodes, at most 512 MiB: a long world fills all of it.  Above
    :data:`LARGE` nodes, a quarter: tables that stay are more than half, and the JVM would collect
    all in every round.
    """
    if nodes > LARGE:
        return heap // 4
    return min(heap // 2, 512) if nodes <= SMALL else heap // 2


def keep_freed_memory() -> None:
    """Let malloc keep freed memory for the next arrays, if it is glibc's."""
    for option, size in _MALLOC.items():
        _call_glibc("mallopt", option, size)


def return_freed_memory() -> None:
    """Give the memory that malloc keeps for later arrays back to the system, if it is glibc's."""
    _call_glibc("malloc_trim", 0)


def _call_glibc(name: str, *arguments: int) -> None:
    """Call a function of glibc; do nothing with another library of C."""
    function = getattr(ctypes.CDLL(None), name, None)
    if function is not None:
        function(*arguments)


def memory_limit(root: Path = Path("/")) -> int:
    """Return the bytes of memory for this process: the machine's, or its container's limit."""
    import psutil  # imported here, as tasks do not need it

    limits = []
    for file in _limit_files(root):
        try:
            limits.append(int(file.read_text()))
        except (OSError, ValueError):  # no such file; "max", which is no limit
            continue
    return min([psutil.virtual_memory().total, *(limit for limit in limits if limit > 0)])


def _limit_files(root: Path) -> list[Path]:
    """Return the files with the limits of this process's control groups and of the groups above."""
    try:
        lines = (root / "proc/self/cgroup").read_text().splitlines()
    except OSError:
        return []
    files = []
    for line in lines:
        # version 2 has a line ``0::/group`` and one hierarchy, version 1 ``4:memory:/group``
        _, controllers, group = [*line.split(":", 2), "", ""][:3]
        if not controllers:
            top, name = root / "sys/fs/cgroup", "memory.max"
        elif "memory" in controllers.split(","):
            top, name = root / "sys/fs/cgroup/memory", "memory.limit_in_bytes"
        else:
            continue
        # in a container, the group may have the host's name, while its files are at the top
        inside = Path(group.lstrip("/"))
        files += [top / folder / name for folder in (inside, *inside.parents)]
    return files
