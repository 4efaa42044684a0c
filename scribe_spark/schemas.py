"""The names, columns and types of all tables of a run.

The tables of :data:`CONTRACTS` are left in ``OUT/tables`` for users' scripts; their names, columns
and types are stable.  Other tables are internal.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

import pandas as pd
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DoubleType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
)

_TYPES = {
    "long": LongType(),
    "int": IntegerType(),
    "double": DoubleType(),
    "string": StringType(),
    "bool": BooleanType(),
    "bytes": BinaryType(),
}


def _schema(columns: str) -> StructType:
    """Return the schema of columns that are given by type: ``long group node; int hops``."""
    parts = (part.split() for part in columns.split(";"))
    return StructType(
        [StructField(name, _TYPES[kind], True) for kind, *names in parts for name in names]
    )


ROUTERS = _schema("long router; string kind; long domain; double x y")
LINKS = _schema("long src dst; double delay_ms weight")
NODES = _schema("long node id_hi id_lo router")
ROUTING_TABLE = _schema("long node; int row col; long entry")
GROUPS = _schema("long group key_hi key_lo size root")
MEMBERS = _schema("long group node")
CHILDREN = _schema("long group parent child")
TREE_EDGES = _schema("string system; long group parent child")
DELIVERIES = _schema("string system; long group node; int hops; double delay_ms")
NODE_STRESS = _schema("string system; long node children_tables children_entries")
LINK_STRESS = _schema("string system kind; long src dst packets")
GROUP_DELAY = _schema("string system; long group size; double rad rmd")

#: Latencies of each publication of a system, in milliseconds (`unit` ``ms``) or hops (``hops``,
#: with the clock of hops): over the reached receivers, and the times until 50 to 100 % of the
#: expected receivers have it.
LATENCY = _schema(
    "string system; long group publication; string unit; long expected reached; double mean "
    "p50 p90 p95 p99 max t50 t90 t95 t99 t100"
)

#: The number of deliveries with each latency: above `value` - 1 and at most `value`.
LATENCY_COUNTS = _schema("string system unit; double value; long count")

#: One row for each copy from node to node, of systems whose copies form no trees.
COPIES = _schema("string system; long group sender receiver; string kind; int hop; double sent_ms")

#: The number of entries of each kind that nodes keep.
SYSTEM_STATE = _schema("string system; long node group; string kind; long entries")

#: The number of control messages of each kind from node to node while members join.
CONTROL = _schema("string system; long group sender receiver; string kind; long messages")

#: The edges of a system's picture of one group: the rank of the edge, and a number of the child.
PICTURES = _schema(
    "string system; long group parent child parent_router child_router rank; double value"
)

#: The events of a world (`worlds.events`); rounds are numbered from 0.  Events of nodes have no
#: group.
EVENTS = _schema("int round; long node; string event; long group")

#: Every measure of a world, by round; measures of the overlay have the system `PASTRY`.
ROUNDS = _schema("long round; string system measure; double value")

#: The `system` of measures of the overlay.
PASTRY = "pastry"

#: The results of a round's lookups: `at` is the node where a lookup ended, `right` is true if that
#: is the live node closest to the key; `lost` counts transmissions to dead nodes.
LOOKUPS = _schema("long source key_hi key_lo at; bool delivered right; long hops lost")

#: The results of anycasts: the member that accepted (NULL: none), the messages, the nodes of the
#: tree that did not accept, and the sum of the messages' delays.
ANYCASTS = _schema("long group node number accepted messages visited; double delay_ms")

#: Leaf sets; `place` is 1, 2, ... for the next larger nodeIds (clockwise), -1, -2, ... for the next
#: smaller ones.
LEAF_SETS = _schema("long node leaf; int place")

#: The messages of a round, also those to dead nodes.
MESSAGES = _schema("string kind; long sender receiver")

#: The nodes of a world between two rounds: `alive`; the round of death (-1: none); the number of
#: rounds until that is known; and its tables: its leaf set (larger leaves, then smaller ones,
#: nearest first), the filled cells of its routing table (row * 2**b + col), and the nodes in them.
#: These three columns are int32 in bytes.
WORLD_STATE = _schema(
    "long node id_hi id_lo router; bool alive; long died wait entered; bytes leaves cells entries"
)

#: Tables and messages of buckets in packed form: the bucket, the sender, `table` (false: messages),
#: the name, the number of rows; and the bytes, or the files that have them (one line for each).
#: Many bytes are divided into several rows, ``part`` 0 to ``parts`` - 1; the first one has the
#: number of rows.
ROWS = StructType(
    [
        StructField(field.name, field.dataType, field.name in ("file", "data"))
        for field in _schema(
            "int bucket sender; bool table; string name; long rows; string file; bytes data; "
            "int part parts"
        )
    ]
)

#: The counts of publications, each reported for the round of publication; see `PUBLICATIONS`.
PUBLICATION_COUNTS = (
    *("expected", "due", "in_time", "late", "lost", "open", "first_copies", "duplicates"),
)

#: The results of a round's publications to a group: the numbers of expected receivers, of those
#: whose deadline is in the world, of members that received them in that round, later, or not until
#: the deadline, and of members without them whose deadline is after the end of the world; the
#: numbers of first and of repeated copies that arrived.
PUBLICATIONS = _schema(f"long round; string system; long group {' '.join(PUBLICATION_COUNTS)}")

#: The nodes in a group's tree; `parent` is NULL at the root, and at nodes that wait for a parent.
MEMBERSHIPS = _schema("long group node parent; bool member root")

#: Small trees ``before`` and ``after`` rounds in which one of their nodes died.
WATCHED_TREES = _schema(
    "long round; string moment; long group node parent; bool member root orphan alive"
)

#: The events of a world as they happened.
WORLD_EVENTS = _schema("long round node; string event; long group")

#: The number of occurrences of each value in an experiment on the reference tree: `experiment` is
#: ``events`` (hosts connect and disconnect, Section 4 of Costa and Frey) or ``scaling`` (one large
#: tree).
REFERENCE_TREE = _schema(
    "string experiment; long hosts bits children; string assignment measure; long value count"
)

#: The expected receivers of a publication, and those that have it within a deadline; their weights
#: are NULL without weights.
COVERAGE = _schema(
    "string system; long group publication; double deadline_ms; long expected within; double "
    "expected_weight within_weight"
)

#: The times until nodes of a quorum have a publication, and until the source has their answers;
#: NULL if never, or not asked for.
QUORUMS = _schema("string system; long group publication; double quorum_ms replies_ms")

#: The bytes that nodes send and receive, if publications have a size.
BYTES = _schema("string system; long node payload_up payload_down control_up control_down")

#: A measure of the nodes of each class or region, or in a round of each tree (`by` is ``class``,
#: ``region`` or ``tree``): the number of values, their mean, and percentiles by nearest rank.
BY_PART = _schema("string by part system measure; long count; double mean p50 p90 p95 p99 max")

#: The same in each round of a world whose publications have a size.
ROUNDS_BY_PART = StructType([*_schema("long round").fields, *BY_PART.fields])

#: Deliveries to the nodes of each class or region by their latency, rounded up to whole ms.
PART_LATENCIES = _schema("string by part system; double value; long count")

#: The last columns that tables have in some runs and worlds: with classes or regions of nodes, with
#: a schedule.  The time of an event counts from the beginning of its round; NULL: no time or size
#: of its own.
_FURTHER = {
    "nodes": _schema("string class region"),
    "events": _schema("double time; long size"),
    "deliveries": _schema("long publication"),
    "copies": _schema("long publication"),
}

#: The publications of a run with a schedule: source, group, time and number of bytes.
SCHEDULE = _schema("long publication group node; double time_ms; long bytes")

#: The payload bytes on each directed link that carries any.
LINK_BYTES = _schema("string system kind; long src dst bytes")

#: A measure of each tree of a system whose groups have several trees (`measures.parts`): the number
#: of values, their mean, and percentiles by nearest rank.
BY_TREE = _schema(
    "string system; long tree; string measure; long count; double mean p50 p90 p95 p99 max"
)

#: The tables that users may read, by the command or the settings that write them: a run's, and
#: further ones of a run: of systems that return them; with sizes of publications; with a schedule
#: (`link_bytes` only with sizes, `by_tree` only with a system whose groups have several trees);
#: with classes or regions of nodes; with a deadline or a quorum; and those of a world, besides
#: `routers`, `links` and `nodes`.
CONTRACTS: dict[str, dict[str, StructType]] = {
    "run": {
        "routers": ROUTERS,
        "links": LINKS,
        "nodes": NODES,
        "routing_table": ROUTING_TABLE,
        "groups": GROUPS,
        "members": MEMBERS,
        "tree_edges": TREE_EDGES,
        "deliveries": DELIVERIES,
        "node_stress": NODE_STRESS,
        "link_stress": LINK_STRESS,
        "group_delay": GROUP_DELAY,
        "latency": LATENCY,
        "latency_counts": LATENCY_COUNTS,
    },
    "systems": {
        "copies": COPIES,
        "system_state": SYSTEM_STATE,
        "control": CONTROL,
        "control_stress": LINK_STRESS,
    },
    "bytes": {"bytes": BYTES},
    "schedules": {"schedule": SCHEDULE, "link_bytes": LINK_BYTES, "by_tree": BY_TREE},
    "parts": {"by_part": BY_PART, "part_latencies": PART_LATENCIES},
    "coverage": {"coverage": COVERAGE, "quorums": QUORUMS},
    "world": {
        "events": WORLD_EVENTS,
        "rounds": ROUNDS,
        "publications": PUBLICATIONS,
        "memberships": MEMBERSHIPS,
        "watched_trees": WATCHED_TREES,
        "rounds_by_part": ROUNDS_BY_PART,
    },
    "reference_tree": {"reference_tree": REFERENCE_TREE},
}

#: Packed unicast routes from a block of sources to targets (`underlay.matrices.pack_routes`).
ROUTES = _schema("int sources targets; bytes source delay_us pred")

#: Histograms behind the figures.
DISTRIBUTIONS = _schema("string figure system measure; double value; long count")

#: Every number of every run of several seeds, one per row.
METRICS = _schema("string experiment; long seed; string name; double value")

_KNOWN_NODE = _schema("long entry id_hi id_lo router")
_KNOWN_CELL = StructType([*_schema("int row col"), *_KNOWN_NODE])

#: The knowledge of a node: its leaf set, clockwise from its farthest smaller leaf to its farthest
#: larger one (the first `smaller` of them are smaller); `covers_ring`, true if the leaf set covers
#: the whole ring (NULL: its length decides); and its routing table, in any order.
KNOWLEDGE = StructType(
    [
        *NODES.fields,
        *_schema("int smaller; bool covers_ring").fields,
        StructField("leaf_set", ArrayType(_KNOWN_NODE)),
        StructField("routing_table", ArrayType(_KNOWN_CELL)),
    ]
)

#: The vertices of the graphs of overlay and trees: `NODES` with the column ``id`` of GraphFrames.
NODE_VERTICES = _schema("long id id_hi id_lo router")

#: The edges of the overlay's graph: from each node to its leaves (``kind`` is `LEAF_SET`; `place`
#: is -1 for the next smaller nodeId, 1 for the next larger one, and so on outwards) and to the
#: entries of its routing table (`ROUTING_TABLE_ENTRY`; `row` and `col` from 0).  Columns of the
#: other kind are NULL.
OVERLAY_EDGES = _schema("long src dst; string kind; int row col place")

#: Values of ``kind`` in :data:`OVERLAY_EDGES`.
LEAF_SET, ROUTING_TABLE_ENTRY = "leaf_set", "routing_table"

#: Edges of the trees' graph: from a parent to a child, by system and group.
TREE_GRAPH_EDGES = _schema("long src dst; string system; long group")

#: The entries of all routing tables together.
TABLE_ENTRIES = _schema("long nodes entries")

#: The number of messages of each kind for all arrivals together.
ARRIVAL_MESSAGES = _schema("string kind; long messages")

#: The JOINs of a variant beyond Scribe's own, with the probes before each.
EXTRA_JOINS = _schema("string system; long group parent child parent_router child_router probes")

#: The number of nodes with more children than their limit.
OVERLOADED = _schema("string system; long nodes")

#: The paths of the CREATE messages, from a group's creator to its root, with the direct delay D
#: between these two.
PASTRY_ROUTES = _schema("long source root; int hops; double delay_ms direct_ms")

_ENDS = _schema("long sender_router receiver_router").fields

#: Every table that a phase may write, with all columns; those of :data:`CONTRACTS` come first.
#: ``merged`` is true if routers duplicate packets (`Multicast.merged`); ``first`` is true for the
#: first copy that its receiver gets.
WRITTEN: dict[str, StructType] = {
    **{name: schema for of in CONTRACTS.values() for name, schema in of.items()},
    "tree_edges": StructType(
        [*TREE_EDGES, *_schema("long parent_router child_router; bool merged")]
    ),
    "copies": StructType([*COPIES, *_ENDS, *_schema("bool first")]),
    "control": StructType([*CONTROL, *_ENDS]),
    "pictures": PICTURES,
    "table_entries": TABLE_ENTRIES,
    "arrival_messages": ARRIVAL_MESSAGES,
    "knowledge": KNOWLEDGE,
    "pastry_routes": PASTRY_ROUTES,
    "extra_joins": EXTRA_JOINS,
    "overloaded": OVERLOADED,
    "distributions": DISTRIBUTIONS,
    "metrics": METRICS,
    "state_even": ROWS,
    "state_odd": ROWS,
}


def further_columns(table: str) -> list[StructField]:
    """Return the columns at the end of a table (given by name) that only some runs have."""
    return list(_FURTHER.get(table, StructType()))


def events_of(schema: StructType, columns: Collection[str]) -> StructType:
    """Return a schema of events: `schema`, and those of the further columns in `columns`."""
    more = [field for field in further_columns("events") if field.name in columns]
    return StructType([*schema.fields, *more])


def written(table: str, scheduled: bool) -> StructType:
    """Return the columns of a system's table (given by name); a schedule adds some."""
    return StructType([*WRITTEN[table].fields, *(further_columns(table) if scheduled else [])])


