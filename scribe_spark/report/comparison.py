"""Measured values beside published ones: the rows of the page's table, and their differences."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from scribe_spark.measures.published import check_range
from scribe_spark.report.catalogue import FIGURES, FigureSpec
from scribe_spark.report.provenance import as_mapping
from scribe_spark.report.series import Series
from scribe_spark.report.text import PERCENT, as_spread, as_text, is_number, readable

#: The page marks a difference from the paper beyond this number of per cent.
NOTABLE = 10.0


@dataclass(frozen=True)
class Difference:
    """The difference of a number from the published one, in per cent of the published one."""

    percent: float

    @property
    def notable(self) -> bool:
        """True if the page marks it."""
        return abs(self.percent) > NOTABLE

    @property
    def words(self) -> str:
        """Return words such as ``over 10 % below``; empty if it is not notable."""
        if not self.notable:
            return ""
        return f"over {NOTABLE:g}{PERCENT} {'above' if self.percent > 0 else 'below'}"

    def __str__(self) -> str:
        shown = f"{self.percent:+,.1f}".replace("-", "\N{MINUS SIGN}")
        return ("0" if shown[1:] == "0.0" else shown) + PERCENT


@dataclass(frozen=True)
class Row:
    """A number as the page shows it, all as text."""

    experiment: str
    what: str
    name: str
    measured: str
    spread: str
    unit: str
    paper: str
    difference: Difference | None
    check: str
    verdict: str
    note: str
    fitted: bool
    by_hops: bool = False


@dataclass(frozen=True)
class Section:
    """The rows of one figure or section of the paper."""

    title: str
    rows: list[Row]


@dataclass(frozen=True)
class Topologies:
    """The numbers of one experiment: each has a row, and its values in the order of `seeds`."""

    title: str
    seeds: list[str]
    rows: list[tuple[Row, list[str]]]


def sections(metrics: Iterable[Mapping[str, Any]]) -> list[Section]:
    """Return the rows by experiment and figure, in the paper's order; rows without a figure come
    last.
    """
    grouped: dict[str, dict[str, list[Row]]] = {}
    for metric in metrics:
        figure = metric.get("figure")
        of = grouped.setdefault(experiment_of(metric), {})
        of.setdefault("" if figure is None else str(figure), []).append(_row(metric))

    def order(figure: str) -> tuple[bool, float]:
        return figure == "", float(figure) if figure.isdecimal() else math.inf

    return [
        Section(f"{experiment}. {title}" if experiment else title, of[figure])
        for experiment, of in grouped.items()
        for figure, title in ((f, _section_title(f)) for f in sorted(of, key=order))
    ]


def experiment_of(metric: Mapping[str, Any]) -> str:
    """Return the name of a metric's experiment for readers; empty for the rows of one run."""
    return readable(str(metric.get("experiment") or ""))


def _section_title(figure: str) -> str:
    titles = {spec.number: f"Figure {spec.number}: {spec.title}" for spec in FIGURES}
    unnamed = f"Figure {figure}" if figure.isdecimal() else figure or "Other measures"
    return titles.get(figure, unnamed)


def deviation_words(
    spec: FigureSpec, series: Iterable[Series], metrics: Iterable[Mapping[str, Any]]
) -> str:
    """Return the average standard deviations, as in the paper's captions; empty for a
    single run.
    """
    figure = [metric for metric in metrics if str(metric.get("figure")) == spec.number]
    known = {metric.get("name"): metric for metric in figure}
    found = [(s.label, known[s.deviation_name]) for s in series if s.deviation_name in known]
    words = [
        f"{label} {as_text(row.get('value'))}"
        + ("" if row.get("paper") is None else f" (paper: {as_text(row['paper'])})")
        for label, row in found
    ]
    return f"Average standard deviation: {', '.join(words)}." if words else ""


def topologies(metrics: Iterable[Mapping[str, Any]]) -> list[Topologies]:
    """Return each experiment's numbers by seed; an empty list for a single run."""
    tables: dict[str, Topologies] = {}
    for metric in metrics:
        seeds = as_mapping(metric.get("seeds"))
        if seeds:
            title = experiment_of(metric)
            table = tables.setdefault(title, Topologies(title, [], []))
            table.seeds.extend(seed for seed in seeds if seed not in table.seeds)
            values = [as_text(seeds.get(seed)) for seed in table.seeds]
            table.rows.append((_row(metric), values))
    return list(tables.values())


def _row(metric: Mapping[str, Any]) -> Row:
    value, paper = metric.get("value"), metric.get("paper")
    name = str(metric.get("name") or "")
    return Row(
        experiment=experiment_of(metric),
        what=readable(name),
        name=name,
        measured=as_text(value),
        spread=as_spread(metric.get("std")),
        unit=str(metric.get("unit") or ""),
        paper=as_text(paper),
        difference=difference(value, paper),
        check=as_text(metric.get("check")),
        verdict=check_verdict(metric),
        note=str(metric.get("note") or ""),
        fitted=metric.get("fitted") is True and paper is not None,
        by_hops=metric.get("clock") == "hops",
    )


def difference(value: Any, paper: Any) -> Difference | None:
    """Return the difference of `value` from the published one; None if they cannot be compared."""
    if not (is_number(value) and is_number(paper)) or paper == 0:
        return None
    return Difference(100.0 * (value - paper) / abs(paper))


def headline(section: Section) -> list[Row]:
    """Return the section's first row with a difference, if there is one."""
    return [row for row in section.rows if row.difference is not None][:1]


def published_of_figure(spec: FigureSpec, metrics: Iterable[Mapping[str, Any]]) -> dict[str, float]:
    """Return the paper's values of a figure's metrics, by name; empty for other experiments."""
    figure = (metric for metric in metrics if str(metric.get("figure")) == spec.number)
    return {str(m.get("name")): m["paper"] for m in figure if is_number(m.get("paper"))}


def check_verdict(metric: Mapping[str, Any]) -> str:
    """Return the position of a number to the independent check's range; empty if it is inside.

    A mean over topologies is compared with the help of its standard deviation over them.
    """
    value, check = metric.get("value"), metric.get("check")
    bounds = check_range(check) if isinstance(check, str) else None
    if bounds is None or not is_number(value):
        return ""
    low, high = bounds
    seeds = [v for v in as_mapping(metric.get("seeds")).values() if is_number(v)]
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
