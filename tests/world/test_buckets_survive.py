"""Worlds on buckets: kills in the middle of rounds, other masters; the tables are the same."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pandas as pd
import psutil
import pytest
from audited import faults_of_tables
from killed import CLUSTER, NOTHING_SHARED, killed_then_gone_on

from scribe_spark.config import Execution, WorldConfig
from scribe_spark.experiments import run_world

CONFIG = WorldConfig(
    transit_domains=2, transit_size=2, stubs_per_transit=2, stub_size=3, nodes=120, groups=4,
    group_size=25, rounds=6, lookups=10, generator="mass-failure+publications", event_round=1,
    share=0.2, delivery="reliable",
)  # fmt: skip

TABLES = ("events", "rounds", "publications", "memberships", "watched_trees")

_EXECUTOR = "org.apache.spark.executor.CoarseGrainedExecutorBackend"


def table(out: Path, name: str) -> pd.DataFrame:
    return pd.read_parquet(out / "tables" / name)


def command(out: Path, *flags: str) -> list[str]:
    given = [f"--{name.replace('_', '-')}={value}" for name, value in CONFIG.given().items()]
    world = [sys.executable, "-m", "scribe_spark.cli", "world", *given]
    return [*world, f"--out={out}", "--buckets=2", *flags]


@pytest.fixture(scope="module")
def finished(spark, tmp_path_factory) -> Path:
    """The world in one bucket, in this session."""
    out = tmp_path_factory.mktemp("one") / "out"
    run_world(spark, CONFIG, Execution(out=str(out), buckets=1))
    assert faults_of_tables(out, CONFIG.overlay.nodes, {}) == []
    return out


def check(out: Path, finished: Path) -> None:
    for name in TABLES:
        assert table(out, name).equals(table(finished, name)), name
    assert faults_of_tables(out, CONFIG.overlay.nodes, {}) == []


@pytest.mark.slow
def test_killed_in_a_round_and_gone_on_by_executors(finished, tmp_path):
    """With kill -9, in `local[1]`; then `local-cluster` goes on."""
    out = tmp_path / "out"
    killed_then_gone_on(command(out, "--resume"), "round 3:", tmp_path / "log")
    check(out, finished)


@pytest.mark.slow
@pytest.mark.parametrize("tricks", [{}, NOTHING_SHARED], ids=["files", "rows"])
def test_an_executor_killed_in_a_round(tricks, finished, tmp_path):
    """Its tables are lost with it: Spark makes them again, or rounds are played from the last save.

    Which of the two depends on what the executor had at that moment.
    """
    out, log = tmp_path / "out", tmp_path / "log"
    with open(log, "w") as told:
        world = subprocess.Popen(
            command(out, f"--master={CLUSTER}"),
            stderr=told,
            stdout=told,
            start_new_session=True,
            env=os.environ | tricks,
        )
        try:
            wait_for("round 2:", world, log)
            time.sleep(0.5)
            next(filter(is_executor, psutil.Process(world.pid).children(recursive=True))).kill()
            assert world.wait(900) == 0, log.read_text()
        finally:
            world.kill()
    assert "Lost executor" in log.read_text()
    check(out, finished)


def is_executor(process: psutil.Process) -> bool:
    try:
        return _EXECUTOR in process.cmdline()
    except psutil.Error:  # it has just ended
        return False


def wait_for(text: str, world: subprocess.Popen, log: Path) -> None:
    end = time.monotonic() + 600
    while text not in log.read_text():
        assert world.poll() is None, log.read_text()
        assert time.monotonic() < end, log.read_text()
        time.sleep(0.05)
