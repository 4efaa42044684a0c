"""The stripes' trees of channels while a builder plays a period, as arrays.

Nodes are rows, ascending by (group, position).  A *pair* is a node and a stripe:
``pair = row * S + stripe``.  A channel is the group with its 16 (or S) stripes.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from scribe_spark.core import draws
from scribe_spark.core import u128 as ids
from scribe_spark.core.arrays import NONE, distinct, expand, find_sorted, offsets_of
from scribe_spark.engine.facts import Keys, Ring

#: Room of a node without a bound.
ENDLESS = 2**40

#: Periods until the neighbours of a failed node notice (two heartbeats).
NOTICE = 2


def stripe_keys(group: Keys, b: int, digits: int, *, spare: bool) -> Keys:
    """Return the ids of the stripes of each group, and of its spare group: rule L1.

    Parameters
    ----------
    group : Keys
        The groupIds, shape (g,).
    b, digits : int
        The bits of a digit; the number of first digits in which the stripes' ids differ.
    spare : bool
        True for one more key a group, whose bits are those of the groupId inverted.

    Returns
    -------
    Keys
        The ids, shape (g, S) or (g, S + 1), flattened.
    """
    bits = b * digits
    stripe = np.arange(2**bits, dtype=np.uint64) << np.uint64(64 - bits)
    rest = group.hi & np.uint64(2 ** (64 - bits) - 1)
    hi, lo = rest[:, None] | stripe, np.repeat(group.lo[:, None], 2**bits, axis=1)
    if spare:
        hi, lo = np.c_[hi, ~group.hi], np.c_[lo, ~group.lo]
    return Keys(hi.ravel(), lo.ravel())


@dataclass
class Forest:
    """The trees of all channels that are played; changed by the protocol.

    Attributes
    ----------
    stripes : int
        The number of stripes, S.
    group, node : ndarray of int64, shape (m,)
        The group (an index) and the position of each node in a channel, ascending.
    alive, entered : ndarray of bool, shape (m,)
        False for dead nodes whose death is not noticed; False for members that wait for their wave.
    bound, degree : ndarray of int64, shape (m,)
        The most children over all stripes, and their number.
    primary : ndarray of int64, shape (m,)
        The primary stripe: the first digits of the nodeId.
    parent : ndarray of int64, shape (m S,)
        The pair of the parent that each pair knows; NONE: none.
    holder : ndarray of int64, shape (m S,)
        The pair whose children contain each pair; differs from `parent` while a message is under
        way.
    root : ndarray of bool, shape (m S,)
        True for the roots of stripes.
    ancestors : ndarray of int32, shape (m S, w)
        The ancestors (positions) as last heard, from the parent upwards, filled with NONE.
    spare_parent : ndarray of int64, shape (m,)
        The parent (a position) in the tree of the spare group; NONE: not in the tree.
    wave : ndarray of int64, shape (m,)
        The wave in which each node enters the channel.
    """

    stripes: int
    ring: Ring
    draw_key: tuple[int, int]  # the seed and the period
    b: int
    keys: Keys  # the ids of stripes, by group index of `groups` and stripe
    groups: np.ndarray  # (g,): the groups, ascending
    group_number: np.ndarray  # (g,): their numbers
    group: np.ndarray
    node: np.ndarray
    alive: np.ndarray
    entered: np.ndarray
    bound: np.ndarray
    degree: np.ndarray
    primary: np.ndarray
    parent: np.ndarray
    holder: np.ndarray
    root: np.ndarray
    ancestors: np.ndarray
    spare_parent: np.ndarray
    spare_root: np.ndarray  # (m,): True for the roots of spare groups
    wave: np.ndarray
    hop: int = 0
    of: np.ndarray = field(init=False)  # (m,): the index in `groups`

    def __post_init__(self) -> None:
        self.of = find_sorted(self.groups, self.group)

    def __len__(self) -> int:
        return len(self.node)

    @property
    def key(self) -> np.ndarray:
        """The keys (group, position) of the rows, ascending."""
        return self.group * len(self.ring) + self.node

    def draw(self, purpose: str, row: np.ndarray, *by: np.ndarray) -> np.ndarray:
        """Return a draw in the channels of some rows, keyed by period, hop and numbers."""
        seed, period = self.draw_key
        number = self.group_number[self.of[row]]
        return draws.bits_np(seed, f"splitstream {purpose}", number, period, self.hop, *by)

    def number(self, row: np.ndarray) -> np.ndarray:
        """Return the numbers of nodes, which key draws."""
        return self.ring.node[self.node[row]]

    def match(self, row: np.ndarray, stripe: np.ndarray) -> np.ndarray:
        """Return the number of first digits that nodeIds share with the ids of stripes."""
        at, keys = self.node[row], self.keys.take(self.of[row] * self.stripes + stripe)
        return ids.shared_digits_np(self.ring.hi[at], self.ring.lo[at], keys.hi, keys.lo, self.b)

    def fits(self, row: np.ndarray, stripe: np.ndarray) -> np.ndarray:
        """Return True for nodes whose primary stripe is the given one."""
        return self.primary[row] == stripe

    def is_ancestor(self, row: np.ndarray, pair: np.ndarray) -> np.ndarray:
        """Return True where a node is an ancestor of a pair, as far as that has heard."""
        found, node = np.zeros(len(row), dtype=bool), self.node[row]
        for column in range(self.ancestors.shape[1]):
            found |= self.ancestors[pair, column] == node
        return found

    def children_of(self, pairs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the children of some different pairs: the index in `pairs`, and the child's pair.

        They are ascending by the index and the pair.
        """
        index = np.full(len(self.holder) + 1, NONE, dtype=np.int64)  # the last one for NONE
        index[pairs] = np.arange(len(pairs))
        of = index[self.holder]
        child = np.flatnonzero(of >= 0)
        order = np.argsort(of[child], kind="stable")
        return of[child][order], child[order]

    def children_lists(self, pairs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the children of pairs, which may be equal: the row of `pairs`, the child's pair.

        The rows are ascending.
        """
        different = distinct(pairs)
        of, child = self.children_of(different)
        offsets = offsets_of(np.bincount(of, minlength=len(different)))
        index = find_sorted(different, pairs)
        row, place = expand(offsets[index], offsets[index + 1])
        return row, child[place]

    def hold(self, pair: np.ndarray, by: np.ndarray) -> None:
        """Let pairs become children of pairs; degrees change."""
        self.holder[pair] = by
        np.add.at(self.degree, by // self.stripes, 1)

    def let_go(self, pair: np.ndarray) -> None:
        """Remove pairs from the children of those that hold them; degrees change."""
        pair = pair[self.holder[pair] >= 0]
        np.subtract.at(self.degree, self.holder[pair] // self.stripes, 1)
        self.holder[pair] = NONE

    def set_ancestors(self, pair: np.ndarray, lists: np.ndarray) -> None:
        """Write lists of ancestors, as wide as needed."""
        used = np.flatnonzero((lists >= 0).any(axis=0))
        width, need = self.ancestors.shape[1], int(used[-1]) + 1 if len(used) else 0
        if need > width:
            more = ((0, 0), (0, need + 2 - width))
            self.ancestors = np.pad(self.ancestors, more, constant_values=NONE)
            width = need + 2
        self.ancestors[pair] = NONE
        self.ancestors[pair, :need] = lists[:, :need]

    def path_of(self, pair: np.ndarray) -> np.ndarray:
        """Return the lists that pairs tell their children: the node itself and its ancestors."""
        own = self.node[pair // self.stripes].astype(np.int32)
        return np.column_stack([own, self.ancestors[pair]])

    def is_attached(self, pair: np.ndarray) -> np.ndarray:
        """Return True for roots, and for pairs with a parent."""
        return self.root[pair] | (self.parent[pair] >= 0)


def least_of(row: np.ndarray, draw: np.ndarray) -> np.ndarray:
    """Return the index of the least draw of each row that occurs, by row; the first of equals."""
    order = np.lexsort((draw, row))
    starts = np.ones(len(order), dtype=bool)
    starts[1:] = row[order[1:]] != row[order[:-1]]
    return order[starts]


def message_rows(group: np.ndarray, sender: np.ndarray, to: np.ndarray) -> dict[str, np.ndarray]:
    """Return messages to count, as `GrownOverlays.play_period` returns them; positions."""
    ends = (one.astype(np.int32) for one in (group, sender, to))
    return dict(zip(("group", "sender", "to"), ends, strict=True))
