"""HyParView: each node keeps a small active view and a larger passive view.

The *active view* has the nodes to which a node is connected.  It is symmetric: if a has b, b has a.
Messages go along its links only.  The *passive view* has nodes to connect to when a neighbour is
lost.  A newcomer joins at any node, its contact, which takes the newcomer in and sends it on walks
through the overlay; the node at the end of a walk takes it in, too.  So newcomers get neighbours
all over the network.  Shuffles refresh the passive views: two nodes exchange samples of what they
know.

| message | sent by | handler |
|---|---|---|
| JOIN | a newcomer, to its contact | `on_join` |
| FORWARDJOIN(newcomer, ttl) | the contact, then each node of the walk | `on_forward_join` |
| NEIGHBOR(priority) | a node that lost a neighbour, to a passive node | `on_neighbor` |
| ACCEPT(priority) | a node that took the receiver into its active view | `on_accept` |
| REFUSE(nodes) | a node with a full view, to the sender of NEIGHBOR | `on_refuse` |
| DISCONNECT(alive) | a node that dropped the receiver | `on_disconnect` |
| SHUFFLE(origin, ttl, nodes) | the origin, then each node of the walk | `on_shuffle` |
| SHUFFLEREPLY(nodes) | the node at the end of the walk, to the origin | `on_shuffle_reply` |
| down | the clock, for a message that met a dead node; a broken connection | `on_down` |

The rules are Y1 to Y12 in docs/rules.md.

References
----------
J. Leitao, J. Pereira, L. Rodrigues: HyParView: a membership protocol for reliable gossip-based
broadcast, DSN 2007.  Its text could not be had; the parameters are quoted by iroh-gossip
(``src/proto/hyparview.rs``), and the lines of the algorithm by Babel (``HyParView.java``).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from scribe_spark.clock import Control, Events, Payload
from scribe_spark.clock.bucket import BucketClock
from scribe_spark.core.arrays import NONE
from scribe_spark.engine.packing import Columns
from scribe_spark.plumtree.neighbours import Neighbours

#: Whose rules: those of the paper, as quoted in iroh, or those of iroh itself.
PAPER, IROH = "paper", "iroh"

#: The nodes of a SHUFFLE: the origin, three active and four passive ones (the paper, as quoted in
#: iroh).  A reply and a refusal carry as many from the views of the answering node.
SHUFFLED = tuple(f"node {number}" for number in range(8))
_ACTIVE_SHUFFLED, _PASSIVE_SHUFFLED = 3, 4

#: The priorities of NEIGHBOR and ACCEPT: with a free place only; always; a newcomer's, always.
_LOW, _HIGH, _NEWCOMER = range(3)


@dataclass(frozen=True)
class HyParViewRules:
    """The parameters of HyParView.

    Attributes
    ----------
    whose : str
        :data:`PAPER` or :data:`IROH`, where these differ (Y3, Y6, Y8, Y10).
    active, passive : int
        The sizes of the views: 5 and 30 in the paper (Babel: 4 and 7; Partisan: 6 and 30).
    walk, passive_walk : int
        ARWL and PRWL, 6 and 3 in the paper: the length of a newcomer's walk, and the `ttl` at which
        it enters a passive view.
    shuffle_walk : int
        The length of the walk of a SHUFFLE: 6 in iroh; Babel uses ARWL.
    wait_us : int
        iroh only: the time after which a NEIGHBOR without an answer is given up (500 ms).
    breaks : bool
        True if neighbours notice a failure after one delay, as the end of a TCP connection; False
        if they notice it only when they send a message.
    repairs : bool
        True if a node that lost a neighbour asks passive nodes.
    """

    whose: str = PAPER
    active: int = 5
    passive: int = 30
    walk: int = 6
    passive_walk: int = 3
    shuffle_walk: int = 6
    wait_us: int = 500_000
    breaks: bool = True
    repairs: bool = True


class HyParView:
    """The views of the places of a bucket, and the handlers of HyParView's messages."""

    messages: ClassVar[Mapping[str, Control | Payload]] = {
        "join": Control(),
        "forward_join": Control(("newcomer", "ttl")),
        "neighbor": Control(("priority",)),
        "accept": Control(("priority",)),
        "refuse": Control(SHUFFLED[1:]),
        "disconnect": Control(("alive",)),
        "shuffle": Control(("origin", "ttl", *SHUFFLED)),
        "shuffle_reply": Control(SHUFFLED),
    }
    timers: ClassVar[Mapping[str, tuple[str, ...]]] = {"request": ("asked",)}

    def __init__(self, rules: HyParViewRules, seed: int, neighbours: Neighbours) -> None:
        self.rules, self._seed, self.neighbours = rules, seed, neighbours
        places = len(neighbours.node)
        self.passive = np.full((places, rules.passive), NONE, dtype=np.int32)
        self._refused = np.zeros((places, rules.passive), dtype=bool)
        self._asked = np.full(places, NONE, dtype=np.int32)  # the receiver of a NEIGHBOR
        self._asked_us = np.zeros(places, dtype=np.int64)
        self._asks = np.zeros(places, dtype=np.int64)  # the requests of a round
        self._shuffled = np.full((places, len(SHUFFLED) - 1), NONE, dtype=np.int32)

    def begin(self, clock: BucketClock, passive: Columns | None) -> None:
        """Read the passive views that an earlier play left."""
        self._clock = clock
        if passive is not None:
            self.passive = passive["node"].astype(np.int32)

    # --- commands

    def on_arrive(self, arrivals: Events) -> None:
        """Let newcomers, who know nobody, ask their contacts (rule Y1)."""
        self._clock.alive[arrivals.place] = True
        asks = arrivals.take(arrivals["value"] >= 0)
        self._clock.send("join", asks, asks["value"])

    def on_fail(self, fails: Events) -> None:
        """Let nodes die; with `breaks`, the connections to their neighbours break (rule Y11)."""
        self._clock.alive[fails.place] = False
        if self.rules.breaks:
            self._to_all("down", fails, self.neighbours.node[fails.place])

    def on_leave(self, leaves: Events) -> None:
        """Let nodes say good-bye to their neighbours (rule Y11)."""
        self._clock.alive[leaves.place] = False
        self._to_all("disconnect", leaves, self.neighbours.node[leaves.place], alive=0)

    def on_refresh(self, starts: Events) -> None:
        """Send samples of the views on a walk, to be exchanged for others (rule Y9)."""
        self._begin_round(starts)
        active = self.neighbours.node[starts.place]
        to = starts.pick(self._seed, "shuffle to", active)
        some = to >= 0
        sends, to = starts.take(some), to[some]
        others = self.neighbours.without(sends.place, to)
        active = sends.picks(self._seed, "shuffle active", others, _ACTIVE_SHUFFLED)
        nodes = self._sample(sends, "shuffle passive", active)
        self._shuffled[sends.place] = nodes
        nodes = np.column_stack([sends.node, nodes])
        ends = {"origin": sends.node, "ttl": self.rules.shuffle_walk}
        self._clock.send("shuffle", sends, to, **ends, **_columns(nodes))
        self._refill(starts)

    # --- messages

    def on_join(self, joins: Events) -> None:
        """Take in the newcomer, and send it on walks from all other neighbours (rule Y2)."""
        newcomer = joins.sender
        self._take_in(joins, newcomer)
        self._clock.send("accept", joins, newcomer, priority=_NEWCOMER)
        others = self.neighbours.without(joins.place, newcomer)
        self._to_all("forward_join", joins, others, newcomer=newcomer, ttl=self.rules.walk)

    def on_forward_join(self, walks: Events) -> None:
        """Pass the newcomer on, or take it in at the end of the walk (rules Y3 and Y4)."""
        came_back = walks["newcomer"] == walks.node
        ends = (walks["ttl"] == 0) | (self.neighbours.count(walks.place) <= 1)
        last = walks.take(ends & ~came_back)
        last = last.take(~self.neighbours.has(last.place, last["newcomer"]))
        if self.rules.whose == PAPER:
            self._take_in(last, last["newcomer"])
        kind = "accept" if self.rules.whose == PAPER else "neighbor"
        self._clock.send(kind, last, last["newcomer"], priority=_NEWCOMER)
        notes = walks.take(~ends & ~came_back & (walks["ttl"] == self.rules.passive_walk))
        self._into_passive(notes, notes["newcomer"][:, None])
        passes = walks.take((~ends | came_back) & (walks["ttl"] > 0))
        others = self.neighbours.without(passes.place, passes.sender)
        self._walk("forward_join", passes, others, passes["ttl"] - 1, ("newcomer",))

    def on_neighbor(self, asks: Events) -> None:
        """Accept a request that is urgent or finds a free slot; else refuse it (rule Y5)."""
        free = self.neighbours.count(asks.place) < self.rules.active
        accepts = (asks["priority"] > _LOW) | free | self.neighbours.has(asks.place, asks.sender)
        taken, refused = asks.take(accepts), asks.take(~accepts)
        self._take_in(taken, taken.sender)
        self._clock.send("accept", taken, taken.sender, priority=taken["priority"])
        active = self.neighbours.node[refused.place]
        active = refused.picks(self._seed, "refuse active", active, _ACTIVE_SHUFFLED)
        nodes = self._sample(refused, "refuse passive", active)
        self._clock.send("refuse", refused, refused.sender, **_columns(nodes, SHUFFLED[1:]))

    def on_accept(self, accepts: Events) -> None:
        """Take in a node that has taken this one in, or tell it that it is not wanted (rule Y6)."""
        expected = self._answered(accepts, accepts.sender) | (accepts["priority"] == _NEWCOMER)
        new = ~self.neighbours.has(accepts.place, accepts.sender)
        full = self.neighbours.count(accepts.place) == self.rules.active
        drops = new & (~expected | (full & (accepts["priority"] == _LOW)))
        late, takes = accepts.take(drops), accepts.take(new & ~drops)
        self._clock.send("disconnect", late, late.sender, alive=1)
        self._take_in(takes, takes.sender)
        self._refill(accepts)

    def on_refuse(self, refusals: Events) -> None:
        """Learn the nodes that a full node names, and ask another passive node (rule Y7)."""
        self._answered(refusals, refusals.sender)
        self._into_passive(refusals, refusals.some(SHUFFLED[1:]))
        self._refuse(refusals)
        self._refill(refusals)

    def on_disconnect(self, drops: Events) -> None:
        """Lose a neighbour; a living one becomes passive (rule Y7)."""
        alive = drops["alive"] > 0
        self._lose(drops)
        gone = drops.take(~alive)
        self._answered(gone, gone.sender)
        self._drop_passive(gone, gone.sender)
        self._refill(drops)

    def on_down(self, downs: Events) -> None:
        """Forget a dead node (rule Y11)."""
        self._drop_passive(downs, downs.sender)
        self._answered(downs, downs.sender)
        self._lose(downs, alive=False)
        self._refill(downs)

    def on_shuffle(self, walks: Events) -> None:
        """Pass a SHUFFLE on, or exchange nodes with its origin at its end (rules Y9 and Y10)."""
        knows = self.neighbours.has(walks.place, walks.sender)
        strangers = walks.take(~knows)
        self._clock.send("disconnect", strangers, strangers.sender, alive=1)
        walks = walks.take(knows)
        others = self.neighbours.without(walks.place, walks.sender, walks["origin"])
        ttl, least = walks["ttl"] - 1, 1 if self.rules.whose == PAPER else 0
        on = (ttl >= least) & (others >= 0).any(axis=1)
        self._walk("shuffle", walks.take(on), others[on], ttl[on], ("origin", *SHUFFLED))
        ends = walks.take(~on)
        nodes = ends.some(SHUFFLED)
        reply = ends.picks(self._seed, "reply", self.passive[ends.place], len(SHUFFLED))
        reply = _wide(reply, len(SHUFFLED))
        reply[np.arange(len(SHUFFLED)) >= np.count_nonzero(nodes >= 0, axis=1)[:, None]] = NONE
        self._clock.send("shuffle_reply", ends, ends["origin"], **_columns(reply))
        self._into_passive(ends, nodes, reply)
        self._refill(ends)

    def on_shuffle_reply(self, replies: Events) -> None:
        """Learn the nodes of a reply (rule Y9)."""
        sent = self._shuffled[replies.place]
        self._into_passive(replies, replies.some(SHUFFLED), sent)
        self._refill(replies)

    # --- timers

    def on_request(self, ends: Events) -> None:
        """Give up a node that does not answer (rule Y8)."""
        since = ends.time_us - self.rules.wait_us
        waits = self._asked_us[ends.place] == since
        ends = ends.take(waits & (self._asked[ends.place] == ends["asked"]))
        self._drop_passive(ends, ends["asked"])
        self._asked[ends.place] = NONE
        self._refill(ends)

    # --- the views

    def _take_in(self, events: Events, node: np.ndarray) -> None:
        """Make nodes active; a full view drops a drawn node first."""
        self._answered(events, node)
        new = ~self.neighbours.has(events.place, node)
        events, node = events.take(new), node[new]
        if not len(events):
            return
        self._drop_passive(events, node)
        full = events.take(self.neighbours.count(events.place) == self.rules.active)
        if len(full):
            dropped = full.pick(self._seed, "drop", self.neighbours.node[full.place])
            self.neighbours.drop(full.place, dropped)
            self._clock.send("disconnect", full, dropped, alive=1)
            self._into_passive(full, dropped[:, None])
        self.neighbours.add(events.place, node)

    def _lose(self, events: Events, alive: bool = True) -> None:
        """Drop senders that are active; a node that lost a neighbour may ask all nodes again."""
        events = events.take(self.neighbours.has(events.place, events.sender))
        self._begin_round(events)
        self.neighbours.drop(events.place, events.sender)
        if alive:
            events = events.take(events["alive"] > 0)
            self._into_passive(events, events.sender[:, None])
            self._refuse(events)

    def _begin_round(self, events: Events) -> None:
        """Let nodes ask all passive nodes again."""
        self._refused[events.place], self._asks[events.place] = False, 0

    def _answered(self, events: Events, node: np.ndarray) -> np.ndarray:
        """End the requests to nodes; return True where there was one."""
        answered = self._asked[events.place] == node
        self._asked[events.place[answered]] = NONE
        return answered

    def _refuse(self, events: Events) -> None:
        """Note that senders, where they are passive, are not asked again in this round."""
        row, slot = np.nonzero(self.passive[events.place] == events.sender[:, None])
        self._refused[events.place[row], slot] = True

    def _drop_passive(self, events: Events, node: np.ndarray) -> None:
        """Remove nodes from passive views."""
        row, slot = np.nonzero(self.passive[events.place] == node[:, None])
        self.passive[events.place[row], slot] = NONE
        self._refused[events.place[row], slot] = False

    def _into_passive(
        self, events: Events, nodes: np.ndarray, sent: np.ndarray | None = None
    ) -> None:
        """Add nodes (k, m) to passive views; full views lose nodes first (rule Y6)."""
        if not len(events):
            return
        passive, active = self.passive[events.place], self.neighbours.node[events.place]
        fresh = (nodes >= 0) & (nodes != events.node[:, None])
        for column in range(nodes.shape[1]):
            one = nodes[:, column, None]
            known = (active == one).any(axis=1) | (passive == one).any(axis=1)
            fresh[:, column] &= ~known & ~(nodes[:, :column] == one).any(axis=1)
        rank = np.cumsum(fresh, axis=1) - 1
        fresh &= rank < self.rules.passive
        some = np.flatnonzero(fresh.any(axis=1))
        if not len(some):
            return
        events, fresh, rank, nodes = events.take(some), fresh[some], rank[some], nodes[some]
        passive, refused = passive[some], self._refused[events.place]
        # 1. full views lose nodes: those sent before, then others, both drawn
        many = np.count_nonzero(fresh, axis=1) - np.count_nonzero(passive < 0, axis=1)
        full = np.flatnonzero(many > 0)
        old = passive[full]
        drawn = events.take(full).draw(self._seed, "evict", old) >> np.uint64(1)
        if sent is not None and self.rules.whose == PAPER:
            first = (old[:, :, None] == sent[some[full], None, :]).any(axis=2) & (old >= 0)
            drawn |= np.where(first, 0, 2**63).astype(np.uint64)
        out = drawn.argsort(axis=1).argsort(axis=1) < many[full, None]
        passive[full], refused[full] = np.where(out, NONE, old), refused[full] & ~out
        # 2. the fresh nodes fill the free slots
        free = np.argsort(passive >= 0, axis=1, kind="stable")
        row, column = np.nonzero(fresh)
        slot = free[row, rank[row, column]]
        passive[row, slot], refused[row, slot] = nodes[row, column], False
        self.passive[events.place], self._refused[events.place] = passive, refused

    # --- messages that several handlers send

    def _refill(self, events: Events) -> None:
        """Ask a passive node to become a neighbour, one at a time (rule Y7)."""
        if not self.rules.repairs or not len(events):
            return
        active = self.neighbours.count(events.place)
        can = (active < self.rules.active) & (self._asked[events.place] < 0)
        can &= self._asks[events.place] < self.rules.passive
        asks = events.take(can)
        passive = np.where(self._refused[asks.place], NONE, self.passive[asks.place])
        to = asks.pick(self._seed, "ask", passive)
        some = to >= 0
        asks, to, lonely = asks.take(some), to[some], (active[can] == 0)[some]
        self._asked[asks.place], self._asked_us[asks.place] = to, asks.time_us
        self._asks[asks.place] += 1
        self._clock.send("neighbor", asks, to, priority=np.where(lonely, _HIGH, _LOW))
        if self.rules.whose == IROH:
            self._clock.wake("request", asks, asks.time_us + self.rules.wait_us, asked=to)

    def _walk(
        self, kind: str, walks: Events, others: np.ndarray, ttl: np.ndarray, names: tuple[str, ...]
    ) -> None:
        """Pass a message on to a drawn one of other neighbours, if there is any."""
        to = walks.pick(self._seed, "walk", others)
        some = to >= 0
        walks, to, ttl = walks.take(some), to[some], ttl[some]
        self._clock.send(kind, walks, to, ttl=ttl, **{name: walks[name] for name in names})

    def _to_all(
        self, kind: str, events: Events, peers: np.ndarray, **columns: np.ndarray | int
    ) -> None:
        """Send a message to several nodes (k, slots) of each event."""
        row, slot = np.nonzero(peers >= 0)
        of_row = {
            name: column if isinstance(column, int) else column[row]
            for name, column in columns.items()
        }
        self._clock.send(kind, events.take(row), peers[row, slot], **of_row)

    def _sample(self, events: Events, purpose: str, active: np.ndarray) -> np.ndarray:
        """Return active nodes and drawn passive ones: (k, 7)."""
        passive = self.passive[events.place]
        passive = events.picks(self._seed, purpose, passive, _PASSIVE_SHUFFLED)
        parts = _wide(active, _ACTIVE_SHUFFLED), _wide(passive, _PASSIVE_SHUFFLED)
        return np.concatenate(parts, axis=1)


def _columns(nodes: np.ndarray, names: tuple[str, ...] = SHUFFLED) -> dict[str, np.ndarray]:
    return {name: nodes[:, at] for at, name in enumerate(names)}


def _wide(nodes: np.ndarray, count: int) -> np.ndarray:
    """Return nodes (k, m) with `count` columns."""
    return np.pad(nodes, ((0, 0), (0, count - nodes.shape[1])), constant_values=NONE)
