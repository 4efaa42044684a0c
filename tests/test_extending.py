"""A system and a measure of one's own, added from outside the package as the guide says."""

from __future__ import annotations

import json

import pytest
from extending import run_examples

from scribe_spark import experiments
from scribe_spark.config import Execution, RunConfig
from scribe_spark.measures.metrics import unregister_measure
from scribe_spark.systems import unregister_system

NETWORK = {"transit_domains": 2, "transit_size": 2, "stubs_per_transit": 2, "stub_size": 3}


@pytest.fixture(scope="module")
def run(spark, tmp_path_factory) -> experiments.Run:
    """A small run with both examples."""
    run_examples("Add a multicast system")
    run_examples("Add a measure")
    try:
        out = str(tmp_path_factory.mktemp("extending") / "out")
        config = RunConfig(nodes=40, groups=4, **NETWORK)
        yield experiments.run(spark, config, Execution(out=out, master="local[2]", partitions=2))
    finally:
        unregister_system("chain")
        unregister_measure("slowest")


def test_the_system_is_in_every_table_and_reaches_every_member_once(run):
    def rows(table: str, system: str):
        found = run.table(table).toPandas()
        return found[found["system"] == system]

    heard, by_scribe = rows("deliveries", "chain"), rows("deliveries", "scribe")
    pairs = sorted(zip(heard["group"], heard["node"], strict=True))
    assert pairs == sorted(zip(by_scribe["group"], by_scribe["node"], strict=True))
    for _, group in heard.groupby("group"):
        group = group.sort_values("hops")
        assert group["hops"].tolist() == list(range(1, len(group) + 1))
        assert group["delay_ms"].is_monotonic_increasing
        assert group["node"].is_monotonic_increasing
    assert len(rows("tree_edges", "chain")) == len(heard)
    assert len(rows("node_stress", "chain")) == 40
    assert rows("link_stress", "chain")["packets"].sum() > 0
    assert len(rows("group_delay", "chain")) == len(rows("group_delay", "scribe")) > 0


def test_it_is_measured_like_the_others(run):
    values = {row["name"]: row["value"] for row in run.metrics()}
    deliveries = run.table("deliveries").toPandas()
    most = deliveries[deliveries["system"] == "chain"]["hops"].max()
    assert values["chain.depth.max"] == most
    # a copy to each member but the source
    assert (
        values["chain.children_entries.mean"]
        == len(deliveries[deliveries["system"] == "chain"]) / 40
    )
    assert values["chain.rad.median"] > values["scribe.rad.median"] > 0
    assert values["chain.messages"] > 0


def test_it_is_drawn_beside_the_papers_systems(run):
    figure = run.read_text("figures/figure-07-delay-penalty.svg")
    assert "Chain, RAD" in figure
    assert "Chain" in run.read_text("figures/figure-09-children-entries.svg")


def test_the_measure_is_among_the_metrics_and_in_the_report(run):
    rows = {row["name"]: row for row in run.metrics()}
    longest = run.table("deliveries").toPandas().groupby("system")["delay_ms"].max()
    for system in ("scribe", "ip_multicast", "naive_unicast", "chain"):
        row = rows[f"{system}.slowest_delivery"]
        assert row["value"] == longest[system]
        assert (row["unit"], row["figure"], row["paper"]) == ("ms", None, None)
    page = run.read_text("report.html")
    assert "Other measures" in page
    assert "chain.slowest_delivery" in page


def test_metrics_are_json(run):
    assert json.loads(run.read_text("metrics.json")) == run.metrics()
