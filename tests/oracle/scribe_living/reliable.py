"""Reliable, ordered delivery: an application on the three upcalls and nothing else (III.B.2).

The root numbers messages, nodes keep those whose numbers are among the last `size` that they know
of, a JOIN that repairs carries the last number that was delivered, and the new parent sends what is
missing.  Numbers of a group's epoch begin at ``epoch << 32``, so that those of a group that was
created again are larger.

A fresh message carries its number.  A retransmission carries ``start`` ("all that follows start
is here": also empty, to tell a new child where to begin), the messages, and ``floor`` ("up to
here nothing can be had any more").
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from .upcalls import Application, Ask, Change, Join, Local, Payload, Publication

Buffer = dict[int, Publication]


@dataclass
class Record:
    """What a node of a tree remembers; `last` is None until it knows where it begins."""

    entered: int
    last: int | None = None  # all up to here was had (at a member: delivered), in order
    floor: int = -1
    buffer: Buffer = field(default_factory=dict)
    at: dict[int, int | None] = field(default_factory=dict)  # child -> up to where it was served
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
        top, at = self.top(here, record), record.at.get(child)
        if top is None:
            return None
        start = top if at is None else max(at, record.floor)
        if start > top or start == at == top or start + 1 < record.first(top):
            return None
        record.at[child] = top
        numbers = tuple(range(start + 1, top + 1))
        missing = tuple(record.buffer[number] for number in numbers)
        return Payload(start, missing, start, record.floor, numbers)

    def unserved(self, here: Local, record: Record) -> list[int]:
        """From where on children need what this node has not got."""
        top = self.top(here, record)
        needs = [at for child, at in record.at.items() if child in here.children and at is not None]
        if top is None:
            return needs
        return [at for at in needs if max(at, record.floor) + 1 < record.first(top)]

    # ---- the upcalls

    def fault_handler(self, here: Local, join: Join) -> int | None:
        """The last number delivered, or less if a child waits for older messages."""
        record = self.record(here)
        had = [] if record.last is None else [record.last]
        return min(had + self.unserved(here, record), default=None)

    def join_handler(self, here: Local, join: Join) -> Iterable[Payload | Ask]:
        """Send what is missing; ask the parent, unless the own JOIN asks for it already."""
        record = self.record(here)
        record.at[join.source] = join.extra
        answer = self.serve(here, record, join.source)
        if answer is not None:
            return [answer]
        if join.extra is None or join.extra not in self.unserved(here, record):
            return []
        if here.asked is not None and here.asked <= join.extra:
            return []
        return [Ask(join.extra)]

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
            record.take(dict(zip(message.numbers, message.publications, strict=True)), self.size)
            if is_new:
                change = self.changed(record, message.number)
            for child in here.children:
                if record.at.get(child) in (None, message.number - 1):
                    record.at[child] = message.number
            return dict.fromkeys(here.children, message), change
        record.floor = max(record.floor, message.floor)
        record.last = message.start if record.last is None else max(record.last, message.start)
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
            record.at.pop(node, None)
