"""The tables of the pages: latencies, classes and regions, failures by depth, and both overlays."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd
from markupsafe import Markup

from scribe_spark.config.bandwidth import sizes_in_words
from scribe_spark.report import page
from scribe_spark.report.comparison import (
    NOTABLE,
    Difference,
    difference,
    difference_cell,
    experiment_of,
)
from scribe_spark.report.style import (
    ABSENT,
    PERCENT,
    as_text,
    in_order,
    is_number,
    label_of,
    readable,
    share_in_percent,
)

#: Head of a column of the table of latencies -> the metric.
LATENCIES = {
    "Members": "reached",
    "Mean": "latency.mean",
    **{name: f"latency.{name}" for name in ("p50", "p90", "p95", "p99", "max")},
    **{f"{x} %": f"time_to_{x}.median" for x in (50, 90, 95, 99, 100)},
}

_WORDS = Markup(
    "A latency is the time from the publication to the first copy at a member, in ms or hops; "
    "sources are left out. <em>Members</em> is the share of the members that get the message. The "
    "mean and the percentiles (nearest rank) are over all deliveries, so without the other "
    "members. A column in per cent is the time until this share of the members has the message, "
    "the median over the publications; a dash marks a share that more than half of the "
    "publications never reach."
)
_TABLE = Markup(' The table <a href="tables/latency">latency</a> has every publication.')
_BY_PART = Markup(
    "The percentiles (nearest rank, in ms) are over the deliveries to the nodes of each {by}. The "
    'table <a href="tables/{table}">{table}</a> has more measures.'
)
_OF_FAILURES = (
    "Each number is the mean cost of one failure. Reference tree: a sample of the hosts at each "
    "depth of its one tree, with the rounds of reconfiguration and every look-up. Scribe: every "
    "node of every group's static tree; each child of the failed node joins again, which costs at "
    "least one new link and one JOIN, and a host is in the trees of many groups."
)

#: The metrics of latencies, without those of duplicates, which are in the table of all numbers.
_LATENCY = re.compile(
    r"(?P<system>\w+)\."
    r"(?P<what>(latency|latency_hops)\.\w+|(time_to|hops_to)_\d+\.\w+|(multicasts\.)?reached)"
)

#: The costs of a failure, and their heads in the table.
COSTS = {"links": "Links changed", "acting": "Hosts that act", "messages": "Messages"}

#: The metrics of `measures.joins_and_failures`.
_FAILURE = re.compile(r".*\.failure\.depth_(?P<depth>\w+)\.(?P<cost>\w+?)(?P<beside>\.\w+)?")

_PART_PERCENTILES = ("p50", "p90", "p99")

#: The name of each overlay, and its experiment (`config.EXPERIMENTS`).
OVERLAYS = {"perfect": "main", "arrivals": "arrivals"}


def without_tables_of_their_own(metrics: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return the metrics that are shown neither in the table of latencies nor of failures."""
    return [
        metric
        for metric in metrics
        if not _LATENCY.fullmatch(name := str(metric.get("name")))
        and (metric.get("experiment") or not _FAILURE.fullmatch(name))
    ]


# --- latencies


