"""Coverage within deadlines, and quorums: metrics that the config adds, and their tables.

The answers are columns of the rows of `latency.publication_latencies`, for runs and rounds alike.

References
----------
docs/rules.md, X1 to X6.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema

from scribe_spark.core.units import parse_time
from scribe_spark.engine.exchange import add_rows
from scribe_spark.engine.packing import Columns
from scribe_spark.measures.latency import (
    GROUP_OF,
    LATENCY_MEASURE,
    MS,
    THOUSANDTHS,
    BySystem,
    rank_of,
)
from scribe_spark.measures.measure import (
    Found,
    Measure,
    Metric,
    ScheduledMessages,
    every_system,
)
from scribe_spark.measures.within import NEVER, NOBODY, Asked, within_column
from scribe_spark.schemas import COVERAGE as COVERAGE_TABLE
from scribe_spark.schemas import QUORUMS

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


def _rows_of(found: Found, system: str) -> Columns | None:
    """Return statistics of a system's publications (`publication_latencies`); None without any."""
    latencies = found.collected.get(LATENCY_MEASURE.name, {}).get((system, MS))
    rows = None if latencies is None else latencies.publications
    return rows if rows is not None and len(rows["expected"]) else None


def _share(within: str, expected: str) -> Callable[[Found, str], float | None]:
    """Return the function of a metric: the share within a deadline of all expected receivers."""

    def value(found: Found, system: str) -> float | None:
        rows = _rows_of(found, system)
        whole = 0 if rows is None else int(rows[expected].sum())
        return int(rows[within].sum()) / whole if rows is not None and whole else None

    return value


def _share_of_each(
    within: str, expected: str, q: int, by_group: bool
) -> Callable[[Found, str], float | None]:
    """Return the function of a metric: percentile q (0: least) of shares."""

    def value(found: Found, system: str) -> float | None:
        rows = _rows_of(found, system)
        if rows is None:
            return None
        counts = {name: rows[name] for name in (within, expected)}
        if by_group:
            counts = add_rows((within, expected), {**counts, GROUP_OF: rows[GROUP_OF]}, GROUP_OF)
        some = counts[expected] > 0
        shares = np.sort(counts[within][some] / counts[expected][some])
        return float(shares[max(int(rank_of(q, len(shares))), 1) - 1]) if len(shares) else None

    return value


def _time(column: str, q: int) -> Callable[[Found, str], float | None]:
    """Return the function of a metric: percentile q of the times in a column, over publications."""

    def value(found: Found, system: str) -> float | None:
        rows = _rows_of(found, system)
        if rows is None:
            return None
        times = rows[column][rows[column] != NOBODY]
        known, rank = np.sort(times[times != NEVER]), int(rank_of(q, len(times)))
        return int(known[rank - 1]) / THOUSANDTHS if 0 < rank <= len(known) else None

    return value


def _never(column: str) -> Callable[[Found, str], float | None]:
    """Return the function of a metric: the number of publications with NEVER in a column."""

    def value(found: Found, system: str) -> float | None:
        rows = _rows_of(found, system)
        return None if rows is None else float(np.count_nonzero(rows[column] == NEVER))

    return value


#: The statistics over publications or groups: name -> percentile, words.
_OF_SHARES = {"median": (50, "Median (nearest rank)"), "min": (0, "Minimum")}
_OF_TIMES = {
    "median": (50, "Median (nearest rank)"),
    "p99": (99, "The 99th percentile (nearest rank)"),
    "max": (100, "Maximum"),
}


