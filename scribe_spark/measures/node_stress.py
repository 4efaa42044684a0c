"""Node stress: the number of children tables per node, and of entries in them.

References
----------
JSAC 2002, Section IV.C (Figures 8, 9), IV.E (Figure 11), IV.F (Figures 12, 13).
"""

from __future__ import annotations

import numpy as np

from scribe_spark.core.arrays import sums_at
from scribe_spark.engine.exchange import distinct_rows
from scribe_spark.measures.distributions import column_of, histogram_metrics, statistics
from scribe_spark.measures.measure import Distribution, Measure, keeps_children

#: The names of the number of children tables of a node, and of entries in them.
CHILDREN = "children_tables", "children_entries"


def count_children(
    group: np.ndarray, node: np.ndarray, entries: np.ndarray, nodes: int
) -> dict[str, np.ndarray]:
    """Return the number of children tables of each node, and of entries in them: shape (nodes,).

    A row of the arguments, of shape (m,), is a part of the children table of `node`, an index below
    `nodes`, for `group`; a table may have several rows.

    Examples
    --------
    >>> group, node, entries = np.array([7, 7, 8, 7]), np.array([0, 0, 0, 2]), np.ones(4, np.int64)
    >>> {name: column.tolist() for name, column in count_children(group, node, entries, 3).items()}
    {'children_tables': [2, 0, 1], 'children_entries': [3, 0, 1]}
    """
    _, (of_table, _), _ = distinct_rows(node, group)
    sums = np.bincount(of_table, minlength=nodes), sums_at(node, entries, nodes)
    return dict(zip(CHILDREN, sums, strict=True))


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
