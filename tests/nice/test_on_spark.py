"""NICE on Spark: runs, worlds in tasks and as jobs, stopped worlds, refused settings."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pandas as pd
import pytest
from small_network import NETWORK, table
from stopping import Stops

from scribe_spark.config import Execution, RunConfig, WorldConfig
from scribe_spark.experiments import PHASES, run, run_world

GROUPS = {**NETWORK, "nodes": 60, "groups": 3, "group_size": 40, "systems": "nice"}
CONFIG = WorldConfig(
    **GROUPS, rounds=5, event_round=3, share=0.2, generator="mass-failure+publications",
    measures=("delay", "node_stress", "link_stress"), publish_source="any", link_stress_period=2,
    nice_newcomers=20, round_seconds=30.0,
)  # fmt: skip


def play(spark, out: Path, told: Stops | None = None, **how) -> None:
    run_world(spark, CONFIG, Execution(out=str(out), **how), told or Stops())


@pytest.mark.slow
def test_a_world_is_the_same_in_tasks_as_jobs_and_after_a_stop(spark, tmp_path, monkeypatch):
    play(spark, tmp_path / "one", buckets=1)
    for buckets, engine in ((2, "tasks"), (7, "jobs")):
        play(spark, tmp_path / engine, buckets=buckets, engine=engine)
    monkeypatch.setattr(sys.modules[run_world.__module__], "SAVE_EVERY", 0.0)
    with pytest.raises(KeyboardInterrupt):
        play(spark, tmp_path / "stopped", Stops("round 2:"), resume=True, buckets=2)
    told = Stops()
    play(spark, tmp_path / "stopped", told, resume=True, buckets=2)
    assert any("continues with round" in line for line in told.lines)
    for name in ("rounds", "publications"):
        one = table(tmp_path / "one", name)
        for other in ("tasks", "jobs", "stopped"):
            pd.testing.assert_frame_equal(table(tmp_path / other, name), one)
    rounds = table(tmp_path / "one", "rounds")
    values = {
        name: dict(zip(rows["round"], rows["value"], strict=True))
        for name, rows in rounds[rounds["system"] == "nice"].groupby("measure")
    }
    assert values["nice.waiting"][4] == values["nice.unsound"][4] == 0
    assert values["nice.waiting"][0] == 0
    assert values["nice.splits"][0] > 0
    assert values["nice.new_leaders"][3] > 0


@pytest.mark.slow
def test_a_run_reaches_each_member_once(spark, tmp_path):
    measured = {}
    for engine in ("tasks", "jobs"):
        out = tmp_path / engine
        run(spark, RunConfig(**GROUPS), Execution(out=str(out), engine=engine), PHASES)
        metrics = json.loads((out / "metrics.json").read_text("utf-8"))
        measured[engine] = {one["name"]: one["value"] for one in metrics}
    assert measured["tasks"] == measured["jobs"]
    drawn = [
        table(tmp_path / engine, "pictures").sort_values("child", ignore_index=True)
        for engine in measured
    ]
    pd.testing.assert_frame_equal(*drawn)
    assert len(drawn[0]) == 39  # all members of one group but the top leader
    assert "picture-nice" in (tmp_path / "jobs" / "report.html").read_text("utf-8")
    assert measured["tasks"]["nice.reached"] == 1
    pairs = table(tmp_path / "jobs", "members").merge(table(tmp_path / "jobs", "groups"))
    wanted = sorted(zip(pairs["group"], pairs["node"], strict=True))
    sources = set(zip(pairs["group"], pairs["root"], strict=True))
    for name, node in (("tree_edges", "child"), ("deliveries", "node")):
        rows = table(tmp_path / "jobs", name)
        rows = rows[rows["system"] == "nice"]
        reached = sorted(zip(rows["group"], rows[node], strict=True))
        assert reached == [pair for pair in wanted if pair not in sources]
