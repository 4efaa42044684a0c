"""The underlay, behind three questions asked in bulk: delay, nearest, packets per link.

What asks knows an :class:`Underlay` only.  `MatrixUnderlay` answers from R x R matrices of delay
and predecessor, which every executor gets once as a file (memory-mapped, so its Python workers
share the pages); :mod:`.hop_underlay` searches instead.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pandas as pd
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import IntegerType, LongType, StructField, StructType
from scipy.sparse import coo_array

from scribe_spark import schemas
from scribe_spark.errors import InputError
from scribe_spark.runtime.blocks import read_partition
from scribe_spark.runtime.distribute import discard_arrays, distribute_arrays, open_array
from scribe_spark.underlay.dijkstra import (
    TOO_LONG,
    LinkArrays,
    attached_parts,
    attached_routes,
    last_links,
    merged_links,
    nearest,
    path_links,
    route_block,
)

__all__ = [
    "PACKETS",
    "Kernel",
    "MatrixUnderlay",
    "Underlay",
    "asked_routes",
    "compute_routes",
    "pack_routes",
    "packet_batch",
    "unpack_routes",
    "with_delay",
    "with_travelled",
]

#: What :meth:`Underlay.packets` makes.
PACKETS = "system string, src bigint, dst bigint, packets bigint"

_BLOCK = 32  # sources per call of the route kernel


class Kernel(Protocol):
    """What numpy kernels on the executors ask; picklable.  Routers are indices in id order."""

    @property
    def small(self) -> int:
        """In a class of up to so many nodes the nearest are sooner found by asking all `delays`."""

    def index(self, routers: np.ndarray) -> np.ndarray:
        """Indices of router ids."""

    def ids(self, index: np.ndarray) -> np.ndarray:
        """Router ids of indices."""

    def nearest(
        self, queries: np.ndarray, candidates: np.ndarray, starts: np.ndarray
    ) -> np.ndarray:
        """See :func:`scribe_spark.underlay.dijkstra.nearest` (router indices)."""

    def delays(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        """Route delay in microseconds between router indices, row by row."""


class Underlay(Protocol):
    """The router network under the overlay.

    Attributes
    ----------
    kernel : Kernel
    routers : ndarray of int64, shape (R,)
        Router ids, ascending.
    links : int
        Directed links.
    lan_us : int
        Delay of a node's LAN link, each way.
    """

    @property
    def kernel(self) -> Kernel: ...
    @property
    def routers(self) -> np.ndarray: ...
    @property
    def links(self) -> int: ...
    @property
    def lan_us(self) -> int: ...

    def release(self) -> None:
        """Free the disk that it takes; nothing can be asked any more."""
        ...

    def delay(self, frame: DataFrame, a: str, b: str, into: str = "delay_us") -> DataFrame:
        """`frame` and the delay D of each row, in microseconds (BIGINT), of two nodes.

        Parameters
        ----------
        frame : DataFrame
        a, b : str
            Columns with the routers of two different nodes; NULL gives 0 (no hop).
        into : str
            Name of the new column.
        """

    def along(self, frame: DataFrame, trail: str) -> DataFrame:
        """`frame` without the array column `trail`, with what a message on it has travelled.

        Parameters
        ----------
        frame : DataFrame
        trail : str
            Routers of the nodes visited, one after the other different nodes.

        Returns
        -------
        DataFrame
            Added: ``hops`` (INT), ``delay_us`` along the trail and ``direct_us``, D between its
            two ends (BIGINT; 0 without a hop).
        """

    def packets(self, frame: DataFrame) -> DataFrame:
        """Packets on each directed core link.

        Parameters
        ----------
        frame : DataFrame
            ``system, src, dst, packets, tree``: so many packets over the route from router `src`
            to `dst`; where `tree` is not NULL, rows of one tree share a source and their routes
            are merged, one packet a link.

        Returns
        -------
        DataFrame
            :data:`PACKETS`, links with packets only.
        """


def compute_routes(
    spark: SparkSession, routers: np.ndarray, links: pd.DataFrame, tie: str, seed: int
) -> DataFrame:
    """Routes between all routers, partitioned by source.

    Parameters
    ----------
    routers : ndarray of int64
        Router ids.
    links : DataFrame (pandas)
        src, dst, delay_ms, weight; one row per direction.
    tie, seed
        How equal weights are broken (`RunConfig`).

    Returns
    -------
    DataFrame
        `schemas.ROUTES`, one row per block of sources; :func:`unpack_routes` reads them.
    """
    arrays = LinkArrays.of(routers, links, tie, seed)
    parts = attached_parts(arrays)
    hanging = np.concatenate([part.routers for part in parts]) if parts else np.empty(0, np.int64)
    core = np.setdiff1d(np.arange(len(routers)), hanging)
    hung_on = sorted({part.outside for part in parts})
    shared = spark.sparkContext.broadcast((arrays, parts, core, hung_on))
    blocks = -(-len(core) // _BLOCK)

    def kernel(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        arrays, parts, core, hung_on = shared.value
        for batch in batches:
            for unit in batch.column("id").to_pylist():
                if unit < blocks:
                    wanted = core[unit * _BLOCK : (unit + 1) * _BLOCK]
                    yield pack_routes(arrays.routers[wanted], *route_block(arrays, wanted))
                else:
                    outside = hung_on[unit - blocks]
                    far = route_block(arrays, np.array([outside]))
                    for part in parts:
                        if part.outside == outside:
                            found = attached_routes(arrays, part, far)
                            yield pack_routes(arrays.routers[part.routers], *found)

    # a unit of work is a block of the core's routers, or all that hangs on one of them
    units = spark.range(0, blocks + len(hung_on), 1, spark.sparkContext.defaultParallelism * 4)
    return units.mapInArrow(kernel, schemas.ROUTES)


def pack_routes(sources: np.ndarray, delay_us: np.ndarray, pred: np.ndarray) -> pa.RecordBatch:
    """One row of `schemas.ROUTES`: the routes of a block of sources, compressed.

    Routers of one part of the network have nearly the same routes, so rows are stored as their
    difference from the row before: a hundred times smaller on the way to the driver.
    """
    cells = [sources.astype("<i8"), *(_differences(rows) for rows in (delay_us, pred))]
    codec = pa.Codec("zstd", compression_level=1)
    packed = [codec.compress(cell.tobytes(), asbytes=True) for cell in cells]
    columns = [pa.array([len(sources)], pa.int32())] + [pa.array([p], pa.binary()) for p in packed]
    return pa.RecordBatch.from_arrays(columns, names=schemas.ROUTES.names)


def unpack_routes(routes: pa.Table) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Routers in id order, and their (R, R) delays and predecessors, from `schemas.ROUTES`.

    Raises
    ------
    InputError
        A route takes longer than the matrices hold.
    """
    r = sum(routes.column("size").to_pylist())
    codec = pa.Codec("zstd")
    blocks = []
    for row in routes.to_pylist():
        n = row["size"]
        size = {"sources": 8 * n, "delay_us": 4 * n * r, "pred": 4 * n * r}
        blocks.append({name: codec.decompress(row[name], size[name]) for name in size})
    sources = [np.frombuffer(block["sources"], "<i8") for block in blocks]
    routers = np.sort(np.concatenate(sources))
    delay_us = np.empty((r, r), dtype=np.int32)
    pred = np.empty((r, r), dtype=np.int16 if r < 2**15 else np.int32)
    for mine, block in zip(sources, blocks, strict=True):
        place = np.searchsorted(routers, mine)
        for name, matrix in (("delay_us", delay_us), ("pred", pred)):
            rows = np.frombuffer(block[name], "<i4").reshape(len(mine), r)
            matrix[place] = np.cumsum(rows, axis=0, dtype=np.int32)
    if delay_us.max(initial=0) == TOO_LONG:
        a, b = (int(routers[place]) for place in np.argwhere(delay_us == TOO_LONG)[0])
        most = f"{TOO_LONG / 1000:.0f}"
        longest = f"{most} or more from router {a} to router {b}"
        raise InputError("delay_ms", longest, f"a route must take less than {most} ms")
    return routers, delay_us, pred


