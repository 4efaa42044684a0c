"""Flooding, CAN multicast and naive unicast in worlds beside their oracle, on any buckets."""

import random
from collections import Counter
from dataclasses import dataclass, replace

import numpy as np
import pytest
from arriving import Kernel
from identifiers import parts
from oracle.group_overlays import OverlaysCase, World, random_overlays
from oracle.multicast_measures import delay_measures, duplicates, node_stress
from oracle.random_cases import Case
from periods import SystemWorld, nodes_of
from withholding import Named

from scribe_spark.can.config import most_bits
from scribe_spark.can.multicast import LiveCan
from scribe_spark.can.zones import Space, draw_landmarks
from scribe_spark.engine.exchange import add_rows, distinct_rows
from scribe_spark.engine.facts import Ring
from scribe_spark.rounds.events import Lives
from scribe_spark.rounds.group_overlays import GroupOverlays, Network
from scribe_spark.rounds.system import OwnRounds
from scribe_spark.systems.baselines import LiveIpMulticast, LiveUnicast
from scribe_spark.systems.flooding.flood import LiveFlooding
from tests.can.played import LAN_US, draw_of

SYSTEMS = ("flooding", "can", "naive_unicast")


@dataclass(frozen=True)
class Meshed(Kernel):
    """Routers that are all linked with each other."""

    loss: np.ndarray | None = None

    def losses(self, a, b):
        return None if self.loss is None else self.loss[a, b]

    def link_packets(self, a, b, packets):
        """The packets of each pair of routers."""
        away = a != b
        some = {"a": a[away], "b": b[away], "packets": packets[away]}
        return tuple(add_rows("packets", some, "a", "b").values())

    def merged_packets(self, tree, a, b):
        """One packet of each tree on each link, however often a row is there."""
        _, ends, packets = distinct_rows(*distinct_rows(tree, a, b)[1][1:])
        return *ends, packets


def network_of(
    case: Case, loss: tuple[tuple[float, ...], ...] = ()
) -> tuple[Ring, dict[int, int], Meshed]:
    """The nodes of a case, their positions, and the kernel of its routers."""
    nodes = sorted(case.ids, key=case.ids.__getitem__)
    halves, routers = parts(case.ids[node] for node in nodes), [case.router[node] for node in nodes]
    ring = Ring(*halves, np.array(nodes), np.array(routers))
    delay, many = case.routes().delay, range(len(case.routers))
    delay_us = np.array([[delay[a][b] for b in many] for a in many])
    kernel = Meshed(delay_us, np.array(many), np.array(loss) if loss else None)
    return ring, {node: place for place, node in enumerate(nodes)}, kernel


def system_of(name: str, given: OverlaysCase) -> GroupOverlays:
    """The system of a case."""
    case = given.case
    if name == "flooding":
        return LiveFlooding(case.b, case.leaf_set_size)
    if name == "naive_unicast":
        return LiveUnicast()
    if name == "ip_multicast":
        return LiveIpMulticast()
    space = Space(given.dimensions, most_bits(given.dimensions))
    clock = given.clock, given.processing_us
    return LiveCan(space, case.seed, given.flooding, *clock, len(given.landmarks))


