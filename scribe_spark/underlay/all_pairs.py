"""Routes between all pairs of routers: Spark's tasks compute them, the driver joins them.

A small network is computed on the driver.  A task computes the routes from a block of the core's
routers to all routers, or the routes inside some pendant components; routes that leave a component
follow from these two.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from pyspark.sql import SparkSession

from scribe_spark import schemas
from scribe_spark.runtime.distribute import share
from scribe_spark.runtime.sessions import parallelism
from scribe_spark.underlay.dijkstra import LinkArrays, bounded_delay, refuse_long, route_block
from scribe_spark.underlay.pendant import (
    PendantComponent,
    inner_routes,
    leaving_routes,
    pendant_components,
    pendant_exits,
)

#: The number of sources, or of pendant components, in a unit of work.
_BLOCK = 32
#: The driver computes this number of units in the time that tasks need to start.
_FEW_UNITS = 32
#: A pendant component is small if the network has this many times its routers.
_FEW = 32


@dataclass(frozen=True, eq=False)
class RouteMatrices:
    """Routes between all pairs of routers."""

    #: int64, shape (R,): router ids, ascending: the order of rows and columns.
    routers: np.ndarray
    #: int32, shape (R, R): delay of the route from the row's router to the column's.
    delay_us: np.ndarray
    #: int16 or int32, shape (R, R): index of the router before the last on that route; -1 on the
    #: diagonal.
    pred: np.ndarray
    #: int32, shape (2, R): where routes leave (small) pendant components:
    #: :func:`~.pendant.pendant_exits`.
    exits: np.ndarray


def with_own_delays(routes: RouteMatrices, own_us: np.ndarray | None) -> RouteMatrices:
    """Return routes with an additional delay (in microseconds) between two nodes of one router."""
    if own_us is None:
        return routes
    np.fill_diagonal(routes.delay_us, own_us)
    # the delay from a component's exit no longer decides which router is nearest
    exits = pendant_exits(len(routes.routers), [])
    return replace(routes, exits=exits)


def compute_routes(
    spark: SparkSession, routers: np.ndarray, links: pd.DataFrame, tie: str, seed: int
) -> RouteMatrices:
    """Return the routes between all routers; `tie` and `seed` choose among those of equal weight.

    `links` has ``src, dst, delay_ms, weight``; one row per direction.
    """
    arrays = LinkArrays.of(routers, links, tie, seed)
    components = pendant_components(arrays)
    n = units(arrays, components)
    if n <= _FEW_UNITS:
        rows = [row for unit in range(n) for row in route_unit(arrays, components, unit)]
        return unpack_routes(arrays, components, pa.Table.from_batches(rows))
    shared = share(spark, (arrays, components))

    def kernel(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        network: tuple[LinkArrays, list[PendantComponent]] = shared.value
        for batch in batches:
            for unit in batch.column("id").to_pylist():
                yield from route_unit(*network, unit)

    try:
        numbered = spark.range(0, n, 1, min(n, parallelism(spark) * 4))
        blocks = numbered.mapInArrow(kernel, schemas.ROUTES).toArrow()
    finally:
        shared.destroy()
    return unpack_routes(arrays, components, blocks)


def units(links: LinkArrays, components: list[PendantComponent]) -> int:
    """Return the number of units of work for all routes."""
    return len(_blocks(_core(links, components))) + len(_blocks(components))


def route_unit(
    links: LinkArrays, components: list[PendantComponent], unit: int
) -> Iterator[pa.RecordBatch]:
    """Return the routes of a unit of work, as rows of `schemas.ROUTES`.

    The first units are blocks of the core's routers, the others blocks of pendant components.
    """
    sources = _blocks(_core(links, components))
    if unit < len(sources):
        yield pack_routes(sources[unit], *route_block(links, sources[unit]))
    else:
        for component in _blocks(components)[unit - len(sources)]:
            yield pack_routes(component.routers, *inner_routes(links, component))


def _core(links: LinkArrays, components: list[PendantComponent]) -> np.ndarray:
    """Return the indices of the routers in no pendant component, ascending."""
    in_core = np.ones(len(links.routers), dtype=bool)
    for component in components:
        in_core[component.routers] = False
    return np.flatnonzero(in_core)


def _blocks(items: Any) -> list[Any]:
    return [items[start : start + _BLOCK] for start in range(0, len(items), _BLOCK)]


def pack_routes(sources: np.ndarray, delay_us: np.ndarray, pred: np.ndarray) -> pa.RecordBatch:
    """Return one row of `schemas.ROUTES`: a compressed block of routes from `sources`.

    Routers in one part of the network have nearly the same routes, so rows are stored as their
    difference from the row before; this makes them a hundred times smaller.  Targets are all
    routers or, for a pendant component, its own; delays that the matrices cannot store become
    `TOO_LONG`.
    """
    both = bounded_delay(delay_us), pred
    cells = [sources.astype("<i8"), *(_differences(rows) for rows in both)]
    codec = pa.Codec("zstd", compression_level=1)
    packed = [codec.compress(cell.tobytes(), asbytes=True) for cell in cells]
    columns = [pa.array([n], pa.int32()) for n in delay_us.shape]
    columns += [pa.array([p], pa.binary()) for p in packed]
    return pa.RecordBatch.from_arrays(columns, names=schemas.ROUTES.names)


def unpack_routes(
    links: LinkArrays, components: list[PendantComponent], blocks: pa.Table
) -> RouteMatrices:
    """Return the matrices from blocks (`schemas.ROUTES`) in any order.

    Blocks are unpacked one by one, so that little more memory than the matrices is needed.
    """
    r = len(links.routers)
    delay_us = np.empty((r, r), dtype=np.int32)
    pred = np.empty((r, r), dtype=np.int16 if r < 2**15 else np.int32)
    by_first = {int(component.routers[0]): component for component in components}
    inner: list[tuple[PendantComponent, np.ndarray, np.ndarray]] = []
    for batch in blocks.to_batches(max_chunksize=1):
        sources, delay_block, pred_block = _unpack(batch)
        if (component := by_first.get(int(sources[0]))) is not None:
            inner.append((component, delay_block, pred_block))
        else:
            delay_us[sources], pred[sources] = delay_block, pred_block
    for component, near_delay, near_pred in inner:
        far = delay_us[component.outside], pred[component.outside]
        rows = leaving_routes(component, (near_delay, near_pred), far)
        delay_us[component.routers], pred[component.routers] = rows
    refuse_long(links.routers, np.arange(r), delay_us)
    small = [component for component in components if len(component.routers) * _FEW <= r]
    return RouteMatrices(links.routers, delay_us, pred, pendant_exits(r, small))


def _unpack(row: pa.RecordBatch) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the arguments of :func:`pack_routes`."""
    cell = {name: row.column(name)[0].as_py() for name in schemas.ROUTES.names}
    s, t = cell["sources"], cell["targets"]
    codec = pa.Codec("zstd")
    sources = np.frombuffer(codec.decompress(cell["source"], 8 * s), "<i8")
    blocks = (
        np.frombuffer(codec.decompress(cell[name], 4 * s * t), "<i4").reshape(s, t)
        for name in ("delay_us", "pred")
    )
    delay_us, pred = (np.cumsum(block, axis=0, dtype=np.int32) for block in blocks)
    return sources, delay_us, pred


def _differences(rows: np.ndarray) -> np.ndarray:
    return np.diff(rows.astype("<i4"), axis=0, prepend=np.zeros((1, rows.shape[1]), dtype="<i4"))
