"""What full nodes do with newcomers, and whom refused requests ask next: rules L6 to L8.

The two published policies answer the same questions.  Requests at one node are answered one after
the other; a *turn* has one request of each node.

References
----------
M. Castro et al.: SplitStream, SOSP 2003, Section 3.3.  FreePastry (``SplitStreamScribePolicy``);
Mace (``splitstream.mac``), which has the paper's spare-capacity group.  Recalled: no text could be
had.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from scribe_spark.core.arrays import NONE, distinct, expand, find_sorted, offsets_of
from scribe_spark.core.lists import Lists
from scribe_spark.systems.splitstream import FREEPASTRY, SPARE
from scribe_spark.systems.splitstream.forest import Forest, least_of
from scribe_spark.systems.splitstream.messages import (
    FINAL,
    SPARE_JOIN,
    SPARE_LEAVE,
    Requests,
    Sent,
)
from scribe_spark.systems.splitstream.routes import Routes


class FullNodes:
    """The children of full nodes, each in a place that a newcomer may take."""

    def __init__(self, forest: Forest, rows: np.ndarray) -> None:
        self._rows = distinct(rows)
        marked = np.zeros(len(forest) + 1, dtype=bool)  # the last one for NONE
        marked[self._rows] = True
        holder = forest.holder // forest.stripes
        child = np.flatnonzero(marked[holder])
        self.child = child[np.argsort(holder[child], kind="stable")]
        of = find_sorted(self._rows, holder[self.child])
        self._offsets = offsets_of(np.bincount(of, minlength=len(self._rows)))

    def places_of(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the places of the children of nodes: the index in `rows`, the place."""
        at = find_sorted(self._rows, rows)
        return expand(self._offsets[at], self._offsets[at + 1])


class Turn:
    """Requests at different full nodes, and the children there: arrays by request, and by place."""

    def __init__(self, forest: Forest, full: FullNodes, asks: Requests) -> None:
        self.forest, self.asks, self.at = forest, asks, asks.at
        self.index, width = np.arange(len(asks)), forest.stripes
        self.who, self.stripe = np.divmod(asks.pair, width)
        self.row, self.place = full.places_of(asks.at)
        self.child, self.of = np.divmod(full.child[self.place], width)
        cell, shape = self.row * width + self.of, (len(asks), width)
        #: shape (n, S): the number of children, and True for stripes that the node is there for
        self.children = np.bincount(cell, minlength=len(asks) * width).reshape(shape)
        self.rooted = forest.root.reshape(-1, width)[asks.at]
        self.own = self.rooted | (np.arange(width) == forest.primary[asks.at][:, None])

    def draw(self, purpose: str, row: np.ndarray, *by: np.ndarray) -> np.ndarray:
        """Return draws of the nodes for requests."""
        at, newcomer = self.at[row], self.forest.number(self.who[row])
        return self.forest.draw(purpose, at, self.stripe[row], newcomer, *by)


