"""Latencies of publications: percentiles of deliveries, and times until members are reached.

All values are integers, in thousandths of a ms or of a hop.  Percentile q of n values is the
nearest rank, the ceil(q n / 100)-th smallest value.  There is no interpolation, so results do not
depend on the order of rows, the number of buckets or the engine.

In a run, the deliveries of a group meet in one bucket, which sorts their latencies.  The driver
receives a row for each publication and the counts of latencies.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql.types import DoubleType

from scribe_spark.core.arrays import sums_at, whole_numbers
from scribe_spark.core.histogram import Histogram, add_counts
from scribe_spark.core.keys import order_of
from scribe_spark.engine.exchange import count_in_buckets, send
from scribe_spark.engine.packing import Columns, take
from scribe_spark.measures import measure
from scribe_spark.measures.within import DOWN, NEVER, NODE, REPLY, WEIGHT, Asked, Sources
from scribe_spark.multicast import HOPS
from scribe_spark.runtime.batches import Batches, by_text
from scribe_spark.schemas import LATENCY, LATENCY_COUNTS, ROWS, joined_columns
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
    group: np.ndarray,
    latency: np.ndarray,
    groups: np.ndarray,
    expected: np.ndarray,
    asked: Asked | None = None,
    came: Columns | None = None,
    due: Columns | None = None,
) -> dict[str, np.ndarray]:
    """Return statistics of each publication, sorted by group: int64 columns.

    `group` and `latency` have a row for each delivery, in any order; `groups` (ascending) have
    `expected` receivers.  The columns are ``group, expected, reached, total, mean, p50, p90, p95,
    p99, max, t50, t90, t95, t99, t100``, with times in thousandths; ``total`` is the sum of the
    latencies, and ``mean`` is rounded to the nearest integer.  ``tX`` is the time until X % of the
    expected receivers have the publication, or `NEVER`.  With questions (`asked`), there are also
    the columns of `Asked.columns`, from further columns of deliveries (`came`) and groups (`due`).
    """
    order = order_of(group, latency)
    group, latency = group[order], latency[order]
    first, end = (np.searchsorted(group, groups, side) for side in ("left", "right"))
    reached = end - first
    sums = np.r_[0, np.cumsum(latency)]

    def ranked(rank: np.ndarray) -> np.ndarray:
        there = (rank > 0) & (rank <= reached)
        found = np.full(len(groups), NEVER, dtype=np.int64)
        found[there] = latency[(first + rank - 1)[there]]
        return found

    total, some = sums[end] - sums[first], np.maximum(reached, 1)
    answers = dict[str, np.ndarray]()
    if asked is not None:
        more = take(came or {}, order)
        answers = asked.columns(latency, first, end, more, {"expected": expected, **(due or {})})
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


def add_expected(group: np.ndarray, expected: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the distinct groups, ascending, and the sum of `expected` for each."""
    groups, which = np.unique(group, return_inverse=True)
    return groups, sums_at(which, expected, len(groups))


def latency_numbers(latencies: Histogram) -> dict[str, float]:
    """Return mean and percentiles over deliveries in ms or hops, from counts in thousandths."""
    n = latencies.total
    if not n:
        return {}
    mean = (2 * int(latencies.sum) + n) // (2 * n)
    ends = {name: latencies.nearest_rank(q) for name, q in ARRIVED.items()}
    found = {"mean": float(mean), **ends, "max": latencies.max}
    return {name: value / THOUSANDTHS for name, value in found.items() if value is not None}


def coverage_numbers(publications: Mapping[str, np.ndarray]) -> dict[str, float]:
    """Return percentiles over publications of the times to reach shares of members, in ms or hops.

    A publication that never reaches a share counts as later than all others.  Percentiles at such
    publications are left out.
    """
    found = {}
    for x in COVERAGES:
        times = publications[f"t{x}"]
        known = np.sort(times[times != NEVER])
        for name, q in OVER_PUBLICATIONS.items():
            rank = int(rank_of(q, len(times)))
            if 0 < rank <= len(known):
                found[f"{x}.{name}"] = int(known[rank - 1]) / THOUSANDTHS
    return found


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

