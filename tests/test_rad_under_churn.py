"""The figure and the table of what churn does to trees, from tables of worlds."""

from pathlib import Path

import pandas as pd
import pytest

from tools import results

BEGIN, END = "<!-- rad_under_churn: -->\n", "<!-- end of rad_under_churn -->\n"


@pytest.fixture
def out(tmp_path: Path) -> Path:
    """Worlds of two seeds; RAD grows for four rounds, and one round had no multicast."""
    for seed in (1, 2):
        for point in ("plain", "bottleneck"):
            rads = [1.5, None, 1.6, 1.9, *[seed + 1.0] * 20]
            rounds = len(rads)
            measures = {
                "scribe.rad.median": rads, "scribe.rmd.median": rads,
                "scribe.multicasts.reached": [0.9] * rounds, "scribe.depth.mean": [4.0] * rounds,
                "nodes.live": [9] * rounds, "scribe.children_entries.max": [8] * rounds,
            }  # fmt: skip
            if point == "bottleneck":
                measures["scribe.joins.shed"] = [40, None, None, 2, *[seed] * 20]
            rows = [
                (number, "scribe", name, value)
                for name, values in measures.items()
                for number, value in enumerate(values)
                if value is not None
            ]
            folder = tmp_path / f"seed-{seed}" / f"variants={point}" / "tables" / "rounds"
            folder.mkdir(parents=True)
            table = pd.DataFrame(rows, columns=["round", "system", "measure", "value"])
            table.to_parquet(folder / "part.parquet")
    return tmp_path


def test_the_page_gets_table_and_figure_and_keeps_the_rest(out: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"before\n{BEGIN}old\n{END}after\n", "utf-8")
    results.main(["rad-under-churn", str(out), "--page", str(page)])
    text = page.read_text("utf-8")
    assert text.startswith("before\n")
    assert text.endswith("\nafter\n")
    assert "old" not in text
    rows = [line[:-2].split(" | ") for line in text.splitlines() if line.startswith("| ")]
    heads = ("RAD, median group", "JOINs of dropped children in a round")
    rad, shed = (rows[0].index(head) for head in heads)
    told = [(row[0], row[1], row[2], row[rad], row[shed]) for row in rows[1:]]
    assert told == [
        ("| Scribe", "2", "round 0", "1.5", "0"),
        ("| Scribe", "2", "mean of rounds 3-4 to 23", "2.5 ± 0.71", "0"),
        ("| with the bottleneck remover", "2", "round 0", "1.5", "40"),
        (
            "| with the bottleneck remover",
            "2",
            "mean of rounds 3-4 to 23",
            "2.5 ± 0.71",
            "1.52 ± 0.673",
        ),
    ]
    figure = (tmp_path / "figure-rad-under-churn.svg").read_text("utf-8")
    assert "RAD, median over the groups" in figure
    assert "with the bottleneck remover" in figure
