"""The messages of SplitStream.

===============  ====================================================  =========================
message          meaning                                               handler
===============  ====================================================  =========================
``subscribe``    a node asks for a stripe, or passes a request on      `protocol.Hops.answer`
``anycast``      an orphan looks for a node with room (JOINREQ)        `protocol.Hops.answer`
``ack``          the sender is the parent now; has its path to the     `protocol.Hops.on_ack`
                 root
``drop``         the sender is no parent; names a sibling to ask       `protocol.Hops.on_drop`
``path``         the sender's path to the root has changed             `protocol.Hops.on_path`
``leave``        the sender is no child any more                       `protocol.Hops.on_leave`
``fail``         nobody had room                                       `protocol.Hops.on_fail`
``spare_join``   the sender is a child in the spare group's tree       `policies.SpareCapacity`
``spare_leave``  the sender is no such child any more                  `policies.SpareCapacity`
===============  ====================================================  =========================
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

import numpy as np

from scribe_spark.core.arrays import Rows
from scribe_spark.core.lists import Lists
from scribe_spark.engine import Columns
from scribe_spark.engine.packing import concatenate

SUBSCRIBE, ANYCAST, ACK, DROP = "subscribe", "anycast", "ack", "drop"
PATH, LEAVE, FAIL = "path", "leave", "fail"
SPARE_JOIN, SPARE_LEAVE = "spare_join", "spare_leave"

#: All kinds of control messages.
CONTROL = (SUBSCRIBE, ACK, DROP, PATH, LEAVE, FAIL, ANYCAST, SPARE_JOIN, SPARE_LEAVE)

#: How a request came: by Pastry's route; from a node's list; to a parent that has to decide, as the
#: list is empty; as an anycast.
BY_ROUTE, FROM_LIST, FINAL, SEEKING = range(4)

#: Whom a pair asks that waits, instead of a row: by Pastry's route, or by anycast.
ROOTWARDS, ANYBODY = -1, -2


class Sent:
    """The messages of a period, to be counted."""

    def __init__(self) -> None:
        self._rows = defaultdict[str, list[Columns]](list)

    def note(self, kind: str, group: np.ndarray, sender: np.ndarray, to: np.ndarray) -> None:
        """Note messages between positions; what a node tells itself is no message."""
        away = sender != to
        ends = {"group": group, "sender": sender, "to": to}
        self._rows[kind].append({name: one[away].astype(np.int32) for name, one in ends.items()})

    def by_kind(self) -> dict[str, Columns]:
        """Return the messages as `GrownOverlays.play_period` does."""
        return {kind: concatenate(rows) for kind, rows in self._rows.items()}


@dataclass(frozen=True)
class Requests(Rows):
    """SUBSCRIBEs and JOINREQs under way."""

    pair: np.ndarray  # the subscriber and the stripe
    at: np.ndarray  # the node (a row) to which the request goes
    sender: np.ndarray
    due: np.ndarray  # the hop in which the request arrives
    how: np.ndarray
    visited: Lists
    todo: Lists

    @classmethod
    def new(
        cls, how: int, pair: np.ndarray, at: np.ndarray, sender: np.ndarray, due: np.ndarray
    ) -> Requests:
        """Return new requests."""
        lists = Lists.empty(len(pair)), Lists.empty(len(pair))
        return cls(pair, at, sender, due, np.full(len(pair), how), *lists)


@dataclass(frozen=True)
class Replies(Rows):
    """All other messages between nodes: the pairs of the receiver and of the sender.

    ``next`` is the sibling that a DROP names, a row, or NONE.
    """

    to: np.ndarray
    by: np.ndarray
    next: np.ndarray


@dataclass(frozen=True)
class Waiting(Rows):
    """Pairs that will ask: in a hop, and whom: a row, :data:`ROOTWARDS` or :data:`ANYBODY`."""

    pair: np.ndarray
    due: np.ndarray
    whom: np.ndarray
