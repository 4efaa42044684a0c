"""The measures of each tree of systems whose groups have several trees, such as stripes.

In a run with a schedule, publications go down different trees (`SystemOnBuckets.trees_of`).  Here
each of these trees counts as a system of its own, which has the measures of all systems.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import product
from typing import Any

import numpy as np
import pyarrow as pa

from scribe_spark.core.arrays import index_sorted
from scribe_spark.core.histogram import Histogram
from scribe_spark.measures.copies import payload_copies
from scribe_spark.measures.delay import compare_with_base, ratios_of_groups
from scribe_spark.measures.distributions import COUNTED, count_values_of, read_histograms, values_in
from scribe_spark.measures.measure import (
    PUBLICATION,
    SCHEDULE,
    Measure,
    RunTables,
    collected_metrics,
    with_publication,
)
from scribe_spark.measures.parts import numbers_of_values
from scribe_spark.measures.stress import CHILDREN, count_stress, link_stress, node_stress
from scribe_spark.runtime.batches import Batches, by_text
from scribe_spark.schemas import BY_TREE, arrow_table
from scribe_spark.systems.registry import baseline, live_system

#: The name of the table, and of the collected result.
_TABLE = "by_tree"

#: The unit of RDPs in `compare_with_base`.
_BILLIONTH = 1e-9


def trees_of_publications(run: RunTables) -> dict[str, np.ndarray]:
    """Return the tree of each publication, for each system whose groups have several trees."""
    systems = [system for system in run.systems if system.several_trees]
    if not systems or SCHEDULE not in run:
        return {}
    rows = run.collect(SCHEDULE, [PUBLICATION, "group", "node"]).sort_by(PUBLICATION)
    group, source = (rows.column(name).to_numpy() for name in ("group", "node"))
    among = {"node": np.unique(source).tolist()}
    nodes = run.collect("nodes", ["node", "id_hi", "id_lo"], among).sort_by("node")
    node, *id = (nodes.column(name).to_numpy() for name in ("node", "id_hi", "id_lo"))
    hi, lo = (half.view(np.uint64) for half in id)
    place = np.argsort(np.lexsort((lo, hi)))[index_sorted(node, source)]  # in the order of nodeIds
    ends = np.unique(group, return_inverse=True)[1], place
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
    schedule = run.collect(SCHEDULE, [PUBLICATION, "group"]).sort_by(PUBLICATION)
    group, every = schedule.column("group").to_numpy(), dict[str, np.ndarray]()
    for system, tree in trees.items():
        _, first = np.unique(np.column_stack([group, tree]), axis=0, return_index=True)
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
    compared = compare_with_base(deliveries, list(named), run.buckets) if is_whole else ({}, {})
    sums, ratios = compared
    for name, of_groups in sums.items():
        ratio = {**ratios_of_groups(of_groups), "rdp": ratios[name] * _BILLIONTH}
        found |= {(name, measure): Histogram.of(of) for measure, of in ratio.items()}
    measured = [
        dict(zip(("system", "tree"), named[name], strict=True))
        | {"measure": measure, **numbers_of_values(values)}
        for (name, measure), values in found.items()
    ]
    rows = sorted(measured, key=lambda row: (row["system"], row["tree"], row["measure"]))
    return arrow_table(rows, BY_TREE)


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


def _collect(run: RunTables) -> dict[str, dict[str, float]]:
    """Return the least and the greatest mean of the trees, by system and measure."""
    if _TABLE not in run:
        return {}
    rows = run.collect(_TABLE, ["system", "measure", "mean"]).to_pandas()
    found = dict[str, Any]()
    for (system, measure), mean in rows.groupby(["system", "measure"])["mean"]:
        numbers = {f"{_TABLE}.{measure}.{end}": float(of(mean)) for end, of in _ENDS.items()}
        found.setdefault(str(system), {}).update(numbers)
    return found


TREES = Measure(
    _TABLE,
    collect=_collect,
    used_when=lambda config: config.bandwidth.several,
    metrics=collected_metrics(
        *(_TABLE, None),
        {
            f"{_TABLE}.{measure}.{end}": (unit, f"The {end} mean {measure} {_OF_A_TREE}")
            for (measure, unit), end in product(_COMPARED.items(), _ENDS)
        },
        lambda system: system.several_trees,
    ),
)
