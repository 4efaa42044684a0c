"""Dissemination from the roots down the trees, best effort.

References
----------
JSAC 2002, Section III.A.3, Figure 4 (lines 5 to 8).
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np

from scribe_spark.scribe.figures import deliver_multicast
from scribe_spark.scribe.scribe import Scribe

__all__ = ["Payloads", "accepted", "disseminate", "drop_children", "receive_payloads"]


@dataclass(frozen=True)
class Payloads:
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

    def __len__(self) -> int:
        return len(self.message)

    @classmethod
    def of(
        cls, message: np.ndarray, group: np.ndarray, sender: np.ndarray, node: np.ndarray
    ) -> Payloads:
        """Messages that have just been sent."""
        zero = np.zeros(len(message), dtype=np.int64)
        return cls(message, group, sender, node, zero, zero)

    def take(self, index: np.ndarray) -> Payloads:
        """Some of them."""
        return Payloads(*[getattr(self, one.name)[index] for one in fields(self)])

    @staticmethod
    def join(*parts: Payloads) -> Payloads:
        """Return the rows of several together."""
        return Payloads(
            *[np.concatenate([getattr(one, f.name) for one in parts]) for f in fields(Payloads)]
        )


def disseminate(scribe: Scribe, payloads: Payloads) -> None:
    """Publications go down, all of a hop at once, until none is under way.

    Parameters
    ----------
    payloads : Payloads
        Of roots to themselves; the messages are the publications.
    """
    while len(payloads):
        got, payloads, refused = receive_payloads(scribe, payloads)
        scribe.deliveries.add(got.group, got.message, got.node, got.hops, got.delay_us)
        drop_children(scribe, refused)


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
    if not scribe.settled:
        scribe.paid.append(children.key[edge])
    child = children.key[edge] % scribe.state.size
    if scribe.timed and not scribe.settled:
        ends = payloads.node[which], child
        scribe.payloads.append((payloads.group[which], payloads.message[which], *ends))
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
    scribe.refused["payload"] += int((~takes).sum())
    return takes, row[takes]


def drop_children(scribe: Scribe, refused: Payloads) -> None:
    """The senders of refused messages are told so, and drop the children that refused them."""
    edge = np.unique(scribe.key(scribe.key(refused.group, refused.sender), refused.node))
    place, child = scribe.split(edge)
    scribe.send("drop child", child, place % scribe.state.size)
    row = scribe.state.children.find(edge)
    scribe.state.children.drop(row[row >= 0])
