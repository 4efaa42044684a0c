"""Reliable, ordered delivery: an application on the three upcalls and nothing else (III.B.2).

The root numbers messages, nodes keep those whose numbers are among the last `size` that they know
of, a JOIN that repairs carries the last number that was delivered, and the new parent sends what is
missing.  Numbers of a group's epoch begin at ``epoch << 32``, so that those of a group that was
created again are larger.

A fresh message carries its number.  A retransmission carries ``start`` ("all that follows start
is here": also empty, to tell a new child where to begin), the messages, ``floor`` ("up to here
nothing can be had any more"), and ``since`` ("all that was published from this round on follows
start").

A *place* is what a JOIN carries, and what a child is served from: a number (all that follows it),
or ``round << 32``, the beginning of a round (all that was published from then on), which comes
before the numbers of an epoch that begins in that round.  Who has no number, since it has not
begun, names the round of its join (rule S31).
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from .state import Application, Ask, Change, Join, Local, Payload, Publication

Buffer = dict[int, Publication]


def beginning(number: int) -> int:
    """The place before all that is published from a round on."""
    return number << 32


def is_beginning(place: int) -> bool:
    """Whether a place is the beginning of a round, or of an epoch."""
    return place % (1 << 32) == 0


def common_place(places: Sequence[int]) -> int | None:
    """A place from which on a child gets all that it would from several places.

    Where a number and a round meet of which neither is known to come first, it is the beginning of
    the number's epoch.
    """
    least = min(places, default=None)
    if least is not None and any(map(is_beginning, places)):
        return least >> 32 << 32
    return least


@dataclass
class Need:
    """Up to where a child was served, and the round from which on it is to have everything."""

    at: int
    since: int


@dataclass
class Record:
    """What a node of a tree remembers; `last` is None until it knows where it begins.

    From then on it knows, too, since when it has had everything, or knows it to be lost.
    """

    entered: int
    last: int | None = None  # all up to here was had (at a member: delivered), in order
    since: int | None = None
    floor: int = -1
    buffer: Buffer = field(default_factory=dict)
    needs: dict[int, Need] = field(default_factory=dict)  # of children
    ready: list[Publication] = field(default_factory=list)  # for the message handler

    def first(self, top: int) -> int:
        """The least number from which the buffer has all up to `top`."""
        while top in self.buffer:
            top -= 1
        return top + 1

    def keep(self, items: Mapping[int, Publication], size: int) -> None:
        """Put messages into the buffer; of two with the same number the later one stays.

        It has room for the `size` numbers that end with the largest that the node has had.
        """
        self.buffer.update(items)
        for number in set(self.buffer):
            if number <= max(self.buffer) - size:
                del self.buffer[number]

    def take(self, items: Mapping[int, Publication], size: int) -> None:
        """Keep messages, and go on as far as there is no gap.

        A gap that is too old for the buffer is given up.
        """
        self.keep(items, size)
        if self.last is None and items:
            self.last = min(items) - 1
        if self.last is not None and self.buffer:
            self.last = max(self.last, max(self.buffer) - size)
        self.go_on()

    def go_on(self) -> None:
        """What is next in order is ready for the message handler."""
        while self.last is not None and self.last + 1 in self.buffer:
            self.last += 1
            self.ready.append(self.buffer[self.last])


@dataclass
class Reliable(Application):
    """The application; `size` is B, the messages that a node keeps."""

    acknowledged = True

    size: int = 64
    records: dict[tuple[int, int], Record] = field(default_factory=dict)

    def record(self, here: Local) -> Record:
        """The node's record, a new one if it has entered the tree anew."""
        record = self.records.get((here.group, here.node))
        if record is None or record.entered != here.entered:
            record = self.records[here.group, here.node] = Record(here.entered)
        return record

    def top(self, here: Local, record: Record) -> int | None:
        """The last number that there is; at the root by the group's state, which it takes over."""
        if not here.root:
            return record.last
        last, kept = here.state or (here.epoch << 32, {})
        record.keep(kept, self.size)
        record.floor = max(record.floor, record.first(last) - 1)
        return last

    def serve(self, here: Local, record: Record, child: int) -> Payload | None:
        """What is missing at a child; None if that is nothing, or if it cannot be served now."""
        top, need = self.top(here, record), record.needs.get(child)
        if top is None:
            return None
        need = need or Need(beginning(here.round), here.round)
        start = self.start(record, need, top)
        if start is None or start > top or (start == need.at == top and not is_beginning(top)):
            return None
        record.needs[child] = Need(top, need.since)
        numbers = tuple(range(start + 1, top + 1))
        missing = tuple(record.buffer[number] for number in numbers)
        return Payload(start, missing, start, record.floor, need.since, numbers)

    def start(self, record: Record, need: Need, top: int) -> int | None:
        """After which number a child's messages begin; None if not all of them are here."""
        first = record.first(top)
        if not (is_beginning(need.at) and need.at > top):
            start = max(need.at, record.floor)
            return start if start + 1 >= first else None
        if (record.since is None or record.since > need.since) and first > record.floor + 1:
            return None
        young = [n for n in range(first, top + 1) if record.buffer[n][0] >= need.since]
        return min(young, default=top + 1) - 1

    def unserved(self, here: Local, record: Record) -> list[int]:
        """From where on children need what this node has not got."""
        return [
            need.at
            for child, need in record.needs.items()
            if child in here.children and self.lacks(here, record, need)
        ]

    def lacks(self, here: Local, record: Record, need: Need) -> bool:
        """Whether this node has not got what a child needs."""
        top = self.top(here, record)
        return top is None or self.start(record, need, top) is None

    # ---- the upcalls

    def fault_handler(self, here: Local, join: Join) -> int | None:
        """The last number delivered, or less if a child waits for older messages.

        Who has not begun names the round in which it joined, if that was before this one.
        """
        record = self.record(here)
        own = []
        if record.last is not None:
            own = [record.last]
        elif 0 <= here.joined < here.round:
            own = [beginning(here.joined)]
        return common_place(own + self.unserved(here, record))

    def last_number(self, here: Local) -> int | None:
        return self.top(here, self.record(here))

    def common_extra(self, extras: Sequence[int]) -> int | None:
        return common_place(extras)

    def join_handler(self, here: Local, join: Join) -> Iterable[Payload | Ask]:
        """Send what is missing; ask the parent, unless the own JOIN asks for it already."""
        record = self.record(here)
        need = record.needs[join.source] = self.need(here, record, join)
        answer = self.serve(here, record, join.source)
        if answer is not None:
            return [answer]
        if not self.lacks(here, record, need) or self.is_asked(here, need.at):
            return []
        return [Ask(need.at)]

    def need(self, here: Local, record: Record, join: Join) -> Need:
        """What a child needs by its JOIN; a question adds to what it waits for, or has had.

        Messages that come before a round are not those that come after a number: so both are kept,
        unless the child has had all that is here, and gets the round's now.
        """
        at = beginning(here.round) if join.extra is None else join.extra
        need = Need(at, at >> 32 if is_beginning(at) else here.round)
        before, top = record.needs.get(join.source), self.top(here, record)
        if join.cause != "ask" or before is None:
            return need
        need.since = min(before.since, need.since)
        has = top is not None and before.at <= top and not self.lacks(here, record, before)
        if not (is_beginning(at) and has and not self.lacks(here, record, need)):
            need.at = common_place([before.at, at])
        return need

    def is_asked(self, here: Local, at: int) -> bool:
        """Whether the own JOIN, which is answered, asks for this already.

        With any answer comes all that is published from its round on.
        """
        if at == beginning(here.round):
            return True
        if here.asked is None or here.asked > at:
            return False
        return is_beginning(here.asked) or not is_beginning(at)

    def forward_handler(
        self, here: Local, message: Payload
    ) -> tuple[Mapping[int, Payload], Change | None]:
        """Number at the root, keep, and pass on; of a retransmission what each child lacks."""
        record, change = self.record(here), None
        record.ready = []
        is_new = here.root and message.start is None
        if is_new:
            number = self.top(here, record) + 1
            message = Payload(number, message.publications, numbers=(number,))
        if message.start is None:
            begins = record.last is None
            if begins:
                record.since = here.round
            record.take(dict(zip(message.numbers, message.publications, strict=True)), self.size)
            if is_new:
                change = self.changed(record, message.number)
            for child in here.children:
                need = record.needs.setdefault(child, Need(message.number, here.round))
                if need.at == message.number - 1 or (begins and is_beginning(need.at)):
                    need.at = message.number
            return dict.fromkeys(here.children, message), change
        record.floor = max(record.floor, message.floor)
        record.last = message.start if record.last is None else max(record.last, message.start)
        record.since = message.since if record.since is None else min(record.since, message.since)
        record.take(dict(zip(message.numbers, message.publications, strict=True)), self.size)
        parts = {child: self.serve(here, record, child) for child in sorted(here.children)}
        return {child: part for child, part in parts.items() if part is not None}, None

    def changed(self, record: Record, number: int) -> Change:
        """The group's state: the last number, and the messages kept that lead up to it."""
        kept = range(record.first(number), number + 1)
        return Change((number, {one: record.buffer[one] for one in kept}))

    def message_handler(self, here: Local, message: Payload) -> Iterable[Publication]:
        """A member's user gets what is next in order; nothing that is older than its join."""
        return [one for one in self.record(here).ready if one[0] >= here.joined]

    def node_died(self, node: int) -> None:
        """The buffers of the node's process are gone; as a child it will have to join anew."""
        self.records = {key: value for key, value in self.records.items() if key[1] != node}
        for record in self.records.values():
            record.needs.pop(node, None)
