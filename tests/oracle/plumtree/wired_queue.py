"""The queue of events with bandwidth: copies of publications wait for uplinks and downlinks.

Q8 *Uplink.*  The copies that a node sends in one event and that leave together are a batch.  The
   uplink of a node serves batches in the order in which they leave, then of sending.  Serial: the
   copies follow each other, by receiver, and each takes T = ceil(8,000,000 size / rate)
   microseconds.  Interleaved: all n copies begin together and take n T.
Q9 *Downlink.*  The first byte arrives a delay after the begin.  The downlink serves copies by the
   arrival of their first bytes, then by publication and sender; each takes T by its own rate.  A
   copy is complete when it is served and its last byte has arrived.  The event is at this moment,
   after control messages of the same sender.
Q10 A lost copy (by the begin of its transmission) takes the uplink, and no downlink.
"""

import heapq
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from .event_queue import Draw, Event, EventQueue


@dataclass(frozen=True)
class Links:
    """The rates of nodes in bits per second (0: no limit), and the bytes of publications."""

    up: tuple[int, ...]
    down: tuple[int, ...]
    size: tuple[int, ...]
    serial: bool = False

    def takes(self, publication: int, rate: int) -> int:
        """Return the time of one copy."""
        return -(-8_000_000 * self.size[publication] // rate) if rate else 0


@dataclass(order=True)
class _Due:
    """A batch that leaves, or a copy whose first byte arrives; these come before events."""

    at: int
    order: tuple[int, ...]
    act: Callable[[], None] = field(compare=False)


class WiredQueue(EventQueue):
    """A queue whose copies take time on links."""

    def __init__(self, delay: Callable[[int, int], int], draw: Draw, links: Links) -> None:
        super().__init__(delay, draw)
        self.links = links
        self._up: dict[int, int] = {}  # when the uplinks and downlinks have served everything
        self._down: dict[int, int] = {}
        self._due: list[_Due] = []
        #: (publication, sender, receiver, time) of all copies; of lost ones, without a downlink.
        self.copies: list[tuple[int, int, int, int]] = []
        self._batch: dict[tuple[int, int, int], list[Event]] = {}

    def send(
        self, sender: int, receiver: int, kind: str, *fields: Any, leaves: int | None = None
    ) -> None:
        if kind != "GOSSIP":
            super().send(sender, receiver, kind, *fields, leaves=leaves)
            return
        if self.withholds(fields[0], sender):
            return
        self.sent["gossip"] += 1
        leaves = self.now if leaves is None else leaves
        batch = leaves, sender, self.event.number
        if batch not in self._batch:
            self._batch[batch] = []
            self._made += 1
            due = _Due(leaves, (0, self._made), lambda: self._leave(self._batch.pop(batch)))
            heapq.heappush(self._due, due)
        self._batch[batch].append(Event(leaves, receiver, sender, 0, kind, fields))

    def _leave(self, copies: list[Event]) -> None:
        """Serve a batch by the uplink (Q8)."""
        sender, publication = copies[0].sender, copies[0].fields[0]
        takes = self.links.takes(publication, self.links.up[sender])
        begins = max(copies[0].at, self._up.get(sender, 0))
        self._up[sender] = begins + len(copies) * takes
        lasts = takes if self.links.serial else len(copies) * takes
        for number, copy in enumerate(sorted(copies, key=lambda one: one.node)):
            at = begins + number * takes if self.links.serial else begins
            first = at + self.delay(sender, copy.node)
            if self.is_lost(publication, sender, copy.node, at):
                self.copies.append((publication, sender, copy.node, first + lasts))
                continue
            order = 1, copy.node, publication, sender
            act = lambda first=first, copy=copy: self._arrive(first, lasts, copy)  # noqa: E731
            heapq.heappush(self._due, _Due(first, order, act))

    def _arrive(self, first: int, lasts: int, copy: Event) -> None:
        """Serve a copy by the downlink (Q9)."""
        takes = self.links.takes(copy.fields[0], self.links.down[copy.node])
        served = max(first, self._down.get(copy.node, 0)) + takes
        self._down[copy.node] = served
        self._made += 1
        at = max(served, first + lasts)
        self.copies.append((copy.fields[0], copy.sender, copy.node, at))
        # the numbers of copies follow those of all control messages
        event = Event(at, copy.node, copy.sender, 10**12 + self._made, "GOSSIP", copy.fields)
        heapq.heappush(self._heap, event)

    def play(
        self,
        handle: Callable[[Event], None],
        until: float = float("inf"),
        stop: Callable[[], bool] = lambda: False,
    ) -> None:
        while (self._heap or self._due) and not stop():
            times = [heap[0].at for heap in (self._due, self._heap) if heap]
            if min(times) >= until:
                return
            if self._due and (not self._heap or self._due[0].at <= self._heap[0].at):
                heapq.heappop(self._due).act()
            else:
                self._play_one(handle)
