"""Bayeux in worlds beside its oracle: lists, members, sessions, messages, what became of all."""

import random
from collections import Counter
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from arriving import Kernel
from identifiers import parts
from living_buckets import RecordingTally, SystemBuckets, ring_of
from living_groups import LossyKernel
from oracle.bayeux.cases import LiveCase, random_live, with_partitions
from oracle.bayeux.world import Bayeux, Snapshot, publications
from oracle.living.overlay import Overlay
from oracle.multicast_measures import delay_measures, duplicates, node_stress
from overlay_state import OverlayState
from seeds import seeds
from withholding import Named

from scribe_spark.core.keys import key_parts
from scribe_spark.engine.facts import Ring
from scribe_spark.measures.multicasts import multicast_units
from scribe_spark.pastry.states import States
from scribe_spark.rounds.events import NEVER, Events
from scribe_spark.rounds.system import LivingRound, Publishing
from scribe_spark.systems.bayeux.live import LiveBayeux
from tests.can.played import draw_of

LAN_US = 1000

#: A world in which TREEs bring publications to members without a copy; one in which TREEs are
#: faster than copies.
TREES_BRING, TREES_ARE_FASTER = 7, 21


def overlay_of(overlay: Overlay, case: LiveCase, ring: Ring, at: dict[int, int]) -> OverlayState:
    """What the oracle's nodes know."""
    b, leaf_set = case.rules.b, case.rules.l
    states = States.empty(ring, np.arange(len(ring)), leaf_set, b)
    for node, state in overlay.states.items():
        mine, half = at[node], leaf_set // 2
        for side, start in ((state.larger, 0), (state.smaller, half)):
            states.leaves[mine, start : start + len(side)] = [at[leaf] for leaf in side]
        for row, cells in state.rows.items():
            for column, entry in cells.items():
                states.cells[mine, row, column] = at[entry]
    return OverlayState.of(states, np.array(sorted(at[node] for node in overlay.live)))


