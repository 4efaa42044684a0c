"""A run with several publications in flight, of all systems, against the event queue."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
import pytest
from extending import run_example
from oracle.bandwidth import Link, Network, Node, Publication, Rules, play

from scribe_spark import RunConfig, experiments
from scribe_spark.config import Execution
from scribe_spark.core import draws
from scribe_spark.experiments import Simulation
from scribe_spark.runtime import settings
from scribe_spark.runtime.batches import Batches
from scribe_spark.systems.registry import unregister_system

#: Trees that begin at the root; those that begin at the source, and depend on it.
FROM_ROOT = ("scribe", "bayeux")
FROM_SOURCE = ("flooding", "reference_tree", "chain")
SYSTEMS = (*FROM_ROOT, *FROM_SOURCE, "can", "gossipsub", "ip_multicast")

NODES, SEED = 60, 4
GIVEN = {
    "nodes": NODES, "overlay": "perfect", "groups": 2, "transit_domains": 2, "transit_size": 2,
    "stubs_per_transit": 2, "stub_size": 3, "source": "direct", "lan_delay_ms": 0.5, "seed": SEED,
    "gossipsub_flood_publish": False, "gossipsub_d": 4, "gossipsub_heartbeats": 3,
    "systems": ",".join(SYSTEMS[:-1]),
}  # fmt: skip
RATES = {"uplink": "10Mbit/s", "downlink": "16Mbit/s", "validation": "3ms"}
UP, DOWN, VALIDATION = 10_000_000, 16_000_000, 3_000

#: IDONTWANT is for the two larger publications.
ANNOUNCED = 50_000

#: Publications that overlap, of other sizes, sources and groups.
SCHEDULE = [(0, 1, 11, 100_000), (15_000, 1, 29, 20_000), (40_000, 2, 11, 60_000)]
TEXT = "time,group,node,size\n40ms,2,11,60KB\n0,1,11,100000\n15,1,29,20KB\n"


@dataclass
class Played:
    """The tables of a run, and what the oracle has to know of the network."""

    tables: dict[str, pd.DataFrame]
    ident: dict[int, int]
    delays: dict[tuple[int, int], int]

    @classmethod
    def of(cls, tables: dict[str, pd.DataFrame], stages: Simulation) -> Played:
        """Return tables with the delays of a network."""
        ring, node = stages.overlay.ring, np.arange(NODES)
        place, router = ring.facts.positions(node), ring.facts.ring.router
        a, b = (one.ravel() for one in np.meshgrid(node, node))
        kernel, lan_us = stages.underlay.kernel, stages.underlay.lan_us
        delay = kernel.delays(router[place[a]], router[place[b]]) + 2 * lan_us
        pairs = zip(a.tolist(), b.tolist(), strict=True)
        return cls(
            tables, dict(enumerate(place.tolist())), dict(zip(pairs, delay.tolist(), strict=True))
        )

    def rows(self, table: str, system: str, *columns: str) -> list[tuple]:
        """Return rows of a system, sorted."""
        found = self.tables[table]
        return sorted(found[found["system"] == system][list(columns)].itertuples(False, None))

    def deliveries(self, system: str) -> list[tuple]:
        """Return the deliveries: publication, group, node, hops, microseconds."""
        names = "publication", "group", "node", "hops", "delay_ms"
        return [(*row[:4], round(row[4] * 1000)) for row in self.rows("deliveries", system, *names)]

    def copies(self, system: str) -> list[tuple]:
        """Return copies of payload: publication, sender, receiver, hop, microseconds, first."""
        names = ("publication", "sender", "receiver", "hop", "sent_ms", "first", "kind")
        found = self.rows("copies", system, *names)
        return [(*r[:4], round(r[4] * 1000), r[5]) for r in found if r[6] == "payload"]

    @property
    def members(self) -> set[tuple[int, int]]:
        return set(self.tables["members"][["group", "node"]].itertuples(False, None))


def by_oracle(
    run: Played,
    rules: Rules,
    links: Iterable[tuple],
    roots: dict[int, int] | None = None,
    schedule: Sequence[tuple[int, int, int, int]] = SCHEDULE,
) -> tuple[list[tuple], list[tuple]]:
    """Play publications on the event queue; return deliveries and copies as a run has them.

    Links are (channel, node, peer); a channel is a group, or a group and a source.  Sources send
    their messages to the roots of groups first, if these are given.
    """
    place: dict[tuple, int] = {}

    def of(*key) -> int:
        return place.setdefault(key, len(place))

    links = sorted(set(links), key=lambda e: (e[0], run.ident[e[1]], run.ident[e[2]]))
    by_source = isinstance(links[0][0], tuple)
    found = [Link(of(c, y), of(c, x), max(run.delays[y, x], 1)) for c, y, x in links]
    published = []
    for at_us, group, source, size in schedule:
        begins = of((group, source) if by_source else group, source)
        if roots is not None and source != roots[group]:
            begins, root = of(group, source, "way"), of(group, roots[group])
            way = Link(begins, root, max(run.delays[source, roots[group]], 1))
            found += [way] * (way not in found)
        published.append(Publication(begins, at_us, size))
    nodes = {node: Node(run.ident[node], UP, DOWN, VALIDATION) for node in run.ident}
    network = Network(nodes, {number: key[1] for key, number in place.items()}, found)
    played = play(network, published, rules)
    name = {number: key for key, number in place.items()}
    deliveries = [
        (p, schedule[p][1], name[at][1], first.hops, first.at_us - schedule[p][0])
        for (p, at), first in played.first.items()
        if len(name[at]) == 2
        and (schedule[p][1], name[at][1]) in run.members
        and name[at][1] != schedule[p][2]
    ]
    copies = [
        (c.publication, name[c.sender][1], name[c.receiver][1], c.hops, c.start_us,
         played.first[c.publication, c.receiver].sender == c.sender)
        for c in played.copies
        if len(name[c.sender]) == 2
    ]  # fmt: skip
    return sorted(deliveries), sorted(copies)


@pytest.fixture(scope="module")
def given(tmp_path_factory) -> dict:
    """Return the config with a table of publications."""
    file = tmp_path_factory.mktemp("schedule") / "schedule.csv"
    file.write_text(TEXT)
    return GIVEN | RATES | {"schedule": str(file), "idontwant_size": "50KB"}


@pytest.fixture(scope="module")
def done(spark, given, tmp_path_factory):
    """Play a run of all systems; one of them a user's."""
    run_example("chain")
    try:
        config = RunConfig(**given | {"variants": "reference_tree,chain"})
        out = str(tmp_path_factory.mktemp("scheduled") / "out")
        execution = Execution(out=out, master="local[2]", partitions=2, engine="tasks")
        experiments.check(config, execution)
        with experiments.run(spark, config, execution, experiments.PHASES[:-1]) as found:
            yield found
    finally:
        unregister_system("chain")


