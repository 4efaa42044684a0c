"""Node stress and link stress when one message is multicast to every group, counted by kernels.

Three steps: edges become counts for the bucket of their parent, of their child, and of their route;
each bucket adds up what comes for it; what routes put on links is added up link by link.  Counts
travel packed (`engine.packing`), and the two tables are read off what the buckets leave.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame

from scribe_spark import schemas
from scribe_spark.core.arrays import whole_numbers
from scribe_spark.engine.exchange import Step, add_rows, distinct_rows, each_bucket, meet, send
from scribe_spark.engine.on_spark import ROWS, read_rows
from scribe_spark.engine.packing import Columns, concatenate, take
from scribe_spark.runtime.batches import Batches, BatchKernel, Table, by_text
from scribe_spark.schemas import CORE, LAN_DOWN, LAN_UP
from scribe_spark.underlay.paths import SOURCES
from scribe_spark.underlay.protocol import Kernel, Underlay

#: The columns of copies that are read, as `tree_edges` has them; where there is a column
#: ``packets``, too, a row counts as many times; merged ones of a group have the same number.
EDGE_COLUMNS = ("system", "merged", "group", "parent", "child", "parent_router", "child_router")

# what is counted, by system
_UP, _DOWN, _ROUTES, _TREES, _LINKS = "up", "down", "routes", "trees", "links"
_NODES, _LOADS = "nodes", "loads"

#: So many nodes in a row are in one bucket.
_NEIGHBOURS = 2**12


def count_stress(
    copies: Table,
    underlay: Underlay,
    buckets: int,
    nodes: Table | None = None,
    systems: Iterable[str] = (),
) -> DataFrame:
    """Count what nodes and links carry; lazy, `ROWS` for :func:`node_stress`, :func:`link_stress`.

    Parameters
    ----------
    copies : DataFrame or Batches
        :data:`EDGE_COLUMNS`, and perhaps ``packets``.
    buckets : int
        In how many parts it is counted; as many as tasks run at once.
    nodes : DataFrame or Batches, optional
        ``node``: whose loads are counted, zeros included.
    systems : iterable of str
        Of which systems.
    """
    kernel = underlay.kernel
    counted = Batches.of(copies, EDGE_COLUMNS).then(_from_edges(kernel, buckets), ROWS)
    if nodes is not None:
        listed = Batches.of(nodes, ["node"]).then(_from_nodes(buckets), ROWS)
        counted = Batches.union([counted, listed])
    add_up = each_bucket(_add_up(kernel, buckets, tuple(systems)))
    added = Batches.made(meet(counted, buckets), add_up, ROWS)
    return meet(added, buckets).mapInArrow(each_bucket(_add_links(kernel)), ROWS)


def node_stress(counted: DataFrame) -> Batches:
    """`schemas.NODE_STRESS`: a row for every node and system, zeros included.

    Tables are groups for which a node keeps a non-empty children table; entries are those in all of
    them.  Where routers duplicate, nodes keep none.

    Parameters
    ----------
    counted : DataFrame
        From :func:`count_stress`, with nodes and systems.
    """

    def rows(system: str, table: Columns) -> dict[str, Any]:
        return {
            "system": _repeated(system, len(table["node"])),
            "node": table["node"],
            "children_tables": table["tables"],
            "children_entries": table["entries"],
        }

    return _read_off(counted, {_LOADS: rows}, schemas.NODE_STRESS)


def link_stress(counted: DataFrame) -> Batches:
    """`schemas.LINK_STRESS`: packets per directed link that has some.

    Parameters
    ----------
    counted : DataFrame
        From :func:`count_stress`.
    """

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
        _UP: links(LAN_UP, "node", "router"),
        _DOWN: links(LAN_DOWN, "router", "node"),
        _LINKS: links(CORE, "src", "dst"),
    }
    return _read_off(counted, tables, schemas.LINK_STRESS)


def _repeated(text: str, n: int) -> pa.Array:
    return pa.repeat(pa.scalar(text, pa.string()), n)


def link_bytes(counted: DataFrame) -> Batches:
    """`schemas.LINK_BYTES`: bytes per directed link that carries some.

    Parameters
    ----------
    counted : DataFrame
        From :func:`count_stress`, of copies whose ``packets`` are bytes.
    """

    def rows(batch: pa.RecordBatch) -> dict[str, pa.Array]:
        columns = dict(zip(batch.schema.names, batch.columns, strict=True))
        return {**columns, "bytes": columns["packets"]}

    return link_stress(counted).each(rows, schemas.LINK_BYTES)


def _read_off(
    counted: DataFrame, tables: dict[str, Callable[[str, Columns], dict[str, Any]]], schema: Any
) -> Batches:
    """Return typed rows of what buckets have counted."""
    wanted = pa.schema([pa.field(f.name, _ARROW[f.dataType.simpleString()]) for f in schema])

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for row in read_rows(batches):
            what, system = row.name.split(" ", 1)
            if what in tables:
                columns = tables[what](system, row.read())
                arrays = [pa.array(columns[one.name], one.type) for one in wanted]
                yield pa.RecordBatch.from_arrays(arrays, schema=wanted)

    return Batches.made(counted, run, schema)


_ARROW = {"string": pa.string(), "bigint": pa.int64()}


# --- edges become counts


def _from_nodes(buckets: int) -> BatchKernel:
    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            node = batch.column("node").to_numpy()
            yield from send(buckets, f"{_NODES} ", node // _NEIGHBOURS, {"node": node})

    return run


def _from_edges(kernel: Kernel, buckets: int) -> BatchKernel:
    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for system, batch in by_text(batches, "system"):
            if not len(batch):
                continue
            merged = bool(batch.column("merged")[0].as_py())
            group, parent, child, above, below = (
                batch.column(name).to_numpy() for name in EDGE_COLUMNS[2:]
            )
            weighs = "packets" in batch.schema.names
            packets = batch.column("packets").to_numpy() if weighs else None
            # 1. what each parent sends to each group, and each child gets
            of, sends, count = _counted(packets, parent, group)
            if merged:
                count = np.ones_like(of) if packets is None else packets[of]
            up = {"node": sends[0], "group": sends[1], "router": above[of], "packets": count}
            up["merged"] = np.full(len(of), merged)
            yield from send(buckets, f"{_UP} {system}", up["node"] // _NEIGHBOURS, up)
            of, (gets,), count = _counted(packets, child)
            down = {"node": gets, "router": below[of], "packets": count}
            yield from send(buckets, f"{_DOWN} {system}", gets // _NEIGHBOURS, down)
            # 2. routes between different routers
            crossing = above != below
            ends = [kernel.index(end[crossing]).astype(np.int64) for end in (above, below)]
            if merged:
                of, (tree, src, dst), _ = distinct_rows(group[crossing], *ends)
                columns = {"tree": tree, "src": src, "dst": dst}
                if packets is not None:
                    columns["packets"] = packets[crossing][of]
                yield from send(buckets, f"{_TREES} {system}", tree, columns)
            else:
                some = None if packets is None else packets[crossing]
                _, (src, dst), count = _counted(some, *ends)
                columns = {"src": src, "dst": dst, "packets": count}
                yield from send(buckets, f"{_ROUTES} {system}", src // SOURCES, columns)

    return run


def _counted(
    packets: np.ndarray | None, *keys: np.ndarray
) -> tuple[np.ndarray, list[np.ndarray], np.ndarray]:
    """As `distinct_rows`; where rows are several packets, count these."""
    if packets is None:
        return distinct_rows(*keys)
    rows = {"packets": packets, "row": np.arange(len(packets))}
    named = {str(number): key for number, key in enumerate(keys)}
    added = add_rows("packets", rows | named, *named)
    return added["row"], [added[name] for name in named], added["packets"]


# --- a bucket adds up


def _add_up(kernel: Kernel, buckets: int, systems: tuple[str, ...]) -> Step:
    """Return the step that adds up what has come for a bucket."""

    def step(counts: dict[str, Columns]) -> Iterator[tuple[int | None, str, Columns]]:
        nodes = np.sort(counts.pop(f"{_NODES} ", {"node": whole_numbers()})["node"])
        loads = {system: np.zeros((2, len(nodes)), dtype=np.int64) for system in systems}
        for name, columns in sorted(counts.items()):
            what, system = name.split(" ")
            if what == _UP:
                table, load = _loads(columns)
                yield None, name, table
                if system in loads:
                    loads[system][:, np.searchsorted(nodes, table["node"])] = load
            elif what == _DOWN:
                yield None, name, add_rows("packets", columns, "node")
            else:
                if what == _ROUTES:
                    names = ("src", "dst", "packets")
                    found = kernel.link_packets(*(columns[end] for end in names))
                else:
                    found = _merged(kernel, columns)
                links = dict(zip(("src", "dst", "packets"), found, strict=True))
                to = links["src"] % buckets
                for bucket in np.unique(to):
                    yield int(bucket), f"{_LINKS} {system}", take(links, to == bucket)
        for system, (tables, entries) in loads.items():
            if len(nodes):
                kept = {"node": nodes, "tables": tables, "entries": entries}
                yield None, f"{_LOADS} {system}", kept

    return step


def _merged(kernel: Kernel, columns: Columns) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return links, and what packets put on them that routers duplicate."""
    ends = [columns[name] for name in ("tree", "src", "dst")]
    if "packets" not in columns:
        return kernel.merged_packets(*ends)
    weight, parts = columns["packets"], []
    for one in np.unique(weight):
        src, dst, packets = kernel.merged_packets(*(end[weight == one] for end in ends))
        parts.append({"src": src, "dst": dst, "packets": packets * one})
    added = add_rows("packets", concatenate(parts), "src", "dst")
    return added["src"], added["dst"], added["packets"]


def _loads(columns: Columns) -> tuple[Columns, tuple[np.ndarray, np.ndarray]]:
    """Return packets that nodes send, and the tables and entries that they keep, node by node."""
    merged = bool(columns["merged"][0])
    if merged:  # a packet of a group, whatever number of members it is for
        columns = take(columns, distinct_rows(columns["node"], columns["group"])[0])
    per_group = add_rows("packets", columns, "node", "group")
    start, (node,), groups = distinct_rows(per_group["node"])
    entries = np.add.reduceat(per_group["packets"], start)
    router = per_group["router"][start]
    packets = entries
    kept = (0 * groups, 0 * entries) if merged else (groups, entries)
    return {"node": node, "router": router, "packets": packets}, kept


def _add_links(kernel: Kernel) -> Step:
    """Return the step that adds up the packets on each link."""

    def step(counts: dict[str, Columns]) -> Iterator[tuple[int | None, str, Columns]]:
        for name, columns in sorted(counts.items()):
            added = add_rows("packets", columns, "src", "dst")
            ends = {end: kernel.ids(added[end]) for end in ("src", "dst")}
            yield None, name, added | ends

    return step
