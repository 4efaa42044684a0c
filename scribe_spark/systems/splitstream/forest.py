"""The trees of channels while a builder plays a period.

Nodes are rows, ascending by (group, position).  A *pair* is a node and a stripe:
``pair = row * S + stripe``.
"""

from __future__ import annotations

import numpy as np

from scribe_spark.core import arrays, draws, errors
from scribe_spark.core import u128 as ids
from scribe_spark.core.keys import mixed_key
from scribe_spark.engine import Columns
from scribe_spark.systems.splitstream import MOST_TIGHT, SPARE_PLACES
from scribe_spark.systems.splitstream.channels import ChannelNodes, Channels, ids_of, width_of

#: Room of a node without a bound.
ENDLESS = 2**40

#: The most nodes of a route; a longer one goes in a circle.
_LONGEST = 128


class Forest:
    """The trees of the channels that are played; the protocol changes them.

    Attributes
    ----------
    key, group, node : ndarray of int64, shape (m,)
        The keys of the nodes, their groups (indices) and positions.
    of : ndarray of int64, shape (m,)
        The index of each node's channel.
    alive, entered : ndarray of bool, shape (m,)
        False for dead nodes whose death is not noticed; False for members that wait for their
        `wave`.
    bound, degree : ndarray of int64, shape (m,)
        The most children over all stripes, and their number.
    primary : ndarray of int64, shape (m,)
        The primary stripe: the first digits of the nodeId.
    root, spare_root : ndarray of bool, shape (m S,), (m,)
        True for the roots of stripes, and of spare groups.
    parent, holder : ndarray of int64, shape (m S,)
        The pair of the parent that each pair knows, and the pair that has it as a child; they
        differ while a message is under way.
    ancestors : ndarray of int32, shape (m S, w)
        The ancestors (positions) as last heard, from the parent upwards; the last column is free.
    spare_parent : ndarray of int64, shape (m,)
        The parent (a position) in the tree of the spare group.
    """

    def __init__(self, begun: Channels, b: int, routes: Columns) -> None:
        self.rules, self.period, self.size, self.b = begun.rules, begun.period, begun.size, b
        self.begun, self.hop, self.stripes = begun, 0, self.rules.stripes
        mine = arrays.find_sorted(begun.played, begun.nodes.key // self.size) >= 0
        self._resting, nodes = begun.nodes.take(~mine), begun.nodes.take(mine)
        self._nodes, self.key, self.wave = nodes, nodes.key, begun.wave[mine]
        self.group, self.node = arrays.divided(self.key, self.size)
        self.of, ring = arrays.find_sorted(begun.played, self.group), self.period.network.ring
        self._ids = ids_of(self.rules, self.period.keys(begun.played))
        self.alive, self.entered = self.period.alive[self.node], self.wave < 0
        self.bound = np.full(len(self.key), self.rules.bound or ENDLESS)
        if self.period.network.capacity is not None:
            self.bound = self.period.network.capacity[self.node]
            self._refuse_few_places()
        bits = np.uint64(64 - self.stripes.bit_length() + 1)
        self.primary = (ring.hi[self.node] >> bits).astype(np.int64)
        self.root = nodes.root[:, : self.stripes].ravel()
        self.spare_root = nodes.root[:, self.stripes :].any(axis=1)
        above = nodes.above(self.size)
        stripe = np.arange(self.stripes)
        self.parent = np.where(above < 0, arrays.NONE, above * self.stripes + stripe).ravel()
        self.holder = self.parent.copy()
        self.degree = np.bincount(above[above >= 0], minlength=len(self.key))
        lists = nodes.ancestors.reshape(len(self.parent), nodes.ancestors.shape[2])
        self.ancestors = np.pad(lists, ((0, 0), (0, 1)), constant_values=arrays.NONE)
        self.spare_parent = nodes.spare_parent.copy()
        #: the next hops of routes by key (group, node, id); NONE also for an unknown key
        route, onward = (routes.get(name, self.key[:0]) for name in ("key", "next"))
        order = np.argsort(route, kind="stable")
        self._places, self._onward = route[order], np.append(onward[order], arrays.NONE)

    def _refuse_few_places(self) -> None:
        """Refuse limits of nodes with which not all members of a large channel would be placed."""
        nodes, least = np.bincount(self.of), self.stripes + SPARE_PLACES
        mean = (np.bincount(self.of, weights=self.bound) / nodes)[nodes > MOST_TIGHT]
        if (mean < least).any():
            remedy = f"must be {least} or more with more than {MOST_TIGHT:,} members"
            few = f"{remedy}; not all would be placed"
            raise errors.InputError("mean of capacities", float(mean.min()), few)

    def nodes_after(self) -> ChannelNodes:
        """Return the nodes of all channels of the builder after the period, in order."""
        shape = len(self.key), self.stripes
        holder = np.where(self.holder < 0, arrays.NONE, self.node[self.holder // self.stripes])
        self._nodes.parent = holder.reshape(shape).astype(np.int32)
        self._nodes.ancestors = self.ancestors.reshape(*shape, self.ancestors.shape[1])
        self._nodes.spare_parent = self.spare_parent
        every = ChannelNodes.join(self._resting, self._nodes)
        return every.take(np.argsort(every.key, kind="stable"))

    # --- messages, routes, draws and ids

    def note(self, kind: str, sender: np.ndarray, to: np.ndarray) -> None:
        """Count messages of a kind between rows."""
        self.begun.sent.note(kind, self.group[sender], self.node[sender], self.node[to])

    def entries(
        self, rows: np.ndarray, stripe: np.ndarray, who: np.ndarray, to_root: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return where the routes of nodes (rows) enter their channels, and after how many hops.

        That is the first other node (a row) in the channel that is not `who` or, where `to_root` is
        True, the root of the stripe; NONE: there is none.  The last result has the transmissions:
        index in `rows`, and both ends (positions).
        """
        at, group, here = self.node[rows], self.group[rows], self.entered & self.alive
        entry, hops = np.full((2, len(rows)), arrays.NONE)
        going, passed = np.arange(len(rows)), [np.empty((3, 0), dtype=np.int64)]
        sizes = [self.size, width_of(self.rules)]
        for count in range(1, _LONGEST):
            key = mixed_key([group[going], at[going], stripe[going]], sizes)
            onward = self._onward[arrays.find_sorted(self._places, key)]
            goes = (onward >= 0) & (onward != at[going])
            going, onward = going[goes], onward[goes]
            if not len(going):
                break
            passed.append(np.stack([going, at[going], onward]))
            at[going] = onward
            found = arrays.find_sorted(self.key, group[going] * self.size + onward)
            enters = (found >= 0) & here[found] & (found != rows[going]) & (found != who[going])
            enters &= ~to_root[going] | self.root[self.asked(stripe[going], found)]
            entry[going[enters]], hops[going[enters]] = found[enters], count
            going = going[~enters]
        return entry, hops, np.concatenate(passed, axis=1)

    def draw(
        self, purpose: str, pair: np.ndarray, index: np.ndarray, number: np.ndarray
    ) -> np.ndarray:
        """Return draws in this hop, keyed by ``pair[index]`` (node and stripe) and by `number`."""
        who, stripe = np.divmod(pair, self.stripes)
        when = self.period.group_number[self.group[who]], self.period.number, self.hop
        key = *when, stripe, self.number(who)
        found = draws.bits_np(self.period.network.seed, f"splitstream {purpose}", *key)
        return draws.more_bits(found[index], number)

    def number(self, row: np.ndarray) -> np.ndarray:
        """Return the numbers of the nodes in `row`; numbers are keys of random draws."""
        return self.period.network.ring.node[self.node[row]]

    def match(self, row: np.ndarray, stripe: np.ndarray) -> np.ndarray:
        """Return how many first digits nodeIds of rows share with the ids of stripes."""
        ring, at = self.period.network.ring, self.node[row]
        key = self._ids.take(self.of[row] * width_of(self.rules) + stripe)
        return ids.shared_digits_np(ring.hi[at], ring.lo[at], key.hi, key.lo, self.b)

    # --- parents and children

    def asked(self, pair: np.ndarray, at: np.ndarray) -> np.ndarray:
        """Return the pairs of the nodes `at` (rows) and the stripes of `pair`."""
        return at * self.stripes + pair % self.stripes

    def living_parent(self, pair: np.ndarray) -> np.ndarray:
        """Return the parents (rows) of pairs; NONE: the pair has no parent, or a dead one."""
        parent = np.where(self.parent[pair] < 0, arrays.NONE, self.parent[pair] // self.stripes)
        return np.where(self.alive[parent], parent, arrays.NONE)

    def children_of(self, pairs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the children of pairs: index in `pairs`, and the child's row, ascending."""
        row, child = arrays.children_in(self.holder, pairs)
        return row, child // self.stripes

    def hold(self, pair: np.ndarray, by: np.ndarray) -> None:
        """Make each pair in `pair` a child of the pair in `by`."""
        self.holder[pair] = by
        np.add.at(self.degree, by // self.stripes, 1)

    def let_go(self, pair: np.ndarray) -> None:
        """Remove each pair from the children of its parent; the pair may still know the parent."""
        pair = pair[self.holder[pair] >= 0]
        np.subtract.at(self.degree, self.holder[pair] // self.stripes, 1)
        self.holder[pair] = arrays.NONE

    def detach(self, pair: np.ndarray) -> None:
        """Let pairs forget their parents, which may still have them as children."""
        self.parent[pair], self.ancestors[pair] = arrays.NONE, arrays.NONE