def check(
    seed: int,
    buckets: int = 1,
    blind: bool = False,
    cuts: tuple = (),
    source: str | None = "root",
    loses: bool = False,
    partitions: bool = False,
) -> Counter:
    """Play a world, and compare every round.

    Blind: the tables of a bucket can be read only while the bucket is played.  The state is cut
    into `cuts` buckets between rounds, one number after the other.  Multicasts begin at `source`;
    None: they are not measured.  Return the measures of multicasts, and the number of deliveries by
    TREEs.
    """
    case = with_partitions(random_live(seed)) if partitions else random_live(seed)
    run = case.begin()
    run.direct = source == "direct"
    ring = ring_of(run.overlay.idents)
    at = {int(node): place for place, node in enumerate(ring.node)}
    numbers = sorted(case.keys)
    hi, lo = parts(case.keys[number] for number in numbers)
    of = case.settings
    system = LiveBayeux(of.hops, of.recreate, case.rules.b, of.partitions, of.root)
    world, outcomes, seen = SystemBuckets.empty(ring, buckets, blind), Counter(), Counter()
    delay = run.overlay.delay
    between = np.array([[delay(int(a), int(b)) for b in ring.node] for a in ring.node])
    kernel = Kernel(between, np.arange(len(ring)))
    if loses:
        drawn = random.Random(f"losses {seed}").choices((0, 0.2, 0.6), k=len(ring))
        kernel = LossyKernel(between, np.arange(len(ring)), np.maximum.outer(drawn, drawn) / 2)
        draw = draw_of(case.seed)

        def is_lost(group: int, source: int, *ends: int) -> bool:
            bits = draw("loss", group, run.now << 32 | source, *ends)
            return bits < kernel.loss[at[ends[0]], at[ends[1]]] * 2**64

        run.is_lost = is_lost
        silent = random.Random(f"withheld {seed}").sample(ring.node.tolist(), len(ring) // 6)
        run.withholds = frozenset(silent if seed % 2 else ())
        kernel = replace(kernel, withheld=Named.of(run.withholds))
    incarnation = np.full(len(ring), NEVER)
    for number in range(case.rounds):
        wanted = case.step(run, number)
        today = [event for event in case.events if event[0] == number]

        def nodes(kind, today=today):
            return np.array(sorted(at[e[1]] for e in today if e[2] == kind), dtype=np.int64)

        def pairs(kind, today=today):
            found = sorted((numbers.index(e[3]), at[e[1]]) for e in today if e[2] == kind)
            return tuple(np.array([p[i] for p in found], dtype=np.int64) for i in (0, 1))

        kinds = ("fail", "leave", "recover", "arrive")
        incarnation[np.concatenate([nodes("recover"), nodes("arrive")])] = number
        overlay = overlay_of(run.overlay, case, ring, at)
        bounds = world.bounds
        for mine, first, last in zip(world.engine.tables, bounds[:-1], bounds[1:], strict=True):
            mine.update(overlay.states.of(slice(first, last)).tables())
        sent = RecordingTally((*system.payload, *system.control), ring.node, overlay.alive)
        now = LivingRound(
            *(number, case.rounds, ring, overlay),
            *(Events(**{kind: nodes(kind) for kind in kinds}), np.array(numbers), hi, lo),
            *(pairs("join"), pairs("quit"), Publishing.at_begin(pairs("publish"))),
            *(kernel, LAN_US, case.seed, case.settings.deadline, sent, incarnation),
            measures=("delay", "node_stress") if source else (),
            source=source or "root",
        )
        found: list[tuple] = []

        def measure(done, world=world, found=found, overlay=overlay):
            if source:
                found.append(world.measure(system, done, kernel, overlay.lives))

        result = system.play_on(world.player(system), now, measure)
        tables = world.tables_of(system)
        if cuts:
            world = world.cut_again(system, cuts[number % len(cuts)])
        compare(run, wanted, tables, sent, ring, numbers)
        for values, copies in found:
            told, carried = multicasts(run, wanted, source)
            assert values == pytest.approx(told, rel=1e-8), number
            places = ((numbers[g], *map(int, ring.node[list(ends)])) for g, *ends in copies)
            assert Counter(dict(zip(places, copies.values(), strict=True))) == carried, number
            seen.update(told)
            seen["by TREE"] += sum(
                len(one.trees.keys() - one.ways.keys()) for one in run.spreads.values()
            )
        assert result.measures == pytest.approx(run.measures()), number
        account = result.publications.by_group(np.array(numbers), number - case.settings.deadline)
        rows = zip(*(column.tolist() for column in account.values()), strict=True)
        outcomes.update({(r, g): np.array(counts) for r, g, *counts in rows})
    told: dict = {}
    for one in publications(run):
        is_due = one.publication[0] + case.settings.deadline < case.rounds
        found = [one.expected, one.expected * is_due, one.in_time, 0, one.lost, one.open]
        counts = np.array([*found, one.first_copies, one.duplicates])
        told[one.publication[:2]] = told.get(one.publication[:2], 0) + counts
    assert outcomes.keys() == told.keys()
    for name, counts in told.items():
        assert outcomes[name].tolist() == counts.tolist(), name
    return seen


def multicasts(run: Bayeux, wanted: Snapshot, source: str) -> tuple[dict[str, float], Counter]:
    """Return delay and node stress of a round's multicasts, and their copies.

    A multicast is the accepted publication of the group whose source has the least nodeId.
    """
    idents, plane = run.overlay.idents, run.overlay.delay

    def spent(way: list[int]) -> tuple[int, int]:
        return len(way) - 1, sum(plane(a, b) + 2 * LAN_US for a, b in pairwise(way))

    members: dict = {group: set() for group in run.groups}
    for session, node, *_ in wanted.members:
        members[session // run.settings.partitions].add(node)
    starts, reached, carried = {}, {}, Counter()
    for group, one in run.spreads.items():
        first = min(one.to_root, key=idents.get)
        starts[group] = one.root if source == "root" else first
        before = [one.root] if source == "root" else one.to_root[first]
        ways = {
            node: min((spent(before + way[1:]) for way in trees), key=lambda way: way[::-1])
            for node, trees in one.trees.items()
        }
        ways |= {node: spent(before + way[1:]) for node, way in one.ways.items()}
        there = (members[group] - {starts[group]}) & ways.keys()
        reached[group] = {node: ways[node] for node in there}
        carried.update((group, *ends) for ends in one.copies)
    found = delay_measures(starts, members, reached, lambda a, b: plane(a, b) + 2 * LAN_US)
    sent = ((group, sender) for group, sender, _ in carried.elements())
    found |= node_stress(sent, run.overlay.live)
    lost = Counter((group, *ends) for group, one in run.spreads.items() for ends in one.lost)
    came = ((group, to) for group, _, to in (carried - lost).elements())
    roots = {group: one.root for group, one in run.spreads.items()}  # where copies start
    return found | duplicates(came, roots, run.overlay.live), carried


def compare(
    run: Bayeux,
    wanted: Snapshot,
    tables: dict,
    sent: RecordingTally,
    ring: Ring,
    numbers: list[int],
) -> None:
    """Compare state and messages after a round."""
    partitions, node = run.settings.partitions, ring.node
    number = np.add.outer(np.array(numbers) * partitions, np.arange(partitions)).ravel()
    assert sent.messages == wanted.messages, wanted.round
    assert sent.lost == wanted.lost, wanted.round

    def rows(name, *columns):
        parts = ("session", "node", "member")[: 3 if name == "lists" else 2]
        table = {**tables[name], **key_parts(tables[name]["key"], parts, len(ring))}
        if name == "members":
            table["session"] = table["session"] * partitions + table["partition"]
        return set(zip(*(column(table).tolist() for column in columns), strict=True))

    def named(name, numbers_of=None):
        return lambda table: table[name] if numbers_of is None else numbers_of[table[name]]

    lists = ("session", number), ("node", node), ("member", node), ("next", node)
    columns = [named(*one) for one in (*lists, ("number",), ("written",))]
    assert rows("lists", *columns) == wanted.lists, wanted.round
    columns = [named(*one) for one in (*lists[:2], ("number",), ("waits",))]
    assert rows("members", *columns) == wanted.members, wanted.round
    sessions = tables["sessions"]
    lost = (sessions["lost"] >= 0).tolist()
    roots = [None if root < 0 else int(node[root]) for root in sessions["root"]]
    found = zip(number.tolist(), roots, lost, strict=True)
    assert set(found) == wanted.sessions


def ways(seed: int) -> dict:
    """Buckets and sources of worlds by turns; every other one cannot read other buckets."""
    source = [None, "routed", "root", "direct"][seed % 4]
    return {"buckets": 1 + seed % 2 * (seed % 9), "blind": seed % 2 > 0, "source": source}


@pytest.mark.parametrize("seed", seeds([31, 58, 96, *set(range(200)) - {31, 58, 96}], 3))
def test_worlds_equal_the_oracle(seed):
    check(seed, **ways(seed))


OTHER_ROOTS = [7, 27, 47, 88, 129, 170]


@pytest.mark.parametrize("seed", seeds([*OTHER_ROOTS, *set(range(200)) - {*OTHER_ROOTS}], 6))
def test_worlds_with_other_roots_equal_the_oracle(seed):
    """Several roots of a group, which die and return, surrogate routes around dead nodes; losses.

    The sender of a copy that the network loses does not notice that.
    """
    check(seed, **ways(seed), loses=seed % 3 > 0, partitions=True)


@pytest.mark.parametrize("seed", [80, 120])
def test_lost_copies_are_not_replaced(seed):
    check(seed, 2, source="routed", loses=True)


def test_multicasts_have_every_measure():
    """Of a world in which TREEs bring publications, too."""
    units = multicast_units("it")
    check(TREES_ARE_FASTER, 2)
    for source in ("root", "direct"):
        seen = check(TREES_BRING, 7, source=source)
        assert seen["by TREE"] > 0
        wanted = {n for n in units if n.split(".")[1] not in ("link_stress", "messages", "parts")}
        assert {f"it.{name}" for name in seen} == wanted | {"it.by TREE"}


def test_a_world_goes_on_in_other_buckets():
    """The rows that a system keeps are cut by their nodes."""
    check(31, cuts=(2, 7, 1, 3))