class FreePastry:
    """A full node takes newcomers to its own stripes in place of others: rule L6."""

    has_spare = False

    def __init__(self, forest: Forest, routes: Routes, sent: Sent) -> None:
        self.forest = forest

    def enter(self) -> None:
        """Nodes have entered the channels."""

    def end_hop(self) -> None:
        """End a hop."""

    def may_adopt(self, asks: Requests) -> np.ndarray:
        """Return False: there are no anycasts."""
        return np.zeros(len(asks), dtype=bool)

    def siblings(self, pair: np.ndarray, by: np.ndarray) -> np.ndarray:
        """Return NONE: a DROP names no sibling."""
        return np.full(len(pair), NONE)

    def decider(self, asks: Requests) -> np.ndarray:
        """Return who has to take a subscriber that finds nobody: the parent, or the root; NONE."""
        forest = self.forest
        who, stripe = np.divmod(asks.pair, forest.stripes)
        mine = asks.at * forest.stripes + stripe
        parent = forest.living_parent(mine)
        return np.where(forest.root[mine], asks.at, np.where(parent == who, NONE, parent))

    def choose(self, full: FullNodes, asks: Requests) -> np.ndarray:
        """Return the place that each newcomer at a full node takes; NONE: the node refuses."""
        turn, forest, final = Turn(self.forest, full, asks), self.forest, asks.how == FINAL
        stripe, row = turn.stripe, turn.row
        mine = turn.index, stripe
        takes = np.where(final, turn.rooted[mine], turn.own[mine])
        # 1. a child of this stripe that matches in fewer digits, or one of another stripe
        same = takes & ~final & (turn.children[mine] > 0)
        gives = np.where(same, stripe, self._other_stripe(turn, takes & ~same))
        some = np.flatnonzero(turn.of == gives[row])
        child, by = turn.child[some], row[some]
        worse = forest.match(child, stripe[by]) < forest.match(turn.who[by], stripe[by])
        some = some[worse | ~same[by]]
        drawn = turn.draw("drop", row[some], forest.number(turn.child[some]))
        some = some[least_of(row[some], drawn)]
        chosen = np.full(len(asks), NONE)
        chosen[row[some]] = turn.place[some]
        # 2. the child that has sent a final request
        sender = (turn.of == stripe[row]) & (turn.child == asks.sender[row])
        swaps = (final & (chosen < 0))[row] & sender
        chosen[row[swaps]] = turn.place[swaps]
        return chosen

    def _other_stripe(self, turn: Turn, frees: np.ndarray) -> np.ndarray:
        """Return the stripe of which nodes drop a child for newcomers: neither primary nor rooted
        there, else the one with the most children, two or more; NONE.
        """
        children = np.where(frees[:, None], turn.children, 0)
        children[turn.index, turn.stripe] = 0
        found = np.where(children.max(axis=1) > 1, children.argmax(axis=1), NONE)
        row, stripe = np.nonzero((children > 0) & ~turn.own)
        first = least_of(row, turn.draw("stripe", row, stripe))
        found[row[first]] = stripe[first]
        return found

    def neighbours(self, asks: Requests) -> tuple[np.ndarray, Lists, Lists]:
        """Return the visited nodes, and whom refused requests ask first and last.

        These are the node's children in the stripe and its parent; those with the stripe as primary
        one are first.
        """
        forest, count = self.forest, len(asks)
        who, stripe = np.divmod(asks.pair, forest.stripes)
        mine = asks.at * forest.stripes + stripe
        parent = forest.living_parent(mine)
        row, child = forest.children_of(mine)
        child //= forest.stripes
        good = forest.alive[child] & (child != who[row]) & (child != parent[row])
        row, child = row[good], child[good]
        drawn = forest.draw(
            "child", child, stripe[row], forest.number(who[row]), forest.number(child)
        )
        above = np.flatnonzero((parent >= 0) & (parent != who))
        row, node = np.r_[row, above], np.r_[child, parent[above]]
        is_parent = np.arange(len(row)) >= len(child)
        fits = forest.primary[node] == stripe[row]
        rank = np.where(fits, is_parent, 2 + ~is_parent)  # the parent is last and first
        drawn = np.r_[drawn, np.zeros(len(above), dtype=drawn.dtype)]
        order = np.lexsort((drawn, rank, row))
        row, node, fits = row[order], node[order], fits[order]
        front, back = (Lists.of(row[some], node[some], count) for some in (fits, ~fits))
        return asks.at, front, back


