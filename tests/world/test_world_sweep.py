"""A sweep over worlds, as a user types it, in the session that tests share."""

import contextlib
import json
import shutil
import sys
from pathlib import Path

import pandas as pd
import pytest
from command_line import exit_code
from damage import assert_all_damage_is_told
from stopping import Stops

from scribe_spark import experiments
from scribe_spark.cli import commands
from scribe_spark.config import Execution, WorldConfig
from scribe_spark.experiments import Sweep, run_world, stages
from scribe_spark.worlds.round_measures import ROUND_MEASURES
from scribe_spark.worlds.summary import measures_by_round, summary_units

pytestmark = pytest.mark.slow

BASE = {
    "transit_domains": 2, "transit_size": 2, "stubs_per_transit": 2, "stub_size": 3,
    "nodes": 60, "leaf_set": 8, "rounds": 3, "lookups": 30,
    "generator": "mass-failure", "share": 0.4, "maintenance_period": 2,
}  # fmt: skip
GRID = {"repair": ("lazy", "none")}
NAMES = ["repair=lazy", "repair=none"]


def flags(swept: str, **changes: object) -> list[str]:
    """`BASE` as it is typed, and a field that is swept instead."""
    fields = {name: v for name, v in (BASE | changes).items() if name != swept.partition("=")[0]}
    return [*(f"--{name.replace('_', '-')}={v}" for name, v in fields.items()), f"--set={swept}"]


REPAIR = flags("repair=lazy,none")


@pytest.fixture(scope="module")
def call(spark):
    """The command line in this process and session: exit code."""

    def run(*arguments: object) -> int:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(commands, "_session", lambda *_: contextlib.nullcontext(spark))
            return exit_code(arguments)

    return run


@pytest.fixture(scope="module")
def finished(call, tmp_path_factory) -> Path:
    """Two worlds on one network; not to be changed."""
    out, networks = tmp_path_factory.mktemp("worlds") / "out", []
    compute = stages.compute_routes
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            stages, "compute_routes", lambda *given: networks.append(1) or compute(*given)
        )
        assert call("world", *REPAIR, "--out", out) == 0
    assert len(networks) == 1  # the routes are shared
    return out


def test_all_that_worlds_left_can_be_verified(finished, tmp_path):
    assert_all_damage_is_told(Path(shutil.copytree(finished, tmp_path / "out")))


def rows(out: Path) -> pd.DataFrame:
    return pd.read_parquet(out / "sweep")


def rounds(point: Path) -> pd.DataFrame:
    return measures_by_round(pd.read_parquet(point / "tables" / "rounds"))


def test_each_point_is_a_world_and_its_numbers_are_in_the_table(finished):
    table = rows(finished)
    assert dict(table.dtypes.astype(str)) == {
        "repair": "object", "seed": "int64", "metric": "object", "value": "float64",
    }  # fmt: skip
    assert not table.duplicated(["repair", "metric"]).any()
    for repair, of in table.groupby("repair"):
        point = finished / f"repair={repair}"
        record = json.loads((point / "manifest.json").read_text())
        assert record["resolved"] == WorldConfig(**BASE, repair=repair).flat()
        assert (point / "report.html").exists()
        found, by_round = of.set_index("metric")["value"], rounds(point)
        assert list(by_round.index) == [0, 1, 2]
        assert set(by_round.columns) <= set(ROUND_MEASURES)
        assert set(found.index) <= set(summary_units())
        assert len(found) == 5 * len(by_round.columns)
        hops = by_round["lookups.hops"]
        assert found["lookups.hops"] == pytest.approx(hops.mean())
        assert found["lookups.hops.first"] == hops[0]
        assert found["lookups.hops.last"] == hops[2]
        assert found["nodes.live.least"] == 36
        assert found["nodes.live.most"] == 60
    last = table[table["metric"] == "cells.missing.last"].set_index("repair")["value"]
    assert last["none"] > last["lazy"]


def test_going_on(spark, call, finished, tmp_path, monkeypatch):
    """A point that is gone is played, goes on where it was interrupted; the other is kept."""
    out = tmp_path / "out"
    shutil.copytree(finished, out)
    shutil.rmtree(out / NAMES[1])
    shutil.rmtree(out / NAMES[0] / "tables" / "rounds")  # made again from what was saved
    monkeypatch.setattr(sys.modules[run_world.__module__], "SAVE_EVERY", 0.0)
    sweep = Sweep(WorldConfig(**BASE), GRID)
    how = Execution(out=str(out), master="local[2]", resume=True)
    told = Stops("round 1:")
    experiments.check_sweep(sweep, how)
    with pytest.raises(KeyboardInterrupt):
        experiments.run_sweep(spark, sweep, how, told)
    assert told.lines[:3] == [
        "point 1 of 2: repair=lazy", "rounds: complete, skipped", "point 2 of 2: repair=none",
    ]  # fmt: skip
    told = Stops()
    swept = experiments.run_sweep(spark, sweep, how, told)
    assert told.lines[2] == "point 2 of 2: repair=none"
    assert told.lines[4] == "continues with round 1"
    assert swept.rows.count() == len(rows(finished))
    pd.testing.assert_frame_equal(rows(out), rows(finished))
    shutil.rmtree(out / "sweep")
    assert call("world", *REPAIR, "--out", out, "--resume") == 0
    pd.testing.assert_frame_equal(rows(out), rows(finished))
