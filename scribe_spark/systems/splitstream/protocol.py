"""The protocol of SplitStream, hop by hop, and the policies of full nodes: rules L2 to L10.

All messages take one hop, and all nodes play a hop at once: replies, then new paths, then requests,
then refused requests go on, then nodes that wait ask.  Requests at one node are answered one after
the other: a *turn* has one request of each node.

The policies are those of FreePastry (``SplitStreamScribePolicy``) and of Mace
(``splitstream.mac``), which has the paper's spare-capacity group (Section 3.3).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from scribe_spark.core import arrays
from scribe_spark.core.draws import order_of_draws
from scribe_spark.core.lists import Lists, pieces, visit
from scribe_spark.systems.splitstream import (
    ACK,
    ANYCAST,
    CONTROL,
    DROP,
    FAIL,
    LEAVE,
    PATH,
    SPARE,
    SPARE_JOIN,
    SPARE_LEAVE,
    SUBSCRIBE,
)
from scribe_spark.systems.splitstream.forest import Forest

# --- the policies of full nodes

#: How a request came: by Pastry's route; from a node's list; to a node that has to decide, as the
#: list is empty; as an anycast.
BY_ROUTE, FROM_LIST, FINAL, SEEKING = range(4)


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


class FullNodes:
    """The children of full nodes; each child is a *place* that a newcomer may take."""

    def __init__(self, forest: Forest, rows: np.ndarray) -> None:
        self._rows = arrays.distinct(rows)
        of, self.child = arrays.children_in(forest.holder // forest.stripes, self._rows)
        self._offsets = arrays.offsets_of(np.bincount(of, minlength=len(self._rows)))

    def places_of(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the places (children) of nodes: the index in `rows`, and the place."""
        at = np.searchsorted(self._rows, rows)
        return arrays.expand(self._offsets[at], self._offsets[at + 1])


