"""The tree over all hosts as a multicast system: all groups use edges of the same tree.

A subscription climbs from each member, and from the source, towards the root.  A host takes part in
a group at most once: it forwards only the first subscription, as a Scribe node sends one JOIN.  The
message takes the edges on which subscriptions have climbed until all of them met in one host.

References
----------
P. Costa, D. Frey: Publish-Subscribe Tree Maintenance over a DHT, Sections 2.1 (subscription
forwarding over a single tree), 3.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from scribe_spark.core.arrays import (
    NONE,
    depths,
    flags,
    index_sorted,
    list_array,
    numbered,
    offsets_of,
    whole_numbers,
)
from scribe_spark.core.progress import Progress
from scribe_spark.engine.losses import jitter_keys, late_us
from scribe_spark.multicast import EDGES, Multicast
from scribe_spark.runtime.blocks import materialise, read_partition, release
from scribe_spark.systems.reference_tree.places import places
from scribe_spark.underlay.protocol import Kernel, Underlay, node_delays

SYSTEM = "reference_tree"

_COPY = f"{EDGES}, delay_us bigint, hops int, arrival_us bigint, is_member boolean"
_LINEAGE = "node bigint, ancestors array<bigint>, routers array<bigint>"

#: The number of rows in a batch of lineages; the lists of a batch stay small for any number of
#: hosts.
_BATCH = 2**16


def copies(
    nodes: DataFrame,
    groups: DataFrame,
    members: DataFrame,
    underlay: Underlay,
    children: int = 2,
    assignment: str = "pastry",
    progress: Progress | None = None,
) -> DataFrame:
    """Return every copy of every group's message over the one tree of all nodes, materialised.

    The message travels from the group's source to the members, along the edges of the tree, up and
    down.  It takes no other edges: each host knows from the subscriptions which of its subtrees
    have members.

    The columns are ``group, parent, child, parent_router, child_router, delay_us``: a copy, and the
    delay D between its ends; ``hops`` and ``arrival_us``: the path from the source to the child;
    ``is_member``: whether the child is a member.
    """
    ids = nodes.select("node", "id_hi", "id_lo")
    placed = places(ids, children=children, assignment=assignment, progress=progress)
    try:
        ways = lineages(placed, nodes).repartition("node")
        made, _ = materialise(_copies_over(ways, groups, members, underlay))
        return made
    finally:
        release(placed)


def multicast(made: DataFrame) -> Multicast:
    """Return the table of copies that :func:`copies` made as a `Multicast`, for measures."""
    heard = made.where(F.col("is_member"))
    arrived = F.col("arrival_us").alias("delay_us")
    deliveries = heard.select("group", F.col("child").alias("node"), "hops", arrived)
    return Multicast(SYSTEM, made, deliveries)


# --- the path of each host up the tree: a subscription of the host takes this path


def lineages(placed: DataFrame, nodes: DataFrame) -> DataFrame:
    """Return the ancestors of every host and their routers: ``node, ancestors, routers``.

    The ancestors begin with the parent and end with the root.  One task follows the parents of all
    hosts.  (One superstep per level of the tree would be about twenty jobs for 100,000 hosts.)
    """
    routers = nodes.select("node", "router")
    joined = placed.select("node", "parent").join(routers.hint("shuffle_hash"), "node", "inner")
    return joined.repartition(1).mapInArrow(_follow, _LINEAGE)


def _follow(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for node, above, rows in _parents(batches):
        router = rows.column("router").to_numpy()
        depth = depths(above)  # raises an error for a circle, which would never end
        for first in range(0, len(node), _BATCH):
            some = np.arange(first, min(first + _BATCH, len(node)))
            offsets = offsets_of(depth[some])
            way = ways_up(above, some, offsets)
            lists = [list_array(offsets, values[way]) for values in (node, router)]
            names = ["node", "ancestors", "routers"]
            yield pa.RecordBatch.from_arrays([pa.array(node[some]), *lists], names=names)


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
    """Count how many hosts have each degree (number of neighbours) and each depth.

    The columns are ``measure, value, count``; one task has all hosts.
    """

    def count(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for node, above, _ in _parents(batches):
            degree = np.bincount(above[above >= 0], minlength=len(node)) + (above >= 0)
            for measure, values in (("degree", degree), ("depth", depths(above))):
                value, hosts = np.unique(values, return_counts=True)
                name = [measure] * len(value)
                yield from pa.table(
                    [name, value, hosts], ["measure", "value", "count"]
                ).to_batches()

    rows = placed.select("node", "parent").repartition(1)
    return rows.mapInArrow(count, "measure string, value bigint, count bigint")


def _parents(
    batches: Iterable[pa.RecordBatch],
) -> Iterator[tuple[np.ndarray, np.ndarray, pa.Table]]:
    """Yield all hosts, ascending; the index of each host's parent, or -1; and their rows."""
    rows = read_partition(batches)
    if rows is not None:
        rows = rows.sort_by("node")
        node, parent = rows.column("node").to_numpy(), rows.column("parent")
        above = np.full(len(rows), NONE)
        above[parent.is_valid().to_numpy()] = index_sorted(node, parent.drop_null().to_numpy())
        yield node, above, rows