def check(seed: int, name: str, buckets: int, cuts: tuple[int, ...] = ()) -> Counter:
    """Play a world, and compare every round; return how often things have happened.

    Parameters
    ----------
    cuts : tuple of int
        Numbers of buckets into which the state is cut between rounds, one after the other.
    """
    given = random_overlays(seed)
    if landmarks := seed % 5 % (len(given.case.routers) + 1):
        drawn = draw_landmarks(given.case.seed, landmarks, len(given.case.routers))
        given = replace(given, landmarks=tuple(drawn.tolist()))
    if seed % 2:
        drawn, routers = random.Random(f"losses {seed}"), len(given.case.routers)
        shares = drawn.choices((0, 0.2, 0.5, 1), k=routers)
        given = replace(given, loss=tuple(tuple(max(a, b) / 2 for b in shares) for a in shares))
    case, oracle = given.case, World(given, name, draw_of(given.case.seed))
    if seed % 3 == 0:
        silent = random.Random(f"withheld {seed}").choices(sorted(case.ids), k=len(case.ids) // 4)
        given = replace(given, withholds=frozenset(silent))
        oracle = World(given, name, draw_of(given.case.seed))
    ring, at, kernel = network_of(case, given.loss)
    kernel = replace(kernel, withheld=Named.of(given.withholds))
    number_of = np.array(sorted(case.keys), dtype=np.int64)
    system = system_of(name, given)
    network = Network(ring, kernel, LAN_US, case.seed)
    world = SystemWorld(
        *(system, network, number_of, buckets, OwnRounds(), len(given.events)), cuts=cuts
    )
    world.detection, world.deadline = given.detection, given.deadline
    world.lives = Lives.of(len(ring), nodes_of(at[node] for node in given.initial))
    seen = Counter()
    for number, today in enumerate(given.events):

        def positions(kind, today=today):
            return {at[e[1]] for e in today if e[0] == kind}

        def pairs(kind, today=today):
            some = (event for event in today if event[0] == kind)
            return [(int(np.searchsorted(number_of, group)), at[node]) for _, node, group in some]

        published = oracle.step(number)
        done, sent, carried = world.play(
            *map(pairs, ("join", "quit", "publish")),
            *map(positions, ("fail", "leave", "recover", "arrive")),
            measures=("delay", "link_stress" if system.merged else "node_stress"),
            routers=len(case.routers),
        )
        copies = [(g, copy) for g, _, one in published for copy in one.copies]
        wanted = Counter((copy.sender, copy.receiver, "payload") for _, copy in copies)
        assert sent.messages == wanted, number
        lost = Counter(
            (copy.sender, copy.receiver, "payload")
            for _, copy in copies
            if copy.lost or copy.receiver not in oracle.alive
        )
        assert sent.lost == lost, number
        account = done.publications.by_group(number_of, number - given.deadline)
        rows = sorted(zip(*(column.tolist() for column in account.values()), strict=True))
        assert rows == oracle.due(number), number
        compare_multicasts(oracle, published, world.multicasts, carried, number_of, ring)
        seen["lost"] += len(lost)
        seen["lost on routes"] += sum(copy.lost for _, copy in copies)
        seen["missed"] += sum(row[6] for row in rows)
        seen["open"] += sum(row[7] for row in rows)
        silent = given.withholds - {node for _, node, _ in published}
        seen["withheld"] += sum(node in one.first for node in silent for *_, one in published)
        seen["again"] += sum(row[9] for row in rows)
        seen["outside"] += sum(node not in oracle.members[group] for group, node, _ in published)
    return seen


def compare_multicasts(oracle, published, values, carried, number_of, ring) -> None:
    """Compare the measures and copies of the first publication of each group."""
    first = {}
    for group, source, one in published:
        first.setdefault(group, (source, one))
    reached = {
        group: {
            node: (came.hops, came.at_us)
            for node, came in one.first.items()
            if node in oracle.members[group] - {source}
        }
        for group, (source, one) in first.items()
    }
    starts = {group: source for group, (source, _) in first.items()}
    delay = oracle.overlay.proximity
    told = delay_measures(starts, oracle.members, reached, delay)
    copies = Counter((g, c.sender, c.receiver) for g, (_, one) in first.items() for c in one.copies)
    entries = [(group, sender) for group, sender, _ in copies.elements()]
    if oracle.system == "ip_multicast":
        packets = [merged(oracle, start, first[group][1]) for group, start in starts.items()]
        assert values.pop("messages", 0) == sum(packets)
        values = {name: value for name, value in values.items() if "stress" not in name}
    else:
        told |= node_stress(entries, oracle.alive)
        sent = [(group, copy) for group, (_, one) in first.items() for copy in one.copies]
        came = ((group, copy.receiver) for group, copy in sent if not copy.lost)
        told |= duplicates(came, starts, oracle.alive)
    assert values == pytest.approx(told, rel=1e-8)
    places = {
        (int(number_of[g]), *map(int, ring.node[list(ends)])): n
        for (g, *ends), n in carried.items()
    }
    assert Counter(places) == copies


def merged(oracle, start: int, one) -> int:
    """Packets of a multicast by IP multicast, where all routers are linked."""
    router = oracle.given.case.router
    others = {router[copy.receiver] for copy in one.copies} - {router[start]}
    return bool(one.copies) + len(others) + len(one.copies)


@pytest.mark.parametrize("name", [*SYSTEMS, "ip_multicast"])
def test_rounds_are_the_oracles(name: str) -> None:
    seen = Counter()
    for seed in range(24):
        seen += check(seed, name, (1, 2, 3, 7)[seed % 4])
    assert seen["lost"], seen
    assert seen["outside"], seen
    assert seen["withheld"], seen
    assert bool(seen["lost on routes"]) == (name != "ip_multicast")
    assert bool(seen["missed"]) == (name != "ip_multicast")
    assert bool(seen["again"]) == (name == "can")


@pytest.mark.parametrize("name", SYSTEMS)
def test_the_state_goes_on_in_other_buckets(name: str) -> None:
    for seed in range(4):
        check(seed, name, 2, (7, 1, 3))
