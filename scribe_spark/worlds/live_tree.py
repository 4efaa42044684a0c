"""The reference tree over the live nodes of a world: what a round's events cost it.

The events of a round are one change of the hash table, which is settled before the tree's hosts
compute anew.  The tree before a round is the one of the nodes that were alive, as each
reconfiguration ends with the tree computed from nothing (and is checked to); so a world keeps
nothing of the tree.

References
----------
P. Costa, D. Frey: Publish-Subscribe Tree Maintenance over a DHT, Section 3.4.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from scribe_spark.core.arrays import NONE
from scribe_spark.core.u128 import from_halves
from scribe_spark.engine.ring import Ring
from scribe_spark.reference_tree import ReferenceTree
from scribe_spark.reference_tree.area import depths
from scribe_spark.reference_tree.reconfiguration import (
    Links,
    Rounds,
    all_parents,
    first_to_compute,
    reconfigure,
)
from scribe_spark.reference_tree.rings import PASTRY, Rings

__all__ = ["LIVE_TREE_MEASURES", "PREFIX", "LiveTree", "live_tree_measures"]

#: The first part of the measures' names.
PREFIX = "reference_tree."

#: Every measure of a round -> its unit; see :func:`live_tree_measures`.
LIVE_TREE_MEASURES: dict[str, str] = {
    f"{PREFIX}{name}": unit
    for name, unit in (
        ("hosts", "hosts"),
        ("links.removed", "links"),
        ("links.created", "links"),
        ("parent_lookups", "messages"),
        ("child_lookups", "messages"),
        ("notices", "messages"),
        ("rounds", "rounds"),
        ("degree.largest", "neighbours"),
        ("depth.largest", "hops"),
        ("depth.mean", "hops"),
        ("faults", "trees"),
    )
}


@dataclass(frozen=True)
class LiveTree:
    """The parameters of the reference tree that a world keeps.

    Attributes
    ----------
    children : int
        Most children of a key.
    assignment : str
        ``chord`` or ``pastry``.
    """

    children: int = 2
    assignment: str = PASTRY


def live_tree_measures(
    kept: LiveTree, known: Ring, was_alive: np.ndarray, alive: np.ndarray
) -> dict[str, float]:
    """Measure -> value, of the events that lie between two sets of live nodes.

    ``hosts`` that computed their neighbours anew; ``links.removed`` and ``links.created``, each
    link once; ``parent_lookups`` and ``child_lookups``, ``notices`` and ``rounds`` of the
    reconfiguration; of the tree afterwards ``degree.largest``, ``depth.largest`` and
    ``depth.mean``; and ``faults``: 1 where it is no tree of all live nodes, or not the one
    computed from nothing, else 0.  Names begin with :data:`PREFIX`.

    Parameters
    ----------
    known : Ring
        All nodes, K of them.
    was_alive, alive : ndarray of bool, shape (K,)
        Before and after; some nodes are alive in each.
    """
    count, tree = len(known), ReferenceTree(128, kept.children)
    before, after = (_rings(kept, tree, known, there) for there in (was_alive, alive))
    links = Links.of_parents(all_parents(tree, before, count))
    joined, gone = np.flatnonzero(alive & ~was_alive), np.flatnonzero(was_alive & ~alive)
    first = first_to_compute(before, after, links, joined, gone)
    done = reconfigure(tree, after, links, first, np.zeros(count, dtype=np.int64))
    parent = all_parents(tree, after, count)
    depth = depths(parent, alive)
    values = {
        **_costs(links, done),
        "degree.largest": np.bincount(done.links.host, minlength=1).max(),
        "depth.largest": depth.max(),
        "depth.mean": int(depth[alive].sum()) / int(alive.sum()),
        "faults": _is_wrong(done.links, parent, depth, alive),
    }
    return {f"{PREFIX}{name}": float(value) for name, value in values.items()}


def _rings(kept: LiveTree, tree: ReferenceTree, known: Ring, alive: np.ndarray) -> Rings:
    """The hash table of the live nodes, known by their positions."""
    there = np.flatnonzero(alive)
    ids = from_halves(known.hi[there], known.lo[there], tree.bits)
    return Rings.of(tree, kept.assignment, ids, np.zeros(len(there), dtype=np.int64), there, 1)


def _costs(before: Links, done: Rounds) -> dict[str, int]:
    """What the rounds took, and the links that are others than before."""
    removed = np.setdiff1d(before.pairs, done.links.pairs, assume_unique=True)
    created = np.setdiff1d(done.links.pairs, before.pairs, assume_unique=True)
    return {
        "hosts": int(done.computed.sum()),
        "links.removed": len(removed) // 2,  # each end knows of it
        "links.created": len(created) // 2,
        "parent_lookups": int(done.lookups[0, 0]),
        "child_lookups": int(done.lookups[0, 1]),
        "notices": int(done.notices[0]),
        "rounds": int(done.rounds[0]),
    }


def _is_wrong(links: Links, parent: np.ndarray, depth: np.ndarray, alive: np.ndarray) -> bool:
    """Whether what hosts know is not one tree of all, the one computed from nothing."""
    roots = np.count_nonzero(alive & (parent == NONE))
    is_tree = roots == 1 and bool((depth[alive] >= 0).all())
    return not (is_tree and np.array_equal(links.pairs, Links.of_parents(parent).pairs))
