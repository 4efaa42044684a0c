"""Letters: what nodes know, or a part of it, on its way to the nodes of a bucket.

The nodes of an overlay are divided into buckets by their numbers, a bucket to a task.  A node's
state is a letter to its own bucket.  An announcement or a leaf set goes to many nodes; it is one
letter to each bucket in which it has receivers, so that its content is sent once to a bucket.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
import pyarrow as pa

from scribe_spark.core.arrays import list_array, offsets_of
from scribe_spark.engine.ring import Ring
from scribe_spark.pastry.arrivals.leaf_offers import take_leaves
from scribe_spark.pastry.arrivals.messages import Kind
from scribe_spark.pastry.arrivals.states import States
from scribe_spark.pastry.knowledge import Knowledge
from scribe_spark.pastry.leaf_set import LeafSets
from scribe_spark.pastry.routing_table import RoutingTables
from scribe_spark.runtime.blocks import read_partition
from scribe_spark.underlay.protocol import Kernel

__all__ = ["LETTER", "Content", "Letters", "lists", "read_letters", "said", "write_letters"]


class Content(IntEnum):
    """What a letter is, in its column ``content``."""

    STATE = 0  #: a node's own
    ANNOUNCEMENT = 1  #: ``leaf_set``: who is told; ``routing_table``: the rows they get
    LEAF_SET = 2  #: a node's leaf set, to its leaves
    ANSWER = 3  #: a node's leaf set, to one node, the only entry of ``routing_table``
    QUESTION = 4  #: a node asks the only entry of ``routing_table`` for rows
    ROWS = 5  #: rows of another node's table, to the node that the letter has in ``node``


_ROWS = 4096  # letters of one Arrow batch

#: `bucket`: where it goes; `sends`: whether the node sends its leaf set in the next round of the
#: exchange; `messages`: how many of each `Kind` the node has caused; `leaf_set`, `routing_table`:
#: records of :data:`_LEAF` and :data:`_ENTRY`.  They are bytes because Spark would take as long to
#: copy the structs of these lists, number by number, as all kernels take together.
LETTER = (
    "bucket int, content int, sends boolean, messages array<bigint>, "
    "node bigint, id_hi bigint, id_lo bigint, router bigint, leaf_set binary, routing_table binary"
)

#: A node that a letter names.
_LEAF = np.dtype([("hi", "<u8"), ("lo", "<u8"), ("router", "<i8"), ("node", "<i4")])
#: The same in a cell.
_ENTRY = np.dtype([*_LEAF.descr, ("row", "<i2"), ("col", "<i2")])


@dataclass(frozen=True)
class Letters:
    """Letters that have arrived at a bucket, with all nodes in them in one `Ring`.

    Attributes
    ----------
    content : ndarray of int32, shape (m,)
    sends : ndarray of bool, shape (m,)
    messages : ndarray of int64, shape (m, kinds)
    knowledge : Knowledge
        Of m nodes; ``known`` is in the order of nodeIds, each node once, routers are indices.
    """

    content: np.ndarray
    sends: np.ndarray
    messages: np.ndarray
    knowledge: Knowledge

    def index(self, content: Content) -> np.ndarray:
        """The letters of one content."""
        return np.flatnonzero(self.content == content)

    def states(
        self, letters: np.ndarray, leaf_set: int, b: int, *, with_leaves: bool = True
    ) -> States:
        """Some letters as states that can be changed; their leaf sets only `with_leaves`."""
        knowledge, known = self.knowledge, self.knowledge.known
        states = States.empty(known, knowledge.own[letters], leaf_set, b)
        states.messages[:] = self.messages[letters]
        rank = np.full(len(self.content), -1)
        rank[letters] = np.arange(len(letters))
        # 1. routing tables
        tables = knowledge.routing_tables
        of = rank[tables.rows]
        mine = of >= 0
        states.cells[of[mine], tables.row[mine], tables.col[mine]] = tables.entry[mine]
        if not with_leaves:
            return states
        # 2. leaf sets: where there are l of them, half are on each side
        sets = knowledge.leaf_sets
        full = np.diff(sets.offsets) == leaf_set
        of = rank[sets.rows]
        in_full = full[sets.rows] & (of >= 0)
        in_order = sets.leaves[in_full].reshape(-1, leaf_set)
        half = leaf_set // 2
        sides = [in_order[:, half:], in_order[:, half - 1 :: -1]]
        states.leaves[of[in_full][::leaf_set]] = np.concatenate(sides, axis=1)
        others = ~full[sets.rows] & (of >= 0)
        take_leaves(states, of[others], sets.leaves[others])
        return states


def read_letters(batches: Iterable[pa.RecordBatch], kernel: Kernel) -> Letters | None:
    """The letters of a partition; None if there are none."""
    rows = read_partition(batches)
    if rows is None:
        return None
    m = rows.num_rows
    leaf_offsets, leaves = _records(rows.column("leaf_set"), _LEAF)
    entry_offsets, entries = _records(rows.column("routing_table"), _ENTRY)
    hi, lo, node, router = (
        rows.column(name).to_numpy() for name in ("id_hi", "id_lo", "node", "router")
    )
    own = Ring(hi.view(np.uint64), lo.view(np.uint64), node, router)
    known, place = _in_order(Ring.join(own, _ring(leaves), _ring(entries)), kernel)
    at_leaves, at_entries = place[m : m + len(leaves)], place[m + len(leaves) :]
    messages = rows.column("messages").combine_chunks().flatten().to_numpy()
    return Letters(
        rows.column("content").to_numpy(),
        rows.column("sends").to_numpy(),
        messages.reshape(m, len(Kind)),
        Knowledge(
            known,
            place[:m],
            lists(np.diff(leaf_offsets), at_leaves),
            RoutingTables(
                entry_offsets,
                entries["row"].astype(np.int32),
                entries["col"].astype(np.int32),
                at_entries,
            ),
        ),
    )


def write_letters(
    knowledge: Knowledge,
    bucket: np.ndarray,
    content: Content,
    sends: np.ndarray | None = None,
    messages: np.ndarray | None = None,
) -> Iterator[pa.RecordBatch]:
    """Rows of :data:`LETTER`; `knowledge` is what they say, with router ids."""
    n = len(knowledge)
    sends = np.zeros(n, dtype=bool) if sends is None else sends
    messages = np.zeros((n, len(Kind)), dtype=np.int64) if messages is None else messages
    for start in range(0, n, _ROWS):
        some = slice(start, start + _ROWS)
        part = knowledge.take(some)
        node, tables = part.known.take(part.own), part.routing_tables
        leaves = _named(part.known.take(part.leaf_sets.leaves), _LEAF)
        entries = _named(part.known.take(tables.entry), _ENTRY)
        entries["row"], entries["col"] = tables.row, tables.col
        columns = {
            "bucket": pa.array(bucket[some].astype(np.int32)),
            "content": pa.array(np.full(len(part), content, dtype=np.int32)),
            "sends": pa.array(sends[some]),
            "messages": list_array(
                np.arange(len(part) + 1) * len(Kind), messages[some].reshape(-1)
            ),
            "node": node.node,
            "id_hi": node.hi.view(np.int64),
            "id_lo": node.lo.view(np.int64),
            "router": node.router,
            "leaf_set": _binary(part.leaf_sets.offsets, leaves),
            "routing_table": _binary(tables.offsets, entries),
        }
        yield pa.RecordBatch.from_pydict(columns)


def said(
    known: Ring, own: np.ndarray, leaf_sets: LeafSets, tables: RoutingTables, kernel: Kernel
) -> Knowledge:
    """What letters say, with router ids for router indices."""
    with_ids = Ring(known.hi, known.lo, known.node, kernel.ids(known.router))
    return Knowledge(with_ids, own, leaf_sets, tables)


def lists(lengths: np.ndarray, values: np.ndarray) -> LeafSets:
    """Lists of positions where leaf sets go in letters: only what is in them counts."""
    n = len(lengths)
    return LeafSets(
        offsets_of(lengths), values, np.zeros(n, dtype=np.int64), np.zeros(n, dtype=bool)
    )


def _in_order(known: Ring, kernel: Kernel) -> tuple[Ring, np.ndarray]:
    """Each node once, in the order of nodeIds, with router indices; where each of `known` is."""
    top = int(known.node.max(initial=0)) + 1
    if top <= 16 * len(known):  # a place for each number
        mention = np.full(top, -1, dtype=np.int64)
        mention[known.node] = np.arange(len(known))
        number = np.flatnonzero(mention >= 0)
        first, place = mention[number], known.node
    else:
        _, first, place = np.unique(known.node, return_index=True, return_inverse=True)
        number = np.arange(len(first))
        top = len(first)
    once = known.take(first)
    order = np.lexsort((once.lo, once.hi))
    rank = np.full(top, -1, dtype=np.int64)
    rank[number[order]] = np.arange(len(once))
    ring = once.take(order)
    return Ring(ring.hi, ring.lo, ring.node, kernel.index(ring.router)), rank[place]


def _named(nodes: Ring, kind: np.dtype) -> np.ndarray:
    """Nodes as records."""
    records = np.zeros(len(nodes), dtype=kind)
    for name in ("hi", "lo", "router", "node"):
        records[name] = getattr(nodes, name)
    return records


def _ring(records: np.ndarray) -> Ring:
    """What :func:`_named` made."""
    hi, lo = (records[name].astype(np.uint64) for name in ("hi", "lo"))
    return Ring(hi, lo, records["node"].astype(np.int64), records["router"].astype(np.int64))


def _binary(offsets: np.ndarray, records: np.ndarray) -> pa.Array:
    """A ragged array of records as bytes, a value for each row."""
    ends = (offsets * records.dtype.itemsize).astype(np.int32)
    buffers = [None, pa.py_buffer(ends), pa.py_buffer(records.tobytes())]
    return pa.Array.from_buffers(pa.binary(), len(offsets) - 1, buffers)


def _records(column: pa.ChunkedArray, kind: np.dtype) -> tuple[np.ndarray, np.ndarray]:
    """Offsets and records that :func:`_binary` made."""
    lengths, parts = [], []
    for chunk in column.chunks:
        _, ends, data = chunk.buffers()
        offsets = np.frombuffer(ends, np.int32)[chunk.offset : chunk.offset + len(chunk) + 1]
        lengths.append(np.diff(offsets) // kind.itemsize)
        if offsets[-1] > offsets[0]:
            size = int(offsets[-1] - offsets[0])
            parts.append(np.frombuffer(data, np.uint8, size, int(offsets[0])).view(kind))
    nothing = np.empty(0, dtype=kind)
    return offsets_of(np.concatenate(lengths)), np.concatenate([nothing, *parts])