def _metrics(coverage: CoverageConfig, several: bool) -> Iterator[Metric]:
    """Yield the metrics of each deadline and of the quorum of a config."""

    def metric(name: str, unit: str, definition: str, value: Any) -> Metric:
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
            yield metric(name, unit, text, _share(*of))
            for beside in ("publications", "groups")[: 1 + several]:
                by = ".groups" if beside == "groups" else ""
                for statistic, (q, words) in _OF_SHARES.items():
                    text = f"{words}, over {beside}, of the {what}."
                    value = _share_of_each(*of, q, bool(by))
                    yield metric(f"{name}{by}.{statistic}", unit, text, value)
    texts = {
        "quorum": "time until nodes with the quorum of the weight have the publication",
        "replies": "time until the source has the answers of a quorum",
    }
    asked = {"quorum": coverage.quorum is not None, "replies": coverage.replies}
    for column in (name for name, is_asked in asked.items() if is_asked):
        what = texts[column]
        for statistic, (q, words) in _OF_TIMES.items():
            text = f"{words}, over publications, of the {what}; absent if never."
            yield metric(f"{column}.{statistic}", MS, text, _time(column, q))
        text = f"Number of publications without a {what}."
        yield metric(f"{column}.never", "publications", text, _never(column))


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
    """Return the tables ``coverage`` and ``quorums``, if the config asks for these."""
    rows = {system: of.publications for (system, unit), of in found.items() if unit == MS}
    named = [(system, of, *names(of)) for system, of in rows.items()]
    tables = {}
    if asked.config.deadline:
        parts = [
            _table(COVERAGE_TABLE, _within(*one, index, deadline, asked))
            for one in named
            for index, deadline in enumerate(asked.config.deadline)
        ]
        tables["coverage"] = _joined(parts, COVERAGE_TABLE)
    if asked.config.quorum is not None:
        parts = [_table(QUORUMS, _times(*one)) for one in named]
        tables["quorums"] = _joined(parts, QUORUMS)
    return tables


def tables_of_run(
    found: BySystem, asked: Asked, published: ScheduledMessages | None
) -> dict[str, pa.Table]:
    """Return the tables of coverage of a run, of `published` or of one publication a group."""

    def names(rows: Columns) -> tuple[np.ndarray, np.ndarray]:
        of = rows["group"]
        return (of, np.zeros_like(of)) if published is None else (published.group[of], of)

    return coverage_tables(found, asked, names)


def _within(
    system: str,
    rows: Columns,
    group: np.ndarray,
    publication: np.ndarray,
    index: int,
    deadline: str,
    asked: Asked,
) -> dict[str, Any]:
    """Return rows of the table ``coverage``: publications of a system, and one deadline."""
    count = len(group)
    weights: dict[str, Any] = dict.fromkeys(("expected_weight", "within_weight"))
    if asked.weights is not None:
        unit = float(asked.weights.unit)
        weights["expected_weight"] = rows["expected_weight"] * unit
        weights["within_weight"] = rows[within_column(index, weighted=True)] * unit
    return {
        **{"system": [system] * count, "group": group, "publication": publication},
        "deadline_ms": np.full(count, parse_time(deadline) / THOUSANDTHS),
        **{"expected": rows["expected"], "within": rows[within_column(index)]},
        **weights,
    }


def _times(
    system: str, rows: Columns, group: np.ndarray, publication: np.ndarray
) -> dict[str, Any]:
    """Return rows of the table ``quorums``: times of a system's publications; NULL for never."""
    found: dict[str, Any] = {"system": [system] * len(group), "group": group}
    found["publication"] = publication
    for column in ("quorum", "replies"):
        times = rows.get(column)
        found[f"{column}_ms"] = (
            None if times is None else pa.array(times / THOUSANDTHS, mask=times < 0)
        )
    return found


def _table(schema: Any, columns: Mapping[str, Any]) -> pa.Table:
    kinds, rows = to_arrow_schema(schema), len(columns["group"])
    arrays = [
        pa.nulls(rows, field.type)
        if columns[field.name] is None
        else pa.array(columns[field.name], field.type)
        for field in kinds
    ]
    return pa.Table.from_arrays(arrays, schema=kinds)


def _joined(parts: Sequence[pa.Table], schema: Any) -> pa.Table:
    return pa.concat_tables(parts or [to_arrow_schema(schema).empty_table()])