class Turn:
    """One request at each of some full nodes, with the children of these nodes.

    ``children`` has their numbers by request and stripe; ``own`` is True for the stripes that the
    node is there for: those rooted there, and the primary one.
    """

    def __init__(self, forest: Forest, full: FullNodes, asks: Requests, some: Any) -> None:
        self.pair, self.at = asks.pair[some], asks.at[some]
        self.how, self.sender = asks.how[some], asks.sender[some]
        self.index, width = np.arange(len(self.pair)), forest.stripes
        self.who, self.stripe = arrays.divided(self.pair, width)
        self.row, self.place = full.places_of(self.at)
        self.child, self.of = arrays.divided(full.child[self.place], width)
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
        stripe, row, chosen = turn.stripe, turn.row, np.full(len(final), arrays.NONE)
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
        some = some[arrays.least_of(row[some], drawn)]
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
        found = np.where(children.max(axis=1) > 1, children.argmax(axis=1), arrays.NONE)
        row, stripe = np.nonzero((children > 0) & ~turn.own)
        first = arrays.least_of(row, self.forest.draw("stripe", turn.pair, row, stripe))
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
        parent[parent == asks.pair // self.forest.stripes] = arrays.NONE
        return np.where(self.forest.root[mine], asks.at, parent)


class SpareCapacity:
    """A full node pushes a child down, which finds a member of the spare group: rules L7 and L8.

    The tree of the spare group consists of Pastry's routes from its members, which have room, to
    its id, as Scribe's trees do.  ``parent`` has the next node of the channel on these routes, a
    row; ``inside`` is True for the nodes in the tree.
    """

    def __init__(self, forest: Forest) -> None:
        self.forest = forest
        self.inside, self.parent = (
            np.zeros(len(forest), dtype=bool),
            np.full(len(forest), arrays.NONE),
        )
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
        gives[np.where(is_other, gives == stripe, crowd.max(axis=1) == 0)] = arrays.NONE  # itself
        # 2. a random child, perhaps the newcomer; in the primary stripe the worst match
        here, with_new = np.flatnonzero(turn.of == gives[row]), np.flatnonzero(gives == stripe)
        by, child = np.r_[row[here], with_new], np.r_[turn.child[here], turn.who[with_new]]
        place = np.r_[turn.place[here], np.full(len(with_new), arrays.NONE)]
        drawn = forest.draw("drop", turn.pair, by, forest.number(child))
        worst = (~is_other & (gives == forest.primary[turn.at]))[by]
        match = forest.match(child[worst], gives[by[worst]])
        drawn[worst] = match << 32 | child[worst]  # the least node of equals
        order = np.argsort(by, kind="stable")
        first, chosen = (
            order[arrays.least_of(by[order], drawn[order])],
            np.full(len(index), arrays.NONE),
        )
        chosen[by[first]] = place[first]
        return chosen

    def sibling(self, pair: np.ndarray, by: np.ndarray) -> np.ndarray:
        """Return a sibling (row or NONE) in its primary stripe, for pairs that `by` has dropped."""
        forest, found = self.forest, np.full(len(pair), arrays.NONE)
        row, child = arrays.children_in(np.where(self._in_primary, forest.holder, arrays.NONE), by)
        child //= forest.stripes
        first = arrays.least_of(row, forest.draw("sibling", pair, row, forest.number(child)))
        found[row[first]] = child[first]
        return found

    def decider(self, asks: Requests) -> np.ndarray:
        """Return NONE for each request: if an anycast finds nobody, it fails."""
        return np.full(len(asks), arrays.NONE)

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
            above = arrays.distinct(self.parent[below])
            above = above[above >= 0]
            below = above[~inside[above]]
        self.inside = inside
        to = np.where(inside & (self.parent >= 0), forest.node[self.parent], arrays.NONE)
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
        row, child = arrays.children_in(np.where(self.inside, self.parent, arrays.NONE), asks.at)
        good = inside[row] & (child != who[row])
        row, child = row[good], child[good]
        drawn = forest.draw("anycast", asks.pair, row, forest.number(child))
        order = order_of_draws(row, drawn)
        climbs = inside | (asks.visited.lengths() == 0)
        above = np.flatnonzero((parent >= 0) & (parent != who) & climbs)
        front = Lists.of(row[order], child[order], count)
        back = Lists.of(above, parent[above], count)
        return np.where(inside, asks.at, arrays.NONE), front, back


# --- the hops

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
class Replies(arrays.Rows):
    """Messages that are no requests: kind (in `CONTROL`), and pairs of receiver and sender.

    ``next`` is the sibling that a DROP names, a row, or NONE.
    """

    kind: np.ndarray
    to: np.ndarray
    by: np.ndarray
    next: np.ndarray


class Hops:
    """Plays the hops of a period, which change the forest.

    ``counts`` has the numbers of orphans, anycasts, cycles and hops, over all channels.
    """

    def __init__(self, forest: Forest) -> None:
        self.forest = forest
        self.spare = SpareCapacity(forest) if forest.rules.policy == SPARE else None
        self.policy = self.spare or FreePastry(forest)
        self._requests, self._replies = list[Requests](), [Replies(*[arrays.whole_numbers()] * 4)]
        #: by pair: the hop in which it asks, or NONE, and whom: a row, or one of the values above
        self._due, self._whom = np.full((2, len(forest.parent)), arrays.NONE)
        self._fails = np.zeros(len(forest.parent), dtype=np.int64)
        self._last_hop = np.zeros(forest.channels, dtype=np.int64)
        self.counts = {"orphans": 0, "anycasts": 0, "cycles": 0}

    def play(self) -> None:
        """Play hops until nothing moves."""
        forest = self.forest
        self.tell_paths(self._forgotten_paths())
        self._enter(forest.wave <= 0, 0)
        self.ask()
        while self._goes_on():
            forest.hop += 1
            self.tell_paths(self.hear())
            self.go_on(self.answer(self._arrived()))
            self.ask()
        self.counts["hops"] = int(self._last_hop.sum())

    # --- waves

    def _enter(self, rows: np.ndarray, due: int) -> None:
        """Let nodes (a mask) enter the channels; their pairs without a parent ask in hop `due`."""
        forest = self.forest
        forest.entered |= rows
        lacks = (forest.parent < 0) & ~forest.root
        lacks &= np.repeat(rows & forest.alive, forest.stripes)
        self._wait(np.flatnonzero(lacks), due, _ROOTWARDS)
        if self.spare:
            self.spare.enter()

    def _goes_on(self) -> bool:
        """Return True if a channel still moves; let the next wave enter channels at rest: L10."""
        forest = self.forest
        moving = [np.flatnonzero(self._due >= 0), *(one.pair for one in self._requests)]
        moving += [one.to for one in self._replies]
        busy = np.zeros(forest.channels, dtype=bool)
        busy[forest.of[np.concatenate(moving) // forest.stripes]] = True
        self._last_hop[busy] = forest.hop + 1
        outside = np.flatnonzero(~forest.entered & ~busy[forest.of])
        if len(outside):
            first = outside[arrays.least_of(forest.of[outside], forest.wave[outside])]
            wave = np.full(forest.channels, arrays.NONE)
            wave[forest.of[first]] = forest.wave[first]
            self._enter(~forest.entered & (forest.wave == wave[forest.of]), forest.hop + 1)
        return bool(len(outside) or busy.any())

    # --- messages

    def _send(
        self, kind: str, to: np.ndarray, by: np.ndarray, next: np.ndarray | int = arrays.NONE
    ) -> None:
        """Send replies of a kind to pairs, from the pairs `by` of the same stripes."""
        self.forest.note(kind, by // self.forest.stripes, to // self.forest.stripes)
        rows = np.broadcast_arrays(CONTROL.index(kind), to, by, next)
        self._replies.append(Replies(*rows))

    def _reply(self, kind: str, asks: Requests) -> None:
        """Let nodes reply to the requests that are at them."""
        self._send(kind, asks.pair, self.forest.asked(asks.pair, asks.at))

    def _request(
        self,
        how: int | np.ndarray,
        pair: np.ndarray,
        sender: np.ndarray,
        at: np.ndarray,
        hops: int | np.ndarray = 1,
        lists: tuple[Lists, Lists] | None = None,
    ) -> Requests:
        """Return requests that reach the nodes `at` after `hops`; `lists` has nodes to ask."""
        due, how = (np.broadcast_to(one, len(pair)) for one in (self.forest.hop + hops, how))
        empty = Lists.empty(len(pair))
        return Requests(pair, at, sender, due, how, *(lists or (empty, empty)))

    def _wait(self, pair: np.ndarray, due: np.ndarray | int, whom: np.ndarray | int) -> None:
        """Let pairs ask `whom` for a parent in hop `due`: a row, `_ROOTWARDS` or `_ANYBODY`."""
        self._due[pair], self._whom[pair] = due, whom

    def _arrived(self) -> Requests:
        """Return the requests that arrive in this hop; none after the last hop."""
        hop, every = self.forest.hop, Requests.join(*self._requests)
        self._requests = [every.take(every.due > hop)]
        return every.take((every.due == hop) & (hop < MOST_HOPS))

    # --- 1. replies

    def hear(self) -> np.ndarray:
        """Handle the replies of the hop before; return pairs whose ancestors have changed: L3."""
        forest, came = self.forest, Replies.join(*self._replies)
        self._replies = [came.take(slice(0))]
        leaves, *others = (
            came.take(came.kind == CONTROL.index(kind)) for kind in (LEAVE, ACK, DROP, PATH, FAIL)
        )
        forest.let_go(leaves.by[forest.holder[leaves.by] == leaves.to])
        acks, drops, paths, fails = (
            rows.take(forest.alive[rows.to // forest.stripes]) for rows in others
        )
        told, changed = (forest.paths_of(one.by) for one in (acks, paths))
        heard = arrays.distinct(np.r_[acks.to, drops.to, paths.to])
        before = forest.ancestors[heard]
        forest.parent[acks.to], forest.ancestors[acks.to], self._fails[acks.to] = acks.by, told, 0
        self.on_drop(drops)
        from_parent = forest.parent[paths.to] == paths.by
        forest.ancestors[paths.to[from_parent]] = changed[from_parent]
        self._leave_rings(heard)
        self.on_fail(fails)
        heard = heard[(before != forest.ancestors[heard]).any(axis=1)]
        forest.keep_column_free(heard)
        return heard

    def on_drop(self, drops: Replies) -> None:
        """Let nodes that have lost their parents ask the named sibling, or look for a parent."""
        forest = self.forest
        # one that has left the sender, as the least node of a ring, asks already
        asks = arrays.distinct(np.concatenate([one.pair for one in self._requests]))
        lost = (forest.parent[drops.to] < 0) & (arrays.find_sorted(asks, drops.to) < 0)
        drops = drops.take(lost | (forest.parent[drops.to] == drops.by))
        forest.detach(drops.to)
        self.counts["orphans"] += len(drops)
        without = _ANYBODY if self.spare else _ROOTWARDS
        self._wait(drops.to, forest.hop, np.where(drops.next < 0, without, drops.next))

    def on_fail(self, fails: Replies) -> None:
        """Let nodes whose requests found nobody ask again, after longer and longer: rule L9."""
        self._fails[fails.to] += 1
        count = self._fails[fails.to]
        due = self.forest.hop + np.where(count <= QUICK_TRIES, SOON, LATER)
        self._wait(fails.to[count <= TRIES], due[count <= TRIES], _ROOTWARDS)

    def _leave_rings(self, pairs: np.ndarray) -> None:
        """Cut lists of ancestors to rings; the least node of a ring leaves its parent: L3."""
        forest = self.forest
        own, lists = forest.node[pairs // forest.stripes], forest.ancestors[pairs]
        found = lists == own[:, None]
        some = np.flatnonzero(found.any(axis=1))
        pairs, own, lists = pairs[some], own[some], lists[some]
        ring = np.arange(lists.shape[1]) <= found[some].argmax(axis=1)[:, None]
        forest.ancestors[pairs] = np.where(ring, lists, arrays.NONE)
        least = np.where(ring, lists, np.iinfo(np.int32).max).min(axis=1) == own
        pairs = pairs[least]
        self._send(LEAVE, forest.parent[pairs], pairs)
        forest.detach(pairs)
        self.counts["cycles"] += len(pairs)
        self._wait(pairs, forest.hop, _ROOTWARDS)

    # --- 2. paths

    def tell_paths(self, changed: np.ndarray) -> None:
        """Let pairs, whose ancestors have changed, tell their children the new lists."""
        of, child = self.forest.children_of(changed)
        self._send(PATH, self.forest.asked(changed[of], child), changed[of])

    def _forgotten_paths(self) -> np.ndarray:
        """Let pairs without a parent forget their former ancestors; return the live pairs."""
        forest = self.forest
        had = np.flatnonzero((forest.parent < 0) & (forest.ancestors[:, 0] >= 0))
        forest.detach(had)
        return had[forest.alive[had // forest.stripes]]

    # --- 3. requests

    def answer(self, came: Requests) -> Requests:
        """Answer requests; return refused ones, which go on to other nodes: L4, L6 and L7."""
        forest = self.forest
        who, stripe = np.divmod(came.pair, forest.stripes)
        came = came.take(np.lexsort((who, stripe, came.how == SEEKING, came.at)))
        mine, seeks = forest.asked(came.pair, came.at), came.how == SEEKING
        is_below = forest.is_ancestor(came.pair // forest.stripes, mine)
        # 1. a node takes the first ones, as long as it has room
        able = ~is_below & ~seeks
        if self.spare:
            able |= ~is_below & seeks & self.spare.may_adopt(came)
        at, accepted = came.at[able], np.zeros(len(came), dtype=bool)
        accepted[able] = arrays.index_in_run(at) < (forest.bound - forest.degree)[at]
        forest.hold(came.pair[accepted], mine[accepted])
        self._reply(ACK, came.take(accepted))
        # 2. a full node answers as the policy says; one below the subscriber refuses
        refused = self._replace_children(came.take(able & ~seeks & ~accepted))
        below = came.take(is_below & ~seeks)
        by_route = below.how == BY_ROUTE
        self._route(below.pair[by_route], below.at[by_route])
        refused = Requests.join(refused, below.take(~by_route))
        ends = (refused.how == FINAL) | (self.spare is not None)
        self._reply(DROP if self.spare else FAIL, refused.take(ends))
        return Requests.join(refused.take(~ends), came.take(seeks & ~accepted))

    def _replace_children(self, asks: Requests) -> Requests:
        """Let newcomers take the places of children at full nodes; return what goes on."""
        forest, full = self.forest, FullNodes(self.forest, asks.at)
        placed, lost, by = np.zeros(len(asks), dtype=bool), [asks.pair[:0]], [asks.at[:0]]
        for some in arrays.turns(asks.at):
            turn = Turn(forest, full, asks, some)
            place = self.policy.choose(turn)
            placed[some] = takes = place >= 0
            lost.append(full.child[place[takes]])
            by.append(turn.at[takes])
            full.child[place[takes]] = turn.pair[takes]
        newcomers, others = asks.take(placed), asks.take(~placed)
        forest.hold(newcomers.pair, forest.asked(newcomers.pair, newcomers.at))
        forest.let_go(np.concatenate(lost))
        self._reply(ACK, newcomers)
        if self.spare:  # pushes others down
            lost, by = [*lost, others.pair], [*by, others.at]
        pair = np.concatenate(lost)
        at = forest.asked(pair, np.concatenate(by))
        self._send(DROP, pair, at, self.spare.sibling(pair, at) if self.spare else arrays.NONE)
        return others.take(slice(0)) if self.spare else others

    # --- 4. refused requests

    def go_on(self, refused: Requests) -> None:
        """Let refused requests go on to the next node of their lists: rules L6 and L8."""
        for some in pieces(_NEIGHBOURS + refused.visited.lengths() + refused.todo.lengths()):
            asks = refused.take(some)
            at, front, back = self.policy.neighbours(asks)
            visited, todo = visit(asks.visited, asks.todo, at, front, back, len(self.forest))
            to, todo = todo.popped()
            how = np.where(to < 0, FINAL, SEEKING if self.spare else FROM_LIST)
            to = np.where(to < 0, self.policy.decider(asks), to)
            self._reply(FAIL, asks.take(to < 0))
            onward = self._request(how, asks.pair, asks.at, to, lists=(visited, todo)).take(to >= 0)
            self.forest.note(ANYCAST if self.spare else SUBSCRIBE, onward.sender, onward.at)
            self._requests.append(onward)

    # --- 5. nodes that wait

    def ask(self) -> None:
        """Let nodes whose hop has come ask for a parent: by route, a sibling, or by anycast."""
        pair = np.flatnonzero(self._due == self.forest.hop)
        self._due[pair] = arrays.NONE
        pair = pair[: len(pair) * (self.forest.hop < MOST_HOPS)]
        whom, who = self._whom[pair], pair // self.forest.stripes
        by_route, direct, seeks = whom == _ROOTWARDS, whom >= 0, whom == _ANYBODY
        self._route(pair[by_route], who[by_route])
        self._requests.append(self._request(FROM_LIST, pair[direct], who[direct], whom[direct]))
        self.forest.note(SUBSCRIBE, who[direct], whom[direct])
        self.counts["anycasts"] += int(np.count_nonzero(seeks))
        self.go_on(self._request(SEEKING, pair[seeks], who[seeks], who[seeks]))
        if self.spare:
            self.spare.end_hop()

    def _route(self, pair: np.ndarray, start: np.ndarray) -> None:
        """Send SUBSCRIBEs from nodes to the next nodes of the route in the channel: rule L5."""
        who, stripe = np.divmod(pair, self.forest.stripes)
        to_root = (self._fails[pair] > 0) & (self.spare is not None)
        entry, hops = self.forest.entries(start, stripe, who, to_root, counts=True)
        some, lost = entry >= 0, (entry < 0) & (start != who)
        ends = pair[some], start[some], entry[some], hops[some]
        self._requests.append(self._request(BY_ROUTE, *ends))
        self._send(FAIL, pair[lost], self.forest.asked(pair[lost], start[lost]))