def check_columns(table: str, found: StructType) -> None:
    """Refuse a table whose columns `found` differ from those in :data:`WRITTEN`."""
    if table not in WRITTEN:
        raise ValueError(f"table {table} has no schema in schemas.WRITTEN")
    wanted, given = (
        [(field.name, field.dataType.simpleString()) for field in schema.fields]
        for schema in (WRITTEN[table], found)
    )
    more = [(field.name, field.dataType.simpleString()) for field in further_columns(table)]
    given = [column for column in given if column not in more]
    if given != wanted:
        raise ValueError(f"table {table} has columns {given}; its schema says {wanted}")


#: Kinds of link in ``link_stress``.
CORE, LAN_UP, LAN_DOWN = "core", "lan_up", "lan_down"


def conform(frame: DataFrame, schema: StructType) -> DataFrame:
    """Return a DataFrame with exactly the columns of `schema`, in its order and types."""
    return frame.select(*[F.col(f.name).cast(f.dataType).alias(f.name) for f in schema.fields])


def arrow_table(rows: Any, schema: StructType) -> pa.Table:
    """Return rows (dicts) of the driver as an Arrow table; NaN becomes NULL."""
    frame, kinds = pd.DataFrame(rows, columns=schema.names), to_arrow_schema(schema)
    table = pa.Table.from_pandas(frame, schema=kinds, preserve_index=False)
    return table.replace_schema_metadata(None)


def joined_columns(parts: Iterable[Mapping[str, Any]], schema: StructType) -> pa.Table:
    """Return the rows of several parts, by columns; a text or None is the value of all rows."""
    kinds = to_arrow_schema(schema)
    tables = [kinds.empty_table()]
    for part in parts:
        count = len(next(column for column in part.values() if not isinstance(column, str | None)))
        arrays = [
            pa.repeat(pa.scalar(column, field.type), count)
            if isinstance(column := part[field.name], str | None)
            else pa.array(column, field.type)
            for field in kinds
        ]
        tables.append(pa.Table.from_arrays(arrays, schema=kinds))
    return pa.concat_tables(tables)


def arrow_columns(table: pa.Table, schema: StructType) -> pa.Table:
    """Return an Arrow table with exactly the columns of `schema`, in its order and types."""
    kinds = to_arrow_schema(schema)
    return table.select(schema.names).cast(kinds).replace_schema_metadata(None)


def local_table(spark: SparkSession, rows: Any, schema: StructType) -> DataFrame:
    """Return rows (dicts) of the driver as a DataFrame of one partition, by Arrow."""
    return spark.createDataFrame(arrow_table(rows, schema), schema).coalesce(1)
