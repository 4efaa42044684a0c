"""Tables of the page: latencies of the nodes of each class, and of each region."""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd

from scribe_spark.report.series import label_of
from scribe_spark.report.text import ABSENT, as_text

#: The columns of `schemas.BY_PART` that the page shows.
COLUMNS = ("by", "part", "system", "measure", "count", "mean", "p50", "p90", "p95", "p99", "max")

_SHOWN, _MEASURE = ("p50", "p90", "p99"), "delay_ms"


@dataclass(frozen=True)
class PartsTable:
    """A table of the page.

    Attributes
    ----------
    by : str
        ``class`` or ``region``.
    systems : tuple of str
        The labels by which columns are grouped.
    rows : list of (str, list of str)
        A part, and its cells: the percentiles of each system.
    """

    by: str
    systems: tuple[str, ...]
    rows: list[tuple[str, list[str]]]


def parts_tables(by_part: pd.DataFrame | None) -> list[PartsTable]:
    """Return a table of measures by class of node, and one by region, if the run has these parts.

    Parameters
    ----------
    by_part : DataFrame or None
        The table `by_part`, with at least the columns :data:`COLUMNS`; None without parts.
    """
    if by_part is None:
        return []
    delays = by_part[by_part["measure"] == _MEASURE]
    return [_table(str(by), rows) for by, rows in delays.groupby("by", sort=True)]


def _table(by: str, rows: pd.DataFrame) -> PartsTable:
    systems = list(dict.fromkeys(rows["system"]))
    found = rows.set_index(["part", "system"])[[*_SHOWN]]
    cells = {
        part: [
            as_text(float(found.loc[(part, system), column]))
            if (part, system) in found.index
            else ABSENT
            for system in systems
            for column in _SHOWN
        ]
        for part in dict.fromkeys(rows["part"])
    }
    return PartsTable(by, tuple(map(label_of, systems)), list(cells.items()))
