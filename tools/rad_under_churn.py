"""Trees under churn, with and without the bottleneck remover: a figure and a table of a page.

``python -m tools.rad_under_churn OUT [--only NAME ...] [--page docs/living.md]``

OUT has the sweep of ``data/world_rad_under_churn.toml`` of each seed.  The table is written between
the marks of the page, and the figure beside the page.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

import pandas as pd

from scribe_spark.core.paths import replace_file
from scribe_spark.worlds.summary import WINDOW, first_steady, measures_by_round
from tools import pages
from tools.folders import Folder, of, rounds_in_words
from tools.pages import Panel, number, over_seeds, table

FIGURE = "figure-rad-under-churn.svg"
MARKS = ("<!-- rad_under_churn: begin -->\n", "<!-- rad_under_churn: end -->\n")

_WORLD = "world --config data/world_rad_under_churn.toml --seed"
EXPERIMENTS = {f"seed-{seed}": f"{_WORLD} {seed}".split() for seed in range(1, 6)}

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

#: Label -> measures by rounds, seed by seed.
Worlds = Mapping[str, Sequence[pd.DataFrame]]


def worlds(out: Path) -> Worlds:
    """Return the worlds that are there."""
    found: dict[str, list[pd.DataFrame]] = {}
    for name in EXPERIMENTS:
        for point, label in _POINTS.items():
            world = Folder(out / name / point)
            if world.is_complete:
                found.setdefault(label, []).append(measures_by_round(world.table("rounds")))
    return found


def numbers(played: Worlds) -> list[str]:
    """Return a table: round 0, and the mean over the steady state."""
    rows = []
    for label, seeds in played.items():
        begins = [first_steady([of(one, name) for name in _SETTLE]) for one in seeds]
        starts = [-WINDOW if begin is None else begin for begin in begins]
        settled = rounds_in_words(begins, seeds[0].index[-1])
        steady = [one.iloc[start:] for one, start in zip(seeds, starts, strict=True)]
        when = settled if None in begins else f"mean of rounds {settled}"
        for of_rounds, some in (("round 0", [one.iloc[:1] for one in seeds]), (when, steady)):
            cells = (over_seeds([float(of(one, name).mean()) for one in some]) for name in _TOLD)
            rows.append([label, f"{len(seeds)}", of_rounds, *cells])
    return table(["trees", "seeds", "rounds", *_TOLD.values()], rows)


def figure(played: Worlds) -> str:
    """Return the figure as SVG, of the means over the seeds."""
    lines = {
        (label, name): pd.concat([of(one, name) for one in seeds], axis=1).mean(axis=1)
        for label, seeds in played.items()
        for name in _DRAWN
    }
    panels = [
        Panel(
            (0.07 + place * 0.325, 0.19, 0.25, 0.72),
            [(label, lines[label, name], style) for style, label in enumerate(played)],
            {"xlabel": "round", "ylabel": what, "ylim": (0, None)},
            legend={"fontsize": 6, "loc": "center right"} if place == len(_DRAWN) - 1 else None,
        )
        for place, (name, what) in enumerate(_DRAWN.items())
    ]
    means = {key: f"{_DRAWN[key[1]]} {number(line.mean())}" for key, line in lines.items()}
    words = "; ".join(f"{one}: {', '.join(means[one, name] for name in _DRAWN)}" for one in played)
    heading = "RAD, RMD and node stress under churn, by rounds"
    return pages.draw((7.2, 2.5), panels, "rad-under-churn", heading, words)


def page(out: Path, file: Path) -> str:
    """Return the page with its table; write the figure beside it."""
    played = worlds(out)
    replace_file(file.parent / FIGURE, figure(played).encode())
    return pages.with_lines(file.read_text("utf-8"), MARKS, ["", *numbers(played), ""])


main = partial(pages.main, "Measure trees under churn.", EXPERIMENTS, page)

if __name__ == "__main__":
    main(sys.argv[1:])
