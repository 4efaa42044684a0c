"""Node stress: the number of children tables per node, and of entries in them.

References
----------
JSAC 2002, Section IV.C (Figures 8, 9), IV.E (Figure 11), IV.F (Figures 12, 13).
"""

from __future__ import annotations

from scribe_spark.measures.distributions import column_of, histogram_metrics
from scribe_spark.measures.formulas import statistics
from scribe_spark.measures.measure import Distribution, Measure, keeps_children

_NUMBERS = statistics("per node", "mean", "median", "max")

NODE_STRESS = Measure(
    "node_stress",
    distributions=(
        Distribution("children_tables", "8", column_of("node_stress", "children_tables")),
        Distribution("children_entries", "9", column_of("node_stress", "children_entries")),
    ),
    metrics=(
        *histogram_metrics(
            "children_tables",
            "8",
            "groups for which a node has a non-empty children table, over all nodes",
            keeps_children,
            _NUMBERS,
        ),
        *histogram_metrics(
            "children_entries",
            "9",
            "entries in all of a node's children tables, over all nodes",
            keeps_children,
            _NUMBERS,
        ),
    ),
)
