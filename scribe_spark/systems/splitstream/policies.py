"""The policies of full nodes: rules L6 to L8.

They are those of FreePastry (``SplitStreamScribePolicy``) and of Mace (``splitstream.mac``), which
has the paper's spare-capacity group (Section 3.3).
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from scribe_spark.core import arrays
from scribe_spark.core.draws import order_of_draws
from scribe_spark.core.lists import Lists
from scribe_spark.engine import Columns
from scribe_spark.systems.splitstream import FREEPASTRY, SPARE
from scribe_spark.systems.splitstream.channels import Channels
from scribe_spark.systems.splitstream.protocol import FINAL, Hops, Requests, Turn


class FreePastry(Hops):
    """The policy of FreePastry: newcomers to own stripes of full nodes replace children: L6."""

    def choose(self, turn: Turn) -> np.ndarray:
        """See `Hops.choose`; a node without a child for a newcomer refuses."""
        asks, stripe, row, final = turn.asks, turn.stripe, turn.row, turn.asks.how == FINAL
        takes = np.where(final, turn.rooted[turn.mine], turn.own[turn.mine])
        # 1. a child of this stripe that matches in fewer digits, or one of another stripe
        same = takes & ~final & (turn.children[turn.mine] > 0)
        gives = np.where(same, stripe, self._other_stripe(turn, takes & ~same))
        some = np.flatnonzero(turn.of == gives[row])
        ends = turn.who[some], turn.newcomer[row[some]]
        theirs, new = (self.match(who, stripe[row[some]]) for who in ends)
        some = some[(theirs < new) | ~same[row[some]]]
        drawn = self.draw("drop", asks.pair, row[some], self.number(turn.who[some]))
        some, chosen = some[arrays.least_of(row[some], drawn)], np.full(len(asks), arrays.NONE)
        chosen[row[some]] = some
        # 2. the child that has sent a final request
        swaps = (final & (chosen < 0))[row] & (turn.of == stripe[row])
        swaps &= turn.who == asks.sender[row]
        chosen[row[swaps]] = np.flatnonzero(swaps)
        return chosen

    def _other_stripe(self, turn: Turn, frees: np.ndarray) -> np.ndarray:
        """Return the stripe of which a node that `frees` a place drops a child, or NONE."""
        children = np.where(frees[:, None], turn.children, 0)
        children[turn.mine] = 0
        found = np.where(children.max(axis=1) > 1, children.argmax(axis=1), arrays.NONE)
        row, stripe = np.nonzero((children > 0) & ~turn.own)
        first = arrays.least_of(row, self.draw("stripe", turn.asks.pair, row, stripe))
        found[row[first]] = stripe[first]
        return found

    def neighbours(self, asks: Requests) -> tuple[np.ndarray, Lists, Lists]:
        """See `Hops.neighbours`: children and the parent, those of this primary stripe first.

        The parent is behind the children that are first, and before those that are last.
        """
        count, mine = len(asks), self.asked(asks.pair, asks.at)
        who, stripe = np.divmod(asks.pair, self.stripes)
        parent = self.living_parent(mine)
        row, child = self.children_of(mine)
        good = self.alive[child] & (child != who[row]) & (child != parent[row])
        row, child = row[good], child[good]
        above = np.flatnonzero((parent >= 0) & (parent != who))
        drawn = self.draw("child", asks.pair, row, self.number(child))
        drawn = np.r_[drawn, np.zeros(len(above), dtype=drawn.dtype)]
        is_parent = np.arange(len(drawn)) >= len(child)
        row, node = np.r_[row, above], np.r_[child, parent[above]]
        fits = self.primary[node] == stripe[row]
        order = order_of_draws(row * 2 + (fits == is_parent), drawn)
        row, node, fits = row[order], node[order], fits[order]
        front, back = (Lists.of(row[some], node[some], count) for some in (fits, ~fits))
        return asks.at, front, back

    def decider(self, asks: Requests) -> np.ndarray:
        """See `Hops.decider`: the root itself, or the parent."""
        mine = self.asked(asks.pair, asks.at)
        parent = self.living_parent(mine)
        parent[parent == asks.pair // self.stripes] = arrays.NONE
        return np.where(self.root[mine], asks.at, parent)


class SpareCapacity(Hops):
    """A full node pushes a child down, which finds a member of the spare group: rules L7 and L8.

    The tree of the spare group consists of Pastry's routes from its members, which have room, to
    its id, as Scribe's trees do.  ``above`` has the next node of the channel on these routes, a
    row; ``inside`` is True for the nodes in the tree.
    """

    spare: ClassVar[bool] = True

    def __init__(self, begun: Channels, b: int, routes: Columns) -> None:
        super().__init__(begun, b, routes)
        self.inside, self.above = self.alive & False, np.full(len(self.key), arrays.NONE)
        primary = self.primary[:, None] == np.arange(self.stripes)
        self._in_primary = (primary & self.alive[:, None]).ravel()

    def choose(self, turn: Turn) -> np.ndarray:
        """See `Hops.choose`; a newcomer without a place is pushed down."""
        stripe, index, row = turn.stripe, turn.mine[0], turn.row
        # 1. the first stripe from this one on that is not the node's own, or its largest own one
        cyclic = (stripe[:, None] + np.arange(self.stripes)) % self.stripes
        turn.children[turn.mine] += 1  # the newcomer
        children, own = (np.take_along_axis(one, cyclic, 1) for one in (turn.children, turn.own))
        others, crowd = (children > 0) & ~own, np.where(own & (children > 1), children, 0)
        is_other = others.any(axis=1)
        gives = cyclic[index, np.where(is_other, others.argmax(axis=1), crowd.argmax(axis=1))]
        gives[np.where(is_other, gives == stripe, crowd.max(axis=1) == 0)] = arrays.NONE  # itself
        # 2. a random child, perhaps the newcomer; in the primary stripe the worst match
        here, with_new = np.flatnonzero(turn.of == gives[row]), np.flatnonzero(gives == stripe)
        by, who = np.r_[row[here], with_new], np.r_[turn.who[here], turn.newcomer[with_new]]
        drawn = self.draw("drop", turn.asks.pair, by, self.number(who))
        worst = (~is_other & (gives == self.primary[turn.asks.at]))[by]
        match = self.match(who[worst], gives[by[worst]])
        drawn[worst] = match << 32 | who[worst]  # the least node of equals
        order = np.argsort(by, kind="stable")
        first = order[arrays.least_of(by[order], drawn[order])]
        chosen = np.full(len(index), arrays.NONE)
        chosen[by[first]] = np.r_[here, np.full(len(with_new), arrays.NONE)][first]
        return chosen

    def sibling(self, pair: np.ndarray, by: np.ndarray) -> np.ndarray:
        """See `Hops.sibling`: a random one in its primary stripe."""
        found = np.full(len(pair), arrays.NONE)
        row, child = arrays.children_in(np.where(self._in_primary, self.holder, arrays.NONE), by)
        child //= self.stripes
        first = arrays.least_of(row, self.draw("sibling", pair, row, self.number(child)))
        found[row[first]] = child[first]
        return found

    def adopts(self, asks: Requests) -> np.ndarray:
        """See `Hops.adopts`; an orphan needs a member of the tree that is attached."""
        mine, other = self.asked(asks.pair, asks.at), asks.at != asks.pair // self.stripes
        attached = self.root[mine] | (self.parent[mine] >= 0)
        return super().adopts(asks) | (self.inside[asks.at] & other & attached)

    def neighbours(self, asks: Requests) -> tuple[np.ndarray, Lists, Lists]:
        """See `Hops.neighbours`: children in the tree first, the parent last.

        A node outside of the tree does not count as visited (NONE); an anycast climbs from it,
        unless it has been in the tree.
        """
        count, inside, who = len(asks), self.inside[asks.at], asks.pair // self.stripes
        above = self.above[asks.at]
        row, child = arrays.children_in(np.where(self.inside, self.above, arrays.NONE), asks.at)
        good = inside[row] & (child != who[row])
        row, child = row[good], child[good]
        order = order_of_draws(row, self.draw("anycast", asks.pair, row, self.number(child)))
        climbs = inside | (asks.visited.lengths() == 0)
        up = np.flatnonzero((above >= 0) & (above != who) & climbs)
        lists = Lists.of(row[order], child[order], count), Lists.of(up, above[up], count)
        return np.where(inside, asks.at, arrays.NONE), *lists

    # --- the tree of the spare group

    def enter(self) -> None:
        """Find the parents of nodes in the spare group's tree."""
        rows = np.flatnonzero(self.alive & self.entered & ~self.spare_root)
        to_spare = np.full(len(rows), self.stripes)
        self.above[rows] = self.entries(rows, to_spare, rows, rows < 0)[0]

    def end_hop(self) -> None:
        """Let nodes join and leave the spare group's tree."""
        here = self.alive & self.entered
        inside = here & self.spare_root
        below = np.flatnonzero(here & (self.degree < self.bound))
        while len(below):
            inside[below] = True
            above = arrays.distinct(self.above[below])
            above = above[above >= 0]
            below = above[~inside[above]]
        self.inside = inside
        to = np.where(inside & (self.above >= 0), self.node[self.above], arrays.NONE)
        row = np.flatnonzero(here & (to != self.spare_parent))
        for kind, parent in (("spare_leave", self.spare_parent[row]), ("spare_join", to[row])):
            some = row[parent >= 0]
            ends = self.group[some], self.node[some], parent[parent >= 0]
            self.begun.sent.note(kind, *ends)
        self.spare_parent[row] = to[row]


#: The policies by their names.
POLICIES: dict[str, type[Hops]] = {FREEPASTRY: FreePastry, SPARE: SpareCapacity}
