"""The costs of joins and of node failures for trees.

Systems that change another system's trees by additional JOINs have the cost of joining.  The cost
of a failure depends on the node's depth, and stands beside that of a reference system; a system
computes these costs from the tables of a run (`System.failure_costs`).

References
----------
JSAC 2002, Section IV.E (the bottleneck remover: stress of joining, probes per JOIN).
P. Costa, D. Frey: Publish-Subscribe Tree Maintenance over a DHT, Section 5: "it seems likely that
the closer the host is to the root, the more hosts need to modify their routing tables".
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F

from scribe_spark.core.errors import in_series
from scribe_spark.measures import distributions, measure, stress
from scribe_spark.multicast import FAILURES as COSTS
from scribe_spark.multicast import conformed, refuse
from scribe_spark.runtime.batches import Batches
from scribe_spark.systems.registry import System, all_systems, find_system
from scribe_spark.underlay.protocol import Underlay

# --- joins


def join_stress(
    extra: DataFrame,
    links: DataFrame,
    underlay: Underlay,
    joins_after: Mapping[str, str],
    buckets: int = 1,
) -> DataFrame:
    """Count packets per directed link while all members join, additional JOINs included.

    Joining puts the packets of a multicast on the links in the opposite direction.  `joins_after`
    has, for each system, the system whose trees it changes.
    """
    sent = extra.withColumn("merged", F.lit(False))
    added = stress.link_stress(stress.count_stress(sent, underlay, buckets)).frame
    started = F.create_map(*(F.lit(name) for pair in joins_after.items() for name in pair))
    first = extra.select("system").distinct().withColumn("first", started[F.col("system")])
    of_first = links.withColumnRenamed("system", "first").join(F.broadcast(first), "first", "inner")
    both = added.unionByName(of_first.drop("first"))
    return both.groupBy("system", "kind", "src", "dst").agg(F.sum("packets").alias("packets"))


# --- the measure


def sends_more_joins(system: System) -> bool:
    """Return True for systems that change another system's trees by additional JOINs."""
    return system.joins_after is not None


def _collect_joins(run: measure.RunTables) -> dict[str, dict[str, Any]]:
    """Return ``overloaded``, ``extra_joins`` and ``probes_per_join`` by system."""
    if "extra_joins" not in run:
        return {}
    over = {row["system"]: row["nodes"] for row in run["overloaded"].collect()}
    members = run["members"].count()
    sums = F.count(F.lit(1)).alias("joins"), F.sum("probes").alias("probes")
    rows = run["extra_joins"].groupBy("system").agg(*sums).collect()
    sent = {row["system"]: (row["joins"], row["probes"]) for row in rows}
    found = {}
    for system in run.systems:
        joins, probes = sent.get(system.name, (0, 0))
        all_joins = members + joins
        found[system.name] = {
            "overloaded": over.get(system.name),
            "extra_joins": joins,
            "probes_per_join": probes / all_joins if all_joins else None,
        }
    return found


def _packets(run: measure.RunTables) -> Batches | None:
    if "extra_joins" not in run or run.underlay is None or not run.underlay.kernel.has_links:
        return None
    joins_after = {s.name: s.joins_after for s in run.systems if s.joins_after is not None}
    if not joins_after:
        return None
    tables = run["extra_joins"], run["link_stress"]
    joining = join_stress(*tables, run.underlay, joins_after, run.buckets)
    return distributions.values_in(Batches.of(joining, ["system", "packets"]), "packets")


#: Metric -> unit, definition, note, and the systems that have it.
_JOINS: dict[str, tuple[str, str, str, Callable[[System], bool]]] = {
    "overloaded": (
        *("nodes", "Nodes that have more children than their limit at the end."),
        *("have more children than their limit", lambda system: system.limited),
    ),
    "extra_joins": (
        *("messages", "JOINs of dropped children: to siblings, and after refusals."),
        *("JOINs to siblings, and those that a refusal led to", sends_more_joins),
    ),
    "probes_per_join": (
        *("probes", "Probes / (JOINs of members and of dropped children)."),
        *("probes / (JOINs of members and of dropped children)", sends_more_joins),
    ),
}

