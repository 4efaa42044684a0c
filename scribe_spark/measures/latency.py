"""Latencies of publications: percentiles of deliveries, and times until members are reached.

All values are integers, in thousandths of a ms or of a hop.  Percentile q of n values is the
nearest rank, the ceil(q n / 100)-th smallest value.  There is no interpolation, so results do not
depend on the order of rows, the number of buckets or the engine.

In a run, the deliveries of a group meet in one bucket, which sorts their latencies.  The driver
receives a row for each publication and the counts of latencies.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import product
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql.types import DoubleType

from scribe_spark.core.arrays import index_sorted, whole_numbers
from scribe_spark.core.histogram import Histogram, add_counts
from scribe_spark.core.keys import order_of
from scribe_spark.engine.exchange import add_rows, count_in_buckets
from scribe_spark.engine.packing import Columns, take
from scribe_spark.measures import measure
from scribe_spark.measures.distributions import spread
from scribe_spark.measures.within import NEVER, NODE, REPLY, WEIGHT, Asked, PlacedNodes, nobody
from scribe_spark.multicast import HOPS
from scribe_spark.runtime.batches import Batches
from scribe_spark.schemas import LATENCY, LATENCY_COUNTS, joined_columns
from scribe_spark.systems.registry import System, baseline

#: The percentiles of deliveries: name -> q.
ARRIVED = {"p50": 50, "p90": 90, "p95": 95, "p99": 99}

#: The units of latencies: milliseconds, and hops for systems that use the clock of hops.
MS, IN_HOPS = UNITS = "ms", "hops"

#: The shares of the expected receivers, in percent.
COVERAGES = (50, 90, 95, 99, 100)

#: The percentiles over publications of the time until a share is reached: name -> q.
OVER_PUBLICATIONS = {"median": 50, "p95": 95}

#: The column with the groups of publications, in the rows of a schedule whose groups are asked for.
GROUP_OF = "group_of"

#: The number of thousandths (microseconds) in a millisecond or hop.
THOUSANDTHS = 1000


def latency_names(unit: str) -> tuple[str, str]:
    """Return the prefixes of the names of latencies and of times to reach a share, for a unit."""
    return ("latency_hops", "hops_to") if unit == IN_HOPS else ("latency", "time_to")


def rank_of(q: int, n: Any) -> Any:
    """Return the rank, from 1, of percentile q among n values (int or array); 0 if n is 0."""
    return -(-q * n // 100)


def publication_latencies(
    came: Columns, due: Columns, unit: str = MS, asked: Asked | None = None
) -> dict[str, np.ndarray]:
    """Return statistics of each publication, sorted by group: int64 columns.

    `came` has the ``group`` and latency (in a column `unit`) of each delivery, in any order; `due`
    the groups, ascending, with their ``expected`` receivers.  The result has the columns ``group,
    expected, reached, total, mean, p50, p90, p95, p99, max, t50, t90, t95, t99, t100``, with times
    in thousandths; ``total`` is the sum of the latencies, and ``mean`` is rounded to the nearest
    integer.  ``tX`` is the time until X % of the expected receivers have the publication, or
    `NEVER`.  With questions (`asked`), there are also the columns of `Asked.columns`, from further
    columns of `came` and `due`.
    """
    came = take(came, order_of(came["group"], came[unit]))
    latency, groups, expected = came[unit], due["group"], due["expected"]
    first, end = (np.searchsorted(came["group"], groups, side) for side in ("left", "right"))
    reached = end - first
    sums = np.r_[0, np.cumsum(latency)]

    def ranked(rank: np.ndarray) -> np.ndarray:
        there = (rank > 0) & (rank <= reached)
        found = np.full(len(groups), NEVER, dtype=np.int64)
        found[there] = latency[(first + rank - 1)[there]]
        return found

    total, some = sums[end] - sums[first], np.maximum(reached, 1)
    answers = {} if asked is None else asked.columns(latency, first, end, came, due)
    return {
        "group": groups,
        "expected": expected,
        "reached": reached,
        "total": total,
        "mean": np.where(reached > 0, (2 * total + some) // (2 * some), NEVER),
        **{name: ranked(rank_of(q, reached)) for name, q in ARRIVED.items()},
        "max": ranked(reached),
        **{f"t{x}": ranked(rank_of(x, expected)) for x in COVERAGES},
        **answers,
    }


def add_expected(due: Columns) -> dict[str, np.ndarray]:
    """Return the sums of the columns of expected receivers for each group, ascending."""
    values = tuple(name for name in due if name in ("expected", WEIGHT))
    return add_rows(values, due, "group")


#: The kinds of tables of latencies: statistics of publications, and counts of deliveries.
PUBLICATIONS, COUNTS = "publications", "counts"


def measured_latencies(
    came: Columns | None, due: Columns, units: Sequence[str], asked: Asked | None = None
) -> Iterator[tuple[str, str, Columns]]:
    """Yield the latencies of publications: the kind of table, the unit, and rows.

    `came` has a column for each unit, ``group`` and `Asked.of_deliveries` of all deliveries; `due`
    the sums of :func:`add_expected` and `Asked.of_sources` of all publications.
    """
    came = came or dict.fromkeys(("group", *units, WEIGHT, REPLY, NODE), whole_numbers())
    for unit in units:
        rows = publication_latencies(came, due, unit, asked if unit == MS else None)
        yield PUBLICATIONS, unit, rows
        yield COUNTS, unit, count_values(came[unit])


def latency_numbers(latencies: Histogram) -> dict[str, float]:
    """Return mean and percentiles over deliveries in ms or hops, from counts in thousandths."""
    n = latencies.total
    if not n:
        return {}
    mean = (2 * int(latencies.sum) + n) // (2 * n)
    ends = {name: latencies.nearest_rank(q) for name, q in ARRIVED.items()}
    found = {"mean": float(mean), **ends, "max": latencies.max}
    return {name: value / THOUSANDTHS for name, value in found.items() if value is not None}


def percentile(times: np.ndarray, q: int) -> float | None:
    """Return percentile q of times, in ms or hops; NEVER is later than all others, and None."""
    known, rank = np.sort(times[times != NEVER]), int(rank_of(q, len(times)))
    return int(known[rank - 1]) / THOUSANDTHS if 0 < rank <= len(known) else None


def coverage_numbers(publications: Mapping[str, np.ndarray]) -> dict[str, float]:
    """Return percentiles over publications of the times to reach shares of members, in ms or hops.

    Percentiles at publications that never reach a share are left out.
    """
    found = {
        f"{x}.{name}": percentile(publications[f"t{x}"], q)
        for x, (name, q) in product(COVERAGES, OVER_PUBLICATIONS.items())
    }
    return {name: time for name, time in found.items() if time is not None}


def count_values(values: np.ndarray) -> dict[str, np.ndarray]:
    """Return how often each value occurs: ``value, count``."""
    value, count = np.unique(values, return_counts=True)
    return {"value": value, "count": count}


@dataclass(frozen=True)
class Latencies:
    """The latencies of a system in one unit (ms or hops)."""

    #: The rows of `publication_latencies`.
    publications: dict[str, np.ndarray]
    #: The number of deliveries with each latency, in thousandths of the unit.
    counts: Histogram

    @classmethod
    def of(cls, publications: Columns, counted: Columns) -> Latencies:
        """Return latencies from rows of `publication_latencies` and of `count_values`."""
        return cls(dict(publications), add_counts(counted["value"], counted["count"]))

    @property
    def reached(self) -> float | None:
        """The share of the expected receivers that are reached; None if nobody is expected."""
        expected = int(self.publications["expected"].sum())
        return int(self.publications["reached"].sum()) / expected if expected else None

    @cached_property
    def numbers(self) -> dict[str, float]:
        """Statistics by name: over deliveries (``p50``) and over publications (``50.median``)."""
        return latency_numbers(self.counts) | coverage_numbers(self.publications)


# --- the deliveries of a run

#: The columns of `deliveries` that are needed for latencies.
LATENCY_COLUMNS = ["system", "group", "hops", "delay_ms"]

#: The latencies of each (system, unit).
BySystem = Mapping[tuple[str, str], Latencies]


def collect_latencies(
    deliveries: Batches,
    systems: Iterable[str],
    by_hops: Iterable[str] = (),
    buckets: int = 1,
    asked: Asked | None = None,
    sources: Callable[[np.ndarray], PlacedNodes] = nobody,
) -> dict[tuple[str, str], Latencies]:
    """Collect the latencies of systems; those of `by_hops` also in hops.

    The expected receivers are those that IP multicast reaches: all members except the source.  A
    system has a row for each publication, even if the publication reaches nobody.  With a column
    ``publication``, the column ``group`` of the result contains publications.
    """
    message = measure.PUBLICATION if measure.PUBLICATION in deliveries.schema.names else "group"
    in_hops, base = frozenset(by_hops), baseline().name

    def rows_of(system: str, batch: pa.RecordBatch) -> Iterator[tuple[str, np.ndarray, Columns]]:
        group, delay_ms = (batch.column(name).to_numpy() for name in (message, "delay_ms"))
        rows = {"group": group, MS: np.rint(delay_ms * THOUSANDTHS).astype(np.int64)}
        if system in in_hops:
            rows |= {IN_HOPS: batch.column("hops").to_numpy().astype(np.int64) * THOUSANDTHS}
        if asked is not None:
            node = batch.column("node").to_numpy()
            rows |= asked.of_deliveries(rows[MS], asked.nodes(node), sources(group))
        yield system, group, rows

    def measured(come: dict[str, Columns]) -> Iterator[tuple[str, Columns]]:
        if base not in come:
            return
        of = come[base]
        due = {"group": of["group"], "expected": np.ones_like(of["group"])}
        due = add_expected(due | ({WEIGHT: of[WEIGHT]} if WEIGHT in of else {}))
        if asked is not None:
            due |= asked.of_sources(sources(due["group"]))
        for system in systems:
            units = UNITS if system in in_hops else (MS,)
            for kind, unit, rows in measured_latencies(come.get(system), due, units, asked):
                yield f"{kind} {system} {unit}", rows

    tables = count_in_buckets(spread(deliveries, buckets, rows_of), buckets, measured)
    found, none = {}, count_values(whole_numbers())
    for name, rows in tables.items():
        kind, system, unit = name.split(" ")
        if kind == PUBLICATIONS:
            counts = tables.get(f"{COUNTS} {system} {unit}", none)
            found[system, unit] = Latencies.of(take(rows, np.argsort(rows["group"])), counts)
    return found


def systems_below_all(found: BySystem) -> list[str]:
    """Return the systems that reach fewer than all expected receivers."""
    shares = {system: of.reached for (system, unit), of in found.items() if unit == MS}
    return [system for system, share in shares.items() if share is not None and share < 1]


def latency_rows(
    found: BySystem, publication: int = 0, published: measure.ScheduledMessages | None = None
) -> pa.Table:
    """Return `schemas.LATENCY` of one publication per group, or of a schedule's publications."""
    parts = []
    for (system, unit), latencies in found.items():
        rows = latencies.publications
        columns: dict[str, Any] = {**rows, "system": system, "unit": unit}
        columns["publication"] = np.full(len(rows["group"]), publication)
        if published is not None:
            columns |= {"publication": rows["group"], "group": published.group[rows["group"]]}
        for name in _TIMES:
            columns[name] = pa.array(rows[name] / THOUSANDTHS, mask=rows[name] == NEVER)
        parts.append(columns)
    return joined_columns(parts, LATENCY)


