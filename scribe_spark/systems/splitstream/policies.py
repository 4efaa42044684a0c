"""The answers of a full node to a SUBSCRIBE: the two published policies, rules L6 and L7.

Requests at one node are answered one after the other; a *turn* has one request of each node.

References
----------
M. Castro et al.: SplitStream, SOSP 2003, Section 3.3.  FreePastry (``SplitStreamScribePolicy``);
Mace (``splitstream.mac``), which has the paper's spare-capacity group.  Recalled: no text could be
had.
"""

from __future__ import annotations

import numpy as np

from scribe_spark.core.arrays import NONE, distinct, expand, find_sorted, offsets_of
from scribe_spark.systems.splitstream.forest import Forest, least_of

#: The names of the policies.
FREEPASTRY, SPARE = "freepastry", "spare-capacity"


class FullNodes:
    """The children of full nodes while they answer requests: a child may take another's place."""

    def __init__(self, forest: Forest, rows: np.ndarray) -> None:
        self.rows = distinct(rows)
        marked = np.zeros(len(forest) + 1, dtype=bool)  # the last one for NONE
        marked[self.rows] = True
        holder = forest.holder // forest.stripes
        child = np.flatnonzero(marked[holder])
        self.child = child[np.argsort(holder[child], kind="stable")]
        of = find_sorted(self.rows, holder[self.child])
        self._offsets = offsets_of(np.bincount(of, minlength=len(self.rows)))

    def places_of(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the places of the children of different nodes: the index in `rows`, the place."""
        at = find_sorted(self.rows, rows)
        return expand(self._offsets[at], self._offsets[at + 1])


def drop_by_prefix(
    forest: Forest,
    full: FullNodes,
    pair: np.ndarray,
    at: np.ndarray,
    sender: np.ndarray,
    final: np.ndarray,
) -> np.ndarray:
    """Return the place of the child that each newcomer replaces by FreePastry's policy; or NONE.

    Parameters
    ----------
    forest : Forest
        The trees.
    full : FullNodes
        The children of the nodes.
    pair : ndarray of int64, shape (n,)
        The newcomers.
    at : ndarray of int64, shape (n,)
        Different full nodes (rows).
    sender : ndarray of int64, shape (n,)
        The nodes that sent the requests.
    final : ndarray of bool, shape (n,)
        True for requests that have no other node to ask.
    """
    width = forest.stripes
    who, stripe = np.divmod(pair, width)
    mine = at * width + stripe
    in_charge = forest.fits(at, stripe) | forest.root[mine]
    row, place = full.places_of(at)
    child, of = np.divmod(full.child[place], width)
    own = of == stripe[row]
    has_own = np.bincount(row[own], minlength=len(pair)) > 0
    chosen = np.full(len(pair), NONE, dtype=np.int64)

    def draw(some: np.ndarray) -> None:
        """Draw one of some children for each newcomer."""
        by, at_row = row[some], at[row[some]]
        numbers = stripe[by], forest.number(who[by]), forest.number(child[some])
        some = some[least_of(by, forest.draw("drop", at_row, *numbers))]
        chosen[row[some]] = place[some]

    # 1. a child of this stripe that matches in fewer digits
    some = np.flatnonzero(own & (in_charge & ~final)[row])
    by = row[some]
    worse = forest.match(child[some], stripe[by]) < forest.match(who[by], stripe[by])
    draw(some[worse])
    # 2. without one, a child of another stripe: neither the node's own nor rooted here; otherwise
    #    of the stripe with the most children, two or more
    frees = np.where(final, forest.root[mine], in_charge & ~has_own)
    others = frees[row] & ~own
    free = others & ~forest.fits(at[row], of) & ~forest.root[at[row] * width + of]
    some = np.flatnonzero(free)
    by = row[some]
    first = least_of(
        by, forest.draw("stripe", at[by], stripe[by], forest.number(who[by]), of[some])
    )
    of_row = np.full(len(pair), NONE, dtype=np.int64)
    of_row[by[first]] = of[some[first]]
    children = np.bincount(row * width + of, minlength=len(pair) * width).reshape(-1, width)
    children[np.arange(len(pair)), stripe] = 0
    most = children.argmax(axis=1)
    of_row = np.where((of_row < 0) & (children.max(axis=1) > 1), most, of_row)
    draw(np.flatnonzero(others & (of == of_row[row])))
    # 3. the child that has sent a final request
    swaps = (final & (chosen < 0))[row] & own & (child == sender[row])
    chosen[row[swaps]] = place[swaps]
    return chosen


def push_down(forest: Forest, full: FullNodes, pair: np.ndarray, at: np.ndarray) -> np.ndarray:
    """Return the place of the child that each newcomer replaces with a spare group; or NONE.

    The parameters are those of :func:`drop_by_prefix`.
    """
    count, width = len(pair), forest.stripes
    who, stripe = np.divmod(pair, width)
    row, place = full.places_of(at)
    child, of = np.divmod(full.child[place], width)
    children = np.bincount(row * width + of, minlength=count * width).reshape(count, width)
    children[np.arange(count), stripe] += 1  # the newcomer
    # 1. stripes from this one on: neither the node's own nor rooted here
    each = (stripe[:, None] + np.arange(width)) % width
    rooted = forest.root[at[:, None] * width + each]
    many = np.take_along_axis(children, each, axis=1)
    mine = forest.primary[at]
    free = (each != mine[:, None]) & ~rooted & (many > 0)
    others, index = free.any(axis=1), np.arange(count)
    # otherwise, of its own and those rooted here, the one with the most children, two or more
    crowd = np.where((rooted | (each == mine[:, None])) & (many > 1), many, 0)
    last = each[index, crowd.argmax(axis=1)]
    chosen = np.where(others, each[index, free.argmax(axis=1)], last)
    alone = np.where(others, chosen == stripe, crowd.max(axis=1) == 0)
    # 2. a child of that stripe; the newcomer is one of them unless it is pushed down anyway
    here = np.flatnonzero((of == chosen[row]) & ~alone[row])
    with_new = np.flatnonzero((chosen == stripe) & ~alone)
    by, member = np.r_[row[here], with_new], np.r_[child[here], who[with_new]]
    places = np.r_[place[here], np.full(len(with_new), NONE)]
    drawn = forest.draw("drop", at[by], stripe[by], forest.number(who[by]), forest.number(member))
    by_match = (~others & (chosen == mine))[by]
    drawn[by_match] = forest.match(member[by_match], chosen[by[by_match]])
    order = np.argsort(member, kind="stable")  # the least node of equals
    first = order[least_of(by[order], drawn[order])]
    found = np.full(count, NONE, dtype=np.int64)
    found[by[first]] = places[first]
    return found
