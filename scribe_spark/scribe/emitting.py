"""Messages that applications send in upcalls: after a child was added, and down the tree.

References
----------
JSAC 2002, Sections III.A.3 and III.B.2, Figure 4 (lines 5 to 8).
"""

from __future__ import annotations

import numpy as np

from scribe_spark.core.arrays import turns
from scribe_spark.engine import Columns, Inbox, Tables
from scribe_spark.engine.program import AT, bucket_of
from scribe_spark.scribe.duplicates import note_got
from scribe_spark.scribe.handlers import calls_of, keep_values
from scribe_spark.scribe.join import JOINS
from scribe_spark.scribe.messages import MessageStore
from scribe_spark.scribe.multicast import (
    PAYLOADS,
    Payloads,
    accepted,
    hear_payloads,
    keep_deliveries,
    refuse_payloads,
    send_payloads,
)
from scribe_spark.scribe.scribe import Joins, Scribe
from scribe_spark.scribe.state import cause
from scribe_spark.scribe.upcalls import Emitted

#: Kinds of messages: payloads and retransmissions to children, and questions to parents.  A message
#: to another bucket is sent apart (`_AFAR`) from its contents (`_CONTENTS`).
PAYLOAD, RETRANSMISSION, ASK = "payload", "retransmission", "JOIN (ask)"
_CONTENTS, _AFAR = "contents", "from another bucket"