class SpareCapacity:
    """A full node pushes a child down, which finds a member of the spare group: rules L7 and L8.

    The tree of the spare group consists of Pastry's routes from its members, which have room, to
    its id, as Scribe's trees do.
    """

    has_spare = True

    def __init__(self, forest: Forest, routes: Routes, sent: Sent) -> None:
        self.forest, self._routes, self._sent = forest, routes, sent
        #: bool, shape (m,): True for the nodes in the tree
        self.inside = np.zeros(len(forest), dtype=bool)

    def choose(self, full: FullNodes, asks: Requests) -> np.ndarray:
        """Return the place that each newcomer at a full node takes; NONE: it is pushed down."""
        turn, forest = Turn(self.forest, full, asks), self.forest
        index, stripe, row = turn.index, turn.stripe, turn.row
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
        order = np.argsort(child, kind="stable")  # the least node of equals
        by, child, place = by[order], child[order], place[order]
        drawn = turn.draw("drop", by, forest.number(child))
        worst = (~is_other & (gives == forest.primary[turn.at]))[by]
        drawn[worst] = forest.match(child[worst], gives[by[worst]])
        first = least_of(by, drawn)
        chosen = np.full(len(asks), NONE)
        chosen[by[first]] = place[first]
        return chosen

    def siblings(self, pair: np.ndarray, by: np.ndarray) -> np.ndarray:
        """Return a sibling (a row) of dropped pairs whose primary stripe is theirs; or NONE."""
        forest = self.forest
        row, child = forest.children_of(by)
        child, stripe = child // forest.stripes, pair % forest.stripes
        good = forest.alive[child] & (forest.primary[child] == stripe[row])
        row, child = row[good], child[good]
        numbers = forest.number(pair[row] // forest.stripes), forest.number(child)
        first = least_of(row, forest.draw("sibling", child, stripe[row], *numbers))
        found = np.full(len(pair), NONE)
        found[row[first]] = child[first]
        return found

    def decider(self, asks: Requests) -> np.ndarray:
        """Return NONE: an anycast that finds nobody fails."""
        return np.full(len(asks), NONE)

    # --- the tree of the spare group

    def enter(self) -> None:
        """Find the parents of nodes in the tree, after nodes have entered the channels."""
        forest = self.forest
        rows = np.flatnonzero(forest.alive & forest.entered & ~forest.spare_root)
        to_spare = np.full(len(rows), forest.stripes)
        #: shape (m,): the next node of the channel on the route to the spare id (a row)
        self.parent = np.full(len(forest), NONE)
        self.parent[rows] = self._routes.entries(forest, rows, to_spare, rows)[0]
        rows = np.flatnonzero(self.parent >= 0)
        self._children = rows[np.argsort(self.parent[rows], kind="stable")]
        self._offsets = offsets_of(np.bincount(self.parent[rows], minlength=len(forest)))

    def end_hop(self) -> None:
        """Let nodes join and leave the tree."""
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
            self._sent.note(kind, forest.group[some], forest.node[some], parent[parent >= 0])
        forest.spare_parent[row] = to[row]

    def may_adopt(self, asks: Requests) -> np.ndarray:
        """Return True where an orphan may become a child, if there is room."""
        who, stripe = np.divmod(asks.pair, self.forest.stripes)
        attached = self.forest.is_attached(asks.at * self.forest.stripes + stripe)
        return self.inside[asks.at] & (asks.at != who) & attached

    def neighbours(self, asks: Requests) -> tuple[np.ndarray, Lists, Lists]:
        """Return the visited nodes, and whom anycasts ask first and last.

        These are the children in the tree, and the parent.  A node outside of the tree does not
        count as visited (NONE); an anycast climbs from it, unless it has been in the tree.
        """
        forest, count, inside = self.forest, len(asks), self.inside[asks.at]
        who, stripe = np.divmod(asks.pair, forest.stripes)
        row, place = expand(self._offsets[asks.at], self._offsets[asks.at + 1])
        child = self._children[place]
        good = self.inside[child] & inside[row] & (child != who[row])
        row, child = row[good], child[good]
        drawn = forest.draw(
            "anycast", child, stripe[row], forest.number(who[row]), forest.number(child)
        )
        order = np.lexsort((drawn, row))
        parent = self.parent[asks.at]
        climbs = inside | (asks.visited.lengths() == 0)
        above = np.flatnonzero((parent >= 0) & (parent != who) & climbs)
        front = Lists.of(row[order], child[order], count)
        back = Lists.of(above, parent[above], count)
        return np.where(inside, asks.at, NONE), front, back


#: Name -> policy.
POLICIES: dict[str, Callable[[Forest, Routes, Sent], FreePastry | SpareCapacity]] = {
    FREEPASTRY: FreePastry,
    SPARE: SpareCapacity,
}
