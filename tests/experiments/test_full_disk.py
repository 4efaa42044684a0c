"""A disk that takes no more: one line, nothing taken for whole, and on with more room."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

NETWORK = (
    *("--nodes=300", "--transit-domains=2", "--transit-size=2", "--stubs-per-transit=2"),
    *("--stub-size=5", "--groups=10"),
)

#: Commands, and the KiB of OUT's disk on which each of them fails half-way.
COMMANDS = {
    "run": (("run", *NETWORK, "--overlay=perfect"), 80),
    "sweep": (("sweep", *NETWORK, "--overlay=perfect", "--set=b=2,4"), 200),
    "world": (("world", *NETWORK, "--generator=churn", "--lifetime=20", "--rounds=4"), 150),
    "tree": (("reference-tree", "--hosts=10,20", "--connections=100"), 16),
}

#: The KiB of the disk of Spark's scratch folder.
SCRATCH = 40


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


def call(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "scribe_spark.cli", *arguments],
        env=os.environ | environment, capture_output=True, text=True, timeout=600,
    )  # fmt: skip


def check_refusal(done: subprocess.CompletedProcess[str], start: str) -> None:
    """One line, whatever was under way; Spark and its tasks say nothing."""
    *progress, last = done.stderr.splitlines()
    assert done.returncode == 1, done.stderr
    assert last.startswith(f"scribe-spark: error: {start}")
    assert "has no space left (No space left on device); free space there" in last
    assert last.endswith("then continue with --resume")
    assert not any("ERROR" in line or "Traceback" in line for line in progress), done.stderr


@pytest.mark.parametrize("full", ["out", "scratch"])
@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_on_a_full_disk_goes_on_with_more_room(disk, name, full, tmp_path):
    """The disk of OUT, or that of Spark's scratch folder."""
    (command, kib), where, start = COMMANDS[name], {}, f"out = '{disk}/x"
    out = f"{disk}/x"
    if full == "scratch":
        kib, out, where = SCRATCH, f"{tmp_path}/x", {"SPARK_LOCAL_DIRS": str(disk)}
        start = f"SPARK_LOCAL_DIRS = '{disk}'"
    program = (*command, "--master=local[1]", f"--out={out}")
    resize(disk, kib)
    check_refusal(call(*program, **where), start)
    told = call("verify", out)
    assert told.returncode == 0, told.stderr  # what the manifest names is whole
    assert told.stdout.endswith("not finished: continue with --resume\n")
    resize(disk, 900_000)
    done = call(*program, "--resume", **where)
    assert done.returncode == 0, done.stderr
    assert call("verify", out).stdout.endswith("all as written\n")
