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
    """The nodes of channels.

    ``died`` is the period of a silent death, ``root`` (n, width) is True for the ids whose root the
    node is, ``spare_parent`` the parent in the spare group's tree, ``parent`` (n, S) and
    ``ancestors`` (n, S, w; from the parent upwards) are those in each stripe's tree: positions;
    NONE: none.
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

    def to_state(self, size: int) -> dict[str, np.ndarray]:
        """Return the table of the state; lists of ancestors are as wide as the longest one."""
        width = (self.ancestors >= 0).sum(axis=2).max(initial=1)
        return {**super().to_state(size), "ancestors": self.ancestors[:, :, :width]}

    def above(self, size: int) -> np.ndarray:
        """Return the rows of the parents in each stripe's tree, or NONE: (n, S)."""
        keys = self.key[:, None] // size * size + self.parent
        found = arrays.find_sorted(self.key, keys.ravel()).reshape(keys.shape)
        return np.where(self.parent < 0, arrays.NONE, found)


class Channels:
    """The channels of a builder in a period, after the events: rule L1.

    Nodes that do not live have left, unless they failed silently in the period.

    Attributes
    ----------
    nodes : ChannelNodes
        The nodes, members or roots; also dead ones whose death is not noticed.
    group : ndarray of int64, shape (c,)
        The groups with members, ascending.
    wave : ndarray of int64, shape (n,)
        The wave of a newcomer; NONE: the node is in the channel.
    played : ndarray of int64
        Those of these groups whose channels are not at rest, ascending.
    sent : Sent
        The messages of the period.
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
        nodes.died = np.where(lives | was_dead, nodes.died, number)
        left = ~lives & ~was_dead & (arrays.find_sorted(period.died, node) < 0)
        noticed = np.where(lives, was_dead, number - nodes.died >= NOTICE)  # dead or back
        stays = nodes.member & ~left & ~noticed & (arrays.find_sorted(quits, nodes.key) < 0)
        nodes.member = stays | (arrays.find_sorted(joins, nodes.key) >= 0)
        # 2. the roots
        self.group = arrays.distinct(np.r_[nodes.key[nodes.member], joins] // self.size)
        holders, live = self.group[:0], np.flatnonzero(alive)
        if len(live):
            ids = ids_of(rules, period.keys(self.group))
            holders = next_hop.roots(period.network.ring, live, ids)
            holders += np.repeat(self.group * self.size, width_of(rules))
        roots = arrays.distinct(holders)
        # 3. who goes
        useless = lives & ~was_dead & ~nodes.member & (arrays.find_sorted(roots, nodes.key) < 0)
        gone = left | noticed | useless
        moved = nodes.key[gone] // self.size
        if len(moved):
            self._remove(gone, left | useless)
        # 4. who comes
        new = arrays.distinct(np.r_[joins, roots])
        new = new[~nodes.has(new)]
        nothing = dict.fromkeys(("died", "spare_parent", "parent", "ancestors"), arrays.NONE)
        nodes.insert(new, member=arrays.find_sorted(joins, new) >= 0, root=False, **nothing)
        self.wave = np.full(len(nodes), arrays.NONE)
        self.wave[nodes.find(new)] = self._waves(new, arrays.find_sorted(roots, new) >= 0)
        # 5. new roots leave their parents; who has to ask for a parent
        had, nodes.root = nodes.root, np.zeros_like(nodes.root)
        nodes.root[nodes.find(holders), np.arange(len(holders)) % width_of(rules)] = True
        is_new, group, node = nodes.root & ~had, *arrays.divided(nodes.key, self.size)
        leaves = is_new[:, : rules.stripes] & (nodes.parent >= 0)
        row, parent = np.nonzero(leaves)[0], nodes.parent[leaves]
        self.sent.note("leave", group[row], node[row], parent)
        nodes.parent = np.where(leaves, arrays.NONE, nodes.parent)
        lacks = (nodes.parent < 0) & ~nodes.root[:, : rules.stripes] & alive[node][:, None]
        moved = np.r_[moved, group[is_new.any(axis=1) | lacks.any(axis=1)]]
        self.played = np.intersect1d(self.group, moved)

    def _remove(self, gone: np.ndarray, told: np.ndarray) -> None:
        """Remove the nodes that `gone` marks; their children lose their parents."""
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

    def _waves(self, new: np.ndarray, is_root: np.ndarray) -> np.ndarray:
        """Return the wave of each newcomer (a key); roots are in the first: L10."""
        group, node = arrays.divided(new, self.size)
        order = np.lexsort((node, self.period.draw("splitstream wave", group, node), group))
        order = order[~is_root[order]]
        group, wave = group[order], np.zeros(len(new), dtype=np.int64)
        lengths = np.diff(arrays.run_starts(group), append=len(group))
        wave[order] = arrays.index_in_run(group) * self.rules.waves // np.repeat(lengths, lengths)
        return wave

    def measured(self, before: Columns) -> dict[str, np.ndarray]:
        """Return the table :data:`MEASURED` at the end of the period: sums over each channel.

        They are live nodes, those interior in at most one stripe, and the pairs (node, stripe) in
        which they are interior; stripes; pairs without a parent; pairs that no publication reaches,
        nodes with such pairs; 1 if there are some; 1 if the period before was the last one with
        some, and the number of periods with some.  `before` is the table of the period before.
        """
        nodes, number, stripes = self.nodes, self.period.number, self.rules.stripes
        group, node = arrays.divided(nodes.key, self.size)
        of, lives = arrays.find_sorted(self.group, group), self.period.alive[node]
        of[of < 0] = len(self.group)  # dead nodes, not noticed yet, of groups without members
        is_root, has = nodes.root[:, :stripes], nodes.parent >= 0
        pair = np.arange(is_root.size).reshape(is_root.shape)
        up = nodes.above(self.size) * stripes + pair % stripes
        inner = np.zeros_like(has)
        inner.ravel()[up[has]] = True
        # a node without a way to the root is its own parent here, a circle
        up = np.where(is_root, arrays.NONE, np.where(has & lives[:, None], up, pair))
        lost = (arrays.depths(up.ravel(), circles=True) < 0).reshape(is_root.shape) & lives[:, None]
        of_nodes = {
            "members": lives,
            "at_most_one": lives & (inner.sum(axis=1) <= 1),
            "interior": inner.sum(axis=1) * lives,
            "open": (~has & ~is_root).sum(axis=1) * lives,
            "lost": lost.sum(axis=1),
            "hit": lost.any(axis=1),
        }
        count = len(self.group) + 1
        found = {name: arrays.sums_at(of, one, count)[:-1] for name, one in of_nodes.items()}
        row = arrays.find_sorted(before.get("group", of[:0]), self.group)
        since, lacks = np.append(before.get("since", of[:0]), arrays.NONE)[row], found["lost"] > 0
        whole = (since >= 0) & ~lacks
        found |= {"converging": lacks.astype(np.int64), "converged": whole.astype(np.int64)}
        found["trees"] = np.full_like(found["lost"], stripes)
        found["took"] = np.where(whole, number - since, 0)
        found["since"] = np.where(lacks, np.where(since < 0, number, since), arrays.NONE)
        return {"group": self.group, **found}
