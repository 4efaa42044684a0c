"""A channel at the begin of a period: gone nodes, roots and newcomers; rules L1 and L10."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from scribe_spark.core import draws
from scribe_spark.core import u128 as ids
from scribe_spark.core.arrays import (
    NONE,
    distinct,
    find_sorted,
    index_in_run,
    run_starts,
    whole_numbers,
)
from scribe_spark.engine import Columns
from scribe_spark.engine.facts import Keys, Ring
from scribe_spark.engine.packing import concatenate, take
from scribe_spark.pastry import closeness
from scribe_spark.rounds.group_events import Pairs
from scribe_spark.systems.splitstream.forest import (
    ENDLESS,
    NOTICE,
    Forest,
    message_rows,
    stripe_keys,
)
from scribe_spark.systems.splitstream.policies import SPARE
from scribe_spark.systems.splitstream.protocol import DROP, LEAVE

if TYPE_CHECKING:  # not on executors
    from scribe_spark.systems.splitstream.config import SplitStreamConfig

#: The tables of the state: nodes (``group, node, member, died, spare_parent``, the positions of the
#: parents by stripe, and the lists of ancestors by place and stripe); and channels (``group,
#: period``, and the root of each key).
NODES, CHANNELS = "nodes", "channels"


@dataclass(frozen=True)
class Setting:
    """The facts that the rules of channels need besides the state of channels.

    `rules` are the settings of the system, `b` the bits of a digit, `seed` the key of draws;
    ``key_hi``, ``key_lo`` and ``number`` are those of all groups, ``capacity`` has the bounds of
    nodes in place of ``rules.bound``, or is None.
    """

    ring: Ring
    key_hi: np.ndarray
    key_lo: np.ndarray
    number: np.ndarray
    rules: SplitStreamConfig
    b: int
    seed: int
    capacity: np.ndarray | None = None

    @property
    def digits(self) -> int:
        """The number of first digits in which the stripes' ids differ."""
        return (self.rules.stripes.bit_length() - 1) // self.b

    @property
    def spare(self) -> bool:
        """True with a spare group."""
        return bool(self.rules.policy == SPARE)

    @property
    def stripes(self) -> int:
        """The number of stripes, S."""
        return self.rules.stripes

    @property
    def width(self) -> int:
        """The number of keys of a channel."""
        return self.stripes + self.spare

    def keys(self, groups: np.ndarray) -> Keys:
        """Return the ids of stripes and spare groups."""
        group = Keys(self.key_hi[groups], self.key_lo[groups])
        return stripe_keys(group, self.b, self.digits, spare=self.spare)


@dataclass
class OpenChannels:
    """The channels of a builder at the begin of a period.

    Attributes
    ----------
    nodes, channels : Columns
        The tables of the state after the events.
    played : ndarray of int64
        The groups whose channels are not at rest.
    wave : ndarray of int64, shape (n,)
        The wave of each newcomer among `nodes`; NONE: it is in the channel already.
    told : dict of str to Columns
        The messages of nodes that leave.
    """

    nodes: dict[str, np.ndarray]
    channels: dict[str, np.ndarray]
    played: np.ndarray
    wave: np.ndarray
    told: dict[str, Columns]


def no_nodes(setting: Setting) -> dict[str, np.ndarray]:
    """Return the table of nodes without rows."""
    none, stripes = whole_numbers(), setting.stripes
    names = "group", "node", "died", "spare_parent"
    return {
        **dict.fromkeys(names, none),
        "member": np.empty(0, dtype=bool),
        "parent": np.empty((0, stripes), dtype=np.int32),
        "ancestors": np.empty((0, stripes), dtype=np.int32),
    }


