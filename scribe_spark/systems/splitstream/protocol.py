"""The protocol of SplitStream, hop by hop: rules L2 to L10.

All messages take one hop, and all nodes play a hop at once: replies, then new paths, then requests,
then refused requests go on, then nodes that wait ask.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from scribe_spark.core.arrays import (
    NONE,
    Rows,
    distinct,
    find_sorted,
    index_in_run,
    least_of,
    turns,
    whole_numbers,
)
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
    SUBSCRIBE,
)
from scribe_spark.systems.splitstream.forest import Forest
from scribe_spark.systems.splitstream.policies import (
    BY_ROUTE,
    FINAL,
    FROM_LIST,
    SEEKING,
    FreePastry,
    FullNodes,
    Requests,
    SpareCapacity,
    Turn,
)

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
class Replies(Rows):
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
        self._requests, self._replies = list[Requests](), [Replies(*[whole_numbers()] * 4)]
        #: by pair: the hop in which it asks, or NONE, and whom: a row, or one of the values above
        self._due, self._whom = np.full((2, len(forest.parent)), NONE)
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
            first = outside[least_of(forest.of[outside], forest.wave[outside])]
            wave = np.full(forest.channels, NONE)
            wave[forest.of[first]] = forest.wave[first]
            self._enter(~forest.entered & (forest.wave == wave[forest.of]), forest.hop + 1)
        return bool(len(outside) or busy.any())

    # --- messages

    def _send(
        self, kind: str, to: np.ndarray, by: np.ndarray, next: np.ndarray | int = NONE
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
        heard = distinct(np.r_[acks.to, drops.to, paths.to])
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
        asks = distinct(np.concatenate([one.pair for one in self._requests]))
        lost = (forest.parent[drops.to] < 0) & (find_sorted(asks, drops.to) < 0)
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
        forest.ancestors[pairs] = np.where(ring, lists, NONE)
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
        accepted[able] = index_in_run(at) < (forest.bound - forest.degree)[at]
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
        for some in turns(asks.at):
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
        self._send(DROP, pair, at, self.spare.sibling(pair, at) if self.spare else NONE)
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
        self._due[pair] = NONE
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
