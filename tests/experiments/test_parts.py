"""A run with classes and regions of nodes: their columns, delays, and measures split by them."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from scribe_spark import experiments
from scribe_spark.config import Execution, RunConfig
from scribe_spark.experiments.phases import TABLE_PHASES
from scribe_spark.topology.region_matrix import read_matrix

CLASSES = ({"name": "fast", "share": 0.25}, {"name": "slow", "share": 0.75})


@pytest.fixture(scope="module")
def tables(spark, tmp_path_factory):
    config = RunConfig(
        nodes=150,
        groups=5,
        overlay="perfect",
        regions="continents",
        classes=CLASSES,
        write_routing_table=True,
    )
    out = tmp_path_factory.mktemp("parts") / "run"
    how = Execution(out=str(out), engine="tasks", partitions=1)
    experiments.run(spark, config, how, phases=tuple(TABLE_PHASES)).close()
    names = ("nodes", "deliveries", "node_stress", "link_stress", "by_part", "groups")
    names += ("routing_table", "part_latencies")
    return {name: pd.read_parquet(out / "tables" / name) for name in names}


def test_nodes_have_a_class_and_a_region(tables):
    nodes, matrix = tables["nodes"], read_matrix("continents")
    assert [*nodes.columns] == ["node", "id_hi", "id_lo", "router", "class", "region"]
    assert {*nodes["class"]} == {"fast", "slow"}
    assert (nodes["region"] == np.array(matrix.names)[nodes["router"]]).all()


def test_delays_between_nodes_are_the_matrix(tables):
    """Naive unicast sends each copy from the root, which may be in the region of a member."""
    matrix = read_matrix("continents")
    router = tables["nodes"].set_index("node")["router"]
    root = tables["groups"].set_index("group")["root"]
    sent = tables["deliveries"].query("system == 'naive_unicast'")
    ends = router[root[sent["group"]]].to_numpy(), router[sent["node"]].to_numpy()
    assert (ends[0] == ends[1]).any()
    assert np.allclose(sent["delay_ms"], matrix.us[ends] / 1000 + 2 * 1.0)
    core = tables["link_stress"].query("kind == 'core' and system == 'naive_unicast'")
    assert core["packets"].sum() == (ends[0] != ends[1]).sum()


def test_the_nearest_node_is_by_the_matrix(tables):
    """A node of the own region is as far as the diagonal says, and not at no distance."""
    us = read_matrix("continents").us
    nodes = tables["nodes"].sort_values("node", ignore_index=True)
    key = nodes["id_hi"].to_numpy().view(np.uint64)
    router, digit = nodes["router"].to_numpy(), key >> np.uint64(60)
    entries = tables["routing_table"].query("row == 0")
    assert len(entries) > 1_000
    for node, col, entry in entries[["node", "col", "entry"]].itertuples(index=False):
        among = np.flatnonzero(digit == col)
        nearest = min(among, key=lambda one: (us[router[node], router[one]], key[one]))
        assert entry == nearest


@pytest.mark.parametrize("by", ["class", "region"])
@pytest.mark.parametrize(
    ("measure", "table"), [("delay_ms", "deliveries"), ("children_entries", "node_stress")]
)
def test_measures_are_split(tables, by, measure, table):
    rows = tables[table].merge(tables["nodes"][["node", by]], on="node")
    found = tables["by_part"].query("by == @by and measure == @measure")
    found = found.set_index(["system", "part"])
    split = rows.groupby(["system", by])[measure]
    assert {*found.index} == {*split.groups}
    for key, values in split:
        ordered, n = np.sort(values), len(values)
        row = found.loc[key]
        assert row["count"] == n
        assert row["mean"] == pytest.approx(ordered.mean())
        for name, q in (("p50", 50), ("p90", 90), ("p95", 95), ("p99", 99), ("max", 100)):
            assert row[name] == ordered[-(-q * n // 100) - 1]


@pytest.mark.parametrize("by", ["class", "region"])
def test_latencies_are_counted_by_part(tables, by):
    rows = tables["deliveries"].merge(tables["nodes"][["node", by]], on="node")
    whole = rows.assign(value=np.ceil(rows["delay_ms"].round(3)))
    expected = whole.groupby([by, "system", "value"]).size()
    found = tables["part_latencies"].query("by == @by")
    assert found.set_index(["part", "system", "value"])["count"].to_dict() == expected.to_dict()
