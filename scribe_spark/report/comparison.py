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


#: A number as the page shows it: see :func:`_row`.
Row = dict[str, Any]


def sections(metrics: Iterable[Mapping[str, Any]]) -> list[tuple[str, list[Row]]]:
    """Return titles and rows by experiment and figure, in the paper's order; the last rows of an
    experiment are those without a figure.
    """
    grouped: dict[str, dict[str, list[Row]]] = {}
    for metric in metrics:
        figure = metric.get("figure")
        of = grouped.setdefault(experiment_of(metric), {})
        of.setdefault("" if figure is None else str(figure), []).append(_row(metric))

    def order(figure: str) -> tuple[bool, float]:
        return figure == "", float(figure) if figure.isdecimal() else math.inf

    return [
        (f"{experiment}. {title}" if experiment else title, of[figure])
        for experiment, of in grouped.items()
        for figure in sorted(of, key=order)
        for title in (_section_title(figure),)
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


def topologies(
    metrics: Iterable[Mapping[str, Any]],
) -> list[tuple[str, list[str], list[tuple[Row, list[str]]]]]:
    """Return the title, the seeds, and the rows with a value for each seed, of each experiment of
    several topologies.
    """
    tables: dict[str, tuple[str, list[str], list[tuple[Row, list[str]]]]] = {}
    for metric in metrics:
        values = as_mapping(metric.get("seeds"))
        if values:
            experiment = experiment_of(metric)
            _, seeds, rows = tables.setdefault(experiment, (experiment, [], []))
            seeds.extend(seed for seed in values if seed not in seeds)
            rows.append((_row(metric), [as_text(values.get(seed)) for seed in seeds]))
    return list(tables.values())


def _row(metric: Mapping[str, Any]) -> Row:
    """Return a number as the page shows it: as text, the difference as an object."""
    value, paper = metric.get("value"), metric.get("paper")
    name = str(metric.get("name") or "")
    return {
        "experiment": experiment_of(metric),
        "what": readable(name),
        "name": name,
        "measured": as_text(value),
        "spread": as_spread(metric.get("std")),
        "unit": str(metric.get("unit") or ""),
        "paper": as_text(paper),
        "difference": difference(value, paper),
        "check": as_text(metric.get("check")),
        "verdict": check_verdict(metric),
        "note": str(metric.get("note") or ""),
        "fitted": metric.get("fitted") is True and paper is not None,
        "by_hops": metric.get("clock") == "hops",
    }


def difference(value: Any, paper: Any) -> Difference | None:
    """Return the difference of `value` from the published one; None if they cannot be compared."""
    if not (is_number(value) and is_number(paper)) or paper == 0:
        return None
    return Difference(100.0 * (value - paper) / abs(paper))


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
