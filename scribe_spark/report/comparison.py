"""Measured values beside published ones, several topologies together, and headline measures.

References
----------
JSAC 2002, Section IV.A ("the average of the results obtained with each topology"); the captions of
Figures 7-11.
"""

from __future__ import annotations

import math
import re
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from scribe_spark.core.arrays import index_sorted
from scribe_spark.core.histogram import Histogram
from scribe_spark.measures.published import PublishedNumber, check_range
from scribe_spark.report import page
from scribe_spark.report.paper_figures import FIGURES, FigureSpec, Series, read_histogram, series_of
from scribe_spark.report.style import ABSENT, PERCENT, as_spread, as_text, is_number, readable

#: Headline measures of each system of a run, without the system's name.
_OF_RUNS = (
    "reached",
    *("latency.p50", "latency.p99", "time_to_50.median", "time_to_99.median"),
    *("rad.median", "rad.largest", "rmd.median", "rmd.largest", "rdp.mean", "depth.mean"),
    *("children_entries.mean", "children_entries.max"),
    *("link_stress.mean_existing", "link_stress.max", "messages"),
    *("duplicates.mean", "state.max", "join_messages.max"),
)

#: Headline measures of a run as a whole.
_OF_ALL_RUNS = ("pastry.hops.mean", "pastry.table_entries.mean")

#: Headline measures of each system in a world's rounds, without the system's name.
_OF_WORLDS = (
    *("publications.in_time", "publications.late", "publications.lost", "publications.open"),
    *("publications.duplicates", "publications.duplicates.mean"),
    *("multicasts.reached", "control", "orphans"),
    *("latency.p50", "latency.p99", "time_to_99.median"),
    *("rad.median", "rad.largest", "rmd.median", "rmd.largest", "rdp.mean"),
    "link_stress.payload.max",
)

#: Headline measures of a world's nodes and lookups.
_OF_ALL_WORLDS = (
    *("nodes.live", "leaf_sets.right", "cells.missing"),
    "link_stress.payload.max",  # Scribe's
    *("lookups.delivered", "lookups.right", "lookups.hops", "lookups.lost"),
)


#: Headline measures of each system whose names contain a deadline, or that need a quorum.
_OF_COVERAGE = re.compile(r"within_\w+(\.weight)?|(quorum|replies)\.median")


def is_headline(measure: str, world: bool = False) -> bool:
    """Return True for headline measures of a run, or of a world's rounds.

    Examples
    --------
    >>> is_headline("scribe.rad.median"), is_headline("scribe.rad.max")
    (True, False)
    >>> is_headline("lookups.hops", world=True), is_headline("link_stress.payload.max", world=True)
    (True, True)
    """
    of_systems, of_all = (_OF_WORLDS, _OF_ALL_WORLDS) if world else (_OF_RUNS, _OF_ALL_RUNS)
    name = measure.partition(".")[2]
    return measure in of_all or name in of_systems or _OF_COVERAGE.fullmatch(name) is not None


#: The page marks a difference from the paper beyond this number of per cent.
NOTABLE = 10.0


@dataclass(frozen=True)
class Difference:
    """The difference between a measured and a published number, in per cent of the published."""

    percent: float

    @property
    def notable(self) -> bool:
        """True if the difference is so large that the page marks it."""
        return abs(self.percent) > NOTABLE

    @property
    def words(self) -> str:
        """Return words such as ``over 10 % below``; empty if the difference is not notable."""
        if not self.notable:
            return ""
        return f"over {NOTABLE:g}{PERCENT} {'above' if self.percent > 0 else 'below'}"

    def __str__(self) -> str:
        if math.isinf(self.percent):
            return "from 0"
        shown = f"{self.percent:+,.1f}".replace("-", "\N{MINUS SIGN}")
        return ("0" if shown[1:] == "0.0" else shown) + PERCENT


