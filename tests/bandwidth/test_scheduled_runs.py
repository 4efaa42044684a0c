"""Runs with several publications in flight, whole and in coded parts, against the event queue."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import cache

import numpy as np
import pandas as pd
import pytest
from extending import run_example
from oracle import latency
from oracle.bandwidth import Link, Network, Node, Publication, Rules, play

from scribe_spark import RunConfig, experiments
from scribe_spark.bandwidth.setting import Parts
from scribe_spark.config import Execution
from scribe_spark.core import draws
from scribe_spark.experiments import Run, Simulation
from scribe_spark.runtime import settings
from scribe_spark.runtime.batches import Batches
from scribe_spark.systems.registry import unregister_system

from .test_parts import enough

#: Trees that begin at the root; those that begin at the source, and depend on it.
FROM_ROOT = ("scribe", "bayeux")
FROM_SOURCE = ("flooding", "reference_tree", "chain")

NODES, SEED = 60, 4
GIVEN = {
    "nodes": NODES, "overlay": "perfect", "groups": 2, "transit_domains": 2, "transit_size": 2,
    "stubs_per_transit": 2, "stub_size": 3, "source": "direct", "lan_delay_ms": 0.5, "seed": SEED,
    "gossipsub_flood_publish": False, "gossipsub_d": 4, "gossipsub_heartbeats": 3,
}  # fmt: skip
RATES = {"uplink": "10Mbit/s", "downlink": "16Mbit/s", "validation": "3ms"}
UP, DOWN, VALIDATION = 10_000_000, 16_000_000, 3_000

#: Publications that overlap, of other sizes, sources and groups.
SCHEDULE = [(0, 1, 11, 100_000), (15_000, 1, 29, 20_000), (40_000, 2, 11, 60_000)]
TEXT = "time,group,node,size\n40ms,2,11,60KB\n0,1,11,100000\n15,1,29,20KB\n"

#: Run -> its parts, systems, the least size that IDONTWANT announces, and further settings.
RUNS = {
    "whole": (
        *(Parts(), (*FROM_ROOT, *FROM_SOURCE, "can", "gossipsub"), 50_000),
        {"variants": "reference_tree,chain"},
    ),
    "parts": (
        *(Parts(3, 5), ("scribe", "flooding", "gossipsub"), 30_000),
        {"parts": 3, "code": "reed-solomon:5"},
    ),
}


@dataclass(frozen=True)
class Played:
    """The tables of a run, and what the oracle has to know of the network."""

    tables: dict[str, pd.DataFrame]
    done: Run
    given: dict
    parts: Parts
    announced: int
    ident: dict[int, int]
    delays: dict[tuple[int, int], int]

    @property
    def messages(self) -> list[tuple[int, int, int, int]]:
        """The parts of all publications: time, group, source, size."""
        parts = self.parts
        return [
            (*one, -(-size // parts.needed)) for *one, size in SCHEDULE for _ in range(parts.sent)
        ]

    @property
    def systems(self) -> list[str]:
        return self.given["systems"].split(",")

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


@pytest.fixture(scope="module")
def played(spark, tmp_path_factory) -> Iterator[Callable[[str], Played]]:
    """A function that plays a run at its first use; one of its systems is a user's."""
    folder, names = tmp_path_factory.mktemp("runs"), ("deliveries", "copies", "tree_edges")
    names += "members", "groups", "schedule", "latency", "bytes", "link_bytes", "link_stress"
    names += "control", "system_state", "control_stress"
    (folder / "schedule.csv").write_text(TEXT)
    with ExitStack() as at_end:
        run_example("chain")
        at_end.callback(unregister_system, "chain")

        @cache
        def run(name: str) -> Played:
            parts, systems, announced, more = RUNS[name]
            given = (
                GIVEN | RATES | {"systems": ",".join(systems), "idontwant_size": f"{announced}B"}
            )
            given |= {"schedule": str(folder / "schedule.csv")} | more
            config, out = RunConfig(**given), str(folder / name)
            execution = Execution(out=out, master="local[2]", partitions=2, engine="tasks")
            experiments.check(config, execution)
            made = experiments.run(spark, config, execution, experiments.PHASES[:-1])
            done = at_end.enter_context(made)
            ring, node = done.simulation.overlay.ring, np.arange(NODES)
            underlay, place = done.simulation.underlay, ring.facts.positions(node)
            a, b = (one.ravel() for one in np.meshgrid(node, node))
            ends = (ring.facts.ring.router[place[one]] for one in (a, b))
            delay = underlay.kernel.delays(*ends) + 2 * underlay.lan_us
            pairs = zip(a.tolist(), b.tolist(), strict=True)
            return Played(
                {name: done.table(name).toPandas() for name in names},
                *(done, given, parts, announced, dict(enumerate(place.tolist()))),
                dict(zip(pairs, delay.tolist(), strict=True)),
            )

        yield run


