"""Node stress and link stress: children tables and entries per node, packets per directed link.

Runs and the rounds of worlds count by the same program (:class:`PacketsOnLinks`).  A bucket sums
the packets that its messages put on LAN links, for the bucket of the link's node, and on routes,
for the bucket of the route's first router; that bucket turns packets on routes into packets on core
links, for the buckets of the links' routers.  A link is complete as soon as its packets arrive, so
all packets of a system on core links must be sent in the same superstep, and likewise all packets
of a system and direction on LAN links.

References
----------
JSAC 2002, Section IV.C (Figures 8, 9), IV.D (Figure 10), IV.E (Figure 11), IV.F (Figures 12 to 14).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from pyspark.sql.types import StructType

from scribe_spark import schemas
from scribe_spark.core.arrays import index_sorted, sums_at
from scribe_spark.core.histogram import Histogram
from scribe_spark.engine import Columns, Inbox, Outbox, Tables, exchange, on_spark, packing, program
from scribe_spark.measures import measure
from scribe_spark.measures.distributions import (
    Histograms,
    Statistic,
    column_of,
    histogram_of,
    measure_of,
    measured_distribution,
    number_of,
    statistics,
)
from scribe_spark.runtime.batches import Batches, BatchKernel, Table, by_text
from scribe_spark.schemas import CORE as CORE_LINK
from scribe_spark.schemas import LAN_DOWN, LAN_UP, joined_columns
from scribe_spark.underlay.paths import SOURCES
from scribe_spark.underlay.protocol import Kernel, Underlay

# --- node stress


#: The names of the number of children tables of a node, and of entries in them.
CHILDREN = "children_tables", "children_entries"


def count_children(
    group: np.ndarray, node: np.ndarray, entries: np.ndarray, nodes: int
) -> dict[str, np.ndarray]:
    """Return the number of children tables of each node, and of entries in them: shape (nodes,)."""
    _, (of_table, _), _ = exchange.distinct_rows(node, group)
    sums = np.bincount(of_table, minlength=nodes), sums_at(node, entries, nodes)
    return dict(zip(CHILDREN, sums, strict=True))


#: The figures of these numbers, and what they are.
_OF_NODES = {
    CHILDREN[0]: ("8", "groups for which a node has a non-empty children table, over all nodes"),
    CHILDREN[1]: ("9", "entries in all of a node's children tables, over all nodes"),
}
_NUMBERS = statistics("per node", "mean", "median", "max")

NODE_STRESS = measure_of(
    "node_stress",
    *(
        measured_distribution(
            name, *of, measure.keeps_children, _NUMBERS, column_of("node_stress", name)
        )
        for name, of in _OF_NODES.items()
    ),
)


# --- link stress


#: The kinds of links: from a node, to a node, and between two routers.
UP, DOWN, CORE = "up", "down", "core"

#: The kinds of messages that become packets on links: packets on routes; the routes of trees, which
#: routers merge; one packet of each tree on the up-link of its source, which may be sent
#: repeatedly.
ROUTES, TREES, TREE_UP = "routes", "trees", "tree up"

#: The columns that identify a link of each kind.
_ENDS = {UP: ("node",), DOWN: ("node",), CORE: ("src", "dst")}


class PacketsOnLinks:
    """The packets on links that a bucket counts and sends on in a superstep."""

    def __init__(self, kernel: Kernel, bounds: np.ndarray) -> None:
        self._kernel, self._bounds = kernel, bounds
        self._sent: dict[str, list[Columns]] = {}

    def put(self, kind: str, system: str, number: np.ndarray, **columns: np.ndarray) -> None:
        """Send rows of a kind, with columns, to the buckets ``number % B``."""
        self.put_at(self._bounds[number % (len(self._bounds) - 1)], kind, system, **columns)

    def put_at(self, at: np.ndarray, kind: str, system: str, **columns: np.ndarray) -> None:
        """Send rows of a kind, with columns, to the buckets that contain the positions `at`."""
        if len(at):
            self._sent.setdefault(f"{kind}: {system}", []).append({program.AT: at, **columns})

    def put_on_lan(self, kind: str, system: str, node: np.ndarray) -> None:
        """Put a packet on the LAN link (up or down) of each node in `node`; a node may repeat."""
        packets = np.bincount(node)
        there = np.flatnonzero(packets)
        self.put_at(there, kind, system, node=there, packets=packets[there])

    def carry(self, system: str, router: np.ndarray, sender: np.ndarray, to: np.ndarray) -> None:
        """Put messages on links; a message from a node to itself uses no link."""
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
        """Put one packet of each tree on the links of the merged routes from its source."""
        self.put_on_lan(DOWN, system, to)
        each, row = np.unique(tree, return_index=True)
        node, one = source[row], np.ones(len(row), dtype=np.int64)
        self.put_at(node, TREE_UP, system, node=node, tree=each, packets=one)
        away = (router[source] != router[to]) & self._kernel.has_links
        ends = router[source[away]], router[to[away]]
        _, (tree, src, dst), _ = exchange.distinct_rows(tree[away], *ends)
        self.put(TREES, system, tree, tree=tree, src=src, dst=dst, packets=np.ones_like(tree))

    def receive(self, inbox: Inbox) -> Iterator[tuple[str, str, Columns]]:
        """Turn packets on routes into packets on links; yield kind, system and links, each once."""
        for name in sorted(inbox):
            kind, _, system = name.partition(": ")
            columns = inbox[name]
            if kind == TREE_UP:
                row, _, _ = exchange.distinct_rows(columns["node"], columns["tree"])
                kind, columns = UP, packing.take(columns, row)
            if kind in _ENDS:
                yield kind, system, exchange.add_rows("packets", columns, *_ENDS[kind])
            elif kind in (ROUTES, TREES):
                if kind == ROUTES:
                    ends = columns["src"], columns["dst"], columns["packets"]
                    src, dst, packets = self._kernel.link_packets(*ends)
                else:
                    src, dst, packets = self._of_trees(columns)
                self.put(CORE, system, src, src=src, dst=dst, packets=packets)

    def outbox(self) -> Outbox:
        """Return the collected packets as messages of this superstep."""
        sent, self._sent = self._sent, {}
        return {name: packing.concatenate(parts) for name, parts in sent.items()}

    def _of_trees(self, columns: Columns) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the ends of links, and the packets of trees with merged routes."""
        ends, parts = [columns[name] for name in ("tree", "src", "dst")], []
        for one in np.unique(columns["packets"]):
            some = (end[columns["packets"] == one] for end in ends)
            src, dst, packets = self._kernel.merged_packets(*some)
            parts.append({"src": src, "dst": dst, "packets": packets * one})
        if len(parts) > 1:
            parts = [exchange.add_rows("packets", packing.concatenate(parts), "src", "dst")]
        return parts[0]["src"], parts[0]["dst"], parts[0]["packets"]


