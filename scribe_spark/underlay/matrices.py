"""The underlay of matrices: the delay and the predecessor of every pair of routers.

A *pendant component* is a part of the network that one link, a *bridge*, joins to the rest, as a
stub with one gateway link; the *core* is what no bridge divides.  All routes that leave a component
take its bridge, so that one Dijkstra search, from the bridge's end in the core, serves all routers
of the component, and so does one search of the nearest candidate outside of it.  Spark's tasks
compute the routes from blocks of the core's routers, and those inside components; the driver joins
them.  Every executor gets the matrices once as files, memory-mapped.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np
import pandas as pd
import pyarrow as pa
from pyspark.sql import SparkSession
from scipy.sparse import csr_array
from scipy.sparse.csgraph import breadth_first_order, connected_components

from scribe_spark import schemas
from scribe_spark.core import draws
from scribe_spark.core.arrays import expand, index_sorted
from scribe_spark.core.keys import key_of
from scribe_spark.runtime.distribute import distribute_arrays, open_array, share
from scribe_spark.runtime.sessions import parallelism
from scribe_spark.underlay.dijkstra import LinkArrays, bounded_delay, refuse_long, route_block
from scribe_spark.underlay.paths import last_links, merged_links, packets_on_links, path_links
from scribe_spark.underlay.protocol import Kernel, Underlay, Withheld

# --- pendant components


#: The value in place of a component's number for routers of the core.
NO_COMPONENT = -1


@dataclass(frozen=True)
class PendantComponent:
    """A part of the network that a bridge joins to the core, as a stub to its transit router."""

    #: int64: indices, ascending.
    routers: np.ndarray
    #: The ends of the bridge: in the component, and in the core.
    gateway: int
    outside: int
    #: The delay of the bridge from the gateway outwards, in microseconds.
    bridge_us: int


def pendant_components(links: LinkArrays) -> list[PendantComponent]:
    """Return the components that bridges join to the 2-edge-connected core, as large as possible.

    The core is the largest set of routers that no bridge divides (ties: with the least index).
    """
    r = len(links.routers)
    if not len(links.src):
        return []
    bridge = bridges(r, links.src, links.dst)
    _, component = connected_components(_graph(links, ~bridge), directed=False)
    core = component == np.bincount(component).argmax()
    # without the links at the core, each pendant component is a connected component
    enters = ~core[links.src] & core[links.dst]
    outside_core = ~(core[links.src] | core[links.dst])
    _, component = connected_components(_graph(links, outside_core), directed=False)
    by_component = np.argsort(component, kind="stable")
    gateways, outsides, delays = links.src[enters], links.dst[enters], links.delay_us[enters]
    starts = np.searchsorted(component[by_component], component[gateways])
    ends = np.searchsorted(component[by_component], component[gateways], side="right")
    return [
        PendantComponent(by_component[start:end].astype(np.int64), int(gateway), int(out), int(us))
        for start, end, gateway, out, us in zip(
            starts, ends, gateways, outsides, delays, strict=True
        )
    ]


def pendant_exits(r: int, components: Sequence[PendantComponent]) -> np.ndarray:
    """Return each router's pendant component, and the router at which routes leave it: (2, r).

    A router in the core has :data:`NO_COMPONENT` and itself.
    """
    exits = np.stack([np.full(r, NO_COMPONENT), np.arange(r)]).astype(np.int32)
    for number, component in enumerate(components):
        exits[:, component.routers] = [[number], [component.outside]]
    return exits


def _graph(links: LinkArrays, chosen: np.ndarray) -> csr_array:
    """Return the chosen links as a sparse (R, R) matrix."""
    r, ones = len(links.routers), np.ones(np.count_nonzero(chosen))
    return csr_array((ones, (links.src[chosen], links.dst[chosen])), shape=(r, r))


def bridges(r: int, src: np.ndarray, dst: np.ndarray) -> np.ndarray:
    """Mark the directed links that are bridges of a connected undirected graph: bool, one per link.

    The links contain each link's reverse.  A link of a spanning tree is a bridge if no other link
    leads from the subtree below it to the rest.  Links outside of the tree have numbers of 64 bits;
    in the XOR of a subtree's numbers, those of links inside it cancel out.
    """
    order, above = breadth_first_order(csr_array((np.ones(len(src)), (src, dst)), shape=(r, r)), 0)
    in_tree = (above[src] == dst) | (above[dst] == src)
    number = draws.bits_np(0, "bridges", np.minimum(src, dst), np.maximum(src, dst))
    leaving = np.zeros(r, dtype=np.uint64)
    np.bitwise_xor.at(leaving, src, np.where(in_tree, np.uint64(0), number))
    for router in order[:0:-1].tolist():
        leaving[above[router]] ^= leaving[router]
    return in_tree & (leaving[np.where(above[src] == dst, src, dst)] == 0)


def inner_routes(links: LinkArrays, component: PendantComponent) -> tuple[np.ndarray, np.ndarray]:
    """Return the routes inside a pendant component by positions in its routers: `route_block`."""
    routers = component.routers
    position = np.full(len(links.routers), -1, dtype=np.int32)
    position[routers] = np.arange(len(routers))
    inside = (position[links.src] >= 0) & (position[links.dst] >= 0)
    inner = LinkArrays(
        links.routers[routers],
        position[links.src[inside]],
        position[links.dst[inside]],
        links.delay_us[inside],
        links.cost[inside],
    )
    return route_block(inner, np.arange(len(routers)))


def leaving_routes(
    component: PendantComponent,
    near: tuple[np.ndarray, np.ndarray],
    far: tuple[np.ndarray, np.ndarray],
) -> tuple[np.ndarray, np.ndarray]:
    """Return the routes from every router of a pendant component to all, as `route_block` does.

    Routes that leave the component take the bridge and then the routes of the bridge's end in the
    core.  `near` is the result of :func:`inner_routes`, `far` has the routes from that end.
    """
    routers = component.routers
    (near_delay, near_pred), (far_delay, far_pred) = near, far
    (gateway,) = index_sorted(routers, np.array([component.gateway]))
    to_outside = near_delay[:, gateway].astype(np.int64) + component.bridge_us
    delay_us = bounded_delay(to_outside[:, None] + far_delay)
    pred = np.repeat(far_pred[None, :].astype(np.int32), len(routers), axis=0)
    pred[:, component.outside] = component.gateway
    delay_us[:, routers] = bounded_delay(near_delay)
    pred[:, routers] = np.where(near_pred < 0, -1, routers[near_pred])
    return delay_us, pred


# --- matrices


#: The number of sources, or of pendant components, in a unit of work.
_BLOCK = 32
#: The driver computes this number of units in the time that tasks need to start.
_FEW_UNITS = 32
#: A pendant component is small if the network has this many times its routers.
_FEW = 32


@dataclass(frozen=True, eq=False)
class RouteMatrices:
    """The delays and predecessors of the routes between all pairs of routers."""

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
    """Return the routes with delays (us) between two nodes of one router added on the diagonal."""
    if own_us is None:
        return routes
    np.fill_diagonal(routes.delay_us, own_us)
    # the delay from a component's exit no longer decides which router is nearest
    exits = pendant_exits(len(routes.routers), [])
    return replace(routes, exits=exits)


def compute_routes(
    spark: SparkSession, routers: np.ndarray, links: pd.DataFrame, tie: str, seed: int
) -> RouteMatrices:
    """Return the routes between all routers; `links` has ``src, dst, delay_ms, weight``."""
    arrays = LinkArrays.of(routers, links, tie, seed)
    components = pendant_components(arrays)
    units = units_of(arrays, components)
    if len(units) <= _FEW_UNITS:
        rows = [row for unit in units for row in route_unit(arrays, unit)]
        return unpack_routes(arrays, components, pa.Table.from_batches(rows))
    shared = share(spark, (arrays, units))

    def kernel(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        links, units = shared.value
        for batch in batches:
            for number in batch.column("id").to_pylist():
                yield from route_unit(links, units[number])

    try:
        numbered = spark.range(0, len(units), 1, min(len(units), parallelism(spark) * 4))
        blocks = numbered.mapInArrow(kernel, schemas.ROUTES).toArrow()
    finally:
        shared.destroy()
    return unpack_routes(arrays, components, blocks)


#: A unit of work: the indices of some routers of the core, or some pendant components.
Unit = np.ndarray | list[PendantComponent]


def units_of(links: LinkArrays, components: list[PendantComponent]) -> list[Unit]:
    """Return the units of work, blocks of routes, of which all routes consist."""
    in_core = np.ones(len(links.routers), dtype=bool)
    for component in components:
        in_core[component.routers] = False
    core = np.flatnonzero(in_core)
    return [
        items[start : start + _BLOCK]
        for items in (core, components)
        for start in range(0, len(items), _BLOCK)
    ]


def route_unit(links: LinkArrays, unit: Unit) -> Iterator[pa.RecordBatch]:
    """Yield the packed routes of a unit of work."""
    if isinstance(unit, np.ndarray):
        yield pack_routes(unit, *route_block(links, unit))
    else:
        for component in unit:
            yield pack_routes(component.routers, *inner_routes(links, component))


def pack_routes(sources: np.ndarray, delay_us: np.ndarray, pred: np.ndarray) -> pa.RecordBatch:
    """Return one row of `schemas.ROUTES`: a compressed block of routes from `sources`.

    Routers in one part of the network have nearly the same routes, so rows are stored as their
    difference from the row before; this makes them a hundred times smaller.
    """
    both, zeros = (bounded_delay(delay_us), pred), np.zeros((1, pred.shape[1]), dtype="<i4")
    cells = [np.diff(rows.astype("<i4"), axis=0, prepend=zeros) for rows in both]
    cells.insert(0, sources.astype("<i8"))
    codec = pa.Codec("zstd", compression_level=1)
    packed = [codec.compress(cell.tobytes(), asbytes=True) for cell in cells]
    columns = [pa.array([n], pa.int32()) for n in delay_us.shape]
    columns += [pa.array([p], pa.binary()) for p in packed]
    return pa.RecordBatch.from_arrays(columns, names=schemas.ROUTES.names)


def unpack_routes(
    links: LinkArrays, components: list[PendantComponent], blocks: pa.Table
) -> RouteMatrices:
    """Return the matrices from blocks (`schemas.ROUTES`) in any order, unpacked one by one."""
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
    """Return the sources, delays and predecessors in a packed row: undo :func:`pack_routes`."""
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


# --- the nearest of a set of routers


_POSITION = 31  # bits; delays and positions of candidates are below 2**31
_PAIRS = 2**20  # pairs of a query and a candidate compared at once


def nearest(
    delay_us: np.ndarray,
    exits: np.ndarray,
    queries: np.ndarray,
    candidates: np.ndarray,
    starts: np.ndarray,
) -> np.ndarray:
    """Return each query's nearest candidate in each segment, as `protocol.Kernel.nearest` does."""
    component, exit_router = exits
    of_candidate, own = component[candidates], component[queries]
    delays, routers = np.asarray(delay_us).reshape(-1), delay_us.shape[1]

    def key(query: np.ndarray, position: np.ndarray) -> np.ndarray:
        delay = delays.take(query * routers + candidates[position]).astype(np.int64)
        return delay << _POSITION | position

    # 1. the nearest candidates outside the query's component
    searched, of_query = np.unique(exit_router[queries], return_inverse=True)
    first, second = _first_and_second(delays, routers, searched, candidates, of_candidate, starts)
    first, second = first[of_query], second[of_query]
    outside = (own[:, None] == NO_COMPONENT) | (of_candidate[first] != own[:, None])
    found = np.where(outside, first, second)
    best = np.where(found >= 0, key(queries[:, None], found), np.iinfo(np.int64).max).reshape(-1)
    # 2. those inside it
    for query, position in _same_component(own, of_candidate):
        segment = np.searchsorted(starts, position, "right") - 1
        np.minimum.at(best, query * len(starts) + segment, key(queries[query], position))
    return (best & (2**_POSITION - 1)).reshape(len(queries), len(starts))


