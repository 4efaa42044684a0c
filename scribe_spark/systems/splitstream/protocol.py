"""The protocol of SplitStream, hop by hop, and the policies of full nodes: rules L2 to L10.

All messages take one hop, and all nodes play a hop at once: replies, then new paths, then requests,
then refused requests go on, then nodes that wait ask.  Requests at one node are answered one after
the other: a *turn* has one request of each node.

The policies are those of FreePastry (``SplitStreamScribePolicy``) and of Mace
(``splitstream.mac``), which has the paper's spare-capacity group (Section 3.3).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from scribe_spark.core import arrays
from scribe_spark.core.draws import order_of_draws
from scribe_spark.core.lists import Lists, pieces, visit
from scribe_spark.engine import Columns
from scribe_spark.systems.splitstream import CONTROL, COUNTED, FREEPASTRY, SPARE
from scribe_spark.systems.splitstream.channels import Channels
from scribe_spark.systems.splitstream.forest import Forest

#: How a request came: by Pastry's route; from a node's list; to a node that has to decide, as the
#: list is empty; as an anycast.
BY_ROUTE, FROM_LIST, FINAL, SEEKING = range(4)

#: After so many FAILs, a node asks again more slowly, and then no more in the period (settled).
QUICK_TRIES, TRIES = 5, 30

#: Hops until a node asks again after a FAIL.
SOON, LATER = 1, 5

#: The number of hops of a period in which nodes ask (settled).
MOST_HOPS = 3000

#: The number of nodes that a refused request is thought to add to its list, to bound the memory.
_NEIGHBOURS = 2**8

#: Whom a pair asks that waits, instead of a row: by Pastry's route, or by anycast.
_ROOTWARDS, _ANYBODY = -1, -2


@dataclass(frozen=True)
class Requests(arrays.Rows):
    """SUBSCRIBEs and anycasts under way: requests for a parent in a stripe."""

    pair: np.ndarray  # the subscriber and the stripe
    at: np.ndarray  # the node (a row) to which the request goes
    sender: np.ndarray
    due: np.ndarray  # the hop in which the request arrives
    how: np.ndarray
    visited: Lists
    todo: Lists


@dataclass(frozen=True)
class Replies(arrays.Rows):
    """Messages that are no requests: kind (in `CONTROL`), and pairs of receiver and sender.

    ``next`` is the sibling that a DROP names, a row, or NONE.
    """

    kind: np.ndarray
    to: np.ndarray
    by: np.ndarray
    next: np.ndarray


class Turn:
    """One request at each of some full nodes, and the nodes' children (pairs).

    ``row`` has the request of each child, ``who`` and ``of`` its node and stripe; ``children`` the
    numbers of children by request and stripe; ``own`` is True for the stripes that the node is
    there for: those rooted there, and the primary one.
    """

    def __init__(self, forest: Forest, asks: Requests, row: np.ndarray, child: np.ndarray) -> None:
        self.asks, self.row, width = asks, row, forest.stripes
        self.newcomer, self.stripe = arrays.divided(asks.pair, width)
        self.who, self.of = arrays.divided(child, width)
        cell = np.bincount(row * width + self.of, minlength=len(asks) * width)
        self.children = cell.reshape(-1, width)
        self.mine = np.arange(len(asks)), self.stripe
        self.rooted = forest.root.reshape(-1, width)[asks.at]
        self.own = self.rooted | (np.arange(width) == forest.primary[asks.at][:, None])


class FreePastry(Forest):
    """Plays the hops of a period, which change the forest, with the policy of FreePastry: rule L6.

    ``counts`` has the numbers of orphans, anycasts, cycles and hops, over all channels.
    """

    #: True if full nodes push children down, which find nodes with spare capacity by anycast.
    spare: ClassVar[bool] = False

    def __init__(self, begun: Channels, b: int, routes: Columns) -> None:
        super().__init__(begun, b, routes)
        self._requests, self._replies = list[Requests](), [Replies(*[arrays.whole_numbers()] * 4)]
        #: by pair: the hop in which it asks, or NONE, and whom: a row, or one of the values above
        self._due, self._whom = np.full((2, len(self.parent)), arrays.NONE)
        self._fails = np.zeros(len(self.parent), dtype=np.int64)
        self._last_hop = np.zeros(len(begun.played), dtype=np.int64)
        self.counts = dict.fromkeys(COUNTED, 0)

    # --- hops and waves

    def play(self) -> None:
        """Play hops until nothing moves."""
        # pairs without a parent forget their former ancestors
        had = np.flatnonzero((self.parent < 0) & (self.ancestors[:, 0] >= 0))
        self.detach(had)
        self.tell_paths(had[self.alive[had // self.stripes]])
        self.enter(self.wave <= 0, 0)
        self.ask()
        while self._goes_on():
            self.hop += 1
            self.tell_paths(self.hear())
            self.go_on(self.answer())
            self.ask()
        self.counts["hops"] = int(self._last_hop.sum())

    def enter(self, rows: np.ndarray, due: int) -> None:
        """Let nodes (a mask) enter the channels; their pairs without a parent ask in hop `due`."""
        self.entered |= rows
        lacks = (self.parent < 0) & ~self.root & np.repeat(rows & self.alive, self.stripes)
        self._due[lacks], self._whom[lacks] = due, _ROOTWARDS

    def _goes_on(self) -> bool:
        """Return True if a channel still moves; let the next wave enter channels at rest: L10."""
        moving = [np.flatnonzero(self._due >= 0), *(one.pair for one in self._requests)]
        moving += [one.to for one in self._replies]
        busy = np.zeros(len(self._last_hop), dtype=bool)
        busy[self.of[np.concatenate(moving) // self.stripes]] = True
        self._last_hop[busy] = self.hop + 1
        outside = np.flatnonzero(~self.entered & ~busy[self.of])
        if len(outside):
            first = outside[arrays.least_of(self.of[outside], self.wave[outside])]
            wave = np.full(len(busy), arrays.NONE)
            wave[self.of[first]] = self.wave[first]
            self.enter(~self.entered & (self.wave == wave[self.of]), self.hop + 1)
        return bool(len(outside) or busy.any())

    # --- 1. replies and paths

    def _send(
        self, kind: str, to: np.ndarray, by: np.ndarray, next: np.ndarray | int = arrays.NONE
    ) -> None:
        """Send replies of a kind to pairs, from the pairs `by` of the same stripes."""
        self.note(kind, by // self.stripes, to // self.stripes)
        self._replies.append(Replies(*np.broadcast_arrays(CONTROL.index(kind), to, by, next)))

    def _reply(self, kind: str, asks: Requests) -> None:
        """Let nodes reply to the requests that are at them."""
        self._send(kind, asks.pair, self.asked(asks.pair, asks.at))

    def hear(self) -> np.ndarray:
        """Handle the replies of the hop before; return pairs whose ancestors have changed: L3."""
        came = Replies.join(*self._replies)
        self._replies = [came.take(slice(0))]
        hears = (came.kind == CONTROL.index("leave")) | self.alive[came.to // self.stripes]
        leaves, acks, drops, paths, fails = (
            came.take(hears & (came.kind == CONTROL.index(kind)))
            for kind in ("leave", "ack", "drop", "path", "fail")
        )
        self.let_go(leaves.by[self.holder[leaves.by] == leaves.to])
        told, changed = (
            np.c_[self.node[one.by // self.stripes], self.ancestors[one.by, :-1]]
            for one in (acks, paths)
        )
        heard = arrays.distinct(np.r_[acks.to, drops.to, paths.to])
        before = self.ancestors[heard]
        self.parent[acks.to], self.ancestors[acks.to], self._fails[acks.to] = acks.by, told, 0
        self.on_drop(drops)
        from_parent = self.parent[paths.to] == paths.by
        self.ancestors[paths.to[from_parent]] = changed[from_parent]
        self._leave_rings(heard)
        self.on_fail(fails)
        heard = heard[(before != self.ancestors[heard]).any(axis=1)]
        if (self.ancestors[heard, -1] >= 0).any():  # keep the last column free
            self.ancestors = np.pad(self.ancestors, ((0, 0), (0, 2)), constant_values=arrays.NONE)
        return heard

    def on_drop(self, drops: Replies) -> None:
        """Let nodes that have lost their parents ask the named sibling, or look for a parent."""
        # one that has left the sender, as the least node of a ring, asks already
        asks = arrays.distinct(np.concatenate([one.pair for one in self._requests]))
        lost = (self.parent[drops.to] < 0) & (arrays.find_sorted(asks, drops.to) < 0)
        drops = drops.take(lost | (self.parent[drops.to] == drops.by))
        self.detach(drops.to)
        self.counts["orphans"] += len(drops)
        without = _ANYBODY if self.spare else _ROOTWARDS
        self._due[drops.to] = self.hop
        self._whom[drops.to] = np.where(drops.next < 0, without, drops.next)

    def on_fail(self, fails: Replies) -> None:
        """Let nodes whose requests found nobody ask again, after longer and longer: rule L9."""
        self._fails[fails.to] += 1
        pair = fails.to[self._fails[fails.to] <= TRIES]
        self._due[pair] = self.hop + np.where(self._fails[pair] <= QUICK_TRIES, SOON, LATER)
        self._whom[pair] = _ROOTWARDS

    def _leave_rings(self, pairs: np.ndarray) -> None:
        """Cut lists of ancestors to rings; the least node of a ring leaves its parent: L3."""
        found = self.ancestors[pairs] == self.node[pairs // self.stripes, None]
        some = np.flatnonzero(found.any(axis=1))
        pairs, found = pairs[some], found[some]
        own, lists = self.node[pairs // self.stripes], self.ancestors[pairs]
        ring = np.arange(lists.shape[1]) <= found.argmax(axis=1)[:, None]
        self.ancestors[pairs] = np.where(ring, lists, arrays.NONE)
        pairs = pairs[np.where(ring, lists, np.iinfo(np.int32).max).min(axis=1) == own]
        self._send("leave", self.parent[pairs], pairs)
        self.detach(pairs)
        self.counts["cycles"] += len(pairs)
        self._due[pairs], self._whom[pairs] = self.hop, _ROOTWARDS

    def tell_paths(self, changed: np.ndarray) -> None:
        """Let pairs, whose ancestors have changed, tell their children the new lists."""
        of, child = self.children_of(changed)
        self._send("path", self.asked(changed[of], child), changed[of])

    # --- 2. requests

    def answer(self) -> Requests:
        """Answer the requests that arrive; return refused ones that go on: L4, L6 and L7."""
        every = Requests.join(*self._requests)
        self._requests = [every.take(every.due > self.hop)]
        came = every.take((every.due == self.hop) & (self.hop < MOST_HOPS))
        who, stripe = np.divmod(came.pair, self.stripes)
        came = came.take(np.lexsort((who, stripe, came.how == SEEKING, came.at)))
        mine, seeks = self.asked(came.pair, came.at), came.how == SEEKING
        own = self.node[came.pair // self.stripes, None]
        is_below = (self.ancestors[mine] == own).any(axis=1)
        # 1. a node takes the first ones, as long as it has room
        able, accepted = ~is_below & self.adopts(came), np.zeros(len(came), dtype=bool)
        at = came.at[able]
        accepted[able] = arrays.index_in_run(at) < (self.bound - self.degree)[at]
        self.hold(came.pair[accepted], mine[accepted])
        self._reply("ack", came.take(accepted))
        # 2. a full node answers as the policy says; one below the subscriber refuses
        refused = self._replace_children(came.take(able & ~seeks & ~accepted))
        below = came.take(is_below & ~seeks)
        by_route = below.how == BY_ROUTE
        self._route(below.pair[by_route], below.at[by_route])
        refused = Requests.join(refused, below.take(~by_route))
        ends = (refused.how == FINAL) | self.spare
        self._reply("drop" if self.spare else "fail", refused.take(ends))
        return Requests.join(refused.take(~ends), came.take(seeks & ~accepted))

    def _replace_children(self, asks: Requests) -> Requests:
        """Let newcomers take the places of children at full nodes; return what goes on."""
        full = arrays.distinct(asks.at)
        of, child = arrays.children_in(self.holder // self.stripes, full)
        offsets = arrays.offsets_of(np.bincount(of, minlength=len(full)))
        placed, lost = np.zeros(len(asks), dtype=bool), asks.pair.copy()
        for some in arrays.turns(asks.at):
            turn, at = asks.take(some), np.searchsorted(full, asks.at[some])
            row, place = arrays.expand(offsets[at], offsets[at + 1])
            chosen = self.choose(Turn(self, turn, row, child[place]))
            placed[some] = takes = chosen >= 0
            lost[some] = np.where(takes, np.append(child[place], arrays.NONE)[chosen], turn.pair)
            child[place[chosen[takes]]] = turn.pair[takes]
        newcomers = asks.take(placed)
        self.hold(newcomers.pair, self.asked(newcomers.pair, newcomers.at))
        self.let_go(lost[placed])
        self._reply("ack", newcomers)
        drops = placed | self.spare  # which pushes newcomers down that are not placed
        pair, at = lost[drops], self.asked(lost[drops], asks.at[drops])
        self._send("drop", pair, at, self.sibling(pair, at))
        return asks.take(~drops)

    def go_on(self, refused: Requests) -> None:
        """Let refused requests go on to the next node of their lists: rules L6 and L8.

        Children are in drawn order.  The parent is the last node; with FreePastry's policy, nodes
        whose primary stripe it is are in front, the parent as the last of them, or else the first
        of the others.
        """
        for some in pieces(_NEIGHBOURS + refused.visited.lengths() + refused.todo.lengths()):
            asks = refused.take(some)
            who, stripe = np.divmod(asks.pair, self.stripes)
            at, parent, row, child = self.around(asks)
            row, child = row[child != who[row]], child[child != who[row]]
            above = np.flatnonzero((parent >= 0) & (parent != who))
            drawn = self.draw(
                "anycast" if self.spare else "child", asks.pair, row, self.number(child)
            )
            drawn = np.r_[drawn, np.zeros(len(above), dtype=drawn.dtype)]
            is_parent = np.arange(len(drawn)) >= len(child)
            row, node = np.r_[row, above], np.r_[child, parent[above]]
            first = ~is_parent if self.spare else self.primary[node] == stripe[row]
            order = order_of_draws(row * 2 + (first == is_parent), drawn)
            row, node, first = row[order], node[order], first[order]
            front, back = (Lists.of(row[one], node[one], len(asks)) for one in (first, ~first))
            visited, todo = visit(asks.visited, asks.todo, at, front, back, len(self.key))
            to, todo = todo.popped()
            how = np.where(to < 0, FINAL, SEEKING if self.spare else FROM_LIST)
            to = np.where(to < 0, self.decider(asks), to)
            self._reply("fail", asks.take(to < 0))
            due = np.full(len(to), self.hop + 1)
            onward = Requests(asks.pair, to, asks.at, due, how, visited, todo).take(to >= 0)
            self.note("anycast" if self.spare else "subscribe", onward.sender, onward.at)
            self._requests.append(onward)

    # --- 3. nodes that wait

    def ask(self) -> None:
        """Let nodes whose hop has come ask for a parent: by route, a sibling, or by anycast."""
        pair = np.flatnonzero(self._due == self.hop)
        self._due[pair] = arrays.NONE
        pair = pair[: len(pair) * (self.hop < MOST_HOPS)]
        whom, who = self._whom[pair], pair // self.stripes
        by_route, direct, seeks = whom == _ROOTWARDS, whom >= 0, whom == _ANYBODY
        self._route(pair[by_route], who[by_route])
        self._requests.append(self._request(FROM_LIST, pair[direct], who[direct], whom[direct]))
        self.note("subscribe", who[direct], whom[direct])
        self.counts["anycasts"] += int(np.count_nonzero(seeks))
        self.go_on(self._request(SEEKING, pair[seeks], who[seeks], who[seeks]))

    def _request(
        self, how: int, pair: np.ndarray, sender: np.ndarray, at: np.ndarray, hops: Any = 1
    ) -> Requests:
        """Return requests with empty lists that reach the nodes `at` after `hops`."""
        due, ways = (np.broadcast_to(one, len(pair)) for one in (self.hop + hops, how))
        empty = Lists.empty(len(pair))
        return Requests(pair, at, sender, due, ways, empty, empty)

    def _route(self, pair: np.ndarray, start: np.ndarray) -> None:
        """Send SUBSCRIBEs from nodes to the next nodes of the route in the channel: rule L5."""
        who, stripe = np.divmod(pair, self.stripes)
        to_root = (self._fails[pair] > 0) & self.spare
        entry, hops, (row, *ends) = self.entries(start, stripe, who, to_root)
        some, lost = entry >= 0, (entry < 0) & (start != who)
        found = some[row]
        self.begun.sent.note("subscribe", self.group[start[row[found]]], *(e[found] for e in ends))
        asks = self._request(BY_ROUTE, pair[some], start[some], entry[some], hops[some])
        self._requests.append(asks)
        self._send("fail", pair[lost], self.asked(pair[lost], start[lost]))

    # --- the policy

    def choose(self, turn: Turn) -> np.ndarray:
        """Return the child (index in the turn) that makes room for each newcomer, or NONE: L6."""
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

    def around(self, asks: Requests) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Return the nodes that requests have visited, their parents, and their children.

        These are by request, perhaps NONE; children have the index of the request.
        """
        mine = self.asked(asks.pair, asks.at)
        parent, (row, child) = self.living_parent(mine), self.children_of(mine)
        good = self.alive[child] & (child != parent[row])
        return asks.at, parent, row[good], child[good]

    def decider(self, asks: Requests) -> np.ndarray:
        """Return the node that must take a subscriber that all refuse; NONE: the request fails."""
        mine = self.asked(asks.pair, asks.at)
        parent = self.living_parent(mine)
        parent[parent == asks.pair // self.stripes] = arrays.NONE
        return np.where(self.root[mine], asks.at, parent)

    def adopts(self, asks: Requests) -> np.ndarray:
        """Return True where a node with room takes the subscriber."""
        return asks.how != SEEKING

    def sibling(self, pair: np.ndarray, by: np.ndarray) -> np.ndarray:
        """Return the sibling (row or NONE) that pairs ask which `by` has dropped."""
        return np.full(len(pair), arrays.NONE)


class SpareCapacity(FreePastry):
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
        """See `FreePastry.choose`; a newcomer without a place is pushed down."""
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
        """See `FreePastry.sibling`: a random one in its primary stripe."""
        found = np.full(len(pair), arrays.NONE)
        row, child = arrays.children_in(np.where(self._in_primary, self.holder, arrays.NONE), by)
        child //= self.stripes
        first = arrays.least_of(row, self.draw("sibling", pair, row, self.number(child)))
        found[row[first]] = child[first]
        return found

    def decider(self, asks: Requests) -> np.ndarray:
        """See `FreePastry.decider`: none."""
        return np.full(len(asks), arrays.NONE)

    def adopts(self, asks: Requests) -> np.ndarray:
        """See `FreePastry.adopts`; an orphan needs a member of the tree that is attached."""
        mine, other = self.asked(asks.pair, asks.at), asks.at != asks.pair // self.stripes
        attached = self.root[mine] | (self.parent[mine] >= 0)
        return super().adopts(asks) | (self.inside[asks.at] & other & attached)

    def around(self, asks: Requests) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """See `FreePastry.around`; both are those in the tree.

        A node outside of the tree does not count as visited (NONE); an anycast climbs from it,
        unless it has been in the tree.
        """
        inside = self.inside[asks.at]
        climbs = inside | (asks.visited.lengths() == 0)
        row, child = arrays.children_in(np.where(self.inside, self.above, arrays.NONE), asks.at)
        row, child = row[inside[row]], child[inside[row]]
        parent = np.where(climbs, self.above[asks.at], arrays.NONE)
        return np.where(inside, asks.at, arrays.NONE), parent, row, child

    # --- the tree of the spare group

    def enter(self, rows: np.ndarray, due: int) -> None:
        """See `FreePastry.enter`; also find the parents of nodes in the spare group's tree."""
        super().enter(rows, due)
        rows = np.flatnonzero(self.alive & self.entered & ~self.spare_root)
        to_spare = np.full(len(rows), self.stripes)
        self.above[rows] = self.entries(rows, to_spare, rows, rows < 0)[0]

    def ask(self) -> None:
        """See `FreePastry.ask`; then nodes join and leave the spare group's tree."""
        super().ask()
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
POLICIES: dict[str, type[FreePastry]] = {FREEPASTRY: FreePastry, SPARE: SpareCapacity}