def _differences(rows: np.ndarray) -> np.ndarray:
    return np.diff(rows.astype("<i4"), axis=0, prepend=np.zeros((1, rows.shape[1]), dtype="<i4"))


class RouterIds:
    """The part of a :class:`Kernel` that reads router ids from the file `routers`."""

    routers: str

    def index(self, routers: np.ndarray) -> np.ndarray:
        """See :class:`Kernel`."""
        return np.searchsorted(open_array(self.routers), routers)

    def ids(self, index: np.ndarray) -> np.ndarray:
        """See :class:`Kernel`."""
        return open_array(self.routers)[index]


@dataclass(frozen=True)
class Matrices(RouterIds):
    """Names of the files every executor has; picklable, opened once per process."""

    delay: str
    pred: str
    routers: str

    def open(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """delay_us (R, R) int32; pred (R, R); router ids (R,)."""
        return open_array(self.delay), open_array(self.pred), open_array(self.routers)

    @property
    def small(self) -> int:
        """See :class:`Kernel`."""
        return 48

    def nearest(
        self, queries: np.ndarray, candidates: np.ndarray, starts: np.ndarray
    ) -> np.ndarray:
        """See :class:`Kernel`."""
        return nearest(open_array(self.delay), queries, candidates, starts)

    def delays(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        """See :class:`Kernel`."""
        return open_array(self.delay)[a, b].astype(np.int64)


@dataclass(frozen=True)
class MatrixUnderlay:
    """An :class:`Underlay` small enough for all pairs of routers."""

    kernel: Matrices
    routers: np.ndarray
    links: int
    lan_us: int

    @classmethod
    def of(cls, spark: SparkSession, routes: DataFrame, links: int, lan_us: int) -> MatrixUnderlay:
        """Gather `routes` (`schemas.ROUTES`) and hand each executor the matrices once."""
        routers, delay_us, pred = unpack_routes(routes.toArrow())
        names = distribute_arrays(spark, delay=delay_us, pred=pred, routers=routers)
        return cls(Matrices(*names), routers, links, lan_us)

    def release(self) -> None:
        """See :class:`Underlay`."""
        discard_arrays(self.kernel.delay, self.kernel.pred, self.kernel.routers)

    def delay(self, frame: DataFrame, a: str, b: str, into: str = "delay_us") -> DataFrame:
        """See :class:`Underlay`."""
        return with_delay(frame, self, a, b, into)

    def along(self, frame: DataFrame, trail: str) -> DataFrame:
        """See :class:`Underlay`."""
        return with_travelled(frame, self, trail)

    def packets(self, frame: DataFrame) -> DataFrame:
        """See :class:`Underlay`."""
        kernel = self.kernel

        def count(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            rows = asked_routes(batches)
            for system, routes in rows.groupby("system", sort=True):
                yield _count_links(kernel, str(system), routes)

        keyed = frame.select("system", "src", "dst", "packets", "tree")
        spread = keyed.repartition(F.coalesce("tree", F.hash("src", "dst")))
        counts = spread.mapInArrow(count, PACKETS)
        return counts.groupBy("system", "src", "dst").agg(F.sum("packets").alias("packets"))


def asked_routes(batches: Iterable[pa.RecordBatch]) -> pd.DataFrame:
    """A partition of the rows that :meth:`Underlay.packets` is asked for."""
    table = read_partition(batches)
    if table is None:
        return pd.DataFrame(columns=["system", "src", "dst", "packets", "tree"])
    # nullable integers: where some rows have no tree, floats would round the others' names
    nullable = {pa.int64(): pd.Int64Dtype()}.get
    return table.to_pandas(types_mapper=nullable)


def _count_links(kernel: Matrices, system: str, routes: pd.DataFrame) -> pa.RecordBatch:
    _, pred, ids = kernel.open()
    last = last_links(pred)
    src, dst = kernel.index(routes["src"].to_numpy()), kernel.index(routes["dst"].to_numpy())
    if routes["tree"].notna().any():
        link = merged_links(last, len(ids), routes["tree"].to_numpy().astype(np.int64), src, dst)
        packets = np.ones(len(link), dtype=np.int64)
    else:
        pairs, route = np.unique(src * len(ids) + dst, return_inverse=True)
        row, link = path_links(last, *np.divmod(pairs, len(ids)))
        on_route = np.bincount(route, routes["packets"].to_numpy(np.float64), len(pairs))
        packets = on_route.astype(np.int64)[row]
    # a sparse matrix sums what falls on one link, by counting instead of sorting
    on_links = coo_array((packets, np.divmod(link, len(ids))), shape=(len(ids), len(ids)))
    totals = on_links.tocsr().tocoo()
    return packet_batch(system, ids[totals.row], ids[totals.col], totals.data)


def packet_batch(
    system: str, src: np.ndarray, dst: np.ndarray, packets: np.ndarray
) -> pa.RecordBatch:
    """Rows of :data:`PACKETS`."""
    columns = [pa.array([system] * len(src), pa.string()), *map(pa.array, (src, dst, packets))]
    return pa.RecordBatch.from_arrays(columns, names=["system", "src", "dst", "packets"])


def with_delay(frame: DataFrame, underlay: Underlay, a: str, b: str, into: str) -> DataFrame:
    """See :meth:`Underlay.delay`; the kernel is asked a batch of rows at a time."""
    kernel, lan_us = underlay.kernel, underlay.lan_us

    def add(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            present = batch.column(a).is_valid().to_numpy(zero_copy_only=False)
            present &= batch.column(b).is_valid().to_numpy(zero_copy_only=False)
            first = kernel.index(batch.column(a).fill_null(0).to_numpy())
            second = kernel.index(batch.column(b).fill_null(0).to_numpy())
            out = np.zeros(len(present), dtype=np.int64)
            out[present] = kernel.delays(first[present], second[present]) + 2 * lan_us
            yield batch.append_column(into, pa.array(out))

    schema = StructType([*frame.schema.fields, StructField(into, LongType(), True)])
    return frame.mapInArrow(add, schema)


def with_travelled(frame: DataFrame, underlay: Underlay, trail: str) -> DataFrame:
    """See :meth:`Underlay.along`; the kernel is asked a batch of rows at a time."""
    kernel, lan_us = underlay.kernel, underlay.lan_us

    def add(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            place = batch.schema.get_field_index(trail)
            cells = batch.column(place)
            at = kernel.index(cells.flatten().to_numpy())
            ends = np.cumsum(cells.value_lengths().to_numpy())
            starts = np.r_[0, ends][:-1]
            legs = np.zeros(len(at) + 1, dtype=np.int64)
            legs[1:-1] = kernel.delays(at[:-1], at[1:]) + 2 * lan_us
            legs[starts] = 0  # from one row's last router to the next row's first: no leg
            sums = np.cumsum(legs)
            hops = ends - starts - 1
            direct = kernel.delays(at[starts], at[ends - 1]) + 2 * lan_us
            out = batch.remove_column(place)
            out = out.append_column("hops", pa.array(hops.astype(np.int32)))
            out = out.append_column("delay_us", pa.array(sums[ends - 1] - sums[starts]))
            yield out.append_column("direct_us", pa.array(np.where(hops > 0, direct, 0)))

    rest = [field for field in frame.schema.fields if field.name != trail]
    added = [StructField("hops", IntegerType()), StructField("delay_us", LongType())]
    schema = StructType([*rest, *added, StructField("direct_us", LongType())])
    return frame.mapInArrow(add, schema)