def packets_of(system: str) -> str:
    """Return the name under which links are counted by their packets, for a system."""
    return f"packets of {system}"


# --- the measure


def _over_slots(words: str, number: Callable[[Histogram, int], float | None]) -> Statistic:
    """Return a statistic over the paper's slots for links, also those without packets."""

    def of(packets: Histogram, size: measure.Size) -> float | None:
        return number(packets, size.paper_slots) if size.has_slot_for_each_link else None

    slots = "the paper's link slots: core links and 100 LAN slots a router, in both directions"
    none = "none where there are fewer slots than links"
    return Statistic("per slot", f"{words} {{what}}, over {slots}; {none}.", of)


def _over_links(words: str, number: Callable[[Histogram, int], float | None]) -> Statistic:
    """Return a statistic over all directed links, also those without packets."""
    links = "over all directed links, those without a packet included"
    of = f"{words} {{what}}, {links}."
    return Statistic("per link", of, lambda packets, size: number(packets, size.existing_links))


#: Statistics of the packets on links, by name, from the links that have packets.
PACKET_NUMBERS: dict[str, Statistic] = {
    "mean": _over_slots("Mean", Histogram.mean),
    "median": _over_slots("Median", Histogram.median),
    "mean_existing": _over_links("Mean", Histogram.mean),
    "median_existing": _over_links("Median", Histogram.median),
    **statistics("per link", "max"),
}

_PACKETS = "packets on a directed link, when each group gets one message"
_ALL = "Packets on all links together, when each group gets one message."

