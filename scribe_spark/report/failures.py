"""The cost of a host's failure by its depth: a table of the reference tree beside Scribe's."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from scribe_spark.report.text import as_text, is_number

#: The counted costs, and their heads in the table.
COSTS = {"links": "Links changed", "acting": "Hosts that act", "messages": "Messages"}

#: The metrics of `measures.failures`.
_NAME = re.compile(r".*\.failure\.depth_(?P<depth>\w+)\.(?P<cost>\w+?)(?P<beside>\.\w+)?")


@dataclass(frozen=True)
class FailureRow:
    """The failures of hosts at one depth.

    Attributes
    ----------
    depth : str
        For example ``5 to 9``.
    cells : list of str
        For each of :data:`COSTS`, the mean of the reference tree, then of the system beside it.
    """

    depth: str
    cells: list[str]


def failure_rows(metrics: Iterable[Mapping[str, Any]]) -> list[FailureRow]:
    """Return a row for each depth with failures; empty for a run without a reference tree."""
    found: dict[str, dict[tuple[str, bool], Any]] = {}
    for metric in metrics:
        match = _NAME.fullmatch(str(metric.get("name")))
        if match is not None and not metric.get("experiment"):
            cells = found.setdefault(match["depth"], {})
            cells[match["cost"], bool(match["beside"])] = metric.get("value")
    return [
        FailureRow(
            re.sub(r"(\d)_(\d)", r"\1 to \2", depth).replace("_", " "),
            [as_text(cells.get((cost, beside))) for cost in COSTS for beside in (False, True)],
        )
        for depth, cells in found.items()
        if any(is_number(value) for value in cells.values())
    ]


def without_failures(metrics: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The metrics that are not in that table."""
    return [
        metric
        for metric in metrics
        if metric.get("experiment") or not _NAME.fullmatch(str(metric.get("name")))
    ]
