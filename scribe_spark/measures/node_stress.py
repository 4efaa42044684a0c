"""Node stress: children tables and their entries, per node.

References
----------
JSAC 2002, Section IV.C (Figures 8, 9), IV.E (Figure 11), IV.F (Figures 12, 13).
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from scribe_spark.measures.distributions import histogram_metrics, values_of
from scribe_spark.measures.measure import Distribution, Measure, RunTables, keeps_children

__all__ = ["NODE_STRESS", "node_loads", "node_stress"]


def node_loads(tree_edges: DataFrame) -> DataFrame:
    """Count what each parent keeps and sends: ``system, node, router, tables, entries, copies``.

    ``tables`` counts groups with a non-empty children table, ``entries`` the entries in all of
    them; ``copies`` the packets on the node's LAN up-link when one message goes to every group.
    Where routers duplicate, the node keeps no table and sends one packet a group.

    Parameters
    ----------
    tree_edges : DataFrame
        ``system, merged, group, parent, child, parent_router, child_router``.
    """
    # of a node and a system the rest is the same everywhere; as few keys as can be, so that the
    # result is partitioned as the join in `node_stress` wants it
    same = [F.max(column).alias(column) for column in ("merged", "parent_router")]
    per_group = tree_edges.groupBy("system", "parent", "group").agg(
        F.count(F.lit(1)).alias("entries"), *same
    )
    per_node = per_group.groupBy("system", "parent").agg(
        F.count(F.lit(1)).alias("groups"), F.sum("entries").alias("entries"), *same
    )
    zero = F.lit(0).cast("bigint")
    return per_node.select(
        "system",
        F.col("parent").alias("node"),
        F.col("parent_router").alias("router"),
        F.when(F.col("merged"), zero).otherwise(F.col("groups")).alias("tables"),
        F.when(F.col("merged"), zero).otherwise(F.col("entries")).alias("entries"),
        F.when(F.col("merged"), F.col("groups")).otherwise(F.col("entries")).alias("copies"),
    )


def node_stress(loads: DataFrame, nodes: DataFrame, systems: list[str]) -> DataFrame:
    """`schemas.NODE_STRESS`: a row for every node and system, zeros included.

    Parameters
    ----------
    loads : DataFrame
        From :func:`node_loads`.
    nodes : DataFrame
        ``node``.
    """
    every = nodes.select("node", F.explode(F.array(*map(F.lit, systems))).alias("system"))
    kept = loads.select("system", "node", "tables", "entries")
    zero = F.lit(0).cast("bigint")
    joined = every.join(kept.hint("shuffle_hash"), ["system", "node"], "left")
    return joined.select(
        "system",
        "node",
        F.coalesce("tables", zero).alias("children_tables"),
        F.coalesce("entries", zero).alias("children_entries"),
    )


def _tables(run: RunTables) -> DataFrame:
    return values_of(run["node_stress"], "children_tables")


def _entries(run: RunTables) -> DataFrame:
    return values_of(run["node_stress"], "children_entries")


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
