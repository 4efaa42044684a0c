"""Packets on directed links, of messages that are in buckets: counted where those of a link meet.

1. A bucket adds up what its messages put on LAN links, and on routes between routers.  Sums go to
   the bucket of the node whose link it is, and to a bucket chosen by the router that a route
   begins at.
2. That bucket turns routes into packets on core links, which go to buckets chosen by their numbers.
3. Each bucket says how many of its links carry how many packets; nothing else leaves it.

All packets on links between routers of a name are put there in the same superstep, and so are all
on LAN links of a name and direction: a link is counted when its packets come.

References
----------
docs/rules.md, "Measures, by round"; JSAC 2002, Section IV.D.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property

import numpy as np

from scribe_spark.engine import Columns, Inbox, Outbox
from scribe_spark.engine.exchange import add_rows
from scribe_spark.engine.packing import concatenate
from scribe_spark.engine.program import AT
from scribe_spark.measures.counts import Counts
from scribe_spark.underlay.paths import SOURCES
from scribe_spark.underlay.protocol import Kernel

#: The LAN link from a node, and that to it.
UP, DOWN = 0, 1

#: Messages: packets on a LAN link of the node; on routes, and on links, between two routers.
_LAN, _ROUTES, _CORE = "packets on a LAN link", "packets on routes", "packets on core links"


class PacketsOnLinks:
    """The packets that a bucket puts on links, adds up and counts in a superstep.

    Parameters
    ----------
    names : sequence of str
        What is counted apart: systems, or payload and maintenance.
    router : ndarray of int64, shape (K,)
        Index of each node's router.
    kernel : Kernel
        Of the underlay.
    bounds : ndarray of int64, shape (B + 1,)
        Of the buckets.
    """

    def __init__(
        self, names: Sequence[str], router: np.ndarray, kernel: Kernel, bounds: np.ndarray
    ) -> None:
        self._names, self._router, self._kernel, self._bounds = names, router, kernel, bounds
        self._sent: dict[str, list[Columns]] = {}

    @cached_property
    def routers(self) -> int:
        """Indices of routers are below this."""
        return int(self._router.max(initial=0)) + 1

    def carry(self, name: str, sender: np.ndarray, to: np.ndarray) -> None:
        """Put messages on links; one of a node to itself crosses none.

        Parameters
        ----------
        sender, to : ndarray of int, shape (m,)
            Positions of nodes.
        """
        if not (away := sender != to).all():
            sender, to = sender[away], to[away]
        self.put_on_lan(name, UP, sender)
        self.put_on_lan(name, DOWN, to)
        keys = self._router[sender] * self.routers + self._router[to]
        small = np.int32 if self.routers**2 < 2**31 else np.int64  # sorts in half of the time
        routes, packets = np.unique(keys.astype(small), return_counts=True)
        a, b = np.divmod(routes.astype(np.int64), self.routers)
        self._send(name, _ROUTES, a // SOURCES, a=a, b=b, packets=packets)

    def put_on_lan(self, name: str, direction: int, node: np.ndarray) -> None:
        """Put a packet on a LAN link for each of some nodes, which may be there many times."""
        packets = np.bincount(node)
        there = np.flatnonzero(packets)
        link = np.full(len(there), 2 * self._names.index(name) + direction)
        self._tell(_LAN, {AT: there, "link": link, "packets": packets[there]})

    def put_on_core(self, name: str, a: np.ndarray, b: np.ndarray, packets: np.ndarray) -> None:
        """Put packets on links between routers, by the indices of their ends."""
        self._send(name, _CORE, a, a=a, b=b, packets=packets)

    def receive(self, bucket: int, inbox: Inbox, counts: Counts) -> None:
        """Hand on what has come on routes, and count the links whose packets have come."""
        for name, came in self._by_name(inbox, _ROUTES):
            ends = self._kernel.link_packets(came["a"], came["b"], came["packets"])
            self.put_on_core(name, *ends)
        for name, came in self._by_name(inbox, _CORE):
            counts.add(packets_of(name), add_rows("packets", came, "a", "b")["packets"])
        if _LAN in inbox:
            self._count_lan(bucket, inbox[_LAN], counts)

    def _count_lan(self, bucket: int, came: Columns, counts: Counts) -> None:
        first, last = self._bounds[bucket : bucket + 2].tolist()
        place = came["link"] * (last - first) + came[AT] - first
        packets = np.bincount(place, came["packets"], 2 * len(self._names) * (last - first))
        for name, on_links in zip(self._names, np.split(packets, len(self._names)), strict=True):
            counts.add(packets_of(name), on_links[on_links > 0])

    def outbox(self) -> Outbox:
        """Return the messages to send now."""
        sent, self._sent = self._sent, {}
        return {kind: concatenate(parts) for kind, parts in sent.items()}

    def _send(self, name: str, kind: str, number: np.ndarray, **columns: np.ndarray) -> None:
        """Send rows to the buckets that numbers fall into."""
        of = np.full(len(number), self._names.index(name))
        at = self._bounds[number % (len(self._bounds) - 1)]
        self._tell(kind, {AT: at, "of": of, **columns})

    def _tell(self, kind: str, columns: Columns) -> None:
        if len(columns[AT]):
            self._sent.setdefault(kind, []).append(columns)

    def _by_name(self, inbox: Inbox, kind: str) -> Iterator[tuple[str, Columns]]:
        """Yield what has come, by what it is of."""
        if kind not in inbox:
            return
        came = inbox[kind]
        for of, name in enumerate(self._names):
            mine = np.flatnonzero(came["of"] == of)
            if len(mine):
                yield name, {column: came[column][mine] for column in ("a", "b", "packets")}


def packets_of(name: str) -> str:
    """Return the name of the counts of links by their packets."""
    return f"packets of {name}"
