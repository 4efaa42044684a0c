"""Measures of systems that may send several copies to a member: duplicates, control, state.

In a tree system, the tree's edges are the copies, no node receives two copies, and the state of a
node is its children.  Other systems report their copies, control messages and state in tables.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import functions as F

from scribe_spark.bandwidth.setting import Parts
from scribe_spark.core.histogram import Histogram, add_counts
from scribe_spark.engine.exchange import add_rows, count_in_buckets, distinct_rows
from scribe_spark.engine.packing import Columns, take
from scribe_spark.measures import distributions, latency, measure, stress
from scribe_spark.multicast import EDGES, PAYLOAD
from scribe_spark.rounds.declaration import IP, MESH, System
from scribe_spark.runtime.batches import Batches
from scribe_spark.systems.registry import find_system

#: The section of the paper that compares Scribe with other systems.
_SECTION = "V"

_ENDS = ("sender", "receiver", "sender_router", "receiver_router")
_EDGE_ENDS = ("parent", "child", "parent_router", "child_router")
_EDGES = f"system string, merged boolean, {EDGES}"
_OF_PAYLOAD = {"kind": [PAYLOAD]}

#: ``packets(batch)`` are the packets of each row.
_Packets = Callable[[pa.RecordBatch], Any]


def payload_copies(run: measure.RunTables, sizes: np.ndarray | None = None) -> Batches:
    """Return all copies of publications that nodes send to nodes: `stress.EDGE_COLUMNS`.

    In a run with a schedule, the column ``group`` contains the publication.  With `sizes` of
    publications, the column ``packets`` has the size of each copy in bytes.
    """
    message = measure.PUBLICATION if run.scheduled else "group"
    merged = [system.name for system in run.systems if system.family == IP and run.scheduled]
    edges = None if run.scheduled else run.batches("tree_edges", stress.EDGE_COLUMNS)
    if "copies" not in run:
        assert edges is not None  # a schedule has copies
        return edges
    copies = run.batches("copies", ["system", "kind", message, *_ENDS], _OF_PAYLOAD)
    packets = None if sizes is None else lambda batch: sizes[batch.column(message).to_numpy()]
    made = _as_edges(copies, packets, message, merged)
    return made if edges is None else Batches.union([edges, made])


def kept_links(run: measure.RunTables) -> Batches:
    """Return the links on which nodes send, once for all publications of a group: as edges."""
    edges = run.batches("tree_edges", stress.EDGE_COLUMNS)
    meshes = [system.name for system in run.systems if system.family == MESH]
    if not meshes or "copies" not in run:
        return edges
    copies = run["copies"].where(F.col("kind") == PAYLOAD).where(F.col("system").isin(meshes))
    pairs = copies.select("system", "group", *_ENDS).distinct()
    return Batches.union([edges, _as_edges(Batches.of(pairs))])


def control_messages(run: measure.RunTables) -> Batches | None:
    """Return all control messages that systems report, of joins and of publications, as edges.

    The number of messages is the column ``packets``; the result is None without any.
    """
    tables: dict[str, tuple[list[str], _Packets]] = {
        "control": (["messages"], lambda batch: batch.column("messages")),
        "copies": ([], lambda batch: np.ones(len(batch), dtype=np.int64)),
    }
    sent = []
    for name, (more, packets) in tables.items():
        if name in run:
            rows = run.batches(name, ["system", "kind", *more, *_ENDS])
            # control packets are counted by link and node, not by group
            sent.append(_as_edges(rows.then(_without_payload, rows.schema), packets, None))
    return Batches.union(sent) if sent else None


def _without_payload(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        yield batch.filter(pc.not_equal(batch.column("kind"), PAYLOAD))


def _as_edges(
    copies: Batches,
    packets: _Packets | None = None,
    message: str | None = "group",
    merged: Sequence[str] = (),
) -> Batches:
    """Return copies as `stress.EDGE_COLUMNS`; routers duplicate the packets of systems `merged`.

    `message` is the column that becomes the group.
    """

    def edges(batch: pa.RecordBatch) -> dict[str, Any]:
        system = batch.column("system")
        zeros = pa.array(np.zeros(len(batch), dtype=np.int64))
        columns = {
            "system": system,
            "merged": pc.is_in(system, pa.array(merged, pa.string())),
            "group": zeros if message is None else batch.column(message),
            **{edge: batch.column(end) for edge, end in zip(_EDGE_ENDS, _ENDS, strict=True)},
        }
        return columns if packets is None else {**columns, "packets": packets(batch)}

    return copies.each(edges, _EDGES if packets is None else f"{_EDGES}, packets bigint")


# --- duplicates


def duplicate_numbers(copies: int, receipts: Histogram) -> dict[str, float | None]:
    """Return the numbers of duplicates: all `copies` except the first ones."""
    first = receipts.total
    return {
        "duplicates": copies - first,
        "duplicates.mean": (copies - first) / first if first else None,
        "duplicates.p95": receipts.nearest_rank(95),
        "duplicates.max": receipts.max,
    }


def _collect_duplicates(run: measure.RunTables) -> dict[str, dict[str, float | None]]:
    """Count the copies that reach each node of each group."""
    if "copies" not in run:
        return {}

    def count(added: Columns) -> Columns:
        late = added["copies"] - added["first"]
        _, (first, value), nodes = distinct_rows(added["first"], late)
        return {"first": first, "value": value, "count": nodes}

    found = {}
    message = measure.PUBLICATION if run.scheduled else "group"
    for system, of in _count_by_receiver(run, message, count).items():
        sent = int((of["count"] * (of["first"] + of["value"])).sum())
        receipts = take(of, of["first"] > 0)
        found[system] = duplicate_numbers(sent, add_counts(receipts["value"], receipts["count"]))
    return found


def _count_by_receiver(
    run: measure.RunTables,
    message: str,
    count: Callable[[Columns], Columns],
    publication_of: Callable[[np.ndarray], np.ndarray] = np.asarray,
) -> dict[str, dict[str, np.ndarray]]:
    """Return ``count(sums)`` of each system's copies, summed by publication and receiver.

    The column `message` has the parts of publications, or the publications.
    """

    def copies(batch: pa.RecordBatch) -> Columns:
        rows = distributions.numbers_in(batch, message, "receiver", "first")
        rows["publication"] = publication_of(rows.pop(message))
        return rows | {"copies": np.ones(len(batch), dtype=np.int64)}

    rows = run.batches("copies", ["system", message, "receiver", "kind", "first"], _OF_PAYLOAD)
    sums = ("publication", "receiver"), ("first", "copies")
    return _count_sums(rows, copies, *sums, run.buckets, count)


def _count_sums(
    rows: Batches,
    columns: Callable[[pa.RecordBatch], Columns],
    keys: tuple[str, ...],
    values: tuple[str, ...],
    buckets: int,
    count: Callable[[Columns], Columns],
) -> dict[str, dict[str, np.ndarray]]:
    """Sum values over each system's rows with equal keys; return ``count(sums)`` by system.

    ``columns(batch)`` are the columns of rows of one system.  Rows meet in buckets by the last key,
    a node, and the result has the rows of all buckets.
    """

    def add(system: str, batch: pa.RecordBatch) -> Iterator[tuple[str, np.ndarray, Columns]]:
        if len(batch):
            added = add_rows(values, columns(batch), *keys)
            yield system, added[keys[-1]], added

    def of_systems(come: dict[str, Columns]) -> Iterator[tuple[str, Columns]]:
        for system, sums in come.items():
            yield system, count(add_rows(values, sums, *keys))

    return count_in_buckets(distributions.spread(rows, buckets, add), buckets, of_systems)


_AFTER_FIRST = "the duplicates that reach a node after its first copy of a message"

#: The results of :func:`duplicate_numbers`: their units and definitions.
_DUPLICATES = {
    "duplicates": (
        "copies",
        "Copies that reach a node which has the message already, over all groups; only of systems "
        "without trees.",
    ),
    "duplicates.mean": ("copies", "Duplicates / first copies."),
    "duplicates.p95": (
        "copies",
        f"The 95th percentile (nearest rank) of {_AFTER_FIRST}, over all first copies.",
    ),
    "duplicates.max": ("copies", f"Maximum of {_AFTER_FIRST}."),
}

DUPLICATES = measure.Measure(
    "duplicates",
    collect=_collect_duplicates,
    early=True,
    metrics=measure.collected_metrics("duplicates", _SECTION, _DUPLICATES, measure.forwards),
)


# --- parts of publications


def parts_beyond(parts: Parts, size: np.ndarray, got: Columns) -> Columns:
    """Count nodes by the parts that they got beyond those needed: ``beyond, bytes, count``.

    `got` has the numbers of ``first`` and of all ``copies`` of parts of each node and
    ``publication``.
    """
    has = got["first"] >= parts.needed
    beyond = got["copies"][has] - parts.needed
    in_bytes = beyond * size[got["publication"][has]]
    _, (beyond, in_bytes), nodes = distinct_rows(beyond, in_bytes)
    return {"beyond": beyond, "bytes": in_bytes, "count": nodes}


def numbers_of_parts(counted: Columns) -> dict[str, float]:
    """Return the metrics of excess parts from rows of :func:`parts_beyond`."""
    count = counted["count"]
    if not len(count):
        return {}
    means = {"beyond": counted["beyond"], "bytes_beyond": counted["bytes"]}
    return {
        **{f"parts.{n}.mean": float((of * count).sum() / count.sum()) for n, of in means.items()},
        "parts.beyond.max": float(counted["beyond"].max()),
    }


def _collect_parts(run: measure.RunTables) -> dict[str, dict[str, float]]:
    """Return, by system, the metrics of parts beyond those needed (:func:`numbers_of_parts`)."""
    published = measure.publications_of(run)
    assert published is not None
    assert run.config is not None
    parts = Parts.of(run.config.bandwidth)
    count = partial(parts_beyond, parts, published.size)
    counted = _count_by_receiver(run, measure.PUBLICATION, count, parts.publication)
    return {system: numbers_of_parts(of) for system, of in counted.items()}


#: The results of :func:`numbers_of_parts`: their units and definitions.
_PARTS = {
    "parts.beyond.mean": (
        "parts",
        "Mean number of parts, duplicates too, that are sent to a node beyond those that it needs; "
        "over the nodes with the publication, of all publications.",
    ),
    "parts.beyond.max": ("parts", "Maximum of these numbers of parts."),
    "parts.bytes_beyond.mean": ("B", "Mean size of these parts: bytes beyond the payload."),
}

PARTS = measure.Measure(
    "parts",
    used_when=lambda config: config.bandwidth.parts is not None,
    collect=_collect_parts,
    early=True,
    metrics=measure.collected_metrics("parts", _SECTION, _PARTS, measure.every_system),
)


# --- control messages and state of each node


def _by_node(run: measure.RunTables, table: str, node: str, value: str) -> pd.DataFrame | None:
    """Sum a column of a table for each node; count the nodes with each sum, zero included."""
    if table not in run:
        return None

    def columns(batch: pa.RecordBatch) -> Columns:
        return {"node": batch.column(node).to_numpy(), "value": batch.column(value).to_numpy()}

    def count(sums: Columns) -> Columns:
        return latency.count_values(sums["value"])

    entries, rows = run.batches(table, ["system", node, value]), []
    counted = _count_sums(entries, columns, ("node",), ("value",), run.buckets, count)
    for system, of in counted.items():
        every = add_counts(of["value"], of["count"]).with_zeros(run.nodes)
        pairs = zip(every.values, every.counts, strict=True)
        rows += [(system, value, nodes) for value, nodes in pairs if nodes]
    found = pd.DataFrame(rows, columns=["system", "value", "count"])
    return found.astype({"value": float, "count": int})


def _joins_by_edges(system: System) -> bool:
    return system.joins_by_edges


def _sends_control(system: System) -> bool:
    return system.control or system.joins_by_edges


def _or_tree(
    name: str, name_in_trees: str, is_read_off: Callable[[System], bool]
) -> distributions.Histograms:
    """Return a function that returns the histogram of a measure of a system."""

    def histogram(found: measure.Found, system: str) -> Histogram | None:
        reported, known = distributions.histogram_of(name)(found, system), find_system(system)
        if reported is None and known is not None and is_read_off(known):
            return distributions.histogram_of(name_in_trees)(found, system)
        return reported

    return histogram


_ENTRIES = "entries that a node stores for all groups, over all nodes (in trees: children)"

STATE = distributions.measure_of(
    "state",
    distributions.measured_distribution(
        *("state", _SECTION, _ENTRIES, measure.keeps_children),
        distributions.statistics("entries", "mean", "max"),
        lambda run: _by_node(run, "system_state", "node", "entries"),
        _or_tree("state", "children_entries", lambda system: system.family != MESH),
    ),
)


# --- meshes

#: The kind of state, and the name of the measure of runs and of worlds.
_MESH_LINKS = "mesh"


def _has_mesh(system: System) -> bool:
    return _MESH_LINKS in system.measures_of_worlds


def _collect_mesh(run: measure.RunTables) -> dict[str, dict[str, float]]:
    """Return the mean number of mesh links of a subscriber, by system."""
    if "system_state" not in run or not any(map(_has_mesh, run.systems)):
        return {}

    rows = run.batches("system_state", ["system", "kind", "entries"], {"kind": [_MESH_LINKS]})
    counts = distributions.values_in(rows, "entries").then(
        distributions.count_values_of(_MESH_LINKS), distributions.COUNTED
    )
    found = distributions.read_histograms(counts.to_arrow().to_pandas())
    return {system: {_MEAN_MESH: links.mean() or 0.0} for (system, _), links in found.items()}


_MEAN_MESH = f"{_MESH_LINKS}.mean"

MESH_LINKS = measure.Measure(
    _MESH_LINKS,
    collect=_collect_mesh,
    early=True,
    metrics=measure.collected_metrics(
        _MESH_LINKS,
        _SECTION,
        {_MEAN_MESH: ("links per membership", "Mean number of mesh links of a member or source.")},
        _has_mesh,
    ),
)


_CONTROL_STRESS = _or_tree("control_stress", "link_stress", _joins_by_edges)
_JOINING = "control messages that a node receives while members join, over all nodes"
_ON_LINKS = "control packets on a directed link, while members join"
_ALL = "Packets of control messages on all links together, while members join."

CONTROL = distributions.measure_of(
    "control",
    distributions.measured_distribution(
        *("join_messages", _SECTION, _JOINING, _sends_control),
        distributions.statistics("messages", "mean", "max"),
        lambda run: _by_node(run, "control", "receiver", "messages"),
        _or_tree("join_messages", "children_entries", _joins_by_edges),
    ),
    distributions.measured_distribution(
        *("control_stress", _SECTION, _ON_LINKS, _sends_control, stress.PACKET_NUMBERS),
        *(distributions.column_of("control_stress", "packets"), _CONTROL_STRESS),
    ),
    stress.sum_of(("control_packets", "packets", _SECTION, _ALL), _CONTROL_STRESS, _sends_control),
)
