"""The nodes of a world as a table: `schemas.WORLD_STATE`, one row a node."""

from __future__ import annotations

import itertools

import numpy as np
import pyarrow as pa
from pyspark.sql.types import BinaryType

from scribe_spark import schemas
from scribe_spark.core.arrays import offsets_of, row_numbers
from scribe_spark.pastry.node_rows import NodeRows
from scribe_spark.underlay.protocol import Kernel

__all__ = ["NODES", "leaf_sets", "read_state", "routing_table", "state_table"]

#: Its name among the tables of a world's state.
NODES = "nodes"


def state_table(rows: NodeRows, kernel: Kernel) -> pa.Table:
    """Nodes as rows of `schemas.WORLD_STATE`; routers by their ids."""
    columns = [
        pa.array(rows.node),
        pa.array(rows.hi.view(np.int64)),
        pa.array(rows.lo.view(np.int64)),
        pa.array(kernel.ids(rows.router)),
        pa.array(rows.alive),
        pa.array(rows.died),
        pa.array(rows.wait),
        pa.array(rows.entered),
        _as_bytes(rows.leaves, np.arange(len(rows.node) + 1) * rows.leaves.shape[1]),
        _as_bytes(rows.cell, rows.offsets),
        _as_bytes(rows.entry, rows.offsets),
    ]
    return pa.Table.from_arrays(columns, names=schemas.WORLD_STATE.names)


def read_state(table: pa.Table, leaf_set: int, kernel: Kernel) -> NodeRows:
    """The nodes of a table that :func:`state_table` made; its rows may come in any order."""
    plain = {
        field.name: table.column(field.name).to_numpy()
        for field in schemas.WORLD_STATE
        if not isinstance(field.dataType, BinaryType)
    }
    leaves, _ = _from_bytes(table.column("leaves"))
    cell, offsets = _from_bytes(table.column("cells"))
    entry, _ = _from_bytes(table.column("entries"))
    return NodeRows(
        plain["id_hi"].view(np.uint64),
        plain["id_lo"].view(np.uint64),
        plain["node"],
        kernel.index(plain["router"]).astype(np.int64),
        plain["alive"],
        plain["died"],
        plain["wait"],
        plain["entered"],
        leaves.reshape(-1, leaf_set),
        offsets,
        cell,
        entry,
    )


def leaf_sets(table: pa.Table) -> pa.Table:
    """Rows of `schemas.LEAF_SETS`, of a table that :func:`state_table` made."""
    leaves, offsets = _from_bytes(table.column("leaves"))
    half = int(np.diff(offsets).max(initial=0)) // 2
    node = table.column("node").to_numpy()[row_numbers(offsets)]
    one = np.arange(1, half + 1, dtype=np.int32)
    place = np.tile(np.r_[one, -one], len(table))
    there = leaves >= 0
    columns = [node[there], leaves[there].astype(np.int64), place[there]]
    return pa.Table.from_arrays(list(map(pa.array, columns)), names=schemas.LEAF_SETS.names)


def routing_table(table: pa.Table, b: int) -> pa.Table:
    """Rows of `schemas.ROUTING_TABLE`, of a table that :func:`state_table` made."""
    cell, offsets = _from_bytes(table.column("cells"))
    entry, _ = _from_bytes(table.column("entries"))
    node = table.column("node").to_numpy()[row_numbers(offsets)]
    row, column = np.divmod(cell, np.int32(2**b))
    columns = [node, row, column, entry.astype(np.int64)]
    return pa.Table.from_arrays(list(map(pa.array, columns)), names=schemas.ROUTING_TABLE.names)


def _as_bytes(values: np.ndarray, offsets: np.ndarray) -> pa.ChunkedArray:
    """Return segments of an int32 array as a column of bytes, whose chunks have int32 offsets."""
    flat = np.ascontiguousarray(values, dtype="<i4").reshape(-1)
    cuts = np.searchsorted(offsets, np.arange(_CHUNK, int(offsets[-1]), _CHUNK), side="right") - 1
    ends = np.unique(np.r_[0, cuts, len(offsets) - 1])
    chunks = []
    for first, last in itertools.pairwise(ends.tolist()):
        part = offsets[first : last + 1]
        data = pa.py_buffer(flat[part[0] : part[-1]])
        starts = pa.py_buffer(((part - part[0]) * 4).astype("<i4"))
        chunks.append(pa.Array.from_buffers(pa.binary(), last - first, [None, starts, data]))
    return pa.chunked_array(chunks, pa.binary())


_CHUNK = 2**28  # numbers, of four bytes: twice as many would be too many for int32 offsets


def _from_bytes(column: pa.ChunkedArray) -> tuple[np.ndarray, np.ndarray]:
    """The values of a column of bytes, int32, and where each row begins."""
    values, lengths = [np.empty(0, dtype="<i4")], [np.empty(0, dtype=np.int64)]
    for chunk in column.chunks:
        starts = np.frombuffer(chunk.buffers()[1], "<i4")[chunk.offset :][: len(chunk) + 1]
        data = np.frombuffer(chunk.buffers()[2] or b"", np.uint8)[starts[0] : starts[-1]]
        values.append(data.view("<i4"))
        lengths.append(np.diff(starts).astype(np.int64) // 4)
    return np.concatenate(values), offsets_of(np.concatenate(lengths))
