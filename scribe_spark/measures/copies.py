"""Measures of systems beside one copy a member: duplicates, control messages, state.

Trees are the special case: their edges are their copies, no node gets two, and a node keeps its
children.  Other systems say in tables of their own what they send and keep.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from scribe_spark.engine.exchange import add_rows, gather, meet, send
from scribe_spark.engine.on_spark import ROWS
from scribe_spark.measures.distributions import histogram_metrics, values_of
from scribe_spark.measures.histogram import Histogram
from scribe_spark.measures.link_stress import packet_metrics
from scribe_spark.measures.measure import (
    Distribution,
    Found,
    Measure,
    Metric,
    RunTables,
    forwards,
    keeps_children,
)
from scribe_spark.measures.stress import EDGE_COLUMNS
from scribe_spark.multicast import EDGES, PAYLOAD
from scribe_spark.runtime.batches import Batches, by_text
from scribe_spark.systems import MESH, System, find_system

#: The paper compares itself with other systems there.
_SECTION = "V"

_ENDS = ("sender", "receiver", "sender_router", "receiver_router")
_EDGES = f"system string, merged boolean, {EDGES}"


def payload_copies(run: RunTables) -> Batches:
    """Return every copy of a message that a node sends to a node: `stress.EDGE_COLUMNS`."""
    edges = run.batches("tree_edges", EDGE_COLUMNS)
    if "copies" not in run:
        return edges
    copies = run.batches("copies", ["system", "group", "kind", *_ENDS])
    return Batches.union([edges, _as_edges(copies.among("kind", [PAYLOAD]))])


def control_messages(run: RunTables) -> Batches | None:
    """Return every control message that a system has handed over: as edges, with ``packets``.

    Those sent while members join, and those of the publications themselves; None if there is none.
    """
    sent = []
    if "control" in run:
        messages = run.batches("control", ["system", "group", "messages", *_ENDS])
        sent.append(_as_edges(messages, "messages"))
    if "copies" in run:
        copies = run.batches("copies", ["system", "group", "kind", *_ENDS])
        sent.append(_as_edges(_without_payload(copies), 1))
    return Batches.union(sent) if sent else None


def _without_payload(copies: Batches) -> Batches:
    def rows(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield batch.filter(pc.not_equal(batch.column("kind"), PAYLOAD))

    return copies.then(rows, copies.schema)


def _as_edges(copies: Batches, packets: str | int | None = None) -> Batches:
    """Return copies as `stress.EDGE_COLUMNS`, a row for as many packets as a column says."""

    def edges(batch: pa.RecordBatch) -> dict[str, pa.Array]:
        zeros = pa.array(np.zeros(len(batch), dtype=np.int64))
        columns = {
            "system": batch.column("system"),
            "merged": pa.repeat(pa.scalar(False), len(batch)),
            # packets of control are of links and nodes, whatever group they are of
            "group": batch.column("group") if packets is None else zeros,
            "parent": batch.column("sender"),
            "child": batch.column("receiver"),
            "parent_router": batch.column("sender_router"),
            "child_router": batch.column("receiver_router"),
        }
        if isinstance(packets, str):
            columns["packets"] = batch.column(packets)
        elif packets is not None:
            columns["packets"] = pa.array(np.full(len(batch), packets))
        return columns

    return copies.each(edges, _EDGES if packets is None else f"{_EDGES}, packets bigint")


# --- duplicates


def _collect_duplicates(run: RunTables) -> dict[str, dict[str, int]]:
    """System -> ``copies`` of payload, and ``duplicates``, the copies that are no first ones."""
    if "copies" not in run:
        return {}

    def sums(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for system, batch in by_text(batches, "system"):
            payload = batch.filter(pc.equal(batch.column("kind"), PAYLOAD))
            late = len(payload) - (pc.sum(payload.column("first")).as_py() or 0)
            row = {"system": [system], "copies": [len(payload)], "duplicates": [late]}
            yield pa.RecordBatch.from_pydict(row)

    copies = run.batches("copies", ["system", "kind", "first"])
    counted = copies.then(sums, "system string, copies bigint, duplicates bigint").frame
    added = counted.toArrow().to_pandas().groupby("system").sum()
    return {str(system): {n: int(row[n]) for n in added} for system, row in added.iterrows()}


def _duplicates(found: Found, system: str) -> float | None:
    return found.collected.get("duplicates", {}).get(system, {}).get("duplicates")


def _duplicates_per_delivery(found: Found, system: str) -> float | None:
    sums = found.collected.get("duplicates", {}).get(system)
    if sums is None:
        return None
    first = sums["copies"] - sums["duplicates"]
    return sums["duplicates"] / first if first else None


DUPLICATES = Measure(
    "duplicates",
    collect=_collect_duplicates,
    early=True,
    metrics=(
        Metric(
            "duplicates",
            "copies",
            _SECTION,
            "Copies of a message that reach a node which has it already, over all groups; told of "
            "systems that hand over copies, not edges of trees.",
            _duplicates,
            forwards,
        ),
        Metric(
            "duplicates.mean",
            "copies",
            _SECTION,
            "Duplicates / first copies.",
            _duplicates_per_delivery,
            forwards,
        ),
    ),
)


# --- what nodes take and keep, node by node


def _by_node(run: RunTables, table: str, node: str, value: str) -> pd.DataFrame | None:
    """Return how many nodes have each sum of a table's values, those without a row too."""
    if table not in run:
        return None

    buckets = run.buckets

    def add(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for system, batch in by_text(batches, "system"):
            columns = {"node": batch.column(node), "value": batch.column(value)}
            added = add_rows("value", {n: c.to_numpy() for n, c in columns.items()}, "node")
            yield from send(buckets, system, added["node"], added)

    def count(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _, come in gather(batches):
            for system, columns in sorted(come.items()):
                sums, nodes = np.unique(
                    add_rows("value", columns, "node")["value"], return_counts=True
                )
                names = pa.repeat(pa.scalar(system), len(sums))
                yield pa.RecordBatch.from_arrays(
                    [names, pa.array(sums), pa.array(nodes)], names=["system", "value", "count"]
                )

    sent = run.batches(table, ["system", node, value]).then(add, ROWS)
    counted = Batches.made(meet(sent, buckets), count, _COUNTED).frame.toArrow().to_pandas()
    there = counted.groupby("system")["count"].sum()
    zeros = pd.DataFrame({"system": there.index, "value": 0, "count": run.nodes - there.to_numpy()})
    every = pd.concat([counted, zeros[zeros["count"] > 0]])
    every = every.groupby(["system", "value"], as_index=False)["count"].sum()
    return every.astype({"value": float, "count": int})


_COUNTED = "system string, value bigint, count bigint"


def _keeps_children_only(system: System) -> bool:
    return system.family != MESH


def _joins_by_edges(system: System) -> bool:
    return system.joins_by_edges


def _sends_control(system: System) -> bool:
    return system.control or system.joins_by_edges


def _or_tree(
    measure: str, tree_measure: str, is_read_off: Callable[[System], bool]
) -> Callable[[Found, str], Histogram | None]:
    """Return the histogram of a measure; of trees it may be read off another one of theirs."""

    def histogram(found: Found, system: str) -> Histogram | None:
        own, known = found.histograms.get((system, measure)), find_system(system)
        if own is None and known is not None and is_read_off(known):
            return found.histograms.get((system, tree_measure))
        return own

    return histogram


STATE = Measure(
    "state",
    distributions=(
        Distribution(
            "state", _SECTION, lambda run: _by_node(run, "system_state", "node", "entries")
        ),
    ),
    metrics=histogram_metrics(
        "state",
        "entries",
        _SECTION,
        "entries that a node keeps for all groups, over all nodes (of trees: children)",
        keeps_children,
        ("mean", "max"),
        _or_tree("state", "children_entries", _keeps_children_only),
    ),
)


def _control_packets(run: RunTables) -> Batches | None:
    return values_of(run, "control_stress", "packets") if "control_stress" in run else None


_CONTROL_STRESS = _or_tree("control_stress", "link_stress", _joins_by_edges)


def _sum_of_packets(found: Found, system: str) -> float | None:
    packets = _CONTROL_STRESS(found, system)
    return None if packets is None else packets.sum


CONTROL = Measure(
    "control",
    distributions=(
        Distribution(
            "join_messages", _SECTION, lambda run: _by_node(run, "control", "receiver", "messages")
        ),
        Distribution("control_stress", _SECTION, _control_packets),
    ),
    metrics=(
        *histogram_metrics(
            "join_messages",
            "messages",
            _SECTION,
            "control messages that a node takes while members join, over all nodes",
            _sends_control,
            ("mean", "max"),
            _or_tree("join_messages", "children_entries", _joins_by_edges),
        ),
        *packet_metrics(
            "control_stress",
            _SECTION,
            "control packets on a directed link, while members join",
            _sends_control,
            _CONTROL_STRESS,
        ),
        Metric(
            "control_packets",
            "packets",
            _SECTION,
            "Packets of control messages on all links together, while members join.",
            _sum_of_packets,
            _sends_control,
        ),
    ),
)