#: The metrics of a network -> what they are, and their values.
_NETWORK: dict[str, tuple[str, measure.Value]] = {
    "links.existing": (
        "Directed links that exist: core links, and two LAN links for each node.",
        lambda found: found.size.existing_links,
    ),
    "links.paper_slots": (
        "The paper's number of directed links (*slots*).",
        lambda found: found.size.paper_slots,
    ),
}


def sum_of(
    named: tuple[str, str, str, str], histogram: Histograms, systems: Callable[..., bool]
) -> list[measure.Metric]:
    """Return the metric of the sum of a histogram; `named` has its first fields."""
    return [measure.Metric(*named, number_of(histogram, lambda values, _: values.sum), systems)]


LINK_STRESS = measure_of(
    "link_stress",
    measured_distribution(
        *("link_stress", "10", _PACKETS, measure.every_system, PACKET_NUMBERS),
        column_of("link_stress", "packets"),
    ),
    sum_of(("messages", "packets", "10", _ALL), histogram_of("link_stress"), measure.every_system),
    [measure.Metric(name, "directed links", "10", *of) for name, of in _NETWORK.items()],
    used_when=lambda config: not config.topology.is_pairs,
)


# --- the tables of a run


#: The columns of copies, named as in `tree_edges`.  With a column ``packets``, a row counts that
#: many times; merged copies of a group have equal values of it.
EDGE_COLUMNS = ("system", "merged", "group", "parent", "child", "parent_router", "child_router")

#: The message with nodes whose loads are counted, and the tables with the loads of each system.
_NODES, _LOADS = "nodes", "loads"

#: The number of consecutive nodes whose loads, or bytes, are counted in one bucket.
NEIGHBOURS = 2**12


