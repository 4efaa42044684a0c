"""Routes between all pairs of routers: computed by Spark's tasks, gathered as two matrices."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import pandas as pd
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from scribe_spark import schemas
from scribe_spark.errors import InputError
from scribe_spark.underlay.dijkstra import TOO_LONG, LinkArrays, route_block
from scribe_spark.underlay.pendant import pendant_components, pendant_routes

__all__ = ["compute_routes", "pack_routes", "unpack_routes"]

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
    components = pendant_components(arrays)
    outside_core = [component.routers for component in components]
    core = np.setdiff1d(np.arange(len(routers)), np.concatenate([_NONE, *outside_core]))
    joined_at = sorted({component.outside for component in components})
    shared = spark.sparkContext.broadcast((arrays, components, core, joined_at))
    blocks = -(-len(core) // _BLOCK)

    def kernel(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        arrays, components, core, joined_at = shared.value
        for batch in batches:
            for unit in batch.column("id").to_pylist():
                if unit < blocks:
                    sources = core[unit * _BLOCK : (unit + 1) * _BLOCK]
                    yield pack_routes(arrays.routers[sources], *route_block(arrays, sources))
                else:
                    outside = joined_at[unit - blocks]
                    far = route_block(arrays, np.array([outside]))
                    for component in components:
                        if component.outside == outside:
                            routes = pendant_routes(arrays, component, far)
                            yield pack_routes(arrays.routers[component.routers], *routes)

    # a unit of work is a block of the core's routers, or all components joined at one of them
    units = spark.range(0, blocks + len(joined_at), 1, spark.sparkContext.defaultParallelism * 4)
    return units.mapInArrow(kernel, schemas.ROUTES)


_NONE = np.empty(0, dtype=np.int64)


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
