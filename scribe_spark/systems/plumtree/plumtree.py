"""Plumtree: a broadcast tree inside an overlay, and the overlay's other links as its repair.

A node has *eager* and *lazy* neighbours.  It sends a publication to its eager neighbours, and only
the announcement of it to its lazy ones.  In the beginning all neighbours are eager, so the first
publication floods the overlay.  A copy that comes in vain makes its link lazy; the eager links that
remain are a tree, along the fastest ways.  A node that hears of a publication and does not get it
grafts the announcing neighbour into the tree.

The rules are Z1 to Z7 in docs/rules.md; `config` names the sources.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import numpy as np

from scribe_spark.clock.bucket import BucketClock, Slots
from scribe_spark.clock.kernel import ClockEvents, Column, Control, Payload
from scribe_spark.core.arrays import NONE
from scribe_spark.systems.plumtree import CORROSION, IROH, PAPER

if TYPE_CHECKING:  # not on executors
    from scribe_spark.systems.plumtree.config import PlumtreeConfig


class Plumtree:
    """The publications at a bucket's places, and the handlers of Plumtree's messages.

    A *place* is a node in the overlay of a room, such as a group. The state of a place has a row
    for each publication in its room: number `_base[p] + place`.
    """

    messages: ClassVar[dict[str, Control | Payload]] = {
        "gossip": Payload(("publication", "round")),
        "ihave": Control(("publication", "round"), bytes=24, announces=True),
        "graft": Control(("publication",), bytes=24),
        "prune": Control(bytes=8),
    }
    timers: ClassVar[dict[str, tuple[Column, ...]]] = {"wait": ("publication", "again")}

    def __init__(
        self, rules: PlumtreeConfig, seed: int, clock: BucketClock, near: Slots, room: np.ndarray
    ) -> None:
        self.rules, self._seed, self._clock, self.neighbours = rules, seed, clock, near
        first, end = (np.searchsorted(clock.room, room, side) for side in ("left", "right"))
        self._ends = ends = np.cumsum(end - first)
        self._base = ends - end  # a room's places are counted from its first one
        count, slots = int(ends[-1]) if len(ends) else 0, self.neighbours.node.shape[1]
        self.got_us = np.full(count, NONE, dtype=np.int64)
        self.hops = np.zeros(count, dtype=np.int32)
        self.sender = np.full(count, NONE, dtype=np.int32)
        self._timer_us = np.full(count, NONE, dtype=np.int64)
        #: What neighbours announced: the round, the order (0: nothing), and the slot's tenancy.
        self._round = np.zeros((count, slots), dtype=np.int32)
        self._order = np.zeros((count, slots), dtype=np.int32)
        self._tenancy = np.zeros((count, slots), dtype=np.int16)
        self._announced = np.zeros(count, dtype=np.int32)
        self._batch_us = np.zeros(len(clock.room), dtype=np.int64)

    # --- commands

    def on_publish(self, starts: ClockEvents) -> None:
        """Let sources publish: give their publications to their neighbours (rule Z1)."""
        hops = np.zeros(len(starts), dtype=np.int32)
        self._deliver(starts, starts["value"], hops)
        self._push(starts, starts["value"], hops)

    # --- messages and timers

    def on_gossip(self, copies: ClockEvents) -> None:
        """Pass new publications on; make the links of duplicates lazy (rules Z2 to Z4)."""
        has = self.got_us[self._row(copies)] >= 0
        self._on_first(copies.take(~has))
        self._on_duplicate(copies.take(has))

    def _on_first(self, copies: ClockEvents) -> None:
        row, publication, sender = self._row(copies), copies["publication"], copies.sender
        self._deliver(copies, publication, copies["round"] + 1)
        self._push(copies, publication, copies["round"] + 1)
        if self.rules.rules == PAPER:
            self.neighbours.mark("lazy", copies.place, sender, False)
        self._optimise(copies)
        self._order[row] = 0

    def _on_duplicate(self, copies: ClockEvents) -> None:
        slot = self.neighbours.slot(copies.place, copies.sender)
        prunes = np.ones(len(copies), dtype=bool)
        if self.rules.rules == CORROSION:
            near = np.flatnonzero(slot >= 0)
            at = copies.place[near], slot[near]
            duplicates = self.neighbours.flags["duplicates"]
            duplicates[at] += 1
            many = duplicates[at] > self.rules.duplicates
            duplicates[at] *= ~many  # the count begins again
            prunes[near] = many
        copies = copies.take(prunes)
        self.neighbours.mark("lazy", copies.place, copies.sender, True)
        self._clock.send("prune", copies, copies.sender)

    def on_ihave(self, notes: ClockEvents) -> None:
        """Record which neighbours announce; set the timers of lacking publications (rule Z5)."""
        slot = self.neighbours.slot(notes.place, notes.sender)
        lacks = (slot >= 0) & (self.got_us[self._row(notes)] < 0)
        notes, slot = notes.take(lacks), slot[lacks]
        row = self._row(notes)
        self._announced[row] += 1
        self._round[row, slot], self._order[row, slot] = notes["round"], self._announced[row]
        self._tenancy[row, slot] = self.neighbours.tenancy[notes.place, slot]
        self._wait(notes.take(self._timer_us[row] < 0), self.rules.us["first_wait"], again=0)

    def on_graft(self, asks: ClockEvents) -> None:
        """Make the links to the senders eager; send publications that they ask for (rule Z6)."""
        self.neighbours.mark("lazy", asks.place, asks.sender, False)
        asks = asks.take(asks["publication"] >= 0)
        got_us = self.got_us[self._row(asks)]
        asks = asks.take((got_us >= 0) & (asks.time_us - got_us <= self.rules.us["keep"]))
        columns = {"publication": asks["publication"], "round": self.hops[self._row(asks)]}
        self._clock.send("gossip", asks, asks.sender, **columns)

    def on_prune(self, prunes: ClockEvents) -> None:
        """Make the links to the senders lazy (rule Z4)."""
        self.neighbours.mark("lazy", prunes.place, prunes.sender, True)

    def on_wait(self, ends: ClockEvents) -> None:
        """When a timer ends, graft the link to an announcing neighbour; wait again (rule Z5)."""
        row = self._row(ends)
        waits = (self._timer_us[row] == ends.time_us) & (self.got_us[row] < 0)
        ends, row = ends.take(waits), row[waits]
        self._timer_us[row] = NONE
        order = self._orders(ends.place, row)
        some = np.flatnonzero((order < _NOT).any(axis=1))
        ends, row, order = ends.take(some), row[some], order[some]
        slot = order.argmin(axis=1)
        peer = self.neighbours.node[ends.place, slot]
        self._order[row, slot] = 0
        if self.rules.rules == CORROSION:
            lazy = self.neighbours.flags["lazy"][ends.place]
            eager = np.where(lazy, NONE, self.neighbours.node[ends.place])
            drawn = ends.pick(self._seed, "graft", eager)
            peer = np.where((ends["again"] == 0) | (drawn < 0), peer, drawn)
        self.neighbours.mark("lazy", ends.place, peer, False)
        self._clock.send("graft", ends, peer, publication=ends["publication"])
        self._wait(ends, self.rules.us["next_wait"], again=1)

    # --- the parts of handlers

    def split(self, row: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the publications (indices) and places of rows of the state."""
        publication = np.searchsorted(self._ends, row, side="right")
        return publication, row - self._base[publication]

    def _row(self, events: ClockEvents) -> np.ndarray:
        """Return the row of the state of each event's publication at its place."""
        return self._base[events["publication"]] + events.place

    def _deliver(self, events: ClockEvents, publication: np.ndarray, hops: np.ndarray) -> None:
        """Record that the nodes of events got a publication, with its hops, time and sender."""
        row = self._base[publication] + events.place
        self.got_us[row], self.hops[row] = events.time_us, hops
        self.sender[row] = np.maximum(events.sender, NONE)

    def _push(self, events: ClockEvents, publication: np.ndarray, hops: np.ndarray) -> None:
        """Send a publication to eager neighbours and its announcement to lazy ones (rule Z2)."""
        peers = self.neighbours.without(events.place, events.sender)
        lazy = self.neighbours.flags["lazy"].take(events.place, axis=0)
        columns = {"publication": publication, "round": hops}
        self._clock.send("gossip", events, np.where(lazy, NONE, peers), **columns)
        peers = np.where(lazy, peers, NONE)
        batch_us, now = self._batch_us[events.place], events.time_us
        begins = (peers >= 0).any(axis=1) & (now >= batch_us)
        batch_us = np.where(begins, now + self.rules.us["batch"], batch_us)
        self._batch_us[events.place] = batch_us
        self._clock.send("ihave", events, peers, leaves_us=batch_us, **columns)

    def _wait(self, events: ClockEvents, wait_us: int, again: int) -> None:
        """Wake the nodes of events after `wait_us`, as timers of the events' publications."""
        at_us = events.time_us + wait_us
        self._timer_us[self._row(events)] = at_us
        self._clock.wake("wait", events, at_us, publication=events["publication"], again=again)

    def _orders(self, place: np.ndarray, row: np.ndarray) -> np.ndarray:
        """Return in which order neighbours announced a publication (k, slots), others last."""
        order, near = self._order.take(row, axis=0), self.neighbours
        told = self._tenancy.take(row, axis=0) == near.tenancy.take(place, axis=0)
        told &= (order > 0) & (near.node.take(place, axis=0) >= 0)
        return np.where(told, order, _NOT)

    def _optimise(self, copies: ClockEvents) -> None:
        """Replace the link of a copy by that of a much better announcement (rule Z7)."""
        if not self.rules.threshold:
            return
        copies = copies.take(self.neighbours.has(copies.place, copies.sender))
        row, place = self._row(copies), copies.place
        order = self._orders(place, row)
        hops = np.where(order < _NOT, self._round[row], _NOT)
        least = hops.min(axis=1)
        slot = np.where(hops == least[:, None], order, _NOT).argmin(axis=1)
        peer = self.neighbours.node[place, slot]
        swaps = (least < _NOT) & (peer != copies.sender)
        hops = copies["round"] + (self.rules.rules == IROH)  # iroh compares what it passes on
        swaps &= hops - least >= self.rules.threshold
        copies, peer = copies.take(swaps), peer[swaps]
        self.neighbours.mark("lazy", copies.place, peer, False)
        self._clock.send("graft", copies, peer, publication=NONE)
        if self.rules.rules != CORROSION:
            self.neighbours.mark("lazy", copies.place, copies.sender, True)
            self._clock.send("prune", copies, copies.sender)


#: An order, and a round, after all others: there is no announcement.
_NOT = np.int32(2**31 - 1)
