"""`scribe-spark reference-tree` into a folder: what it leaves, gone on with, the same again."""

import json
import math
import re
from pathlib import Path

import pandas as pd
import pytest
from identifiers import whole
from oracle.reference_tree.tree import parents_of_hosts
from stopping import Stops

from scribe_spark.config import Execution, ReferenceTreeConfig
from scribe_spark.config.reference_tree import TreePoint
from scribe_spark.core.errors import InputError
from scribe_spark.core.progress import Silent
from scribe_spark.experiments import TreeSweep, check_sweep, reference_tree, run_sweep
from scribe_spark.experiments.reference_tree import large_ids, tidy
from scribe_spark.report.reference_tree import reference_tree_metrics, render_reference_tree

CONFIG = ReferenceTreeConfig(hosts="6,12", connections=40, children="2,3", scaling=70)


def play(spark, out, progress=None, config=CONFIG, **how) -> str:
    execution = Execution(**{"out": str(out), "master": "local[2]"} | how)
    check_sweep(TreeSweep(config), execution)
    return run_sweep(spark, TreeSweep(config), execution, progress).page


def left(out: Path) -> tuple:
    manifest = json.loads((out / "manifest.json").read_text())
    return manifest["points"], manifest["tables"]["reference_tree"]["digest"], manifest["texts"]


