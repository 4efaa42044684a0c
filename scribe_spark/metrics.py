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

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from scribe_spark import schemas
from scribe_spark.schemas import CORE, LAN_DOWN, LAN_UP, MICROSECONDS
from scribe_spark.topology.underlay import MatrixUnderlay

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


def link_stress(tree_edges: DataFrame, load: DataFrame, underlay: MatrixUnderlay) -> DataFrame:
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


def numbers(
    size: Size,
    spread: pd.DataFrame,
    rdps: dict[str, dict[str, float | None]],
    routes: pd.DataFrame,
    core_delay_ms: float | None,
    b: int,
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

    Returns
    -------
    list of dict
        ``name, value, unit, paper, figure``, and ``check``: what an independent simulation with
        perfect tables gave (range over ten seeds), ``note``.
    """
    out: list[dict[str, Any]] = []

    def say(name, value, unit="", paper=None, figure=None, check=None, note=None):
        finite = value is not None and math.isfinite(value)
        value = (int(value) if float(value).is_integer() else float(value)) if finite else None
        row = {"name": name, "value": value, "unit": unit, "paper": paper, "figure": figure}
        out.append(row | {"check": check, "note": note})

    def of(figure: str, measure: str, system: str) -> pd.DataFrame:
        rows = (spread["figure"] == figure) & (spread["measure"] == measure)
        return spread[rows & (spread["system"] == system)]

    # IV.A
    say("topology.core_delay.mean", core_delay_ms, "ms", 40.7, "IV.A", "39-43")
    say("topology.core_links", size.core_links, "directed links", 25_295, "IV.A", "25,294")
    sizes = of("6", "group_size", "all")
    say("groups.size.sum", sizes["count"].sum(), "members", 395_247, "6", "395,247")
    say("groups.size.max", sizes["count"].max() if len(sizes) else None, "members", 100_000, "6")
    say("groups.size.min", sizes["count"].min() if len(sizes) else None, "members", 11, "6")

    # II: Pastry, on the routes of the CREATE messages
    bound = math.ceil(math.log(size.nodes, 2**b) - 1e-9) if size.nodes > 1 else 0
    hops = routes["hops"].mean() if len(routes) else None
    say("pastry.hops.mean", hops, "hops", bound, "II", note="the paper's bound, ceil(log_2^b N)")
    moved = routes[routes["direct_ms"] > 0]
    stretch = moved["delay_ms"].sum() / moved["direct_ms"].sum() if len(moved) else None
    say("pastry.stretch", stretch, "x", None, "II.A", note="paper: between 1.59 and 2.2")

    # IV.B
    for measure, median, most, check in (
        ("rad", 1.68, 2.0, ("1.46-1.50", "2.8-3.9")),
        ("rmd", 1.69, 4.26, ("1.36-1.47", None)),
    ):
        rows = of("7", measure, "scribe")
        say(f"scribe.{measure}.median", _median(rows), "x", median, "7", check[0])
        say(f"scribe.{measure}.max", rows["value"].max() if len(rows) else None, "x", most, "7",
            check[1])
    mine = rdps.get("scribe", {})
    for name, paper, check, note in (
        ("mean", 1.81, "1.3-1.64", None),
        ("median", 1.65, None, None),
        ("below_2_25", 0.80, None, "paper: more than 80 %"),
        ("below_4", 0.98, None, "paper: more than 98 %"),
        ("below_1", 0.022, None, None),
    ):
        unit = "share of members" if name.startswith("below") else "x"
        say(f"scribe.rdp.{name}", mine.get(name), unit, paper, "IV.B", check, note)

    # IV.C
    published = {
        "children_tables": ("8", 2.4, 2, 40, ("2.31-2.33", "2", "20-25")),
        "children_entries": ("9", 6.2, 3, 1059, ("6.15-6.17", "3", "250-470")),
    }
    for measure, (figure, mean, median, most, check) in published.items():
        for system in ("scribe", "naive_unicast"):
            rows, ours = of(figure, measure, system), system == "scribe"
            total = (rows["value"] * rows["count"]).sum()
            n = rows["count"].sum()
            say(f"{system}.{measure}.mean", total / n if n else None, "per node",
                mean if ours else None, figure, check[0] if ours else None)
            say(f"{system}.{measure}.median", _median(rows), "per node",
                median if ours else None, figure, check[1] if ours else None)
            say(f"{system}.{measure}.max", rows["value"].max() if n else None, "per node",
                most if ours else None, figure, check[2] if ours else None)

    # IV.D
    say("links.existing", size.existing_links, "directed links", None, "10")
    say("links.paper_slots", size.paper_slots, "directed links", 1_035_295, "10")
    totals = {
        "scribe": (2_489_824, 2.4, 0, 4031, ("2.21-2.23 M", "2500-2850")),
        "ip_multicast": (758_853, 0.7, 0, 950, ("757-760 k", "467-679")),
        "naive_unicast": (None, None, None, None, (None, None)),
    }
    for system, (messages, mean, median, most, check) in totals.items():
        rows = of("10", "link_stress", system)
        packets = (rows["value"] * rows["count"]).sum()
        say(f"{system}.messages", packets, "packets", messages, "10", check[0])
        say(f"{system}.link_stress.mean", packets / size.paper_slots, "per slot", mean, "10")
        say(f"{system}.link_stress.median", _median(rows, size.paper_slots), "per slot", median,
            "10")
        say(f"{system}.link_stress.mean_existing", packets / size.existing_links, "per link", None,
            "10")
        say(f"{system}.link_stress.median_existing", _median(rows, size.existing_links),
            "per link", None, "10")
        say(f"{system}.link_stress.max", rows["value"].max() if len(rows) else None, "per link",
            most, "10", check[1])
    return out


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


