"""What churn does to trees, with and without the bottleneck remover: a figure and its numbers.

``python -m tools.rad_under_churn OUT [--page]``

OUT is the sweep of ``data/world_rad_under_churn.toml``; without ``--page`` what is missing of it is
run first.  ``--page`` writes the figure, ``docs/figure-rad-under-churn.svg``, and the table between
the marks in ``docs/living.md``.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

import pandas as pd

from scribe_spark.cli import main as scribe_spark
from scribe_spark.core.paths import replace_file
from scribe_spark.report.style import RC, curve_style
from scribe_spark.report.svg import new_figure, svg_element
from scribe_spark.worlds.summary import measures_by_round
from tools.groups_tables import number, of
from tools.pages import table

__all__ = ["figure", "main", "numbers"]

ROOT = Path(__file__).parents[1]
CONFIG = "data/world_rad_under_churn.toml"
PAGE, FIGURE = "living.md", "figure-rad-under-churn.svg"
BEGIN, END = "<!-- rad_under_churn: begin -->", "<!-- rad_under_churn: end -->"

_POINTS = {"variants=plain": "Scribe", "variants=bottleneck": "with the bottleneck remover"}

#: Measure -> what it is called; what the figure draws.
_DRAWN = {
    "scribe.rad.median": "RAD, median over the groups",
    "scribe.rmd.median": "RMD, median over the groups",
    "scribe.children_entries.max": "entries of a node, most",
}

#: Measure -> head of its column.
_TOLD = {
    "scribe.multicasts.reached": "reached",
    "scribe.rad.median": "RAD, median",
    "scribe.rmd.median": "RMD, median",
    "scribe.rdp.mean": "RDP, largest group",
    "scribe.depth.mean": "depth",
    "scribe.children_entries.mean": "entries, mean",
    "scribe.children_entries.max": "entries, most",
    "scribe.link_stress.mean_existing": "link stress, mean",
    "scribe.link_stress.max": "link stress, most",
    "scribe.joins.shed": "JOINs of dropped children",
    "scribe.overloaded": "overloaded",
}


def worlds(out: Path) -> dict[str, pd.DataFrame]:
    """Return label -> measures by rounds."""
    tables = {label: out / point / "tables" / "rounds" for point, label in _POINTS.items()}
    return {label: measures_by_round(pd.read_parquet(one)) for label, one in tables.items()}


def numbers(played: Mapping[str, pd.DataFrame]) -> list[str]:
    """Return a table: round 0, and the mean over the second half of the rounds."""
    rows = []
    for label, one in played.items():
        half = one.iloc[len(one) // 2 :]
        for when, some in (("round 0", one.iloc[:1]), (f"rounds {half.index[0]} on", half)):
            values = [of(some, name).mean() if name in some else 0.0 for name in _TOLD]
            rows.append([label, when, *map(number, values)])
    return table(["trees", "rounds", *_TOLD.values()], rows)


def figure(played: Mapping[str, pd.DataFrame]) -> str:
    """Return the figure as SVG."""
    from matplotlib import style

    with style.context(["default", RC]):
        drawing = new_figure(7.2, 2.5)
        for place, (measure, what) in enumerate(_DRAWN.items()):
            axes = drawing.add_axes((0.07 + place * 0.325, 0.19, 0.25, 0.72))
            for line, (label, one) in enumerate(played.items()):
                values = of(one, measure)
                axes.plot(values.index, values, label=label, **curve_style(line))
            axes.set(xlabel="round", ylabel=what, ylim=(0, None))
        axes.legend(fontsize=6, frameon=False, loc="center right")
        words = "; ".join(
            f"{label}: " + ", ".join(f"{what} {number(of(one, name).mean())}" for name, what in
                                     _DRAWN.items())
            for label, one in played.items()
        )  # fmt: skip
        heading = "RAD, RMD and node stress under churn, by rounds"
        return svg_element(drawing, "rad-under-churn", heading, words)


def write_page(out: Path, docs: Path) -> None:
    """Write the figure, and the table into the page."""
    played = worlds(out)
    replace_file(docs / FIGURE, figure(played).encode())
    text = (docs / PAGE).read_text("utf-8")
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    lines = [BEGIN, "", *numbers(played), "", END]
    replace_file(docs / PAGE, (before + "\n".join(lines) + after).encode())


def main(arguments: list[str]) -> None:
    """Run the command."""
    out = Path(arguments[0])
    if arguments[1:] == ["--page"]:
        write_page(out, ROOT / "docs")
    else:
        scribe_spark(["world", "--config", str(ROOT / CONFIG), "--out", str(out), "--resume"])


if __name__ == "__main__":
    main(sys.argv[1:])
