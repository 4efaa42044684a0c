"""The underlay, behind three questions asked in bulk: delay, nearest, packets per link.

`MatrixUnderlay` answers from R x R matrices of delay and predecessor, which every executor gets
once as a file (memory-mapped, so its Python workers share the pages).  What asks knows nothing of
matrices: an underlay that searches can stand in its place.
"""

from __future__ import annotations

import atexit
import functools
import shutil
import tempfile
import uuid
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
from pyspark import SparkFiles
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import IntegerType, LongType, StructField, StructType
from scipy.sparse import coo_array

from scribe_spark import schemas
from scribe_spark.topology.routes import (
    LinkArrays,
    attached_parts,
    attached_routes,
    merged_links,
    nearest,
    path_links,
    route_block,
)

__all__ = ["MatrixUnderlay", "compute_routes", "pack_routes", "unpack_routes"]

_BLOCK = 32  # sources per call of the route kernel


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
    """Routers in id order, and their (R, R) delays and predecessors, from `schemas.ROUTES`."""
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
    return routers, delay_us, pred


def _differences(rows: np.ndarray) -> np.ndarray:
    return np.diff(rows.astype("<i4"), axis=0, prepend=np.zeros((1, rows.shape[1]), dtype="<i4"))


@dataclass(frozen=True)
class Matrices:
    """Names of the files every executor has; picklable, opened once per process."""

    delay: str
    pred: str
    routers: str

    def open(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """delay_us (R, R) int32; pred (R, R); router ids (R,)."""
        return _open(self.delay), _open(self.pred), _open(self.routers)

    def index(self, routers: np.ndarray) -> np.ndarray:
        """Indices of router ids."""
        return np.searchsorted(_open(self.routers), routers)

    def nearest(
        self, queries: np.ndarray, candidates: np.ndarray, starts: np.ndarray
    ) -> np.ndarray:
        """See :func:`scribe_spark.topology.routes.nearest` (router indices)."""
        return nearest(_open(self.delay), queries, candidates, starts)

    def delays(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        """Route delay in microseconds between router indices, row by row."""
        return _open(self.delay)[a, b].astype(np.int64)


@functools.lru_cache(maxsize=16)
def _open(name: str) -> np.ndarray:
    return np.load(SparkFiles.get(name), mmap_mode="r")


@dataclass(frozen=True)
class MatrixUnderlay:
    """An underlay small enough for all pairs of routers (up to about 10,000).

    Attributes
    ----------
    kernel : Matrices
        What numpy kernels on the executors ask: ``index``, ``nearest``, ``delays``.
    routers : ndarray of int64, shape (R,)
        Router ids, ascending.
    links : int
        Directed links.
    lan_us : int
        Delay of a node's LAN link, each way.
    folder : Path
        Where the matrices lie on the driver.
    """

    kernel: Matrices
    routers: np.ndarray
    links: int
    lan_us: int
    folder: Path

    @classmethod
    def of(cls, spark: SparkSession, routes: DataFrame, links: int, lan_us: int) -> MatrixUnderlay:
        """Gather `routes` (`schemas.ROUTES`) and hand each executor the matrices once."""
        routers, delay_us, pred = unpack_routes(routes.toArrow())
        folder = Path(tempfile.mkdtemp(prefix="scribe_spark-"))
        atexit.register(shutil.rmtree, folder, ignore_errors=True)  # executors fetch until then
        run = uuid.uuid4().hex
        names = []
        for name, array in (("delay", delay_us), ("pred", pred), ("routers", routers)):
            path = folder / f"{name}-{run}.npy"
            np.save(path, array)
            spark.sparkContext.addFile(path.as_uri())
            names.append(path.name)
        return cls(Matrices(*names), routers, links, lan_us, folder)

    def release(self) -> None:
        """Free the disk that the matrices take; nothing can be asked any more."""
        for name in (self.kernel.delay, self.kernel.pred, self.kernel.routers):
            # emptied, not deleted: an executor that starts later still asks for every file
            for copy in (self.folder / name, Path(SparkFiles.get(name))):
                copy.write_bytes(b"")

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
        kernel, lan_us = self.kernel, self.lan_us

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
        kernel, lan_us = self.kernel, self.lan_us

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
            ``system, src, dst, packets``, links with packets only.
        """
        kernel = self.kernel

        def count(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            filled = [batch for batch in batches if batch.num_rows]
            if not filled:  # a partition without rows
                return
            # nullable integers: where some rows have no tree, floats would round the others' names
            nullable = {pa.int64(): pd.Int64Dtype()}.get
            rows = pa.Table.from_batches(filled).to_pandas(types_mapper=nullable)
            for system, routes in rows.groupby("system", sort=True):
                yield _count_links(kernel, str(system), routes)

        keyed = frame.select("system", "src", "dst", "packets", "tree")
        spread = keyed.repartition(F.coalesce("tree", F.hash("src", "dst")))
        schema = "system string, src bigint, dst bigint, packets bigint"
        counts = spread.mapInArrow(count, schema)
        return counts.groupBy("system", "src", "dst").agg(F.sum("packets").alias("packets"))


def _count_links(kernel: Matrices, system: str, routes: pd.DataFrame) -> pa.RecordBatch:
    _, pred, ids = kernel.open()
    src, dst = kernel.index(routes["src"].to_numpy()), kernel.index(routes["dst"].to_numpy())
    if routes["tree"].notna().any():
        link = merged_links(pred, routes["tree"].to_numpy().astype(np.int64), src, dst)
        packets = np.ones(len(link), dtype=np.int64)
    else:
        row, link = path_links(pred, src, dst)
        packets = routes["packets"].to_numpy()[row]
    # a sparse matrix sums what falls on one link, by counting instead of sorting
    on_links = coo_array((packets, np.divmod(link, len(ids))), shape=(len(ids), len(ids)))
    totals = on_links.tocsr().tocoo()
    columns = [pa.array([system] * totals.nnz, pa.string()), ids[totals.row]]
    columns += [ids[totals.col], totals.data]
    names = ["system", "src", "dst", "packets"]
    return pa.RecordBatch.from_arrays([pa.array(c) for c in columns], names=names)
