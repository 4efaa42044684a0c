"""Narada on Spark: runs, worlds in tasks and as jobs, stopped worlds, groups that are too large."""

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

pytestmark = pytest.mark.slow

GROUPS = {**NETWORK, "nodes": 50, "groups": 3, "group_size": 25, "systems": "narada"}
CONFIG = WorldConfig(
    **GROUPS, rounds=12, event_round=9, share=0.2, generator="mass-failure+publications",
    measures=("delay", "node_stress", "link_stress"), publish_source="any", link_stress_period=2,
    narada_join_periods=4,
)  # fmt: skip
SIZES = {"message_size": "20KB", "uplink": "20Mbit/s", "downlink": "50Mbit/s"}


def play(spark, out: Path, config: WorldConfig, told: Stops | None = None, **how) -> None:
    run_world(spark, config, Execution(out=str(out), **how), told or Stops())


@pytest.mark.parametrize(
    "more", [{}, SIZES, {"round_seconds": 30.0}], ids=["delays", "sizes", "30 s"]
)
def test_a_world_is_the_same_in_tasks_as_jobs_and_after_a_stop(spark, tmp_path, more, monkeypatch):
    config = CONFIG.replace(**more)
    play(spark, tmp_path / "one", config, buckets=1)
    play(spark, tmp_path / "jobs", config, buckets=7, engine="jobs")
    monkeypatch.setattr(sys.modules[run_world.__module__], "SAVE_EVERY", 0.0)
    with pytest.raises(KeyboardInterrupt):
        play(spark, tmp_path / "stopped", config, Stops("round 5:"), resume=True, buckets=2)
    told = Stops()
    play(spark, tmp_path / "stopped", config, told, resume=True, buckets=2)
    assert any("continues with round" in line for line in told.lines)
    for name in ("rounds", "publications"):
        one = table(tmp_path / "one", name)
        for other in ("jobs", "stopped"):
            pd.testing.assert_frame_equal(table(tmp_path / other, name), one)
    rounds = table(tmp_path / "one", "rounds").set_index(["measure", "round"])["value"]
    assert rounds["narada.multicasts.reached"][8] == 1
    assert rounds["narada.known"][8] == 25
    assert rounds["narada.messages.lost vector"][9] > 0


def test_a_run_reaches_each_member_once(spark, tmp_path):
    config = RunConfig(**GROUPS, narada_periods=40)
    execution = Execution(out=str(tmp_path / "out"), master="local[2]", engine="tasks")
    with run(spark, config, execution, PHASES) as done:
        members = done.table("members").toPandas().groupby("group").size()
        copies, deliveries, control, state = (
            done.table(name).toPandas()
            for name in ("copies", "deliveries", "control", "system_state")
        )
    for group, size in members.items():
        for rows in (copies[copies["kind"] == "payload"], deliveries):
            mine = rows[(rows["system"] == "narada") & (rows["group"] == group)]
            assert size - 1 <= len(mine) <= size
    stored = state[state["system"] == "narada"].groupby(["kind", "group"])["entries"].sum()
    assert (stored["members"] == members**2).all()
    assert (stored["neighbours"] >= 2 * (members - 1)).all()
    sent = control[control["system"] == "narada"].groupby("kind")["messages"].sum()
    assert set(sent.index) == {"vector", "probe", "answer", "link", "unlink"}


def test_a_group_of_a_table_that_is_too_large_is_refused_in_one_line(spark, tmp_path):
    rows = "\n".join(f"1,{node}" for node in range(1_025))
    (tmp_path / "members.csv").write_text(f"group,node\n{rows}\n")
    config = WorldConfig(
        **NETWORK, nodes=1_100, members=str(tmp_path / "members.csv"), systems="narada", rounds=2
    )
    with pytest.raises(InputError, match=r"^systems = 'narada': has 1,025 members in group 1; "):
        play(spark, tmp_path / "out", config, buckets=2)
