"""The tables of the pages: latencies, classes and regions, failures by depth, and both overlays."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from scribe_spark.config.bandwidth import sizes_in_words
from scribe_spark.report.comparison import Difference, difference, experiment_of
from scribe_spark.report.series import label_of
from scribe_spark.report.style import in_order
from scribe_spark.report.text import ABSENT, as_text, is_number, readable, share_in_percent

#: Head of a column of the table of latencies -> the metric.
LATENCIES = {
    "Members": "reached",
    "Mean": "latency.mean",
    **{name: f"latency.{name}" for name in ("p50", "p90", "p95", "p99", "max")},
    **{f"{x} %": f"time_to_{x}.median" for x in (50, 90, 95, 99, 100)},
}

#: The metrics of latencies, without those of duplicates, which are in the table of all numbers.
_LATENCY = re.compile(
    r"(?P<system>\w+)\."
    r"(?P<what>(latency|latency_hops)\.\w+|(time_to|hops_to)_\d+\.\w+|(multicasts\.)?reached)"
)

#: The costs of a failure, and their heads in the table.
COSTS = {"links": "Links changed", "acting": "Hosts that act", "messages": "Messages"}

#: The metrics of `measures.failures`.
_FAILURE = re.compile(r".*\.failure\.depth_(?P<depth>\w+)\.(?P<cost>\w+?)(?P<beside>\.\w+)?")

#: The columns of `schemas.BY_PART` that the pages show.
PART_COLUMNS = (
    *("by", "part", "system", "measure", "count"),
    *("mean", "p50", "p90", "p95", "p99", "max"),
)
_PART_PERCENTILES = ("p50", "p90", "p99")

#: The name of each overlay, and its experiment (`config.EXPERIMENTS`).
OVERLAYS = {"perfect": "main", "arrivals": "arrivals"}


def without_tables_of_their_own(metrics: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return the metrics that neither the table of latencies nor that of failures shows."""
    return [
        metric
        for metric in metrics
        if not _LATENCY.fullmatch(name := str(metric.get("name")))
        and (metric.get("experiment") or not _FAILURE.fullmatch(name))
    ]


# --- latencies


def latency_values(metrics: Sequence[Mapping[str, Any]], of: str = "") -> dict[str, Any]:
    """Return the values for the template of the table of latencies, with a row for each system
    and unit; `of` is the origin of the numbers, for the heading.
    """
    found: dict[tuple[str, str], dict[str, Any]] = {}
    reached: dict[str, Any] = {}
    for metric in metrics:
        match = _LATENCY.fullmatch(str(metric.get("name")))
        if match is None:
            continue
        what, experiment = match["what"], experiment_of(metric)
        label = label_of(match["system"])
        label = f"{experiment}. {label}" if experiment else label
        if what.endswith("reached"):
            reached[label] = metric.get("value")
            continue
        unit = "hops" if what.startswith(("latency_hops", "hops_to")) else "ms"
        plain = what.replace("latency_hops", "latency").replace("hops_to", "time_to")
        found.setdefault((label, unit), {})[plain] = metric.get("value")
    columns = [name for name in LATENCIES.values() if name != "reached"]
    rows = [
        (label, unit, [_share(reached.get(label)), *(as_text(values.get(n)) for n in columns)])
        for (label, unit), values in found.items()
        if is_number(values.get("latency.p50")) or (unit == "ms" and reached.get(label) == 0)
    ]
    return {"latencies": rows, "latency_columns": list(LATENCIES), "latency_of": of}


def _share(share: Any) -> str:
    return share_in_percent(share) if is_number(share) else ABSENT


def latencies_of_last_round(table: pd.DataFrame, links: str = "") -> dict[str, Any]:
    """Return the values for the template from the last round of a world that has latencies.

    `table` has a row for each round and a column for each measure; `links` comes from
    :func:`links_in_words`.
    """
    names = [name for name in table if _LATENCY.fullmatch(str(name))]
    timed = [name for name in names if not name.endswith("reached")]
    some = table[names][table[timed].notna().any(axis=1)]
    if some.empty:
        return latency_values([])
    last = some.iloc[-1].dropna()
    order = in_order(str(name).partition(".")[0] for name in last.index)
    values = sorted(last.items(), key=lambda one: order.index(str(one[0]).partition(".")[0]))
    rows = [{"name": name, "value": float(value)} for name, value in values]
    return latency_values(rows, f" in round {some.index[-1]}, the last one with multicasts{links}")


