"""Sweeps: what is refused, where points go, and rows that are those of ordinary runs."""

import json
import shutil
import sys
from pathlib import Path

import pandas as pd
import pytest
from damage import assert_all_damage_is_told

from scribe_spark.config import Execution, RunConfig, WorldConfig
from scribe_spark.core.errors import InputError
from scribe_spark.experiments import Sweep, check_sweep, run_sweep, verify
from scribe_spark.experiments.sweep import PointResult

from .conftest import SMALL, manifest

ROOT = Path(__file__).resolve().parents[2]


# ------------------------------------------------------------------------------- what is swept


def test_points_in_order():
    swept = Sweep.of({"nodes": 500}, {"seed": 7}, ["b=2,4", "source=root,direct"])
    assert [point.name for point in swept.points] == [
        "b=2,source=root",
        "b=2,source=direct",
        "b=4,source=root",
        "b=4,source=direct",
    ]
    assert swept.points[3].config == RunConfig(nodes=500, seed=7, b=4, source="direct")


def test_file_and_flags():
    """Flags win: --set over the file's values, a flag of a swept field over the whole sweep."""
    file = {"nodes": 500, "sweep": {"b": [1, 2], "leaf_set": [8, 16], "show": ["cost.seconds"]}}
    assert Sweep.of(file, {}, []).grid == {"b": (1, 2), "leaf_set": (8, 16)}
    assert Sweep.of(file, {}, ["b=8", "tie=seeded"]).grid == {
        "b": (8,),
        "leaf_set": (8, 16),
        "tie": ("seeded",),
    }
    one = Sweep.of(file, {"b": 4, "nodes": 600}, [])
    assert one.grid == {"leaf_set": (8, 16)}
    assert (one.base.overlay.b, one.base.overlay.nodes) == (4, 600)
    assert one.show == ("cost.seconds",)
    # a base that would be refused by itself is fine where every point is
    assert Sweep.of({"group_size": 200_000, "sweep": {"nodes": [200_000]}}, {}, []).points


def test_members_that_are_not_reached_are_shown_beside_delays():
    values = {
        **{"scribe.reached": 1.0, "gossipsub.reached": 0.9, "bayeux.reached": 0.5},
        "scribe.multicasts.reached.least": 0.3,
    }
    all_reached = dict.fromkeys(values, 1.0)
    results = {"a": PointResult(all_reached), "b": PointResult(values)}
    show = ("scribe.rad.median", "gossipsub.latency.p99", "gossipsub.rad.median")
    runs = Sweep(RunConfig(nodes=500), {"b": (2, 4)}, show)
    assert runs.incomplete(results) == ["gossipsub.reached"]
    assert runs.incomplete({"a": results["a"]}) == []
    asked = Sweep(RunConfig(nodes=500), {"b": (2, 4)}, (*show, "gossipsub.reached"))
    assert asked.incomplete(results) == []
    given = {"nodes": 500, "groups": 5, "rounds": 2, "generator": "publications"}
    worlds = Sweep(WorldConfig(**given), {"b": (2, 4)}, ("scribe.latency.p99.last",))
    assert worlds.incomplete(results) == ["scribe.multicasts.reached.least"]


def test_fields_are_swept_by_dotted_names_and_lists_as_lists():
    swept = Sweep.of({"sweep": {"overlay": {"b": [2]}}}, {}, ["groups.count=5,6"])
    assert swept.grid == {"b": (2,), "groups": (5, 6)}
    listed = Sweep.of({"sweep": {"variants": [[], ["collapse", "lazy"]]}}, {}, [])
    assert listed.grid == {"variants": ("plain", "collapse,lazy")}
    assert [point.config.trees.variants for point in listed.points] == [(), ("collapse", "lazy")]
    assert listed.points[1].name == "variants=collapse~2Clazy"


def test_names_are_one_folder_each_whatever_the_values():
    values = ["a/b", "a~2Fb", "../x", "a,b=c", "s3a://b/c d", "ü%2F", "x" * 300, "x" * 301, "~"]
    names = [point.name for point in Sweep.of({"sweep": {"topology": values}}, {}, []).points]
    assert len(set(names)) == len(values)
    for name in names:
        assert name.startswith("topology=")
        assert not set(name) & set("/\\%:,* ")
        assert len(name.encode()) <= 200
    assert names[:2] == ["topology=a~2Fb", "topology=a~7E2Fb"]


@pytest.mark.parametrize(
    ("sweep", "error"),
    [
        (["b", 2], "sweep = ['b', 2]: must be a table"),
        ({"b": 2}, "b = 2: must be a list in [sweep]"),
        ({"b": []}, "b = '': needs at least one value"),
        ({"b": ["2"]}, "b = '2': must be one of 1, 2, 4, 8"),
        ({"nodes": [10, True]}, "nodes = True: must be a whole number"),
        ({"leafset": [2]}, "sweep field = 'leafset': is unknown; did you mean 'leaf_set'?"),
        ({"seed": [5]}, "seed = 9: is in [sweep] too; leave one of them out"),
        ({"b": [2], "show": ["pastry.hops"]}, "show = 'pastry.hops': is unknown; did you mean "),
        ({"b": [2], "show": "cost.seconds"}, "show = 'cost.seconds': must be a list"),
        ({"show": []}, "sweep = '': sweeps no field"),
    ],
)
def test_files_refused(sweep, error):
    with pytest.raises(InputError) as caught:
        Sweep.of({"seed": 9, "sweep": sweep}, {}, [])
    assert str(caught.value).startswith(error)