def _same_component(
    of_query: np.ndarray, of_candidate: np.ndarray
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield all pairs of a query and a candidate in one pendant component, as indices."""
    order = np.argsort(of_candidate, kind="stable")
    grouped = of_candidate[order]
    low, high = np.searchsorted(grouped, of_query), np.searchsorted(grouped, of_query, "right")
    inside = np.where(of_query == NO_COMPONENT, 0, high - low)
    cuts = np.flatnonzero(np.diff(np.cumsum(inside) // _PAIRS)) + 1
    for some in np.split(np.arange(len(of_query)), cuts):
        pair, place = expand(low[some], low[some] + inside[some])
        yield some[pair], order[place]


def _first_and_second(
    delays: np.ndarray,
    routers: int,
    queries: np.ndarray,
    candidates: np.ndarray,
    component: np.ndarray,
    starts: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Return each query's nearest candidate of each segment, and the nearest in another component.

    Both are positions in `candidates`, shape (Q, K); the second is -1 if there is none, and has no
    meaning if the first is in the core.  `component` has the number of each candidate's component.
    """
    lengths = np.diff(np.r_[starts, len(candidates)])
    first = np.empty((len(queries), len(starts)), dtype=np.int64)
    second = np.full_like(first, -1)
    block = max(1, 2**18 // max(1, len(candidates)))  # about 1 MiB of delays: stays in cache
    farthest = np.iinfo(delays.dtype).max
    for at in range(0, len(queries), block):
        some = slice(at, at + block)
        seen = delays.take(queries[some, None] * routers + candidates)
        first[some] = _least(seen, starts)
        if (component[first[some]] != NO_COMPONENT).any():
            excluded = np.repeat(component[first[some]], lengths, axis=1) == component
            seen[excluded] = farthest
            then = _least(seen, starts)
            known = np.take_along_axis(seen, then, axis=1) < farthest
            second[some] = np.where(known, then, -1)
    return first, second


def _least(values: np.ndarray, starts: np.ndarray) -> np.ndarray:
    """Return the column of the least value of each segment, row by row: int64, shape (rows, K)."""
    ends = [*starts[1:], values.shape[1]]
    segments = [values[:, start:end] for start, end in zip(starts, ends, strict=True)]
    return starts + np.stack([segment.argmin(axis=1) for segment in segments], axis=1)


# --- the underlay


@dataclass(frozen=True)
class MatrixKernel(Kernel):
    """The queries of routes by matrices; its fields name the distributed arrays."""

    delay: str
    pred: str
    exits: str
    routers: str
    loss: str | None = None
    withheld: Withheld | None = field(default=None, kw_only=True)
    links: str | None = None  # src * R + dst, ascending
    rates: str | None = None

    @property
    def arrays(self) -> tuple[str, ...]:
        some = filter(None, (self.loss, self.links, self.rates))
        return self.delay, self.pred, self.exits, self.routers, *some

    def open(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return three arrays: delays (R, R) as int32, predecessors (R, R), and router ids (R,)."""
        return open_array(self.delay), open_array(self.pred), open_array(self.routers)

    @property
    def all_pairs_limit(self) -> int:
        return 48

    def nearest(
        self, queries: np.ndarray, candidates: np.ndarray, starts: np.ndarray
    ) -> np.ndarray:
        arrays = open_array(self.delay), open_array(self.exits)
        return nearest(*arrays, queries, candidates, starts)

    def delays(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        delay = open_array(self.delay)
        flat = a.astype(np.int64) * len(delay) + b  # one index takes a third of the time of two
        return delay.reshape(-1).take(flat).astype(np.int64)

    def losses(self, a: np.ndarray, b: np.ndarray) -> np.ndarray | None:
        return None if self.loss is None else open_array(self.loss)[a, b]

    def without_losses(self) -> Self:
        """Return the kernel of the same network, without losses."""
        return replace(self, loss=None, withheld=None)

    @property
    def link_rates(self) -> np.ndarray | None:
        return None if self.rates is None else open_array(self.rates)

    def route_links(self, a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        assert self.links is not None
        route, link = path_links(last_links(open_array(self.pred)), a, b)
        return route, index_sorted(open_array(self.links), link)

    def link_packets(
        self, a: np.ndarray, b: np.ndarray, packets: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        pred = open_array(self.pred)
        link, totals = packets_on_links(pred, a, b, packets)
        return *np.divmod(link, len(pred)), totals

    def merged_packets(
        self, tree: np.ndarray, a: np.ndarray, b: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        pred = open_array(self.pred)
        on_links = merged_links(last_links(pred), len(pred), tree, a, b)
        link, packets = np.unique(on_links, return_counts=True)
        return *np.divmod(link, len(pred)), packets


class MatrixUnderlay(Underlay):
    """An underlay that keeps the routes of all pairs of routers: for up to 10,000 routers."""

    @classmethod
    def of(
        cls,
        spark: SparkSession,
        routes: RouteMatrices,
        links: int,
        lan_us: int,
        loss: np.ndarray | None = None,
        rates: pd.DataFrame | None = None,
    ) -> MatrixUnderlay:
        """Return an underlay whose matrices every executor gets once.

        `rates` has ``src, dst, rate`` of all links, ascending by (src, dst); `loss` (R, R) the
        share of packets lost on each route.
        """
        made = {
            "delay": routes.delay_us,
            "pred": routes.pred,
            "exits": routes.exits,
            "routers": routes.routers,
        }
        if loss is not None:
            made["loss"] = loss
        if rates is not None:
            ends = (index_sorted(routes.routers, rates[end].to_numpy()) for end in ("src", "dst"))
            made["links"] = key_of(list(ends), len(routes.routers))
            made["rates"] = rates["rate"].to_numpy(np.int64)
        names: dict[str, Any] = dict(zip(made, distribute_arrays(spark, **made), strict=True))
        return cls(MatrixKernel(**names), routes.routers, links, lan_us)
