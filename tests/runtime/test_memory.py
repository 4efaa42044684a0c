"""The heap's size: by what the container may use, not by what the machine has."""

from __future__ import annotations

from pathlib import Path

import pytest

from scribe_spark.runtime.memory import heap_mib, memory_limit, young_mib

GIB = 2**30


def limit_file(root: Path, place: str, text: str) -> None:
    file = root / "sys/fs/cgroup" / place
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text + "\n")


@pytest.mark.parametrize(
    ("groups", "limits", "expected"),
    [
        ("0::/", {"memory.max": "3000000000"}, 3_000_000_000),  # a container, version 2
        ("0::/a/b", {"a/b/memory.max": "max", "a/memory.max": "2000000000"}, 2_000_000_000),
        ("0::/a", {"a/memory.max": "2000000000", "memory.max": "1500000000"}, 1_500_000_000),
        (
            "5:cpu:/x\n4:memory:/docker/5e\n0::/",  # version 1, the group as the host knows it
            {"memory/memory.limit_in_bytes": "1000000000"},
            1_000_000_000,
        ),
        (
            "4:hugetlb,memory:/y",
            {
                "memory/memory.limit_in_bytes": "9223372036854771712",  # version 1's "no limit"
                "memory/y/memory.limit_in_bytes": "1200000000",
            },
            1_200_000_000,
        ),
    ],
)
def test_a_containers_limit_is_the_limit(tmp_path, groups, limits, expected):
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/self/cgroup").write_text(groups + "\n")
    for place, text in limits.items():
        limit_file(tmp_path, place, text)
    assert memory_limit(tmp_path) == expected


@pytest.mark.parametrize("text", ["max", "", "0", "-1", "9223372036854771712"])
def test_without_a_limit_it_is_the_machines_memory(tmp_path, text):
    physical = memory_limit(tmp_path)  # no such files at all
    assert physical > GIB // 2
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/self/cgroup").write_text("0::/\nodd line\n")
    limit_file(tmp_path, "memory.max", text)
    assert memory_limit(tmp_path) == physical


def test_heap_by_nodes_and_limit():
    assert heap_mib(100_000, limit=100 * GIB) == 3 * 1024 + 244
    assert heap_mib(100_000, limit=5 * GIB) == 3 * 1024
    assert heap_mib(10, limit=GIB) == 1024
    assert heap_mib(1_024 * 1_024, limit=100 * GIB, worlds=True) == 3 * 1024
    assert heap_mib(1_024 * 1_024, limit=100 * GIB, worlds=True, mapped=True) == 1_536
    assert heap_mib(100_000, limit=100 * GIB, mapped=True) == 3 * 1024 + 244


def test_young_generation_by_nodes():
    assert young_mib(3_488, 100_000) == 1_744
    assert young_mib(6_000, 1_000_000) == 1_500
    assert young_mib(3_100, 20_000) == 512
    assert young_mib(1_024, 10) == 512
    assert young_mib(800, 10) == 400
