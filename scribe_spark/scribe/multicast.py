"""Best-effort multicast from the roots down the trees.

References
----------
JSAC 2002, Section III.A.3, Figure 4 (lines 5 to 8).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from scribe_spark.core.arrays import Rows, distinct
from scribe_spark.engine import Columns
from scribe_spark.engine.program import AT
from scribe_spark.rounds.system import CARRIED, DELIVERED
from scribe_spark.scribe.scribe import Scribe

#: The message to the sender of a refused payload.
DROP = "drop child"

#: Tables: the round's deliveries to members and, if delays are recorded, its payloads.
DELIVERIES, PAYLOADS = DELIVERED, CARRIED

#: Tables that stay in the buckets until the next round begins.
OF_THE_LAST_ROUND = DELIVERIES, PAYLOADS


@dataclass(frozen=True)
class Payloads(Rows):
    """Messages on tree edges; a root that sends itself a message is both sender and receiver.

    Without an application, `message` is the publication.  `hops` and `delay_us` count from the
    source; the delay is recorded only if `Scribe.timed`.
    """

    message: np.ndarray
    group: np.ndarray
    sender: np.ndarray
    node: np.ndarray
    hops: np.ndarray
    delay_us: np.ndarray

    @classmethod
    def of(
        cls, message: np.ndarray, group: np.ndarray, sender: np.ndarray, node: np.ndarray
    ) -> Payloads:
        """Return messages at the start of their way: no hops, no delay."""
        zero = np.zeros(len(message), dtype=np.int64)
        return cls(message, group, sender, node, zero, zero)

    def with_messages(self, message: np.ndarray) -> Payloads:
        """Return these payloads with other messages."""
        return replace(self, message=message)

    @classmethod
    def from_columns(cls, columns: Columns) -> Payloads:
        """Return the payloads that :func:`send_payloads` sent."""
        return super().from_columns({**columns, "node": columns[AT]})


def receive_payloads(scribe: Scribe, payloads: Payloads) -> tuple[Payloads, Payloads, Payloads]:
    """Deliver payloads at nodes and forward them to the children: one hop.

    Return the payloads delivered to members, those sent to children, and those that nodes refused.
    """
    entries, children = scribe.state.entries, scribe.state.children
    takes, row = accepted(scribe, payloads)
    refused, payloads = payloads.take(np.flatnonzero(~takes)), payloads.take(np.flatnonzero(takes))
    # (5) for all node in groups[msg.group].children (6) send(msg, node)
    which, edge = scribe.children_of(entries.key[row])
    # to the user: (7) if memberOf(msg.group) (8) invokeMessageHandler(msg.group, msg)
    got = payloads.take(np.flatnonzero(entries.member[row]))
    child = children.key[edge] % scribe.state.size
    if not scribe.settled:
        hear_payloads(scribe, row, payloads)
        children.got_payload[edge] = True
        if scribe.timed:
            columns = {"group": payloads.group[which], "publication": payloads.message[which]}
            scribe.note(PAYLOADS, **columns, sender=payloads.node[which], to=child)
    arrives = scribe.send("payload", payloads.node[which], child)
    which, child = which[arrives], child[arrives]
    sent = payloads.take(which)
    delay_us = sent.delay_us + (scribe.delay(sent.node, child) if scribe.timed else 0)
    sent = Payloads(sent.message, sent.group, sent.node, child, sent.hops + 1, delay_us)
    return got, sent, refused


def accepted(scribe: Scribe, payloads: Payloads) -> tuple[np.ndarray, np.ndarray]:
    """Nodes accept messages from their parents, roots from themselves, and refuse others.

    Return which messages are accepted, and for each of these the row of its node in `Entries`.
    """
    entries = scribe.state.entries
    row = scribe.entry(payloads.group, payloads.node)
    takes = row >= 0
    there = row[takes]
    own = (payloads.sender == payloads.node)[takes]
    takes[takes] = (entries.parent[there] == payloads.sender[takes]) | (own & entries.root[there])
    scribe.refuse("payload", (~takes).sum())
    return takes, row[takes]


def send_payloads(scribe: Scribe, kind: str, payloads: Payloads, **more: np.ndarray) -> None:
    """Send messages to live nodes."""
    columns = payloads.to_columns()
    scribe.tell(kind, columns.pop("node"), **columns, **more)


def hear_payloads(scribe: Scribe, row: np.ndarray, payloads: Payloads) -> None:
    """Record at nodes (rows of `Entries`) that a payload came from their parent."""
    from_parent = row[payloads.sender != payloads.node]
    scribe.state.entries.heard[from_parent] = scribe.number
    scribe.state.entries.heeded[from_parent] = True


def refuse_payloads(scribe: Scribe, refused: Payloads) -> None:
    """Tell the senders of refused messages."""
    if not len(refused):
        return
    edge = distinct(scribe.edge(refused.group, refused.sender, refused.node))
    group, parent, child = scribe.ends(edge)
    scribe.post(DROP, "drop child", child, parent, group=group, child=child)


def drop_children(scribe: Scribe, came: Columns) -> None:
    """Drop the children that refused a message."""
    edge = scribe.edge(came["group"], came[AT], came["child"])
    row = scribe.state.children.find(edge)
    scribe.state.children.drop(row[row >= 0])


def keep_deliveries(scribe: Scribe, got: Payloads, table: str = DELIVERIES) -> None:
    """Record deliveries to members: publication, hops and delay."""
    columns = got.to_columns()
    columns["publication"] = columns.pop("message")
    del columns["sender"]
    scribe.note(table, **columns)
