"""The channels of a builder, and who comes and goes at the begin of a period: rules L1 and L10.

A *channel* is a group with its S stripes.  Nodes are rows, ascending by (group, position).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Self

import numpy as np

from scribe_spark.core import arrays
from scribe_spark.core.keys import key_of
from scribe_spark.engine import Columns
from scribe_spark.engine.facts import Keys
from scribe_spark.pastry import next_hop
from scribe_spark.rounds.grown_overlays import GroupNodes, Period, Sent
from scribe_spark.systems.splitstream import SPARE

if TYPE_CHECKING:  # not on executors
    from scribe_spark.systems.splitstream.config import SplitStreamConfig

#: The table of the state with `ChannelNodes`.  In a world, the table `MEASURED` also has ``since``,
#: the period from which nodes of a channel lack stripes (NONE: all have all).
NODES = "nodes"

#: Periods until the neighbours of a failed node notice (two heartbeats).
NOTICE = 2


def width_of(rules: SplitStreamConfig) -> int:
    """Return the number of ids of a channel: the stripes', and the spare group's."""
    return rules.stripes + (rules.policy == SPARE)


def ids_of(rules: SplitStreamConfig, group: Keys) -> Keys:
    """Return the ids of the S stripes of groups, and of their spare groups, by group: rule L1.

    A stripe's number replaces the first bits of the groupId; the spare id is the groupId inverted.
    """
    bits = np.uint64(64 - rules.stripes.bit_length() + 1)
    stripe = np.arange(rules.stripes, dtype=np.uint64) << bits
    rest = group.hi[:, None] & ((np.uint64(1) << bits) - np.uint64(1))
    hi = np.c_[rest | stripe, ~group.hi]
    lo = np.c_[np.repeat(group.lo[:, None], rules.stripes, axis=1), ~group.lo]
    return Keys(*(half[:, : width_of(rules)].ravel() for half in (hi, lo)))


@dataclass
class ChannelNodes(GroupNodes):
    """The nodes of channels; parents and ancestors are positions, NONE: none.

    ``died`` is the period of a silent death, ``root`` (n, width) is True for the ids whose root the
    node is, ``spare_parent`` the parent in the spare group's tree, ``parent`` (n, S) and
    ``ancestors`` (n, S, w; from the parent upwards) are those in each stripe's tree.
    """

    member: np.ndarray = field(default_factory=arrays.flags)
    died: np.ndarray = field(default_factory=arrays.whole_numbers)
    root: np.ndarray = field(default_factory=arrays.flags)
    spare_parent: np.ndarray = field(default_factory=arrays.whole_numbers)
    parent: np.ndarray = field(default_factory=arrays.whole_numbers)
    ancestors: np.ndarray = field(default_factory=arrays.whole_numbers)

    @classmethod
    def of(cls, state: Mapping[str, Columns], size: int, rules: SplitStreamConfig) -> Self:
        """Return the nodes of channels from a state; `size` is K."""
        if NODES in state:
            return cls.from_state(state, NODES, size)
        trees, root = np.empty((0, rules.stripes, 1), dtype=np.int32), (0, width_of(rules))
        return cls(root=np.empty(root, dtype=bool), parent=trees[:, :, 0], ancestors=trees)

    def above(self, size: int) -> np.ndarray:
        """Return the rows of the parents in each stripe's tree, or NONE: (n, S)."""
        keys = self.key[:, None] // size * size + self.parent
        found = arrays.find_sorted(self.key, keys.ravel()).reshape(keys.shape)
        return np.where(self.parent < 0, arrays.NONE, found)

    def children(self, size: int) -> np.ndarray:
        """Return the numbers of children in each stripe's tree: (n, S)."""
        above = self.above(size)
        pair = above * above.shape[1] + np.arange(above.shape[1])
        return np.bincount(pair[above >= 0], minlength=above.size).reshape(above.shape)


