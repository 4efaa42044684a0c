"""The measures: node stress, link stress and delay of any multicast system, and the numbers.

One code path for all systems: what is measured is `tree_edges` and `deliveries`, and what the
underlay says of routes.  Node-level work stays in DataFrames; histograms and rows per group come
to the driver.

References
----------
JSAC 2002, Section IV.B (RAD, RMD, RDP; Figure 7), IV.C (node stress; Figures 8, 9), IV.D (link
stress; Figure 10).
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from scribe_spark.schemas import CORE, LAN_DOWN, LAN_UP, MICROSECONDS
from scribe_spark.topology.underlay import Underlay

__all__ = ["Size", "distributions", "group_delay", "link_stress", "node_stress", "numbers"]

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
    routes = (
        tree_edges.where(F.col("parent_router") != F.col("child_router"))
        .groupBy("system", tree, *ends)
        .agg(F.count(F.lit(1)).alias("packets"))
    )
    core = underlay.packets(routes).withColumn("kind", F.lit(CORE))
    return up.unionByName(down).unionByName(core.select(up.columns))


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
    groups: DataFrame, delay: DataFrame, nodes: DataFrame, links: DataFrame
) -> pd.DataFrame:
    """Histograms behind Figures 6-10: ``figure, system, measure, value, count``.

    Parameters
    ----------
    groups, delay, nodes, links : DataFrame
        `schemas.GROUPS`, `GROUP_DELAY`, `NODE_STRESS`, `LINK_STRESS`.
    """
    sizes = groups.select(
        _figure("6", "all", "group_size"),
        F.col("group").cast("double").alias("value"),
        F.col("size").alias("count"),
    )
    parts = [
        sizes,
        _histogram(delay.where(F.col("system") == "scribe"), "7", "rad"),
        _histogram(delay.where(F.col("system") == "scribe"), "7", "rmd"),
        _histogram(nodes, "8", "children_tables"),
        _histogram(nodes, "9", "children_entries"),
        _histogram(links.withColumn("link_stress", F.col("packets")), "10", "link_stress"),
    ]
    frames = [part.select("at.*", "value", "count").toPandas() for part in parts]
    together = pd.concat(frames, ignore_index=True)
    return together.sort_values(list(together.columns), ignore_index=True)


def _figure(figure: str, system: str | Column, measure: str) -> Column:
    system = F.lit(system) if isinstance(system, str) else system
    return F.struct(
        F.lit(figure).alias("figure"), system.alias("system"), F.lit(measure).alias("measure")
    ).alias("at")


def _histogram(frame: DataFrame, figure: str, measure: str) -> DataFrame:
    at = _figure(figure, F.col("system"), measure)
    value = F.col(measure).cast("double").alias("value")
    return frame.groupBy(at, value).agg(F.count(F.lit(1)).alias("count"))


# --- numbers


@dataclass(frozen=True)
class Published:
    """What is known of a number before it is measured.

    Attributes
    ----------
    unit : str
    figure : str
        Figure or section of the JSAC paper.
    paper : float or None
        The published value.
    check : str or None
        An independent simulation with perfect tables, its range over ten seeds.
    note : str or None
    """

    unit: str
    figure: str
    paper: float | None = None
    check: str | None = None
    note: str | None = None


#: Every number of a run, in the order it is told.
NUMBERS: dict[str, Published] = {
    "topology.core_delay.mean": Published("ms", "IV.A", 40.7, "39-43"),
    "topology.core_links": Published("directed links", "IV.A", 25_295, "25,294"),
    "groups.size.sum": Published("members", "6", 395_247, "395,247"),
    "groups.size.max": Published("members", "6", 100_000),
    "groups.size.min": Published("members", "6", 11),
    "pastry.hops.mean": Published("hops", "II", note="paper: less than the bound on average"),
    "pastry.hops.bound": Published("hops", "II", note="ceil(log_2^b N)"),
    "pastry.stretch": Published("x", "II.A", note="paper: between 1.59 and 2.2"),
    "pastry.table_entries.mean": Published("per node", "II"),
    "scribe.rad.median": Published("x", "7", 1.68, "1.46-1.50"),
    "scribe.rad.max": Published("x", "7", 2.0, "2.8-3.9"),
    "scribe.rmd.median": Published("x", "7", 1.69, "1.36-1.47"),
    "scribe.rmd.max": Published("x", "7", 4.26),
    "scribe.rdp.mean": Published("x", "IV.B", 1.81, "1.3-1.64"),
    "scribe.rdp.median": Published("x", "IV.B", 1.65),
    "scribe.rdp.below_2_25": Published("of members", "IV.B", 0.80, note="paper: more than 80 %"),
    "scribe.rdp.below_4": Published("of members", "IV.B", 0.98, note="paper: more than 98 %"),
    "scribe.rdp.below_1": Published("of members", "IV.B", 0.022),
}


def _stress_numbers() -> dict[str, Published]:
    known = {}
    for measure, figure, ours in (
        (
            "children_tables",
            "8",
            {"mean": (2.4, "2.31-2.33"), "median": (2, "2"), "max": (40, "20-25")},
        ),
        (
            "children_entries",
            "9",
            {"mean": (6.2, "6.15-6.17"), "median": (3, "3"), "max": (1059, "250-470")},
        ),
    ):
        for kind, (paper, check) in ours.items():
            known[f"scribe.{measure}.{kind}"] = Published("per node", figure, paper, check)
        for kind in ours:
            known[f"naive_unicast.{measure}.{kind}"] = Published("per node", figure)
    for system, packets, mean, median, most in (
        ("scribe", (2_489_824, "2.21-2.23 M"), 2.4, 0, (4031, "2500-2850")),
        ("ip_multicast", (758_853, "757-760 k"), 0.7, 0, (950, "467-679")),
        ("naive_unicast", (), None, None, ()),
    ):
        known[f"{system}.messages"] = Published("packets", "10", *packets)
        known[f"{system}.link_stress.mean"] = Published("per slot", "10", mean)
        known[f"{system}.link_stress.median"] = Published("per slot", "10", median)
        known[f"{system}.link_stress.mean_existing"] = Published("per link", "10")
        known[f"{system}.link_stress.median_existing"] = Published("per link", "10")
        known[f"{system}.link_stress.max"] = Published("per link", "10", *most)
    known["links.existing"] = Published("directed links", "10")
    known["links.paper_slots"] = Published("directed links", "10", 1_035_295)
    return known


NUMBERS |= _stress_numbers()


def numbers(
    size: Size,
    spread: pd.DataFrame,
    rdps: dict[str, dict[str, float | None]],
    routes: pd.DataFrame,
    core_delay_ms: float | None,
    b: int,
    table_entries: int | None = None,
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
    core_delay_ms : float or None
        Mean delay of core links.
    table_entries : int, optional
        Entries in the routing tables of all nodes.

    Returns
    -------
    list of dict
        ``name, value`` and the fields of :class:`Published`.
    """
    values: dict[str, Any] = {
        "topology.core_delay.mean": core_delay_ms,
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
    if table_entries is not None:
        values["pastry.table_entries.mean"] = table_entries / size.nodes
    if routes["direct_ms"].sum():
        values["pastry.stretch"] = routes["delay_ms"].sum() / routes["direct_ms"].sum()
    values |= {f"scribe.rdp.{name}": value for name, value in rdps.get("scribe", {}).items()}
    for (system, measure), rows in spread.groupby(["system", "measure"]):
        name = f"{system}.{measure}"
        total = (rows["value"] * rows["count"]).sum()
        values[f"{name}.max"] = rows["value"].max()
        if measure == "link_stress":
            values[f"{name}.mean"] = total / size.paper_slots
            values[f"{name}.median"] = _median(rows, size.paper_slots)
            values[f"{name}.mean_existing"] = total / size.existing_links
            values[f"{name}.median_existing"] = _median(rows, size.existing_links)
            values[f"{system}.messages"] = total
        else:
            values[f"{name}.mean"] = total / rows["count"].sum()
            values[f"{name}.median"] = _median(rows)
    return [
        {"name": name, "value": _plain(values.get(name)), **dataclasses.asdict(known)}
        for name, known in NUMBERS.items()
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
