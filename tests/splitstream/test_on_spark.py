"""SplitStream on Spark: runs, worlds in tasks, as jobs and after a stop, refused settings."""

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

GROUPS = {
    **NETWORK,
    "nodes": 60,
    "groups": 3,
    "group_size": 40,
    "systems": ("scribe", "splitstream"),
}
CONFIG = WorldConfig(
    **GROUPS, rounds=6, event_round=2, share=0.2, splitstream_bound=18,
    generator="mass-failure+publications", measures=("delay", "node_stress", "link_stress"),
    publish_source="any", lost_after=2,
)  # fmt: skip
SLOW = pytest.mark.slow


def play(spark, out: Path, config: WorldConfig, told: Stops | None = None, **how) -> None:
    run_world(spark, config, Execution(out=str(out), **how), told or Stops())


@SLOW
@pytest.mark.parametrize("policy", ["freepastry", "spare-capacity"])
def test_a_world_is_the_same_in_tasks_as_jobs_and_after_a_stop(
    spark, tmp_path, policy, monkeypatch
):
    config = CONFIG.replace(splitstream_policy=policy)
    play(spark, tmp_path / "one", config, buckets=1)
    ways = {"tasks": (2, "tasks"), "jobs": (2, "jobs"), "seven": (7, "jobs")}
    for other, (buckets, engine) in ways.items():
        play(spark, tmp_path / other, config, buckets=buckets, engine=engine)
    monkeypatch.setattr(sys.modules[run_world.__module__], "SAVE_EVERY", 0.0)
    with pytest.raises(KeyboardInterrupt):
        play(spark, tmp_path / "stopped", config, Stops("round 2:"), resume=True, buckets=2)
    told = Stops()
    play(spark, tmp_path / "stopped", config, told, resume=True, buckets=2)
    assert any("continues with round" in line for line in told.lines)
    for name in ("rounds", "publications"):
        one = table(tmp_path / "one", name)
        for other in (*ways, "stopped"):
            pd.testing.assert_frame_equal(table(tmp_path / other, name), one)
    rows = table(tmp_path / "one", "rounds")
    missing = rows[rows["measure"] == "splitstream.open"].set_index("round")["value"]
    assert missing[0] == missing[5] == 0
    lost = rows[rows["measure"] == "splitstream.publications.lost"].set_index("round")["value"]
    assert lost.get(0, 0) == 0 < lost.get(2, 0)


@SLOW
@pytest.mark.parametrize("more", [{}, {"message_size": "20KB", "uplink": "20Mbit/s"}])
def test_a_run_reaches_each_member_once(spark, tmp_path, more):
    execution = Execution(out=str(tmp_path / "out"), master="local[2]", engine="tasks")
    phases = PHASES[:3] if more else PHASES
    with run(spark, RunConfig(**GROUPS, **more), execution, phases) as done:
        members = done.table("members").toPandas()
        deliveries = done.table("deliveries").toPandas()
    deliveries = deliveries[deliveries["system"] == "splitstream"]
    assert not deliveries.duplicated(["group", "node"]).any()
    for group, of_group in deliveries.groupby("group"):
        assert len(of_group) >= (members["group"] == group).sum() - 1


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"splitstream_stripes": 12}, "splitstream_stripes = 12: must be a power of 16"),
        ({"splitstream_stripes": 4}, "splitstream_stripes = 4: must be a power of 16"),
        ({"splitstream_bound": -1}, "splitstream_bound = -1: must be at least 0"),
        ({"splitstream_waves": 0}, "splitstream_waves = 0: must be at least 1"),
        ({"splitstream_policy": "mace"}, "splitstream_policy = 'mace': must be one of freepastry"),
    ],
)
def test_impossible_settings_are_refused(given, words):
    for config in (RunConfig, WorldConfig):
        with pytest.raises(InputError) as refused:
            config(systems="splitstream", nodes=100, groups=1, **given)
        assert str(refused.value).startswith(words)


@pytest.mark.parametrize(
    ("members", "bound", "words"),
    [
        (5_001, 17, "splitstream_bound = 17: must be 18 or more with more than 5,000 members"),
        (500_001, 24, "systems = 'splitstream': supports groups of 500,000 members"),
        (5_001, 18, None),
        (5_001, 0, None),
        (5_000, 17, None),
    ],
)
def test_tight_bounds_and_large_groups_are_refused(members, bound, words):
    given = {"groups": 1, "group_size": members, "nodes": 1_000_000}
    given |= {"systems": "splitstream", "splitstream_bound": bound}
    if words is None:
        RunConfig(**given)
        return
    with pytest.raises(InputError) as refused:
        RunConfig(**given)
    assert str(refused.value).startswith(words)
