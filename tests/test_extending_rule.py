"""Forwarding rules of one's own over random peers, at the size of what is published of them.

References
----------
T. Thiery, The paths of least resistance: Introducing WFR-Gossip, ethresear.ch, 2025-06-26: with
10,000 nodes and D_robust = 3 about 98 % of the nodes are reached with half of the copies.
"""

import sys
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from extending import run_example
from pyspark import cloudpickle

from scribe_spark import experiments
from scribe_spark.config import Execution, RunConfig
from scribe_spark.experiments import Simulation
from scribe_spark.report.comparison import is_headline
from scribe_spark.report.style import share_in_percent
from scribe_spark.rounds.declaration import MESH, System
from scribe_spark.rounds.group_overlays import GroupOverlays, Network, Overlays
from scribe_spark.systems.registry import register_system, unregister_system

cloudpickle.register_pickle_by_value(sys.modules[__name__])

NODES, PEERS = 10_000, 8
NETWORK = {"transit_domains": 3, "transit_size": 3, "stubs_per_transit": 3, "stub_size": 4}

#: Nodes that have the message after 0, 1, ... rounds of a push to eight random nodes.
PUSHED = (1, 9, 73, 566, 3_644, 9_458, 9_995)


class Push(GroupOverlays):
    """A push to random nodes, by the clock of hops."""

    clock = "hops"

    def edges(self, overlays, network):
        return overlays.each_publication(overlays.random_peers(network, PEERS, "push"))


@pytest.fixture(scope="module")
def tables(spark):
    """The deliveries and the number of copies of two systems, in one group of all nodes."""
    run_example("downhill")
    register_system(System("push", "Push", MESH, lambda config: Push(), clock="hops"))
    given = {"nodes": NODES, "groups": 1, "group_size": NODES, "overlay": "perfect"}
    config = RunConfig(**given, **NETWORK, systems="push,downhill")
    try:
        with Simulation(spark, config, engine="tasks") as made:
            yield {
                name: (
                    made.table(name, "deliveries").toPandas(),
                    made.table(name, "copies").count(),
                )
                for name in ("push", "downhill")
            }
    finally:
        for name in ("push", "downhill"):
            unregister_system(name)


def test_a_push_to_eight_random_nodes_reaches_what_is_published(tables):
    hops = tables["push"][0]["hops"].value_counts().sort_index()
    assert hops[1] == PUSHED[1] - 1
    reached = 1 + hops.cumsum()
    for rounds, published in enumerate(PUSHED[1:], start=1):
        assert reached[rounds] == pytest.approx(published, rel=0.02)


def test_the_rule_of_the_guide_halves_the_copies_and_reaches_98_percent(tables):
    deliveries, copies = tables["downhill"]
    assert copies / (PEERS * NODES) == pytest.approx(0.5, abs=0.1)
    assert len(deliveries) / (NODES - 1) == pytest.approx(0.98, abs=0.015)


def test_a_run_tells_how_many_members_a_rule_reaches(spark, tmp_path):
    """The metric, its headline and the card; delays are of the members that are reached."""
    run_example("downhill")
    try:
        given = {"nodes": 400, "groups": 2, "group_size": 300, "overlay": "perfect"}
        config = RunConfig(**given, **NETWORK, systems="downhill")
        how = Execution(out=str(tmp_path / "out"), partitions=1, engine="tasks")
        with experiments.run(spark, config, how) as done:
            metrics = {metric["name"]: metric["value"] for metric in done.metrics()}
            rows = done.table("deliveries").toPandas()
    finally:
        unregister_system("downhill")
    by_ip = rows[rows["system"] == "ip_multicast"].set_index(["group", "node"])["delay_ms"]
    mine = rows[rows["system"] == "downhill"].set_index(["group", "node"])["delay_ms"]
    assert 0.9 < metrics["downhill.reached"] == len(mine) / len(by_ip) < 1
    assert metrics["ip_multicast.reached"] == 1
    assert is_headline("downhill.reached")
    rad = {group: of.mean() / by_ip[of.index].mean() for group, of in mine.groupby(level="group")}
    assert metrics["downhill.rad.median"] == pytest.approx(np.mean([*rad.values()]))
    assert metrics["downhill.rad.largest"] == pytest.approx(rad[1])
    note = f"reaches {share_in_percent(metrics['downhill.reached'])} of the members"
    page = (tmp_path / "out" / "report.html").read_text()
    assert f"Downhill {note}." in page
    assert f'Downhill <span class="off">{note}</span>' in page


def test_random_peers_are_others_each_once_and_all_of_small_groups():
    rng = np.random.default_rng(1)
    group = np.repeat(np.arange(5), [1, 3, 5, 9, 40])
    node = np.concatenate([np.sort(rng.permutation(60)[:n]) for n in (1, 3, 5, 9, 40)])
    ring = SimpleNamespace(node=rng.permutation(60), router=rng.integers(0, 7, 60))
    overlays = Overlays(np.arange(10, 15), group, node, of=node[:0], source=node[:0])
    kernel = SimpleNamespace(delays=lambda a, b: 10 * abs(a - b))
    network = Network(ring, kernel, lan_us=1000, seed=3)
    edges = overlays.random_peers(network, 4)
    rows = {name: column.tolist() for name, column in edges.items()}
    again = overlays.random_peers(network, 4)
    assert rows == {name: column.tolist() for name, column in again.items()}
    assert rows["peer"] != overlays.random_peers(network, 4, "other")["peer"].tolist()
    found = pd.DataFrame(rows).groupby(["group", "node"])
    assert len(found) == 3 + 5 + 9 + 40
    for (of, one), mine in found:
        others = {*node[group == of].tolist()} - {one}
        assert {*mine["peer"]} <= others
        assert len({*mine["peer"]}) == len(mine) == min(4, len(others))
        assert sorted(mine["rank"]) == list(range(len(mine)))
    assert (edges["delay_us"] >= 2000).all()
