"""Coverage within deadlines, and quorums: metrics that the config adds, and their tables.

The answers are columns of the rows of `latency.publication_latencies`, for runs and rounds alike.

References
----------
docs/rules.md, X1 to X6.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from scribe_spark.core.units import parse_time
from scribe_spark.engine.exchange import add_rows
from scribe_spark.engine.packing import Columns
from scribe_spark.measures.latency import (
    GROUP_OF,
    MS,
    THOUSANDTHS,
    BySystem,
    Latencies,
    number_of_latencies,
    percentile,
    rank_of,
)
from scribe_spark.measures.measure import Found, Measure, Metric, ScheduledMessages, every_system
from scribe_spark.measures.within import NEVER, NOBODY, Asked, within_column
from scribe_spark.schemas import COVERAGE as COVERAGE_TABLE
from scribe_spark.schemas import QUORUMS, joined_columns

if TYPE_CHECKING:  # not on executors
    from scribe_spark.config.coverage import CoverageConfig

#: The metrics of this module, without the system.
_NAMES = re.compile(
    r"within_\d+(us|ms|s)(\.weight)?(\.groups)?(\.(median|min))?"
    r"|(quorum|replies)\.(median|p99|max|never)"
)


def is_of_coverage(metric: str) -> bool:
    """Return True for the metric of a system that this module defines."""
    return _NAMES.fullmatch(metric.partition(".")[2]) is not None


# --- metrics


#: A number of the rows of a system's publications (`publication_latencies`).
_Number = Callable[[Columns], float | None]


def _of_rows(number: _Number) -> Callable[[Found, str], float | None]:
    """Return the function of a metric: a number of the rows of a system's publications."""

    def of(latencies: Latencies) -> float | None:
        rows = latencies.publications
        return number(rows) if len(rows["expected"]) else None

    return number_of_latencies(MS, of)


def _share(within: str, expected: str, rows: Columns) -> float | None:
    """Return the share within a deadline of all expected receivers; both are columns."""
    whole = int(rows[expected].sum())
    return int(rows[within].sum()) / whole if whole else None


def _share_of_each(
    within: str, expected: str, q: int, by_group: bool, rows: Columns
) -> float | None:
    """Return percentile q (0: least) of the shares of publications, or of groups."""
    counts = {name: rows[name] for name in (within, expected)}
    if by_group:
        counts = add_rows((within, expected), {**counts, GROUP_OF: rows[GROUP_OF]}, GROUP_OF)
    some = counts[expected] > 0
    shares = np.sort(counts[within][some] / counts[expected][some])
    return float(shares[max(int(rank_of(q, len(shares))), 1) - 1]) if len(shares) else None


def _time(column: str, q: int, rows: Columns) -> float | None:
    """Return percentile q of the times in a column; None if that publication never has it."""
    return percentile(rows[column][rows[column] != NOBODY], q)


def _never(column: str, rows: Columns) -> float:
    """Return the number of publications with NEVER in a column."""
    return float(np.count_nonzero(rows[column] == NEVER))


#: The statistics over publications or groups: name -> percentile, words.
_OF_SHARES = {"median": (50, "Median (nearest rank)"), "min": (0, "Minimum")}
_OF_TIMES = {
    "median": (50, "Median (nearest rank)"),
    "p99": (99, "The 99th percentile (nearest rank)"),
    "max": (100, "Maximum"),
}