def latencies(
    metrics: Sequence[Mapping[str, Any]],
    of: str = "",
    has_table: bool = True,
    contents: str = "Table of latencies",
) -> list[page.PageSection]:
    """Return the section of latencies, if any was measured: a row for each system and unit.

    `of` is the origin of the numbers; `has_table` is True for a link to the table.
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
        (
            page.Cell(label, "" if unit == "ms" else f"in {unit}"),
            share_in_percent(share) if is_number(share := reached.get(label)) else ABSENT,
            *(as_text(values.get(name)) for name in columns),
        )
        for (label, unit), values in found.items()
        if is_number(values.get("latency.p50")) or (unit == "ms" and reached.get(label) == 0)
    ]
    words = _WORDS + (_TABLE if has_table else Markup())
    parts: page.PageParts = [words, page.PageTable(("System", *LATENCIES), rows)]
    return [page.PageSection("latencies", f"Latencies{of}", parts, contents)] if rows else []


def latencies_of_last_round(
    table: pd.DataFrame, links: str = "", has_table: bool = False, contents: str = ""
) -> list[page.PageSection]:
    """Return the section of latencies of the last round of a world that has latencies.

    `table` has a row for each round, `links` comes from :func:`links_in_words`.
    """
    names = [name for name in table if _LATENCY.fullmatch(str(name))]
    timed = [name for name in names if not name.endswith("reached")]
    some = table[names][table[timed].notna().any(axis=1)]
    if some.empty:
        return []
    last = some.iloc[-1].dropna()
    systems = [str(name).partition(".")[0] for name in last.index]
    order = in_order(systems)
    values = sorted(zip(systems, last.items(), strict=True), key=lambda one: order.index(one[0]))
    rows = [{"name": name, "value": float(value)} for _, (name, value) in values]
    of = f" in round {some.index[-1]}, the last one with multicasts{links}"
    return latencies(rows, of, has_table, contents)


def links_in_words(resolved: Mapping[str, Any]) -> str:
    """Return a description of links with sizes, on which latencies depend; empty without sizes."""
    if resolved.get("message_size") is None and resolved.get("schedule") is None:
        return ""
    size, order, links = (resolved.get(n) for n in ("message_size", "uplink_order", "links"))
    return f": {sizes_in_words(size, order, links)}"


# --- classes and regions


def latencies_by_part(by_part: pd.DataFrame | None, table: str) -> list[page.PageSection]:
    """Return a section of latencies by class of node and one by region, if nodes have these parts.

    The link leads to a table of the folder, which has more measures.
    """
    if by_part is None:
        return []
    delays = by_part[by_part["measure"] == "delay_ms"]
    found = []
    for by, rows in delays.groupby("by", sort=True):
        systems = list(dict.fromkeys(rows["system"]))
        values = rows.set_index(["part", "system"])[[*_PART_PERCENTILES]]
        cells = [
            (
                part,
                *(
                    as_text(float(values.loc[key, name])) if key in values.index else ABSENT
                    for key in ((part, system) for system in systems)
                    for name in _PART_PERCENTILES
                ),
            )
            for part in dict.fromkeys(rows["part"])
        ]
        columns = [page.Cell(label_of(s), note=name) for s in systems for name in _PART_PERCENTILES]
        words = _BY_PART.format(by=by, table=table)
        parts: page.PageParts = [words, page.PageTable((str(by).capitalize(), *columns), cells)]
        title = f"Latency by {by}" + " of nodes" * (by != "tree")
        found.append(page.PageSection(f"by-{by}", title, parts, ""))
    return found


# --- failures of the reference tree


def failures(metrics: Iterable[Mapping[str, Any]]) -> list[page.PageSection]:
    """Return the section of failures of hosts of the reference tree by depth, if there are any."""
    found: dict[str, dict[tuple[str, bool], Any]] = {}
    for metric in metrics:
        match = _FAILURE.fullmatch(str(metric.get("name")))
        if match is not None and not metric.get("experiment"):
            cells = found.setdefault(match["depth"], {})
            cells[match["cost"], bool(match["beside"])] = metric.get("value")
    rows = [
        (
            re.sub(r"(\d)_(\d)", r"\1 to \2", depth).replace("_", " "),
            *(as_text(cells.get((cost, beside))) for cost in COSTS for beside in (False, True)),
        )
        for depth, cells in found.items()
        if any(is_number(value) for value in cells.values())
    ]
    trees = ("reference tree", "Scribe, a group")
    heads = [page.Cell(head, note=tree) for head in COSTS.values() for tree in trees]
    parts: page.PageParts = [_OF_FAILURES, page.PageTable(("Depth", *heads), rows)]
    title = "Cost of the failure of a host, by the host's depth"
    return [page.PageSection("failures", title, parts, "")] if rows else []


# --- perfect tables and tables of arrivals


@dataclass(frozen=True)
class ComparedNumber:
    """A published number and, for each overlay, the measured value and its difference."""

    name: str
    what: str
    paper: str
    measured: dict[str, str]
    differences: dict[str, Difference | None]

    @property
    def met_by(self) -> list[str]:
        """The overlays for which the measured value has no notable difference."""
        return [o for o, d in self.differences.items() if d is not None and not d.notable]

    @property
    def verdict(self) -> str:
        """The overlays that meet the published number in words, for example ``arrivals only``."""
        met = self.met_by
        if len(met) == len(OVERLAYS):
            return "both"
        return f"{met[0]} only" if met else "neither"


def published_numbers(metrics: Iterable[Mapping[str, Any]]) -> list[ComparedNumber]:
    """Return the published numbers of ``make paper`` that can be compared, in the paper's order.

    There are none without runs over both overlays. Numbers to which parameters of the network were
    fitted, and numbers of the network alone, do not depend on the overlay and are left out, as are
    numbers that are 0 in the paper.
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
            found.append(ComparedNumber(name, readable(name), as_text(paper), measured, apart))
    return found


def met(numbers: Iterable[ComparedNumber]) -> dict[str, int]:
    """Return, for each overlay, how many published numbers have no notable difference."""
    listed = list(numbers)
    return {overlay: sum(overlay in n.met_by for n in listed) for overlay in OVERLAYS}


def both_overlays(metrics: Iterable[Mapping[str, Any]]) -> list[page.PageSection]:
    """Return the section of the published numbers over both overlays, if runs have both."""
    numbers = published_numbers(metrics)
    told = [
        f"{count} are met within {NOTABLE:g}{PERCENT} with {overlay}"
        for overlay, count in met(numbers).items()
    ]
    words = f"Of {len(numbers)} published numbers that depend on the overlay, {', '.join(told)}."
    heads = [head for overlay in OVERLAYS for head in (overlay.capitalize(), "Difference")]
    rows = [
        (
            page.Cell(number.what, code=number.name),
            number.paper,
            *(
                cell
                for overlay, apart in number.differences.items()
                for cell in (number.measured[overlay], difference_cell(apart))
            ),
            page.Cell(number.verdict, look=""),
        )
        for number in numbers
    ]
    table = page.PageTable(("Measure", "Paper", *heads, page.Cell("Met by", look="")), rows)
    title, parts = "Perfect tables, and tables of arrivals", [page.Text(words), table]
    return [page.PageSection("overlays", title, parts, "")] if numbers else []
