"""Overcast through the seam: state, messages and copies for B = 1, 2, 7 as in one builder."""

import random
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from living_buckets import ring_of
from periods import SystemWorld

from overcast.played import Played, drawn_changes, small_network
from scribe_spark.rounds.group_overlays import Network
from scribe_spark.rounds.system import OwnRounds

NODES, GROUPS, ROUNDS, PERIODS = 40, 5, 4, 12


def test_a_world_is_the_kernel_in_one_builder():
    seen = Counter()
    for seed, buckets in ((0, 1), (1, 2), (0, 7)):
        seen += play(seed, buckets)
    assert min(seen[name] for name in ("adopt", "check-in", "copies", "lost", "again")) > 0, seen


def play(seed: int, buckets: int) -> Counter:
    """Play a world on buckets, and the kernel's rounds."""
    drawn, seen = random.Random(seed), Counter()
    ids = ring_of({node: drawn.getrandbits(128) for node in range(NODES)})
    router = np.random.default_rng(seed).integers(0, 12, NODES)
    ring = replace(ids, router=router)
    rules = {"linear": seed}
    one = Played(small_network(seed), router, rules, GROUPS, 1, node=ring.node)
    system, network = one.system, Network(ring, one.kernel, 0, 1)
    own = OwnRounds(PERIODS * 1000, 1000)
    world = SystemWorld(system, network, range(GROUPS), buckets, own, ROUNDS)
    members, alive = set(), set(range(NODES))
    for number in range(ROUNDS):
        again = {node for node in set(range(NODES)) - alive if drawn.random() < 0.3}
        join, quit, died = drawn_changes(drawn, members, alive, GROUPS, True)
        members = {pair for pair in members if pair[1] not in died} - quit | join
        alive = (alive - died) | again
        seen["again"] += len(again)
        publish = sorted(drawn.sample(sorted(members), 3)) if members else []
        done, tally, copies = world.play(join, quit, publish, died, back=again)
        assert set(copies.values()) <= {1}
        sent, counts, told = Counter(), Counter(), set()
        for period in range(PERIODS):
            changes = (join, quit, died, again) if not period else ()
            one.play(*changes, measure=period == PERIODS - 1)
            counts += Counter(one.counts)
            for kind, rows in one.sent.items():
                ends = (ring.node[rows[end]].tolist() for end in ("sender", "to"))
                sent += Counter((*pair, kind) for pair in zip(*ends, strict=True))
            if not period:
                first = {group: node for group, node in reversed(publish)}
                told = {copy for pair in first.items() for copy in one.copies(*pair)}
        assert set(copies) == told, number
        found = tally.messages
        assert Counter({key: n for key, n in found.items() if key[2] != "payload"}) == sent
        assert Counter(done.counts) == counts
        measures = one.measures()
        assert {name: done.measures[name] for name in measures} == pytest.approx(measures)
        check_state(world.tables, one.state)
        seen += Counter(kind for *_, kind in sent.elements())
        seen += Counter(copies=len(copies), lost=tally.lost.total())
    return seen


def check_state(found: dict, wanted: dict) -> None:
    """The tables of all builders are those of one builder."""
    for name in ("members", "children", "certificates"):
        mine = found[f"state: {name}"]
        order = np.lexsort((mine["node"], mine["group"]) if "node" in mine else (mine["key"],))
        for column, values in wanted[name].items():
            assert mine[column][order].tolist() == values.tolist(), (name, column)


@pytest.mark.parametrize("gone", ["one group", "all groups"])
def test_groups_lose_all_their_members(gone):
    """Publications of other nodes reach nobody, and nothing is measured."""
    ring = replace(ring_of({node: 7**node for node in range(4)}), router=np.arange(4))
    system = Played(small_network(1), ring.router).system
    network = Network(ring, small_network(1), 0, 1)
    world = SystemWorld(system, network, range(2), 1, OwnRounds(1000, 1000), 3)
    join, died = {(0, 1), (0, 2), (1, 3)}, {1, 2} if gone == "one group" else {1, 2, 3}
    found = []
    for joins, dies in [(join, ()), ((), died), ((), ())]:
        done, tally, _ = world.play(joins, (), {(0, 0)}, dies)
        sent = sum(n for key, n in tally.messages.items() if key[2] == "payload")
        found.append((sent, done.measures["depth.max"]))
    assert found == [(2, 0.5), (0, 0.0), (0, 0.0)]
