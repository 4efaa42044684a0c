"""Packets on directed links: sums by bucket that meet where all packets of a link are added up.

1. A bucket adds up what its messages put on LAN links, and on routes between routers.  Sums go to
   a bucket chosen by the node whose link it is, and to a bucket chosen by the router that a route
   begins at.
2. That bucket turns routes into packets on core links, which go to buckets chosen by their numbers.
3. Each bucket adds up the packets of its links.

All packets on core links of a system are put there in the same superstep, and so are all on LAN
links of a system and direction: a link is complete when its packets come.

References
----------
docs/rules.md, "Measures, by round"; JSAC 2002, Section IV.D.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from scribe_spark.engine import Columns, Inbox, Outbox
from scribe_spark.engine.exchange import add_rows, distinct_rows
from scribe_spark.engine.packing import concatenate, take
from scribe_spark.engine.program import AT
from scribe_spark.underlay.paths import SOURCES
from scribe_spark.underlay.protocol import Kernel

#: Links by kind: the LAN link from a node, that to a node, a link from a router to a router.
UP, DOWN, CORE = "up", "down", "core"

#: What becomes packets on links: packets on routes; the routes of trees that routers merge; a
#: packet on an up-link for each tree, however often it is told.
ROUTES, TREES, TREE_UP = "routes", "trees", "tree up"

#: The columns that name a link.
_ENDS = {UP: ("node",), DOWN: ("node",), CORE: ("src", "dst")}


class PacketsOnLinks:
    """The packets that a bucket puts on links and adds up in a superstep.

    Messages are columns of a kind and a system: of ``node`` and ``packets``, and others, for LAN
    links; of ``src``, ``dst`` (indices of routers) and ``packets`` for the others, with ``tree``
    where routers merge.

    Parameters
    ----------
    kernel : Kernel
        Of the underlay.
    bounds : ndarray of int64, shape (B + 1,)
        Of the buckets.
    """

    def __init__(self, kernel: Kernel, bounds: np.ndarray) -> None:
        self._kernel, self._bounds = kernel, bounds
        self._sent: dict[str, list[Columns]] = {}

    def put(self, kind: str, system: str, number: np.ndarray, **columns: np.ndarray) -> None:
        """Send columns to the buckets that numbers fall into."""
        self.put_at(self._bounds[number % (len(self._bounds) - 1)], kind, system, **columns)

    def put_at(self, at: np.ndarray, kind: str, system: str, **columns: np.ndarray) -> None:
        """Send columns to the buckets of positions."""
        if len(at):
            self._sent.setdefault(f"{kind}: {system}", []).append({AT: at, **columns})

    def put_on_lan(self, kind: str, system: str, node: np.ndarray) -> None:
        """Put a packet on a LAN link for each of some positions, each any number of times."""
        packets = np.bincount(node)
        there = np.flatnonzero(packets)
        self.put_at(there, kind, system, node=there, packets=packets[there])

    def carry(self, system: str, router: np.ndarray, sender: np.ndarray, to: np.ndarray) -> None:
        """Put messages on links; one of a node to itself crosses none.

        Parameters
        ----------
        router : ndarray of int64, shape (K,)
            Index of the router of each position.
        sender, to : ndarray of int, shape (m,)
            Positions of nodes.
        """
        if not (away := sender != to).all():
            sender, to = sender[away], to[away]
        self.put_on_lan(UP, system, sender)
        self.put_on_lan(DOWN, system, to)
        routers = int(router.max(initial=0)) + 1
        keys = router[sender] * routers + router[to]
        small = np.int32 if routers**2 < 2**31 else np.int64  # sorts in half of the time
        routes, packets = np.unique(keys.astype(small), return_counts=True)
        a, b = np.divmod(routes.astype(np.int64), routers)
        self.put(ROUTES, system, a // SOURCES, src=a, dst=b, packets=packets)

    def carry_in_trees(
        self, system: str, router: np.ndarray, tree: np.ndarray, source: np.ndarray, to: np.ndarray
    ) -> None:
        """Put a packet of each tree on the links of the merged routes from its source.

        Parameters
        ----------
        router : ndarray of int64, shape (K,)
            Index of the router of each position.
        tree, source, to : ndarray of int, shape (m,)
            The tree, the position of its source, and a receiver.
        """
        self.put_on_lan(DOWN, system, to)
        each, row = np.unique(tree, return_index=True)
        node, one = source[row], np.ones(len(row), dtype=np.int64)
        self.put_at(node, TREE_UP, system, node=node, tree=each, packets=one)
        away = router[source] != router[to]
        ends = router[source[away]], router[to[away]]
        _, (tree, src, dst), _ = distinct_rows(tree[away], *ends)
        self.put(TREES, system, tree, tree=tree, src=src, dst=dst)

    def receive(self, inbox: Inbox) -> Iterator[tuple[str, str, Columns]]:
        """Put what came on routes on links; yield the links that are complete.

        Yields
        ------
        kind, system, columns
            `UP`, `DOWN` or `CORE`, and the links that carry packets, each once.
        """
        for name in sorted(inbox):
            kind, _, system = name.partition(": ")
            columns = inbox[name]
            if kind == TREE_UP:
                row, _, _ = distinct_rows(columns["node"], columns["tree"])
                kind, columns = UP, take(columns, row)
            if kind in _ENDS:
                yield kind, system, add_rows("packets", columns, *_ENDS[kind])
            elif kind in (ROUTES, TREES):
                count = self._of_routes if kind == ROUTES else self._of_trees
                src, dst, packets = count(columns)
                self.put(CORE, system, src, src=src, dst=dst, packets=packets)

    def outbox(self) -> Outbox:
        """Return the messages to send now."""
        sent, self._sent = self._sent, {}
        return {name: concatenate(parts) for name, parts in sent.items()}

    def _of_routes(self, columns: Columns) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the ends of links, and the packets that routes put on them."""
        return self._kernel.link_packets(columns["src"], columns["dst"], columns["packets"])

    def _of_trees(self, columns: Columns) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the ends of links, and the packets of trees whose routes are merged."""
        ends = [columns[name] for name in ("tree", "src", "dst")]
        if "packets" not in columns:
            return self._kernel.merged_packets(*ends)
        weight, parts = columns["packets"], []
        for one in np.unique(weight):
            src, dst, packets = self._kernel.merged_packets(*(end[weight == one] for end in ends))
            parts.append({"src": src, "dst": dst, "packets": packets * one})
        added = add_rows("packets", concatenate(parts), "src", "dst")
        return added["src"], added["dst"], added["packets"]


def packets_of(system: str) -> str:
    """Return the name of the counts of links by their packets."""
    return f"packets of {system}"