def links_in_words(resolved: Mapping[str, Any]) -> str:
    """Return a description of links with sizes, on which latencies depend; empty without sizes."""
    if resolved.get("message_size") is None and resolved.get("schedule") is None:
        return ""
    size, order, links = (resolved.get(n) for n in ("message_size", "uplink_order", "links"))
    return f": {sizes_in_words(size, order, links)}"


# --- classes and regions


def parts_tables(
    by_part: pd.DataFrame | None,
) -> list[tuple[str, list[str], list[tuple[str, list[str]]]]]:
    """Return a table of latencies by class of node and one by region, if nodes have these parts.

    A table is ``class`` or ``region``, the labels of the systems, and the cells of each part.
    """
    if by_part is None:
        return []
    delays = by_part[by_part["measure"] == "delay_ms"]
    tables = []
    for by, rows in delays.groupby("by", sort=True):
        systems = list(dict.fromkeys(rows["system"]))
        found = rows.set_index(["part", "system"])[[*_PART_PERCENTILES]]
        cells = [
            (
                part,
                [
                    as_text(float(found.loc[key, name])) if key in found.index else ABSENT
                    for key in ((part, system) for system in systems)
                    for name in _PART_PERCENTILES
                ],
            )
            for part in dict.fromkeys(rows["part"])
        ]
        tables.append((str(by), [label_of(system) for system in systems], cells))
    return tables


# --- failures of the reference tree


def failure_rows(metrics: Iterable[Mapping[str, Any]]) -> list[tuple[str, list[str]]]:
    """Return a row for each depth at which hosts of the reference tree failed: the depth, and
    for each of :data:`COSTS` the mean of the reference tree and of the system beside it.
    """
    found: dict[str, dict[tuple[str, bool], Any]] = {}
    for metric in metrics:
        match = _FAILURE.fullmatch(str(metric.get("name")))
        if match is not None and not metric.get("experiment"):
            cells = found.setdefault(match["depth"], {})
            cells[match["cost"], bool(match["beside"])] = metric.get("value")
    return [
        (
            re.sub(r"(\d)_(\d)", r"\1 to \2", depth).replace("_", " "),
            [as_text(cells.get((cost, beside))) for cost in COSTS for beside in (False, True)],
        )
        for depth, cells in found.items()
        if any(is_number(value) for value in cells.values())
    ]


# --- perfect tables and tables of arrivals


@dataclass(frozen=True)
class PublishedNumber:
    """A published number, and the measured values and their differences by overlay."""

    name: str
    what: str
    paper: str
    measured: dict[str, str]
    differences: dict[str, Difference | None]

    @property
    def met_by(self) -> list[str]:
        """The overlays whose difference is not notable."""
        return [o for o, d in self.differences.items() if d is not None and not d.notable]

    @property
    def verdict(self) -> str:
        """The result in words, for example ``arrivals only``."""
        met = self.met_by
        if len(met) == len(OVERLAYS):
            return "both"
        return f"{met[0]} only" if met else "neither"


def published_numbers(metrics: Iterable[Mapping[str, Any]]) -> list[PublishedNumber]:
    """Return every published number of ``make paper`` that can be compared, in the paper's order;
    without runs over both overlays none.

    Numbers to which parameters of the network were fitted, and numbers of the network alone, do
    not depend on the overlay and are left out, as are numbers that are 0 in the paper.
    """
    by_overlay: dict[str, dict[str, Mapping[str, Any]]] = {overlay: {} for overlay in OVERLAYS}
    for metric in metrics:
        for overlay, experiment in OVERLAYS.items():
            if metric.get("experiment") == experiment:
                by_overlay[overlay][str(metric.get("name"))] = metric
    if not all(by_overlay.values()):
        return []
    found = []
    for name, metric in by_overlay["perfect"].items():
        paper = metric.get("paper")
        if is_number(paper) and paper and not metric.get("fitted") and name.startswith("scribe"):
            values = {o: of.get(name, {}).get("value") for o, of in by_overlay.items()}
            measured = {overlay: as_text(value) for overlay, value in values.items()}
            apart = {overlay: difference(value, paper) for overlay, value in values.items()}
            found.append(PublishedNumber(name, readable(name), as_text(paper), measured, apart))
    return found


def met(numbers: Iterable[PublishedNumber]) -> dict[str, int]:
    """Return the number of published numbers that each overlay reaches."""
    listed = list(numbers)
    return {overlay: sum(overlay in n.met_by for n in listed) for overlay in OVERLAYS}