@pytest.fixture(scope="module")
def run(done) -> Played:
    """Return the tables of the run."""
    names = "deliveries", "copies", "tree_edges", "members", "groups", "bytes", "link_bytes"
    names += "latency", "schedule", "link_stress"
    return Played.of({name: done.table(name).toPandas() for name in names}, done.simulation)


def test_every_publication_reaches_all_members(run):
    columns = "time_ms", "group", "node", "bytes"
    schedule = run.tables["schedule"].sort_values("publication")
    wanted = [(at_us / 1000, *rest) for at_us, *rest in SCHEDULE]
    assert [*schedule[list(columns)].itertuples(False, None)] == wanted
    due = sorted(
        (p, group, node)
        for p, (_, group, source, _) in enumerate(SCHEDULE)
        for of, node in run.members
        if of == group and node != source
    )
    for system in SYSTEMS:
        assert [row[:3] for row in run.deliveries(system)] == due, system


@pytest.mark.parametrize("system", FROM_ROOT)
def test_trees_of_groups_are_the_event_queue(run, system):
    edges = run.rows("tree_edges", system, "group", "parent", "child")
    groups = run.tables["groups"]
    roots = dict(zip(groups["group"], groups["root"], strict=True))
    found = by_oracle(run, Rules(), edges, roots)
    assert (run.deliveries(system), run.copies(system)) == found


