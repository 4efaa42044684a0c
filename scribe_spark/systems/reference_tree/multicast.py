"""The tree over all hosts as a multicast system: all groups use edges of the same tree.

A subscription climbs from each member, and from the source, towards the root.  A host takes part in
a group at most once: it forwards only the first subscription, as a Scribe node sends one JOIN.  The
message takes the edges on which subscriptions have climbed until all of them met in one host.

P. Costa, D. Frey: Publish-Subscribe Tree Maintenance over a DHT, Sections 2.1 (subscription
forwarding over a single tree), 3.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame

from scribe_spark.core.arrays import (
    NONE,
    depths,
    expand,
    flags,
    index_sorted,
    numbered,
    offsets_of,
    whole_numbers,
)
from scribe_spark.engine import Columns
from scribe_spark.rounds.group_overlays import GroupOverlays, Network, Overlays
from scribe_spark.rounds.system import SystemPlayer
from scribe_spark.runtime.blocks import read_partition
from scribe_spark.systems.reference_tree.hash_table import HashTable
from scribe_spark.systems.reference_tree.places import FOUND_PLACES, FindPlaces
from scribe_spark.systems.reference_tree.search import PARENTS
from scribe_spark.systems.reference_tree.tree import ReferenceTree


@dataclass(frozen=True)
class GroupsOnTree(GroupOverlays):
    """The reference tree of all nodes of a run, whose edges carry the messages of all groups.

    Each host knows from the subscriptions which of its subtrees have members of a group, so that a
    message takes no other edges.
    """

    tree: ReferenceTree
    assignment: str
    state: ClassVar[Mapping[str, str]] = {}  # nodes keep their children in the tree
    in_drawn_order: ClassVar[bool] = False

    def shared_in_run(self, network: Network, player: SystemPlayer) -> dict[str, np.ndarray]:
        """Return the parent of each node (``above``, NONE: the root) and its ``depth``."""
        hosts = HashTable(player.facts, player.bounds, self.tree, self.assignment)
        player.play(FindPlaces(hosts, kinds=(PARENTS,)))
        found = player.take(FOUND_PLACES)[FOUND_PLACES]
        above = np.full(len(network.ring), NONE)
        above[found["node"]] = found["parent"]
        return {"above": above, "depth": depths(above)}

    def edges(self, overlays: Overlays, network: Network) -> Columns:
        begin, end = (np.searchsorted(overlays.group, overlays.of + more) for more in (0, 1))
        publication, row = expand(begin, end)
        every = np.arange(len(overlays.of))
        group = np.concatenate([publication, every])
        node = np.concatenate([overlays.node[row], overlays.source])
        is_source = np.arange(len(group)) >= len(row)
        offsets = offsets_of(network.shared["depth"][node])
        ancestors = ways_up(network.shared["above"], node, offsets)
        trees = PrunedTrees.of(SubscriberPaths(group, node, is_source, offsets, ancestors))
        sender, receiver = trees.copies
        ends = {"node": trees.node[sender], "peer": trees.node[receiver]}
        return {"publication": trees.group[sender], **ends}


def ways_up(above: np.ndarray, some: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    """Return the ancestors of some nodes of a forest, each from its parent to the root.

    `above` has the parent of each node, or -1. The ancestors of ``some[i]`` are at ``offsets[i]``
    to ``offsets[i + 1] - 1``. With ``above = [-1, 0, 1]``, ``some = [2, 1]`` and ``offsets = [0, 2,
    3]``, the result is 1, 0, 0.
    """
    way = np.empty(offsets[-1], dtype=np.int64)
    place, last, at = offsets[:-1], offsets[1:], above[some]
    while (onward := place < last).any():
        place, last, at = place[onward], last[onward], at[onward]
        way[place] = at
        place, at = place + 1, above[at]
    return way


def degrees_and_depths(placed: DataFrame) -> DataFrame:
    """Count how many hosts have each degree (number of neighbours) and each depth."""

    def count(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for above in _parents(batches):
            degree = np.bincount(above[above >= 0], minlength=len(above)) + (above >= 0)
            for measure, values in (("degree", degree), ("depth", depths(above))):
                value, hosts = np.unique(values, return_counts=True)
                name = [measure] * len(value)
                yield from pa.table(
                    [name, value, hosts], ["measure", "value", "count"]
                ).to_batches()

    rows = placed.select("node", "parent").repartition(1)
    return rows.mapInArrow(count, "measure string, value bigint, count bigint")


def _parents(batches: Iterable[pa.RecordBatch]) -> Iterator[np.ndarray]:
    """Yield the index of each host's parent, or -1, by ascending numbers of hosts."""
    rows = read_partition(batches)
    if rows is not None:
        rows = rows.sort_by("node")
        node, parent = rows.column("node").to_numpy(), rows.column("parent")
        above = np.full(len(rows), NONE)
        above[parent.is_valid().to_numpy()] = index_sorted(node, parent.drop_null().to_numpy())
        yield above


