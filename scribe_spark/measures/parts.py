"""The measures of runs and of rounds by classes and regions of nodes, and by trees of groups.

A node's class and region are functions of its number, so a count by part needs no join: kernels add
these to the rows of any table with a column of nodes.

Groups of some systems have several trees, such as stripes.  In a run with a schedule, publications
go down different trees (`SystemOnBuckets.trees_of`).  Here each of these trees counts as a system
of its own, which has the measures of all systems.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import product
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pyarrow as pa
from pyspark.sql.types import StringType, StructField, StructType

from scribe_spark import schemas
from scribe_spark.core.arrays import index_sorted
from scribe_spark.core.histogram import Histogram, add_counts
from scribe_spark.core.node_classes import NodeClasses
from scribe_spark.core.units import MICROSECONDS
from scribe_spark.measures.copies import payload_copies
from scribe_spark.measures.delay import compare_with_base, ratios_of_groups
from scribe_spark.measures.distributions import COUNTED, count_values_of, read_histograms, values_in
from scribe_spark.measures.latency import ARRIVED, THOUSANDTHS
from scribe_spark.measures.measure import (
    PUBLICATION,
    Measure,
    RunTables,
    collected_metrics,
    publications_of,
    with_publication,
)
from scribe_spark.measures.message_bytes import NODE_BYTES
from scribe_spark.measures.stress import CHILDREN, count_stress, link_stress, node_stress
from scribe_spark.measures.within import Asked
from scribe_spark.pastry.overlay import router_index
from scribe_spark.rounds.player import Counted, Counts
from scribe_spark.runtime.batches import Batches, Table, by_text
from scribe_spark.schemas import BY_TREE, arrow_table
from scribe_spark.systems.registry import baseline, live_system

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
    """Return the divisions of the nodes into classes and into regions, if there are any."""
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
    counts: Counts,
    parts: Iterable[NodeParts],
    name: str,
    nodes: np.ndarray,
    values: np.ndarray,
    weights: np.ndarray | None = None,
) -> None:
    """Add to `counts` the `values` of things that belong to nodes, for each class or region.

    With `weights`, the weights of things with each value are added instead of their number.
    """
    for one in parts:
        part = one.of_nodes(nodes)
        for index in range(len(one.names)):
            some = part == index
            if weights is None:
                counts.add(_name(name, one, index), values[some])
            else:
                sums = add_counts(values[some], weights[some])
                counts.add_counts(_name(name, one, index), sums.values, sums.counts)


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


#: The counts of receivers by the first deadline that they keep, and the end of those of weights.
_KEPT, _EXPECTED, _WEIGHT = "kept deadlines", "expected", ".weight"


def count_coverage(
    counts: Counts,
    parts: Iterable[NodeParts],
    asked: Asked,
    expected: np.ndarray,
    reached: np.ndarray,
    latency: np.ndarray,
) -> None:
    """Add to `counts` the expected and the reached receivers of each class or region.

    The reached ones are counted by the first deadline that their `latency` (us) meets.
    """
    if not asked.config.deadline:
        return
    kept = np.searchsorted(asked.config.deadlines_us, latency)
    of = (_EXPECTED, expected, np.zeros_like(expected)), (_KEPT, reached, kept)
    for name, nodes, values in of:
        count_in_parts(counts, parts, name, nodes, values)
        if asked.weights is not None:
            weights = asked.weights.of(nodes)
            count_in_parts(counts, parts, name + _WEIGHT, nodes, values, weights)


def coverage_rows_of_parts(
    counted: Counted,
    parts: Iterable[NodeParts],
    system: str,
    asked: Asked,
    expected: Counted | None = None,
) -> list[dict[str, Any]]:
    """Return the shares of :func:`count_coverage` as rows of `schemas.BY_PART`."""
    rows, due = [], counted if expected is None else expected
    ends = ("",) if asked.weights is None else ("", _WEIGHT)
    every = ((one, index, part) for one in parts for index, part in enumerate(one.names))
    for one, index, part in every:
        whole = {end: due.total(_name(_EXPECTED + end, one, index)) for end in ends}
        kept = {end: counted.by_value(_name(_KEPT + end, one, index)) for end in ends}
        key = {"by": one.by, "part": part, "system": system, "count": whole[""]}
        for (at, deadline), end in product(enumerate(asked.config.deadline), ends):
            within = sum(many for first, many in kept[end].items() if first <= at)
            if whole[end]:
                share = {"measure": f"within_{deadline}{end}", "mean": within / whole[end]}
                rows.append(key | share)
    return rows


def _name(measure: str, parts: NodeParts, index: int) -> str:
    return f"{measure} of {parts.by} {index}"


# --- runs: the rows of tables

#: The measures that are split by parts: name -> table, column of values, units of a value.
_SPLIT = {
    "delay_ms": ("deliveries", "delay_ms", MICROSECONDS),
    "hops": ("deliveries", "hops", 1),
    "children_tables": ("node_stress", "children_tables", 1),
    "children_entries": ("node_stress", "children_entries", 1),
    # of runs whose publications have a size
    **{f"bytes.{name}": ("bytes", name, 1) for name in NODE_BYTES},
}

_COUNTED = "system string, name string, value bigint, count bigint"


def with_parts(nodes: Table, parts: tuple[NodeParts, ...]) -> Table:
    """Add a column with the class or the region to a table of nodes (column `node`)."""
    if not parts:
        return nodes
    table = Batches.of(nodes)
    more = [StructField(one.by, StringType(), True) for one in parts]

    def add(batch: pa.RecordBatch) -> dict[str, Any]:
        columns = {name: batch.column(name) for name in batch.schema.names}
        node = batch.column("node").to_numpy()
        named = {one.by: pa.array(one.names).take(pa.array(one.of_nodes(node))) for one in parts}
        return columns | named

    return table.each(add, StructType([*table.schema.fields, *more]))


def count_by_part(run: RunTables, parts: tuple[NodeParts, ...]) -> dict[str, Counted]:
    """Return the counts of :func:`count_in_parts` and :func:`count_coverage`, by system."""
    counted = []
    for table in [name for name in ("deliveries", "node_stress", "bytes") if name in run]:
        split = {one: (at, units) for one, (of, at, units) in _SPLIT.items() if of == table}
        rows = run.batches(table, ["system", "node", *(column for column, _ in split.values())])
        counted.append(rows.then(partial(_count, parts, split, run.asked), _COUNTED))
    found = Batches.union(counted).to_arrow().to_pandas()
    return {
        str(system): Counted({name: rows[name].to_numpy() for name in ("name", "value", "count")})
        for system, rows in found.groupby("system", sort=True)
    }


def _count(
    parts: tuple[NodeParts, ...],
    split: Mapping[str, tuple[str, int]],
    asked: Asked | None,
    batches: Iterable[pa.RecordBatch],
) -> Iterator[pa.RecordBatch]:
    """Yield the counts of columns of a table; `split` has measure -> column, units of a value."""
    for system, batch in by_text(batches, "system"):
        counts, node = Counts(), batch.column("node").to_numpy()
        for measure, (column, units) in split.items():
            values = np.rint(batch.column(column).to_numpy() * units).astype(np.int64)
            count_in_parts(counts, parts, measure, node, values)
            if measure == "delay_ms" and asked is not None:
                count_coverage(counts, parts, asked, node, node, values)
        if columns := counts.columns():
            systems = pa.repeat(pa.scalar(system), len(columns["name"]))
            yield pa.RecordBatch.from_pydict({"system": systems, **columns})


def measures_by_part(
    counted: Mapping[str, Counted], parts: tuple[NodeParts, ...], asked: Asked | None = None
) -> pa.Table:
    """Return count, mean, percentiles and maximum of measures by class and region of nodes.

    If `asked` has deadlines, the shares of receivers within them are added; the expected receivers
    are those of IP multicast.
    """
    units = {measure: units for measure, (_, _, units) in _SPLIT.items()}
    found, shares = list[dict[str, Any]](), list[dict[str, Any]]()
    for system, of in counted.items():
        found += rows_of_parts(of, parts, system, units)
        if asked is not None and baseline().name in counted:
            shares += coverage_rows_of_parts(of, parts, system, asked, counted[baseline().name])
    found = sorted(found, key=itemgetter(*_KEYS)) + sorted(shares, key=itemgetter(*_KEYS[:3]))
    return schemas.arrow_table(pd.DataFrame(found, columns=schemas.BY_PART.names), schemas.BY_PART)


_KEYS = ("by", "part", "system", "measure")


def latencies_by_part(counted: Mapping[str, Counted], parts: tuple[NodeParts, ...]) -> pa.Table:
    """Count deliveries by class or region, and by latency rounded up to whole ms."""
    rows = []
    for (system, of), one in product(counted.items(), parts):
        for index, part in enumerate(one.names):
            delays = of.histogram(_name("delay_ms", one, index))
            whole = add_counts(np.ceil(delays.values / MICROSECONDS), delays.counts)
            added = zip(whole.values, whole.counts, strict=True)
            rows += [(one.by, part, system, value, count) for value, count in added]
    return schemas.arrow_table(sorted(rows), schemas.PART_LATENCIES)


# --- trees

#: The name of the table, and of the collected result.
_BY_TREE = "by_tree"

#: The unit of RDPs in `compare_with_base`.
_BILLIONTH = 1e-9


def trees_of_publications(run: RunTables) -> dict[str, np.ndarray]:
    """Return the tree of each publication, for each system whose groups have several trees."""
    systems = [system for system in run.systems if system.several_trees]
    published = publications_of(run)
    if not systems or published is None:
        return {}
    among = {"node": np.unique(published.source).tolist()}
    nodes = run.collect("nodes", ["node", "id_hi", "id_lo"], among).sort_by("node")
    node, *id = (nodes.column(name).to_numpy() for name in ("node", "id_hi", "id_lo"))
    hi, lo = (half.view(np.uint64) for half in id)
    place = np.argsort(np.lexsort((lo, hi)))[index_sorted(node, published.source)]
    ends = np.unique(published.group, return_inverse=True)[1], place  # in the order of nodeIds
    return {one.name: live_system(one, run.config).trees_of(0, *ends) for one in systems}


def measures_by_tree(run: RunTables, trees: Mapping[str, np.ndarray]) -> pa.Table:
    """Return the measures of each tree: `schemas.BY_TREE`.

    ``delay_ms``, ``hops`` and ``rdp`` are over deliveries, ``rad`` and ``rmd`` over groups,
    children over all nodes, and ``link_stress`` over the links with packets.  Node and link stress
    are those of the first publication of each group in the tree; publications in parts have no
    other measures.
    """
    assert run.underlay is not None
    assert run.config is not None
    published, every = publications_of(run), dict[str, np.ndarray]()
    assert published is not None
    for system, tree in trees.items():
        _, first = np.unique(np.column_stack([published.group, tree]), axis=0, return_index=True)
        every[system] = np.full(len(tree), -1)
        every[system][first] = tree[first]
    named = {
        f"{name} {tree}": (name, int(tree)) for name, of in trees.items() for tree in np.unique(of)
    }
    columns = with_publication(run, "system", "group", "node", "delay_ms", "hops")
    deliveries = _by_tree(run.batches("deliveries", columns), trees, PUBLICATION)
    of_links, nodes = run.underlay, run.batches("nodes", ["node"])
    is_whole = run.config.bandwidth.parts_sent == 1
    # in a run with a schedule, the group of a copy is its publication
    copies = _by_tree(payload_copies(run), every, "group").among("system", named)
    counted = count_stress(copies, of_links, run.buckets, nodes, named)
    of_nodes, of_trees = node_stress(counted), deliveries.among("system", named)
    values = {name: values_in(of_trees, name) for name in ("delay_ms", "hops") if is_whole}
    values |= {name: values_in(of_nodes, name) for name in CHILDREN}
    values["link_stress"] = values_in(link_stress(counted), "packets")
    counted_values = [of.then(count_values_of(measure), COUNTED) for measure, of in values.items()]
    found = read_histograms(Batches.union(counted_values).to_arrow().to_pandas())
    systems = list(named) if is_whole else []
    sums, ratios = compare_with_base(deliveries, systems, run.buckets) if systems else ({}, {})
    for name, of_groups in sums.items():
        ratio = {**ratios_of_groups(of_groups), "rdp": ratios[name] * _BILLIONTH}
        found |= {(name, measure): Histogram.of(of) for measure, of in ratio.items()}
    rows = []
    for (name, measure), numbers in found.items():
        of_system, of_tree = named[name]
        key = {"system": of_system, "tree": of_tree, "measure": measure}
        rows.append(key | numbers_of_values(numbers))
    return arrow_table(sorted(rows, key=itemgetter("system", "tree", "measure")), BY_TREE)


def _by_tree(table: Batches, trees: Mapping[str, np.ndarray], of: str) -> Batches:
    """Return a table with a system for each tree, and the rows of the baseline."""
    base = baseline().name

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for system, batch in by_text(batches, "system"):
            if system == base:
                yield batch
            elif system in trees:
                tree = trees[system][batch.column(of).to_numpy()]
                names = pa.array([f"{system} {number}" for number in range(1 + tree.max())])
                mine = batch.filter(pa.array(tree >= 0))
                at = batch.schema.get_field_index("system")
                yield mine.set_column(at, "system", names.take(pa.array(tree[tree >= 0])))

    return table.then(run, table.schema)


# --- the measure

#: Measures of trees -> their units; their means are compared.
_COMPARED = {
    **{"rad": "x", "rmd": "x", "rdp": "x", "hops": "hops"},
    **{"children_entries": "per node", "link_stress": "packets"},
}

_OF_A_TREE = "of a tree: means as in the table by_tree."

#: Number -> its function of the values of the trees.
_ENDS = {"least": np.min, "greatest": np.max}


def _collect_trees(run: RunTables) -> dict[str, dict[str, float]]:
    """Return the least and the greatest mean of the trees, by system and measure."""
    if _BY_TREE not in run:
        return {}
    rows = run.collect(_BY_TREE, ["system", "measure", "mean"]).to_pandas()
    found = dict[str, Any]()
    for (system, measure), mean in rows.groupby(["system", "measure"])["mean"]:
        numbers = {f"{_BY_TREE}.{measure}.{end}": float(of(mean)) for end, of in _ENDS.items()}
        found.setdefault(str(system), {}).update(numbers)
    return found


TREES = Measure(
    _BY_TREE,
    collect=_collect_trees,
    used_when=lambda config: config.bandwidth.several,
    metrics=collected_metrics(
        *(_BY_TREE, None),
        {
            f"{_BY_TREE}.{measure}.{end}": (unit, f"The {end} mean {measure} {_OF_A_TREE}")
            for (measure, unit), end in product(_COMPARED.items(), _ENDS)
        },
        lambda system: system.several_trees,
    ),
)
