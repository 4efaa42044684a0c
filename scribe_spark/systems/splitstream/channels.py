"""The channels of a builder, and who comes and goes at the begin of a period: rules L1 and L10.

A *channel* is a group with its S stripes.  Nodes are rows, ascending by (group, position).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from scribe_spark.core.arrays import (
    NONE,
    depths,
    distinct,
    divided,
    find_sorted,
    flags,
    index_in_run,
    index_sorted,
    run_starts,
    sums_at,
    whole_numbers,
)
from scribe_spark.core.keys import key_of
from scribe_spark.engine import Columns
from scribe_spark.engine.facts import Keys
from scribe_spark.pastry import next_hop
from scribe_spark.rounds.grown_overlays import GroupNodes, Period, Sent
from scribe_spark.systems.splitstream import DROP, LEAVE, SPARE

if TYPE_CHECKING:  # not on executors
    from scribe_spark.systems.splitstream.config import SplitStreamConfig

#: The tables of the state: `ChannelNodes`, with ``group, node`` as key; and channels: ``group``,
#: the ``root`` of each id and, in a world, ``since``, the period from which nodes lack stripes
#: (NONE: all have all), and `MEASURED`.
NODES, CHANNELS = "nodes", "channels"

#: The numbers of a channel at the end of a period: live nodes, those interior in at most one
#: stripe, and the pairs (node, stripe) in which they are interior; stripes; pairs without a parent;
#: pairs that no publication reaches, nodes with such pairs; 1 if there are some; 1 if the period
#: before was the last one with some, and the number of periods with some.
MEASURED = (
    *("members", "at_most_one", "interior", "trees", "open"),
    *("lost", "hit", "converging", "converged", "took"),
)

#: Measure of a round -> the sums of which it is the quotient, or one sum.
QUOTIENTS = {
    "interior.one": ("at_most_one", "members"),
    "interior.nodes": ("interior", "trees"),
    "open": ("open", None),
    "lost": ("lost", None),
    "lost.nodes": ("hit", None),
    "lost.mean": ("lost", "hit"),
    "converging": ("converging", None),
    "converged": ("converged", None),
    "converged.rounds": ("took", "converged"),
}

#: Periods until the neighbours of a failed node notice (two heartbeats).
NOTICE = 2


@dataclass(frozen=True)
class Setting:
    """The settings, the bits of a digit, and the period that a builder plays."""

    rules: SplitStreamConfig
    b: int
    period: Period

    @property
    def stripes(self) -> int:
        """The number of stripes, S."""
        return self.rules.stripes

    @property
    def width(self) -> int:
        """The number of ids of a channel: the stripes', and the spare group's."""
        return self.stripes + (self.rules.policy == SPARE)

    def ids(self, groups: np.ndarray) -> Keys:
        """Return the ids of the stripes (and of the spare group) of groups, channel by channel."""
        hi, lo = self.period.key_hi, self.period.key_lo
        assert hi is not None
        assert lo is not None
        keys = Keys(hi[groups], lo[groups])
        return ids_of(keys, self.stripes, spare=self.width > self.stripes)


def ids_of(group: Keys, stripes: int, *, spare: bool) -> Keys:
    """Return the ids of the S stripes of each group, and of its spare group: rule L1.

    A stripe's number replaces the first bits of the groupId; the spare id is the groupId inverted.
    """
    bits = stripes.bit_length() - 1
    stripe = np.arange(stripes, dtype=np.uint64) << np.uint64(64 - bits)
    rest = group.hi & np.uint64(2 ** (64 - bits) - 1)
    hi, lo = rest[:, None] | stripe, np.repeat(group.lo[:, None], stripes, axis=1)
    if spare:
        hi, lo = np.c_[hi, ~group.hi], np.c_[lo, ~group.lo]
    return Keys(hi.ravel(), lo.ravel())


@dataclass
class ChannelNodes(GroupNodes):
    """The nodes of channels.

    ``died`` is the period of a silent death, ``spare_parent`` the parent in the spare group's tree,
    ``parent`` (n, S) and ``ancestors`` (n, S, w; from the parent upwards) are those in each
    stripe's tree: positions; NONE: none.
    """

    member: np.ndarray = field(default_factory=flags)
    died: np.ndarray = field(default_factory=whole_numbers)
    spare_parent: np.ndarray = field(default_factory=whole_numbers)
    parent: np.ndarray = field(default_factory=whole_numbers)
    ancestors: np.ndarray = field(default_factory=whole_numbers)

    @classmethod
    def of(cls, state: Mapping[str, Columns], size: int, stripes: int) -> ChannelNodes:
        """Return the nodes of channels with S stripes from a state; `size` is K."""
        if NODES in state:
            return cls.from_state(state, NODES, size)
        trees = np.empty((0, stripes, 1), dtype=np.int32)
        return cls(parent=trees[:, :, 0], ancestors=trees)

    def to_state(self, size: int) -> dict[str, np.ndarray]:
        """Return the table of the state; lists of ancestors are as wide as the longest one."""
        width = (self.ancestors >= 0).sum(axis=2).max(initial=1)
        return {**super().to_state(size), "ancestors": self.ancestors[:, :, :width]}

    def hold_roots(self, channels: Columns, size: int) -> np.ndarray:
        """Return True for each node and id if the node is the root of the id: (n, width).

        `channels` has the roots of the ids of channels, `size` is the number of the network's
        nodes.
        """
        found = np.zeros((len(self), channels["root"].shape[1]), dtype=bool)
        row = self.find((channels["group"][:, None] * size + channels["root"]).ravel())
        column = np.arange(len(row)) % found.shape[1]
        found[row[row >= 0], column[row >= 0]] = True
        return found


@dataclass
class OpenChannels:
    """The channels of a builder at the begin of a period, after the events.

    ``root`` tells for each of `nodes` the ids of which the node is the root, ``wave`` the wave of a
    newcomer (NONE: it is in the channel), ``played`` the groups whose channels are not at rest.
    """

    nodes: ChannelNodes
    channels: Columns
    root: np.ndarray
    wave: np.ndarray
    played: np.ndarray
    sent: Sent


def open_channels(state: Mapping[str, Columns], setting: Setting) -> OpenChannels:
    """Return the channels of a builder after the events of the period: rule L1.

    Nodes that do not live have left, unless they failed silently in the period.
    """
    period, sent = setting.period, Sent()
    alive, number, size = period.alive, period.number, len(period.alive)
    nodes = ChannelNodes.of(state, size, setting.stripes)
    joins, quits = (key_of(pair, size) for pair in (period.join, period.quit))
    # 1. the dead, and the members
    node, was_dead = nodes.key % size, nodes.died >= 0
    lives = alive[node]
    nodes.died = np.where(lives | was_dead, nodes.died, number)
    left = ~lives & ~was_dead & (find_sorted(period.died, node) < 0)
    noticed = np.where(lives, was_dead, number - nodes.died >= NOTICE)  # dead or back
    stays = nodes.member & ~left & ~noticed & (find_sorted(quits, nodes.key) < 0)
    nodes.member = stays | (find_sorted(joins, nodes.key) >= 0)
    # 2. the roots
    groups = distinct(np.r_[nodes.key[nodes.member], joins] // size)
    channels, is_new = _choose_roots(state.get(CHANNELS), setting, groups)
    roots = distinct((groups[:, None] * size + channels["root"]).ravel())
    # 3. who goes
    useless = lives & ~was_dead & ~nodes.member & (find_sorted(roots, nodes.key) < 0)
    gone = left | noticed | useless
    moved = nodes.key[gone] // size
    if gone.any():
        _remove(nodes, gone, left | useless, period, sent)
    # 4. who comes
    new = distinct(np.r_[joins, roots])
    new = new[~nodes.has(new)]
    nothing = dict.fromkeys(("died", "spare_parent", "parent", "ancestors"), NONE)
    nodes.insert(new, member=find_sorted(joins, new) >= 0, **nothing)
    wave = np.full(len(nodes), NONE)
    wave[nodes.find(new)] = _waves(setting, new, find_sorted(roots, new) >= 0, size)
    # 5. who has to ask for a parent
    _take_office(nodes, channels, is_new, size, sent)
    root = nodes.hold_roots(channels, size)
    lacks = (nodes.parent < 0) & ~root[:, : setting.stripes]
    lacks &= alive[nodes.key % size][:, None]
    moved = np.r_[moved, nodes.key[lacks.any(axis=1)] // size, groups[is_new.any(axis=1)]]
    return OpenChannels(nodes, channels, root, wave, distinct(moved), sent)


def _choose_roots(
    had: Columns | None, setting: Setting, groups: np.ndarray
) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Return the channels of groups (ascending) with their roots, and a mask of new roots.

    `had` are the channels of the period before.
    """
    period = setting.period
    before = np.full((len(groups), setting.width), NONE, dtype=np.int64)
    if had is not None:
        row = find_sorted(had["group"], groups)
        before[row >= 0] = had["root"][row[row >= 0]]
    root, live = before, np.flatnonzero(period.alive)
    if len(live):
        root = next_hop.roots(period.network.ring, live, setting.ids(groups))
        root = root.reshape(before.shape)
    return {"group": groups, "root": root}, root != before