def begin(
    state: Mapping[str, Columns],
    setting: Setting,
    number: int,
    alive: np.ndarray,
    failed: np.ndarray,
    join: Pairs,
    quit: Pairs,
) -> OpenChannels:
    """Return the channels after the events of a period: rule L1.

    Parameters
    ----------
    state : mapping of str to Columns
        The tables :data:`NODES` and :data:`CHANNELS`; it is not changed.
    setting : Setting
        The network and the rules.
    number : int
        The number of the period.
    alive : ndarray of bool, shape (K,)
        The nodes that live.
    failed : ndarray of int64
        The nodes that failed silently in this period, ascending; all others that are dead now have
        left.
    join, quit : tuple of ndarray
        The groups and positions of members that join and quit, ascending.
    """
    size = len(alive)
    nodes = dict(state.get(NODES) or no_nodes(setting))
    joins, quits = (pair[0] * size + pair[1] for pair in (join, quit))
    # 1. who is dead, who was, and who is a member
    key, lives = nodes["group"] * size + nodes["node"], alive[nodes["node"]]
    had_died = nodes["died"] >= 0
    died = np.where(lives | had_died, nodes["died"], number)
    back, noticed = lives & had_died, ~lives & (number - died >= NOTICE)
    left = ~lives & ~had_died & (find_sorted(failed, nodes["node"]) < 0)
    stays = nodes["member"] & (find_sorted(quits, key) < 0) & ~back & ~noticed & ~left
    members = stays | (find_sorted(joins, key) >= 0)
    nodes |= {"member": members, "died": np.where(back, NONE, died)}
    # 2. roots
    here, gone = distinct(np.concatenate([nodes["group"][members], join[0]])), noticed | left
    channels, changed = _new_roots(state.get(CHANNELS), setting, number, alive, here)
    roots = distinct((channels["group"][:, None] * size + channels["root"]).ravel())
    # 3. who is gone, and who is new
    useless = lives & ~back & ~members & (find_sorted(roots, key) < 0)
    told = _farewells(nodes, left | useless)
    gone |= back | useless
    new = distinct(np.concatenate([joins, roots]))
    new = new[find_sorted(key[~gone], new) < 0]
    _lose_parents(nodes, key[gone], size)
    moved = nodes["group"][gone]
    # 4. the table after the events
    wave = np.full(len(key), NONE, dtype=np.int64)
    if gone.any() or len(new):
        waves = _waves(setting, new, find_sorted(roots, new) >= 0, size)
        nodes, wave = _with_newcomers(nodes, gone, new, find_sorted(joins, new) >= 0, waves, size)
    key = nodes["group"] * size + nodes["node"]
    left_parents = _take_office(nodes, channels, changed, key, setting)
    told[LEAVE] = concatenate([told[LEAVE], left_parents])
    lacks = alive[nodes["node"]] & _lacking(nodes, channels, key, setting, size)
    moves = [moved, nodes["group"][lacks], channels["group"][changed.any(axis=1)]]
    return OpenChannels(nodes, channels, distinct(np.concatenate(moves)), wave, told)


