"""Dissemination from the roots down the trees, best effort.

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
from scribe_spark.scribe.figures import deliver_multicast
from scribe_spark.scribe.scribe import Scribe

#: A payload was refused: to its sender.
DROP = "drop child"

#: The tables of a round's deliveries (``group, publication, node, hops, delay_us``), and of its
#: payloads, where they are timed (``group, publication, sender, to``).
DELIVERIES, PAYLOADS = "scribe deliveries", "scribe payloads"

#: Tables that may stay in the buckets until the next round begins.
OF_THE_LAST_ROUND = DELIVERIES, PAYLOADS


@dataclass(frozen=True)
class Payloads(Rows):
    """Messages on edges of trees: arrays of shape (m,).

    Attributes
    ----------
    message : ndarray of int64
    group, sender, node : ndarray of int64
        The same sender and node: a root's message to itself.
    hops, delay_us : ndarray of int64
        From the source; the delay only where `Scribe.timed`.
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
        """Messages that have just been sent."""
        zero = np.zeros(len(message), dtype=np.int64)
        return cls(message, group, sender, node, zero, zero)

    def with_messages(self, message: np.ndarray) -> Payloads:
        """The same with other messages."""
        return replace(self, message=message)

    @classmethod
    def from_columns(cls, columns: Columns) -> Payloads:
        """Return the payloads that :func:`send_payloads` sent."""
        return super().from_columns({**columns, "node": columns[AT]})


def receive_payloads(scribe: Scribe, payloads: Payloads) -> tuple[Payloads, Payloads, Payloads]:
    """A hop: payloads come to nodes, and go on to their children.

    Returns
    -------
    got, sent, refused : Payloads
        Those that a member's user gets, those on their way, those that their nodes do not take.
    """
    entries, children = scribe.state.entries, scribe.state.children
    takes, row = accepted(scribe, payloads)
    refused, payloads = payloads.take(np.flatnonzero(~takes)), payloads.take(np.flatnonzero(takes))
    # to all children: (5), (6)
    which, edge = deliver_multicast(scribe, entries.key[row])
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
    """Nodes take messages from their parents, a root its own; from anybody else they refuse them.

    Returns
    -------
    takes : ndarray of bool
        Which messages were taken.
    row : ndarray of int64
        The rows of their nodes in `Entries`, of those that were taken.
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
    """Messages go to nodes that are alive."""
    columns = payloads.to_columns()
    scribe.tell(kind, columns.pop("node"), **columns, **more)


def hear_payloads(scribe: Scribe, row: np.ndarray, payloads: Payloads) -> None:
    """Nodes, by rows of `Entries`, have heard their parents by payloads; roots have none."""
    from_parent = row[payloads.sender != payloads.node]
    scribe.state.entries.heard[from_parent] = scribe.number
    scribe.state.entries.heeded[from_parent] = True


def refuse_payloads(scribe: Scribe, refused: Payloads) -> None:
    """The senders of refused messages are told so."""
    if not len(refused):
        return
    edge = distinct(scribe.key(scribe.key(refused.group, refused.sender), refused.node))
    pair, child = scribe.split(edge)
    group, parent = scribe.split(pair)
    arrives = scribe.send("drop child", child, parent)
    scribe.tell(DROP, parent[arrives], group=group[arrives], child=child[arrives])


def drop_children(scribe: Scribe, came: Columns) -> None:
    """Senders of refused messages drop the children that refused them."""
    edge = scribe.key(scribe.key(came["group"], came[AT]), came["child"])
    row = scribe.state.children.find(edge)
    scribe.state.children.drop(row[row >= 0])


def keep_deliveries(scribe: Scribe, got: Payloads, table: str = DELIVERIES) -> None:
    """Remember what users of members got, and how that has come."""
    columns = got.to_columns()
    columns["publication"] = columns.pop("message")
    del columns["sender"]
    scribe.note(table, **columns)
