"""Worlds that are killed in the middle of rounds, and other masters; the tables are the same."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pandas as pd
import psutil
import pytest
from killed import CLUSTER, NOTHING_SHARED, killed_then_gone_on
from small_network import NETWORK, table

from scribe_spark.config import Execution, WorldConfig, write_toml
from scribe_spark.experiments import run_world

CONFIG = WorldConfig(
    **NETWORK, nodes=120, groups=4, group_size=25, rounds=6, lookups=10, event_round=1, share=0.2,
    generator="mass-failure+publications", delivery="reliable", reference_tree=True,
    systems=("scribe", "plumtree", "narada", "nice", "overcast", "splitstream"),
    round_seconds=10.0, narada_join_periods=3, overcast_round_seconds=2.0,
    measures=("delay", "link_stress", "node_stress"),
)  # fmt: skip

TABLES = (
    *("events", "rounds", "publications", "memberships", "watched_trees", "tree_edges"),
    *("deliveries", "latency", "latency_counts"),
)

_EXECUTOR = "org.apache.spark.executor.CoarseGrainedExecutorBackend"


def command(out: Path, buckets: int, *flags: str) -> list[str]:
    config = out.with_name("world.toml")
    config.write_text(write_toml(CONFIG.flat()))
    world = [sys.executable, "-m", "scribe_spark.cli", "world", f"--config={config}"]
    return [*world, f"--out={out}", f"--buckets={buckets}", *flags]


@pytest.fixture(scope="module")
def finished(spark, tmp_path_factory) -> Path:
    """The world in one bucket, in this session."""
    out = tmp_path_factory.mktemp("one") / "out"
    run_world(spark, CONFIG, Execution(out=str(out), buckets=1))
    return out


def check(out: Path, finished: Path) -> None:
    for name in TABLES:
        assert in_order(table(out, name)).equals(in_order(table(finished, name))), name


def in_order(rows: pd.DataFrame) -> pd.DataFrame:
    """Sort rows: tasks write the tables of the last round, each in the order of its bucket."""
    return rows.sort_values(list(rows.columns), ignore_index=True)


@pytest.mark.slow
@pytest.mark.parametrize("buckets", [1, 2])
def test_killed_in_a_round_and_gone_on_by_executors(buckets, finished, tmp_path):
    """With kill -9, in `local[1]`; then `local-cluster` goes on."""
    out = tmp_path / "out"
    killed_then_gone_on(command(out, buckets, "--resume"), "round 3:", tmp_path / "log")
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
            command(out, 2, f"--master={CLUSTER}"),
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