@pytest.fixture(scope="module")
def finished(spark, tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("trees") / "out"
    assert play(spark, out) == str(out / "report.html")
    return out


def test_what_it_leaves(spark, finished):
    rows = spark.read.parquet(str(finished / "tables" / "reference_tree")).toPandas()
    assert list(rows.columns) == [
        *("experiment", "hosts", "bits", "children", "assignment", "measure", "value", "count")
    ]
    degrees = rows[(rows["experiment"] == "events") & (rows["measure"] == "degree")]
    totals = degrees.groupby(["hosts", "children"])["count"].sum().to_dict()
    assert totals == {(6, 2): 520, (6, 3): 520, (12, 2): 1000, (12, 3): 1000}
    areas = rows[(rows["experiment"] == "events") & (rows["measure"] == "area.connection")]
    assert set(areas.groupby(["hosts", "children"])["count"].sum()) == {40}
    metrics = {row["name"]: row for row in json.loads((finished / "metrics.json").read_text())}
    assert {"name", "value", "unit", "paper", "figure"} <= set(metrics["events.n6.c2.degree.1"])
    assert metrics["events.n12.c2.degree.1"]["check"] == "39 %"
    assert "check" not in metrics["events.n6.c2.degree.1"]  # the check begins at 10 hosts
    assert metrics["events.n12.c2.degree.above_bound"]["value"] == 0
    assert metrics["scaling.n70.c2.log2_hosts"]["value"] == math.log2(70)
    page = (finished / "report.html").read_text()
    for words in ("Figure 3: degrees", "Figure 4: reconfiguration area, connections", "Larger"):
        assert words in page
    # whatever the order in which Spark collects
    for point in (finished / "points").iterdir():
        measured = json.loads(point.read_text())
        assert list(measured) == sorted(measured)
        for counts in measured.values():
            assert list(counts) == sorted(counts, key=int)
    drawn = {path.stem for path in (finished / "figures").glob("*.svg")}
    assert {"figure-3-degrees", "figure-4-area-disconnections", "scaling-depth"} <= drawn


def test_the_order_in_which_rows_are_collected_does_not_matter(monkeypatch):
    """With other partitions they come in another order; it was that of the written text."""
    collected = {"links.connection": {3: 1, 1: 5, 2: 4}, "degree": {2: 7, 1: 9}}
    monkeypatch.setattr(reference_tree, "_measured", lambda *_: collected)
    found = reference_tree.measure_point(None, None, CONFIG, Silent())
    assert json.dumps(found) == (
        '{"degree": {"1": 9, "2": 7}, "links.connection": {"1": 5, "2": 4, "3": 1}}'
    )


@pytest.mark.parametrize("children", [2, 3])
def test_large_trees_are_those_of_the_definitions(spark, finished, children):
    hosts = large_ids(spark, 70, CONFIG.seed).collect()
    ids = {whole(row["id_hi"], row["id_lo"]) for row in hosts}
    parent = parents_of_hosts(ids, 128, children, "chord")
    degree = dict.fromkeys(ids, 0)
    depth = dict.fromkeys(ids, 0)
    for host, above in parent.items():
        if above is not None:
            degree[host] += 1
            degree[above] += 1
        while above is not None:
            depth[host], above = depth[host] + 1, parent[above]
    rows = spark.read.parquet(str(finished / "tables" / "reference_tree"))
    mine = rows.where(f"experiment = 'scaling' AND children = {children}").toPandas()
    for measure, values in (("degree", degree), ("depth", depth)):
        found = mine[mine["measure"] == measure].set_index("value")["count"].to_dict()
        assert found == pd.Series(values).value_counts().to_dict()


def test_going_on_gives_the_same(spark, finished, tmp_path):
    out = tmp_path / "out"
    for before in ("hosts-6-children-3", "report"):
        with pytest.raises(KeyboardInterrupt):
            play(spark, out, Stops(before=before), resume=True)
    told = Stops()
    play(spark, out, told, resume=True, partitions=3)
    assert told.phases == ["report"]
    assert left(out) == left(finished)
    (out / "points" / "hosts-12-children-2.json").write_text("{}")
    told = Stops()
    play(spark, out, told, resume=True)
    assert told.phases == ["hosts-12-children-2", "report"]
    file = "points/hosts-12-children-2.json"
    assert f"hosts-12-children-2: {file} is not as written: it has changed" in told.lines
    assert left(out) == left(finished)


def test_what_is_refused(spark, finished, tmp_path):
    with pytest.raises(InputError, match="--resume to continue or --overwrite"):
        play(spark, finished)
    with pytest.raises(InputError, match="connections = 41"):
        play(spark, finished, config=CONFIG.replace(connections=41), resume=True)
    (tmp_path / "things").mkdir()
    (tmp_path / "things" / "manifest.json").write_text('{"resolved": {}, "phases": []}')
    with pytest.raises(InputError, match=r"holds a run, not experiments"):
        play(spark, tmp_path / "things", resume=True)
    # replaced, not gone on with
    small = ReferenceTreeConfig(hosts=3, connections=5)
    play(spark, tmp_path / "out", config=small)
    play(spark, tmp_path / "out", config=small.replace(connections=6), overwrite=True)
    points = tmp_path / "out" / "points"
    assert [path.name for path in points.iterdir()] == ["hosts-3-children-2.json"]


def test_a_network_that_cannot_be_is_refused_before_spark(tmp_path):
    config = ReferenceTreeConfig(
        hosts=(), scaling=70, assignment="pastry", dht="routed", overlay="can"
    )
    with pytest.raises(InputError, match="overlay = 'can'"):
        check_sweep(TreeSweep(config), Execution(out=str(tmp_path / "out")))


def test_axes_of_large_trees_have_numbers_of_hosts():
    """They had matplotlib's formulas as text, and one line for each kind of event."""
    measured = {
        TreePoint("scaling", hosts, 128, 2, "chord"): {
            "degree": {1: hosts},
            "depth": {3: hosts},
            "area.connection": {3: 2},
            "area.disconnection": {5: 2},
        }
        for hosts in (1_000, 10_000, 100_000)
    }
    rows = tidy(measured)
    page = render_reference_tree(rows, reference_tree_metrics(rows), {"resolved": {}, "seed": 1})
    assert "mathdefault" not in page.html
    for label in (">1k<", ">10k<", ">100k<"):
        assert label in page.html
    assert "2 children: 4 from 1,000 hosts to 100,000 hosts." in page.html
    for svg in (figure.svg for figure in page.figures):  # and are told under the pointer
        told = re.findall(r"<text><tspan[^>]*>([^<]*)</tspan>", svg)
        assert told == ["1,000 hosts", "10,000 hosts", "100,000 hosts"]
