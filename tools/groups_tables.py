"""The tables of worlds with groups, as the sections of ``docs/groups_results.md`` read them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from statistics import mean, stdev

import numpy as np
import pandas as pd

from scribe_spark.worlds.steady import TOLERANCE, WINDOW, first_steady
from scribe_spark.worlds.summary import totals_by_number

__all__ = [
    "COUNTS", "STEADY_RULE", "complete", "in_time_by_group", "is_lost", "memberships", "number",
    "of", "over_seeds", "per_cent", "publications", "rounds", "rounds_in_words", "settled",
    "share_cell", "spread", "total",
]  # fmt: skip

#: What the pages say of the steady state of worlds under churn.
STEADY_RULE = (
    "Rounds before the [steady state](rules.md#measures-by-round) do not count: from it on, means "
    f"of {WINDOW} rounds stay within {TOLERANCE:.0%}."
)

#: What becomes of deliveries.
COUNTS = ("expected", "due", "in_time", "late", "lost", "first_copies", "duplicates")


def complete(out: Path, names: Iterable[str]) -> list[str]:
    """Return the names of the worlds that were played to their end."""
    return [name for name in names if (out / name / "tables" / "rounds").exists()]


def rounds(folder: Path) -> pd.DataFrame:
    """Return the measures of a world: rounds by measures; 0 where a round does not have one."""
    rows = pd.read_parquet(folder / "tables" / "rounds")
    return rows.pivot(index="round", columns="measure", values="value").sort_index().fillna(0.0)


def publications(folder: Path) -> pd.DataFrame:
    """Return ``round, group`` and :data:`COUNTS`, by rounds."""
    rows = pd.read_parquet(folder / "tables" / "publications")
    return rows.sort_values(["round", "group"])


def memberships(folder: Path) -> pd.DataFrame:
    """Return ``group, node, parent, member, root``: all trees at the end."""
    return pd.read_parquet(folder / "tables" / "memberships")


def is_lost(table: pd.DataFrame) -> pd.Series:
    """Return True for the publications of groups without a delivery in the last round."""
    last = table[table["round"] == table["round"].max()]
    gone = last.loc[(last["in_time"] + last["late"] == 0) & (last["expected"] > 0), "group"]
    return table["group"].isin(gone)


def of(table: pd.DataFrame, measure: str) -> pd.Series:
    """Return a measure by rounds; 0 where the world does not have it."""
    return table[measure] if measure in table else pd.Series(0.0, index=table.index)


def total(table: pd.DataFrame, measures: str | Sequence[str]) -> float:
    """Return the sum of one or several measures over all rounds."""
    names = [measures] if isinstance(measures, str) else measures
    return float(sum(of(table, name).sum() for name in names))


def spread(table: pd.DataFrame, prefix: str) -> dict[int, int]:
    """N -> the sum of ``PREFIX.N`` over all rounds, where it is not 0."""
    return {n: int(count) for n, count in totals_by_number(table, prefix).items() if count}


def in_time_by_group(table: pd.DataFrame, by: Sequence[str] = ("group",)) -> pd.Series:
    """Return the share delivered in time, of the groups that expect any delivery."""
    sums = table.groupby(list(by))[["expected", "in_time"]].sum()
    sums = sums[sums["expected"] > 0]
    return sums["in_time"] / sums["expected"]


def settled(table: pd.DataFrame, control: pd.Series) -> int | None:
    """Return the first round of the steady state of a world under churn: :data:`STEADY_RULE`."""
    expected = table.groupby("round")["expected"].sum()
    late = 1 - in_time_by_group(table, ("round", "group")).groupby("round").mean()
    lines = (line.reindex(expected.index) for line in (expected, late, control))
    begin = first_steady([line.to_numpy() for line in lines])
    return None if begin is None else int(expected.index[begin])


def rounds_in_words(begins: Sequence[int | None], last: int) -> str:
    """Return the rounds of the steady states of several seeds, by the first round of each."""
    known = sorted(begin for begin in begins if begin is not None)
    if len(known) < len(begins):
        return f"not settled; last {WINDOW}"
    return f"{'-'.join(map(str, dict.fromkeys((known[0], known[-1]))))} to {last}"


def over_seeds(values: Sequence[float], cell: Callable[[float], str] | None = None) -> str:
    """Return the mean over seeds, and the standard deviation where seeds differ.

    It is ``-`` where a seed has no value (NaN).
    """
    if np.isnan(values).any():
        return "-"
    written = (cell or number)(mean(values))
    return written if len({*values}) < 2 else f"{written} ± {number(stdev(values))}"


def number(value: float) -> str:
    """Return a number of a cell: whole numbers from 100 on, else three digits."""
    whole = abs(value) >= 100 or float(value).is_integer()
    return f"{value:,.0f}" if whole else f"{value:.3g}"


def per_cent(part: float, of_all: float) -> str:
    """Return a share; exact 0 and 100 % can be told from what is rounded to them."""
    return f"{share_cell(100 * part / of_all)} %" if of_all else "-"


def share_cell(share: float) -> str:
    """Return a share that is given in per cent, as :func:`per_cent` does."""
    if share in (0, 100):
        return f"{share:.0f}"
    return f"{np.floor(share * 1000) / 1000:.3f}" if share > 50 else f"{share:.2g}"