JOINING = distributions.measure_of(
    "joining",
    [
        measure.Metric(
            *(name, unit, "IV.E", text, measure.collected("joining", name), systems, note)
        )
        for name, (unit, text, note, systems) in _JOINS.items()
    ],
    distributions.measured_distribution(
        *("join_stress", "IV.E", "packets on a directed link, when every member joins"),
        *(sends_more_joins, stress.PACKET_NUMBERS, _packets),
    ),
    collect=_collect_joins,
    early=True,
)


# --- failures


#: The first and the last depth of each row of the comparison.
_DEPTHS = ((0, 0), (1, 1), (2, 2), (3, 3), (4, 4), (5, 9), (10, 14), (15, 19), (20, None))

_COSTS = {
    "links": ("links", "Links removed or created"),
    "acting": ("hosts", "Hosts that act"),
    "messages": ("messages", "Messages"),
}

_SUMS = ("failures", *_COSTS)


def _compared(system: System) -> bool:
    return system.failures_beside is not None


def _collect_failures(run: measure.RunTables) -> dict[str, dict[int, tuple[Any, ...]]]:
    """Return system -> depth -> (failures, sums of costs), also of the reference systems."""
    wanted = {name for s in run.systems if _compared(s) for name in (s.name, s.failures_beside)}
    found = {}
    for system in run.systems:
        if system.name in wanted and system.failure_costs is not None:
            costs = conformed(system.name, "failure_costs", system.failure_costs(run), COSTS)
            rows = Batches.of(costs).frame.collect()
            found[system.name] = {row["depth"]: _sums(system.name, row) for row in rows}
    return found


def _sums(system: str, row: Row) -> tuple[int, ...]:
    """Return the sums of costs in a row of failures at one depth."""
    wrong = [name for name, value in row.asDict().items() if value is None or value < 0]
    if wrong:
        cells = [f"{name} {value}" for name, value in row.asDict().items()]
        told = f"row {in_series(cells, len(cells))}"
        fault = f"hands over failure_costs with a fault in column {wrong[0]}: {told}"
        raise refuse(system, f"{fault}: NULL or negative")
    return tuple(row[name] for name in _SUMS)


def _mean(beside: str | None, cost: str, low: int, high: int | None) -> Callable[..., Any]:
    def value(found: measure.Found, system: str) -> float | None:
        by_depth = found.collected.get("failures", {}).get(beside or system, {})
        last = math.inf if high is None else high
        mine = [of for depth, of in by_depth.items() if low <= depth <= last]
        failures = sum(of[0] for of in mine)
        return sum(of[_SUMS.index(cost)] for of in mine) / failures if failures else None

    return value


def _metrics() -> Iterator[measure.Metric]:
    others = {system.failures_beside for system in all_systems()} - {None}
    for low, high in _DEPTHS:
        name = f"{low}" if low == high else f"{low}_and_deeper" if high is None else f"{low}_{high}"
        for cost, (unit, words) in _COSTS.items():
            for other in (None, *sorted(filter(None, others))):
                beside = None if other is None else find_system(other)
                suffix = "" if beside is None else f".{beside.name}"
                whose = "the tree" if beside is None else f"a {beside.label} tree"
                yield measure.Metric(
                    f"failure.depth_{name}.{cost}{suffix}",
                    unit,
                    None,
                    f"{words} when a host at depth {name.replace('_', ' ')} of {whose} fails: mean "
                    + ("of some hosts." if beside is None else "of all, of static trees."),
                    _mean(other, cost, low, high),
                    _compared,
                )


FAILURES = measure.Measure(
    "failures", metrics=tuple(_metrics()), collect=_collect_failures, early=True
)
