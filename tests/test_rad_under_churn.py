"""The figure and the table of what churn does to trees, from tables of worlds."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from tools import rad_under_churn


@pytest.fixture
def out(tmp_path: Path) -> Path:
    """Two worlds of four rounds; one round of the first had no multicast."""
    for point, rads in (("plain", [1.5, None, 1.7, 1.9]), ("bottleneck", [1.5, 1.5, 1.5, 2.5])):
        measures = {"scribe.rad.median": rads, "scribe.rmd.median": rads, "nodes.live": [9] * 4}
        measures["scribe.children_entries.max"] = [8, 8, 8, 8]
        if point == "bottleneck":
            measures["scribe.joins.shed"] = [40, None, None, 2]
        rows = [
            (number, "scribe", name, value)
            for name, values in measures.items()
            for number, value in enumerate(values)
            if value is not None
        ]
        folder = tmp_path / f"variants={point}" / "tables" / "rounds"
        folder.mkdir(parents=True)
        table = pd.DataFrame(rows, columns=["round", "system", "measure", "value"])
        table.to_parquet(folder / "part.parquet")
    return tmp_path


def test_the_page_gets_table_and_figure_and_keeps_the_rest(out: Path, tmp_path: Path) -> None:
    docs = tmp_path / "docs"
    docs.mkdir()
    (docs / rad_under_churn.PAGE).write_text(
        f"before\n{rad_under_churn.BEGIN}\nold\n{rad_under_churn.END}\nafter\n", "utf-8"
    )
    rad_under_churn.write_page(out, docs)
    text = (docs / rad_under_churn.PAGE).read_text("utf-8")
    assert text.startswith("before\n")
    assert text.endswith("\nafter\n")
    assert "old" not in text
    rows = [line.split(" | ") for line in text.splitlines() if line.startswith("| ")]
    rad, shed = rows[0].index("RAD, median"), rows[0].index("JOINs of dropped children")
    told = [(row[0], row[1], row[rad], row[shed]) for row in rows[1:]]
    assert told == [
        ("| Scribe", "round 0", "1.5", "0"),
        ("| Scribe", "rounds 2 on", "1.8", "0"),
        ("| with the bottleneck remover", "round 0", "1.5", "40"),
        ("| with the bottleneck remover", "rounds 2 on", "2", "1"),
    ]
    figure = (docs / rad_under_churn.FIGURE).read_text("utf-8")
    assert "RAD, median over the groups" in figure
    assert "with the bottleneck remover" in figure
