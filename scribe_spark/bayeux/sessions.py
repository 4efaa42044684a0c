"""What the programs of Bayeux share: groups, their partitions, roots, and the rules of routing.

A *session* is a partition of a group: session g * k + i is partition i of the group with index g.

References
----------
docs/rules.md, B1 to B5.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from scribe_spark.bayeux.next_hop import SurrogateNextHop, TableNextHop
from scribe_spark.bayeux.roots import SURROGATE, find_roots, partition_keys
from scribe_spark.engine.facts import KnowsRing
from scribe_spark.overlay.next_hop import NextHop
from scribe_spark.pastry.arrivals.closeness import Keys
from scribe_spark.underlay.protocol import Kernel

__all__ = ["LEAF_SET", "TABLE", "Sessions"]

#: By what TREE messages are routed: routing tables alone, or leaf sets too.
TABLE, LEAF_SET = "table", "leaf_set"


@dataclass(frozen=True)
class Sessions:
    """All sessions of a run; picklable.

    Attributes
    ----------
    bounds : ndarray of int64, shape (B + 1,)
    facts : KnowsRing
    kernel : Kernel
    lan_us : int
    keys : Keys
        Of the sessions.
    roots : ndarray of int64, shape (G, k)
        Positions; -1 where a partition does not exist.
    to_root, to_member : NextHop
        How JOINs and TREEs are routed.
    """

    bounds: np.ndarray
    facts: KnowsRing
    kernel: Kernel
    lan_us: int
    keys: Keys
    roots: np.ndarray
    to_root: NextHop
    to_member: NextHop

    @classmethod
    def of(
        cls,
        bounds: np.ndarray,
        facts: KnowsRing,
        kernel: Kernel,
        lan_us: int,
        group_ids: Keys,
        usual: NextHop,
        *,
        b: int,
        partitions: int,
        root: str,
        hops: str,
    ) -> Sessions:
        """Return the sessions of some groups.

        Parameters
        ----------
        group_ids : Keys
            Of the groups, in the order of their numbers.
        usual : NextHop
            Pastry's rule of routing.
        partitions, root, hops
            As of `BayeuxConfig`.
        """
        keys = partition_keys(group_ids, partitions)
        roots = find_roots(facts.ring, keys, partitions, root, b)
        to_root = SurrogateNextHop(facts) if root == SURROGATE else usual
        to_member = TableNextHop(facts) if hops == TABLE else usual
        return cls(bounds, facts, kernel, lan_us, keys, roots, to_root, to_member)

    @property
    def partitions(self) -> int:
        """Return how many a group may have, k."""
        return self.roots.shape[1]

    @property
    def root_of(self) -> np.ndarray:
        """The root of each session."""
        return self.roots.ravel()

    def delays(self, one: np.ndarray, other: np.ndarray) -> np.ndarray:
        """Return D between nodes, in microseconds, row by row: int64."""
        router = self.facts.ring.router
        delay_us = self.kernel.delays(router[one], router[other]) + 2 * self.lan_us
        return np.where(one == other, 0, delay_us)

    def nearest(self, group: np.ndarray, node: np.ndarray) -> np.ndarray:
        """Return the session that each node joins in a group: of the nearest root, rule B4."""
        roots, best = self.roots[group], np.zeros(len(group), dtype=np.int64)
        least = self.delays(node, roots[:, 0])
        for i in range(1, self.partitions):
            rows = np.flatnonzero(roots[:, i] >= 0)
            delay_us = self.delays(node[rows], roots[rows, i])
            before = roots[rows, best[rows]]
            nearer = delay_us < least[rows]
            nearer |= (delay_us == least[rows]) & (roots[rows, i] < before)
            best[rows[nearer]], least[rows[nearer]] = i, delay_us[nearer]
        return group * self.partitions + best
