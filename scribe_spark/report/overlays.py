"""The published numbers beside the measured ones of two overlays: perfect tables, and arrivals."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from scribe_spark.report.comparison import Difference, difference
from scribe_spark.report.text import as_text, is_number, readable

#: The name of each overlay, and its experiment (`config.EXPERIMENTS`).
OVERLAYS = {"perfect": "main", "arrivals": "arrivals"}


@dataclass(frozen=True)
class PublishedNumber:
    """A published number, and the measured ones over each overlay.

    Attributes
    ----------
    name, what : str
        The metric, and its name for readers.
    paper : str
        The published value.
    measured : dict of str to str
        The measured value by overlay; empty without a measurement.
    differences : dict of str to Difference or None
        The difference by overlay.
    """

    name: str
    what: str
    paper: str
    measured: dict[str, str]
    differences: dict[str, Difference | None]

    @property
    def met_by(self) -> tuple[str, ...]:
        """The overlays that reach the published number within :data:`~.comparison.NOTABLE` per
        cent.
        """
        return tuple(o for o, d in self.differences.items() if d is not None and not d.notable)

    @property
    def verdict(self) -> str:
        """The result in words, for example ``arrivals only``."""
        met = self.met_by
        if len(met) == len(OVERLAYS):
            return "both"
        return f"{met[0]} only" if met else "neither"


def published_numbers(metrics: Iterable[Mapping[str, Any]]) -> list[PublishedNumber]:
    """Return every published number of the experiment that can be compared, in the paper's order.

    Numbers to which parameters of the network were fitted, and numbers of the network alone, are
    left out, as they do not depend on the overlay.  Numbers that are 0 in the paper are left out,
    too.

    Parameters
    ----------
    metrics : iterable of mapping
        ``metrics.json`` of ``make paper``; without runs over both overlays, the result is empty.
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
    """Return the number of published numbers that each overlay reaches."""
    listed = list(numbers)
    return {overlay: sum(overlay in n.met_by for n in listed) for overlay in OVERLAYS}