@dataclass(frozen=True)
class Compared:
    """One measure of all sides: the values of runs or worlds, or a published one and measured ones.

    The first side is the base.
    """

    measure: str
    unit: str
    headline: bool  # True for one of the :func:`is_headline`
    values: tuple[float | None, ...]  # of each side
    in_place: tuple[str, ...] = ()  # the words of each side in place of a value; empty without any

    @property
    def others(self) -> range:
        """The sides that are compared with the base, by index."""
        return range(1, len(self.values))

    def difference(self, side: int) -> float | None:
        """Return a side's value minus that of the base; None without both."""
        base, value = self.values[0], self.values[side]
        return None if base is None or value is None else value - base

    def percent(self, side: int) -> float | None:
        """Return the difference in per cent of the base; infinite if the base is 0."""
        difference, base = self.difference(side), self.values[0]
        if not difference:  # None, or 0
            return difference
        return 100 * difference / abs(base) if base else math.copysign(math.inf, difference)

    def apart(self, side: int) -> Difference | None:
        """Return the difference in per cent, which can be written; None without both values."""
        percent = self.percent(side)
        return None if percent is None else Difference(percent)

    def shown(self, side: int) -> str:
        """Return a side's value as text, or the words in its place."""
        words = self.in_place[side] if self.in_place else ""
        return words or as_text(self.values[side])

    @property
    def is_shown(self) -> bool:
        """True if a side has a value, or words in its place."""
        return any(self.in_place) or any(value is not None for value in self.values)

    @property
    def is_compared(self) -> bool:
        """True if the base and another side have a value."""
        return any(self.difference(side) is not None for side in self.others)

    @property
    def most(self) -> float:
        """The greatest absolute difference from the base in per cent."""
        return abs(self.percent(self.farthest) or 0.0)

    @property
    def farthest(self) -> int:
        """The side with the greatest difference from the base."""
        return max(self.others, key=lambda side: abs(self.percent(side) or 0.0))


def sections(
    metrics: Iterable[Mapping[str, Any]],
) -> list[tuple[str, list[Mapping[str, Any]]]]:
    """Return titles and metrics, by experiment and figure; those without a figure come last."""
    found: dict[str, dict[str, list[Mapping[str, Any]]]] = {}
    for metric in metrics:
        figure = str(metric.get("figure") or "")
        found.setdefault(experiment_of(metric), {}).setdefault(figure, []).append(metric)

    def order(figure: str) -> tuple[bool, float]:
        return figure == "", float(figure) if figure.isdecimal() else math.inf

    return [
        (". ".join(filter(None, (experiment, _section_title(figure)))), of[figure])
        for experiment, of in found.items()
        for figure in sorted(of, key=order)
    ]


def experiment_of(metric: Mapping[str, Any]) -> str:
    """Return the name of the paper's experiment of a metric; empty for the rows of one run."""
    return readable(str(metric.get("experiment") or ""))


def _section_title(figure: str) -> str:
    titles = {spec.number: f"Figure {spec.number}: {spec.title}" for spec in FIGURES}
    unnamed = f"Figure {figure}" if figure.isdecimal() else figure or "Other measures"
    return titles.get(figure, unnamed)


def deviation_words(
    spec: FigureSpec, series: Iterable[Series], metrics: Iterable[Mapping[str, Any]]
) -> str:
    """Return the average standard deviations as in the paper's captions; none for a single run."""
    known = {row.get("name"): row for row in metrics if str(row.get("figure")) == spec.number}
    words = []
    for one in series:
        if (row := known.get(one.deviation_name)) is not None:
            paper = f" (paper: {as_text(row['paper'])})" if row.get("paper") is not None else ""
            words.append(f"{one.label} {as_text(row.get('value'))}{paper}")
    return f"Average standard deviation: {', '.join(words)}." if words else ""


def difference_of(metric: Mapping[str, Any]) -> Difference | None:
    """Return the difference of a metric from the published value; None if there is none."""
    return difference(metric.get("value"), metric.get("paper"))


def difference_cell(apart: Difference | None, words: str = "") -> page.Cell:
    """Return the table cell of a difference; a notable difference is marked."""
    off = " off" * (apart is not None and apart.notable)
    return page.Cell(str(apart or ABSENT), note=words, look=f"number difference{off}")


def headline_cards(compared: Iterable[tuple[str, Sequence[Mapping[str, Any]]]]) -> list[page.Card]:
    """Return a card with the first compared number of each figure (of :func:`sections`)."""
    cards = []
    for _, metrics in compared:
        found = ((metric, difference_of(metric)) for metric in metrics)
        metric, apart = next((one for one in found if one[1] is not None), ({}, None))
        if apart is not None:
            names = experiment_of(metric), readable(str(metric.get("name") or ""))
            title, value = ". ".join(filter(None, names)), as_text(metric.get("value"))
            told = ", ".join(filter(None, (str(apart), apart.words)))
            words = f"paper {as_text(metric.get('paper'))}"
            cards.append(page.Card(title, value, words, difference=told, is_notable=apart.notable))
    return cards