def spread_nodes(nodes: Table, buckets: int, names: Iterable[str], **columns: int) -> Batches:
    """Return `ROWS` that send nodes to their buckets, once by each name, with constant columns."""

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            node = batch.column("node").to_numpy()
            rows = {"node": node, **{name: np.full_like(node, of) for name, of in columns.items()}}
            for name in names:
                yield from exchange.send(buckets, name, node // NEIGHBOURS, rows)

    return Batches.of(nodes, ["node"]).then(run, on_spark.ROWS)


def count_stress(
    copies: Table,
    underlay: Underlay,
    buckets: int,
    nodes: Table | None = None,
    systems: Iterable[str] = (),
) -> Batches:
    """Count the load of nodes and links: `ROWS` for :func:`node_stress`, :func:`link_stress`.

    `copies` has :data:`EDGE_COLUMNS`, and optionally ``packets``.
    """
    kernel, bounds = underlay.kernel, np.arange(buckets + 1)
    sent = Batches.of(copies, EDGE_COLUMNS).then(_from_edges(kernel, bounds), on_spark.ROWS)
    if nodes is not None:
        sent = Batches.union([sent, spread_nodes(nodes, buckets, [_NODES])])
    return exchange.play_lazily(_CountStress(kernel, bounds, tuple(systems)), sent, supersteps=2)


def node_stress(counted: Batches) -> Batches:
    """Return a row for every node and system, zeros included: `schemas.NODE_STRESS`.

    The numbers are those of :func:`count_children`; 0 where routers duplicate packets.
    """
    return rows_of_counts(counted, schemas.NODE_STRESS, {_LOADS: {}})


#: Kind of link -> the columns of its counts that differ from `schemas.LINK_STRESS`.
_LINKS: dict[str, dict[str, str]] = {
    UP: {"kind": LAN_UP, "src": "node", "dst": "router"},
    DOWN: {"kind": LAN_DOWN, "src": "router", "dst": "node"},
    CORE: {"kind": CORE_LINK},
}


def link_stress(counted: Batches) -> Batches:
    """Return the packets of every directed link that has packets: `schemas.LINK_STRESS`."""
    return rows_of_counts(counted, schemas.LINK_STRESS, _LINKS)


def link_bytes(counted: Batches) -> Batches:
    """Return `schemas.LINK_BYTES`, from counts of copies whose ``packets`` are bytes."""
    names = {kind: {**one, "bytes": "packets"} for kind, one in _LINKS.items()}
    return rows_of_counts(counted, schemas.LINK_BYTES, names)


def rows_of_counts(
    counted: Batches, schema: StructType, tables: Mapping[str, Mapping[str, str]]
) -> Batches:
    """Return the counts of buckets, in tables ``KIND SYSTEM``, as rows of a schema.

    `tables` has the kinds of counts that are wanted, and the names of columns that differ; a name
    that no column has is the text of all rows.
    """

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for row in on_spark.read_rows(batches):
            kind, system = row.name.split(" ", 1)
            if kind in tables:
                counts = row.read()
                renamed = {new: counts.get(old, old) for new, old in tables[kind].items()}
                columns = {**counts, **renamed, "system": system}
                yield from joined_columns([columns], schema).to_batches()

    return counted.then(run, schema)


# --- edges become counts


def _from_edges(kernel: Kernel, bounds: np.ndarray) -> BatchKernel:
    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        packets = PacketsOnLinks(kernel, bounds)
        for system, batch in by_text(batches, "system"):
            if len(batch):
                _put_edges(packets, kernel, system, batch)
            for to, name, columns in program.deliver(bounds, packets.outbox()):
                yield from on_spark.pack_rows(to, 0, False, name, columns)

    return run


def _put_edges(packets: PacketsOnLinks, kernel: Kernel, system: str, batch: pa.RecordBatch) -> None:
    """Put the packets of edges on links: up from parents, on routes, and down to children."""
    merged = bool(batch.column("merged")[0].as_py())
    group, parent, child, above, below = (
        batch.column(name).to_numpy() for name in EDGE_COLUMNS[2:]
    )
    weight = np.ones_like(group)
    if "packets" in batch.schema.names:
        weight = batch.column("packets").to_numpy()

    def count(rows: slice | np.ndarray, **keys: np.ndarray) -> dict[str, np.ndarray]:
        columns = {**keys, "row": np.arange(len(group))[rows], "packets": weight[rows]}
        return exchange.add_rows("packets", columns, *keys)

    every, crossing = slice(None), (above != below) & kernel.has_links
    src, dst = (kernel.index(end[crossing]).astype(np.int64) for end in (above, below))
    if merged:  # one packet per group, whatever the number of its receivers
        up = count(every, node=parent, tree=group)
        up["packets"] = weight[up["row"]]
        links = count(crossing, tree=group[crossing], src=src, dst=dst)
        links["packets"] = weight[links["row"]]
    else:
        up = count(every, node=parent, group=group)
        links = count(crossing, src=src, dst=dst)
    down = count(every, node=child)
    for kind, sums, router in ((TREE_UP if merged else UP, up, above), (DOWN, down, below)):
        row = sums.pop("row")
        packets.put(kind, system, sums["node"] // NEIGHBOURS, router=router[row], **sums)
    del links["row"]
    number = links["tree"] if merged else links["src"] // SOURCES
    packets.put(TREES if merged else ROUTES, system, number, **links)


# --- sums in a bucket


@dataclass(frozen=True)
class _CountStress:
    """Sum the packets of each link, and count the children tables of each node."""

    kernel: Kernel
    bounds: np.ndarray
    systems: tuple[str, ...]

    def step(self, bucket: int, tables: Tables, inbox: Inbox, superstep: int) -> Outbox:
        packets = PacketsOnLinks(self.kernel, self.bounds)
        for kind, system, links in packets.receive(inbox):
            if kind == CORE:
                ends = {end: self.kernel.ids(links[end]) for end in ("src", "dst")}
            else:
                ends = {end: links[end] for end in ("node", "router")}
            tables[f"{kind} {system}"] = {**ends, "packets": links["packets"]}
        if _NODES in inbox:
            nodes = np.sort(inbox[_NODES]["node"])
            for system in self.systems:
                sent = inbox.get(f"{UP}: {system}", {})
                tables[f"{_LOADS} {system}"] = {"node": nodes, **_loads(nodes, sent)}
        return packets.outbox()


def _loads(nodes: np.ndarray, sent: Columns) -> Columns:
    """Return the number of children tables, and of entries in them, of each node."""
    if not sent:
        return dict.fromkeys(CHILDREN, np.zeros(len(nodes), dtype=np.int64))
    at = index_sorted(nodes, sent["node"])
    return count_children(sent["group"], at, sent["packets"], len(nodes))
