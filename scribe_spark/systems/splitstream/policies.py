"""The answers of full nodes to newcomers, and the next nodes of refused requests: L6 to L8.

The policies are those of FreePastry (``SplitStreamScribePolicy``) and of Mace
(``splitstream.mac``), which has the paper's spare-capacity group (Section 3.3).  Requests at one
node are answered one after the other: a *turn* has one request of each node.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from scribe_spark.core.arrays import (
    NONE,
    Rows,
    children_in,
    distinct,
    divided,
    expand,
    least_of,
    offsets_of,
)
from scribe_spark.core.draws import order_of_draws
from scribe_spark.core.lists import Lists
from scribe_spark.systems.splitstream import SPARE_JOIN, SPARE_LEAVE
from scribe_spark.systems.splitstream.forest import Forest

#: How a request came: by Pastry's route; from a node's list; to a node that has to decide, as the
#: list is empty; as an anycast.
BY_ROUTE, FROM_LIST, FINAL, SEEKING = range(4)


@dataclass(frozen=True)
class Requests(Rows):
    """SUBSCRIBEs and anycasts under way: requests for a parent in a stripe."""

    pair: np.ndarray  # the subscriber and the stripe
    at: np.ndarray  # the node (a row) to which the request goes
    sender: np.ndarray
    due: np.ndarray  # the hop in which the request arrives
    how: np.ndarray
    visited: Lists
    todo: Lists


class FullNodes:
    """The children of full nodes; each child is a *place* that a newcomer may take."""

    def __init__(self, forest: Forest, rows: np.ndarray) -> None:
        self._rows = distinct(rows)
        of, self.child = children_in(forest.holder // forest.stripes, self._rows)
        self._offsets = offsets_of(np.bincount(of, minlength=len(self._rows)))

    def places_of(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the places (children) of nodes: the index in `rows`, and the place."""
        at = np.searchsorted(self._rows, rows)
        return expand(self._offsets[at], self._offsets[at + 1])


class Turn:
    """One request at each of some full nodes, with the children of these nodes.

    ``children`` has their numbers by request and stripe; ``own`` is True for the stripes that the
    node is there for: those rooted there, and the primary one.
    """

    def __init__(self, forest: Forest, full: FullNodes, asks: Requests, some: Any) -> None:
        self.pair, self.at = asks.pair[some], asks.at[some]
        self.how, self.sender = asks.how[some], asks.sender[some]
        self.index, width = np.arange(len(self.pair)), forest.stripes
        self.who, self.stripe = divided(self.pair, width)
        self.row, self.place = full.places_of(self.at)
        self.child, self.of = divided(full.child[self.place], width)
        cell = np.bincount(self.row * width + self.of, minlength=len(self.pair) * width)
        self.children = cell.reshape(-1, width)
        self.rooted = forest.root.reshape(-1, width)[self.at]
        self.own = self.rooted | (np.arange(width) == forest.primary[self.at][:, None])