#: The columns of `schemas.LATENCY` with times or hops.
_TIMES = [field.name for field in LATENCY if isinstance(field.dataType, DoubleType)]


def latency_counts(found: BySystem) -> pa.Table:
    """Return `schemas.LATENCY_COUNTS`: counts of latencies rounded up to whole ms or hops."""
    parts = []
    for (system, unit), latencies in found.items():
        values = np.ceil(latencies.counts.values / THOUSANDTHS)
        whole = add_counts(values, latencies.counts.counts)
        named = {"system": system, "unit": unit}
        parts.append({**named, "value": whole.values, "count": whole.counts})
    return joined_columns(parts, LATENCY_COUNTS)


# --- the measure


def _collect(run: measure.RunTables) -> dict[tuple[str, str], Latencies]:
    by_hops = [
        system.name
        for system in run.systems
        if system.may_go_by_hops and system.clock_of(run.config) == HOPS
    ]
    asked, systems = run.asked, [system.name for system in run.systems]
    columns = measure.with_publication(run, *LATENCY_COLUMNS, *(() if asked is None else ("node",)))
    deliveries = run.batches("deliveries", columns)
    given = by_hops, run.buckets, asked, _sources_of(run)
    found = collect_latencies(deliveries, systems, *given)
    if asked is None or not asked.several:
        return found
    published = measure.publications_of(run)
    assert published is not None  # `several` needs a schedule
    for of in found.values():
        of.publications[GROUP_OF] = published.group[of.publications["group"]]
    return found


