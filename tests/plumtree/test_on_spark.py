"""Plumtree on Spark: runs, worlds in tasks and as jobs, stopped worlds, sizes, refused settings."""

from __future__ import annotations

import sys
from pathlib import Path

import pandas as pd
import pytest
from small_network import NETWORK, table
from stopping import Stops

from scribe_spark.config import Execution, RunConfig, WorldConfig
from scribe_spark.core.errors import InputError
from scribe_spark.experiments import PHASES, run, run_world

GROUPS = {**NETWORK, "nodes": 50, "groups": 3, "group_size": 25, "systems": "plumtree"}
CONFIG = WorldConfig(
    **GROUPS, rounds=3, event_round=2, share=0.2, generator="mass-failure+publications",
    measures=("delay", "node_stress", "link_stress"), publish_source="any", link_stress_period=2,
)  # fmt: skip
SIZES = {"message_size": "20KB", "uplink": "20Mbit/s", "downlink": "50Mbit/s"}


def play(spark, out: Path, config: WorldConfig, told: Stops | None = None, **how) -> None:
    run_world(spark, config, Execution(out=str(out), **how), told or Stops())


SEVERAL = SIZES | {
    **{"generator": "mass-failure", "publications": 3, "interval": "30ms", "validation": "2ms"},
    "published_by": "members",
}
#: Publications of all groups in all rounds, some of them together, by sources that live.
SCHEDULE = ["time,group,node,size"] + [
    f"{30_000 * (n // 12) + 7 * (n % 5)}ms,{1 + n % 3},{n},{1 + n % 4}0KB" for n in range(24)
]
SCHEDULED = SEVERAL | {"publications": None, "interval": "0us", "published_by": "source"}


@pytest.mark.parametrize(
    ("more", "others"),
    [
        ({}, ["jobs"]),
        pytest.param(SIZES, ["tasks"], marks=pytest.mark.slow),
        pytest.param(SEVERAL, ["tasks"], marks=pytest.mark.slow),
        (SCHEDULED | {"schedule": "schedule.csv"}, ["tasks", "jobs", "stopped"]),
    ],
    ids=["delays", "sizes", "several", "schedule"],
)
def test_a_world_is_the_same_in_tasks_as_jobs_and_after_a_stop(
    spark, tmp_path, more, others, monkeypatch
):
    if "schedule" in more:
        (tmp_path / "schedule.csv").write_text("\n".join(SCHEDULE))
        more = more | {"schedule": str(tmp_path / "schedule.csv")}
    config = CONFIG.replace(**more)
    play(spark, tmp_path / "one", config, buckets=1)
    for other in others:
        if other != "stopped":
            play(spark, tmp_path / other, config, buckets=2, engine=other)
            continue
        monkeypatch.setattr(sys.modules[run_world.__module__], "SAVE_EVERY", 0.0)
        with pytest.raises(KeyboardInterrupt):
            play(spark, tmp_path / other, config, Stops("round 1:"), resume=True, buckets=2)
        told = Stops()
        play(spark, tmp_path / other, config, told, resume=True, buckets=2)
        assert any("continues with round" in line for line in told.lines)
    for name in ("rounds", "publications"):
        one = table(tmp_path / "one", name)
        for other in others:
            pd.testing.assert_frame_equal(table(tmp_path / other, name), one)
    values = one_measure(tmp_path / "one", "plumtree.publications.lost")
    assert sum(values.get(number, 0) for number in (0, 1)) == 0


@pytest.mark.slow
def test_a_world_in_seven_buckets_is_that_of_one(spark, tmp_path):
    for buckets in (1, 7):
        play(spark, tmp_path / str(buckets), CONFIG, buckets=buckets, engine="jobs")
    for name in ("rounds", "publications"):
        one, seven = (table(tmp_path / str(buckets), name) for buckets in (1, 7))
        pd.testing.assert_frame_equal(seven, one)


def one_measure(out: Path, measure: str) -> dict[int, float]:
    """Return a measure by round."""
    rows = table(out, "rounds")
    rows = rows[rows["measure"] == measure]
    return dict(zip(rows["round"].tolist(), rows["value"].tolist(), strict=True))


@pytest.mark.parametrize("more", [{}, SIZES], ids=["delays", "sizes"])
def test_a_run_floods_the_views_once(spark, tmp_path, more):
    out = tmp_path / "out"
    execution = Execution(out=str(out), master="local[2]", engine="tasks")
    phases = PHASES[:3] if more else PHASES
    with run(spark, RunConfig(**GROUPS, **more), execution, phases) as done:
        members, state = done.table("members").toPandas(), done.table("system_state").toPandas()
        copies = done.table("copies").toPandas()
        deliveries = done.table("deliveries").toPandas()
    copies, state, deliveries = (
        rows[rows["system"] == "plumtree"] for rows in (copies, state, deliveries)
    )
    copies = copies[copies["kind"] == "payload"]
    views = state[state["kind"] == "active"].groupby("group")["entries"].sum()
    for group, of_group in copies.groupby("group"):
        size = int((members["group"] == group).sum())
        assert len(of_group) == views[group] - (size - 1)
        assert of_group["first"].sum() == size - 1
        assert len(deliveries[deliveries["group"] == group]) == size - 1
        assert (of_group["sent_ms"] >= 0).all()
    assert len(views) == GROUPS["groups"]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"plumtree_active": 1}, "plumtree_active = 1: must be at least 2"),
        ({"plumtree_growth": 1.0}, "plumtree_growth = 1.0: must be at least 1.1"),
        ({"plumtree_rules": "babel"}, "plumtree_rules = 'babel': must be one of paper, iroh"),
        ({"plumtree_first_wait_ms": 0.0}, "plumtree_first_wait_ms = 0.0: must be at least 0.001"),
        ({"plumtree_repair": 1}, "plumtree_repair = 1: must be true or false"),
    ],
)
def test_impossible_settings_are_refused(given, words):
    for config in (RunConfig, WorldConfig):
        with pytest.raises(InputError) as refused:
            config(**given)
        assert str(refused.value).startswith(words)