# --- the part of the tree that each group uses


@dataclass(frozen=True)
class SubscriberPaths:
    """Members and sources, each with its path up the tree."""

    #: int64, shape (M,): the group and the host.  A host has at most one row as a member and one as
    #: the source of a group.
    group: np.ndarray
    node: np.ndarray
    #: bool, shape (M,): true for the source of the group, false for a member.
    is_source: np.ndarray
    #: int64, shape (M + 1,): the ancestors of row i are from ``offsets[i]`` up to
    #: ``offsets[i + 1] - 1``.
    offsets: np.ndarray
    #: int64: the ancestors of all rows, each from its parent to the root.
    ancestors: np.ndarray

    @property
    def depth(self) -> np.ndarray:
        """Return the number of ancestors of each row."""
        return np.diff(self.offsets)

    def at_level(self, rows: np.ndarray, level: int) -> np.ndarray:
        """Return the ancestor of each row at a level (0: the root), or the row's own host."""
        steps, node = self.depth[rows] - level, self.node[rows]
        above = np.flatnonzero(steps > 0)
        node[above] = self.ancestors[self.offsets[rows[above]] + steps[above] - 1]
        return node


@dataclass(frozen=True)
class PrunedTrees:
    """The tree of each group: the hosts on the paths between its source and its members."""

    group: np.ndarray
    node: np.ndarray
    #: The index of the parent, or -1; and whether the subtree of the host has the group's source.
    above: np.ndarray
    to_source: np.ndarray

    @classmethod
    def of(cls, subscribers: SubscriberPaths) -> PrunedTrees:
        """Let subscriptions climb until all subscriptions of a group have met in one host."""
        names, group = np.unique(subscribers.group, return_inverse=True)
        depth, is_source = subscribers.depth, subscribers.is_source
        deepest = int(depth.max(initial=-1))
        highest = np.full(len(names), deepest)
        np.minimum.at(highest, group, depth)
        by_depth = np.argsort(depth, kind="stable")
        starts = np.searchsorted(depth[by_depth], np.arange(deepest + 2))
        above, to_source = whole_numbers(), flags()  # of the hosts of the level below
        levels, hosts_below = [(*[above] * 3, to_source)], 0
        # the hosts of the level below that climb further, and a subscriber in the subtree of each
        climbing = below = whole_numbers()
        for level in range(deepest, -1, -1):
            here = by_depth[starts[level] : starts[level + 1]]
            row = np.concatenate([below, here])
            source = np.concatenate([to_source[climbing], is_source[here]])
            node = subscribers.at_level(row, level)
            number = numbered(group[row], node)
            hosts = int(number.max(initial=-1)) + 1
            first = np.empty(hosts, dtype=np.int64)
            first[number[::-1]] = np.arange(len(number))[::-1]  # the first row of each host
            above[climbing] = hosts_below + number[: len(below)]
            above = np.full(hosts, NONE)
            to_source = np.bincount(number[source], minlength=hosts) > 0
            of = group[row[first]]
            levels.append((names[of], node[first], above, to_source))
            hosts_below += hosts
            met = (np.bincount(of, minlength=len(names)) == 1) & (highest >= level)
            climbing = np.flatnonzero(~met[of])
            below = row[first][climbing]
        return cls(*(np.concatenate(parts) for parts in zip(*levels, strict=True)))

    @property
    def copies(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the indices of sender and receiver of every copy of the message."""
        lower = np.flatnonzero(self.above >= 0)
        upper = self.above[lower]
        upwards = self.to_source[lower]
        return np.where(upwards, lower, upper), np.where(upwards, upper, lower)
