"""Link stress: packets per directed link, for example when each group multicasts one message.

Messages are spread over buckets, which count packets in two supersteps:

1.  A bucket sums the packets that its messages put on LAN links, and on routes between routers.  It
   sends the sums of a LAN link to a bucket that is chosen by the link's node, and the sums of a
   route to a bucket that is chosen by the route's first router.
2.  That bucket turns packets on routes into packets on core links, which go to buckets that are
   chosen by the links' routers.
3.  Each bucket sums the packets of its links.

All packets of a system on core links must be sent in the same superstep, and likewise all packets
of a system and direction on LAN links, because a link is complete as soon as its packets arrive.

References
----------
JSAC 2002, Section IV.D (Figure 10), IV.F (Figure 14); docs/rules.md, "Measures, by round".
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from scribe_spark.core.histogram import Histogram
from scribe_spark.engine import Columns, Inbox, Outbox
from scribe_spark.engine.exchange import add_rows, distinct_rows
from scribe_spark.engine.packing import concatenate, take
from scribe_spark.engine.program import AT
from scribe_spark.measures.distributions import (
    Statistic,
    column_of,
    histogram_metrics,
    histogram_of,
    number_of,
    statistics,
)
from scribe_spark.measures.measure import Distribution, Measure, Metric, Size, every_system
from scribe_spark.underlay.paths import SOURCES
from scribe_spark.underlay.protocol import Kernel

#: The kinds of links: from a node, to a node, and between two routers.
UP, DOWN, CORE = "up", "down", "core"

#: The kinds of messages that become packets on links: packets on routes; the routes of trees, which
#: routers merge; one packet of each tree on the up-link of its source, which may be sent
#: repeatedly.
ROUTES, TREES, TREE_UP = "routes", "trees", "tree up"

#: The columns that identify a link of each kind.
_ENDS = {UP: ("node",), DOWN: ("node",), CORE: ("src", "dst")}


class PacketsOnLinks:
    """The packets on links that a bucket counts and sends on in a superstep.

    `bounds` has the first position of each bucket, and the number of nodes.
    """

    def __init__(self, kernel: Kernel, bounds: np.ndarray) -> None:
        self._kernel, self._bounds = kernel, bounds
        self._sent: dict[str, list[Columns]] = {}

    def put(self, kind: str, system: str, number: np.ndarray, **columns: np.ndarray) -> None:
        """Send rows of a kind, with columns, to the buckets ``number % B``."""
        self.put_at(self._bounds[number % (len(self._bounds) - 1)], kind, system, **columns)

    def put_at(self, at: np.ndarray, kind: str, system: str, **columns: np.ndarray) -> None:
        """Send rows of a kind, with columns, to the buckets that contain the positions `at`."""
        if len(at):
            self._sent.setdefault(f"{kind}: {system}", []).append({AT: at, **columns})

    def put_on_lan(self, kind: str, system: str, node: np.ndarray) -> None:
        """Put a packet on the LAN link of each node in `node`; a node may repeat.

        `kind` is up or down.
        """
        packets = np.bincount(node)
        there = np.flatnonzero(packets)
        self.put_at(there, kind, system, node=there, packets=packets[there])

    def carry(self, system: str, router: np.ndarray, sender: np.ndarray, to: np.ndarray) -> None:
        """Put messages on links; a message from a node to itself uses no link.

        `router` has the index of each node's router; `sender` and `to` are positions of nodes.
        """
        if not (away := sender != to).all():
            sender, to = sender[away], to[away]
        self.put_on_lan(UP, system, sender)
        self.put_on_lan(DOWN, system, to)
        if not self._kernel.has_links:
            return
        routers = int(router.max(initial=0)) + 1
        keys = router[sender] * routers + router[to]
        small = np.int32 if routers**2 < 2**31 else np.int64  # int32 sorts twice as fast
        routes, packets = np.unique(keys.astype(small), return_counts=True)
        a, b = np.divmod(routes.astype(np.int64), routers)
        self.put(ROUTES, system, a // SOURCES, src=a, dst=b, packets=packets)

    def carry_in_trees(
        self, system: str, router: np.ndarray, tree: np.ndarray, source: np.ndarray, to: np.ndarray
    ) -> None:
        """Put one packet of each tree on the links of the merged routes from its source.

        A row is a receiver of a tree; `router` has the index of each node's router.
        """
        self.put_on_lan(DOWN, system, to)
        each, row = np.unique(tree, return_index=True)
        node, one = source[row], np.ones(len(row), dtype=np.int64)
        self.put_at(node, TREE_UP, system, node=node, tree=each, packets=one)
        away = (router[source] != router[to]) & self._kernel.has_links
        ends = router[source[away]], router[to[away]]
        _, (tree, src, dst), _ = distinct_rows(tree[away], *ends)
        self.put(TREES, system, tree, tree=tree, src=src, dst=dst)

    def receive(self, inbox: Inbox) -> Iterator[tuple[str, str, Columns]]:
        """Turn packets on routes into packets on links; yield kind, system and links.

        The links that a bucket yields carry packets, and occur once.
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
        """Return the collected packets as messages of this superstep."""
        sent, self._sent = self._sent, {}
        return {name: concatenate(parts) for name, parts in sent.items()}

    def _of_routes(self, columns: Columns) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the ends of links, and the packets that routes put on them."""
        return self._kernel.link_packets(columns["src"], columns["dst"], columns["packets"])

    def _of_trees(self, columns: Columns) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the ends of links, and the packets of trees with merged routes."""
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
    """Return the name under which links are counted by their packets, for a system."""
    return f"packets of {system}"


