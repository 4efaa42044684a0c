"""Bytes sent and received by nodes and router links, in runs whose publications have a size.

A payload has the size of its publication, without TCP/IP headers.  Control messages have the sizes
of libp2p's protobuf encoding where it defines them, otherwise the config's `control_size`.

References
----------
libp2p/specs, pubsub: the messages RPC, ControlMessage, ControlIHave, ControlIWant, ControlGraft,
ControlPrune, ControlIDontWant.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from scribe_spark import schemas
from scribe_spark.engine import Columns, Inbox, Outbox, Tables
from scribe_spark.engine.exchange import add_rows, play_lazily
from scribe_spark.measures import distributions
from scribe_spark.measures.measure import RunTables, every_system
from scribe_spark.measures.stress import NEIGHBOURS, rows_of_counts, spread_nodes
from scribe_spark.multicast import PAYLOAD
from scribe_spark.runtime.batches import Batches
from scribe_spark.schemas import CORE, LAN_DOWN, LAN_UP

#: The section of the paper that compares Scribe with other systems.
_SECTION = "V"

#: The size in bytes of an RPC with one control message, which contains a message id of 20 bytes (a
#: truncated SHA-256, as in Ethereum) and a topic of 32 bytes.  Each field is a tag, a length and
#: its bytes, and the RPC begins with its length.
_CONTROL_BYTES = {"IDONTWANT": 27, "IWANT": 27, "IHAVE": 61, "GRAFT": 39, "PRUNE": 41}


#: The kinds of control messages that name several parts by a bitmap, if they do (rule W16).
_OF_BITMAPS = "IHAVE", "IWANT"


def size_of_control(kind: str, other: int, bitmap: int = 0) -> int:
    """Return the size in bytes of a kind of control messages; `other` if it is not defined."""
    return _CONTROL_BYTES.get(kind, other) + (bitmap if kind in _OF_BITMAPS else 0)


#: The counts of each node, which are columns of the table `bytes` -> the name of the measure, and
#: the words of its definition.
_OF_NODES = {
    "payload_up": ("bytes.up", "payload bytes that a node sends"),
    "payload_down": ("bytes.down", "payload bytes that a node receives"),
    "control_up": ("control_bytes.up", "bytes of control messages that a node sends"),
    "control_down": ("control_bytes.down", "bytes of control messages that a node receives"),
}

NODE_BYTES = {count: measure for count, (measure, _) in _OF_NODES.items()}


def node_bytes(run: RunTables, kept: Batches | None = None) -> Batches:
    """Return the bytes of every node and system, zeros included: `schemas.BYTES`; lazy.

    With a schedule, `kept` is the `link_stress` of one copy on each tree edge.
    """
    assert run.config is not None
    config, buckets = run.config.bandwidth, run.buckets
    names = (one.names_parts(run.config) for one in run.systems if one.names_parts)
    named = config.parts is not None and any(names)
    bitmap = -(-config.parts_sent // 8) if named else 0
    # in these systems, a JOIN was sent in the opposite direction on each tree edge
    joined = {one.name: config.control_bytes for one in run.systems if one.joins_by_edges}
    nodes, systems = run.batches("nodes", ["node"]), [one.name for one in run.systems]
    counted = [spread_nodes(nodes, buckets, systems, **dict.fromkeys(NODE_BYTES, 0))]

    def add(table: Batches, count: _Count) -> None:
        counted.append(distributions.spread(table, buckets, partial(_rows_of, count)))

    ends = ["system", "kind", "src", "dst"]
    if kept is None:
        links = run.batches("link_stress", [*ends, "packets"])
        add(links, partial(_of_links, amount="packets", size=config.size, joined=joined))
    else:
        links = run.batches("link_bytes", [*ends, "bytes"])
        add(links, partial(_of_links, amount="bytes", size=1, joined={}))
        add(kept, partial(_of_links, amount="packets", size=0, joined=joined))
    of_kind = partial(size_of_control, other=config.control_bytes, bitmap=bitmap)
    for name, more in (("control", ["messages"]), ("copies", [])):
        if name in run:
            sent = run.batches(name, ["system", "kind", "sender", "receiver", *more])
            add(sent, partial(_of_messages, of_kind=of_kind))
    added = play_lazily(_AddBytes(np.arange(buckets + 1)), Batches.union(counted), supersteps=1)
    return rows_of_counts(added, schemas.BYTES, {_BYTES: {}})


#: ``count(system, batch)`` yields nodes and their bytes, by the names of `NODE_BYTES`.
_Count = Callable[[str, pa.RecordBatch], Iterator[tuple[np.ndarray, Columns]]]


def _of_links(
    system: str, links: pa.RecordBatch, amount: str, size: int, joined: Mapping[str, int]
) -> Iterator[tuple[np.ndarray, Columns]]:
    """Yield the bytes of packets on LAN links: payload of a `size`, and JOINs in the other way."""
    ways = (
        (LAN_UP, "src", "payload_up", "control_down"),
        (LAN_DOWN, "dst", "payload_down", "control_up"),
    )
    for kind, end, way, back in ways:
        some = links.filter(pc.equal(links.column("kind"), kind))
        packets = some.column(amount).to_numpy()
        yield (
            some.column(end).to_numpy(),
            {way: packets * size, back: packets * joined.get(system, 0)},
        )


def _of_messages(
    system: str, sent: pa.RecordBatch, of_kind: Callable[[str], int]
) -> Iterator[tuple[np.ndarray, Columns]]:
    """Yield the bytes of control messages at both ends; payload is counted on links."""
    kinds = sent.column("kind").dictionary_encode()
    sizes = [0 if kind == PAYLOAD else of_kind(kind) for kind in kinds.dictionary.to_pylist()]
    taken = np.array(sizes, dtype=np.int64)[kinds.indices.to_numpy()]
    if "messages" in sent.schema.names:
        taken = taken * sent.column("messages").to_numpy()
    for end, way in (("sender", "control_up"), ("receiver", "control_down")):
        yield sent.column(end).to_numpy(), {way: taken}


def _rows_of(
    count: _Count, system: str, batch: pa.RecordBatch
) -> Iterator[tuple[str, np.ndarray, Columns]]:
    """Yield the bytes of nodes, as rows that are sent to their buckets."""
    for node, counts in count(system, batch):
        if len(node):
            zeros = dict.fromkeys(NODE_BYTES, np.zeros_like(node))
            added = add_rows(tuple(NODE_BYTES), {"node": node, **zeros, **counts}, "node")
            yield system, added["node"] // NEIGHBOURS, added


_BYTES = "bytes"


@dataclass(frozen=True)
class _AddBytes:
    """Add up the bytes of each node of a bucket, in a table for each system."""

    bounds: np.ndarray

    def step(self, bucket: int, tables: Tables, inbox: Inbox, superstep: int) -> Outbox:
        for system, sent in inbox.items():
            tables[f"{_BYTES} {system}"] = add_rows(tuple(NODE_BYTES), sent, "node")
        return {}


def _on_core_links(run: RunTables) -> Batches | None:
    """Return the payload bytes of each core link that carries any; None in a run without bytes."""
    if "bytes" not in run or run.config is None:
        return None
    size, table, column = run.config.bandwidth.size, "link_stress", "packets"
    if "link_bytes" in run:
        size, table, column = 1, "link_bytes", "bytes"
    rows = run.batches(table, ["system", "kind", column]).among("kind", [CORE])
    return distributions.values_in(rows, column, size)


#: Numbers over all core links, with those without bytes.
_OF_CORE = {
    "mean": distributions.Statistic(
        "B", "Mean {what}.", lambda carried, size: carried.mean(size.core_links)
    ),
    "max": distributions.Statistic("B", "Greatest {what}.", lambda carried, _: carried.max),
}
_CORE_BYTES = "payload bytes of a directed core link, over all of them"

_NUMBERS = distributions.statistics("B", "mean", "p95", "max")

BYTES = distributions.measure_of(
    "bytes",
    *(
        distributions.measured_distribution(
            *(name, _SECTION, f"{what}, over all nodes", every_system, _NUMBERS),
            distributions.column_of("bytes", column),
        )
        for column, (name, what) in _OF_NODES.items()
    ),
    distributions.measured_distribution(
        "core_bytes", _SECTION, _CORE_BYTES, every_system, _OF_CORE, _on_core_links
    ),
    used_when=lambda config: config.bandwidth.has_sizes,
)

#: The metrics of bytes of nodes, of runs and of rounds.
NODE_BYTE_METRICS = tuple(one for one in BYTES.metrics if not one.name.startswith("core_bytes"))
