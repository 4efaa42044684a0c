"""CAN as the overlay, and Scribe's trees over it, beside the oracle."""

import random

import numpy as np
import pytest
from played import halves

from scribe_spark.can.overlay import CanNextHop
from scribe_spark.can.zones import Placement, Space, split_zones, zones_of_all
from scribe_spark.core.errors import InputError
from scribe_spark.engine.facts import RingInMemory
from scribe_spark.engine.in_task import InTask
from scribe_spark.engine.program import Tables
from scribe_spark.rounds.group_events import GroupEvents
from scribe_spark.rounds.player import RoundPlayer
from scribe_spark.systems.scribe.trees import (
    CHILDREN,
    grow_trees,
    settled_environment,
    settled_round,
)
from tests.can.played import LAN_US, Played, ZonesInMemory, draw_of
from tests.oracle.can.cases import random_can
from tests.oracle.scribe import Scribe
from tests.seeds import seeds


@pytest.mark.parametrize("seed", seeds(range(200), 20))
@pytest.mark.parametrize("buckets", [1, 7])
def test_routes_and_trees_are_the_oracles(seed, buckets):
    given = random_can(seed)
    case, played = given.case, Played(given, buckets)
    oracle = given.overlay(played.routes, draw_of(case.seed))
    ring, bounds = played.ring, played.bounds
    known = ZonesInMemory(zones_of_all(Placement(played.space, case.seed), ring, played.kernel))
    tables = [Tables() for _ in bounds[1:]]

    # 1. whom a node knows
    (zones, near), found = known.read(), {node: set() for node in case.ids}
    for zone, neighbour, face in zip(*near.rows().values(), strict=True):
        x, y = (int(ring.node[zones.node[which]]) for which in (zone, neighbour))
        found[x].add((int(face >> 1), int(face & 1), y))
    assert found == {node: oracle.routing_table(node) for node in case.ids}

    # 2. where messages go next
    rng, rule = random.Random(seed), CanNextHop(known)
    keys = [*case.keys.values(), *(rng.randrange(2**128) for _ in range(5))]
    for bucket, one in enumerate(tables):
        at = np.arange(bounds[bucket], bounds[bucket + 1])
        for key in keys if len(at) else []:
            hi, lo = (np.full(len(at), half, np.uint64) for half in (key >> 64, key & (2**64 - 1)))
            onward = ring.node[rule(int(bounds[bucket]), one, at, hi, lo)].tolist()
            nodes = ring.node[at].tolist()
            hops = [oracle.next_hop(node, key) for node in nodes]
            assert onward == [n if h is None else h for n, h in zip(nodes, hops, strict=True)]

    # 3. Scribe's trees
    number, facts = played.number, RingInMemory(ring)
    round = settled_round(number, *halves(case.keys, number.tolist()), len(ring), rule, LAN_US)
    player = RoundPlayer(InTask(tables), settled_environment(facts, bounds, played.kernel))
    joins = np.array(sorted(case.joins()), dtype=np.int64).reshape(-1, 2)
    group, at = np.searchsorted(number, joins[:, 0]), ring.positions(joins[:, 1])
    order = np.lexsort((at, group))
    creator = np.arange(len(number)) % len(ring)
    grow_trees(player, round, creator, GroupEvents(join=(group[order], at[order])))
    key = player.gather(CHILDREN).get(CHILDREN, {"key": number[:0]})["key"]
    place, child = np.divmod(key, len(ring))
    group, parent = np.divmod(place, len(ring))
    rows = zip(number[group], ring.node[parent], ring.node[child], strict=True)
    edges = {tuple(map(int, row)) for row in rows}
    scribe = Scribe(oracle, case.keys)
    scribe.join_all(case.joins())
    assert edges == scribe.edges()


def test_a_zone_that_cannot_be_halved_again_is_refused():
    space = Space(2, 3)
    with pytest.raises(InputError, match="can_bits = 3: leaves a zone with 2 nodes"):
        split_zones(space, np.zeros(5, dtype=np.int64), np.zeros(5, dtype=np.int64))
    _, depth = split_zones(space, np.zeros(4, dtype=np.int64), np.zeros(4, dtype=np.int64))
    assert sorted(depth) == [1, 2, 3, 3]
