"""The classes and regions of nodes, and the measures of runs and of rounds by these parts.

A node's class and region are functions of its number, so a count by part needs no join: kernels add
these to the rows of any table with a column of nodes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pyarrow as pa
from pyspark.sql.types import StringType, StructField, StructType

from scribe_spark import schemas
from scribe_spark.core.arrays import sums_at
from scribe_spark.core.histogram import Histogram, histogram_of_rows
from scribe_spark.core.node_classes import NodeClasses
from scribe_spark.measures.latency import ARRIVED, THOUSANDTHS
from scribe_spark.measures.measure import RunTables
from scribe_spark.measures.message_bytes import NODE_BYTES
from scribe_spark.measures.within import Asked
from scribe_spark.pastry.overlay import router_index
from scribe_spark.rounds.player import Counted, Counts
from scribe_spark.runtime.batches import Batches, Table, by_text
from scribe_spark.systems.registry import baseline

if TYPE_CHECKING:
    from scribe_spark.topology.graph import Hosts


@dataclass(frozen=True, eq=False)
class NodeParts:
    """The division of the nodes into *parts*: classes, or regions."""

    #: Either ``class`` or ``region``.
    by: str
    names: tuple[str, ...]
    #: Returns the index in `names` of each node's part (int64), from the numbers of nodes.
    of_nodes: Callable[[np.ndarray], np.ndarray]


def node_parts(config: Any, hosts: Hosts) -> tuple[NodeParts, ...]:
    """Return the divisions of the nodes into classes and into regions, if there are any.

    `hosts` tells the regions of the nodes.
    """
    parts, classes = list[NodeParts](), NodeClasses.of(config)
    if classes.names:
        parts.append(NodeParts("class", classes.names, classes.of_nodes))
    if hosts.region is not None:
        parts.append(NodeParts("region", hosts.regions, partial(_regions, config.seed, hosts)))
    return tuple(parts)


def _regions(seed: int, hosts: Hosts, nodes: np.ndarray) -> np.ndarray:
    assert hosts.region is not None
    return hosts.region[router_index(seed, nodes, len(hosts.region), hosts.shares, hosts.places)]


def numbers_of_values(found: Histogram) -> dict[str, Any]:
    """Return count, mean and percentiles (nearest rank) of a histogram of values."""
    # integers (microseconds, for delays), because sums of floats depend on their order
    thousandths = np.rint(found.values * THOUSANDTHS).astype(np.int64)
    return {
        "count": found.total,
        "mean": int((thousandths * found.counts).sum()) / found.total / THOUSANDTHS,
        **{name: found.nearest_rank(q) for name, q in ARRIVED.items()},
        "max": found.max,
    }


# --- rounds of a world: counts of buckets


def count_in_parts(
    counts: Counts, parts: Iterable[NodeParts], name: str, nodes: np.ndarray, values: np.ndarray
) -> None:
    """Add to `counts` the things (such as deliveries) by value, for each class or region.

    Thing i has the value ``values[i]`` and belongs to the node with the number ``nodes[i]``.
    """
    for one in parts:
        part = one.of_nodes(nodes)
        for index in range(len(one.names)):
            counts.add(_name(name, one, index), values[part == index])


def rows_of_parts(
    counted: Counted, parts: Iterable[NodeParts], system: str, measures: Mapping[str, int]
) -> list[dict[str, Any]]:
    """Return what `count_in_parts` has counted for a system, as rows of `schemas.BY_PART`.

    `measures` has the number by which the counted values of each measure are divided.
    """
    rows = []
    for one in parts:
        for index, part in enumerate(one.names):
            for measure, units in measures.items():
                found = counted.histogram(_name(measure, one, index))
                if found:
                    scaled = Histogram(found.values / units, found.counts)
                    key = {"by": one.by, "part": part, "system": system, "measure": measure}
                    rows.append(key | numbers_of_values(scaled))
    return rows


#: The counts of receivers, and of their weights, by the first deadline that they keep.
_KEPT, _EXPECTED, _KEPT_WEIGHT, _EXPECTED_WEIGHT = (
    *("kept deadlines", "expected", "weight of kept deadlines", "expected weight"),
)


def count_coverage(
    counts: Counts,
    parts: Iterable[NodeParts],
    asked: Asked,
    expected: np.ndarray,
    reached: np.ndarray,
    latency: np.ndarray,
) -> None:
    """Add to `counts` the expected and the reached receivers of each class or region.

    `expected` and `reached` are numbers of nodes; the reached ones are counted by the first
    deadline that their `latency` (us) meets.
    """
    if not asked.config.deadline:
        return
    kept = np.searchsorted(asked.config.deadlines_us, latency)
    for one in parts:
        of = expected, np.zeros_like(expected), _EXPECTED, _EXPECTED_WEIGHT
        for nodes, values, name, weight_name in (of, (reached, kept, _KEPT, _KEPT_WEIGHT)):
            count_in_parts(counts, (one,), name, nodes, values)
            if asked.weights is not None:
                for index, place, weight in _weights_at(one, asked, nodes, values):
                    counts.add_counts(_name(weight_name, one, index), place, weight)


def coverage_rows_of_parts(
    counted: Counted, parts: Iterable[NodeParts], system: str, asked: Asked
) -> list[dict[str, Any]]:
    """Return the shares of :func:`count_coverage` as rows of `schemas.BY_PART`."""
    rows = []
    for one in parts:
        for index, part in enumerate(one.names):
            found = (
                counted.by_value(_name(name, one, index))
                for name in (_KEPT, _EXPECTED, _KEPT_WEIGHT, _EXPECTED_WEIGHT)
            )
            key = {"by": one.by, "part": part, "system": system}
            rows += [key | row for row in _shares(asked, *found)]
    return rows


def _weights_at(
    parts: NodeParts, asked: Asked, nodes: np.ndarray, at: np.ndarray
) -> Iterator[tuple[int, np.ndarray, np.ndarray]]:
    """Yield the index of each class or region, deadlines (indices), and the weight at each.

    `at` has the first deadline that each of `nodes` (numbers) meets.
    """
    assert asked.weights is not None
    places = len(asked.config.deadline) + 1
    place = parts.of_nodes(nodes) * places + at
    sums = sums_at(place, asked.weights.of(nodes), len(parts.names) * places)
    for index, of_part in enumerate(sums.reshape(-1, places)):
        known = np.flatnonzero(of_part)
        yield index, known, of_part[known]


def _shares(
    asked: Asked,
    kept: Mapping[int, int],
    expected: Mapping[int, int],
    kept_weight: Mapping[int, int],
    expected_weight: Mapping[int, int],
) -> Iterator[dict[str, Any]]:
    """Yield, for each deadline, the measure, the number of receivers, and the share within it.

    The arguments have the numbers of receivers, or their weights, by first deadline met.
    """
    count = sum(expected.values())
    ends = {"": (kept, count)}
    if asked.weights is not None:
        ends[".weight"] = kept_weight, sum(expected_weight.values())
    for index, deadline in enumerate(asked.config.deadline):
        for end, (by_deadline, whole) in ends.items():
            within = sum(many for at, many in by_deadline.items() if at <= index)
            if whole:
                name = f"within_{deadline}{end}"
                yield {"measure": name, "count": count, "mean": within / whole}


def _name(measure: str, parts: NodeParts, index: int) -> str:
    return f"{measure} of {parts.by} {index}"


# --- runs: the rows of tables

#: The measures that are split by parts: name -> table, column of nodes, column of values.
SPLIT = {
    "delay_ms": ("deliveries", "node", "delay_ms"),
    "hops": ("deliveries", "node", "hops"),
    "children_tables": ("node_stress", "node", "children_tables"),
    "children_entries": ("node_stress", "node", "children_entries"),
}

#: More such measures, for runs whose publications have a size.
_SPLIT_BYTES = {f"bytes.{name}": ("bytes", "node", name) for name in NODE_BYTES}

_BY_PART = "by string, part string, system string, measure string, value double, count bigint"
_KEYS = ["by", "part", "system", "measure"]


def with_parts(nodes: Table, parts: tuple[NodeParts, ...]) -> Table:
    """Add a column with the class or the region to a table of nodes (column `node`)."""
    if not parts:
        return nodes
    table = Batches.of(nodes)
    more = [StructField(one.by, StringType(), True) for one in parts]

    def add(batch: pa.RecordBatch) -> dict[str, Any]:
        columns = {name: batch.column(name) for name in batch.schema.names}
        node = batch.column("node").to_numpy()
        return columns | {one.by: _named(one, one.of_nodes(node)) for one in parts}

    return table.each(add, StructType([*table.schema.fields, *more]))


def _named(parts: NodeParts, index: np.ndarray) -> pa.Array:
    return pa.array(parts.names).take(pa.array(index))


def count_by_part(run: RunTables, parts: tuple[NodeParts, ...]) -> pd.DataFrame:
    """Count values by class or region: ``by, part, system, measure, value, count``."""
    counted = []
    split = SPLIT | (_SPLIT_BYTES if "bytes" in run else {})
    for measure, (name, node, value) in split.items():
        rows = run.batches(name, ["system", node, value])
        counted += [rows.then(_count(one, measure, node, value), _BY_PART) for one in parts]
    if run.asked is not None and run.asked.config.deadline and run.asked.weights is not None:
        rows = run.batches("deliveries", ["system", "node", "delay_ms"])
        counted += [rows.then(_weigh(one, run.asked), _BY_PART) for one in parts]
    return Batches.union(counted).to_arrow().to_pandas()


def measures_by_part(counted: pd.DataFrame, asked: Asked | None = None) -> pa.Table:
    """Return count, mean, percentiles and maximum of :data:`SPLIT`, by class and region of nodes.

    `counted` comes from :func:`count_by_part`. If `asked` has deadlines, the shares of receivers
    within them are added.
    """
    found = [
        dict(zip(_KEYS, key, strict=True)) | numbers_of_values(histogram_of_rows(rows))
        for key, rows in counted[counted["measure"] != _WEIGHT].groupby(_KEYS, sort=True)
    ]
    if asked is not None and asked.config.deadline:
        found += _shares_by_part(counted, asked)
    return schemas.arrow_table(pd.DataFrame(found, columns=schemas.BY_PART.names), schemas.BY_PART)


def _shares_by_part(counted: pd.DataFrame, asked: Asked) -> Iterator[dict[str, Any]]:
    """Yield the shares of receivers within deadlines, by class or region and system.

    The expected receivers are those of IP multicast.
    """
    delays = counted[counted["measure"] == "delay_ms"]
    kept = np.rint(delays["value"].to_numpy() * THOUSANDTHS)
    at = np.searchsorted(asked.config.deadlines_us, kept)
    found = {
        name: {key: rows.groupby("at")["count"].sum().to_dict() for key, rows in of}
        for name, of in (
            ("count", delays.assign(at=at).groupby(_KEYS[:3])),
            ("weight", _at_deadlines(counted).groupby(_KEYS[:3])),
        )
    }
    base = baseline().name
    of_base = [key for key in found["count"] if key[2] == base]
    for by, part, _ in of_base:
        for system in counted["system"].unique():
            key, expected = (by, part, system), (by, part, base)
            many = (found[of].get(one, {}) for of in found for one in (key, expected))
            named = dict(zip(_KEYS, key, strict=False))
            yield from (named | row for row in _shares(asked, *many))


def _at_deadlines(counted: pd.DataFrame) -> pd.DataFrame:
    """Return the counted weights of :func:`_weigh`; ``at`` is the index of their deadline."""
    weights = counted[counted["measure"] == _WEIGHT]
    return weights.assign(at=weights["value"].astype(np.int64))


def latencies_by_part(counted: pd.DataFrame) -> pa.Table:
    """Count deliveries by class or region, and by latency in whole ms.

    `counted` comes from :func:`count_by_part`.
    """
    delays = counted[counted["measure"] == "delay_ms"]
    # round to thousandths first: a sum of floats may give 5.000000001 ms instead of 5 ms
    whole = np.ceil(np.rint(delays["value"] * THOUSANDTHS) / THOUSANDTHS)
    keys = ["by", "part", "system", "value"]
    added = delays.assign(value=whole).groupby(keys, as_index=False, sort=True)["count"].sum()
    return schemas.arrow_table(added[schemas.PART_LATENCIES.names], schemas.PART_LATENCIES)


#: The measure of weights by deadline, among the counts of parts.
_WEIGHT = "weight by deadline"


def _weigh(parts: NodeParts, asked: Asked) -> Any:
    """Return the kernel that adds weights of receivers, by part and first deadline met.

    A part is a class or a region of nodes.
    """

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for system, batch in by_text(batches, "system"):
            latency = np.rint(batch.column("delay_ms").to_numpy() * THOUSANDTHS)
            at = np.searchsorted(asked.config.deadlines_us, latency)
            node = batch.column("node").to_numpy()
            for index, place, weight in _weights_at(parts, asked, node, at):
                same = {"by": parts.by, "part": parts.names[index]}
                same |= {"system": system, "measure": _WEIGHT}
                columns = {n: pa.repeat(pa.scalar(of), len(place)) for n, of in same.items()}
                columns |= {"value": pa.array(place.astype(np.float64)), "count": pa.array(weight)}
                yield pa.RecordBatch.from_pydict(columns)

    return run


def _count(parts: NodeParts, measure: str, node: str, value: str) -> Any:
    """Return the kernel that counts each value of a column in each class or region."""

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for system, batch in by_text(batches, "system"):
            rows = pd.DataFrame(
                {
                    "part": parts.of_nodes(batch.column(node).to_numpy()),
                    "value": batch.column(value).to_numpy().astype(np.float64),
                }
            )
            found = rows.value_counts(sort=False)
            part = found.index.get_level_values("part").to_numpy()
            texts = [pa.repeat(pa.scalar(text), len(found)) for text in (system, measure)]
            yield pa.RecordBatch.from_arrays(
                [
                    pa.repeat(pa.scalar(parts.by), len(found)),
                    _named(parts, part),
                    *texts,
                    pa.array(found.index.get_level_values("value").to_numpy()),
                    pa.array(found.to_numpy()),
                ],
                names=[*_KEYS, "value", "count"],
            )

    return run
