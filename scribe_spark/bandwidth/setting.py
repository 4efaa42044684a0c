"""The input of the clock: nodes with their rates, links, publications, and the discipline.

A *place* is a node in a topic; its key is ``room * n + node`` with n the number of nodes.  A topic
has two rooms: its own, ``2 * topic``, and that of the nodes which pass a publication on to the
topic's root, ``2 * topic + 1``; so a node on that way takes the message once on the way and once as
a member.

References
----------
docs/rules.md, W1 to W8.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from scribe_spark import draws
from scribe_spark.core.arrays import Rows, flags, whole_numbers
from scribe_spark.engine.packing import Columns

#: How an uplink is shared by the copies of a batch; rules W4 and W4'.
INTERLEAVED, SERIAL = "interleaved", "serial"

#: Rooms of a topic.
ROOMS = 2

#: Bits of a byte times microseconds of a second.
_BIT_MICROSECONDS = 8_000_000

#: ``rule(first, links)``: on which links nodes send; rows of the two belong together.
Rule = Callable[[Columns, Columns], np.ndarray]


def transmission_us(size: np.ndarray | int, rate: np.ndarray | int) -> np.ndarray:
    """Return how long messages take on links, rounded up; no time where a rate is 0: int64.

    Parameters
    ----------
    size : ndarray of int64
        Bytes.
    rate : ndarray of int64
        Bits per second; 0 has no limit.
    """
    rate = np.asarray(rate, dtype=np.int64)
    taken = -(-_BIT_MICROSECONDS * np.asarray(size, dtype=np.int64) // np.maximum(rate, 1))
    return np.where(rate > 0, taken, 0)


@dataclass(frozen=True)
class Nodes:
    """All nodes, by position.

    Attributes
    ----------
    number : ndarray of int64, shape (n,)
        Names the nodes in draws.
    up, down : ndarray of int64, shape (n,)
        Bits per second; 0 has no limit.
    validation_us : ndarray of int64, shape (n,)
        The time between a node's first copy and the copies that the node sends.
    """

    number: np.ndarray
    up: np.ndarray
    down: np.ndarray
    validation_us: np.ndarray

    def __len__(self) -> int:
        return len(self.number)


@dataclass
class TimedLinks(Rows):
    """Directed links between places.

    Attributes
    ----------
    room, node : ndarray of int64
        The place that sends.
    to_room, peer : ndarray of int64
        The place that receives.
    delay_us : ndarray of int64
        At least 1.
    mesh : ndarray of bool
        Whether all nodes send on the link; else it is for sources that flood.
    order : ndarray of int64
        The place of the link in a batch, where the discipline does not draw it.
    """

    room: np.ndarray = field(default_factory=whole_numbers)
    node: np.ndarray = field(default_factory=whole_numbers)
    to_room: np.ndarray = field(default_factory=whole_numbers)
    peer: np.ndarray = field(default_factory=whole_numbers)
    delay_us: np.ndarray = field(default_factory=whole_numbers)
    mesh: np.ndarray = field(default_factory=flags)
    order: np.ndarray = field(default_factory=whole_numbers)


@dataclass(frozen=True)
class TimedPublications:
    """Publications in the order of their numbers: by time, topic, source.

    Attributes
    ----------
    at_us, topic, source, size : ndarray of int64, shape (P,)
        When a source publishes, and how many bytes.
    relayed : ndarray of bool, shape (P,)
        Whether the source's place is on the way to the root.
    flood : ndarray of bool, shape (P,)
        Whether the source sends on all links; else on those of the mesh.
    """

    at_us: np.ndarray
    topic: np.ndarray
    source: np.ndarray
    size: np.ndarray
    relayed: np.ndarray
    flood: np.ndarray

    def __len__(self) -> int:
        return len(self.at_us)

    @classmethod
    def of(
        cls,
        at_us: np.ndarray,
        topic: np.ndarray,
        source: np.ndarray,
        size: np.ndarray,
        relayed: np.ndarray | bool = False,
        flood: np.ndarray | bool = False,
    ) -> TimedPublications:
        """Return publications in any order as those of their numbers."""
        order = np.lexsort((source, topic, at_us))
        columns = (*(at_us, topic, source, size), *(np.asarray(one) for one in (relayed, flood)))
        return cls(*(np.broadcast_to(column, order.shape)[order] for column in columns))

    @property
    def room(self) -> np.ndarray:
        """Return the rooms of the sources."""
        return self.topic * ROOMS + self.relayed


@dataclass(frozen=True)
class Discipline:
    """The rules by which copies share links and are left out.

    Attributes
    ----------
    uplink : str
        :data:`INTERLEAVED` or :data:`SERIAL`.
    shared : bool
        Whether a node has one uplink and one downlink for all topics; else one of each per topic.
    held_back : bool
        Whether a copy is not sent to a node that is known to have the publication.
    idontwant : int or None
        The least size of publications that nodes announce by IDONTWANT; None announces none.
    spares : bool
        Whether nodes send no copy to the sender of their first copy and to the source.
    seed : int or None
        Of the draws of the order of a batch; None takes `TimedLinks.order`.
    """

    uplink: str = INTERLEAVED
    shared: bool = True
    held_back: bool = True
    idontwant: int | None = None
    spares: bool = True
    seed: int | None = 0

    def order_of(
        self, number: np.ndarray, publication: np.ndarray, node: np.ndarray, peer: np.ndarray
    ) -> np.ndarray:
        """Return what copies of a batch are sorted by, before the receiver's nodeId: uint64."""
        assert self.seed is not None
        return draws.bits_np(self.seed, "order", publication, number[node], number[peer])
