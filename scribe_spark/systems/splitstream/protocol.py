"""The protocol of SplitStream, hop by hop, and the policies of full nodes: rules L2 to L10.

All messages take one hop, and all nodes play a hop at once: replies, then requests; those that are
refused go on.  Messages at one node are answered one after the other: a *turn* has one request of
each node.  The policies are those of FreePastry (``SplitStreamScribePolicy``) and of Mace
(``splitstream.mac``), which has the paper's spare-capacity group (Section 3.3).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from scribe_spark.core import arrays, draws
from scribe_spark.core import u128 as ids
from scribe_spark.core.arrays import NONE, children_in, distinct, divided, find_sorted
from scribe_spark.core.errors import InputError
from scribe_spark.core.lists import Lists, pieces, visit
from scribe_spark.engine import Columns
from scribe_spark.pastry.routes import Routes
from scribe_spark.systems.splitstream import CONTROL, MOST_TIGHT, SPARE, SPARE_PLACES
from scribe_spark.systems.splitstream.channels import ChannelNodes, Channels, ids_of, width_of

#: Room of a node without a bound.
ENDLESS = 2**40

#: The number of hops of a period in which nodes ask (settled).
MOST_HOPS = 3000

#: Hops until a node asks again after a FAIL; after so many FAILs, it asks more slowly, and then no
#: more in the period (settled).
SOON, LATER, QUICK_TRIES, TRIES = 1, 5, 5, 30

#: The kinds of messages: replies, in the order of `CONTROL` and in which nodes hear them, then
#: requests by Pastry's route, from a node's list, to a node that has to decide, as the list is
#: empty, as an anycast, and one that waits at the subscriber.
LEAVE, ACK, DROP, PATH, FAIL, BY_ROUTE, FROM_LIST, FINAL, SEEKING, WAITING = range(10)

#: Ranks of children that make room: of stripes that the node is there for, and of those that stay.
_OWN, _NEVER = 2**60, 2**62

#: The number of nodes that a refused request is thought to add to its list, to bound the memory.
_NEIGHBOURS = 2**8


@dataclass(frozen=True)
class Messages(arrays.Rows):
    """Messages under way: requests of pairs to nodes, and replies, of which a LEAVE is a pair's."""

    kind: np.ndarray
    pair: np.ndarray  # the node that has asked, and the stripe
    at: np.ndarray  # the node (a row) to which a request goes, or that replies
    third: np.ndarray  # the node (a row) that sends a request, or that a DROP names
    due: np.ndarray  # the hop in which the message arrives
    visited: Lists
    todo: Lists


