"""The measures: node stress, link stress and delay of any multicast system, and the numbers.

One code path for all systems: what is measured is `tree_edges` and `deliveries`, and what the
underlay says of routes.  Node-level work stays in DataFrames; histograms and rows per group come
to the driver.

References
----------
JSAC 2002, Section IV.B (RAD, RMD, RDP; Figure 7), IV.C (node stress; Figures 8, 9), IV.D (link
stress; Figure 10), IV.E (Figure 11, stress of joining), IV.F (Figures 12-14).
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from scribe_spark.measures.published import FIGURES, NUMBERS, SMALL_GROUPS, Published
from scribe_spark.runtime import blocks
from scribe_spark.schemas import CORE, LAN_DOWN, LAN_UP, MICROSECONDS
from scribe_spark.underlay.matrices import Underlay

__all__ = [
    "Size",
    "distributions",
    "group_delay",
    "join_stress",
    "link_stress",
    "node_stress",
    "numbers",
]

_BASELINE = "ip_multicast"
_SLOTS_PER_ROUTER = 200  # the paper's LAN slots: 100 per router, two directions


@dataclass(frozen=True)
class Size:
    """What the network has: nodes N, routers R, directed core links."""

    nodes: int
    routers: int
    core_links: int

    @property
    def existing_links(self) -> int:
        """Directed links that exist: core links and each node's two LAN links."""
        return self.core_links + 2 * self.nodes

    @property
    def paper_slots(self) -> int:
        """The paper's denominator: core links and 100 LAN slots a router, both directions."""
        return self.core_links + _SLOTS_PER_ROUTER * self.routers


# --- tables