def _new_roots(
    had: Columns | None, setting: Setting, number: int, alive: np.ndarray, groups: np.ndarray
) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Return the channels with their roots, and where these have changed: bool, shape (g, k)."""
    root = np.full((len(groups), setting.width), NONE, dtype=np.int64)
    if had is not None:
        row = find_sorted(had["group"], groups)
        root[row >= 0] = had["root"][row[row >= 0]]
    before, live = root, np.flatnonzero(alive)
    if len(live):
        root = closeness.roots(setting.ring, live, setting.keys(groups)).reshape(root.shape)
    period = np.full(len(groups), number)
    return {"group": groups, "period": period, "root": root}, root != before


def _farewells(nodes: Columns, leaves: np.ndarray) -> dict[str, Columns]:
    """Return the messages of live nodes that leave to their parents and children."""
    parent, group, node = (nodes[name] for name in ("parent", "group", "node"))
    row, stripe = np.nonzero((parent >= 0) & leaves[:, None])
    told = {LEAVE: message_rows(group[row], node[row], parent[row, stripe])}
    near = (find_sorted(distinct(group[leaves]), group) >= 0)[:, None]
    row, stripe = np.nonzero((parent >= 0) & near)
    size = int(node.max(initial=0)) + 1
    left, above = group[leaves] * size + node[leaves], parent[row, stripe]
    is_child = find_sorted(left, group[row] * size + above) >= 0
    row, above = row[is_child], above[is_child]
    return told | {DROP: message_rows(group[row], above, node[row])}


def _waves(setting: Setting, new: np.ndarray, is_root: np.ndarray, size: int) -> np.ndarray:
    """Return the wave of each newcomer (group, position): rule L10."""
    wave = np.zeros(len(new), dtype=np.int64)
    some = np.flatnonzero(~is_root)
    group, node = np.divmod(new[some], size)
    number = setting.number[group], setting.ring.node[node]
    order = np.lexsort((node, draws.bits_np(setting.seed, "splitstream wave", *number), group))
    group = group[order]
    starts = run_starts(group)
    count = np.repeat(np.diff([*starts, len(group)]), np.diff([*starts, len(group)]))
    wave[some[order]] = index_in_run(group) * setting.rules.waves // np.maximum(count, 1)
    return wave


def _with_newcomers(
    nodes: Columns,
    gone: np.ndarray,
    new: np.ndarray,
    is_member: np.ndarray,
    wave: np.ndarray,
    size: int,
) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Return the table of nodes without those that are gone and with newcomers, and their waves."""
    stay = take(nodes, ~gone)
    group, node = np.divmod(new, size)
    nothing = np.full(len(new), NONE, dtype=np.int64)
    added = {"group": group, "node": node, "died": nothing, "spare_parent": nothing}
    added |= {"member": is_member}
    for name in ("parent", "ancestors"):
        added[name] = np.full((len(new), stay[name].shape[1]), NONE, dtype=np.int32)
    key = np.concatenate([stay["group"] * size + stay["node"], new])
    order = np.argsort(key, kind="stable")
    table = {name: np.concatenate([stay[name], added[name]])[order] for name in stay}
    return table, np.concatenate([np.full(len(key) - len(new), NONE), wave])[order]


def _take_office(
    nodes: dict[str, np.ndarray],
    channels: Columns,
    changed: np.ndarray,
    key: np.ndarray,
    setting: Setting,
) -> Columns:
    """Let new roots leave their parents; return the messages."""
    size = len(setting.ring)
    row, stripe = np.nonzero(changed[:, : setting.stripes])
    group, root = channels["group"][row], channels["root"][row, stripe]
    at = find_sorted(key, group * size + root)
    parent = nodes["parent"][at, stripe]
    some = parent >= 0
    told = message_rows(group[some], root[some], parent[some])
    if len(at):
        nodes["parent"] = nodes["parent"].copy()
        nodes["parent"][at, stripe] = NONE
    return told


def _lose_parents(nodes: dict[str, np.ndarray], gone: np.ndarray, size: int) -> None:
    """Forget parents that are gone."""
    if len(gone):
        parent = nodes["parent"]
        above = (nodes["group"][:, None] * size + parent).ravel()
        lost = find_sorted(gone, above).reshape(parent.shape) >= 0
        nodes["parent"] = np.where(lost & (parent >= 0), NONE, parent)


def _lacking(
    nodes: Columns, channels: Columns, key: np.ndarray, setting: Setting, size: int
) -> np.ndarray:
    """Return the nodes that have no parent in a stripe of which they are not the root."""
    roots = np.zeros(len(key), dtype=np.int64)
    root = channels["root"][:, : setting.stripes]
    at = find_sorted(key, (channels["group"][:, None] * size + root).ravel())
    np.add.at(roots, at, 1)
    return (nodes["parent"] < 0).sum(axis=1) > roots


