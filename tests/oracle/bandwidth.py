"""The clock with message sizes and bandwidth, event by event: one heap, one event at a time.

Times are whole microseconds, bandwidths bits per second (0: unlimited), sizes bytes.  A copy of S
bytes takes ``tx(S, B)`` = ceil(8,000,000 S / B) on a link of bandwidth B, and nothing if B = 0.  A
*place* is a node's part in one topic; a *link* leads from a place y to a place x, with the delay
D(y, x) >= 1.  Each uplink and each downlink belongs to a node (shared) or to a place (independent).
Publications are numbered p in the order of time, topic and source, all topics together.

B1 *Publication.*  The source has publication p at its time t0: T = t0, hops 0, no sender.  It
   enqueues at E = t0.
B2 *Enqueue.*  A place whose first copy is complete at T and came from f enqueues one batch at
   E = T + V, V the node's validation time.  The batch has a copy to each peer but f and the source
   of p.  Peers are the mesh; a source that publishes by flood sends to all that it is connected to.
   Copies of a batch are in the order of draw(order, p, y, x), then of the nodeId of x; without a
   draw in the order of the links (trees: of the children).
B3 *Queue.*  Batches wait at the uplink in the order of (E, p).
B4 *Start* with discipline `serial`.  The head's start is s = max(E, free).  If
   known(p, y, x) < s, the copy is held back: it is dropped, and `free` stays.  Else the copy starts
   at s, and free = s + tx(S, up(y)).  Its first byte is at x at A = s + D(y, x), its last one at
   Z = A + tx(S, up(y)).  A copy that has started is sent to its end.
   With discipline `interleaved`, the head is a whole batch, which starts at s = max(E, free).
   Copies with known(p, y, x) < s are held back.  The n others share the uplink: A = s + D(y, x),
   Z = A + n tx(S, up(y)), free = s + n tx(S, up(y)).
   If the route has a narrowest link, Z is not before A + tx(S, narrowest(y, x)).
B5 *Downlink.*  Copies take the downlink in the order of (A, p, nodeId of the sender), duplicates
   too: busy = max(A, free) + tx(S, down(x)), free = busy.  A copy is complete at C = max(Z, busy).
B6 *First copy* of p at x: the copy of least C, then of fewest hops, then of the sender's least
   nodeId.  T = C, hops = those of the sender + 1.
B7 known(p, y, x), the time from which y knows that x has p, is the least of: C of each copy of p
   from x to y; with IDONTWANT T(x) + D(x, y).  IDONTWANT is sent at T, before validation, by x to
   all mesh peers but f, not by the source, and for messages of a threshold or more.  Control
   messages take no time on links and no turn in queues.
   A copy that the network loses takes the uplink only: it is no copy for B5 to B7.
B8 *At the same moment* first bytes arrive before copies are complete, copies are complete before
   batches are enqueued, and batches are enqueued before copies start.
B9 *Recoded parts.*  With `recoded` = k > 0, a publication q has k messages, its parts, of one
   source and time: those numbered q k, ..., q k + k - 1.  The p of B1 to B8 is the number of a
   message.  Nodes recode: a complete copy of message p of q from y is *useful* to x if x has fewer
   than k parts of q, and useful(p, y, x) is true (y, x: nodes).  The useful copies at a place x
   become its parts 0, 1, ... in the order of C, hops, the sender's nodeId and p.  B2 to B7 hold for
   the useful copy that becomes part r as for a first copy of message q k + r: x sends message
   q k + r, neither to the sender of that useful copy nor to the source.  Other copies are
   duplicates.  The source has all parts at t0, so that copies to the source are duplicates.
   known(p, y, x) is one time for all messages p of q, the least of: C of the copy of message
   q k + k - 1 from x to y, useful or not; with IDONTWANT T(x) + D(x, y), T(x) the time of x's part
   k - 1.  No other part is announced.
"""

import heapq
from collections import defaultdict
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

SERIAL, INTERLEAVED = "serial", "interleaved"

