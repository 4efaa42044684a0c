"""Letters: what nodes know, or a part of it, on its way to the nodes of a bucket.

The nodes of an overlay are divided into buckets by their numbers, a bucket to a task.  A node's
state is a letter to its own bucket.  An announcement or a leaf set goes to many nodes; it is one
letter to each bucket in which it has receivers, so that its content is sent once to a bucket.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from enum import IntEnum

import numpy as np
import pyarrow as pa
from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    IntegerType,
    LongType,
    StructField,
    StructType,
)

from scribe_spark.pastry.arrivals.leaf_offers import take_leaves
from scribe_spark.pastry.arrivals.messages import Kind
from scribe_spark.pastry.arrivals.states import States
from scribe_spark.pastry.knowledge import Knowledge
from scribe_spark.pastry.leaf_set import LeafSets
from scribe_spark.pastry.ragged import list_array
from scribe_spark.pastry.ring import Ring
from scribe_spark.pastry.routing_table import RoutingTables
from scribe_spark.runtime.blocks import read_partition
from scribe_spark.schemas import KNOWLEDGE
from scribe_spark.underlay.protocol import Kernel

__all__ = ["LETTER", "Content", "Letters", "read_letters", "said", "write_letters"]


class Content(IntEnum):
    """What a letter is, in its column ``content``."""

    STATE = 0  #: a node's own
    ANNOUNCEMENT = 1  #: ``leaf_set``: who is told; ``routing_table``: the rows they get
    LEAF_SET = 2  #: a node's leaf set, to its leaves
    ANSWER = 3  #: a node's leaf set, to one node, the only entry of ``routing_table``
    QUESTION = 4  #: a node asks each entry of ``routing_table`` for its row ``row``
    ROWS = 5  #: rows of another node's table, to the node that the letter has in ``node``


_ROWS = 4096  # letters of one Arrow batch

#: `bucket`: where it goes; `sends`: whether the node sends its leaf set in the next round of the
#: exchange; `messages`: how many of each `Kind` the node has caused.
LETTER = StructType(
    [
        StructField("bucket", IntegerType(), True),
        StructField("content", IntegerType(), True),
        StructField("sends", BooleanType(), True),
        StructField("messages", ArrayType(LongType()), True),
        *KNOWLEDGE.fields,
    ]
)


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


def read_letters(
    batches: Iterable[pa.RecordBatch], kernel: Kernel, leaf_set: int
) -> Letters | None:
    """The letters of a partition; None if there are none."""
    table = read_partition(batches)
    if table is None:
        return None
    (rows,) = table.combine_chunks().to_batches()
    knowledge = Knowledge.from_arrow(rows.select(KNOWLEDGE.names), leaf_set)
    known, place = _in_order(knowledge.known, kernel)
    sets, tables = knowledge.leaf_sets, knowledge.routing_tables
    return Letters(
        rows.column("content").to_numpy(),
        np.asarray(rows.column("sends")),
        rows.column("messages").flatten().to_numpy().reshape(len(rows), len(Kind)),
        Knowledge(
            known,
            place[knowledge.own],
            replace(sets, leaves=place[sets.leaves]),
            replace(tables, entry=place[tables.entry]),
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
    if not n:
        return
    rows = knowledge.to_arrow()
    sends = np.zeros(n, dtype=bool) if sends is None else sends
    messages = np.zeros((n, len(Kind)), dtype=np.int64) if messages is None else messages
    columns = [
        pa.array(bucket.astype(np.int32)),
        pa.array(np.full(n, content, dtype=np.int32)),
        pa.array(sends),
        list_array(np.arange(n + 1) * len(Kind), messages.reshape(-1)),
        *[rows.column(name) for name in KNOWLEDGE.names],
    ]
    batch = pa.RecordBatch.from_arrays(columns, names=LETTER.names)
    for start in range(0, n, _ROWS):
        yield batch.slice(start, _ROWS)


def said(
    known: Ring, own: np.ndarray, leaf_sets: LeafSets, tables: RoutingTables, kernel: Kernel
) -> Knowledge:
    """What letters say, with router ids for router indices."""
    with_ids = Ring(known.hi, known.lo, known.node, kernel.ids(known.router))
    return Knowledge(with_ids, own, leaf_sets, tables)


def _in_order(known: Ring, kernel: Kernel) -> tuple[Ring, np.ndarray]:
    """Each node once, in the order of nodeIds, with router indices; where each of `known` is."""
    _, first, place = np.unique(known.node, return_index=True, return_inverse=True)
    once = known.take(first)
    order = np.lexsort((once.lo, once.hi))
    rank = np.empty(len(once), dtype=np.int64)
    rank[order] = np.arange(len(once))
    ring = once.take(order)
    return Ring(ring.hi, ring.lo, ring.node, kernel.index(ring.router)), rank[place]