def _sources_of(run: measure.RunTables) -> Callable[[np.ndarray], PlacedNodes]:
    """Return the function that returns the sources of publications, if answers are asked for.

    They are those of the schedule, or the roots of IP multicast's trees.
    """
    if run.asked is None or run.asked.replies is None:
        return nobody
    if (published := measure.publications_of(run)) is not None:
        message, source = np.arange(len(published.source)), published.source
    else:
        tops = run.batches("tree_edges", ["system", "group", "parent"])
        tops = tops.among("system", [baseline().name]).then(_distinct_tops, _TOPS)
        found = tops.to_arrow()
        message, first = np.unique(found.column("group").to_numpy(), return_index=True)
        source = found.column("parent").to_numpy()[first]
    return partial(_sources, run.asked, message, source)


def _sources(asked: Asked, message: np.ndarray, source: np.ndarray, of: np.ndarray) -> PlacedNodes:
    return asked.nodes(source[index_sorted(message, of)])


_TOPS = "`group` bigint, parent bigint"


def _distinct_tops(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield each group of a batch once, with its source: the parent in a tree of IP multicast."""
    for batch in batches:
        group, first = np.unique(batch.column("group").to_numpy(), return_index=True)
        parent = batch.column("parent").to_numpy()[first]
        yield pa.RecordBatch.from_pydict({"group": group, "parent": parent})


def number_of_latencies(unit: str, of: Callable[[Latencies], float | None]) -> measure.Value:
    """Return the function of a metric: a number of a system's latencies in a unit."""

    def value(found: measure.Found, system: str) -> float | None:
        latencies = found.collected.get("latency", {}).get((system, unit))
        return None if latencies is None else of(latencies)

    return value


#: The words of definitions for each statistic over all deliveries, and over publications.
_OVER_DELIVERIES = {
    "mean": "Mean",
    **{name: f"The {q}th percentile (nearest rank) of the" for name, q in ARRIVED.items()},
    "max": "Maximum",
}
_WORDS = {"median": "Median", "p95": "The 95th percentile"}


def _metrics_in(unit: str, systems: Callable[[System], bool]) -> Iterator[measure.Metric]:
    """Yield the metrics of latencies in one unit."""
    latency, time = latency_names(unit)
    what = "hops from the source" if unit == IN_HOPS else "time from the publication"
    rows = {
        name: (f"{latency}.{name}", f"{words} {what} to a first copy, over all deliveries.")
        for name, words in _OVER_DELIVERIES.items()
    }
    for x, (name, words) in product(COVERAGES, _WORDS.items()):
        text = (
            f"{words} (nearest rank), over publications, of the {what} until {x} % of the members "
            "except the source have it; absent if never."
        )
        rows[f"{x}.{name}"] = f"{time}_{x}.{name}", text
    for key, (name, text) in rows.items():
        value = number_of_latencies(unit, partial(_number, key))
        yield measure.Metric(name, unit, None, text, value, systems)


def _number(name: str, latencies: Latencies) -> float | None:
    return latencies.numbers.get(name)


_REACHED = "Share of the members except sources that get the message, over all publications."

LATENCY_MEASURE = measure.Measure(
    "latency",
    collect=_collect,
    early=True,
    metrics=(
        measure.Metric(
            *("reached", "of members", None, _REACHED),
            *(number_of_latencies(MS, lambda latencies: latencies.reached), measure.every_system),
        ),
        *_metrics_in(MS, measure.every_system),
        *_metrics_in(IN_HOPS, lambda system: system.may_go_by_hops),
    ),
)