# --- the part of the tree that each group uses


def _copies_over(
    ways: DataFrame, groups: DataFrame, members: DataFrame, underlay: Underlay
) -> DataFrame:
    """Return :func:`copies`, given the lineages of all nodes."""
    sources = groups.select(
        "group",
        F.col("source").alias("node"),
        F.col("source_router").alias("router"),
        F.lit(True).alias("is_source"),
    )
    subscribing = members.select("group", "node", "router", F.lit(False).alias("is_source"))
    both = subscribing.unionByName(sources).repartition("node")
    climbing = both.hint("shuffle_hash").join(ways, "node", "inner").repartition("group")
    kernel, lan_us = underlay.kernel, underlay.lan_us

    def prune(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        rows = read_partition(batches)
        if rows is not None:
            yield _copies(PrunedTrees.of(SubscriberPaths.of(rows)), kernel, lan_us)

    return climbing.mapInArrow(prune, _COPY)


@dataclass(frozen=True)
class SubscriberPaths:
    """Members and sources, each with its path up the tree."""

    #: int64, shape (M,): the group, the host and its router.  A host has at most one row as a
    #: member and one as the source of a group.
    group: np.ndarray
    node: np.ndarray
    router: np.ndarray
    #: bool, shape (M,): true for the source of the group, false for a member.
    is_source: np.ndarray
    #: int64, shape (M + 1,): the ancestors of row i are from ``offsets[i]`` up to
    #: ``offsets[i + 1] - 1``.
    offsets: np.ndarray
    #: int64: the ancestors of all rows, each from its parent to the root, and their routers.
    ancestors: np.ndarray
    routers: np.ndarray

    @classmethod
    def of(cls, rows: pa.Table) -> SubscriberPaths:
        """Return the rows of a partition as arrays."""
        of = {name: rows.column(name).combine_chunks() for name in rows.column_names}
        offsets = offsets_of(of["ancestors"].value_lengths().to_numpy())
        group, node, router = (of[name].to_numpy() for name in ("group", "node", "router"))
        is_source = of["is_source"].to_numpy(zero_copy_only=False)
        ancestors, routers = (of[name].flatten().to_numpy() for name in ("ancestors", "routers"))
        return cls(group, node, router, is_source, offsets, ancestors, routers)

    @property
    def depth(self) -> np.ndarray:
        """Return the number of ancestors of each row."""
        return np.diff(self.offsets)

    def at_level(self, rows: np.ndarray, level: int) -> tuple[np.ndarray, np.ndarray]:
        """Return node and router of the ancestor of each row at a level (0: the root).

        At its own level, a row is its own ancestor.
        """
        steps = self.depth[rows] - level
        node, router = self.node[rows], self.router[rows]
        above = np.flatnonzero(steps > 0)
        place = self.offsets[rows[above]] + steps[above] - 1
        node[above], router[above] = self.ancestors[place], self.routers[place]
        return node, router


@dataclass(frozen=True)
class PrunedTrees:
    """The tree of each group: the hosts on the paths between its source and its members.

    Each pair (group, host) has an index; those of one level of the tree follow one another.
    """

    group: np.ndarray
    node: np.ndarray
    router: np.ndarray
    #: The index of the parent, or -1; whether the host is a member; whether its subtree has the
    #: source of the group.
    above: np.ndarray
    is_member: np.ndarray
    to_source: np.ndarray
    #: The first index of each level, from the deepest, and the number of all pairs.
    levels: np.ndarray

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
        levels, sizes = [(*[above] * 4, to_source, to_source)], [0]
        # the hosts of the level below that climb further, and a subscriber in the subtree of each
        climbing = below = whole_numbers()
        for level in range(deepest, -1, -1):
            here = by_depth[starts[level] : starts[level + 1]]
            row = np.concatenate([below, here])
            source = np.concatenate([to_source[climbing], is_source[here]])
            member = np.concatenate([np.zeros(len(below), dtype=bool), ~is_source[here]])
            node, router = subscribers.at_level(row, level)
            number = numbered(group[row], node)
            hosts = int(number.max(initial=-1)) + 1
            first = np.empty(hosts, dtype=np.int64)
            first[number[::-1]] = np.arange(len(number))[::-1]  # the first row of each host
            above[climbing] = sum(sizes) + number[: len(below)]
            above = np.full(hosts, NONE)
            is_member, to_source = (
                np.bincount(number[some], minlength=hosts) > 0 for some in (member, source)
            )
            of = group[row[first]]
            levels.append((names[of], node[first], router[first], above, is_member, to_source))
            sizes.append(hosts)
            met = (np.bincount(of, minlength=len(names)) == 1) & (highest >= level)
            climbing = np.flatnonzero(~met[of])
            below = row[first][climbing]
        group, node, router, above, is_member, to_source = (
            np.concatenate(parts) for parts in zip(*levels, strict=True)
        )
        return cls(group, node, router, above, is_member, to_source, np.cumsum(sizes))

    @property
    def copies(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the indices of sender and receiver of every copy of the message."""
        lower = np.flatnonzero(self.above >= 0)
        upper = self.above[lower]
        upwards = self.to_source[lower]
        return np.where(upwards, lower, upper), np.where(upwards, upper, lower)

    def from_source(self, leg: np.ndarray) -> np.ndarray:
        """Return for each host the sum over the path from the group's source to it.

        `leg` has the summand of the edge between each host and its parent; it is ignored for hosts
        without a parent.
        """
        total = np.zeros(len(self.node), dtype=np.int64)
        spans = [np.arange(*ends) for ends in zip(self.levels[:-1], self.levels[1:], strict=True)]
        # upwards from the source: at most one child of a host has the source in its subtree
        for level in spans:
            up = level[self.to_source[level] & (self.above[level] >= 0)]
            total[self.above[up]] = total[up] + leg[up]
        for level in reversed(spans):
            down = level[~self.to_source[level]]
            total[down] = total[self.above[down]] + leg[down]
        return total


def _copies(trees: PrunedTrees, kernel: Kernel, lan_us: int) -> pa.RecordBatch:
    """Return the copies on pruned trees, as rows of :func:`copies`."""
    sender, receiver = trees.copies
    router = kernel.index(trees.router)
    delay_us = node_delays(kernel, lan_us, router[sender], router[receiver])
    if kernel.jitter:
        key, node = jitter_keys(kernel.seed, trees.group[sender], 0), trees.node
        delay_us = delay_us + late_us(kernel.jitter, key, node[sender], node[receiver], delay_us)
    leg_us, leg = (np.zeros(len(trees.node), dtype=np.int64) for _ in range(2))
    lower = np.flatnonzero(trees.above >= 0)
    leg_us[lower], leg[lower] = delay_us, 1
    columns = [
        trees.group[sender],
        *(of[end] for of in (trees.node, trees.router) for end in (sender, receiver)),
        delay_us,
        trees.from_source(leg)[receiver].astype(np.int32),
        trees.from_source(leg_us)[receiver],
        trees.is_member[receiver],
    ]
    names = [column.split()[0] for column in _COPY.split(", ")]
    return pa.RecordBatch.from_arrays([pa.array(column) for column in columns], names=names)
