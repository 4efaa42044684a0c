"""Latencies of all systems in one table."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from scribe_spark.config.bandwidth import sizes_in_words
from scribe_spark.report.comparison import experiment_of
from scribe_spark.report.series import label_of
from scribe_spark.report.style import in_order
from scribe_spark.report.text import as_text, is_number

#: Head of a column of the table -> the metric.
COLUMNS = {
    "Mean": "latency.mean",
    **{name: f"latency.{name}" for name in ("p50", "p90", "p95", "p99", "max")},
    **{f"{x} %": f"time_to_{x}.median" for x in (50, 90, 95, 99, 100)},
}

#: The metrics of latencies, without those of duplicates, which are in the other table.
_NAME = re.compile(
    r"(?P<system>\w+)\.(?P<what>(latency|latency_hops)\.\w+|(time_to|hops_to)_\d+\.\w+)"
)


@dataclass(frozen=True)
class LatencyRow:
    """The latencies of a system in one unit, as text."""

    system: str
    unit: str
    cells: list[str]


def latency_values(metrics: Sequence[Mapping[str, Any]], of: str = "") -> dict[str, Any]:
    """Return the values for the template of the table.

    Parameters
    ----------
    metrics : sequence of mappings
        ``name, value`` and, optionally, ``experiment``.
    of : str, optional
        The origin of the numbers, for the heading of the table.
    """
    return {
        "latencies": latency_rows(metrics),
        "latency_columns": list(COLUMNS),
        "latency_of": of,
    }


def links_in_words(resolved: Mapping[str, Any]) -> str:
    """Return a description of links with sizes, on which latencies depend; empty without sizes.

    Parameters
    ----------
    resolved : mapping
        The values of settings by flat name.
    """
    if resolved.get("message_size") is None and resolved.get("schedule") is None:
        return ""
    size, order, links = (resolved.get(n) for n in ("message_size", "uplink_order", "links"))
    return f": {sizes_in_words(size, order, links)}"


def latencies_of_last_round(table: pd.DataFrame, links: str = "") -> dict[str, Any]:
    """Return the values for the template from the last round that has latencies.

    Parameters
    ----------
    table : DataFrame
        A row for each round, a column for each measure.
    links : str, optional
        From :func:`links_in_words`, for the heading.
    """
    names = [name for name in table if _NAME.fullmatch(str(name))]
    some = table[names].dropna(how="all")
    if some.empty:
        return latency_values([])
    last = some.iloc[-1].dropna()
    order = in_order(str(name).partition(".")[0] for name in last.index)
    values = sorted(last.items(), key=lambda one: order.index(str(one[0]).partition(".")[0]))
    rows = [{"name": name, "value": float(value)} for name, value in values]
    return latency_values(rows, f" in round {some.index[-1]}, the last one with multicasts{links}")


def latency_rows(metrics: Iterable[Mapping[str, Any]]) -> list[LatencyRow]:
    """Return a row for each system and unit that has a latency."""
    return [
        LatencyRow(system, unit, [as_text(values.get(name)) for name in COLUMNS.values()])
        for (system, unit), values in _values(metrics).items()
    ]


def _values(
    metrics: Iterable[Mapping[str, Any]],
) -> dict[tuple[str, str], dict[str, Any]]:
    """Return metric -> value by (label, unit), for systems with a latency; names are
    those in ms.
    """
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for metric in metrics:
        match = _NAME.fullmatch(str(metric.get("name")))
        if match is None:
            continue
        name, what = match["system"], match["what"]
        unit = "hops" if what.startswith(("latency_hops", "hops_to")) else "ms"
        plain = what.replace("latency_hops", "latency").replace("hops_to", "time_to")
        experiment = experiment_of(metric)
        label = f"{experiment}. {label_of(name)}" if experiment else label_of(name)
        found.setdefault((label, unit), {})[plain] = metric.get("value")
    return {key: values for key, values in found.items() if is_number(values.get("latency.p50"))}


def without_latencies(metrics: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return the metrics that are not in that table."""
    return [metric for metric in metrics if not _NAME.fullmatch(str(metric.get("name")))]
