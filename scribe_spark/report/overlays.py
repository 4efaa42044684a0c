"""The published numbers beside those of two overlays: perfect tables, and tables of arrivals."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from scribe_spark.report.comparison import Difference, difference
from scribe_spark.report.text import as_text, is_number, readable

#: What each overlay is called, and the experiment (`config.EXPERIMENTS`) that is run over it.
OVERLAYS = {"perfect": "main", "arrivals": "arrivals"}


@dataclass(frozen=True)
class PublishedNumber:
    """A published number and what was measured over each overlay.

    Attributes
    ----------
    name, what : str
        The metric, and its name for readers.
    paper : str
    measured : dict of str to str
        By the overlay; empty where it was not measured.
    differences : dict of str to Difference or None
    """

    name: str
    what: str
    paper: str
    measured: dict[str, str]
    differences: dict[str, Difference | None]

    @property
    def met_by(self) -> tuple[str, ...]:
        """The overlays that meet it within :data:`~.comparison.NOTABLE` per cent."""
        return tuple(o for o, d in self.differences.items() if d is not None and not d.notable)

    @property
    def verdict(self) -> str:
        """Such as ``arrivals only``."""
        met = self.met_by
        if len(met) == len(OVERLAYS):
            return "both"
        return f"{met[0]} only" if met else "neither"


def published_numbers(metrics: Iterable[Mapping[str, Any]]) -> list[PublishedNumber]:
    """Every number that is published of the experiment and can be compared, in the paper's order.

    Numbers that parameters of the network were fitted to, and those of the network alone, are left
    out: they do not depend on the overlay.  So are those that the paper has as 0.

    Parameters
    ----------
    metrics : iterable of mapping
        ``metrics.json`` of ``make paper``; without runs over both overlays there is nothing to
        compare.
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
        rows = {overlay: of.get(name, {}) for overlay, of in by_overlay.items()}
        paper = metric.get("paper")
        if is_number(paper) and paper and not metric.get("fitted") and _of_trees(name):
            values = {overlay: row.get("value") for overlay, row in rows.items()}
            found.append(
                PublishedNumber(
                    name,
                    readable(name),
                    as_text(paper),
                    {overlay: as_text(value) for overlay, value in values.items()},
                    {overlay: difference(value, paper) for overlay, value in values.items()},
                )
            )
    return found


def _of_trees(name: str) -> bool:
    return name.startswith("scribe")


def met(numbers: Iterable[PublishedNumber]) -> dict[str, int]:
    """Return how many numbers each overlay meets."""
    listed = list(numbers)
    return {overlay: sum(overlay in n.met_by for n in listed) for overlay in OVERLAYS}
