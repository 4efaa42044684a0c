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

from scribe_spark.core.arrays import NONE, depths, expand, flags, index_sorted, whole_numbers
from scribe_spark.core.keys import key_of
from scribe_spark.engine import Columns, Tables
from scribe_spark.engine.facts import KnowsRing
from scribe_spark.engine.packing import concatenate
from scribe_spark.engine.program import SilentProgram
from scribe_spark.rounds.group_overlays import GroupOverlays, Network, Overlays
from scribe_spark.rounds.system import SystemPlayer
from scribe_spark.runtime.blocks import read_partition
from scribe_spark.systems.reference_tree.hash_table import HashTable
from scribe_spark.systems.reference_tree.search import climb
from scribe_spark.systems.reference_tree.tree import ReferenceTree

#: The table of the parents of a bucket's nodes: ``node, parent``.
_PARENTS = "parents"


@dataclass(frozen=True)
class _FindParents(SilentProgram):
    """All nodes of a run search for their parents."""

    bounds: np.ndarray
    facts: KnowsRing
    tree: ReferenceTree
    assignment: str

    def change(self, bucket: int, tables: Tables) -> None:
        ring, hosts = self.facts.ring, np.arange(*self.bounds[bucket : bucket + 2])
        table = HashTable.of_ring(self.tree, self.assignment, ring, np.arange(len(ring)))
        tables[_PARENTS] = {"node": hosts, "parent": climb(table, hosts)[0]}


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
        player.play(_FindParents(player.bounds, player.facts, self.tree, self.assignment))
        found = player.take(_PARENTS)[_PARENTS]
        above = np.full(len(network.ring), NONE)
        above[found["node"]] = found["parent"]
        return {"above": above, "depth": depths(above)}

    def edges(self, overlays: Overlays, network: Network) -> Columns:
        begin, end = (np.searchsorted(overlays.group, overlays.of + more) for more in (0, 1))
        publication, row = expand(begin, end)
        group = np.concatenate([publication, np.arange(len(overlays.of))])
        node = np.concatenate([overlays.node[row], overlays.source])
        is_source = np.arange(len(group)) >= len(row)
        return pruned_trees(**network.shared, group=group, node=node, is_source=is_source)


def degrees_and_depths(placed: DataFrame) -> DataFrame:
    """Count how many hosts have each degree (number of neighbours) and each depth."""

    def count(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        if (rows := read_partition(batches)) is None:
            return
        rows = rows.sort_by("node")
        node, parent = rows.column("node").to_numpy(), rows.column("parent")
        above = np.full(len(rows), NONE)
        above[parent.is_valid().to_numpy()] = index_sorted(node, parent.drop_null().to_numpy())
        degree = np.bincount(above[above >= 0], minlength=len(above)) + (above >= 0)
        for measure, values in (("degree", degree), ("depth", depths(above))):
            value, hosts = np.unique(values, return_counts=True)
            columns = [[measure] * len(value), value, hosts]
            yield from pa.table(columns, ["measure", "value", "count"]).to_batches()

    rows = placed.select("node", "parent").repartition(1)
    return rows.mapInArrow(count, "measure string, value bigint, count bigint")


def pruned_trees(
    above: np.ndarray,
    depth: np.ndarray,
    group: np.ndarray,
    node: np.ndarray,
    is_source: np.ndarray,
) -> Columns:
    """Return the copies of each group: ``publication`` (the group), ``node`` and ``peer``.

    `above` and `depth` have the parent and the depth of each host; a row of `group`, `node` and
    `is_source` is a member or the source of a group.  Subscriptions climb, level by level, until
    all subscriptions of a group have met in one host.
    """
    hosts, level = len(above), depth[node]
    key = key_of([group, node], hosts)
    highest = np.full(int(group.max(initial=NONE)) + 1, hosts)
    np.minimum.at(highest, group, level)
    by_level = np.argsort(level, kind="stable")
    deepest = int(level.max(initial=NONE))
    starts = np.searchsorted(level[by_level], np.arange(deepest + 2))
    # the places (group, host) to which subscriptions have climbed, and which are of the source
    came, of_source = whole_numbers(), flags()
    copies: list[Columns] = [dict.fromkeys(("publication", "node", "peer"), came)]
    for at in range(deepest, -1, -1):
        here = by_level[starts[at] : starts[at + 1]]
        place, of = np.unique(np.concatenate([came, key[here]]), return_inverse=True)
        source = of[np.concatenate([of_source, is_source[here]])]
        of_source = np.bincount(source, minlength=len(place)) > 0
        of_group, host = np.divmod(place, hosts)
        met = (np.bincount(of_group, minlength=len(highest)) == 1) & (highest >= at)
        climbs = ~met[of_group]
        of_group, host, of_source = of_group[climbs], host[climbs], of_source[climbs]
        parent = above[host]
        sender, receiver = np.where(of_source, [host, parent], [parent, host])
        copies.append({"publication": of_group, "node": sender, "peer": receiver})
        came = key_of([of_group, parent], hosts)
    return concatenate(copies)
