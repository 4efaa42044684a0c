"""A small run that is done once, and ways to make and look at others."""

import fcntl
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from scribe_spark import experiments
from scribe_spark.config import Execution, RunConfig
from scribe_spark.experiments.lock import LOCK
from scribe_spark.runtime.session import archive_option

ROOT = Path(__file__).resolve().parents[2]

#: 28 routers, 200 nodes with perfect tables, 8 groups of 200 to 15 members.
SMALL: dict[str, Any] = {
    "nodes": 200, "groups": 8, "transit_domains": 2, "transit_size": 2, "stubs_per_transit": 2,
    "stub_size": 3, "overlay": "perfect",
}  # fmt: skip

#: A smaller one with trees of every kind, and a limit that keeps the remover busy.
GROWN: dict[str, Any] = SMALL | {
    "nodes": 60,
    "groups": 5,
    "variants": "bottleneck,collapse,lazy,reference_tree",
    "limit": 8,
}


def flags(config: dict[str, Any]) -> list[str]:
    """As a user types them."""
    return [text for name, v in config.items() for text in (f"--{name.replace('_', '-')}", str(v))]


FLAGS = flags(SMALL)

#: The same where members are a table's, which says itself how many groups there are.
MEMBERS_FLAGS = flags({name: value for name, value in SMALL.items() if name != "groups"})

#: As a short run's own session has them: half of its time is what the JVM loads and compiles.
JAVA = f"-XX:TieredStopAtLevel=1 {archive_option()}".strip()


def manifest(out: Path | str) -> dict[str, Any]:
    return json.loads((Path(out) / "manifest.json").read_text())


def copied(run: Path | str, out: Path) -> Path:
    """A copy of a run's folder, at `out`.

    Without the lock that another of pytest's workers has while it looks through the folder.
    """
    return Path(shutil.copytree(run, out, ignore=shutil.ignore_patterns(LOCK)))


@pytest.fixture
def copy(small: experiments.Run, tmp_path: Path) -> Path:
    """The small run, which may be damaged."""
    return copied(small.out, tmp_path / "out")


def left(out: Path | str) -> dict[str, Any]:
    """Every table's content (rows, columns, digest), and every text's digest, by the manifest."""
    entries = manifest(out)["phases"]
    tables = {name: content(r) for entry in entries for name, r in entry["tables"].items()}
    return tables | {name: digest for entry in entries for name, digest in entry["texts"].items()}


def content(record: dict[str, Any]) -> dict[str, Any]:
    """The part of a table's record that does not depend on its files."""
    return {name: value for name, value in record.items() if name != "files"}


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "scribe_spark.cli", *arguments]


def environment(**more: str) -> dict[str, str]:
    """Of a user's shell: nothing of this process's Spark."""
    ours = ("PYSPARK_", "SPARK_")
    return {k: v for k, v in os.environ.items() if not k.startswith(ours)} | more


def shell(arguments: list[str], **more: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        arguments, env=environment(**more), capture_output=True, text=True, timeout=600
    )


@pytest.fixture
def make(spark: SparkSession, tmp_path: Path) -> Callable[..., experiments.Run]:
    """A run in this process: changes to :data:`SMALL`, and where and how."""

    def run(
        out: Path | str | None = None,
        *,
        phases: tuple[str, ...] = experiments.PHASES,
        partitions: int = 2,
        resume: bool = False,
        overwrite: bool = False,
        progress: Any = None,
        engine: str = "tasks",
        **changes: Any,
    ) -> experiments.Run:
        usual = {n: v for n, v in SMALL.items() if n != "groups" or "members" not in changes}
        config = RunConfig(**usual | changes)
        where = str(tmp_path / "out" if out is None else out)
        execution = Execution(
            out=where,
            master="local[2]",
            partitions=partitions,
            resume=resume,
            overwrite=overwrite,
            engine=engine,
        )
        experiments.check(config, execution)
        return experiments.run(spark, config, execution, phases, progress)

    return run


@pytest.fixture(scope="session")
def small(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> experiments.Run:
    """The small run, whole, with its routing tables; not to be changed."""
    return whole(spark, tmp_path_factory, "small", SMALL)


@pytest.fixture(scope="session")
def grown(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> experiments.Run:
    """:data:`GROWN`, whole, with its routing tables; not to be changed."""
    return whole(spark, tmp_path_factory, "grown", GROWN)


def whole(
    spark: SparkSession, factory: pytest.TempPathFactory, name: str, config: dict[str, Any]
) -> experiments.Run:
    """A run that pytest's workers share: made by the first that asks, looked through by others."""
    ours = factory.getbasetemp()
    shared = ours.parent if "PYTEST_XDIST_WORKER" in os.environ else ours
    how = {"master": "local[2]", "partitions": 2, "engine": "tasks"}
    where = Execution(out=str(shared / name), resume=True, **how)
    with open(shared / f"{name}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        phases = () if (shared / name / "report.html").exists() else experiments.PHASES
        return experiments.run(spark, RunConfig(**config, write_routing_table=True), where, phases)


class Notes:
    """Remembers what a run told."""

    def __init__(self) -> None:
        from scribe_spark.core.progress import Silent

        self.lines: list[str] = []
        self.phase, self.round = Silent().phase, Silent().round

    def note(self, text: str) -> None:
        self.lines.append(text)
