"""Trees under churn, with and without the bottleneck remover: a figure and its numbers.

``python -m tools.rad_under_churn OUT [--only NAME ...] [--page docs/living.md]``

OUT has the sweep of ``data/world_rad_under_churn.toml`` of each seed.  Without ``--page`` the
missing ones are run; ``--page`` writes the table between the marks of the page, and the figure
beside the page.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import pandas as pd

from scribe_spark.core.paths import replace_file
from scribe_spark.report.style import curve_style
from scribe_spark.report.svg import new_figure, svg_element
from scribe_spark.worlds.steady import WINDOW, first_steady
from scribe_spark.worlds.summary import measures_by_round
from tools import pages
from tools.groups_tables import number, of, over_seeds, rounds_in_words
from tools.pages import table

__all__ = ["figure", "main", "numbers"]

CONFIG = "data/world_rad_under_churn.toml"
FIGURE = "figure-rad-under-churn.svg"
MARKS = ("<!-- rad_under_churn: begin -->\n", "<!-- rad_under_churn: end -->\n")

SEEDS = range(1, 6)

_POINTS = {"variants=plain": "Scribe", "variants=bottleneck": "with the bottleneck remover"}

#: Measure -> what it is called; what the figure draws.
_DRAWN = {
    "scribe.rad.median": "RAD, median over the groups",
    "scribe.rmd.median": "RMD, median over the groups",
    "scribe.children_entries.max": "entries of a node, most",
}

#: The measures whose lines say when a world has settled.
_SETTLE = ("scribe.multicasts.reached", "scribe.rad.median", "scribe.depth.mean")

#: Measure -> head of its column.
_TOLD = {
    "scribe.multicasts.reached": "share of members reached",
    "scribe.rad.median": "RAD, median group",
    "scribe.rmd.median": "RMD, median group",
    "scribe.depth.mean": "hops to a member, mean",
    "scribe.children_entries.mean": "entries of a node, mean",
    "scribe.children_entries.max": "entries of a node, most",
    "scribe.link_stress.mean_existing": "link stress, mean",
    "scribe.link_stress.max": "link stress, maximum",
    "scribe.joins.shed": "JOINs of dropped children in a round",
}


def worlds(out: Path) -> dict[str, list[pd.DataFrame]]:
    """Return label -> measures by rounds, seed by seed."""
    found: dict[str, list[pd.DataFrame]] = {}
    for seed in SEEDS:
        for point, label in _POINTS.items():
            tables = out / f"seed-{seed}" / point / "tables" / "rounds"
            if tables.exists():
                found.setdefault(label, []).append(measures_by_round(pd.read_parquet(tables)))
    return found


def numbers(played: Mapping[str, Sequence[pd.DataFrame]]) -> list[str]:
    """Return a table: round 0, and the mean over the steady state."""
    rows = []
    for label, seeds in played.items():
        begins = [first_steady([of(one, name) for name in _SETTLE]) for one in seeds]
        steady = [
            one.iloc[-WINDOW if begin is None else begin :]
            for one, begin in zip(seeds, begins, strict=True)
        ]
        settled = rounds_in_words(begins, seeds[0].index[-1])
        when = settled if None in begins else f"mean of rounds {settled}"
        for of_rounds, some in (("round 0", [one.iloc[:1] for one in seeds]), (when, steady)):
            values = [over_seeds([_mean(one, name) for one in some]) for name in _TOLD]
            rows.append([label, f"{len(seeds)}", of_rounds, *values])
    return table(["trees", "seeds", "rounds", *_TOLD.values()], rows)


def _mean(some: pd.DataFrame, measure: str) -> float:
    return float(of(some, measure).mean()) if measure in some else 0.0


def figure(played: Mapping[str, Sequence[pd.DataFrame]]) -> str:
    """Return the figure as SVG, of the means over the seeds."""

    with new_figure(7.2, 2.5) as drawing:
        for place, (measure, what) in enumerate(_DRAWN.items()):
            axes = drawing.add_axes((0.07 + place * 0.325, 0.19, 0.25, 0.72))
            for line, (label, seeds) in enumerate(played.items()):
                values = _over(seeds, measure)
                axes.plot(values.index, values, label=label, **curve_style(line))
            axes.set(xlabel="round", ylabel=what, ylim=(0, None))
        axes.legend(fontsize=6, frameon=False, loc="center right")
        words = "; ".join(
            f"{label}: " + ", ".join(f"{what} {number(_over(seeds, name).mean())}"
                                     for name, what in _DRAWN.items())
            for label, seeds in played.items()
        )  # fmt: skip
        heading = "RAD, RMD and node stress under churn, by rounds"
        return svg_element(drawing, "rad-under-churn", heading, words)


def _over(seeds: Sequence[pd.DataFrame], measure: str) -> pd.Series:
    """Return a measure by rounds, the mean over the seeds."""
    return pd.concat([of(one, measure) for one in seeds], axis=1).mean(axis=1)


def page(out: Path, file: Path) -> str:
    """Return the page with its table; write the figure beside it."""
    played = worlds(out)
    replace_file(file.parent / FIGURE, figure(played).encode())
    return pages.with_lines(file.read_text("utf-8"), MARKS, ["", *numbers(played), ""])


def main(arguments: Sequence[str]) -> None:
    """Run the command."""
    world = ["world", "--config", CONFIG]
    commands = {f"seed-{seed}": [*world, "--seed", f"{seed}"] for seed in SEEDS}
    pages.main(arguments, "Measure trees under churn.", commands, page)


if __name__ == "__main__":
    main(sys.argv[1:])
