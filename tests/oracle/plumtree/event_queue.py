"""An event queue: one heap, one event at a time.

Q1 Times are whole microseconds.  A message that leaves a at t arrives at b at t + delay(a, b).
Q2 An event has a time, a node, and a sender: -2 for a command, -1 for a timer, else the node that
   sent the message.  Events of a node are handled by time, then by sender, then in the order in
   which they were made (messages that leave later, too: in the order of the calls).
Q3 A node that is dead, or has not joined yet, handles nothing but `join`.
Q4 A message that arrives at a dead node b comes back to its sender a as the message `down` from b,
   at arrival + delay(b, a); it is made at the arrival.  A `down` does not come back.
   A GOSSIP that the network loses does not arrive, and does not come back.
Q5 A draw in an event is a number of (purpose, seed, time, node, sender, member).  *pick* takes the
   member with the least (draw, member), *picks* the least k, in this order.
"""

import heapq
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

COMMAND, TIMER = -2, -1

#: draw(purpose, time, node, sender) -> the draw of each member.
Draw = Callable[[str, int, int, int], Callable[[int], int]]


class Event(NamedTuple):
    """An event; its order is that of Q2."""

    at: int
    node: int
    sender: int
    number: int  # in the order of making, of all events together
    kind: str
    fields: tuple[Any, ...]


class EventQueue:
    """The heap and the clock.

    Attributes
    ----------
    alive : set of int
        The nodes that are alive.
    event : Event
        The event that is handled.
    sent : Counter of str
        The messages that were sent, by kind in small letters.
    handled : int
        The number of events.
    """

    def __init__(self, delay: Callable[[int, int], int], draw: Draw) -> None:
        self.delay, self.draw = delay, draw
        self.alive: set[int] = set()
        self.event = Event(0, -1, COMMAND, 0, "", ())
        self.sent: Counter[str] = Counter()
        self.handled = 0
        #: (publication, sender, receiver, time of leaving) -> True for a GOSSIP that is lost.
        self.is_lost: Callable[[int, int, int, int], bool] = lambda *copy: False
        #: (publication, sender) -> True for a node that sends no GOSSIP of it (N6).
        self.withholds: Callable[[int, int], bool] = lambda *copy: False
        #: The kinds of messages that these nodes do not send.
        self.withheld = {"GOSSIP"}
        self._heap: list[Event] = []
        self._made = 0

    @property
    def now(self) -> int:
        """Return the time of the event that is handled."""
        return self.event.at

    def _put(self, at: int, node: int, sender: int, kind: str, fields: tuple[Any, ...]) -> None:
        assert at >= self.now
        self._made += 1
        heapq.heappush(self._heap, Event(at, node, sender, self._made, kind, fields))

    def command(self, at: int, kind: str, node: int, value: int) -> None:
        """Add a command."""
        self._put(at, node, COMMAND, kind, (value,))

    def wake(self, node: int, at: int, timer: str, *fields: Any) -> None:
        """Set a timer."""
        self._put(at, node, TIMER, timer, fields)

    def send(
        self, sender: int, receiver: int, kind: str, *fields: Any, leaves: int | None = None
    ) -> None:
        """Send a message, which leaves now or later (Q1)."""
        assert sender != receiver
        leaves = self.now if leaves is None else leaves
        assert leaves >= self.now
        delay = self.delay(sender, receiver)
        assert delay >= 1
        if kind in self.withheld and self.withholds(fields[0], sender):
            return
        self.sent[kind.lower()] += 1
        if kind == "GOSSIP" and self.is_lost(fields[0], sender, receiver, leaves):
            return
        self._put(leaves + delay, receiver, sender, kind, fields)

    def picks(self, purpose: str, members: Iterable[int], count: int) -> list[int]:
        """Return the `count` members of least draw, all if there are fewer (Q5)."""
        draw = self.draw(purpose, self.event.at, self.event.node, self.event.sender)
        return sorted(members, key=lambda member: (draw(member), member))[: max(count, 0)]

    def pick(self, purpose: str, members: Iterable[int]) -> int:
        """Return the member of least draw (Q5)."""
        return self.picks(purpose, members, 1)[0]

    def play(
        self,
        handle: Callable[[Event], None],
        until: float = float("inf"),
        stop: Callable[[], bool] = lambda: False,
    ) -> None:
        """Handle all events before a time, or until `stop` is true."""
        while self._heap and self._heap[0].at < until and not stop():
            self._play_one(handle)

    def _play_one(self, handle: Callable[[Event], None]) -> None:
        """Handle the next event."""
        self.event = heapq.heappop(self._heap)
        self.handled += 1
        _, node, sender, _, kind, _ = self.event
        if node in self.alive or kind == "join":
            handle(self.event)
        elif sender >= 0 and kind != "down":
            self.send(node, sender, "down")