def loads(tree_edges: DataFrame) -> DataFrame:
    """What each parent holds: ``system, node, router, tables, entries, copies``.

    ``tables`` and ``entries`` count groups with a non-empty children table and entries in all of
    them; ``copies`` the packets on the LAN up-link when one message goes to every group.  Where
    routers duplicate, the node keeps no table and sends one packet a group.
    """
    per_group = tree_edges.groupBy("system", "merged", "parent", "parent_router", "group").agg(
        F.count(F.lit(1)).alias("entries")
    )
    per_node = per_group.groupBy("system", "merged", "parent", "parent_router").agg(
        F.count(F.lit(1)).alias("groups"), F.sum("entries").alias("entries")
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


def node_stress(load: DataFrame, nodes: DataFrame, systems: list[str]) -> DataFrame:
    """`schemas.NODE_STRESS`: a row for every node and system, zeros included.

    Parameters
    ----------
    load : DataFrame
        From :func:`loads`.
    nodes : DataFrame
        ``node``.
    """
    every = nodes.select("node", F.explode(F.array(*map(F.lit, systems))).alias("system"))
    held = load.select("system", "node", "tables", "entries")
    zero = F.lit(0).cast("bigint")
    joined = every.join(held.hint("shuffle_hash"), ["system", "node"], "left")
    return joined.select(
        "system",
        "node",
        F.coalesce("tables", zero).alias("children_tables"),
        F.coalesce("entries", zero).alias("children_entries"),
    )


def link_stress(tree_edges: DataFrame, load: DataFrame, underlay: Underlay) -> DataFrame:
    """`schemas.LINK_STRESS`: packets per directed link, one message multicast to every group.

    Parameters
    ----------
    tree_edges : DataFrame
        ``system, merged, group, parent, child, parent_router, child_router``.
    load : DataFrame
        From :func:`loads`.
    """
    up = load.select(
        "system",
        F.lit(LAN_UP).alias("kind"),
        F.col("node").alias("src"),
        F.col("router").alias("dst"),
        F.col("copies").alias("packets"),
    )
    down = (
        tree_edges.groupBy("system", "child", "child_router")
        .agg(F.count(F.lit(1)).alias("packets"))
        .select(
            "system",
            F.lit(LAN_DOWN).alias("kind"),
            F.col("child_router").alias("src"),
            F.col("child").alias("dst"),
            "packets",
        )
    )
    tree = F.when(F.col("merged"), F.col("group")).alias("tree")
    ends = [F.col("parent_router").alias("src"), F.col("child_router").alias("dst")]
    crossing = tree_edges.where(F.col("parent_router") != F.col("child_router"))
    routes = crossing.select("system", tree, *ends, F.lit(1).cast("bigint").alias("packets"))
    core = underlay.packets(routes).withColumn("kind", F.lit(CORE))
    return up.unionByName(down).unionByName(core.select(up.columns))


def join_stress(extra: DataFrame, links: DataFrame, underlay: Underlay) -> DataFrame:
    """Packets per directed link when every member joins, with what JOINs a variant adds.

    Joining puts the packets of a multicast on the links, the other way round; a JOIN that is added
    counts on the links of the route from the node that it was sent to, as a tree edge does.

    Parameters
    ----------
    extra : DataFrame
        `schemas.EXTRA_JOINS`, of variants that start from Scribe's trees.
    links : DataFrame
        `schemas.LINK_STRESS`.

    Returns
    -------
    DataFrame
        `schemas.LINK_STRESS`, a row for each link and variant.
    """
    sent = extra.withColumn("merged", F.lit(False))
    added = link_stress(sent, loads(sent), underlay)
    variants = extra.select("system").distinct()
    base = links.where(F.col("system") == "scribe").drop("system").crossJoin(F.broadcast(variants))
    both = added.unionByName(base)
    return both.groupBy("system", "kind", "src", "dst").agg(F.sum("packets").alias("packets"))


def group_delay(deliveries: DataFrame, groups: DataFrame) -> DataFrame:
    """`schemas.GROUP_DELAY`: RAD and RMD of every group that reaches some member, per system.

    Parameters
    ----------
    deliveries : DataFrame
        `schemas.DELIVERIES`.
    groups : DataFrame
        ``group, size``.
    """
    # whole microseconds, so that sums do not depend on their order
    delay_us = F.round(F.col("delay_ms") * MICROSECONDS).cast("bigint")
    spent = deliveries.groupBy("system", "group").agg(
        F.sum(delay_us).alias("total"),
        F.max(delay_us).alias("most"),
        F.count(F.lit(1)).alias("reached"),
    )
    base = spent.where(F.col("system") == _BASELINE).select(
        "group",
        F.col("total").alias("base_total"),
        F.col("most").alias("base_most"),
        F.col("reached").alias("base_reached"),
    )
    both = spent.join(F.broadcast(base), "group", "inner")
    mean = (F.col("total") / F.col("reached")) / (F.col("base_total") / F.col("base_reached"))
    return both.join(F.broadcast(groups.select("group", "size")), "group", "inner").select(
        "system",
        "group",
        "size",
        mean.alias("rad"),
        (F.col("most") / F.col("base_most")).alias("rmd"),
    )


def rdp(deliveries: DataFrame, group: int = 1) -> dict[str, dict[str, float | None]]:
    """RDP of one group's members, per system: mean, median, shares below 1, 2.25 and 4."""
    mine = deliveries.where(F.col("group") == group)
    base = mine.where(F.col("system") == _BASELINE).select("node", F.col("delay_ms").alias("base"))
    others = mine.where(F.col("system") == "scribe").select("system", "node", "delay_ms")
    # as a share of 1e9: whole numbers, so that the mean does not depend on the order of rows
    ratio = F.round(F.col("delay_ms") / F.col("base") * 10**9).cast("bigint")
    ratios = others.join(base.hint("shuffle_hash"), "node", "inner").select(
        "system", ratio.alias("ratio")
    )

    def share_below(bound: float) -> Column:
        return F.avg((F.col("ratio") < int(bound * 10**9)).cast("int"))

    rows = ratios.groupBy("system").agg(
        F.avg("ratio").alias("mean"),
        F.percentile("ratio", 0.5).alias("median"),
        share_below(2.25).alias("below_2_25"),
        share_below(4).alias("below_4"),
        share_below(1).alias("below_1"),
    )
    scale = {"mean": 1e9, "median": 1e9}
    return {
        row["system"]: {
            name: row[name] / scale.get(name, 1)
            for name in ("mean", "median", "below_2_25", "below_4", "below_1")
        }
        for row in rows.collect()
    }


# --- distributions: small, on the driver


def distributions(
    groups: DataFrame,
    deliveries: DataFrame,
    delay: DataFrame,
    nodes: DataFrame,
    links: DataFrame,
    joining: DataFrame | None = None,
    equal_groups: bool = False,
) -> pd.DataFrame:
    """Histograms behind the figures: ``figure, system, measure, value, count``.

    Parameters
    ----------
    groups, deliveries, delay, nodes, links : DataFrame
        `schemas.GROUPS`, `DELIVERIES`, `GROUP_DELAY`, `NODE_STRESS`, `LINK_STRESS`.
    joining : DataFrame, optional
        From :func:`join_stress`.
    equal_groups : bool
        The experiment of Section IV.F, with figures of its own.
    """
    sizes = groups.select(
        F.lit("all").alias("system"),
        F.lit("group_size").alias("measure"),
        F.col("group").cast("double").alias("value"),
        F.col("size").alias("count"),
    )
    trees = F.col("system").startswith("scribe")
    parts = [
        sizes,
        _histogram(delay.where(trees), "rad"),
        _histogram(delay.where(trees), "rmd"),
        _histogram(deliveries.where(trees), "hops", "depth"),
        _histogram(nodes, "children_tables"),
        _histogram(nodes, "children_entries"),
        _histogram(links, "packets", "link_stress"),
    ]
    if joining is not None:
        parts.append(_histogram(joining, "packets", "join_stress"))
    together: pd.DataFrame = blocks.union_tables(parts).toPandas()
    together.insert(0, "figure", _figures(together, equal_groups))
    return together.sort_values(list(together.columns), ignore_index=True)


def _figures(spread: pd.DataFrame, equal_groups: bool) -> pd.Series:
    """The figure that each row belongs to."""
    figure = spread["measure"].map(FIGURES)
    if equal_groups:
        figure = figure.replace(SMALL_GROUPS)
    removed = (spread["system"] == "scribe_bottleneck") & (spread["measure"] == "children_entries")
    return figure.mask(removed, "11")


def _histogram(frame: DataFrame, column: str, measure: str | None = None) -> DataFrame:
    value = F.col(column).cast("double").alias("value")
    named = F.lit(measure or column).alias("measure")
    return frame.groupBy("system", named, value).agg(F.count(F.lit(1)).alias("count"))


# --- numbers


def numbers(
    size: Size,
    spread: pd.DataFrame,
    rdps: dict[str, dict[str, float | None]],
    routes: pd.DataFrame,
    others: Mapping[str, float | None],
    b: int,
    known: Mapping[str, Published] = NUMBERS,
) -> list[dict[str, Any]]:
    """`metrics.json`: every number of the paper's table, and more.

    Parameters
    ----------
    spread : pandas.DataFrame
        From :func:`distributions`.
    rdps : dict
        From :func:`rdp`.
    routes : pandas.DataFrame
        ``hops, delay_ms, direct_ms``: the sample of Pastry routes (one CREATE a group).
    others : mapping
        Numbers that nothing here is needed for, by their name.
    known : mapping
        The numbers that are told, in this order.

    Returns
    -------
    list of dict
        ``name, value`` and the fields of :class:`~scribe_spark.measures.published.Published`.
    """
    values: dict[str, Any] = {
        **others,
        "topology.core_links": size.core_links,
        "links.existing": size.existing_links,
        "links.paper_slots": size.paper_slots,
    }
    sizes = spread[spread["measure"] == "group_size"]["count"]
    values["groups.size.sum"] = sizes.sum()
    if len(sizes):
        values |= {"groups.size.max": sizes.max(), "groups.size.min": sizes.min()}
    values["pastry.hops.bound"] = math.ceil(math.log(size.nodes, 2**b) - 1e-9)
    if len(routes):
        values["pastry.hops.mean"] = routes["hops"].mean()
    if routes["direct_ms"].sum():
        values["pastry.stretch"] = routes["delay_ms"].sum() / routes["direct_ms"].sum()
    values |= {f"scribe.rdp.{name}": value for name, value in rdps.get("scribe", {}).items()}
    for (system, measure), rows in spread.groupby(["system", "measure"]):
        name = f"{system}.{measure}"
        total = (rows["value"] * rows["count"]).sum()
        values[f"{name}.max"] = rows["value"].max()
        if measure in ("link_stress", "join_stress"):
            values[f"{name}.mean"] = total / size.paper_slots
            values[f"{name}.median"] = _median(rows, size.paper_slots)
            values[f"{name}.mean_existing"] = total / size.existing_links
            values[f"{name}.median_existing"] = _median(rows, size.existing_links)
            if measure == "link_stress":
                values[f"{system}.messages"] = total
        else:
            values[f"{name}.mean"] = total / rows["count"].sum()
            values[f"{name}.median"] = _median(rows)
    return [
        {"name": name, "value": _plain(values.get(name)), **dataclasses.asdict(row)}
        for name, row in known.items()
    ]


def _plain(value: Any) -> int | float | None:
    """A JSON number; None for what is not there or not finite."""
    if value is None or not math.isfinite(value):
        return None
    return int(value) if float(value).is_integer() else float(value)


def _median(rows: pd.DataFrame, total: int | None = None) -> float | None:
    """Median of a histogram; with `total`, zeros make up what the counts lack of it."""
    rows = rows.sort_values("value")
    values, counts = rows["value"].to_numpy(float), rows["count"].to_numpy(np.int64)
    if total is not None:
        zeros = max(0, total - int(counts.sum()))
        values, counts = np.r_[0.0, values], np.r_[zeros, counts]
    n = int(counts.sum())
    if not n:
        return None
    ends = np.cumsum(counts)
    middle = [values[np.searchsorted(ends, at, side="right")] for at in ((n - 1) // 2, n // 2)]
    return float(sum(middle) / 2)
