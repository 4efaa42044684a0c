"""Bytes sent and received by nodes and router links, in runs whose publications have a size.

A payload has the size of its publication, without TCP/IP headers.  Control messages have the sizes
of libp2p's protobuf encoding where it defines them, otherwise the config's `control_size`.

References
----------
libp2p/specs, pubsub: the messages RPC, ControlMessage, ControlIHave, ControlIWant, ControlGraft,
ControlPrune, ControlIDontWant.
"""

from __future__ import annotations

from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from scribe_spark.measures.distributions import (
    Statistic,
    column_of,
    histogram_metrics,
    statistics,
    values_in,
)
from scribe_spark.measures.measure import Distribution, Measure, RunTables, every_system
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
    """Return the size in bytes of a kind of control messages; `other` if it is not defined.

    An IHAVE or IWANT also has a `bitmap` of some bytes.
    """
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


def node_bytes(run: RunTables, kept: DataFrame | None = None) -> DataFrame:
    """Return the bytes of every node and system, zeros included: `schemas.BYTES`; lazy.

    With a schedule, `kept` is the `link_stress` of one copy on each tree edge, and the run has
    `link_bytes`.
    """
    assert run.config is not None
    config = run.config.bandwidth
    named = config.parts is not None and run.config.gossipsub.announce == "publication"
    bitmap = -(-config.parts_sent // 8) if named else 0
    # in these systems, a JOIN was sent in the opposite direction on each tree edge
    of_joins = F.col("system").isin([one.name for one in run.systems if one.joins_by_edges])
    joined = F.when(of_joins, F.col("packets") * config.control_bytes)
    every = F.explode(F.array(*(F.lit(one.name) for one in run.systems))).alias("system")
    counted = [_rows(run["nodes"].select("node", every), "node")]
    if kept is None:
        counted += _of_links(run["link_stress"], F.col("packets") * config.size, joined)
    else:
        counted += _of_links(run["link_bytes"], F.col("bytes"), F.lit(0))
        counted += _of_links(kept, F.lit(0), joined)
    for name, messages in (("control", F.col("messages")), ("copies", F.lit(1))):
        if name in run:
            others = run[name].where(F.col("kind") != PAYLOAD)
            taken = messages * _bytes_of_kind(config.control_bytes, bitmap)
            counted.append(_rows(others, "sender", control_up=taken))
            counted.append(_rows(others, "receiver", control_down=taken))
    added = reduce(DataFrame.unionAll, counted).groupBy("system", "node")
    return added.agg(*(F.sum(name).alias(name) for name in NODE_BYTES))


def _of_links(links: DataFrame, sent: Column, joined: Column) -> list[DataFrame]:
    """Return the bytes that packets on LAN links are for nodes, payload and JOINs.

    `sent` and `joined` are the bytes of payload and of JOINs on a link.
    """
    up, down = links.where(links["kind"] == LAN_UP), links.where(links["kind"] == LAN_DOWN)
    return [
        _rows(up, "src", payload_up=sent, control_down=joined),
        _rows(down, "dst", payload_down=sent, control_up=joined),
    ]


def _rows(table: DataFrame, node: str, **counts: Column) -> DataFrame:
    """Return the counts (columns) for the nodes in a column of a table; missing counts are 0."""
    zero = F.lit(0)
    columns = (F.coalesce(counts.get(name, zero), zero).cast("bigint") for name in NODE_BYTES)
    named = (column.alias(name) for name, column in zip(NODE_BYTES, columns, strict=True))
    return table.select("system", F.col(node).alias("node"), *named)


def _bytes_of_kind(other: int, bitmap: int) -> Column:
    """Return the column with the size (bytes) of a control message, from its ``kind``.

    `other` is the size of undefined kinds, `bitmap` that of the bitmap of an IHAVE or IWANT.
    """
    kinds = F.when(F.lit(False), 0)
    for kind in _CONTROL_BYTES:
        kinds = kinds.when(F.col("kind") == kind, size_of_control(kind, other, bitmap))
    return kinds.otherwise(other)


def _on_core_links(run: RunTables) -> Batches | None:
    """Return the payload bytes of each core link that carries any; None in a run without bytes."""
    if "bytes" not in run or run.config is None:
        return None
    size, table, column = run.config.bandwidth.size, "link_stress", "packets"
    if "link_bytes" in run:
        size, table, column = 1, "link_bytes", "bytes"
    rows = run.batches(table, ["system", "kind", column]).among("kind", [CORE])
    return values_in(rows, column, size)


#: Numbers over all core links, with those without bytes.
_OF_CORE = {
    "mean": Statistic("B", "Mean {what}.", lambda carried, size: carried.mean(size.core_links)),
    "max": Statistic("B", "Greatest {what}.", lambda carried, _: carried.max),
}

#: The metrics of bytes of nodes, of runs and of rounds.
NODE_BYTE_METRICS = tuple(
    metric
    for name, what in _OF_NODES.values()
    for metric in histogram_metrics(
        *(name, _SECTION, f"{what}, over all nodes", every_system),
        statistics("B", "mean", "p95", "max"),
    )
)

BYTES = Measure(
    "bytes",
    used_when=lambda config: config.bandwidth.has_sizes,
    distributions=(
        *(
            Distribution(name, _SECTION, column_of("bytes", column))
            for column, name in NODE_BYTES.items()
        ),
        Distribution("core_bytes", _SECTION, _on_core_links),
    ),
    metrics=(
        *NODE_BYTE_METRICS,
        *histogram_metrics(
            "core_bytes",
            _SECTION,
            "payload bytes of a directed core link, over all of them",
            every_system,
            _OF_CORE,
        ),
    ),
)