#: The kinds of events, in their order at the same moment (B8).
FIRST_BYTE, COMPLETE, ENQUEUE, START = range(4)

NEVER = float("inf")


@dataclass(frozen=True)
class Node:
    """A node: its nodeId, up and down in bits per second (0: unlimited), validation time in us."""

    ident: int
    up: int = 0
    down: int = 0
    validation_us: int = 0


class Link(NamedTuple):
    """A link from one place to another.

    A link that is no mesh link is used by a source that publishes by flood, and by nobody else.
    """

    sender: int
    receiver: int
    delay_us: int
    mesh: bool = True


class Publication(NamedTuple):
    """A publication by the place `source`; `flood`: the source sends on all of its links."""

    source: int
    at_us: int
    size: int
    flood: bool = False


@dataclass(frozen=True)
class Network:
    """Nodes, places and links."""

    nodes: Mapping[int, Node]
    #: Place -> its node.  The publisher of a tree is a place of its own with a link to the root.
    places: Mapping[int, int]
    links: Sequence[Link]  # At most one from a place to another; a link of a tree has no link back
    #: ``narrowest(y, x)``: the least bandwidth on the route between nodes (0: unlimited).
    narrowest: Callable[[int, int], int] = lambda y, x: 0


@dataclass(frozen=True)
class Rules:
    """How copies are sent."""

    discipline: str = INTERLEAVED  # Of uplinks: `serial` or `interleaved`
    shared: bool = True  # Up- and downlinks belong to nodes, else to places
    #: The size from which messages are announced by IDONTWANT; None: without IDONTWANT.
    idontwant: int | None = None
    #: ``order(p, y, x)``, y and x nodes: copies of a batch go in this order.  None: in the order of
    #: the links.
    order: Callable[[int, int, int], int] | None = None
    #: True if a batch has a copy to each peer, also to f and the source, and none is held back.
    to_all: bool = False
    #: ``lost(p, y, x)``: True if the network loses the copy of p from place y to place x.
    lost: Callable[[int, int, int], bool] = lambda p, y, x: False
    #: ``withholds(p, y)``: True if node y forwards nothing of p.
    withholds: Callable[[int, int], bool] = lambda p, y: False
    #: True if these nodes send no IDONTWANT of p, either.
    withholds_announcements: bool = False
    #: The number of messages (parts) that a publication has, which nodes recode (B9); 0: nodes do
    #: not recode, and each message is a publication.
    recoded: int = 0
    #: ``useful(p, y, x)``: True if a copy of message p from node y is a part for node x, if x lacks
    #: parts.  Without recoding this function is not asked.
    useful: Callable[[int, int, int], bool] = lambda p, y, x: True


class First(NamedTuple):
    """The first copy of a place, or the useful copy: when complete, its hops, who sent it."""

    at_us: int
    hops: int
    sender: int | None


class Copy(NamedTuple):
    """A copy that was sent, with the number of the message as sent.

    `enqueued_us` is E, `start_us` s, `arrives_us` A, `last_us` Z, `complete_us` C.
    """

    publication: int
    sender: int
    receiver: int
    hops: int
    enqueued_us: int
    start_us: int
    arrives_us: int
    last_us: int
    complete_us: int


class HeldBack(NamedTuple):
    """A copy that was dropped at the time at which it would have started."""

    publication: int
    sender: int
    receiver: int
    at_us: int


class Told(NamedTuple):
    """An IDONTWANT of a place, and the time at which it arrives (B9: with message q k + k - 1)."""

    publication: int
    sender: int
    receiver: int
    arrives_us: int


@dataclass
class Played:
    """What came of all publications."""

    #: Of each place that has the publication, the source too.  B9: (q k + r, place) is part r.
    first: dict[tuple[int, int], First] = field(default_factory=dict)
    copies: list[Copy] = field(default_factory=list)  # In the order of their completion
    lost: list[Copy] = field(default_factory=list)  # they would be complete at `last_us`
    held_back: list[HeldBack] = field(default_factory=list)
    told: list[Told] = field(default_factory=list)  # IDONTWANTs


