"""The input of the clock: nodes with their rates, links, publications, their parts, the discipline.

A *place* is a node in a room; its key is ``room * n + node`` with n the number of nodes.  A topic
has `ROOMS` rooms: the first for its members, the second for the nodes that forward a publication to
the topic's root, the others for further trees.  Each part of a publication is a message; messages
of a schedule are numbered so that the parts of a publication follow each other, and a publication
has the number of its first part.  Rules: docs/rules.md, W1 to W8, W11, W13 to W15.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Self, TypeVar

import numpy as np

from scribe_spark.core import draws
from scribe_spark.core.arrays import Rows, flags, rank_in_group, whole_numbers
from scribe_spark.core.keys import key_of, order_of
from scribe_spark.engine.packing import Columns, take

# --- parts of publications


#: A table of publications with a column ``size`` (`core.arrays.Rows`).
Sized = TypeVar("Sized", bound=Any)


@dataclass(frozen=True)
class Parts:
    """The parts into which a source splits each publication; by default one part."""

    needed: int = 1  # the number of different parts with which a node has the publication
    sent: int = 1
    recoded: bool = False  # True if nodes recode: every useful copy is a new part (W15)

    @classmethod
    def of(cls, bandwidth: Any) -> Self:
        """Return how publications are split, from a config's section `bandwidth`."""
        return cls(bandwidth.parts or 1, bandwidth.parts_sent, bandwidth.recoded)

    def split(self, publications: Sized) -> Sized:
        """Return each publication's parts as rows, one after the other, with their sizes (W13)."""
        each = publications.take(np.repeat(np.arange(len(publications)), self.sent))
        return replace(each, size=-(-each.size // self.needed))

    def sent_until(self, message: np.ndarray, size: np.ndarray) -> np.ndarray:
        """Return how many bytes of its publication the source has sent with each part."""
        return size * (1 + message % self.sent)

    def publication(self, message: np.ndarray) -> np.ndarray:
        """Return the publication of each message (a part): the number of its first part."""
        return message - message % self.sent

    def last(self, message: np.ndarray) -> np.ndarray:
        """Return the number of the last part that a node needs of each message's publication.

        A node that recodes numbers its parts in the order in which it gets them.
        """
        return self.publication(message) + self.needed - 1

    def useful(
        self, seed: int, message: np.ndarray, sender: np.ndarray, receiver: np.ndarray
    ) -> np.ndarray:
        """Return True for copies that are useful to nodes with too few parts (rule W15): bool."""
        return draws.bits_np(seed, "rlnc", message, sender, receiver) >> np.uint64(56) != 0

    def complete(self, came: Columns, nodes: int) -> Columns:
        """Return the message with which each node has a whole publication (rule W14).

        `came` has the first copies of messages at nodes: ``publication`` (a message), ``node, hops,
        delay_us``, perhaps others; all rows of a node, below `nodes`.  Returned are the rows of
        messages after which their nodes have `needed` parts, ties by number, with the number of the
        publication.
        """
        if self.sent == 1:
            return came
        message = came["publication"]
        publication = self.publication(message)
        place = key_of([publication // self.sent, came["node"]], nodes)
        order = order_of(place, came["delay_us"], message)
        nth = rank_in_group(place[order])
        row = order[nth == self.needed - 1]
        return take({**came, "publication": publication}, row)


# --- links and rates


#: The ways to share an uplink among the copies of a batch; rules W4 and W4'.
INTERLEAVED, SERIAL = "interleaved", "serial"

#: The greatest number of rooms of a topic: 64 trees, and the ways to the root.  Packed rooms may
#: have 8 bits.
ROOMS = 65

#: Bits per byte times microseconds per second.
_BIT_MICROSECONDS = 8_000_000

#: ``rule(first, links)`` returns True for links on which nodes send; equal rows of the two belong
#: together.
Rule = Callable[[Columns, Columns], np.ndarray]


def transmission_us(size: np.ndarray | int, rate: np.ndarray | int) -> np.ndarray:
    """Return the times (us, rounded up) of bytes on links (bit/s, 0: no limit): int64."""
    rate = np.asarray(rate, dtype=np.int64)
    taken = -(-_BIT_MICROSECONDS * np.asarray(size, dtype=np.int64) // np.maximum(rate, 1))
    return np.where(rate > 0, taken, 0)


def routed_us(
    delay_us: np.ndarray | int,
    size: np.ndarray | int,
    up: np.ndarray | int,
    down: np.ndarray | int,
    narrowest: np.ndarray | int = 0,
) -> np.ndarray:
    """Return the time until each copy that routers duplicate is complete (rule W11): us, int64.

    The source sends one copy at rate `up`, and a member receives the copy at rate `down`; the
    narrowest link between their routers has the rate `narrowest`.
    """
    takes_us = (transmission_us(size, rate) for rate in (up, down, narrowest))
    return delay_us + functools.reduce(np.maximum, takes_us)


@dataclass(frozen=True)
class Nodes:
    """The numbers, rates and times of validation of all nodes, by position."""

    number: np.ndarray  # (n,): the numbers of the nodes, for random draws
    #: (n,): rates in bits per second; 0 means no limit.
    up: np.ndarray
    down: np.ndarray
    #: (n,): the time between a node's first copy and the copies that the node sends.
    validation_us: np.ndarray

    def __len__(self) -> int:
        return len(self.number)


@dataclass
class TimedLinks(Rows):
    """Directed links between places, on which copies travel; one row for each link."""

    #: The sending place.
    room: np.ndarray = field(default_factory=whole_numbers)
    node: np.ndarray = field(default_factory=whole_numbers)
    #: The receiving place.
    to_room: np.ndarray = field(default_factory=whole_numbers)
    peer: np.ndarray = field(default_factory=whole_numbers)
    #: The delay in microseconds, at least 1.
    delay_us: np.ndarray = field(default_factory=whole_numbers)
    #: bool: True if all nodes send on the link; False if only sources that flood.
    mesh: np.ndarray = field(default_factory=flags)
    #: The rank of the link in a batch, if the discipline does not draw it.
    order: np.ndarray = field(default_factory=whole_numbers)


def mesh_links(
    room: np.ndarray,
    node: np.ndarray,
    to_room: np.ndarray,
    peer: np.ndarray,
    delay_us: np.ndarray,
    order: np.ndarray,
) -> dict[str, np.ndarray]:
    """Return links as columns of `TimedLinks`, on which all nodes send; `order` is a rank."""
    ends = {"room": room, "node": node, "to_room": to_room, "peer": peer}
    return {**ends, "delay_us": delay_us, "mesh": np.ones(len(node), dtype=bool), "order": order}


@dataclass(frozen=True)
class TimedPublications:
    """The publications that a clock plays: sorted by time, topic and source."""

    #: (P,): the time of publication in microseconds, the topic, the source, and the size in bytes.
    at_us: np.ndarray
    topic: np.ndarray
    source: np.ndarray
    size: np.ndarray
    relayed: np.ndarray = False  # type: ignore[assignment]  # bool: the source sends to the root
    #: bool, (P,): True if the source sends on all links, False if on those of the mesh.
    flood: np.ndarray = False  # type: ignore[assignment]

    def __post_init__(self) -> None:
        for name, column in vars(self).items():  # a single value is that of all publications
            every = np.broadcast_to(np.asarray(column), self.topic.shape)
            object.__setattr__(self, name, every)

    def __len__(self) -> int:
        return len(self.at_us)

    @property
    def room(self) -> np.ndarray:
        """The room in which each publication starts at its source."""
        return self.topic * ROOMS + self.relayed


@dataclass(frozen=True)
class Discipline:
    """The rules that say how copies share links, and which copies are not sent."""

    uplink: str = INTERLEAVED  # :data:`INTERLEAVED` or :data:`SERIAL`
    #: True if a node has one uplink and one downlink for all topics, False if one of each per
    #: topic.
    shared: bool = True
    #: True if a copy is not sent to a node that is known to have the publication.
    held_back: bool = True
    #: The least size in bytes of publications that nodes announce by IDONTWANT; None for no
    #: announcements.
    idontwant: int | None = None
    #: True if nodes send no copy to the sender of their first copy and to the source.
    spares: bool = True
    seed: int | None = 0  # the seed of the random order of a batch; None for `TimedLinks.order`

    def order_of(
        self, number: np.ndarray, publication: np.ndarray, node: np.ndarray, peer: np.ndarray
    ) -> np.ndarray:
        """Return the numbers (uint64) by which the copies of a batch are sorted."""
        assert self.seed is not None
        return draws.bits_np(self.seed, "order", publication, number[node], number[peer])