# --- the measure


def _over_slots(words: str, number: Callable[[Histogram, int], float | None]) -> Statistic:
    """Return a statistic over the paper's slots for links, also those without packets.

    `words` define it, `number` computes it.
    """

    def of(packets: Histogram, size: Size) -> float | None:
        return number(packets, size.paper_slots) if size.has_slot_for_each_link else None

    slots = "the paper's link slots: core links and 100 LAN slots a router, in both directions"
    none = "none where there are fewer slots than links"
    return Statistic("per slot", f"{words} {{what}}, over {slots}; {none}.", of)


def _over_links(words: str, number: Callable[[Histogram, int], float | None]) -> Statistic:
    """Return a statistic over all directed links, also those without packets.

    `words` define it, `number` computes it.
    """

    def of(packets: Histogram, size: Size) -> float | None:
        return number(packets, size.existing_links)

    links = "over all directed links, those without a packet included"
    return Statistic("per link", f"{words} {{what}}, {links}.", of)


#: Statistics of the packets on links, by name, from the links that have packets.
PACKET_NUMBERS: dict[str, Statistic] = {
    "mean": _over_slots("Mean", Histogram.mean),
    "median": _over_slots("Median", Histogram.median),
    "mean_existing": _over_links("Mean", Histogram.mean),
    "median_existing": _over_links("Median", Histogram.median),
    **statistics("per link", "max"),
}

LINK_STRESS = Measure(
    "link_stress",
    used_when=lambda config: not config.topology.is_pairs,
    distributions=(Distribution("link_stress", "10", column_of("link_stress", "packets")),),
    metrics=(
        *histogram_metrics(
            "link_stress",
            "10",
            "packets on a directed link, when each group gets one message",
            every_system,
            PACKET_NUMBERS,
        ),
        Metric(
            "messages",
            "packets",
            "10",
            "Packets on all links together, when each group gets one message.",
            number_of(histogram_of("link_stress"), lambda packets, _: packets.sum),
            every_system,
        ),
        Metric(
            "links.existing",
            "directed links",
            "10",
            "Directed links that exist: core links, and two LAN links for each node.",
            lambda found: found.size.existing_links,
        ),
        Metric(
            "links.paper_slots",
            "directed links",
            "10",
            "The paper's number of directed links (*slots*).",
            lambda found: found.size.paper_slots,
        ),
    ),
)