@pytest.mark.parametrize("system", FROM_SOURCE)
def test_trees_of_sources_are_the_event_queue(run, system):
    """Which edges they have their own tests say."""
    links = {(SCHEDULE[p][1:3], y, x) for p, y, x, *_ in run.copies(system)}
    assert (run.deliveries(system), run.copies(system)) == by_oracle(run, Rules(), links)
    edges = {(group, y, x) for (group, _), y, x in links}
    assert edges == {*run.rows("tree_edges", system, "group", "parent", "child")}


def test_gossipsub_is_the_event_queue(spark, done, run, given):
    """Meshes are those of a run in which each link carries a copy."""
    one = {name: value for name, value in given.items() if name not in RATES}
    one |= {"systems": "gossipsub", "gossipsub_idontwant": False}
    with Simulation(spark, RunConfig(**one), shares=done.simulation, engine="tasks") as stages:
        (made,) = [system for system in stages.systems if system.system == "gossipsub"]
        copies = made.table("copies").frame.where("kind = 'payload'").toPandas()
    ends = [*copies[["group", "sender", "receiver"]].itertuples(False, None)]
    links = {(group, *both) for group, a, b in ends for both in ((a, b), (b, a))}

    def order(p: int, y: int, x: int) -> int:
        return int(draws.bits_np(SEED, "order", p, y, x))

    found = by_oracle(run, Rules(idontwant=ANNOUNCED, order=order), links)
    assert (run.deliveries("gossipsub"), run.copies("gossipsub")) == found
    told = {row[0] for row in run.rows("copies", "gossipsub", "publication", "kind")
            if row[1] == "IDONTWANT"}  # fmt: skip
    assert told == {p for p, row in enumerate(SCHEDULE) if row[3] >= ANNOUNCED}


def test_ip_multicast_is_the_event_queue_with_one_publication_and_one_receiver(run):
    compared = 0
    for p, group, node, hops, delay_us in run.deliveries("ip_multicast"):
        _, of, source, size = SCHEDULE[p]
        assert (of, hops) == (group, 1)
        nodes = {one: Node(run.ident[one], UP, DOWN, VALIDATION) for one in (source, node)}
        network = Network(nodes, {0: source, 1: node}, [Link(0, 1, run.delays[source, node])])
        assert delay_us == play(network, [Publication(0, 0, size)], Rules()).first[0, 1].at_us
        compared += 1
    assert compared > 50


@pytest.mark.parametrize(
    ("buckets", "engine"), [(1, "tasks"), pytest.param(7, "jobs", marks=pytest.mark.slow)]
)
def test_buckets_and_engines_change_nothing(spark, done, run, given, buckets, engine):
    before = spark.conf.get(settings._PARTITIONS)
    spark.conf.set(settings._PARTITIONS, str(buckets))
    try:
        config = RunConfig(**given | {"systems": "scribe,gossipsub"})
        with Simulation(spark, config, shares=done.simulation, engine=engine) as stages:
            for made in stages.systems:
                copies = made.table("copies")
                for name, of in (("deliveries", made.deliveries), ("copies", copies)):
                    table = Batches.of(of).frame.toPandas()
                    theirs = run.rows(name, made.system, "publication")
                    assert Counter(table["publication"]) == Counter(p for (p,) in theirs)
                    self_rows(run, made.system, name, table)
            assert stages.clock_player["name"] == "one task"
        assert done.simulation.clock_player["name"] == "tasks"
    finally:
        spark.conf.set(settings._PARTITIONS, before)