def plant(begun: OpenChannels, setting: Setting, number: int, alive: np.ndarray) -> Forest:
    """Return the trees of the channels that are played; rows are those of ``begun.nodes``."""
    size, stripes = len(alive), setting.stripes
    row = find_sorted(begun.channels["group"], begun.played)
    groups, roots = begun.played[row >= 0], begun.channels["root"][row[row >= 0]]
    mine = find_sorted(groups, begun.nodes["group"]) >= 0
    nodes, wave = take(begun.nodes, mine), begun.wave[mine]
    group, node = nodes["group"], nodes["node"]
    key = group * size + node
    at = find_sorted(key, (groups[:, None] * size + roots).ravel()).reshape(roots.shape)
    root, spare_root = np.zeros(len(key) * stripes, dtype=bool), np.zeros(len(key), dtype=bool)
    root[at[:, :stripes] * stripes + np.arange(stripes)] = True
    spare_root[at[:, stripes:]] = True
    above = find_sorted(key, (group[:, None] * size + nodes["parent"]).ravel())
    above = np.where(nodes["parent"].ravel() < 0, NONE, above)
    stripe = np.tile(np.arange(stripes), len(key))
    parent = np.where(above < 0, NONE, above * stripes + stripe)
    if setting.capacity is not None:
        bound = setting.capacity[node]
    else:
        bound = np.full(len(key), setting.rules.bound or ENDLESS)
    keys = setting.keys(groups)
    kept = (np.arange(len(groups))[:, None] * setting.width + np.arange(stripes)).ravel()
    primary = np.zeros(len(key), dtype=np.int64)
    for digit in range(setting.digits):
        here = ids.digit_np(setting.ring.hi[node], setting.ring.lo[node], digit, setting.b)
        primary = primary * 2**setting.b + here.astype(np.int64)
    lists = _by_stripe(nodes["ancestors"], stripes)
    ancestors = lists.reshape(len(key) * stripes, lists.shape[2])
    return Forest(
        *(stripes, setting.ring, (setting.seed, number), setting.b, keys.take(kept)),
        *(groups, setting.number[groups], group, node, alive[node], wave < 0, bound),
        np.bincount(above[above >= 0], minlength=len(key)),
        *(primary, parent, parent.copy(), root, ancestors),
        *(nodes["spare_parent"].copy(), spare_root, wave),
    )


def cleared(forest: Forest) -> np.ndarray:
    """Forget the ancestors of pairs without a parent; return those of live nodes that had some."""
    had = np.flatnonzero((forest.parent < 0) & (forest.ancestors >= 0).any(axis=1))
    forest.ancestors[had] = NONE
    return had[forest.alive[had // forest.stripes]]


def harvest(begun: OpenChannels, forest: Forest) -> dict[str, np.ndarray]:
    """Return the table of nodes after the hops of a period."""
    nodes, stripes = begun.nodes, forest.stripes
    mine = np.flatnonzero(find_sorted(forest.groups, nodes["group"]) >= 0)
    holder = np.where(forest.holder < 0, NONE, forest.node[forest.holder // stripes])
    parent, spare = nodes["parent"].copy(), nodes["spare_parent"].copy()
    parent[mine] = holder.reshape(len(mine), stripes)
    spare[mine] = forest.spare_parent
    # lists as short as the longest one
    had, lists = (
        nodes["ancestors"],
        forest.ancestors.reshape(len(mine), stripes, forest.ancestors.shape[1]),
    )
    now = lists.transpose(0, 2, 1).reshape(len(mine), stripes * lists.shape[2])
    both = np.full((len(parent), max(had.shape[1], now.shape[1])), NONE, dtype=np.int32)
    both[:, : had.shape[1]] = had
    both[mine] = NONE
    both[mine, : now.shape[1]] = now
    used = np.flatnonzero((both >= 0).any(axis=0))
    width = int(used[-1]) // stripes + 1 if len(used) else 1
    ancestors = both[:, : width * stripes]
    return {**nodes, "parent": parent, "spare_parent": spare, "ancestors": ancestors}


def _by_stripe(lists: np.ndarray, stripes: int) -> np.ndarray:
    """Return the lists (n, w S) of the table as (n, S, w), a copy."""
    count, columns = lists.shape
    return np.ascontiguousarray(
        lists.reshape(count, columns // stripes, stripes).transpose(0, 2, 1)
    )