def _remove(
    nodes: ChannelNodes, gone: np.ndarray, told: np.ndarray, period: Period, sent: Sent
) -> None:
    """Remove the nodes that `gone` marks; their children lose their parents.

    Nodes that `told` marks tell their parents and children, which counts messages in `sent`.
    Parents and children give up the others.
    """
    size = len(period.alive)
    group, node = divided(nodes.key, size)
    row, stripe = np.nonzero(nodes.parent >= 0)
    parent = nodes.parent[row, stripe]
    above = index_sorted(nodes.key, group[row] * size + parent)
    leaves, is_left = told[row], told[above]
    sent.note(LEAVE, group[row[leaves]], node[row[leaves]], parent[leaves])
    sent.note(DROP, group[row[is_left]], parent[is_left], node[row[is_left]])
    at, peer = np.r_[row, above], np.r_[above, row]
    some = (period.alive[node] & ~gone)[at] & (gone & ~told)[peer]
    noticed = distinct(key_of([nodes.key[at[some]], node[peer[some]]], size))
    period.give_up(*divided(noticed // size, size), noticed % size)
    nodes.parent = nodes.parent.copy()
    nodes.parent[row[gone[above]], stripe[gone[above]]] = NONE
    nodes.keep(~gone)


def _waves(setting: Setting, new: np.ndarray, is_root: np.ndarray, size: int) -> np.ndarray:
    """Return the wave of each newcomer `new` (group, position); roots are in the first: L10."""
    group, node = divided(new, size)
    drawn = setting.period.draw("splitstream wave", group, node)
    order = np.lexsort((node, drawn, group))
    order = order[~is_root[order]]
    group, wave = group[order], np.zeros(len(new), dtype=np.int64)
    starts = run_starts(group)
    lengths = np.diff(np.r_[starts, len(group)])
    wave[order] = index_in_run(group) * setting.rules.waves // np.repeat(lengths, lengths)
    return wave


def _take_office(
    nodes: ChannelNodes, channels: Columns, is_new: np.ndarray, size: int, sent: Sent
) -> None:
    """Let nodes that are new roots of stripes leave their parents, with messages in `sent`.

    `channels` has the roots, and `is_new` marks the new ones; `size` is the number of the network's
    nodes.
    """
    channel, stripe = np.nonzero(is_new[:, : nodes.parent.shape[1]])
    if not len(channel):
        return
    group, root = channels["group"][channel], channels["root"][channel, stripe]
    row = nodes.find(group * size + root)
    parent = nodes.parent[row, stripe]
    has = parent >= 0
    sent.note(LEAVE, group[has], root[has], parent[has])
    nodes.parent = nodes.parent.copy()
    nodes.parent[row, stripe] = NONE


# --- measures of a round of the world


def measured(
    opened: OpenChannels, before: Columns | None, setting: Setting
) -> dict[str, np.ndarray]:
    """Return ``since`` and :data:`MEASURED` of channels at the end of a period.

    `before` are the channels after the period before.
    """
    nodes, channels, period = opened.nodes, opened.channels, setting.period
    groups, stripes = channels["group"], setting.stripes
    group, node = divided(nodes.key, len(period.alive))
    of, lives = find_sorted(groups, group), period.alive[node]
    of[of < 0] = len(groups)  # dead nodes, which are not noticed yet, of groups without members
    is_root = nodes.hold_roots(channels, len(period.alive))[:, :stripes]
    pair = np.arange(is_root.size).reshape(is_root.shape)
    above = find_sorted(nodes.key, (group[:, None] * len(period.alive) + nodes.parent).ravel())
    up = above.reshape(is_root.shape) * stripes + pair % stripes
    has = nodes.parent >= 0
    inner = np.zeros_like(has)
    inner.ravel()[up[has]] = True
    # a node without a way to the root is its own parent here, a circle
    up = np.where(is_root, NONE, np.where(has & lives[:, None], up, pair))
    lost = (depths(up.ravel(), circles=True) < 0).reshape(is_root.shape) & lives[:, None]
    of_nodes = {
        "members": lives,
        "at_most_one": lives & (inner.sum(axis=1) <= 1),
        "interior": inner.sum(axis=1) * lives,
        "open": (~has & ~is_root).sum(axis=1) * lives,
        "lost": lost.sum(axis=1),
        "hit": lost.any(axis=1),
    }
    found = {n: sums_at(of, count, len(groups) + 1)[:-1] for n, count in of_nodes.items()}
    since = np.full(len(groups), NONE)
    if before is not None:
        since = np.append(before["since"], NONE)[find_sorted(before["group"], groups)]
    lacks = found["lost"] > 0
    whole = (since >= 0) & ~lacks
    found |= {"trees": np.full(len(groups), stripes), "converging": lacks, "converged": whole}
    found["took"] = np.where(whole, period.number - since, 0)
    found["since"] = np.where(lacks, np.where(since < 0, period.number, since), NONE)
    return {name: column.astype(np.int64) for name, column in found.items()}
