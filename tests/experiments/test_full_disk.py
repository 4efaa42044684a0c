"""OUT on a disk that takes no more: one line, nothing taken for whole, and on with more room."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

SMALL = (
    *("--nodes=300", "--groups=10", "--transit-domains=2", "--transit-size=2"),
    *("--stubs-per-transit=2", "--stub-size=5", "--master=local[1]"),
)

#: Commands, and the KiB on which each of them fails half-way.
COMMANDS = {
    "run": (("run",), 80),
}


@pytest.fixture
def disk(tmp_path) -> Iterator[Path]:
    """A disk of its own, which only root can have."""
    place = tmp_path / "disk"
    place.mkdir()
    made = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4k", "tmpfs", str(place)])
    if made.returncode:
        pytest.skip("nothing can be mounted here")
    yield place
    subprocess.run(["umount", str(place)], check=True)


def resize(disk: Path, kib: int) -> None:
    subprocess.run(["mount", "-o", f"remount,size={kib}k", str(disk)], check=True)


@pytest.mark.parametrize("name", COMMANDS)
def test_a_full_disk(disk, name):
    command, kib = COMMANDS[name]
    program = [sys.executable, "-m", "scribe_spark.cli", *command, *SMALL, f"--out={disk}/x"]
    resize(disk, kib)
    done = subprocess.run(program, capture_output=True, text=True, timeout=600)
    *progress, last = done.stderr.splitlines()
    assert done.returncode == 1, done.stderr
    assert last.startswith(f"scribe-spark: error: out = '{disk}/x")
    assert "takes no more (No space left on device); make room there" in last
    assert not any("ERROR" in line or "Traceback" in line for line in progress)
    resize(disk, 16_000)
    done = subprocess.run([*program, "--resume"], capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    verify = [sys.executable, "-m", "scribe_spark.cli", "verify", f"{disk}/x"]
    done = subprocess.run(verify, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
