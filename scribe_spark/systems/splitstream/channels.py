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
from scribe_spark.rounds.grown_overlays import MEASURED, GroupNodes, Period, Sent
from scribe_spark.systems.splitstream import DROP, LEAVE, SPARE

if TYPE_CHECKING:  # not on executors
    from scribe_spark.systems.splitstream.config import SplitStreamConfig

#: The tables of the state: `ChannelNodes`; and channels: ``group``, the ``root`` of each id and, in
#: a world, ``since``, the period from which nodes lack stripes (NONE: all have all).
NODES, CHANNELS = "nodes", "channels"

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
    hi, lo = group.hi[:, None], group.lo[:, None]
    rest = hi & ((np.uint64(1) << bits) - np.uint64(1))
    of_stripes = rest | stripe, np.repeat(lo, rules.stripes, axis=1)
    every = zip(of_stripes, (hi, lo), strict=True)
    return Keys(*(np.c_[one, ~half][:, : width_of(rules)].ravel() for one, half in every))


@dataclass
class ChannelNodes(GroupNodes):
    """The nodes of channels.

    ``died`` is the period of a silent death, ``spare_parent`` the parent in the spare group's tree,
    ``parent`` (n, S) and ``ancestors`` (n, S, w; from the parent upwards) are those in each
    stripe's tree: positions; NONE: none.
    """

    member: np.ndarray = field(default_factory=arrays.flags)
    died: np.ndarray = field(default_factory=arrays.whole_numbers)
    spare_parent: np.ndarray = field(default_factory=arrays.whole_numbers)
    parent: np.ndarray = field(default_factory=arrays.whole_numbers)
    ancestors: np.ndarray = field(default_factory=arrays.whole_numbers)

    @classmethod
    def of(cls, state: Mapping[str, Columns], size: int, stripes: int) -> Self:
        """Return the nodes of channels with S stripes from a state; `size` is K."""
        if NODES in state:
            return cls.from_state(state, NODES, size)
        trees = np.empty((0, stripes, 1), dtype=np.int32)
        return cls(parent=trees[:, :, 0], ancestors=trees)

    def to_state(self, size: int) -> dict[str, np.ndarray]:
        """Return the table of the state; lists of ancestors are as wide as the longest one."""
        width = (self.ancestors >= 0).sum(axis=2).max(initial=1)
        return {**super().to_state(size), "ancestors": self.ancestors[:, :, :width]}

    def above(self, size: int) -> np.ndarray:
        """Return the rows of the parents in each stripe's tree, or NONE: (n, S)."""
        keys = self.key[:, None] // size * size + self.parent
        return np.where(
            self.parent < 0,
            arrays.NONE,
            arrays.find_sorted(self.key, keys.ravel()).reshape(keys.shape),
        )

    def hold_roots(self, channels: Columns, size: int) -> np.ndarray:
        """Return True for each node and id if the node is the root of the id: (n, width)."""
        found = np.zeros((len(self), channels["root"].shape[1]), dtype=bool)
        row = self.find((channels["group"][:, None] * size + channels["root"]).ravel())
        column = np.arange(len(row)) % found.shape[1]
        found[row[row >= 0], column[row >= 0]] = True
        return found


