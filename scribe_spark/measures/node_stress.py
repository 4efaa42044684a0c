"""Node stress: the number of children tables per node, and of entries in them.

References
----------
JSAC 2002, Section IV.C (Figures 8, 9), IV.E (Figure 11), IV.F (Figures 12, 13).
"""

from __future__ import annotations

from scribe_spark.measures.distributions import histogram_metrics, values_of
from scribe_spark.measures.measure import Distribution, Measure, RunTables, keeps_children
from scribe_spark.runtime.batches import Batches


def _tables(run: RunTables) -> Batches:
    return values_of(run, "node_stress", "children_tables")


def _entries(run: RunTables) -> Batches:
    return values_of(run, "node_stress", "children_entries")


NODE_STRESS = Measure(
    "node_stress",
    distributions=(
        Distribution("children_tables", "8", _tables),
        Distribution("children_entries", "9", _entries),
    ),
    metrics=(
        *histogram_metrics(
            "children_tables",
            "per node",
            "8",
            "groups for which a node has a non-empty children table, over all nodes",
            keeps_children,
            ("mean", "median", "max"),
        ),
        *histogram_metrics(
            "children_entries",
            "per node",
            "9",
            "entries in all of a node's children tables, over all nodes",
            keeps_children,
            ("mean", "median", "max"),
        ),
    ),
)
