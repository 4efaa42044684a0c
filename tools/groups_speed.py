"""Seconds of a round beside what happens in it: worlds that differ in churn and publications."""

from __future__ import annotations

import time
from pathlib import Path
from statistics import mean, median
from typing import Any

import pandas as pd
from pyspark.sql import SparkSession

from benchmarks import calibrate
from scribe_spark import Execution, Simulation, WorldConfig, make_world
from scribe_spark.cli.sessions import open_session
from scribe_spark.core.paths import replace_file
from scribe_spark.experiments import network_of

__all__ = ["FILE", "measured", "run"]

#: What an experiment leaves in its folder.
FILE = "speed.csv"

#: Mean lifetimes in rounds, and publications of a group in a round; 10,000 live nodes.
_POINTS = [(lifetime, rate) for rate in (0.0, 1.0) for lifetime in (10_000, 1_000, 100, 20)]

_WORLD = {"nodes": 12_000, "initial": 10_000, "groups": 150, "lookups": 0, "rounds": 16}
_FIRST = 4  # rounds before it are left out: they create groups, and compile code


def run(folder: Path) -> None:
    """Write :data:`FILE` into `folder`, unless it is there."""
    if (folder / FILE).exists():
        return
    folder.mkdir(parents=True, exist_ok=True)
    nodes = _WORLD["nodes"]
    with open_session(Execution(out=str(folder)), nodes, 100 * nodes) as spark:
        before = calibrate()
        rows = [
            measured(spark, lifetime=lifetime, publish_rate=rate, **_WORLD)
            for lifetime, rate in _POINTS
        ]
        table = pd.DataFrame(rows).assign(calibration=(before + calibrate()) / 2)
    replace_file(folder / FILE, table.to_csv(index=False).encode())


def measured(spark: SparkSession, first: int = _FIRST, **given: float | int) -> dict[str, float]:
    """Means over the rounds from `first` on, and the median of their seconds.

    Parameters
    ----------
    given
        Fields of the world; `publish_rate` may be 0.
    """
    rate = given.pop("publish_rate")
    made: dict[str, Any] = {"generator": "churn"}
    if rate:
        made = {"generator": "churn+publications", "publish_rate": rate}
    config = WorldConfig(delivery="reliable", seed=1, **made, **given)
    rounds, seconds = [], []
    with Simulation(spark, network_of(config)) as simulation:
        world = make_world(simulation, config)
        try:
            for _ in range(config.world.rounds):
                begin = time.perf_counter()
                rounds.append(world.step())
                seconds.append(time.perf_counter() - begin)
        finally:
            world.release()
    later = rounds[first:]

    def of(*names: str) -> float:
        return mean(sum(values.get(name, 0.0) for name in names) for values in later)

    return {
        "events": 2 * of("nodes.live") / config.world.lifetime,
        "publications": of("scribe.publications.sent"),
        "payloads": of("messages.payload", "messages.retransmission"),
        "JOINs": of("scribe.joins"),
        "seconds": median(seconds[first:]),
    }
