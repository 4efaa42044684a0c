"""The protocol of SplitStream, hop by hop: rules L2 to L10.

All messages take one hop, and all nodes play a hop at once: replies, then new paths, then requests,
then refused requests go on, then nodes that wait ask.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TypeVar

import numpy as np

from scribe_spark.core.arrays import NONE, distinct, find_sorted, index_in_run, turns
from scribe_spark.core.lists import visit
from scribe_spark.systems.splitstream.forest import Forest, least_of
from scribe_spark.systems.splitstream.messages import (
    ACK,
    ANYBODY,
    ANYCAST,
    BY_ROUTE,
    DROP,
    FAIL,
    FINAL,
    FROM_LIST,
    LEAVE,
    PATH,
    ROOTWARDS,
    SEEKING,
    SUBSCRIBE,
    Replies,
    Requests,
    Sent,
    Waiting,
)
from scribe_spark.systems.splitstream.policies import POLICIES, FullNodes
from scribe_spark.systems.splitstream.routes import Routes

#: After so many FAILs, a node asks again more slowly, and then no more in the period (settled).
QUICK_TRIES, TRIES = 5, 30

#: Hops until a node asks again after a FAIL.
SOON, LATER = 1, 5

#: The number of hops of a period in which nodes ask (settled).
MOST_HOPS = 3000

#: The most refused requests whose lists are made at once, to bound the memory.
_AT_ONCE = 2**16

_Due = TypeVar("_Due", Requests, Waiting)


class Hops:
    """The hops of a period; changes the forest.

    ``counts`` has the numbers of orphans, anycasts, cycles and hops, over all channels.
    """

    def __init__(self, forest: Forest, routes: Routes, policy: str, sent: Sent) -> None:
        self.forest, self.routes, self.sent = forest, routes, sent
        self.policy = POLICIES[policy](forest, routes, sent)
        none = np.empty(0, dtype=np.int64)
        self._requests = [Requests.new(FROM_LIST, none, none, none, none)]
        self._waiting = [Waiting(none, none, none)]
        self._no_replies = Replies(none, none, none)
        self._replies = self._none_of_each_kind()
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
            self.go_on(self.answer(self._due(self._requests)))
            self.ask()
        self.counts["hops"] = int(self._last_hop.sum())

    # --- waves

    def _enter(self, rows: np.ndarray, due: int) -> None:
        """Let nodes (a mask) enter the channels; pairs without a parent ask in a hop."""
        forest = self.forest
        forest.entered |= rows
        lacks = (forest.parent < 0) & ~forest.root
        lacks &= np.repeat(rows & forest.alive, forest.stripes)
        self._wait(np.flatnonzero(lacks), due, ROOTWARDS)
        self.policy.enter()

    def _goes_on(self) -> bool:
        """Return True if a channel moves; let the next wave enter one that does not: rule L10."""
        forest = self.forest
        moving = [one.pair for one in self._requests] + [one.pair for one in self._waiting]
        moving += [one.to for replies in self._replies.values() for one in replies]
        busy = np.zeros(forest.channels, dtype=bool)
        busy[forest.of[np.concatenate(moving) // forest.stripes]] = True
        self._last_hop[busy] = forest.hop + 1
        outside = np.flatnonzero(~forest.entered & ~busy[forest.of])
        if len(outside):
            first = outside[least_of(forest.of[outside], forest.wave[outside])]
            wave = np.full(forest.channels, NONE)
            wave[forest.of[first]] = forest.wave[first]
            enters = ~forest.entered & (forest.wave == wave[forest.of])
            self._enter(enters, forest.hop + 1)
        return bool(len(outside) or busy.any())

    # --- bookkeeping

    def _none_of_each_kind(self) -> dict[str, list[Replies]]:
        return {kind: [self._no_replies] for kind in (LEAVE, ACK, DROP, PATH, FAIL)}

    def _send(
        self, kind: str, to: np.ndarray, by: np.ndarray, next: np.ndarray | int = NONE
    ) -> None:
        """Send replies to pairs, by pairs of the same stripes."""
        self._note(kind, by // self.forest.stripes, to // self.forest.stripes)
        self._replies[kind].append(Replies(to, by, np.broadcast_to(next, len(to))))

    def _reply(self, kind: str, asks: Requests) -> None:
        """Let nodes reply to requests."""
        self._send(kind, asks.pair, self._asked(asks))

    def _note(self, kind: str, sender: np.ndarray, to: np.ndarray) -> None:
        """Count messages between rows."""
        forest = self.forest
        self.sent.note(kind, forest.group[sender], forest.node[sender], forest.node[to])

    def _wait(self, pair: np.ndarray, due: np.ndarray | int, whom: np.ndarray | int) -> None:
        """Let pairs ask in a hop."""
        more = (np.broadcast_to(one, len(pair)) for one in (due, whom))
        self._waiting.append(Waiting(pair, *more))

    def _due(self, rows: list[_Due]) -> _Due:
        """Take out of a list what is due in this hop; return nothing after the last hop."""
        hop, every = self.forest.hop, rows[0].join(*rows)
        rows[:] = [every.take(every.due > hop)]
        return every.take((every.due <= hop) & (hop < MOST_HOPS))

    # --- 1. replies

    def hear(self) -> np.ndarray:
        """Handle replies; return the pairs whose ancestors have changed: rule L3."""
        forest, came = self.forest, self._replies
        self._replies = self._none_of_each_kind()
        self.on_leave(Replies.join(*came.pop(LEAVE)))
        acks, drops, paths, fails = (
            rows.take(forest.alive[rows.to // forest.stripes])
            for rows in (Replies.join(*came[kind]) for kind in (ACK, DROP, PATH, FAIL))
        )
        told, changed = (forest.paths_of(one.by) for one in (acks, paths))
        heard = distinct(np.r_[acks.to, drops.to, paths.to])
        before = forest.ancestors[heard]
        self.on_ack(acks, told)
        self.on_drop(drops)
        self.on_path(paths, changed)
        self._leave_rings(heard)
        self.on_fail(fails)
        heard = heard[(before != forest.ancestors[heard]).any(axis=1)]
        forest.keep_column_free(heard)
        return heard

    def on_leave(self, leaves: Replies) -> None:
        """Remove children that have left."""
        forest = self.forest
        forest.let_go(leaves.by[forest.holder[leaves.by] == leaves.to])

    def on_ack(self, acks: Replies, path: np.ndarray) -> None:
        """Let orphans note their parents."""
        self.forest.parent[acks.to], self.forest.ancestors[acks.to] = acks.by, path
        self._fails[acks.to] = 0

    def on_drop(self, drops: Replies) -> None:
        """Let nodes that have lost their parents ask the sibling, or look for a parent."""
        forest = self.forest
        # one that has left the sender, as the least node of a ring, asks already
        asks = distinct(np.concatenate([one.pair for one in self._requests]))
        lost = (forest.parent[drops.to] < 0) & (find_sorted(asks, drops.to) < 0)
        drops = drops.take(lost | (forest.parent[drops.to] == drops.by))
        forest.detach(drops.to)
        self.counts["orphans"] += len(drops)
        without = ANYBODY if self.policy.has_spare else ROOTWARDS
        self._wait(drops.to, forest.hop, np.where(drops.next < 0, without, drops.next))

    def on_path(self, paths: Replies, path: np.ndarray) -> None:
        """Let children note the new ancestors of their parents."""
        from_parent = self.forest.parent[paths.to] == paths.by
        self.forest.ancestors[paths.to[from_parent]] = path[from_parent]

    def on_fail(self, fails: Replies) -> None:
        """Let nodes that have found nobody ask again, later and later: rule L9."""
        self._fails[fails.to] += 1
        count = self._fails[fails.to]
        due = self.forest.hop + np.where(count <= QUICK_TRIES, SOON, LATER)
        self._wait(fails.to[count <= TRIES], due[count <= TRIES], ROOTWARDS)

    def _leave_rings(self, pairs: np.ndarray) -> None:
        """Cut lists in which nodes find themselves; the least node of a ring leaves its parent."""
        forest = self.forest
        own, lists = forest.node[pairs // forest.stripes], forest.ancestors[pairs]
        found = lists == own[:, None]
        some = np.flatnonzero(found.any(axis=1))
        pairs, own, lists = pairs[some], own[some], lists[some]
        ring = np.arange(lists.shape[1]) <= found[some].argmax(axis=1)[:, None]
        forest.ancestors[pairs] = np.where(ring, lists, NONE)
        least = np.where(ring, lists, len(forest.setting.ring)).min(axis=1) == own
        pairs = pairs[least]
        self._send(LEAVE, forest.parent[pairs], pairs)
        forest.detach(pairs)
        self.counts["cycles"] += len(pairs)
        self._wait(pairs, forest.hop, ROOTWARDS)

    # --- 2. paths

    def tell_paths(self, changed: np.ndarray) -> None:
        """Let pairs tell their children the new paths."""
        of, child = self.forest.children_of(changed)
        self._send(PATH, child, changed[of])

    def _forgotten_paths(self) -> np.ndarray:
        """Return the live pairs that have lost parents, and their ancestors, before the period."""
        forest = self.forest
        had = np.flatnonzero((forest.parent < 0) & (forest.ancestors[:, 0] >= 0))
        forest.detach(had)
        return had[forest.alive[had // forest.stripes]]

    # --- 3. requests

    def answer(self, came: Requests) -> Requests:
        """Answer requests; return the refused ones, which go on: rules L4, L6 and L7."""
        forest, policy = self.forest, self.policy
        who, stripe = np.divmod(came.pair, forest.stripes)
        came = came.take(np.lexsort((who, stripe, came.how == SEEKING, came.at)))
        mine, seeks = self._asked(came), came.how == SEEKING
        is_below = forest.is_ancestor(came.pair // forest.stripes, mine)
        # 1. a node takes the first ones, as long as it has room
        able = np.flatnonzero(~is_below & (~seeks | policy.may_adopt(came)))
        at = came.at[able]
        accepted = np.zeros(len(came), dtype=bool)
        accepted[able[index_in_run(at) < (forest.bound - forest.degree)[at]]] = True
        forest.hold(came.pair[accepted], mine[accepted])
        self._reply(ACK, came.take(accepted))
        # 2. a full node answers as the policy says; one below the subscriber refuses
        refused = self._replace_children(came.take(~is_below & ~seeks & ~accepted))
        below = came.take(is_below & ~seeks)
        by_route = below.how == BY_ROUTE
        self._route(below.pair[by_route], below.at[by_route])
        refused = Requests.join(refused, below.take(~by_route))
        ends = (refused.how == FINAL) | policy.has_spare
        self._reply(DROP if policy.has_spare else FAIL, refused.take(ends))
        return Requests.join(refused.take(~ends), came.take(seeks & ~accepted))

    def _asked(self, asks: Requests) -> np.ndarray:
        """Return the pairs that requests ask."""
        return asks.at * self.forest.stripes + asks.pair % self.forest.stripes

    def _replace_children(self, asks: Requests) -> Requests:
        """Let newcomers take the places of children at full nodes; return those that get none."""
        forest, policy = self.forest, self.policy
        full, placed = FullNodes(forest, asks.at), np.zeros(len(asks), dtype=bool)
        lost, by = [asks.pair[:0]], [asks.at[:0]]
        for turn in turns(asks.at):
            some = asks.take(turn)
            place = policy.choose(full, some)
            placed[turn], some, place = place >= 0, some.take(place >= 0), place[place >= 0]
            lost.append(full.child[place])
            by.append(some.at)
            full.child[place] = some.pair
        newcomers, others = asks.take(placed), asks.take(~placed)
        forest.hold(newcomers.pair, self._asked(newcomers))
        forest.let_go(np.concatenate(lost))
        self._reply(ACK, newcomers)
        if policy.has_spare:  # others are pushed down themselves
            lost, by, others = [*lost, others.pair], [*by, others.at], others.take(slice(0))
        pair, at = np.concatenate(lost), np.concatenate(by)
        by_pair = at * forest.stripes + pair % forest.stripes
        self._send(DROP, pair, by_pair, policy.siblings(pair, by_pair))
        return others

    # --- 4. refused requests

    def go_on(self, refused: Requests) -> None:
        """Let refused requests go on to the next node of their lists: rules L6 and L8."""
        forest, policy = self.forest, self.policy
        for begin in range(0, len(refused), _AT_ONCE):
            asks = refused.take(slice(begin, begin + _AT_ONCE))
            at, front, back = policy.neighbours(asks)
            visited, todo = visit(asks.visited, asks.todo, at, front, back, len(forest))
            to, todo = todo.popped()
            final, to = to < 0, np.where(to < 0, policy.decider(asks), to)
            self._reply(FAIL, asks.take(to < 0))
            how = np.where(final, FINAL, SEEKING if policy.has_spare else FROM_LIST)
            due = np.full(len(to), forest.hop + 1)
            onward = replace(asks, at=to, sender=asks.at, due=due, how=how)
            onward = replace(onward, visited=visited, todo=todo).take(to >= 0)
            self._note(ANYCAST if policy.has_spare else SUBSCRIBE, onward.sender, onward.at)
            self._requests.append(onward)

    # --- 5. nodes that wait

    def ask(self) -> None:
        """Let nodes whose time has come ask for stripes: by route, a sibling, or by anycast."""
        asks, hop = self._due(self._waiting), self.forest.hop
        pair, whom, who = asks.pair, asks.whom, asks.pair // self.forest.stripes
        due = np.full(len(asks), hop + 1)
        by_route, direct, seeks = whom == ROOTWARDS, whom >= 0, whom == ANYBODY
        self._route(pair[by_route], who[by_route])
        ends = pair[direct], whom[direct], who[direct], due[direct]
        self._requests.append(Requests.new(FROM_LIST, *ends))
        self._note(SUBSCRIBE, who[direct], whom[direct])
        self.counts["anycasts"] += int(np.count_nonzero(seeks))
        self.go_on(Requests.new(SEEKING, pair[seeks], who[seeks], who[seeks], due[seeks]))
        self.policy.end_hop()

    def _route(self, pair: np.ndarray, start: np.ndarray) -> None:
        """Send SUBSCRIBEs from nodes to the next nodes of the route in the channel: rule L5."""
        forest = self.forest
        who, stripe = np.divmod(pair, forest.stripes)
        to_root = (self._fails[pair] > 0) & self.policy.has_spare
        entry, hops, passed = self.routes.entries(forest, start, stripe, who, to_root)
        self.sent.note(SUBSCRIBE, forest.group[who[passed["row"]]], passed["sender"], passed["to"])
        some, lost = entry >= 0, (entry < 0) & (start != who)
        ends = pair[some], entry[some], start[some], forest.hop + hops[some]
        self._requests.append(Requests.new(BY_ROUTE, *ends))
        self._send(FAIL, pair[lost], start[lost] * forest.stripes + stripe[lost])