# ---------------------------------------------------------------------------------- running it

GRID = ("leaf_set=8,16", "seed=2")
NAMES = [f"leaf_set={leaves},seed=2" for leaves in (8, 16)]
FEW = SMALL | {"nodes": 40, "groups": 4}


def where(out, **how):
    return Execution(out=str(out), master="local[2]", partitions=2, engine="tasks", **how)


@pytest.fixture(scope="module")
def whole(spark, tmp_path_factory) -> Path:
    """A sweep of two points; not to be changed."""
    out = tmp_path_factory.mktemp("sweep") / "out"
    swept = Sweep.of(FEW, {}, GRID)
    check_sweep(swept, where(out))
    run_sweep(spark, swept, where(out))
    return out


@pytest.fixture
def copy(whole, tmp_path) -> Path:
    shutil.copytree(whole, tmp_path / "out")
    return tmp_path / "out"


def rows(out: Path) -> pd.DataFrame:
    return pd.read_parquet(out / "sweep")


def test_all_that_a_sweep_left_can_be_verified(copy):
    assert_all_damage_is_told(copy)
    shutil.rmtree(copy / NAMES[0])
    assert f"{NAMES[0]}: has no manifest.json: it holds no results of scribe-spark" in (
        verify(str(copy)).damaged
    )


def test_a_sweep_that_goes_on_can_be_verified(spark, copy):
    record = manifest(copy)
    (copy / "manifest.json").write_text(json.dumps({n: record[n] for n in record if n != "tables"}))
    found = verify(str(copy))
    assert (found.finished, found.damaged) == (False, [])
    run_sweep(spark, Sweep.of(FEW, {}, GRID), where(copy, resume=True))
    found = verify(str(copy))
    assert (found.finished, found.damaged) == (True, [])


def test_rows_are_those_of_the_runs(whole):
    table = rows(whole)
    assert dict(table.dtypes.astype(str)) == {
        **dict.fromkeys(("leaf_set", "seed"), "int64"),
        "metric": "object",
        "value": "float64",
    }
    assert not table.duplicated(["leaf_set", "seed", "metric"]).any()
    for (leaves, seed), of in table.groupby(["leaf_set", "seed"]):
        point = whole / f"leaf_set={leaves},seed={seed}"
        found = of.set_index("metric")["value"]
        metrics = {m["name"]: m["value"] for m in json.loads((point / "metrics.json").read_text())}
        took = {e["name"]: e["seconds"] for e in manifest(point)["phases"] if e["name"] != "report"}
        metrics |= {f"cost.{name}.seconds": seconds for name, seconds in took.items()}
        metrics["cost.seconds"] = pytest.approx(sum(took.values()))
        assert found.astype(object).where(found.notna(), None).to_dict() == metrics
        assert (
            manifest(point)["resolved"]
            == RunConfig(**FEW, leaf_set=int(leaves), seed=int(seed)).flat()
        )
        assert (point / "report.html").exists()
    assert table.groupby(["leaf_set", "seed"]).ngroups == 2


def test_folders_refused(whole):
    swept = Sweep.of(FEW, {}, GRID)
    with pytest.raises(InputError, match="exists; use --resume"):
        check_sweep(swept, where(whole))
    for other, error in (
        (
            Sweep.of(FEW, {}, ["leaf_set=8", "seed=2"]),
            r"^leaf_set = \[8\]: .* with leaf_set = \[8, 16\]",
        ),
        (
            Sweep.of(FEW, {}, [*GRID, "tie=delay"]),
            r"^sweep = .* was made with sweep = \['leaf_set', ",
        ),
        (Sweep.of(FEW | {"groups": 3}, {}, GRID), r"^groups = 3: .* was made with groups = 4"),
    ):
        with pytest.raises(InputError, match=error):
            check_sweep(other, where(whole, resume=True))


def test_bad_points_leave_no_trace(tmp_path):
    swept = Sweep.of(FEW, {}, ["topology=transit-stub,/nowhere.csv"])
    with pytest.raises(InputError, match=r"^topology = '/nowhere.csv': "):
        check_sweep(swept, where(tmp_path / "out"))
    assert not (tmp_path / "out").exists()


def test_overwrite_deletes_only_what_a_sweep_left(spark, copy, monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(sys.modules[run_sweep.__module__], "play_inside", interrupted)
    (copy / "notes.txt").write_text("mine")
    (copy / NAMES[1] / "notes.txt").write_text("mine")
    record = manifest(copy)
    record["points"] += ["../x=1", 7]
    (copy / "manifest.json").write_text(json.dumps(record))
    (copy.parent / "x=1").mkdir()
    (copy.parent / "x=1" / "manifest.json").write_text("{}")
    with pytest.raises(KeyboardInterrupt):
        run_sweep(spark, Sweep.of(FEW, {}, ["b=2"]), where(copy, overwrite=True))
    assert {path.name for path in copy.iterdir()} == {"notes.txt", "manifest.json", NAMES[1]}
    assert [path.name for path in (copy / NAMES[1]).iterdir()] == ["notes.txt"]
    assert manifest(copy)["points"] == ["b=2"]
    assert (copy.parent / "x=1" / "manifest.json").exists()
