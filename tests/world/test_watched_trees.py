"""Watched trees: what is told of them, against the oracle's worlds; which groups are watched."""

import numpy as np
import pytest
from living_groups import world_of
from oracle.scribe_living.cases import random_world
from oracle.scribe_living.world import Snapshot

from scribe_spark.systems.scribe.measures import (
    TREES,
    WATCHED,
    tree_rows,
    watched_groups,
)
from scribe_spark.worlds.groups import AccessLists, WorldGroups

#: Node -> (parent, member, root, orphan).
Trees = dict[int, dict[int, tuple[int, bool, bool, bool]]]

#: Of the oracle's random worlds; together they have all that can be told.
SEEDS = (range(3), pytest.param(range(3, 6), marks=pytest.mark.slow))


def as_trees(snapshot: Snapshot) -> Trees:
    orphans, found = set(snapshot.orphans), Trees()
    for group, node, member, root, parent, *_ in snapshot.entries:
        is_orphan = (group, node) in orphans
        found.setdefault(group, {})[node] = (parent, member, root, is_orphan)
    return found


def expected_rows(number: int, old: Trees, new: Trees, live: set[int]) -> set[tuple]:
    rows = set()
    for group in old.keys() | new.keys():
        before, after = old.get(group, {}), new.get(group, {})
        parents = {parent for parent, *_ in before.values()}
        struck = any(node in parents and node not in live for node in before)
        orphans = any(cells[3] for tree in (before, after) for cells in tree.values())
        if struck:
            rows |= {(number, "before", group, n, *cells, True) for n, cells in before.items()}
        if struck or orphans:
            rows |= {(number, "after", group, n, *cells, True) for n, cells in after.items()}
            died = {n: cells for n, cells in before.items() if n not in live}
            rows |= {(number, "after", group, n, *cells, False) for n, cells in died.items()}
    return rows


def play(seed: int, buckets: int):
    """The rows that are told of all groups, and those that the oracle's snapshots come to."""
    world = world_of(random_world(seed)).in_buckets(buckets)
    old, told, expected = Trees(), set(), set()
    before = {}
    for number in range(world.case.rounds):
        events = [event for event in world.case.events if event[0] == number]
        _, theirs = world.step(number, events)
        after = world.results[-1].tables.get(TREES, {})
        known, alive = world.overlay.states.known, world.overlay.alive
        table = tree_rows(number, before, after, world.groups.number, known, alive)
        before = after
        columns = table.to_pydict()
        columns["parent"] = [-1 if parent is None else parent for parent in columns["parent"]]
        rows = list(zip(*columns.values(), strict=True))
        assert len(rows) == len(set(rows))
        told |= set(rows)
        new = as_trees(theirs)
        expected |= expected_rows(number, old, new, set(theirs.live))
        old = new
    return told, expected


@pytest.mark.parametrize("buckets", [pytest.param(1, marks=pytest.mark.slow), 3])
@pytest.mark.parametrize("seeds", SEEDS, ids=str)
def test_trees_are_told_as_the_oracle_has_them(seeds, buckets):
    together = set()
    for seed in seeds:
        told, expected = play(seed, buckets)
        assert told == expected
        together |= told
    moments = {(row[1], row[-1], row[-2]) for row in together}  # moment, alive, orphan
    assert {("before", True, False), ("after", True, True), ("after", False, False)} <= moments


def test_small_groups_are_watched():
    """Those with nearly 14 members that are alive at the start; of equals the smaller number."""
    sizes = {3: 14, 5: 90, 7: 12, 8: 16, 9: 1, 20: 13, 21: 15, 22: 14, 30: 50, 31: 12, 40: 14}
    numbers, late = np.array(list(sizes)), np.arange(90, 110)  # 20 of group 40 come later
    groups = np.r_[np.repeat(numbers, list(sizes.values())), np.full(len(late), 40)]
    nodes = np.concatenate([*map(np.arange, sizes.values()), late])
    members = WorldGroups(numbers, lambda: (groups, nodes), AccessLists.open())
    watched = [3, 7, 8, 20, 21, 22, 31]
    for initial, more in ((90, 40), (110, 9)):
        found = watched_groups(numbers, members.sizes(initial))
        assert found.tolist() == sorted([*watched, more])
    assert len(watched) + 1 == WATCHED
    of_two = groups < 6
    few = WorldGroups(numbers[:2], lambda: (groups[of_two], nodes[of_two]), AccessLists.open())
    assert watched_groups(numbers[:2], few.sizes(90)).tolist() == [3, 5]