class Channels:
    """The channels of a builder in a period, after the events: rule L1.

    Nodes that do not live have left, unless they failed silently in the period.  ``nodes`` also has
    dead ones whose death is not noticed; ``wave`` has the waves of newcomers, NONE for others.
    ``group`` are the groups with members, ascending, ``played`` those that are not at rest.
    """

    def __init__(
        self, rules: SplitStreamConfig, state: Mapping[str, Columns], period: Period
    ) -> None:
        self.rules, self.period, self.sent = rules, period, Sent()
        alive, number, self.size = period.alive, period.number, len(period.alive)
        self.nodes = nodes = ChannelNodes.of(state, self.size, rules)
        joins, quits = (key_of(pair, self.size) for pair in (period.join, period.quit))
        # 1. the dead, and the members
        node, was_dead = nodes.key % self.size, nodes.died >= 0
        lives = alive[node]
        left = ~lives & ~was_dead & (arrays.find_sorted(period.died, node) < 0)
        noticed = was_dead & (lives | (number - nodes.died >= NOTICE))  # dead or back
        nodes.died = np.where(lives | was_dead, nodes.died, number)
        stays = nodes.member & ~left & ~noticed & (arrays.find_sorted(quits, nodes.key) < 0)
        nodes.member = stays | (arrays.find_sorted(joins, nodes.key) >= 0)
        # 2. the roots
        self.group = arrays.distinct(np.r_[nodes.key[nodes.member], joins] // self.size)
        holders, live, width = self.group[:0], np.flatnonzero(alive), width_of(rules)
        if len(live):
            ids = ids_of(rules, period.keys(self.group))
            holders = next_hop.roots(period.network.ring, live, ids)
            holders += np.repeat(self.group * self.size, width)
        roots = arrays.distinct(holders)
        # 3. who goes, and who comes
        useless = lives & ~was_dead & ~nodes.member & (arrays.find_sorted(roots, nodes.key) < 0)
        gone = left | noticed | useless
        moved = nodes.key[gone] // self.size
        if len(moved):
            self._remove(gone, left | useless)
        new = arrays.distinct(np.r_[joins, roots])
        new = new[~nodes.has(new)]
        nothing = dict.fromkeys(("died", "spare_parent", "parent", "ancestors"), arrays.NONE)
        nodes.insert(new, member=arrays.find_sorted(joins, new) >= 0, root=False, **nothing)
        self.wave = np.full(len(nodes), arrays.NONE)
        self.wave[nodes.find(new)] = self._waves(new, roots)
        # 4. new roots leave their parents; who has to ask for a parent
        had, nodes.root = nodes.root, np.zeros_like(nodes.root)
        nodes.root[nodes.find(holders), np.arange(len(holders)) % width] = True
        is_new, group, node = nodes.root & ~had, *arrays.divided(nodes.key, self.size)
        leaves = is_new[:, : rules.stripes] & (nodes.parent >= 0)
        row, parent = np.nonzero(leaves)[0], nodes.parent[leaves]
        self.sent.note("leave", group[row], node[row], parent)
        nodes.parent = np.where(leaves, arrays.NONE, nodes.parent)
        lacks = (nodes.parent < 0) & ~nodes.root[:, : rules.stripes] & alive[node][:, None]
        moved = np.r_[moved, group[is_new.any(axis=1) | lacks.any(axis=1)]]
        self.played = np.intersect1d(self.group, moved)

    def _remove(self, gone: np.ndarray, told: np.ndarray) -> None:
        """Remove nodes, some of which tell it; their children lose their parents."""
        nodes, size, above = self.nodes, self.size, self.nodes.above(self.size)
        row, stripe = np.nonzero(above >= 0)
        up, (group, node) = above[row, stripe], arrays.divided(nodes.key, size)
        for kind, at, peer in (("leave", row, up), ("drop", up, row)):
            some = told[at]
            self.sent.note(kind, group[at[some]], node[at[some]], node[peer[some]])
        at, peer = np.r_[row, up], np.r_[up, row]
        some = (self.period.alive[node] & ~gone)[at] & (gone & ~told)[peer]
        noticed = arrays.distinct(key_of([nodes.key[at[some]], node[peer[some]]], size))
        self.period.give_up(*arrays.divided(noticed // size, size), noticed % size)
        nodes.parent = np.where((above >= 0) & gone[above], arrays.NONE, nodes.parent)
        nodes.keep(~gone)

    def _waves(self, new: np.ndarray, roots: np.ndarray) -> np.ndarray:
        """Return the waves of newcomers (keys, ascending); roots are in the first: rule L10."""
        wave, some = np.zeros(len(new), dtype=np.int64), arrays.find_sorted(roots, new) < 0
        group, node = arrays.divided(new[some], self.size)
        order = np.lexsort((self.period.draw("splitstream wave", group, node), group))
        group = group[order]
        nth = arrays.index_in_run(group) * self.rules.waves // np.bincount(group)[group]
        wave[np.flatnonzero(some)[order]] = nth
        return wave

    def measured(self, before: Columns) -> dict[str, np.ndarray]:
        """Return the table `MEASURED` at the end of the period: sums over each channel.

        They are live nodes, those interior in at most one stripe, and the pairs (node, stripe) in
        which they are interior; stripes; pairs without a parent; pairs that no publication reaches,
        nodes with such pairs; 1 if there are some; 1 if the period before was the last one with
        some, and the number of periods with some.  `before` is the table of the period before.
        """
        nodes, number, stripes = self.nodes, self.period.number, self.rules.stripes
        group, node = arrays.divided(nodes.key, self.size)
        lives, is_root, has = self.period.alive[node], nodes.root[:, :stripes], nodes.parent >= 0
        inner = (nodes.children(self.size) > 0).sum(axis=1)
        # a node without a way to the root is its own parent here, a circle
        pair = np.arange(is_root.size).reshape(is_root.shape)
        up = np.where(has & lives[:, None], nodes.above(self.size) * stripes + pair % stripes, pair)
        depth = arrays.depths(np.where(is_root, arrays.NONE, up).ravel(), circles=True)
        lost = (depth.reshape(is_root.shape) < 0) & lives[:, None]
        of_nodes = {
            "members": lives,
            "at_most_one": lives & (inner <= 1),
            "interior": inner * lives,
            "open": (~has & ~is_root).sum(axis=1) * lives,
            "lost": lost.sum(axis=1),
            "hit": lost.any(axis=1),
        }
        # dead nodes, not noticed yet, of groups without members are added up behind the groups
        of, count = arrays.find_sorted(self.group, group), len(self.group) + 1
        found = {name: arrays.sums_at(of, one, count)[:-1] for name, one in of_nodes.items()}
        row = arrays.find_sorted(before.get("group", of[:0]), self.group)
        since, lacks = np.append(before.get("since", of[:0]), arrays.NONE)[row], found["lost"] > 0
        whole = (since >= 0) & ~lacks
        found |= {"converging": lacks.astype(np.int64), "converged": whole.astype(np.int64)}
        found["trees"] = np.full_like(found["lost"], stripes)
        found["took"] = np.where(whole, number - since, 0)
        since = np.where(lacks, np.where(since >= 0, since, number), arrays.NONE)
        return {"group": self.group, "since": since, **found}
