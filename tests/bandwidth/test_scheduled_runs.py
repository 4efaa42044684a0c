"""Runs with several publications in flight, against the event queue."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import pytest
from oracle.bandwidth import SERIAL, Link, Network, Node, Publication, Rules, play

from scribe_spark import RunConfig, draws
from scribe_spark.experiments import Simulation
from scribe_spark.runtime import settings
from scribe_spark.runtime.batches import Batches

NETWORK = {
    "nodes": 70, "overlay": "perfect", "groups": 2, "transit_domains": 2, "transit_size": 2,
    "stubs_per_transit": 2, "stub_size": 3, "source": "direct", "lan_delay_ms": 0.5,
}  # fmt: skip
RATES = {"uplink": "10Mbit/s", "downlink": "16Mbit/s", "validation": "3ms"}
UP, DOWN, VALIDATION = 10_000_000, 16_000_000, 3_000

#: Three publications that overlap: of other sizes, sources and groups.
HEAD = "time,group,node,size\n"
SCHEDULE = HEAD + "0ms,1,11,100KB\n15ms,1,29,20KB\n40ms,2,11,60KB\n"


def rows_of(table, *columns: str) -> list[tuple]:
    """Return rows of a table, sorted."""
    found = Batches.of(table, list(columns)).frame.select(*columns).toArrow()
    return sorted(zip(*(found.column(name).to_pylist() for name in columns), strict=True))


@dataclass
class Played:
    """What a system hands over, and what the oracle has to know."""

    deliveries: list[tuple]
    copies: list[tuple]
    edges: list[tuple]
    roots: dict[int, int]
    members: set[tuple[int, int]]
    published: list[tuple[int, int, int, int]]
    ident: dict[int, int]
    delays: dict[tuple[int, int], int]

    def delay(self, a: int, b: int) -> int:
        return self.delays[a, b]


def played(spark, system: str, buckets: int = 2, **given) -> Played:
    """Play a run of a system on some buckets."""
    before = spark.conf.get(settings._PARTITIONS)
    spark.conf.set(settings._PARTITIONS, str(buckets))
    try:
        with Simulation(spark, RunConfig(**NETWORK | {"systems": system} | given)) as stages:
            made = next(one for one in stages.systems if one.system == system)
            columns = "publication", "group", "node", "hops", "delay_us"
            deliveries = rows_of(made.deliveries, *columns)
            columns = ("publication", "group", "sender", "receiver", "kind", "hop", "sent_us")
            copies = rows_of(made.handed_over("copies"), *columns, "first")
            edges = [] if made.edges is None else rows_of(made.edges, "group", "parent", "child")
            ring, schedule = stages.overlay.ring, stages.schedule
            node = np.arange(len(ring))
            place, router = ring.facts.positions(node), ring.facts.ring.router
            a, b = (one.ravel() for one in np.meshgrid(node, node))
            kernel, lan_us = stages.underlay.kernel, stages.underlay.lan_us
            delay = kernel.delays(router[place[a]], router[place[b]]) + 2 * lan_us
            return Played(
                deliveries, copies, edges,
                dict(rows_of(stages.groups_with_root, "group", "root")),
                set(rows_of(stages.memberships, "group", "node")),
                list(zip(*(c.tolist() for c in schedule.to_columns().values()), strict=True)),
                dict(zip(node.tolist(), place.tolist(), strict=True)),
                dict(zip(zip(a.tolist(), b.tolist(), strict=True), delay.tolist(), strict=True)),
            )  # fmt: skip
    finally:
        spark.conf.set(settings._PARTITIONS, before)


def by_oracle(run: Played, rules: Rules, edges: Iterable[tuple], way: bool, up: int = UP) -> tuple:
    """Play links of a run on the event queue; return deliveries and copies as a run has them.

    Parameters
    ----------
    edges : iterable of (tree, node, peer)
    way : bool
        Whether sources send their messages to the root first.
    """
    place: dict[tuple, int] = {}

    def of(*key) -> int:
        return place.setdefault(key, len(place))

    edges = sorted(edges, key=lambda edge: (edge[0], run.ident[edge[1]], run.ident[edge[2]]))
    links = [Link(of(g, y), of(g, x), max(run.delay(y, x), 1)) for g, y, x in edges]
    published = []
    for at_us, group, source, size in run.published:
        begins = of(group, source)
        if way and source != run.roots[group]:
            begins, root = of(group, source, "way"), of(group, run.roots[group])
            link = Link(begins, root, max(run.delay(source, run.roots[group]), 1))
            links += [link] if link not in links else []
        published.append(Publication(begins, at_us, size))
    nodes = {node: Node(run.ident[node], up, DOWN, VALIDATION) for node in run.ident}
    network = Network(nodes, {number: key[1] for key, number in place.items()}, links)
    found = play(network, published, rules)
    name = {number: key for key, number in place.items()}
    deliveries = [
        (p, name[at][0], name[at][1], first.hops, first.at_us - run.published[p][0])
        for (p, at), first in found.first.items()
        if len(name[at]) == 2
        and name[at] in run.members
        and name[at][1] != run.published[p][2]
    ]  # fmt: skip
    copies = [
        (c.publication, name[c.sender][0], name[c.sender][1], name[c.receiver][1], "payload",
         c.hops, c.start_us, found.first[c.publication, c.receiver].sender == c.sender)
        for c in found.copies
        if len(name[c.sender]) == 2
    ]  # fmt: skip
    return sorted(deliveries), sorted(copies)


@pytest.fixture(scope="module")
def schedule(tmp_path_factory) -> str:
    """Return a table of publications."""
    file = tmp_path_factory.mktemp("schedule") / "schedule.csv"
    file.write_text(SCHEDULE)
    return str(file)


@pytest.mark.parametrize("order", ["interleaved", "serial"])
def test_scribe_is_the_event_queue(spark, schedule, order):
    given = RATES | {"schedule": schedule, "uplink_order": order}
    run = played(spark, "scribe", **given)
    found = by_oracle(run, Rules(order), run.edges, way=True)
    assert (run.deliveries, run.copies) == found
    assert {row[0] for row in run.deliveries} == {0, 1, 2}
    if order == SERIAL:
        for buckets in (1, 7):
            again = played(spark, "scribe", buckets, **given)
            assert (again.deliveries, again.copies) == found


def test_gossipsub_is_the_event_queue(spark, schedule):
    """IDONTWANT is for the two larger publications; meshes are those of a run without sizes."""
    one = NETWORK | {"seed": 4, "gossipsub_flood_publish": False, "gossipsub_d": 4}
    one |= {"gossipsub_idontwant": False}
    with_idontwant = {"gossipsub_idontwant": True, "idontwant_size": "50KB"}
    mesh = played(spark, "gossipsub", publications=1, **one)
    links = {(group, *ends) for _, group, a, b, *_ in mesh.copies for ends in ((a, b), (b, a))}
    given = one | RATES | with_idontwant | {"schedule": schedule}
    run = played(spark, "gossipsub", **given)
    sent = [row for row in run.copies if row[4] == "payload"]

    def order(p: int, y: int, x: int) -> int:
        return int(draws.bits_np(4, "order", p, y, x))

    rules = Rules("interleaved", idontwant=50_000, order=order)
    found = by_oracle(run, rules, links, way=False)
    assert (run.deliveries, sent) == found
    assert {row[0] for row in run.copies if row[4] == "IDONTWANT"} == {0, 2}
    for buckets in (1, 7):
        again = played(spark, "gossipsub", buckets, **given)
        assert (again.deliveries, again.copies) == (run.deliveries, run.copies)