_CHECKED = (
    "The difference is in per cent of the paper's value. The independent check is a second "
    "implementation with perfect routing tables, over 10 seeds."
)
_MEANS = " Measured values are means over the topologies, ± their standard deviation."
_FITTED = (
    " “Fitted” marks a value of the paper to which this package fitted parameters of the network "
    "that the paper does not give: that the value is met confirms nothing."
)
_BY_HOPS = (
    "Copies arrive by the clock of time; a number with the words “by hops” uses the clock of hops."
)


def comparison_section(
    compared: Sequence[tuple[str, Sequence[Mapping[str, Any]]]], several: bool
) -> page.PageSection:
    """Return the section with all numbers (of :func:`sections`) beside the paper's.

    `several` is True for means over several topologies.
    """
    metrics = [metric for _, of in compared for metric in of]
    is_compared = any(difference_of(metric) is not None for metric in metrics)
    title = "Measured against published" if is_compared else "All numbers"
    checked = _CHECKED + _MEANS * several + _FITTED * any(map(_is_fitted, metrics))
    heads = ("Measure", "Measured", "Paper", "Difference", page.Cell("Independent check", look=""))
    groups = [(title, [_cells(metric) for metric in of]) for title, of in compared]
    table = page.Folded(
        f"{len(metrics)} numbers", [page.PageTable(heads, groups=groups)], is_open=is_compared
    )
    by_hops = _BY_HOPS * any(map(_is_by_hops, metrics))
    parts: page.PageParts = [checked * is_compared, by_hops, table]
    nothing = page.Text("No numbers were measured.")
    return page.PageSection("comparison", title, parts if metrics else [nothing])


def _cells(metric: Mapping[str, Any]) -> list[page.Cell]:
    """Return a number as a row of the table of all numbers."""
    name, unit = (str(metric.get(key) or "") for key in ("name", "unit"))
    apart, spread = difference_of(metric), as_spread(metric.get("std"))
    return [
        page.Cell(readable(name), code=name, note=str(metric.get("note") or "")),
        page.Cell(
            as_text(metric.get("value")) + (f" ± {spread}" if spread else ""),
            f"{unit}, by hops" if unit and _is_by_hops(metric) else unit,
        ),
        page.Cell(as_text(metric.get("paper")), "fitted" * _is_fitted(metric)),
        difference_cell(apart, "" if apart is None else apart.words),
        page.Cell(as_text(metric.get("check")), check_verdict(metric), look=""),
    ]


def _is_fitted(metric: Mapping[str, Any]) -> bool:
    return metric.get("fitted") is True and metric.get("paper") is not None


def _is_by_hops(metric: Mapping[str, Any]) -> bool:
    return metric.get("clock") == "hops"


def topologies(metrics: Iterable[Mapping[str, Any]]) -> list[page.PageSection]:
    """Return a section with the values of each metric on each topology, if there are several."""
    by_experiment: dict[str, list[Mapping[str, Any]]] = {}
    for metric in metrics:
        if metric.get("seeds"):
            by_experiment.setdefault(experiment_of(metric), []).append(metric)
    parts: list[page.PagePart | str] = [
        "Each table has one column for each topology, named by the seed of that topology."
    ]
    for experiment, of in by_experiment.items():
        seeds = list(dict.fromkeys(seed for metric in of for seed in metric["seeds"]))
        rows = [
            (
                readable(str(metric.get("name") or "")),
                as_text(metric.get("value")),
                as_spread(metric.get("std")) or ABSENT,
                *(as_text(metric["seeds"].get(seed)) for seed in seeds),
            )
            for metric in of
        ]
        heads = ("Measure", "Mean", "Standard deviation", *(f"Seed {seed}" for seed in seeds))
        table = page.PageTable(heads, rows, label=f"{experiment}, each topology")
        summary = f"{experiment}: {len(rows)} numbers, {len(seeds)} topologies"
        parts.append(page.Folded(summary, [table]))
    found = page.PageSection("topologies", "Each topology", parts, "")
    return [found] if by_experiment else []


def difference(value: Any, paper: Any) -> Difference | None:
    """Return the difference of `value` from the published one; None if they cannot be compared."""
    if not (is_number(value) and is_number(paper)) or paper == 0:
        return None
    return Difference(100.0 * (value - paper) / abs(paper))


def published_of_figure(spec: FigureSpec, metrics: Iterable[Mapping[str, Any]]) -> dict[str, float]:
    """Return the paper's values of a figure's metrics, by name; empty for other experiments."""
    return {
        str(metric.get("name")): metric["paper"]
        for metric in metrics
        if str(metric.get("figure")) == spec.number and is_number(metric.get("paper"))
    }