class FreePastry:
    """The policy of FreePastry: newcomers to own stripes of full nodes replace children: L6."""

    def __init__(self, forest: Forest) -> None:
        self.forest = forest

    def choose(self, turn: Turn) -> np.ndarray:
        """Return the child (a place) that makes room for each newcomer; NONE: the node refuses."""
        forest, final = self.forest, turn.how == FINAL
        stripe, row, chosen = turn.stripe, turn.row, np.full(len(final), NONE)
        mine = turn.index, stripe
        takes = np.where(final, turn.rooted[mine], turn.own[mine])
        # 1. a child of this stripe that matches in fewer digits, or one of another stripe
        same = takes & ~final & (turn.children[mine] > 0)
        gives = np.where(same, stripe, self._other_stripe(turn, takes & ~same))
        some = np.flatnonzero(turn.of == gives[row])
        of_stripe, who = stripe[row[some]], turn.who[row[some]]
        worse = forest.match(turn.child[some], of_stripe) < forest.match(who, of_stripe)
        some = some[worse | ~same[row[some]]]
        drawn = forest.draw("drop", turn.pair, row[some], forest.number(turn.child[some]))
        some = some[least_of(row[some], drawn)]
        chosen[row[some]] = turn.place[some]
        # 2. the child that has sent a final request
        swaps = (final & (chosen < 0))[row] & (turn.of == stripe[row])
        swaps &= turn.child == turn.sender[row]
        chosen[row[swaps]] = turn.place[swaps]
        return chosen

    def _other_stripe(self, turn: Turn, frees: np.ndarray) -> np.ndarray:
        """Return the stripe of which a node that `frees` a place drops a child, or NONE."""
        children = np.where(frees[:, None], turn.children, 0)
        children[turn.index, turn.stripe] = 0
        found = np.where(children.max(axis=1) > 1, children.argmax(axis=1), NONE)
        row, stripe = np.nonzero((children > 0) & ~turn.own)
        first = least_of(row, self.forest.draw("stripe", turn.pair, row, stripe))
        found[row[first]] = stripe[first]
        return found

    def neighbours(self, asks: Requests) -> tuple[np.ndarray, Lists, Lists]:
        """Return the visited nodes, and the nodes that refused requests ask first and last.

        Children in the stripe are first if it is their primary one; the parent is between.
        """
        forest, count, mine = self.forest, len(asks), self.forest.asked(asks.pair, asks.at)
        who, stripe = np.divmod(asks.pair, forest.stripes)
        parent = forest.living_parent(mine)
        row, child = forest.children_of(mine)
        good = forest.alive[child] & (child != who[row]) & (child != parent[row])
        row, child = row[good], child[good]
        above = np.flatnonzero((parent >= 0) & (parent != who))
        drawn = forest.draw("child", asks.pair, row, forest.number(child))
        drawn = np.r_[drawn, np.zeros(len(above), dtype=drawn.dtype)]
        is_parent = np.arange(len(drawn)) >= len(child)
        row, node = np.r_[row, above], np.r_[child, parent[above]]
        fits = forest.primary[node] == stripe[row]
        order = order_of_draws(row * 2 + (fits == is_parent), drawn)
        row, node, fits = row[order], node[order], fits[order]
        front, back = (Lists.of(row[some], node[some], count) for some in (fits, ~fits))
        return asks.at, front, back

    def decider(self, asks: Requests) -> np.ndarray:
        """Return the node that must take a subscriber that all refuse: parent, root or NONE."""
        mine = self.forest.asked(asks.pair, asks.at)
        parent = self.forest.living_parent(mine)
        parent[parent == asks.pair // self.forest.stripes] = NONE
        return np.where(self.forest.root[mine], asks.at, parent)


class SpareCapacity:
    """A full node pushes a child down, which finds a member of the spare group: rules L7 and L8.

    The tree of the spare group consists of Pastry's routes from its members, which have room, to
    its id, as Scribe's trees do.  ``parent`` has the next node of the channel on these routes, a
    row; ``inside`` is True for the nodes in the tree.
    """

    def __init__(self, forest: Forest) -> None:
        self.forest = forest
        self.inside, self.parent = np.zeros(len(forest), dtype=bool), np.full(len(forest), NONE)
        primary = forest.primary[:, None] == np.arange(forest.stripes)
        self._in_primary = (primary & forest.alive[:, None]).ravel()

    def choose(self, turn: Turn) -> np.ndarray:
        """Return the child (a place) that makes room for each newcomer; NONE: the newcomer."""
        forest, index, stripe, row = self.forest, turn.index, turn.stripe, turn.row
        # 1. the first stripe from this one on that is not the node's own, or its largest own one
        cyclic = (stripe[:, None] + np.arange(forest.stripes)) % forest.stripes
        turn.children[index, stripe] += 1  # the newcomer
        children, own = (np.take_along_axis(one, cyclic, 1) for one in (turn.children, turn.own))
        others, crowd = (children > 0) & ~own, np.where(own & (children > 1), children, 0)
        is_other = others.any(axis=1)
        gives = cyclic[index, np.where(is_other, others.argmax(axis=1), crowd.argmax(axis=1))]
        gives[np.where(is_other, gives == stripe, crowd.max(axis=1) == 0)] = NONE  # itself
        # 2. a random child, perhaps the newcomer; in the primary stripe the worst match
        here, with_new = np.flatnonzero(turn.of == gives[row]), np.flatnonzero(gives == stripe)
        by, child = np.r_[row[here], with_new], np.r_[turn.child[here], turn.who[with_new]]
        place = np.r_[turn.place[here], np.full(len(with_new), NONE)]
        drawn = forest.draw("drop", turn.pair, by, forest.number(child))
        worst = (~is_other & (gives == forest.primary[turn.at]))[by]
        match = forest.match(child[worst], gives[by[worst]])
        drawn[worst] = match << 32 | child[worst]  # the least node of equals
        order = np.argsort(by, kind="stable")
        first, chosen = order[least_of(by[order], drawn[order])], np.full(len(index), NONE)
        chosen[by[first]] = place[first]
        return chosen

    def sibling(self, pair: np.ndarray, by: np.ndarray) -> np.ndarray:
        """Return a sibling (row or NONE) in its primary stripe, for pairs that `by` has dropped."""
        forest, found = self.forest, np.full(len(pair), NONE)
        row, child = children_in(np.where(self._in_primary, forest.holder, NONE), by)
        child //= forest.stripes
        first = least_of(row, forest.draw("sibling", pair, row, forest.number(child)))
        found[row[first]] = child[first]
        return found

    def decider(self, asks: Requests) -> np.ndarray:
        """Return NONE for each request: if an anycast finds nobody, it fails."""
        return np.full(len(asks), NONE)

    # --- the tree of the spare group

    def enter(self) -> None:
        """Find the parents of nodes in the spare group's tree, once nodes have entered channels."""
        forest = self.forest
        rows = np.flatnonzero(forest.alive & forest.entered & ~forest.spare_root)
        to_spare = np.full(len(rows), forest.stripes)
        self.parent[rows] = forest.entries(rows, to_spare, rows)[0]

    def end_hop(self) -> None:
        """Let nodes join and leave the spare group's tree, at the end of a hop."""
        forest = self.forest
        here = forest.alive & forest.entered
        inside = here & forest.spare_root
        below = np.flatnonzero(here & (forest.degree < forest.bound))
        while len(below):
            inside[below] = True
            above = distinct(self.parent[below])
            above = above[above >= 0]
            below = above[~inside[above]]
        self.inside = inside
        to = np.where(inside & (self.parent >= 0), forest.node[self.parent], NONE)
        row = np.flatnonzero(here & (to != forest.spare_parent))
        for kind, parent in ((SPARE_LEAVE, forest.spare_parent[row]), (SPARE_JOIN, to[row])):
            some = row[parent >= 0]
            forest.sent.note(kind, forest.group[some], forest.node[some], parent[parent >= 0])
        forest.spare_parent[row] = to[row]

    def may_adopt(self, asks: Requests) -> np.ndarray:
        """Return True where an orphan may become a child, if there is room."""
        forest, other = self.forest, asks.at != asks.pair // self.forest.stripes
        return self.inside[asks.at] & other & forest.is_attached(forest.asked(asks.pair, asks.at))

    def neighbours(self, asks: Requests) -> tuple[np.ndarray, Lists, Lists]:
        """Return the visited nodes, and those to ask first (children) and last (the parent).

        A node outside of the tree does not count as visited (NONE); an anycast climbs from it,
        unless it has been in the tree.
        """
        forest, count, inside = self.forest, len(asks), self.inside[asks.at]
        who, parent = asks.pair // forest.stripes, self.parent[asks.at]
        row, child = children_in(np.where(self.inside, self.parent, NONE), asks.at)
        good = inside[row] & (child != who[row])
        row, child = row[good], child[good]
        drawn = forest.draw("anycast", asks.pair, row, forest.number(child))
        order = order_of_draws(row, drawn)
        climbs = inside | (asks.visited.lengths() == 0)
        above = np.flatnonzero((parent >= 0) & (parent != who) & climbs)
        front = Lists.of(row[order], child[order], count)
        back = Lists.of(above, parent[above], count)
        return np.where(inside, asks.at, NONE), front, back
