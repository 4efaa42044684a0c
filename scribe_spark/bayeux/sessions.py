"""Facts that all nodes share: groups, partitions, roots, routing rules and the round.

A *session* is a partition of a group: session g * k + i is partition i of the group with index g.

References
----------
docs/rules.md, B1 to B5.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from scribe_spark.bayeux.next_hop import ByKnowledge, Hop, Settled, SurrogateNextHop, table_hop
from scribe_spark.bayeux.roots import SURROGATE, find_roots, partition_keys
from scribe_spark.core.key_limits import refuse_groups
from scribe_spark.engine.facts import KnowsRing
from scribe_spark.engine.program import Tables
from scribe_spark.overlay.next_hop import NextHop
from scribe_spark.pastry.arrivals.observer import Observer
from scribe_spark.pastry.closeness import Keys
from scribe_spark.pastry.lives import KnowsLives
from scribe_spark.pastry.states import is_node
from scribe_spark.underlay.protocol import Kernel

#: How TREE messages are routed: by routing tables alone, or also by leaf sets.
TABLE, LEAF_SET = "table", "leaf_set"


@dataclass(frozen=True)
class Round:
    """A round of a world."""

    number: int
    lives: KnowsLives
    #: ``born``: the round of each node's last arrival or recovery; -1 if there is none.
    shared: Mapping[str, np.ndarray]
    lost: np.ndarray  # bool, (G,): True for sessions whose root has died

    def is_alive(self, position: np.ndarray) -> np.ndarray:
        """Return True for positions of live nodes."""
        return self.lives.is_alive(position)


@dataclass(frozen=True)
class Sessions:
    """All sessions of a run, or of a round of a world; picklable."""

    bounds: np.ndarray  # (B + 1,)
    facts: KnowsRing
    kernel: Kernel
    lan_us: int
    keys: Keys
    roots: np.ndarray  # (G, k): the positions of the roots; -1 if a partition does not exist
    #: The routing rules of messages to roots, and of TREEs.
    to_root: Hop
    to_member: Hop
    round: Round | None = None  # the round of a world; None in a run, where all nodes are alive
    #: Counts the messages of a world; a run records them in tables (`routes.SENT`).
    observer: Observer | None = None

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
        """Return the sessions of a run; `usual` is Pastry's rule.

        The groupIds are sorted by the groups' numbers.  InputError: too many groups for int64 keys.
        """
        because = f"bayeux_partitions = {partitions}"
        refuse_groups(len(group_ids), len(facts.ring), times=partitions, because=because)
        keys = partition_keys(group_ids, partitions)
        roots = find_roots(facts.ring, keys, partitions, root, b)
        to_root = Settled(SurrogateNextHop(facts) if root == SURROGATE else usual)
        by_table = ByKnowledge(facts, is_node, table_hop)
        to_member = by_table if hops == TABLE else Settled(usual)
        return cls(bounds, facts, kernel, lan_us, keys, roots, to_root, to_member)

    @property
    def size(self) -> int:
        """K, the number of nodes; the keys of tables are built from it."""
        return len(self.facts.ring)

    @property
    def number(self) -> int:
        """The number of the round; 0 in a run."""
        return 0 if self.round is None else self.round.number

    def observe(
        self,
        tables: Tables,
        kind: str,
        sender: np.ndarray,
        to: np.ndarray,
        lost: np.ndarray | bool,
    ) -> None:
        """Count messages of a world in a bucket."""
        assert self.observer is not None
        self.observer.send(tables, kind, ~np.broadcast_to(lost, len(sender)), sender, to)

    def is_good(self, onward: np.ndarray, written: np.ndarray) -> np.ndarray:
        """Return True for entries whose next hop can be reached: rule B12."""
        if self.round is None:
            return np.ones(len(onward), dtype=bool)
        return self.round.is_alive(onward) & (self.round.shared["born"][onward] <= written)

    @property
    def partitions(self) -> int:
        """k, the maximal number of partitions of a group."""
        return self.roots.shape[1]

    @property
    def root_of(self) -> np.ndarray:
        """The root of each session."""
        return self.roots.ravel()

    def delays(self, one: np.ndarray, other: np.ndarray) -> np.ndarray:
        """Return D between pairs of nodes, in microseconds: int64; 0 for equal nodes."""
        router = self.facts.ring.router
        delay_us = self.kernel.delays(router[one], router[other]) + 2 * self.lan_us
        return np.where(one == other, 0, delay_us)

    def nearest(self, group: np.ndarray, node: np.ndarray) -> np.ndarray:
        """Return the session that each node joins in a group: that of the nearest root, rule B4."""
        if self.partitions == 1:
            return group
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