class Channels:
    """The channels of a builder in a period, after the events: rule L1.

    Nodes that do not live have left, unless they failed silently in the period.

    Attributes
    ----------
    nodes : ChannelNodes
        The nodes, members or roots; also dead ones whose death is not noticed.
    group : ndarray of int64, shape (c,)
        The groups with members, ascending; ``root`` (c, width) has the roots of their ids.
    wave : ndarray of int64, shape (n,)
        The wave of a newcomer; NONE: the node is in the channel.
    played : ndarray of int64
        The groups whose channels are not at rest, perhaps also groups without members.
    sent : Sent
        The messages of the period.
    """

    def __init__(
        self, rules: SplitStreamConfig, state: Mapping[str, Columns], period: Period
    ) -> None:
        self.rules, self.period, self.sent = rules, period, Sent()
        self.size, self._before = len(period.alive), state.get(CHANNELS, {})
        alive, number, size = period.alive, period.number, self.size
        self.nodes = nodes = ChannelNodes.of(state, size, rules.stripes)
        joins, quits = (key_of(pair, size) for pair in (period.join, period.quit))
        # 1. the dead, and the members
        node, was_dead = nodes.key % size, nodes.died >= 0
        lives = alive[node]
        nodes.died = np.where(lives | was_dead, nodes.died, number)
        left = ~lives & ~was_dead & (arrays.find_sorted(period.died, node) < 0)
        noticed = np.where(lives, was_dead, number - nodes.died >= NOTICE)  # dead or back
        stays = nodes.member & ~left & ~noticed & (arrays.find_sorted(quits, nodes.key) < 0)
        nodes.member = stays | (arrays.find_sorted(joins, nodes.key) >= 0)
        # 2. the roots
        self.group = arrays.distinct(np.r_[nodes.key[nodes.member], joins] // size)
        is_new = self._choose_roots()
        roots = arrays.distinct((self.group[:, None] * size + self.root).ravel())
        # 3. who goes
        useless = lives & ~was_dead & ~nodes.member & (arrays.find_sorted(roots, nodes.key) < 0)
        gone = left | noticed | useless
        moved = nodes.key[gone] // size
        if gone.any():
            self._remove(gone, left | useless)
        # 4. who comes
        new = arrays.distinct(np.r_[joins, roots])
        new = new[~nodes.has(new)]
        nothing = dict.fromkeys(("died", "spare_parent", "parent", "ancestors"), arrays.NONE)
        nodes.insert(new, member=arrays.find_sorted(joins, new) >= 0, **nothing)
        self.wave = np.full(len(nodes), arrays.NONE)
        self.wave[nodes.find(new)] = self._waves(new, arrays.find_sorted(roots, new) >= 0)
        # 5. who has to ask for a parent
        self._take_office(is_new)
        lacks = (nodes.parent < 0) & ~self.roots_here()[:, : rules.stripes]
        lacks &= alive[nodes.key % size][:, None]
        waits = nodes.key[lacks.any(axis=1)] // size
        self.played = arrays.distinct(np.r_[moved, waits, self.group[is_new.any(axis=1)]])

    def roots_here(self) -> np.ndarray:
        """Return True for each node and id if the node is the root of the id: (n, width)."""
        return self.nodes.hold_roots({"group": self.group, "root": self.root}, self.size)

    def _choose_roots(self) -> np.ndarray:
        """Choose the roots of the ids of all channels; return the mask of new roots."""
        period, had = self.period, self._before
        self.root = before = np.full((len(self.group), width_of(self.rules)), arrays.NONE)
        if had:
            row = arrays.find_sorted(had["group"], self.group)
            before[row >= 0] = had["root"][row[row >= 0]]
        live = np.flatnonzero(period.alive)
        if len(live):
            ids = ids_of(self.rules, period.keys(self.group))
            self.root = next_hop.roots(period.network.ring, live, ids).reshape(before.shape)
        return self.root != before

    def _remove(self, gone: np.ndarray, told: np.ndarray) -> None:
        """Remove the nodes that `gone` marks; their children lose their parents."""
        nodes, size, sent = self.nodes, self.size, self.sent
        group, node = arrays.divided(nodes.key, size)
        row, stripe = np.nonzero(nodes.parent >= 0)
        parent = nodes.parent[row, stripe]
        above = arrays.index_sorted(nodes.key, group[row] * size + parent)
        leaves, is_left = told[row], told[above]
        sent.note(LEAVE, group[row[leaves]], node[row[leaves]], parent[leaves])
        sent.note(DROP, group[row[is_left]], parent[is_left], node[row[is_left]])
        at, peer = np.r_[row, above], np.r_[above, row]
        some = (self.period.alive[node] & ~gone)[at] & (gone & ~told)[peer]
        noticed = arrays.distinct(key_of([nodes.key[at[some]], node[peer[some]]], size))
        self.period.give_up(*arrays.divided(noticed // size, size), noticed % size)
        nodes.parent = nodes.parent.copy()
        nodes.parent[row[gone[above]], stripe[gone[above]]] = arrays.NONE
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

    def _take_office(self, is_new: np.ndarray) -> None:
        """Let nodes that are new roots of stripes leave their parents."""
        nodes = self.nodes
        channel, stripe = np.nonzero(is_new[:, : self.rules.stripes])
        if not len(channel):
            return
        group, root = self.group[channel], self.root[channel, stripe]
        row = nodes.find(group * self.size + root)
        parent = nodes.parent[row, stripe]
        has = parent >= 0
        self.sent.note(LEAVE, group[has], root[has], parent[has])
        nodes.parent = nodes.parent.copy()
        nodes.parent[row, stripe] = arrays.NONE

    # --- the end of the period

    def tables(self) -> dict[str, dict[str, np.ndarray]]:
        """Return the tables of the state, in a world with the measures."""
        channels = {"group": self.group, "root": self.root}
        tables = {NODES: self.nodes.to_state(self.size), CHANNELS: channels}
        if not self.period.network.in_run:
            found = self._measured()
            channels["since"] = found.pop("since")
            tables[MEASURED] = {"group": self.group, **found}
        return tables

    def _measured(self) -> dict[str, np.ndarray]:
        """Return ``since``, and the sums over the nodes of each channel.

        They are live nodes, those interior in at most one stripe, and the pairs (node, stripe) in
        which they are interior; stripes; pairs without a parent; pairs that no publication reaches,
        nodes with such pairs; 1 if there are some; 1 if the period before was the last one with
        some, and the number of periods with some.
        """
        nodes, number, stripes = self.nodes, self.period.number, self.rules.stripes
        group, node = arrays.divided(nodes.key, self.size)
        of, lives = arrays.find_sorted(self.group, group), self.period.alive[node]
        of[of < 0] = len(self.group)  # dead nodes, not noticed yet, of groups without members
        is_root, above = self.roots_here()[:, :stripes], nodes.above(self.size)
        pair, has = np.arange(is_root.size).reshape(is_root.shape), nodes.parent >= 0
        up = above * stripes + pair % stripes
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
        found = {
            n: arrays.sums_at(of, count, len(self.group) + 1)[:-1] for n, count in of_nodes.items()
        }
        since = np.full(len(self.group), arrays.NONE)
        if self._before:
            row = arrays.find_sorted(self._before["group"], self.group)
            since = np.append(self._before["since"], arrays.NONE)[row]
        lacks = found["lost"] > 0
        whole = (since >= 0) & ~lacks
        found |= {"trees": np.full(len(lacks), stripes), "converging": lacks, "converged": whole}
        found["took"] = np.where(whole, number - since, 0)
        found["since"] = np.where(lacks, np.where(since < 0, number, since), arrays.NONE)
        return {name: column.astype(np.int64) for name, column in found.items()}