def self_rows(run: Played, system: str, name: str, found: pd.DataFrame) -> None:
    """Compare rows that a system hands over with those of the run."""
    found = found.assign(system=system)
    for column in ("delay", "sent"):
        if f"{column}_us" in found:
            found[f"{column}_ms"] = found[f"{column}_us"] / 1000
    mine = Played({name: found}, run.ident, run.delays)
    rows = {"deliveries": Played.deliveries, "copies": Played.copies}[name]
    assert rows(mine, system) == rows(run, system)


def test_latencies_are_those_of_publications(run):
    latency = run.tables["latency"]
    for system in SYSTEMS:
        times = defaultdict(list)
        for p, *_, delay_us in run.deliveries(system):
            times[p].append(delay_us)
        mine = latency[latency["system"] == system].set_index("publication")
        assert {*mine.index} == {*times}
        for p, values in times.items():
            row, values = mine.loc[p], sorted(values)
            assert row["group"] == SCHEDULE[p][1]
            assert row["expected"] == row["reached"] == len(values)
            for q in (50, 90, 95, 99):
                nearest = values[math.ceil(q * len(values) / 100) - 1]
                assert row[f"t{q}"] * 1000 == row[f"p{q}"] * 1000 == pytest.approx(nearest)


def test_bytes_are_those_of_the_publications_sizes(run):
    names, links = run.tables["bytes"], run.tables["link_bytes"]
    for system in set(SYSTEMS) - {"ip_multicast"}:
        up, down = Counter(), Counter()
        for p, sender, receiver, *_ in run.copies(system):
            up[sender] += SCHEDULE[p][3]
            down[receiver] += SCHEDULE[p][3]
        mine = names[names["system"] == system].set_index("node")
        assert {n: int(b) for n, b in mine["payload_up"].items() if b} == up
        assert {n: int(b) for n, b in mine["payload_down"].items() if b} == down
        assert len(mine) == NODES
    # routers duplicate packets: a source sends each publication once
    mine = names[names["system"] == "ip_multicast"].set_index("node")["payload_up"]
    assert {n: b for n, b in mine.items() if b} == {11: 160_000, 29: 20_000}
    stress = run.tables["link_stress"]
    packets = stress[stress["kind"] == "core"].set_index(["system", "src", "dst"])["packets"]
    core = links[links["kind"] == "core"].set_index(["system", "src", "dst"])["bytes"]
    assert {*core.index} == {*packets.index}
    assert ((core >= 20_000 * packets) & (core <= 100_000 * packets)).all()
    ip = core.loc["ip_multicast"]
    assert set(ip) <= {sum(one) for one in subsets([100_000, 20_000, 60_000])}
    # an edge of Scribe's trees was one JOIN, however many publications went along
    joins = len(run.rows("tree_edges", "scribe", "child"))
    assert names[names["system"] == "scribe"]["control_up"].sum() == 64 * joins


def subsets(values: list[int]) -> list[list[int]]:
    """Return all subsets."""
    return [[v for n, v in enumerate(values) if bits >> n & 1] for bits in range(2 ** len(values))]


def test_arrivals_name_the_publication_and_its_sender(done, run):
    found = done.arrivals().toPandas()
    mine = found[found["system"] == "scribe"]
    sender = {(p, x): y for p, y, x, _, _, first in run.copies("scribe") if first}
    wanted = sorted(
        (p, group, node, SCHEDULE[p][0] + delay_us, hops, sender.get((p, node)))
        for p, group, node, hops, delay_us in run.deliveries("scribe")
    )
    columns = ["publication", "group", "node", "arrival_us", "hops", "from"]
    rows = mine[columns].astype(object).where(mine[columns].notna(), None)
    assert sorted(rows.itertuples(False, None), key=lambda r: r[:3]) == wanted
    assert len(found) == len(run.tables["deliveries"])
