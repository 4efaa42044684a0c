"""Forwarding rules of one's own over random peers, at the size of what is published of them.

References
----------
T. Thiery, The paths of least resistance: Introducing WFR-Gossip, ethresear.ch, 2025-06-26: with
10,000 nodes and D_robust = 3 about 98 % of the nodes are reached with half of the copies.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from extending import run_example

from scribe_spark import experiments
from scribe_spark.config import Execution, RunConfig
from scribe_spark.dissemination import disseminate, random_peers
from scribe_spark.experiments import Simulation
from scribe_spark.multicast import Multicast
from scribe_spark.report.comparison import is_headline
from scribe_spark.report.text import share_in_percent
from scribe_spark.runtime.batches import Batches
from scribe_spark.systems.registry import unregister_system

NODES, PEERS = 10_000, 8
NETWORK = {"transit_domains": 3, "transit_size": 3, "stubs_per_transit": 3, "stub_size": 4}

#: Nodes that have the message after 0, 1, ... rounds of a push to eight random nodes.
PUSHED = (1, 9, 73, 566, 3_644, 9_458, 9_995)


def push(stages) -> Multicast:
    """Build a push to random nodes, by the clock of hops."""
    sources = stages.multicast_groups.select("group", "source")
    edges = random_peers(stages, PEERS, "push").select("group", "node", "peer")

    def everywhere(first, edges):
        return np.ones(len(edges["peer"]), dtype=bool)

    where = stages.overlay.ring, stages.underlay
    spread = stages.own(disseminate(*where, edges, sources, rule=everywhere, clock="hops"))
    return Multicast("push", None, spread.deliveries, copies=spread.copies, partial=True)


@pytest.fixture(scope="module")
def stages(spark):
    """One group of all nodes."""
    given = {"nodes": NODES, "groups": 1, "group_size": NODES, "overlay": "perfect"}
    with Simulation(spark, RunConfig(**given, **NETWORK), engine="tasks") as made:
        yield made


def test_a_push_to_eight_random_nodes_reaches_what_is_published(stages):
    made = push(stages)
    rows = Batches.of(made.deliveries).frame.groupBy("group", "hops").count().toPandas()
    got = rows.pivot(index="group", columns="hops", values="count").fillna(0).sort_index(axis=1)
    reached = 1 + got.cumsum(axis=1).mean()
    assert set(1 + got[1]) == {PUSHED[1]}
    for rounds, published in enumerate(PUSHED[1:], start=1):
        assert reached[rounds] == pytest.approx(published, rel=0.02)


def test_the_rule_of_the_guide_halves_the_copies_and_reaches_98_percent(stages):
    build = run_example("downhill")["build"]
    unregister_system("downhill")
    made = build(stages)
    copies, deliveries = (
        Batches.of(table).frame.count() for table in (made.table("copies"), made.deliveries)
    )
    assert copies / (PEERS * NODES) == pytest.approx(0.5, abs=0.1)
    assert deliveries / (NODES - 1) == pytest.approx(0.98, abs=0.015)


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


def test_random_peers_are_others_each_once_and_all_of_small_groups(spark):
    given = {"nodes": 40, "groups": 12, "overlay": "perfect", "source": "root"}
    with Simulation(spark, RunConfig(**given, **NETWORK), engine="tasks") as made:
        edges = random_peers(made, 4).toPandas()
        again = random_peers(made, 4).toPandas()
        other = random_peers(made, 4, "other").toPandas()
        sources = made.multicast_groups.select("group", "source").toPandas()
        members = made.members.select("group", "node").toPandas()
    order = ["group", "node", "rank"]
    assert edges.sort_values(order).to_dict("list") == again.sort_values(order).to_dict("list")
    assert set(edges["peer"].groupby([edges[n] for n in order]).first().items()) != set(
        other["peer"].groupby([other[n] for n in order]).first().items()
    )
    nodes = pd.concat([members, sources.rename(columns={"source": "node"})]).drop_duplicates()
    there = nodes.groupby("group")["node"].agg(set)
    found = edges.groupby(["group", "node"])
    for (group, node), mine in found:
        others = there[group] - {node}
        assert set(mine["peer"]) <= others
        assert len(set(mine["peer"])) == len(mine) == min(4, len(others))
        assert sorted(mine["rank"]) == list(range(len(mine)))
    assert len(found) == sum(len(some) for some in there if len(some) > 1)
    assert (edges["delay_us"] >= 0).all()
