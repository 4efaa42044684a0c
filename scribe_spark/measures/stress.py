"""Node stress and link stress when each group multicasts one message, counted by kernels.

Edges become packets on LAN links and on routes.  A program on buckets sums them for each link
(:mod:`.link_stress`), as in the rounds of a world.
The tables of node and link stress are read from the results of the buckets.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from scribe_spark import schemas
from scribe_spark.core.arrays import index_sorted
from scribe_spark.engine import Columns, Inbox, Outbox, Tables
from scribe_spark.engine.exchange import add_rows, distinct_rows, play_lazily, send
from scribe_spark.engine.on_spark import ROWS, pack_rows, read_rows
from scribe_spark.engine.program import deliver
from scribe_spark.measures.link_stress import (
    CORE,
    DOWN,
    ROUTES,
    TREE_UP,
    TREES,
    UP,
    PacketsOnLinks,
)
from scribe_spark.measures.node_stress import CHILDREN, count_children
from scribe_spark.runtime.batches import Batches, BatchKernel, Table, by_text
from scribe_spark.schemas import CORE as CORE_LINK
from scribe_spark.schemas import LAN_DOWN, LAN_UP
from scribe_spark.underlay.paths import SOURCES
from scribe_spark.underlay.protocol import Kernel, Underlay

#: The columns of copies, named as in `tree_edges`.  With a column ``packets``, a row counts that
#: many times; merged copies of a group have equal values of it.
EDGE_COLUMNS = ("system", "merged", "group", "parent", "child", "parent_router", "child_router")

#: The message with nodes whose loads are counted, and the tables with the loads of each system.
_NODES, _LOADS = "nodes", "loads"

#: The number of consecutive nodes whose loads, or bytes, are counted in one bucket.
NEIGHBOURS = 2**12


def count_stress(
    copies: Table,
    underlay: Underlay,
    buckets: int,
    nodes: Table | None = None,
    systems: Iterable[str] = (),
) -> Batches:
    """Count the load of nodes and links: `ROWS` for :func:`node_stress`, :func:`link_stress`.

    `copies` has :data:`EDGE_COLUMNS`, and optionally ``packets``.  The loads of `nodes` are counted
    for `systems`, zeros included.
    """
    kernel, bounds = underlay.kernel, np.arange(buckets + 1)
    counted = Batches.of(copies, EDGE_COLUMNS).then(_from_edges(kernel, bounds), ROWS)
    if nodes is not None:
        listed = Batches.of(nodes, ["node"]).then(_from_nodes(buckets), ROWS)
        counted = Batches.union([counted, listed])
    return play_lazily(_CountStress(kernel, bounds, tuple(systems)), counted, supersteps=2)


def node_stress(counted: Batches) -> Batches:
    """Return a row for every node and system, zeros included: `schemas.NODE_STRESS`.

    ``children_tables`` is the number of groups for which the node has a nonempty children table,
    ``children_entries`` the number of entries in all of them.  Both are 0 where routers duplicate
    packets.
    """

    def rows(system: str, table: Columns) -> dict[str, Any]:
        return {
            "system": _repeated(system, len(table["node"])),
            "node": table["node"],
            **{name: table[name] for name in CHILDREN},
        }

    return _read_off(counted, {_LOADS: rows}, schemas.NODE_STRESS)


def link_stress(counted: Batches) -> Batches:
    """Return the packets of every directed link that has packets: `schemas.LINK_STRESS`."""

    def links(kind: str, src: str, dst: str) -> Callable[[str, Columns], dict[str, Any]]:
        def rows(system: str, table: Columns) -> dict[str, Any]:
            n = len(table["packets"])
            return {
                "system": _repeated(system, n),
                "kind": _repeated(kind, n),
                "src": table[src],
                "dst": table[dst],
                "packets": table["packets"],
            }

        return rows

    tables = {
        UP: links(LAN_UP, "node", "router"),
        DOWN: links(LAN_DOWN, "router", "node"),
        CORE: links(CORE_LINK, "src", "dst"),
    }
    return _read_off(counted, tables, schemas.LINK_STRESS)


def _repeated(text: str, n: int) -> pa.Array:
    return pa.repeat(pa.scalar(text, pa.string()), n)


def link_bytes(counted: Batches) -> Batches:
    """Return `schemas.LINK_BYTES`, from counts of copies whose ``packets`` are bytes."""

    def rows(batch: pa.RecordBatch) -> dict[str, pa.Array]:
        columns = dict(zip(batch.schema.names, batch.columns, strict=True))
        return {**columns, "bytes": columns["packets"]}

    return link_stress(counted).each(rows, schemas.LINK_BYTES)


def _read_off(
    counted: Batches, tables: dict[str, Callable[[str, Columns], dict[str, Any]]], schema: Any
) -> Batches:
    """Return the counts of buckets as rows of a schema.

    `tables` has, for each kind of count, a function of system and counts that returns the columns.
    """
    wanted = pa.schema([pa.field(f.name, _ARROW[f.dataType.simpleString()]) for f in schema])

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for row in read_rows(batches):
            what, system = row.name.split(" ", 1)
            if what in tables:
                columns = tables[what](system, row.read())
                arrays = [pa.array(columns[one.name], one.type) for one in wanted]
                yield pa.RecordBatch.from_arrays(arrays, schema=wanted)

    return counted.then(run, schema)


_ARROW = {"string": pa.string(), "bigint": pa.int64()}


# --- edges become counts


def _from_nodes(buckets: int) -> BatchKernel:
    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            node = batch.column("node").to_numpy()
            yield from send(buckets, _NODES, node // NEIGHBOURS, {"node": node})

    return run


def _from_edges(kernel: Kernel, bounds: np.ndarray) -> BatchKernel:
    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        packets = PacketsOnLinks(kernel, bounds)
        for system, batch in by_text(batches, "system"):
            if len(batch):
                _put_edges(packets, kernel, system, batch)
            for to, name, columns in deliver(bounds, packets.outbox()):
                yield from pack_rows(to, 0, False, name, columns)

    return run


def _put_edges(packets: PacketsOnLinks, kernel: Kernel, system: str, batch: pa.RecordBatch) -> None:
    """Put the packets of edges on links: up from parents, on routes, and down to children."""
    merged = bool(batch.column("merged")[0].as_py())
    group, parent, child, above, below = (
        batch.column(name).to_numpy() for name in EDGE_COLUMNS[2:]
    )
    weight = batch.column("packets").to_numpy() if "packets" in batch.schema.names else None
    of, (node, tree), count = _counted(weight, parent, group)
    up = {"node": node, "router": above[of]}
    if merged:  # one packet per group, whatever the number of its receivers
        one = np.ones_like(of) if weight is None else weight[of]
        packets.put(TREE_UP, system, node // NEIGHBOURS, **up, tree=tree, packets=one)
    else:
        packets.put(UP, system, node // NEIGHBOURS, **up, group=tree, packets=count)
    of, (node,), count = _counted(weight, child)
    packets.put(DOWN, system, node // NEIGHBOURS, node=node, router=below[of], packets=count)
    crossing = (above != below) & kernel.has_links
    src, dst = (kernel.index(end[crossing]).astype(np.int64) for end in (above, below))
    weight = None if weight is None else weight[crossing]
    if merged:
        of, (tree, src, dst), _ = distinct_rows(group[crossing], src, dst)
        weights = {} if weight is None else {"packets": weight[of]}
        packets.put(TREES, system, tree, tree=tree, src=src, dst=dst, **weights)
    else:
        _, (src, dst), count = _counted(weight, src, dst)
        packets.put(ROUTES, system, src // SOURCES, src=src, dst=dst, packets=count)


def _counted(
    packets: np.ndarray | None, *keys: np.ndarray
) -> tuple[np.ndarray, list[np.ndarray], np.ndarray]:
    """Return distinct rows of `keys`: first index, columns, and count.

    With `packets`, their sum takes the place of the count.
    """
    if packets is None:
        return distinct_rows(*keys)
    rows = {"packets": packets, "row": np.arange(len(packets))}
    named = {str(number): key for number, key in enumerate(keys)}
    added = add_rows("packets", rows | named, *named)
    return added["row"], [added[name] for name in named], added["packets"]


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
    """Return the number of children tables, and of entries in them, of each node.

    `sent` are the counts of copies by sender and group.
    """
    if not sent:
        return dict.fromkeys(CHILDREN, np.zeros(len(nodes), dtype=np.int64))
    at = index_sorted(nodes, sent["node"])
    return count_children(sent["group"], at, sent["packets"], len(nodes))