def by_oracle(
    run: Played, rules: Rules, links: Iterable[tuple], roots: dict[int, int] | None = None
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
    published, schedule = [], run.messages
    for at_us, group, source, size in schedule:
        begins = of((group, source) if by_source else group, source)
        if roots is not None and source != roots[group]:
            begins, root = of(group, source, "way"), of(group, roots[group])
            way = Link(begins, root, max(run.delays[source, roots[group]], 1))
            found += [way] * (way not in found)
        published.append(Publication(begins, at_us, size))
    nodes = {node: Node(run.ident[node], UP, DOWN, VALIDATION) for node in run.ident}
    network = Network(nodes, {number: key[1] for key, number in place.items()}, found)
    queued = play(network, published, rules)
    name = {number: key for key, number in place.items()}
    came = {
        (m, (schedule[m][1], name[at][1])): (first.at_us - schedule[m][0], first.hops)
        for (m, at), first in queued.first.items()
        if len(name[at]) == 2
        and (schedule[m][1], name[at][1]) in run.members
        and name[at][1] != schedule[m][2]
    }
    whole = enough(came, run.parts)
    deliveries = [(p * run.parts.sent, *at, hops, us) for (p, at), (us, hops) in whole.items()]
    copies = [
        (c.publication, name[c.sender][1], name[c.receiver][1], c.hops, c.start_us,
         queued.first[c.publication, c.receiver].sender == c.sender)
        for c in queued.copies
        if len(name[c.sender]) == 2
    ]  # fmt: skip
    return sorted(deliveries), sorted(copies)


@pytest.mark.parametrize("name", RUNS)
def test_every_publication_reaches_all_members(played, name):
    run, columns = played(name), ["time_ms", "group", "node", "bytes"]
    schedule = run.tables["schedule"].sort_values("publication")
    wanted = [(at_us / 1000, *rest) for at_us, *rest in run.messages]
    assert [*schedule[columns].itertuples(False, None)] == wanted
    due = sorted(
        (p * run.parts.sent, group, node)
        for p, (_, group, source, _) in enumerate(SCHEDULE)
        for of, node in run.members
        if of == group and node != source
    )
    for system in (*run.systems, "ip_multicast"):
        assert [row[:3] for row in run.deliveries(system)] == due, system


@pytest.mark.parametrize("name", RUNS)
def test_trees_are_the_event_queue(played, name):
    """The edges of trees that depend on sources are those of the copies."""
    run = played(name)
    groups = run.tables["groups"]
    roots = dict(zip(groups["group"], groups["root"], strict=True))
    for system in {*FROM_ROOT} & {*run.systems}:
        edges = run.rows("tree_edges", system, "group", "parent", "child")
        found = by_oracle(run, Rules(), edges, roots)
        assert (run.deliveries(system), run.copies(system)) == found, system
    for system in {*FROM_SOURCE} & {*run.systems}:
        links = {(run.messages[m][1:3], y, x) for m, y, x, *_ in run.copies(system)}
        assert (run.deliveries(system), run.copies(system)) == by_oracle(run, Rules(), links)
        edges = {(group, y, x) for (group, _), y, x in links}
        assert edges == {*run.rows("tree_edges", system, "group", "parent", "child")}


@pytest.mark.parametrize("name", RUNS)
def test_gossipsub_is_the_event_queue(spark, played, name):
    """Meshes are those of a run in which each link carries a copy."""
    run, others = played(name), {*RATES, "parts", "code", "variants"}
    one = {key: value for key, value in run.given.items() if key not in others}
    one |= {"systems": "gossipsub", "gossipsub_idontwant": False}
    shares = run.done.simulation
    with Simulation(spark, RunConfig(**one), shares=shares, engine="tasks") as stages:
        (made,) = [system for system in stages.systems if system.system == "gossipsub"]
        copies = made.table("copies").frame.where("kind = 'payload'").toPandas()
    ends = [*copies[["group", "sender", "receiver"]].itertuples(False, None)]
    links = {(group, *both) for group, a, b in ends for both in ((a, b), (b, a))}

    def order(p: int, y: int, x: int) -> int:
        return int(draws.bits_np(SEED, "order", p, y, x))

    found = by_oracle(run, Rules(idontwant=run.announced, order=order), links)
    assert (run.deliveries("gossipsub"), run.copies("gossipsub")) == found
    told = {row[0] for row in run.rows("copies", "gossipsub", "publication", "kind")
            if row[1] == "IDONTWANT"}  # fmt: skip
    assert told == {p for p, row in enumerate(run.messages) if row[3] >= run.announced}


@pytest.mark.parametrize("name", RUNS)
def test_ip_multicast_is_the_event_queue_with_one_publication_and_one_receiver(played, name):
    """Of coded parts, the source sends as many as nodes need."""
    run = played(name)
    for m, group, node, hops, delay_us in run.deliveries("ip_multicast"):
        _, of, source, size = run.messages[m]
        assert (m % run.parts.sent, of, hops) == (0, group, 1)
        nodes = {one: Node(run.ident[one], UP, DOWN, VALIDATION) for one in (source, node)}
        network = Network(nodes, {0: source, 1: node}, [Link(0, 1, run.delays[source, node])])
        publication = Publication(0, 0, size * run.parts.needed)
        assert delay_us == play(network, [publication], Rules()).first[0, 1].at_us
    sent = {m % run.parts.sent for m, *_ in run.copies("ip_multicast")}
    assert sent == set(range(run.parts.needed))


def test_duplicates_state_and_control_messages_are_counted(played):
    run = played("whole")
    metrics = {row["name"]: row["value"] for row in run.done.metrics()}
    control, state = run.tables["control"], run.tables["system_state"]
    stress = run.tables["control_stress"].set_index(["system", "kind"]).sort_index()
    came = [(p, node, first) for p, _, node, _, _, first in run.copies("gossipsub")]
    again = latency.duplicates(came)
    kept = state[state["system"] == "gossipsub"].groupby("node")["entries"].sum()
    wanted = {
        "duplicates": sum(not first for *_, first in came),
        "duplicates.mean": sum(again) / len(again),
        "duplicates.p95": latency.percentile(again, 95),
        "duplicates.max": max(again),
        "state.max": kept.max(),
        "state.mean": kept.sum() / NODES,
    }
    assert {name: metrics[f"gossipsub.{name}"] for name in wanted} == wanted
    assert wanted["duplicates"] > 0
    mine = control[control["system"] == "gossipsub"]
    taken = mine.groupby("receiver")["messages"].sum()
    assert metrics["gossipsub.join_messages.max"] == taken.max()
    assert metrics["gossipsub.join_messages.mean"] == taken.sum() / NODES
    # each message is on the LAN links of its ends
    told = [kind != "payload" for _, kind in run.rows("copies", "gossipsub", "sender", "kind")]
    for kind in ("lan_up", "lan_down"):
        packets = stress.loc[("gossipsub", kind), "packets"].sum()
        assert packets == mine["messages"].sum() + sum(told) > sum(told)


def test_parts_beyond_are_counted(played):
    run = played("parts")
    metrics = {row["name"]: row["value"] for row in run.done.metrics()}
    for system in run.systems:
        got, first = Counter(), Counter()
        for m, _, node, _, _, is_first in run.copies(system):
            got[m // 5, node] += 1
            first[m // 5, node] += is_first
        beyond = {of: got[of] - 3 for of in got if first[of] >= 3}
        sizes = [run.messages[of[0] * 5][3] * count for of, count in beyond.items()]
        found = [metrics[f"{system}.parts.{end}"]
                 for end in ("beyond.max", "beyond.mean", "bytes_beyond.mean")]  # fmt: skip
        means = [sum(counts) / len(beyond) for counts in (beyond.values(), sizes)]
        assert found == pytest.approx([max(beyond.values()), *means])


@pytest.mark.parametrize(
    ("buckets", "engine"), [(1, "tasks"), pytest.param(7, "jobs", marks=pytest.mark.slow)]
)
def test_buckets_and_engines_change_nothing(spark, played, buckets, engine):
    run, before = played("whole"), spark.conf.get(settings._PARTITIONS)
    spark.conf.set(settings._PARTITIONS, str(buckets))
    try:
        config = RunConfig(**run.given | {"systems": "scribe,gossipsub", "variants": "plain"})
        with Simulation(spark, config, shares=run.done.simulation, engine=engine) as stages:
            for made in stages.systems:
                copies = made.table("copies")
                for name, of in (("deliveries", made.deliveries), ("copies", copies)):
                    table = Batches.of(of).frame.toPandas().assign(system=made.system)
                    for time in {"delay_us", "sent_us"} & {*table}:
                        table[time.replace("us", "ms")] = table[time] / 1000
                    mine = replace(run, tables={name: table})
                    rows = getattr(Played, name)
                    assert rows(mine, made.system) == rows(run, made.system)
            assert stages.clock_player["name"] == "one task"
        assert run.done.simulation.clock_player["name"] == "tasks"
    finally:
        spark.conf.set(settings._PARTITIONS, before)


def test_bytes_are_those_of_the_publications_sizes(played):
    run = played("whole")
    names, links = run.tables["bytes"], run.tables["link_bytes"]
    for system in run.systems:
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
    # an edge of Scribe's trees was one JOIN, however many publications went along
    joins = len(run.rows("tree_edges", "scribe", "child"))
    assert names[names["system"] == "scribe"]["control_up"].sum() == 64 * joins


def test_arrivals_name_the_publication_and_its_sender(played):
    run = played("whole")
    found = run.done.arrivals().toPandas()
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
