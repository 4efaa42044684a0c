"""The cost of the failure of one host for the tree, by the host's depth.

References
----------
P. Costa, D. Frey: Publish-Subscribe Tree Maintenance over a DHT, Sections 3.4, 5.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame

from scribe_spark.core import draws
from scribe_spark.core.arrays import depths, index_in_run
from scribe_spark.core.u128 import Numbers, from_halves
from scribe_spark.multicast import FAILURES, failure_sums
from scribe_spark.runtime.blocks import read_partition
from scribe_spark.systems.reference_tree.hash_table import Rings
from scribe_spark.systems.reference_tree.reconfiguration import (
    HostLinks,
    all_parents,
    costs_by_ring,
    first_to_compute,
    reconfigure,
)
from scribe_spark.systems.reference_tree.tree import ReferenceTree

#: The number of hosts of each depth that fail, and the total number of keysets that may be computed
#: for these failures.
_SAMPLE, _PLACED = 4, 400_000


def costs_of_reconfiguring(
    nodes: DataFrame, children: int, assignment: str, seed: int
) -> DataFrame:
    """Measure the costs of the failure of one host, by its depth in the tree over all nodes.

    `nodes` has ``id_hi, id_lo``; the result is the table `multicast.FAILURES`.
    """

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        rows = read_partition(batches)
        if rows is None:
            return
        hi, lo = (rows.column(name).to_numpy().view(np.uint64) for name in ("id_hi", "id_lo"))
        order = np.lexsort((lo, hi))
        sample = min(_SAMPLE, max(_PLACED // len(order), 1))
        ids = from_halves(hi[order], lo[order], 128)
        found = failures_by_depth(ReferenceTree(128, children), assignment, ids, sample, seed)
        if len(found):
            yield failure_sums(*found.T)

    return nodes.select("id_hi", "id_lo").repartition(1).mapInArrow(run, FAILURES)


def failures_by_depth(
    tree: ReferenceTree, assignment: str, ids: Numbers, sample: int, seed: int
) -> np.ndarray:
    """Let single hosts of every depth fail, and count the actions of the other hosts.

    For each failure, the result has the depth of the failed host, the number of links removed or
    created, the number of hosts that compute their neighbours anew, and the number of messages
    (look-ups and notices).  `ids` are ascending; of each depth, `sample` hosts fail, drawn at
    random.
    """
    n = len(ids)
    every_host, ring_of = np.arange(n), np.zeros(n, dtype=np.int64)
    rings = Rings.of(tree, assignment, ids, ring_of, every_host, 1)
    parent = all_parents(tree, rings, n)
    depth, links = depths(parent), HostLinks.of_parents(parent)
    drawn = draws.uniform(draws.stream(seed, "failing hosts"), n)
    order = np.lexsort((drawn, depth))
    place_in_depth = index_in_run(depth[order])
    rows = []
    for host in order[place_in_depth < sample].tolist():
        if n == 1:
            continue
        after = _without(rings, tree, assignment, ids, host)
        here = every_host != host
        first = first_to_compute(rings, after, links, here.__getitem__)
        done = reconfigure(tree, after, links, first, here)
        changed = sum(map(len, done.changed())) // 2  # both ends report a changed link
        costs = costs_by_ring(done, ring_of, 1)
        messages = sum(costs[name][0] for name in ("notices", "parent_lookups", "child_lookups"))
        rows.append((depth[host], changed, costs["hosts"][0], messages))
    return np.array(rows, dtype=np.int64).reshape(-1, 4)


def _without(rings: Rings, tree: ReferenceTree, assignment: str, ids: Numbers, host: int) -> Rings:
    """Return the keysets of a ring after a host has left it; those of its two neighbours change.

    `ids` has the id of each host by number, also of the host that leaves.
    """
    n = len(rings)
    place = int(np.flatnonzero(rings.node == host)[0])
    if not 1 < place < n - 2:  # at key 0 the order of the last keys may change
        left = np.delete(np.arange(n), host)
        return Rings.of(tree, assignment, ids[left], np.zeros(n - 1, dtype=np.int64), left, 1)
    # an end of a keyset depends on two ids
    near = rings.node[place + np.array([-2, -1, 1, 2])]
    some = Rings.of(tree, assignment, ids[near], np.zeros(4, dtype=np.int64), near, 1)
    changed, columns = some.columns(some.rows_of(near[1:3])), rings.columns(np.arange(n) != place)
    for name, column in columns.items():
        column[place - 1 : place + 1] = changed[name]
    starts = np.array([0, n - 1])
    return Rings(starts, starts[:-1], **columns)
