"""The cost of a node failure by the node's depth, for one system and for a reference system.

A system computes these costs from the tables of a run (`System.failure_costs`).

References
----------
P. Costa, D. Frey: Publish-Subscribe Tree Maintenance over a DHT, Section 5: "it seems likely that
the closer the host is to the root, the more hosts need to modify their routing tables".
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

from pyspark.sql import Row

from scribe_spark.core.errors import in_series
from scribe_spark.measures.measure import Found, Measure, Metric, RunTables
from scribe_spark.multicast import FAILURES as COSTS
from scribe_spark.multicast import conformed, refuse
from scribe_spark.runtime.batches import Batches
from scribe_spark.systems.registry import System, all_systems, find_system

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


def _collect(run: RunTables) -> dict[str, dict[int, tuple[Any, ...]]]:
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
    def value(found: Found, system: str) -> float | None:
        by_depth = found.collected.get("failures", {}).get(beside or system, {})
        last = math.inf if high is None else high
        mine = [of for depth, of in by_depth.items() if low <= depth <= last]
        failures = sum(of[0] for of in mine)
        return sum(of[_SUMS.index(cost)] for of in mine) / failures if failures else None

    return value


def _metrics() -> Iterator[Metric]:
    others = {system.failures_beside for system in all_systems()} - {None}
    for low, high in _DEPTHS:
        name = f"{low}" if low == high else f"{low}_and_deeper" if high is None else f"{low}_{high}"
        for cost, (unit, words) in _COSTS.items():
            for other in (None, *sorted(filter(None, others))):
                beside = None if other is None else find_system(other)
                suffix = "" if beside is None else f".{beside.name}"
                whose = "the tree" if beside is None else f"a {beside.label} tree"
                yield Metric(
                    f"failure.depth_{name}.{cost}{suffix}",
                    unit,
                    None,
                    f"{words} when a host at depth {name.replace('_', ' ')} of {whose} fails: mean "
                    + ("of some hosts." if beside is None else "of all, of static trees."),
                    _mean(other, cost, low, high),
                    _compared,
                )


FAILURES = Measure("failures", metrics=tuple(_metrics()), collect=_collect, early=True)