class Hops:
    """The trees of the channels that are played, and the hops that change them.

    Nodes are rows, ascending by (group, position); a *pair* is a node and a stripe, ``row * S +
    stripe``.  ``here`` marks live nodes whose `wave` has come.  By pair, ``parent`` has the node
    that it knows as its parent, ``holder`` the pair that has it as a child: they differ while a
    message is under way.  ``ancestors`` (positions) are as last heard; the last column is free.

    The tree of the spare group consists of Pastry's routes from its members to its id: ``above``
    has the next node of the channel on these routes, and ``inside`` marks the nodes in the tree.
    """

    def __init__(self, begun: Channels, b: int, routes: Columns) -> None:
        rules, period, self.b, self.hop = begun.rules, begun.period, b, -1
        self.begun, self.period, self.network = begun, period, period.network
        self.spare, self.stripes = rules.policy == SPARE, rules.stripes
        mine = find_sorted(begun.played, begun.nodes.key // begun.size) >= 0
        self.nodes = nodes = begun.nodes.take(mine)
        self._resting, self.wave = begun.nodes.take(~mine), np.maximum(begun.wave[mine], 0)
        self.group, self.node = divided(nodes.key, begun.size)
        self.of, self.number = (
            find_sorted(begun.played, self.group),
            self.network.ring.node[self.node],
        )
        self._ids, self._width = ids_of(rules, period.keys(begun.played)), width_of(rules)
        self._routes = Routes(routes, begun.size, self._width)
        self.bound = np.full(len(nodes), rules.bound or ENDLESS)
        if self.network.capacity is not None:
            self.bound = self.network.capacity[self.node]
            self._refuse_few_places()
        digits = self.network.ring.hi[self.node] >> np.uint64(65 - self.stripes.bit_length())
        self.primary = digits.astype(np.int64)
        self.root = nodes.root[:, : self.stripes].ravel()
        self.spare_root = nodes.root[:, self.stripes :].any(axis=1)
        above = nodes.above(begun.size)
        pair = above * self.stripes + np.arange(self.stripes)
        self.parent, self.holder = above.ravel(), np.where(above < 0, NONE, pair).ravel()
        lists = np.pad(nodes.ancestors, ((0, 0), (0, 0), (0, 1)), constant_values=NONE)
        self.ancestors = lists.reshape(above.size, lists.shape[2])
        self.above, (self.inside, self.here) = (
            self.of * 0 + NONE,
            np.zeros((2, len(nodes)), dtype=bool),
        )
        self._mail = list[Messages]()
        self._fails, self._last_hop = np.zeros_like(self.parent), np.zeros_like(begun.played)

    def _refuse_few_places(self) -> None:
        """Refuse limits of nodes with which not all members of a large channel would be placed."""
        nodes, least = np.bincount(self.of), self.stripes + SPARE_PLACES
        mean = (np.bincount(self.of, weights=self.bound) / nodes)[nodes > MOST_TIGHT]
        if (mean < least).any():
            remedy = f"must be {least} or more with more than {MOST_TIGHT:,} members"
            raise InputError(
                "mean of capacities", float(mean.min()), f"{remedy}; not all would be placed"
            )

    def draw(self, what: str, pair: np.ndarray, of: np.ndarray, number: np.ndarray) -> np.ndarray:
        """Return draws in this hop, keyed by ``pair[of]`` (node and stripe) and by `number`."""
        who, stripe = divided(pair, self.stripes)
        key = self.period.group_number[self.group[who]], self.period.number, self.hop, stripe
        found = draws.bits_np(self.network.seed, f"splitstream {what}", *key, self.number[who])
        return draws.more_bits(found[of], number)

    def match(self, row: np.ndarray, stripe: np.ndarray) -> np.ndarray:
        """Return how many first digits nodeIds of rows share with the ids of stripes."""
        ring, at = self.network.ring, self.node[row]
        key = self._ids.take(self.of[row] * self._width + stripe)
        return ids.shared_digits_np(ring.hi[at], ring.lo[at], key.hi, key.lo, self.b)

    def asked(self, pair: np.ndarray, at: np.ndarray) -> np.ndarray:
        """Return the pairs of the nodes `at` (rows) and the stripes of `pair`."""
        return at * self.stripes + pair % self.stripes

    def room(self) -> np.ndarray:
        """Return how many more children nodes take over all stripes."""
        parents = self.holder[self.holder >= 0] // self.stripes
        return self.bound - np.bincount(parents, minlength=len(self.bound))

    # --- hops and waves

    def play(self) -> ChannelNodes:
        """Play hops until nothing moves; return the nodes of all channels of the builder."""
        while self._begin_hop():
            self.hear()
            self.answer()
            if self.spare:
                self._change_spare_tree()
        self.period.counts["hops"] += int(self._last_hop.sum())
        nodes, parent = self.nodes, self.node[self.holder // self.stripes]
        parent = np.where(self.holder < 0, NONE, parent).astype(np.int32)
        nodes.parent = parent.reshape(nodes.parent.shape)
        nodes.ancestors = self.ancestors.reshape(*nodes.parent.shape, self.ancestors.shape[1])
        every = ChannelNodes.join(self._resting, nodes)
        width = (every.ancestors >= 0).sum(axis=2).max(initial=1)
        every.ancestors = every.ancestors[:, :, :width]
        return every.take(np.argsort(every.key, kind="stable"))

    def _begin_hop(self) -> bool:
        """Begin a hop if a channel still moves; let the next wave enter channels at rest: L10."""
        self.hop += 1
        moving = [self.of[:0], *(one.pair for one in self._mail)]
        busy = np.zeros(len(self._last_hop), dtype=bool)
        busy[self.of[np.concatenate(moving) // self.stripes]] = True
        self._last_hop[busy] = self.hop
        waits = np.flatnonzero((self.wave >= 0) & ~busy[self.of])
        if len(waits):
            wave = np.full(len(busy), np.iinfo(np.int64).max)
            np.minimum.at(wave, self.of[waits], self.wave[waits])
            enters = self.wave == wave[self.of]
            self.wave[enters] = NONE
            self.here = self.period.alive[self.node] & (self.wave < 0)
            lacks = (self.parent < 0) & ~self.root & np.repeat(enters & self.here, self.stripes)
            self._wait(np.flatnonzero(lacks), 0)
            some = np.flatnonzero(self.here & ~self.spare_root & self.spare)
            self.above[some] = self._entries(some, some, np.full(len(some), self.stripes))[0]
        return bool(len(waits) or busy.any())

    # --- what nodes send

    def _entries(self, start: np.ndarray, who: np.ndarray, stripe: np.ndarray) -> Any:
        """Return the first other nodes (rows) in the channel on routes, as `Routes.follow` does.

        With the spare group, the root of the stripe is the only one after a FAIL.
        """
        group, pair = self.group[start], self.asked(stripe, who)
        to_root = (self._fails[pair] > 0) & (stripe < self.stripes) & self.spare

        def meets(index: np.ndarray, node: np.ndarray) -> np.ndarray:
            found = self.nodes.find(group[index] * self.begun.size + node)
            fits = (found >= 0) & self.here[found] & (found != start[index]) & (found != who[index])
            fits &= ~to_root[index] | self.root[self.asked(pair[index], found)]
            return np.where(fits, found, NONE)

        return self._routes.follow(group, self.node[start], stripe, meets)

    def _route(self, pair: np.ndarray, start: np.ndarray) -> None:
        """Send SUBSCRIBEs from nodes to the next nodes of the route in the channel: rule L5."""
        who, stripe = divided(pair, self.stripes)
        entry, hops, (row, *ends) = self._entries(start, who, stripe)
        some, lost = entry >= 0, (entry < 0) & (start != who)
        found = some[row]
        self.begun.sent.note("subscribe", self.group[start[row[found]]], *(e[found] for e in ends))
        self._send(BY_ROUTE, pair[some], entry[some], start[some], hops[some])
        self._reply(FAIL, pair[lost], start[lost])

    def _send(
        self, kind: Any, pair: np.ndarray, at: np.ndarray, third: Any = NONE, hops: Any = 1
    ) -> None:
        """Let messages with empty lists arrive after some hops."""
        columns = np.broadcast_arrays(kind, pair, at, third, self.hop + hops)
        self._mail.append(Messages(*columns, *[Lists.empty(len(pair))] * 2))

    def _reply(self, kind: int, pair: np.ndarray, at: np.ndarray, third: Any = NONE) -> None:
        """Let nodes `at` reply to pairs; a LEAVE goes the other way."""
        ends = at, pair // self.stripes
        self.note(CONTROL[kind], *(ends[::-1] if kind == LEAVE else ends))
        self._send(kind, pair, at, third)

    def _wait(self, pair: np.ndarray, hops: Any) -> None:
        """Let pairs ask for a parent by Pastry's route, after some hops."""
        self._send(WAITING, pair, pair // self.stripes, hops=hops)

    def _due(self, replies: bool) -> Messages:
        """Return the replies, or the requests, that arrive in this hop."""
        every = Messages.join(*self._mail)
        mine = (every.due == self.hop) & ((every.kind < BY_ROUTE) == replies)
        self._mail = [every.take(~mine)]
        return every.take(mine)

    def note(self, kind: str, sender: np.ndarray, to: np.ndarray) -> None:
        """Count messages of a kind between rows."""
        self.begun.sent.note(kind, self.group[sender], self.node[sender], self.node[to])

    # --- 1. replies and paths

    def hear(self) -> None:
        """Handle the replies of the hop before: rules L3 and L9."""
        came = self._due(replies=True)
        came = came.take((came.kind == LEAVE) | self.here[came.pair // self.stripes])
        leaves, acks, drops, paths, fails = (came.take(came.kind == kind) for kind in range(5))
        is_child = self.holder[leaves.pair] == self.asked(leaves.pair, leaves.at)
        self.holder[leaves.pair[is_child]] = NONE
        told = Messages.join(acks, paths)
        lists = np.c_[self.node[told.at], self.ancestors[self.asked(told.pair, told.at), :-1]]
        had = np.flatnonzero((self.parent < 0) & (self.ancestors[:, 0] >= 0))
        heard = distinct(np.r_[had, told.pair, drops.pair])
        before = self.ancestors[heard]
        self.ancestors[had] = NONE
        self.parent[acks.pair], self._fails[acks.pair] = acks.at, 0
        self._lose_parents(drops)
        by_parent = self.parent[told.pair] == told.at
        self.ancestors[told.pair[by_parent]] = lists[by_parent]
        self._leave_rings(heard)
        # after a FAIL a node asks again, after longer and longer
        self._fails[fails.pair] += 1
        again = fails.pair[self._fails[fails.pair] <= TRIES]
        self._wait(again, np.where(self._fails[again] <= QUICK_TRIES, SOON, LATER))
        # nodes whose ancestors have changed tell their children
        changed = (before != self.ancestors[heard]).any(axis=1)
        if (self.ancestors[heard, -1] >= 0).any():  # keep the last column free
            self.ancestors = np.pad(self.ancestors, ((0, 0), (0, 2)), constant_values=NONE)
        heard = heard[changed & self.here[heard // self.stripes]]
        of, child = children_in(self.holder, heard)
        self._reply(PATH, child, heard[of] // self.stripes)

    def _lose_parents(self, drops: Messages) -> None:
        """Let nodes that are dropped ask the named sibling, or look for a parent."""
        # one that has left the sender, as the least node of a ring, asks already
        asks = distinct(self._mail[0].pair)
        lost = (self.parent[drops.pair] < 0) & (find_sorted(asks, drops.pair) < 0)
        drops = drops.take(lost | (self.parent[drops.pair] == drops.at))
        self.parent[drops.pair], self.ancestors[drops.pair] = NONE, NONE
        self.period.counts["orphans"] += len(drops)
        direct, who = (drops.third >= 0) & (self.hop < MOST_HOPS), drops.pair // self.stripes
        to, how = np.where(direct, drops.third, who), SEEKING if self.spare else WAITING
        self._send(np.where(direct, FROM_LIST, how), drops.pair, to, who, direct)
        self.note("subscribe", who, to)

    def _leave_rings(self, pairs: np.ndarray) -> None:
        """Cut lists of ancestors to rings; the least node of a ring leaves its parent: L3."""
        found = self.ancestors[pairs] == self.node[pairs // self.stripes, None]
        some = np.flatnonzero(found.any(axis=1))
        pairs, last = pairs[some], found[some].argmax(axis=1)
        lists = self.ancestors[pairs]
        lists[np.arange(lists.shape[1]) > last[:, None]] = NONE
        self.ancestors[pairs] = lists
        least = np.where(lists < 0, np.iinfo(np.int32).max, lists).min(axis=1)
        pairs = pairs[least == self.node[pairs // self.stripes]]
        self._reply(LEAVE, pairs, self.parent[pairs])
        self.parent[pairs], self.ancestors[pairs] = NONE, NONE
        self.period.counts["cycles"] += len(pairs)
        self._wait(pairs, 0)

    # --- 2. requests

    def answer(self) -> None:
        """Answer the requests that arrive; refused ones go on: rules L4 to L8."""
        came = self._due(replies=False)
        came = came.take(slice(len(came) * (self.hop < MOST_HOPS)))
        who, stripe = divided(came.pair, self.stripes)
        order = np.lexsort((who, stripe, came.kind == SEEKING, came.at))
        came, who = came.take(order), who[order]
        mine, seeks = self.asked(came.pair, came.at), came.kind == SEEKING
        is_below = (self.ancestors[mine] == self.node[who, None]).any(axis=1)
        self.period.counts["anycasts"] += int(np.count_nonzero(seeks & (came.at == came.third)))
        # 1. who waits asks; a request on its way to the root passes nodes below the subscriber
        passes = (came.kind == WAITING) | (is_below & (came.kind == BY_ROUTE))
        self._route(came.pair[passes], came.at[passes])
        # 2. a node takes the first ones, as long as it has room; it takes an orphan if it is
        # attached, and in the tree of the spare group
        attached = self.root[mine] | (self.parent[mine] >= 0)
        able = ~seeks | (self.inside[came.at] & (came.at != who) & attached)
        able &= ~is_below & ~passes
        accepted, at = np.zeros_like(able), came.at[able]
        accepted[able] = arrays.index_in_run(at) < self.room()[at]
        self.holder[came.pair[accepted]] = mine[accepted]
        self._reply(ACK, came.pair[accepted], came.at[accepted])
        # 3. a full node answers as the policy says; one below the subscriber refuses
        full, refused = able & ~seeks & ~accepted, ~accepted & ~passes
        refused[full] = self._make_room(came.take(full))
        ends = refused & ~seeks & (self.spare | (came.kind == FINAL))
        self._reply(DROP if self.spare else FAIL, came.pair[ends], came.at[ends])
        self._go_on(came.take(refused & ~ends))

    def _make_room(self, asks: Messages) -> np.ndarray:
        """Let newcomers take the places of children at full nodes; return a mask of the refused."""
        full = distinct(asks.at)
        of, child = children_in(self.holder // self.stripes, full)
        offsets = arrays.offsets_of(np.bincount(of, minlength=len(full)))
        lost = np.full(len(asks), NONE)  # the newcomer itself, if it is pushed down
        for some in arrays.turns(asks.at):
            turn, at = asks.take(some), np.searchsorted(full, asks.at[some])
            row, place = arrays.expand(offsets[at], offsets[at + 1])
            pairs = np.r_[child[place], turn.pair]
            chosen = self._choose(turn, np.r_[row, np.arange(len(turn))], pairs)
            lost[some] = np.append(pairs, NONE)[chosen]
            takes = (chosen >= 0) & (chosen < len(place))
            child[place[chosen[takes]]] = turn.pair[takes]
        new = asks.take((lost >= 0) & (lost != asks.pair))
        self.holder[new.pair] = self.asked(new.pair, new.at)
        self._reply(ACK, new.pair, new.at)
        pair, at = lost[lost >= 0], asks.at[lost >= 0]
        self.holder[pair] = NONE
        self._reply(DROP, pair, at, self._sibling(pair, at) if self.spare else NONE)
        return lost < 0

    def _choose(self, asks: Messages, row: np.ndarray, pair: np.ndarray) -> np.ndarray:
        """Return which of the pairs leaves each full node (an index in `pair`), or NONE: L6, L7.

        The pairs are the nodes' children, `row` the index of the request, and last the newcomers.
        """
        (who, of), at = divided(pair, self.stripes), asks.at[row]
        newcomer, stripe = divided(asks.pair[row], self.stripes)
        cell, new = row * self.stripes + of, slice(len(row) - len(asks), None)
        number, same = np.bincount(cell)[cell], of == stripe
        is_root, is_primary = self.root[self.asked(pair, at)], of == self.primary[at]
        own = is_root | is_primary
        # 1. the least rank: stripes that the node is there for come last, the largest first
        last = np.where(number > 1, _OWN - number * self.stripes, _NEVER)
        if self.spare:
            rank = np.where(own, last, 0) + (of - stripe) % self.stripes
            rank[new][~own[new]] = -1
        else:
            final = (asks.kind == FINAL)[row]
            takes = np.where(final, is_root[new][row], own[new][row])
            frees = takes & (final | (number[new] == 1)[row]) & ~same
            drawn = self.draw("stripe", asks.pair, row, of) >> np.uint64(4)
            rank = np.where(frees, np.where(own, last + of, drawn.astype(np.int64)), _NEVER)
            some = np.flatnonzero(same & takes & ~final)
            less = self.match(who[some], of[some]) < self.match(newcomer[some], of[some])
            rank[some[less]] = 0
            rank[final & same & (who == asks.third[row])] = _NEVER - 1
        best = np.full(len(asks), _NEVER)
        np.minimum.at(best, row, rank)
        # 2. a random one; with the spare group, the worst match in the primary stripe
        some = np.flatnonzero((rank == best[row]) & (rank < _NEVER))
        row, who = row[some], who[some]
        drawn = self.draw("drop", asks.pair, row, self.number[who])
        worst = np.flatnonzero(is_primary[some] & self.spare)
        drawn[worst] = self.match(who[worst], of[some[worst]]) << 32 | who[worst]
        first = draws.order_of_draws(row, drawn)
        first = first[arrays.run_starts(row[first])]
        chosen = np.arange(new.start, len(pair)) if self.spare else np.full(len(asks), NONE)
        chosen[row[first]] = some[first]
        return chosen

    def _sibling(self, pair: np.ndarray, at: np.ndarray) -> np.ndarray:
        """Return a random sibling in its primary stripe, or NONE, for pairs that `at` drops: L7."""
        row, child = children_in(self.holder, self.asked(pair, at))
        child, stripe = divided(child, self.stripes)
        fits = self.here[child] & (self.primary[child] == stripe)
        row, child, found = row[fits], child[fits], np.full(len(pair), NONE)
        first = arrays.least_of(row, self.draw("sibling", pair, row, self.number[child]))
        found[row[first]] = child[first]
        return found

    def _go_on(self, refused: Messages) -> None:
        """Let refused requests go on to the next node of their lists: rules L6 and L8.

        Children are in drawn order, the parent is the last node; with FreePastry's policy, nodes in
        their primary stripe are in front, the parent as the last of them, or else the first of the
        others.  Anycasts go through the tree of the spare group, and climb to it from outside.
        """
        for some in pieces(_NEIGHBOURS + refused.visited.lengths() + refused.todo.lengths()):
            asks = refused.take(some)
            (who, stripe), at = divided(asks.pair, self.stripes), asks.at
            mine, seen = self.asked(asks.pair, at), at
            if self.spare:
                inside = self.inside[at]
                row, child = children_in(np.where(self.inside, self.above, NONE), at)
                parent = np.where(inside | (asks.visited.lengths() == 0), self.above[at], NONE)
                seen = np.where(inside, at, NONE)
            else:
                row, child = children_in(self.holder, mine)
                child, parent = child // self.stripes, self.parent[mine]
                parent[~self.here[parent]] = NONE
            parent[parent == who] = NONE
            good = self.here[child] & (child != parent[row]) & (child != who[row])
            up = np.flatnonzero(parent >= 0)
            of, node = np.r_[row[good], up], np.r_[child[good], parent[up]]
            is_parent = np.arange(len(of)) >= len(of) - len(up)
            first = ~is_parent if self.spare else self.primary[node] == stripe[of]
            what = "anycast" if self.spare else "child"
            drawn = self.draw(what, asks.pair, of, self.number[node])
            order = draws.order_of_draws(of * 2 + (first == is_parent), drawn)
            of, node, first = of[order], node[order], first[order]
            front, back = (Lists.of(of[one], node[one], len(asks)) for one in (first, ~first))
            visited, todo = visit(asks.visited, asks.todo, seen, front, back, len(self.nodes))
            to, todo = todo.popped()
            kind = np.where(to < 0, FINAL, SEEKING if self.spare else FROM_LIST)
            # the root decides about a request without a list, or the parent of the last node
            last = np.where(self.root[mine], at, parent) if not self.spare else NONE
            to = np.where(to < 0, last, to)
            self._reply(FAIL, asks.pair[to < 0], at[to < 0])
            onward = Messages(kind, asks.pair, to, at, asks.due + 1, visited, todo).take(to >= 0)
            self.note("anycast" if self.spare else "subscribe", onward.third, onward.at)
            self._mail.append(onward)

    def _change_spare_tree(self) -> None:
        """Let nodes with room, and the nodes above them, be in the spare group's tree: rule L8."""
        self.inside = self.here & self.spare_root
        below = np.flatnonzero(self.here & (self.room() > 0))
        while len(below):
            self.inside[below] = True
            above = distinct(self.above[below])
            above = above[above >= 0]
            below = above[~self.inside[above]]
        old = self.nodes.spare_parent
        new = np.where(self.inside & (self.above >= 0), self.node[self.above], NONE)
        new = np.where(self.here, new, old)
        for kind, parent in (("spare_leave", old), ("spare_join", new)):
            some = (old != new) & (parent >= 0)
            self.begun.sent.note(kind, self.group[some], self.node[some], parent[some])
        self.nodes.spare_parent = new