def tx(size: int, bandwidth: int) -> int:
    """Return how many microseconds a message occupies a link."""
    return -(-8_000_000 * size // bandwidth) if bandwidth else 0


def play(network: Network, publications: Sequence[Publication], rules: Rules) -> Played:
    """Play publications, which are numbered as they are given: in the order of their times.

    With recoding `publications` are the messages: the k parts of a publication stand together.
    """
    return _Play(network, publications, rules).play()


class _Queue:
    """An uplink: what waits, as (E, p, place in the batch, copies), and until when it is busy."""

    def __init__(self) -> None:
        self.waiting: list[tuple[int, int, int, list[tuple[int, int]]]] = []
        self.free = 0
        self.is_called = False  # a START is in the heap


class _Play:
    """The state of a play, and a method for each kind of event."""

    def __init__(self, network: Network, publications: Sequence[Publication], rules: Rules) -> None:
        self.network, self.publications, self.rules = network, publications, rules
        self.links: dict[int, list[Link]] = defaultdict(list)
        self.link: dict[tuple[int, int], Link] = {}
        for link in network.links:
            assert link.delay_us >= 1
            assert (link.sender, link.receiver) not in self.link
            self.links[link.sender].append(link)
            self.link[link.sender, link.receiver] = link
        self.uplinks: dict[Hashable, _Queue] = defaultdict(_Queue)
        self.down_free: dict[Hashable, int] = defaultdict(int)
        self.count = rules.recoded or 1  # k: without recoding a message is the one part
        self.parts: dict[tuple[int, int], int] = defaultdict(int)  # (q, place) -> the parts it has
        self.known: dict[tuple[int, int, int], float] = {}
        self.played = Played()
        self.events: list[tuple[Any, ...]] = []

    def play(self) -> Played:
        times = [publication.at_us for publication in self.publications]
        assert times == sorted(times)
        for p, one in enumerate(self.publications):
            assert one[:2] == self.publications[p // self.count * self.count][:2]
        assert len(times) % self.count == 0
        for p, (source, at, _, _) in enumerate(self.publications):
            self.played.first[p, source] = First(at, 0, None)
            self.parts[p // self.count, source] += 1
            self.put(at, ENQUEUE, (p, source), (p, source))
        handlers = [self.first_byte, self.complete, self.enqueue, self.start]
        while self.events:
            now, kind, _, event = heapq.heappop(self.events)
            handlers[kind](now, *event)
        return self.played

    def put(self, at: int, kind: int, tie: tuple[Any, ...], event: tuple[Any, ...]) -> None:
        heapq.heappush(self.events, (at, kind, tie, event))

    def node(self, place: int) -> Node:
        return self.network.nodes[self.network.places[place]]

    def owner(self, place: int) -> int:
        """Return to whom the links of a place belong."""
        return self.network.places[place] if self.rules.shared else place

    # --- B2, B3 -------------------------------------------------------------------------------

    def enqueue(self, now: int, p: int, y: int) -> None:
        source, _, _, flood = self.publications[p]
        mine, nodes = self.played.first[p, y], self.network.places
        if self.withholds(p, y):
            return
        peers = [
            link.receiver
            for link in self.links[y]
            if (link.mesh or (flood and y == source))
            and (self.rules.to_all or link.receiver not in (mine.sender, source))
        ]
        if self.rules.order is not None:
            order = self.rules.order
            peers.sort(key=lambda x: (order(p, nodes[y], nodes[x]), self.node(x).ident))
        copies = [(y, x) for x in peers]
        together = [copies] if self.rules.discipline == INTERLEAVED else [[one] for one in copies]
        queue = self.uplinks[self.owner(y)]
        for number, some in enumerate(together):
            heapq.heappush(queue.waiting, (now, p, number, some))
        self.call(now, self.owner(y))

    def withholds(self, p: int, y: int) -> bool:
        """Return whether a place forwards nothing of p."""
        node, source = (self.network.places[one] for one in (y, self.publications[p].source))
        return node != source and self.rules.withholds(p, node)

    def call(self, now: int, owner: int) -> None:
        """Let the head of an uplink start when the uplink is free."""
        queue = self.uplinks[owner]
        if queue.waiting and not queue.is_called:
            queue.is_called = True
            self.put(max(now, queue.free), START, (owner,), (owner,))

    # --- B4 -----------------------------------------------------------------------------------

    def start(self, now: int, owner: int) -> None:
        queue = self.uplinks[owner]
        queue.is_called = False
        enqueued, p, _, together = heapq.heappop(queue.waiting)
        sent = []
        for y, x in together:
            known = self.known.get((p // self.count, y, x), NEVER)
            if known < now and not self.rules.to_all:
                self.played.held_back.append(HeldBack(p, y, x, now))
            else:
                sent.append((y, x))
        if sent:
            y, _ = sent[0]  # all of a batch are of one place
            takes = len(sent) * tx(self.publications[p].size, self.node(y).up)
            queue.free = now + takes
            for y, x in sent:
                arrives = now + self.link[y, x].delay_us
                ends = (self.network.places[place] for place in (y, x))
                route = tx(self.publications[p].size, self.network.narrowest(*ends))
                last = arrives + max(takes, route)
                tie = (p, self.node(y).ident, y)
                hops = self.played.first[p, y].hops + 1
                copy = (p, y, x, hops, enqueued, now, arrives, last)
                if self.rules.lost(p, y, x):
                    self.played.lost.append(Copy(*copy, last))
                    continue
                self.put(arrives, FIRST_BYTE, tie, copy)
        self.call(now, owner)

    # --- B5 -----------------------------------------------------------------------------------

    def first_byte(self, now: int, *copy: int) -> None:
        p, y, x, hops, _, _, _, last = copy
        owner = self.owner(x)
        busy = max(now, self.down_free[owner]) + tx(self.publications[p].size, self.node(x).down)
        self.down_free[owner] = busy
        complete = max(last, busy)
        whole = Copy(*copy, complete)
        self.put(complete, COMPLETE, (hops, self.node(y).ident, p, y, x), (whole,))

    # --- B6, B7, B9 ---------------------------------------------------------------------------

    def complete(self, now: int, copy: Copy) -> None:
        y, x = copy.sender, copy.receiver
        self.played.copies.append(copy)
        if self.is_last_part(copy.publication):
            self.learn(copy.publication, x, y, now)
        if not self.is_useful(copy):
            return
        q = copy.publication // self.count
        p = q * self.count + self.parts[q, x]  # the message that x makes of the copy
        self.parts[q, x] += 1
        self.played.first[p, x] = First(now, copy.hops, y)
        self.put(now + self.node(x).validation_us, ENQUEUE, (p, x), (p, x))
        announced = self.rules.idontwant
        if announced is None or self.publications[p].size < announced or not self.is_last_part(p):
            return
        if self.rules.withholds_announcements and self.withholds(p, x):
            return
        for link in self.links[x]:
            if link.mesh and link.receiver != y:
                arrives = now + link.delay_us
                self.played.told.append(Told(p, x, link.receiver, arrives))
                self.learn(p, link.receiver, x, arrives)

    def is_useful(self, copy: Copy) -> bool:
        """Return whether a complete copy is the receiver's next part."""
        p, y, x = copy.publication, copy.sender, copy.receiver
        if self.parts[p // self.count, x] == self.count:
            return False
        nodes = self.network.places
        return not self.rules.recoded or self.rules.useful(p, nodes[y], nodes[x])

    def is_last_part(self, p: int) -> bool:
        """Return whether a message is the part k - 1 of its publication."""
        return p % self.count == self.count - 1

    def learn(self, p: int, y: int, x: int, at: int) -> None:
        """Note that y knows from a time on that x has the publication of message p."""
        key = p // self.count, y, x
        self.known[key] = min(at, self.known.get(key, NEVER))