def _metrics(coverage: CoverageConfig, several: bool) -> Iterator[Metric]:
    """Yield the metrics of each deadline and of the quorum of a config."""

    def metric(name: str, unit: str, definition: str, of: Callable, *given: Any) -> Metric:
        value = _of_rows(partial(of, *given))
        return Metric(name, unit, None, definition, value, every_system)

    kinds = [("", False, "of members", "the members except sources")]
    if coverage.weights:
        kinds.append((".weight", True, "of weight", "the weight of the members except sources"))
    for index, deadline in enumerate(coverage.deadline):
        for end, weighted, unit, whole in kinds:
            name = f"within_{deadline}{end}"
            of = within_column(index, weighted), "expected_weight" if weighted else "expected"
            what = f"share of {whole} that has the publication within {deadline}"
            text = f"S{what[1:]}, over all publications; who never gets it counts as missed."
            yield metric(name, unit, text, _share, *of)
            for beside in ("publications", "groups")[: 1 + several]:
                by = ".groups" if beside == "groups" else ""
                for statistic, (q, words) in _OF_SHARES.items():
                    text = f"{words}, over {beside}, of the {what}."
                    share = _share_of_each, *of, q, bool(by)
                    yield metric(f"{name}{by}.{statistic}", unit, text, *share)
    texts = {
        "quorum": "time until nodes with the quorum of the weight have the publication",
        "replies": "time until the source has the answers of a quorum",
    }
    asked = {"quorum": coverage.quorum is not None, "replies": coverage.replies}
    for column in (name for name, is_asked in asked.items() if is_asked):
        what = texts[column]
        for statistic, (q, words) in _OF_TIMES.items():
            text = f"{words}, over publications, of the {what}; absent if never."
            yield metric(f"{column}.{statistic}", MS, text, _time, column, q)
        text = f"Number of publications without a {what}."
        yield metric(f"{column}.never", "publications", text, _never, column)


def coverage_metrics(coverage: CoverageConfig, several: bool) -> tuple[Metric, ...]:
    """Return the metrics of coverage of a config; with `several` publications, also over groups."""
    return tuple(_metrics(coverage, several))


def coverage_units(coverage: CoverageConfig, several: bool) -> dict[str, str]:
    """Return the units of a config's metrics of coverage, by name without the system."""
    return {metric.name: metric.unit for metric in coverage_metrics(coverage, several)}


COVERAGE = Measure(
    "coverage",
    metrics_in=lambda config: coverage_metrics(config.coverage, config.bandwidth.several),
)


# --- tables


def coverage_tables(
    found: BySystem, asked: Asked, names: Callable[[Columns], tuple[np.ndarray, np.ndarray]]
) -> dict[str, pa.Table]:
    """Return the tables ``coverage`` and ``quorums``, if the config asks for these.

    The function `names` returns, for rows of publications, the numbers of groups and publications.
    """
    tables, rows = dict[str, pa.Table](), []
    for system, of in ((name, of.publications) for (name, unit), of in found.items() if unit == MS):
        group, publication = names(of)
        rows.append(({"system": system, "group": group, "publication": publication}, of))
    if asked.config.deadline:
        parts = (
            named | _within(of, index, deadline, asked)
            for named, of in rows
            for index, deadline in enumerate(asked.config.deadline)
        )
        tables["coverage"] = joined_columns(parts, COVERAGE_TABLE)
    if asked.config.quorum is not None:
        times = (
            named | {f"{name}_ms": _in_ms(of.get(name)) for name in ("quorum", "replies")}
            for named, of in rows
        )
        tables["quorums"] = joined_columns(times, QUORUMS)
    return tables


def tables_of_run(
    found: BySystem, asked: Asked, published: ScheduledMessages | None
) -> dict[str, pa.Table]:
    """Return the tables of coverage of a run, of `published` or of one publication a group."""

    def names(rows: Columns) -> tuple[np.ndarray, np.ndarray]:
        of = rows["group"]
        return (of, np.zeros_like(of)) if published is None else (published.group[of], of)

    return coverage_tables(found, asked, names)


def _within(rows: Columns, index: int, deadline: str, asked: Asked) -> dict[str, Any]:
    """Return the columns of the table ``coverage`` for a deadline and its index."""
    weights: dict[str, Any] = dict.fromkeys(("expected_weight", "within_weight"))
    if asked.weights is not None:
        unit = float(asked.weights.unit)
        weights["expected_weight"] = rows["expected_weight"] * unit
        weights["within_weight"] = rows[within_column(index, weighted=True)] * unit
    return {
        "deadline_ms": np.full(len(rows["expected"]), parse_time(deadline) / THOUSANDTHS),
        **{"expected": rows["expected"], "within": rows[within_column(index)]},
        **weights,
    }


def _in_ms(times_us: np.ndarray | None) -> pa.Array | None:
    """Return times in ms; NULL for never."""
    return None if times_us is None else pa.array(times_us / THOUSANDTHS, mask=times_us < 0)