class Emitter:
    """Makes the upcalls of a superstep, and sends payloads or retransmissions to children."""

    def __init__(self, scribe: Scribe, tables: Tables, kind: str) -> None:
        self.scribe, self.tables, self.kind = scribe, tables, kind
        self.messages = MessageStore.read(tables)
        self.sent: list[Payloads] = []

    def close(self) -> None:
        """Send the collected messages and store the messages' contents."""
        if self.sent:
            self._send(Payloads.join(*self.sent))
        self.messages.write(self.tables)

    # ---- messages to children

    def publish(self, group: np.ndarray, publication: np.ndarray, root: np.ndarray) -> None:
        """Roots accept publications; those of one group are in order."""
        message = self.messages.add_publications(group, publication)
        self._deliver(Payloads.of(message, group, root, root))

    def receive(self, inbox: Inbox) -> None:
        """Deliver received messages to their nodes."""
        came = []
        if self.kind in inbox:
            came.append(Payloads.from_columns(inbox[self.kind]))
        if (afar := f"{self.kind} {_AFAR}") in inbox:
            columns = dict(inbox[afar])
            columns["message"] = self.messages.add_received(columns, inbox.get(_CONTENTS))
            came.append(Payloads.from_columns(columns))
        if came:
            self._deliver(Payloads.join(*came))

    def _deliver(self, payloads: Payloads) -> None:
        payloads = self._in_order(payloads)
        takes, row = accepted(self.scribe, payloads)
        refused, payloads = payloads.take(~takes), payloads.take(takes)
        if self.kind == PAYLOAD:
            hear_payloads(self.scribe, row, payloads)
        # a node handles its messages one after the other
        pair = self.scribe.key(payloads.group, payloads.node)
        for turn in turns(pair):
            self._handle(payloads.take(turn), row[turn])
        refuse_payloads(self.scribe, refused)

    def _in_order(self, payloads: Payloads) -> Payloads:
        """Sort payloads by group and node, those of one node by message number."""
        pair = self.scribe.key(payloads.group, payloads.node)
        order = np.argsort(pair)
        if (pair[order[1:]] == pair[order[:-1]]).any():
            number, lengths = self.messages.number, self.messages.lengths
            of = payloads.message
            order = np.lexsort((lengths[of], number[of], pair))
        return payloads.take(order)

    def _handle(self, came: Payloads, row: np.ndarray) -> None:
        """Handle one message at each node (Figure 4, lines 5 to 8); `row` are rows of `Entries`."""
        scribe, application = self.scribe, self.scribe.application
        pair, message = scribe.key(came.group, came.node), came.message
        calls = calls_of(scribe, pair, row)
        messages, contents = self.messages.own_columns(message), self.messages.contents(message)
        group, node = scribe.split(pair)
        of = contents["call"]
        note_got(scribe, self.tables, group[of], node[of], contents["publication"])
        # (5, 6) for all children: send(msg, node); forwardHandler decides what is sent
        emitted = application.forward_handler(calls, messages, contents)
        keep_values(scribe, pair, emitted.values)
        self._emit(pair, emitted, came)
        # (7) if memberOf(msg.group) (8) invokeMessageHandler(msg.group, msg)
        users = application.message_handler(calls, messages, contents)
        call, publication = users["call"], users["publication"]
        member = scribe.state.entries.member[row[call]]
        got = came.take(call[member])
        keep_deliveries(scribe, got.with_messages(publication[member]))

    def _emit(self, pair: np.ndarray, emitted: Emitted, came: Payloads | None = None) -> None:
        """Collect messages to children; `came` has the message that each node handles."""
        new = self.messages.add(emitted.messages, emitted.contents)
        call, child, which = (emitted.payloads[name] for name in ("call", "child", "message"))
        message, ends = np.r_[new, -1][which], self.scribe.split(pair[call])
        if came is None:
            self.sent.append(Payloads.of(message, *ends, child))
            return
        message = np.where(which < 0, came.message[call], message)
        delay_us = came.delay_us[call]
        if self.scribe.timed:
            delay_us = delay_us + self.scribe.delay(ends[1], child)
        self.sent.append(Payloads(message, *ends, child, came.hops[call] + 1, delay_us))

    def _send(self, payloads: Payloads) -> None:
        """Send messages to nodes that are still children; new roots send them to themselves.

        A message counts as one transmission per publication in it, and as one if it is empty.
        """
        scribe, children = self.scribe, self.scribe.state.children
        row = children.find(scribe.edge(payloads.group, payloads.sender, payloads.node))
        still = np.flatnonzero((row >= 0) | (payloads.sender == payloads.node))
        payloads, row = payloads.take(still), row[still]
        if not len(payloads):
            return
        times = np.maximum(self.messages.lengths[payloads.message], 1)
        times[payloads.sender == payloads.node] = 0
        arrives = scribe.is_alive(payloads.node)
        scribe.count(
            self.kind,
            times.sum(),
            times[~arrives].sum(),
            between=lambda: (np.repeat(payloads.sender, times), np.repeat(payloads.node, times)),
        )
        if self.kind == PAYLOAD:
            children.got_payload[row] = True
            if scribe.timed:
                self._note_payloads(payloads)
        payloads = payloads if arrives.all() else payloads.take(np.flatnonzero(arrives))
        away = ~scribe.is_own(payloads.node)
        if not away.any():
            send_payloads(scribe, self.kind, payloads)
            return
        send_payloads(scribe, self.kind, payloads.take(np.flatnonzero(~away)))
        self._send_away(payloads.take(np.flatnonzero(away)))

    def _send_away(self, payloads: Payloads) -> None:
        """Send messages to other buckets; a bucket receives the contents of a message once."""
        scribe, messages, of = self.scribe, self.messages, payloads.message
        own = messages.own_columns(of)
        origin = np.full(len(of), scribe.first)
        send_payloads(scribe, f"{self.kind} {_AFAR}", payloads, origin=origin, **own)
        to = bucket_of(scribe.bounds, payloads.node)
        _, first = np.unique(np.stack([to, of]), axis=1, return_index=True)
        inside = messages.contents(of[first])
        at = first[inside["call"]]
        scribe.tell(
            _CONTENTS,
            payloads.node[at],
            origin=origin[at],
            message=of[at],
            number=inside["number"],
            publication=inside["publication"],
        )

    def _note_payloads(self, payloads: Payloads) -> None:
        """Record the sender and the receiver of each publication."""
        inside = self.messages.contents(payloads.message)
        of, publication = inside["call"], inside["publication"]
        columns = {"group": payloads.group[of], "publication": publication}
        self.scribe.note(PAYLOADS, **columns, sender=payloads.sender[of], to=payloads.node[of])

    # ---- children that were added

    def settle(self, added: Columns) -> None:
        """Call joinHandler for all added children that are still children."""
        scribe = self.scribe
        columns = dict(added)
        at = columns.pop("at")
        joins = Joins(**columns)
        own = (joins.source == at) & scribe.is_root(joins.group, at)  # new roots
        still = own | scribe.state.children.has(scribe.edge(joins.group, at, joins.source))
        still &= _is_last(scribe, joins, at)
        self._call_join_handler(at[still], joins.take(still))

    def asked(self, came: Columns) -> None:
        """Call joinHandler at parents for the questions of children."""
        columns = dict(came)
        at = columns.pop(AT)
        joins = Joins(**columns)
        edge = self.scribe.edge(joins.group, at, joins.source)
        still = self.scribe.state.children.has(edge)
        self._call_join_handler(at[still], joins.take(still))

    def _call_join_handler(self, at: np.ndarray, joins: Joins) -> None:
        scribe, application = self.scribe, self.scribe.application
        pair, call = np.unique(scribe.key(joins.group, at), return_inverse=True)
        order = np.lexsort((joins.source, call))
        names = ("source", "number", "cause", "extra")
        table = {"call": call[order], **{name: getattr(joins, name)[order] for name in names}}
        calls = calls_of(scribe, pair, scribe.state.entries.find(pair))
        emitted = application.join_handler(calls, table)
        self._emit(pair, emitted)
        # a node sends one question, even if the application asks several
        call, extra = emitted.asks["call"], emitted.asks["extra"]
        asking, of = np.unique(call, return_inverse=True)
        extra = application.common_extra(of, extra, len(asking))
        group, node = scribe.split(pair[asking])
        row = scribe.entry(group, node)
        parent = scribe.state.entries.parent[row]
        up = parent >= 0
        why = np.full(len(row), cause("ask"), dtype=np.int8)
        asks = Joins(group, node, scribe.state.entries.number[row], why, extra).take(up)
        scribe.note(JOINS, **asks.to_columns())
        scribe.post(ASK, "JOIN", asks.source, parent[up], **asks.to_columns())


def _is_last(scribe: Scribe, joins: Joins, at: np.ndarray) -> np.ndarray:
    """Mark the last JOIN of each source to a node; a child may be dropped and join again."""
    edge = scribe.edge(joins.group, at, joins.source)
    _, last = np.unique(edge[::-1], return_index=True)
    found = np.zeros(len(edge), dtype=bool)
    found[len(edge) - 1 - last] = True
    return found
