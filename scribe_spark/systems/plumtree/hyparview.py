"""HyParView: each node keeps a small active view and a larger passive view.

The *active view* has the nodes to which a node is connected.  It is symmetric: if a has b, b has a.
Messages go along its links only.  The *passive view* has nodes to connect to when a neighbour is
lost.  A newcomer joins at any node, its contact, which takes the newcomer in and sends it on walks
through the overlay; the node at the end of a walk takes it in, too.  So newcomers get neighbours
all over the network.  Shuffles refresh the passive views: two nodes exchange samples of what they
know.

The rules are Y1 to Y11 in docs/rules.md; `config` names the sources.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import numpy as np

from scribe_spark.clock.bucket import BucketClock, Slots
from scribe_spark.clock.kernel import ClockEvents, Column, Control
from scribe_spark.core.arrays import NONE
from scribe_spark.systems.plumtree import IROH, PAPER

if TYPE_CHECKING:  # not on executors
    from scribe_spark.systems.plumtree.config import PlumtreeConfig

#: The active and passive nodes of a sample (the paper, as quoted in iroh).  A SHUFFLE has its
#: origin, too.
_ACTIVE_SAMPLE, _PASSIVE_SAMPLE, _SHUFFLED = 3, 4, 8

#: The priorities of NEIGHBOR and ACCEPT: with a free place only; always; a newcomer's, always.
_LOW, _HIGH, _NEWCOMER = range(3)


class HyParView:
    """The views of the places of a bucket, and the handlers of HyParView's messages."""

    messages: ClassVar[dict[str, Control]] = {
        "join": Control(),
        "forward_join": Control(("newcomer", "ttl")),
        "neighbor": Control(("priority",)),
        "accept": Control(("priority",)),
        "refuse": Control((("nodes", _ACTIVE_SAMPLE + _PASSIVE_SAMPLE),)),
        "disconnect": Control(("alive",)),
        "shuffle": Control(("origin", "ttl", ("nodes", _SHUFFLED))),
        "shuffle_reply": Control((("nodes", _SHUFFLED),)),
    }
    timers: ClassVar[dict[str, tuple[Column, ...]]] = {"request": ("asked",)}

    def __init__(
        self, rules: PlumtreeConfig, seed: int, clock: BucketClock, neighbours: Slots
    ) -> None:
        self.rules, self._seed, self._clock, self.neighbours = rules, seed, clock, neighbours
        places = len(neighbours.node)
        self.passive = np.full((places, rules.passive), NONE, dtype=np.int32)
        self._refused = np.zeros(self.passive.shape, dtype=bool)
        self._asked = np.full(places, NONE, dtype=np.int32)  # the receiver of a NEIGHBOR
        self._asked_us, self._asks = (np.zeros(places, dtype=np.int64) for _ in range(2))
        sample = _ACTIVE_SAMPLE + _PASSIVE_SAMPLE
        self._shuffled = np.full((places, sample), NONE, dtype=np.int32)

    # --- commands

    def on_arrive(self, arrivals: ClockEvents) -> None:
        """Let newcomers, who know nobody, ask their contacts (rule Y1)."""
        self._clock.alive[arrivals.place] = True
        self._clock.send("join", arrivals, arrivals["value"])

    def on_fail(self, fails: ClockEvents) -> None:
        """Let nodes die; with `breaks`, the connections to their neighbours break (rule Y11)."""
        self._clock.alive[fails.place] = False
        if self.rules.notice == "breaks":
            self._clock.send("down", fails, self.neighbours.node[fails.place])

    def on_leave(self, leaves: ClockEvents) -> None:
        """Let nodes say good-bye to their neighbours (rule Y11)."""
        self._clock.alive[leaves.place] = False
        self._clock.send("disconnect", leaves, self.neighbours.node[leaves.place], alive=0)

    def on_refresh(self, starts: ClockEvents) -> None:
        """Let nodes send samples of their views on a walk; others come back (rule Y9)."""
        self._refused[starts.place], self._asks[starts.place] = False, 0
        sends = starts.take(self.neighbours.count(starts.place) > 0)
        to = sends.pick(self._seed, "shuffle to", self.neighbours.node[sends.place])
        nodes = self._sample(sends, "shuffle", self.neighbours.without(sends.place, to))
        self._shuffled[sends.place] = nodes
        nodes = np.column_stack([sends.node, nodes])
        ttl = self.rules.shuffle_walk
        self._clock.send("shuffle", sends, to, origin=sends.node, ttl=ttl, nodes=nodes)
        self._refill(starts)

    # --- messages and timers

    def on_join(self, joins: ClockEvents) -> None:
        """Let contacts take in newcomers, and send them on walks from all other neighbours (Y2)."""
        newcomer = joins.sender
        self._take_in(joins, newcomer)
        self._clock.send("accept", joins, newcomer, priority=_NEWCOMER)
        others = self.neighbours.without(joins.place, newcomer)
        self._clock.send("forward_join", joins, others, newcomer=newcomer, ttl=self.rules.walk)

    def on_forward_join(self, walks: ClockEvents) -> None:
        """Pass newcomers on, or take them in at the end of the walk (rules Y3 and Y4)."""
        came_back = walks["newcomer"] == walks.node
        ends = (walks["ttl"] == 0) | (self.neighbours.count(walks.place) <= 1)
        last = walks.take(ends & ~came_back)
        has = self.neighbours.has(last.place, last["newcomer"])
        last = last.take(~has & (self._asked[last.place] != last["newcomer"]))
        kind = "neighbor"
        if self.rules.membership == PAPER:
            kind = "accept"
            self._take_in(last, last["newcomer"])
        self._clock.send(kind, last, last["newcomer"], priority=_NEWCOMER)
        notes = walks.take(~ends & ~came_back & (walks["ttl"] == self.rules.passive_walk))
        self._into_passive(notes, notes["newcomer"][:, None])
        passes = walks.take((~ends | came_back) & (walks["ttl"] > 0))
        others = self.neighbours.without(passes.place, passes.sender)
        to = passes.pick(self._seed, "walk", others)
        columns = {"newcomer": passes["newcomer"], "ttl": passes["ttl"] - 1}
        self._clock.send("forward_join", passes, to, **columns)

    def on_neighbor(self, asks: ClockEvents) -> None:
        """Accept requests that are urgent or find a free slot; refuse others (rule Y5)."""
        free = self.neighbours.count(asks.place) < self.rules.active
        accepts = (asks["priority"] > _LOW) | free | self.neighbours.has(asks.place, asks.sender)
        taken, refused = asks.take(accepts), asks.take(~accepts)
        self._take_in(taken, taken.sender)
        self._clock.send("accept", taken, taken.sender, priority=taken["priority"])
        nodes = self._sample(refused, "refuse", self.neighbours.node[refused.place])
        self._clock.send("refuse", refused, refused.sender, nodes=nodes)

    def on_accept(self, accepts: ClockEvents) -> None:
        """Take in a node that has taken the receiver in, or refuse it (rule Y6)."""
        expected = self._answered(accepts, accepts.sender) | (accepts["priority"] == _NEWCOMER)
        new = ~self.neighbours.has(accepts.place, accepts.sender)
        full = self.neighbours.count(accepts.place) == self.rules.active
        drops = new & (~expected | (full & (accepts["priority"] == _LOW)))
        late, takes = accepts.take(drops), accepts.take(new & ~drops)
        self._clock.send("disconnect", late, late.sender, alive=1)
        self._take_in(takes, takes.sender)
        self._refill(accepts)

    def on_refuse(self, refusals: ClockEvents) -> None:
        """Learn the nodes that a full node names in a refusal; ask another passive node (Y7)."""
        self._answered(refusals, refusals.sender)
        self._into_passive(refusals, refusals["nodes"])
        self._refuse(refusals)
        self._refill(refusals)

    def on_disconnect(self, drops: ClockEvents) -> None:
        """Remove the senders from neighbours; living ones become passive (rule Y7)."""
        alive = drops["alive"] > 0
        self._lose(drops, alive)
        self._forget(drops.take(~alive))
        self._refill(drops)

    def on_down(self, downs: ClockEvents) -> None:
        """Remove nodes that turned out to be dead from the views (rule Y11)."""
        self._forget(downs)
        self._lose(downs, np.zeros(len(downs), dtype=bool))
        self._refill(downs)

    def on_shuffle(self, walks: ClockEvents) -> None:
        """Pass SHUFFLEs on; at the end of a walk, exchange nodes with the origin (Y9 and Y10)."""
        knows = self.neighbours.has(walks.place, walks.sender)
        strangers, walks = walks.take(~knows), walks.take(knows)
        self._clock.send("disconnect", strangers, strangers.sender, alive=1)
        others = self.neighbours.without(walks.place, walks.sender, walks["origin"])
        on = (others >= 0).any(axis=1) & (
            walks["ttl"] > (1 if self.rules.membership == PAPER else 0)
        )
        passes, ends = walks.take(on), walks.take(~on)
        to = passes.pick(self._seed, "walk", others[on])
        columns = {"origin": passes["origin"], "nodes": passes["nodes"]}
        self._clock.send("shuffle", passes, to, ttl=passes["ttl"] - 1, **columns)
        reply = ends.picks(self._seed, "reply", self.passive[ends.place], _SHUFFLED)
        told = np.count_nonzero(ends["nodes"] >= 0, axis=1)
        reply[np.arange(_SHUFFLED) >= told[:, None]] = NONE
        self._clock.send("shuffle_reply", ends, ends["origin"], nodes=reply)
        self._into_passive(ends, ends["nodes"], reply)
        self._refill(ends)

    def on_shuffle_reply(self, replies: ClockEvents) -> None:
        """Learn the nodes of a reply (rule Y9)."""
        self._into_passive(replies, replies["nodes"], self._shuffled[replies.place])
        self._refill(replies)

    def on_request(self, ends: ClockEvents) -> None:
        """Remove passive nodes that have not answered a request in time (rule Y8)."""
        asked, since = ends["asked"], ends.time_us - self.rules.us["request"]
        waits = (self._asked[ends.place] == asked) & (self._asked_us[ends.place] == since)
        ends = ends.take(waits)
        self._forget(ends, ends["asked"])
        self._refill(ends)

    # --- the parts of handlers

    def _take_in(self, events: ClockEvents, node: np.ndarray) -> None:
        """Make each `node` a neighbour of the event's node; a full view drops a drawn one first."""
        self._answered(events, node)
        new = ~self.neighbours.has(events.place, node)
        events, node = events.take(new), node[new]
        self._drop_passive(events, node)
        full = events.take(self.neighbours.count(events.place) == self.rules.active)
        if len(full):
            dropped = full.pick(self._seed, "drop", self.neighbours.node[full.place])
            self.neighbours.drop(full.place, dropped)
            self._clock.send("disconnect", full, dropped, alive=1)
            self._into_passive(full, dropped[:, None])
        self.neighbours.add(events.place, node)

    def _lose(self, events: ClockEvents, alive: np.ndarray) -> None:
        """Drop senders that are neighbours; living ones (`alive`) become passive.

        The nodes may then ask all other passive nodes again.
        """
        has = self.neighbours.has(events.place, events.sender)
        events, alive = events.take(has), alive[has]
        self._refused[events.place] = False
        self._asks[events.place] *= alive
        self.neighbours.drop(events.place, events.sender)
        events = events.take(alive)
        self._into_passive(events, events.sender[:, None])
        self._refuse(events)

    def _answered(self, events: ClockEvents, node: np.ndarray) -> np.ndarray:
        """End the requests of nodes to `node`; return True where there was one."""
        answered = self._asked[events.place] == node
        self._asked[events.place[answered]] = NONE
        return answered

    def _refuse(self, events: ClockEvents) -> None:
        """Mark the senders in the passive views of nodes: they have refused to be neighbours.

        Nodes ask them again only after the next shuffle or after the loss of a neighbour.
        """
        passive = self.passive.take(events.place, axis=0)
        row, slot = np.nonzero(passive == events.sender[:, None])
        self._refused[events.place[row], slot] = True

    def _forget(self, events: ClockEvents, node: np.ndarray | None = None) -> None:
        """Remove `node` (by default the senders) from the passive views of nodes.

        Requests to it end.
        """
        node = events.sender if node is None else node
        self._answered(events, node)
        self._drop_passive(events, node)

    def _drop_passive(self, events: ClockEvents, node: np.ndarray) -> None:
        passive = self.passive.take(events.place, axis=0)
        row, slot = np.nonzero(passive == node[:, None])
        self.passive[events.place[row], slot] = NONE
        self._refused[events.place[row], slot] = False

    def _into_passive(
        self, events: ClockEvents, nodes: np.ndarray, sent: np.ndarray | None = None
    ) -> None:
        """Add nodes (k, m) to the passive views of k nodes; full views lose nodes first (Y7).

        Nodes that were `sent` before are lost first.
        """
        fresh = (nodes >= 0) & (nodes != events.node[:, None])
        views = [one.take(events.place, axis=0).T for one in (self.neighbours.node, self.passive)]
        known, asked = map(np.ascontiguousarray, (np.concatenate(views), nodes.T))
        fresh &= ~np.any(known == asked[:, None], axis=1).T
        rank = np.cumsum(fresh, axis=1) - 1
        fresh &= rank < self.rules.passive
        some = np.flatnonzero(fresh.any(axis=1))
        if not len(some):
            return
        events, fresh, rank, nodes = events.take(some), fresh[some], rank[some], nodes[some]
        passive, refused = (one.take(events.place, axis=0) for one in (self.passive, self._refused))
        # 1. full views lose nodes: those sent before, then others, both drawn
        many = np.count_nonzero(fresh, axis=1) - np.count_nonzero(passive < 0, axis=1)
        full = np.flatnonzero(many > 0)
        old = passive[full]
        drawn = events.take(full).draw(self._seed, "evict", old) >> np.uint64(1)
        if sent is not None and self.rules.membership == PAPER:
            first = (old[:, :, None] == sent[some[full], None, :]).any(axis=2) & (old >= 0)
            drawn |= np.where(first, 0, 2**63).astype(np.uint64)
        last = np.sort(drawn, axis=1)[np.arange(len(full)), many[full] - 1]
        out = drawn <= last[:, None]
        passive[full], refused[full] = np.where(out, NONE, old), refused[full] & ~out
        # 2. the fresh nodes fill the free slots
        free = np.argsort(passive >= 0, axis=1, kind="stable")
        at = np.nonzero(fresh)
        slot = at[0], free[at[0], rank[at]]
        passive[slot], refused[slot] = nodes[at], False
        self.passive[events.place], self._refused[events.place] = passive, refused

    def _refill(self, events: ClockEvents) -> None:
        """Let nodes with free slots ask a passive node to be a neighbour, one at a time (Y7)."""
        active = self.neighbours.count(events.place)
        can = (active < self.rules.active) & (self._asked[events.place] < 0)
        can &= self.rules.repair & (self._asks[events.place] < self.rules.passive)
        if not can.any():
            return
        asks, lonely = events.take(can), active[can] == 0
        passive = self.passive.take(asks.place, axis=0)
        passive[self._refused.take(asks.place, axis=0)] = NONE
        to = asks.pick(self._seed, "ask", passive)
        self._asked[asks.place], self._asked_us[asks.place] = to, asks.time_us
        self._asks[asks.place] += to >= 0
        self._clock.send("neighbor", asks, to, priority=np.where(lonely, _HIGH, _LOW))
        if self.rules.membership == IROH:
            waits, asked = asks.take(to >= 0), to[to >= 0]
            self._clock.wake(
                "request", waits, waits.time_us + self.rules.us["request"], asked=asked
            )

    def _sample(self, events: ClockEvents, purpose: str, active: np.ndarray) -> np.ndarray:
        """Return three drawn nodes of `active` (k, a), and four drawn passive nodes: (k, 7)."""
        first = events.picks(self._seed, f"{purpose} active", active, _ACTIVE_SAMPLE)
        passive = self.passive[events.place]
        return np.c_[
            first, events.picks(self._seed, f"{purpose} passive", passive, _PASSIVE_SAMPLE)
        ]
