"""The tables of worlds with groups, as the sections of ``docs/groups_results.md`` read them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from scribe_spark.worlds.summary import totals_by_number

__all__ = [
    "COUNTS", "complete", "is_lost", "memberships", "number", "of", "per_cent", "publications",
    "rounds", "spread", "total",
]  # fmt: skip

#: What becomes of deliveries.
COUNTS = ("expected", "in_time", "late", "lost", "duplicates")


def complete(out: Path, names: Iterable[str]) -> list[str]:
    """Those of some worlds that were played to their end."""
    return [name for name in names if (out / name / "tables" / "rounds").exists()]


def rounds(folder: Path) -> pd.DataFrame:
    """Measures of a world: rounds by measures; 0 where a round does not have one."""
    rows = pd.read_parquet(folder / "tables" / "rounds")
    return rows.pivot(index="round", columns="measure", values="value").sort_index().fillna(0.0)


def publications(folder: Path) -> pd.DataFrame:
    """``round, group`` and :data:`COUNTS`, by rounds."""
    rows = pd.read_parquet(folder / "tables" / "publications")
    return rows.sort_values(["round", "group"])


def memberships(folder: Path) -> pd.DataFrame:
    """``group, node, parent, member, root``: all trees at the end."""
    return pd.read_parquet(folder / "tables" / "memberships")


def is_lost(table: pd.DataFrame) -> pd.Series:
    """Which rows of publications are of groups that nothing is delivered to in the last round."""
    last = table[table["round"] == table["round"].max()]
    gone = last.loc[(last["in_time"] + last["late"] == 0) & (last["expected"] > 0), "group"]
    return table["group"].isin(gone)


def of(table: pd.DataFrame, measure: str) -> pd.Series:
    """A measure by rounds; 0 where the world does not have it."""
    return table[measure] if measure in table else pd.Series(0.0, index=table.index)


def total(table: pd.DataFrame, measures: str | Sequence[str]) -> float:
    """The sum of one or several measures over all rounds."""
    names = [measures] if isinstance(measures, str) else measures
    return float(sum(of(table, name).sum() for name in names))


def spread(table: pd.DataFrame, prefix: str) -> dict[int, int]:
    """N -> the sum of ``PREFIX.N`` over all rounds, where it is not 0."""
    return {n: int(count) for n, count in totals_by_number(table, prefix).items() if count}


def number(value: float) -> str:
    """A number in a cell."""
    if value == int(value):
        return f"{int(value):,}"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def per_cent(part: float, of_all: float) -> str:
    """A share; exact 0 and 100 % can be told from what is rounded to them."""
    if not of_all:
        return "-"
    share = 100 * part / of_all
    if part in (0, of_all):
        return f"{share:.0f} %"
    text = f"{np.floor(share * 1000) / 1000:.3f}" if share > 50 else f"{share:.2g}"
    return f"{text} %"
