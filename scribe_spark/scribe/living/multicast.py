"""Dissemination from the roots down the trees, best effort.

References
----------
JSAC 2002, Section III.A.3, Figure 4 (lines 5 to 8).
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from scribe_spark.core.arrays import whole_numbers
from scribe_spark.scribe.living.figures import deliver_multicast
from scribe_spark.scribe.living.scribe import Scribe

__all__ = ["Parcels", "accepted", "disseminate", "drop_children"]


@dataclass(frozen=True)
class Parcels:
    """Messages on edges of trees: arrays of shape (m,).

    Attributes
    ----------
    message : ndarray of int64
    group, sender, node : ndarray of int64
        The same sender and node: a root's message to itself.
    """

    message: np.ndarray = field(default_factory=whole_numbers)
    group: np.ndarray = field(default_factory=whole_numbers)
    sender: np.ndarray = field(default_factory=whole_numbers)
    node: np.ndarray = field(default_factory=whole_numbers)

    def __len__(self) -> int:
        return len(self.message)

    def take(self, index: np.ndarray) -> Parcels:
        """Some of them."""
        return Parcels(self.message[index], self.group[index], self.sender[index], self.node[index])

    @staticmethod
    def join(*parts: Parcels) -> Parcels:
        """Those of several."""
        names = ("message", "group", "sender", "node")
        return Parcels(*[np.concatenate([getattr(one, name) for one in parts]) for name in names])


def disseminate(scribe: Scribe, parcels: Parcels) -> None:
    """Publications go down, all of a hop at once, until none is under way.

    Parameters
    ----------
    parcels : Parcels
        Of roots to themselves; the messages are the publications.
    """
    entries, children = scribe.state.entries, scribe.state.children
    while len(parcels):
        takes, row = accepted(scribe, parcels)
        parcels, refused = parcels.take(takes), parcels.take(~takes)
        place = entries.key[row]
        # to all children: (5), (6)
        which, edge = deliver_multicast(scribe, place)
        # to the user: (7) if memberOf(msg.group) (8) invokeMessageHandler(msg.group, msg)
        member = entries.member[row]
        scribe.deliveries.add(parcels.group[member], parcels.message[member], parcels.node[member])
        scribe.paid.append(children.key[edge])
        child = children.key[edge] % scribe.state.size
        sender = parcels.node[which]
        arrives = scribe.send("payload", sender, child)
        which, sender, child = which[arrives], sender[arrives], child[arrives]
        drop_children(scribe, refused)
        parcels = Parcels(parcels.message[which], parcels.group[which], sender, child)


def accepted(scribe: Scribe, parcels: Parcels) -> tuple[np.ndarray, np.ndarray]:
    """Nodes take messages from their parents, a root its own; from anybody else they refuse them.

    Returns
    -------
    takes : ndarray of bool
        Which messages were taken.
    row : ndarray of int64
        The rows of their nodes in `Entries`, of those that were taken.
    """
    entries = scribe.state.entries
    row = scribe.entry(parcels.group, parcels.node)
    takes = row >= 0
    there = row[takes]
    own = (parcels.sender == parcels.node)[takes]
    takes[takes] = (entries.parent[there] == parcels.sender[takes]) | (own & entries.root[there])
    scribe.refused["payload"] += int((~takes).sum())
    return takes, row[takes]


def drop_children(scribe: Scribe, refused: Parcels) -> None:
    """The senders of refused messages are told so, and drop the children that refused them."""
    edge = np.unique(scribe.key(scribe.key(refused.group, refused.sender), refused.node))
    place, child = scribe.split(edge)
    scribe.send("drop child", child, place % scribe.state.size)
    row = scribe.state.children.find(edge)
    scribe.state.children.drop(row[row >= 0])
