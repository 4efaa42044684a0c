"""Overcast on Spark: runs, worlds in tasks and as jobs, stopped worlds, sizes, refused settings."""

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

GROUPS = {**NETWORK, "nodes": 50, "groups": 3, "group_size": 25, "systems": "overcast"}
CONFIG = WorldConfig(
    **GROUPS, rounds=3, event_round=1, share=0.2, generator="mass-failure+publications",
    measures=("delay", "node_stress", "link_stress"), publish_source="any", link_stress_period=2,
    round_seconds=6.0, overcast_linear=1, overcast_lease=5,
)  # fmt: skip
SIZES = {"message_size": "20KB", "uplink": "20Mbit/s", "downlink": "50Mbit/s"}


def play(spark, out: Path, config: WorldConfig, told: Stops | None = None, **how) -> None:
    run_world(spark, config, Execution(out=str(out), **how), told or Stops())


OTHERS = [
    ("tasks", {"buckets": 2, "engine": "tasks"}),
    pytest.param("jobs", {"buckets": 7, "engine": "jobs"}, marks=pytest.mark.slow),
    pytest.param("stopped", {"buckets": 2, "resume": True}, marks=pytest.mark.slow),
]


@pytest.mark.parametrize(("other", "how"), OTHERS, ids=["tasks", "jobs", "stopped"])
@pytest.mark.parametrize(
    "more", [{}, pytest.param(SIZES, marks=pytest.mark.slow)], ids=["delays", "sizes"]
)
def test_a_world_is_the_same(spark, tmp_path, other, how, more, monkeypatch):
    config = CONFIG.replace(**more)
    play(spark, tmp_path / "one", config, buckets=1)
    told = Stops()
    if other == "stopped":
        monkeypatch.setattr(sys.modules[run_world.__module__], "SAVE_EVERY", 0.0)
        with pytest.raises(KeyboardInterrupt):
            play(spark, tmp_path / other, config, Stops("round 1:"), **how)
    play(spark, tmp_path / other, config, told, **how)
    assert (other == "stopped") == any("continues with round" in line for line in told.lines)
    for name in ("rounds", "publications"):
        one = table(tmp_path / "one", name)
        pd.testing.assert_frame_equal(table(tmp_path / other, name), one)
    rounds = table(tmp_path / "one", "rounds")
    last = rounds[rounds["round"] == 2].set_index("measure")["value"]
    assert 0 < last["overcast.shared"] <= last["overcast.bottleneck"] <= 1
    assert last["overcast.messages.check-in"] > 0


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["tasks", "jobs"])
def test_a_run_publishes_once_to_each_member(spark, tmp_path, engine):
    execution = Execution(out=str(tmp_path / "out"), master="local[2]", engine=engine)
    config = RunConfig(**GROUPS, overcast_rounds=30)
    with run(spark, config, execution, PHASES) as done:
        members = done.table("members").toPandas().groupby("group").size()
        edges, told = (done.table(name).toPandas() for name in ("tree_edges", "deliveries"))
    edges, told = (rows[rows["system"] == "overcast"] for rows in (edges, told))
    assert not edges.duplicated(["group", "child"]).any()
    for sent in (edges.groupby("group").size(), told.groupby("group")["node"].nunique()):
        assert sent.between(members - 1, members).all()


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"overcast_lease": 3}, "overcast_lease = 3: must be at least 4"),
        ({"overcast_tolerance": 0.0}, "overcast_tolerance = 0.0: must be at least 0.01"),
        ({"overcast_decide": "delay"}, "overcast_decide = 'delay': must be one of shared"),
        ({"transit_rate": "0Mbit/s"}, "transit_rate = '0Mbit/s': must be above 0"),
    ],
)
def test_impossible_settings_are_refused(given, words):
    for config in (RunConfig, WorldConfig):
        with pytest.raises(InputError) as refused:
            config(**given)
        assert str(refused.value).startswith(words)