#: The prefixes of the tables that buckets return; system and unit follow.
_PUBLICATIONS, _COUNTS = "publications", "counts"


#: The latencies of each (system, unit).
BySystem = Mapping[tuple[str, str], Latencies]


def collect_latencies(
    deliveries: Batches,
    systems: Iterable[str],
    by_hops: Iterable[str] = (),
    buckets: int = 1,
    asked: Asked | None = None,
    sources: Sources | None = None,
) -> dict[tuple[str, str], Latencies]:
    """Collect the latencies of systems; those of `by_hops` also in hops.

    The expected receivers are those that IP multicast reaches: all members except the source.  A
    system has a row for each publication, even if the publication reaches nobody.  With a column
    ``publication``, the column ``group`` of the result contains publications.
    """
    message = measure.PUBLICATION if measure.PUBLICATION in deliveries.schema.names else "group"
    base, counted_in_hops = _name(baseline().name, MS), frozenset(by_hops)
    names = [_name(system, MS) for system in systems]
    names += [_name(system, IN_HOPS) for system in counted_in_hops]

    def spread(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for system, batch in by_text(batches, "system"):
            group = batch.column(message).to_numpy()
            in_ms = np.rint(batch.column("delay_ms").to_numpy() * THOUSANDTHS).astype(np.int64)
            columns = {"group": group, "latency": in_ms}
            if asked is not None:
                node = batch.column("node").to_numpy()
                columns |= _of_deliveries(asked, sources, group, in_ms, node)
            yield from send(buckets, _name(system, MS), group, columns)
            if system in counted_in_hops:
                hops = batch.column("hops").to_numpy().astype(np.int64) * THOUSANDTHS
                columns = {"group": group, "latency": hops}
                yield from send(buckets, _name(system, IN_HOPS), group, columns)

    more = (WEIGHT, REPLY, NODE) if asked is not None else ()
    nothing = dict.fromkeys(("group", "latency", *more), whole_numbers())

    def sort(came: dict[str, Columns]) -> Iterator[tuple[str, Columns]]:
        if base not in came:
            return
        groups, expected = np.unique(came[base]["group"], return_counts=True)
        due = _of_publications(came[base], groups, sources, asked)
        for name in names:
            columns = dict(came.get(name, nothing))
            group, latency = columns.pop("group"), columns.pop("latency")
            of = (asked, columns, due) if name.endswith(f" {MS}") else ()
            rows = publication_latencies(group, latency, groups, expected, *of)
            yield f"{_PUBLICATIONS} {name}", rows
            yield f"{_COUNTS} {name}", count_values(latency)

    tables = count_in_buckets(deliveries.then(spread, ROWS), buckets, sort)
    found = {}
    for name, rows in tables.items():
        kind, system, unit = name.split(" ")
        if kind == _PUBLICATIONS:
            nobody = {"value": whole_numbers(), "count": whole_numbers()}
            counts = tables.get(f"{_COUNTS} {system} {unit}", nobody)
            found[system, unit] = Latencies.of(take(rows, np.argsort(rows["group"])), counts)
    return found


def _of_deliveries(
    asked: Asked,
    sources: Sources | None,
    publication: np.ndarray,
    latency: np.ndarray,
    node: np.ndarray,
) -> Columns:
    """Return weight, node and time of the reply of each delivery, as far as `asked` needs these."""
    if sources is None or asked.replies is None or asked.replies.router_of is None:
        return asked.of_deliveries(latency, node, whole_numbers, whole_numbers)
    source, router_of = sources.of(publication), asked.replies.router_of
    return asked.of_deliveries(latency, node, partial(router_of, node), partial(router_of, source))


def _of_publications(
    expected: Columns, groups: np.ndarray, sources: Sources | None, asked: Asked | None
) -> Columns:
    """Return the columns of publications that questions about coverage need."""
    due = dict[str, np.ndarray]()
    if WEIGHT in expected:
        _, due[WEIGHT] = add_expected(expected["group"], expected[WEIGHT])
    replies = None if asked is None else asked.replies
    if replies is not None and replies.router_of is not None and sources is not None:
        source = sources.of(groups)
        due[DOWN] = replies.down_us(source, replies.router_of(source))
    return due


def _name(system: str, unit: str) -> str:
    return f"{system} {unit}"


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
    sources = _sources(run) if asked is not None and asked.replies is not None else None
    deliveries = run.batches("deliveries", columns)
    found = collect_latencies(deliveries, systems, by_hops, run.buckets, asked, sources)
    if asked is None or not asked.several:
        return found
    published = measure.publications_of(run)
    assert published is not None
    for of in found.values():
        of.publications[GROUP_OF] = published.group[of.publications["group"]]
    return found


def _sources(run: measure.RunTables) -> Sources:
    """Return the sources of publications: by the schedule, or the roots of IP multicast's trees."""
    if measure.SCHEDULE in run:
        rows = run.collect(measure.SCHEDULE, [measure.PUBLICATION, "node"]).sort_by(
            measure.PUBLICATION
        )
        return Sources(rows.column(measure.PUBLICATION).to_numpy(), rows.column("node").to_numpy())
    tops = run.batches("tree_edges", ["system", "group", "parent"])
    tops = tops.among("system", [baseline().name]).then(_distinct_tops, _TOPS)
    found = tops.to_arrow()
    group, first = np.unique(found.column("group").to_numpy(), return_index=True)
    return Sources(group, found.column("parent").to_numpy()[first])


_TOPS = "`group` bigint, parent bigint"


def _distinct_tops(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield each group of a batch once, with its source: the parent in a tree of IP multicast."""
    for batch in batches:
        group, first = np.unique(batch.column("group").to_numpy(), return_index=True)
        parent = batch.column("parent").to_numpy()[first]
        yield pa.RecordBatch.from_pydict({"group": group, "parent": parent})


def _number(unit: str, name: str) -> Callable[[measure.Found, str], float | None]:
    def value(found: measure.Found, system: str) -> float | None:
        latencies = found.collected.get("latency", {}).get((system, unit))
        return None if latencies is None else latencies.numbers.get(name)

    return value


def _reached(found: measure.Found, system: str) -> float | None:
    latencies = found.collected.get("latency", {}).get((system, MS))
    return None if latencies is None else latencies.reached


_REACHED = measure.Metric(
    "reached",
    "of members",
    None,
    "Share of the members except sources that get the message, over all publications.",
    _reached,
    measure.every_system,
)

#: The words of definitions for each statistic over all deliveries.
_OVER_DELIVERIES = {
    "mean": "Mean",
    **{name: f"The {q}th percentile (nearest rank) of the" for name, q in ARRIVED.items()},
    "max": "Maximum",
}

_WORDS = {"median": "Median", "p95": "The 95th percentile"}


def _metrics_in(unit: str, systems: Callable[[System], bool]) -> tuple[measure.Metric, ...]:
    """Return the metrics of latencies in one unit."""
    latency, time = latency_names(unit)
    what = "hops from the source" if unit == IN_HOPS else "time from the publication"
    of = [
        measure.Metric(
            f"{latency}.{name}",
            unit,
            None,
            f"{words} {what} to a first copy, over all deliveries.",
            _number(unit, name),
            systems,
        )
        for name, words in _OVER_DELIVERIES.items()
    ]
    of += [
        measure.Metric(
            f"{time}_{x}.{name}",
            unit,
            None,
            f"{words} (nearest rank), over publications, of the {what} until {x} % of the members "
            "except the source have it; absent if never.",
            _number(unit, f"{x}.{name}"),
            systems,
        )
        for x in COVERAGES
        for name, words in ((name, _WORDS[name]) for name in OVER_PUBLICATIONS)
    ]
    return tuple(of)


LATENCY_MEASURE = measure.Measure(
    "latency",
    collect=_collect,
    early=True,
    metrics=(
        _REACHED,
        *_metrics_in(MS, measure.every_system),
        *_metrics_in(IN_HOPS, lambda system: system.may_go_by_hops),
    ),
)