def check_verdict(metric: Mapping[str, Any]) -> str:
    """Return words on where a number lies outside of the independent check's range; or none.

    A mean over topologies is compared with the help of its standard deviation.
    """
    value, check = metric.get("value"), metric.get("check")
    bounds = check_range(check) if isinstance(check, str) else None
    if bounds is None or not is_number(value):
        return ""
    low, high = bounds
    seeds = [v for v in metric.get("seeds", {}).values() if is_number(v)]
    outside = sum(not low <= v <= high for v in seeds)
    if not seeds:
        return "" if low <= value <= high else "outside"
    few = f"{outside} of {len(seeds)} topologies outside"
    if low <= value <= high:
        return f"{few}, their mean inside" if outside else ""
    away, side = (value - high, "above") if value > high else (low - value, "below")
    words = f"{few}, their mean {as_text(float(f'{away:.3g}'))} {side}"
    std = metric.get("std")
    return f"{words}: {away / std:.1f} standard deviations" if is_number(std) and std else words


def mean_distributions(tables: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """Return distributions whose curves, cumulative or not, are means of the topologies' curves."""
    together = pd.concat(tables, ignore_index=True)
    at = ["figure", "system", "measure", "value"]
    summed = together.groupby(at, as_index=False)["count"].sum()
    return summed.assign(count=summed["count"] / len(tables))


def average_deviation(curves: Sequence[Histogram], cumulative: bool = False) -> float | None:
    """Return the paper's "average standard deviation": over topologies at each x, averaged over x.

    x runs evenly from the least to the greatest value of any topology.  Counts have whole x: every
    whole number counts, even if no topology has it.  A cumulative curve is constant between values,
    so each value counts by its distance to the next.
    """
    x = np.unique(np.concatenate([curve.values for curve in curves]))
    if len(curves) < 2 or len(x) == 0:
        return None
    heights = np.array([_heights(curve, x, cumulative) for curve in curves])
    deviation = heights.std(axis=0, ddof=1)
    if not cumulative:
        return float(deviation.sum() / (x[-1] - x[0] + 1))
    if len(x) == 1:
        return float(deviation[0])
    return float(np.average(deviation[:-1], weights=np.diff(x)))


def _heights(curve: Histogram, x: np.ndarray, cumulative: bool) -> np.ndarray:
    """Return the height of a curve at each `x`; `x` contains all values of the curve."""
    if cumulative:
        return np.append(0.0, curve.at_most)[np.searchsorted(curve.values, x, side="right")]
    heights = np.zeros(len(x))
    heights[index_sorted(x, curve.values)] = curve.counts
    return heights


def average_deviations(
    tables: Sequence[pd.DataFrame], published: Mapping[str, PublishedNumber]
) -> list[dict[str, Any]]:
    """Return rows for `metrics.json` with the average standard deviation of every curve."""
    together = pd.concat(tables, ignore_index=True)
    rows: list[dict[str, Any]] = []
    for spec in FIGURES:
        for one in series_of(spec, together):
            key = spec.number, one.system, one.measure
            curves = [read_histogram(table, *key, positive=spec.log_x) for table in tables]
            if any(curves):
                value = average_deviation(curves, spec.kind == "cumulative")
                paper = published.get(one.deviation_name, PublishedNumber()).paper
                row = {"name": one.deviation_name, "value": value, "unit": spec.thing}
                row |= {"figure": spec.number, "paper": paper, "check": None, "std": None}
                rows.append(row | {"seeds": {}, "note": None, "fitted": False})
    return rows


def over_seeds(measured: Mapping[int, Sequence[Mapping[str, Any]]]) -> list[dict[str, Any]]:
    """Return each metric with its mean and its standard deviation over the topologies.

    `measured` has the metrics of each seed, which stands for a topology.
    """
    named = {seed: {row["name"]: row for row in rows} for seed, rows in measured.items()}
    found = []
    for name in dict.fromkeys(name for rows in named.values() for name in rows):
        values = {seed: rows.get(name, {}).get("value") for seed, rows in named.items()}
        there = [value for value in values.values() if value is not None]
        row = next(rows[name] for rows in named.values() if name in rows)
        row = {**row, "value": statistics.fmean(there) if there else None}
        row["std"] = statistics.stdev(there) if len(there) > 1 else None
        found.append(row | {"seeds": {str(seed): value for seed, value in values.items()}})
    return found
