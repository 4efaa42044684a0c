"""The pages of Pastry's overlay and of trees over it, of what their experiments have left."""

from pathlib import Path

import pandas as pd
import pytest
from command_line import exit_code

from scribe_spark.config.reference_tree import TreePoint
from scribe_spark.experiments.reference_tree import tidy
from tools import results
from tools.pastry_results import LIVING, REFERENCE_TREE


def write(folder: Path, table: str, frame: pd.DataFrame) -> None:
    """Write a table of an experiment."""
    (folder / "tables" / table).mkdir(parents=True)
    frame.to_parquet(folder / "tables" / table / "part.parquet")


def rounds_of(measures: dict[str, list]) -> pd.DataFrame:
    """Return the table of a world's rounds; a round may have no value."""
    rows = [
        (number, "scribe", name, float(value))
        for name, values in measures.items()
        for number, value in enumerate(values)
        if value is not None
    ]
    return pd.DataFrame(rows, columns=["round", "system", "measure", "value"])


def written(name: str, out: Path, part: str) -> str:
    """Write a page; return the lines between the marks of its part, and see the others stay."""
    begin, end, file = (
        f"before\n<!-- {part}: -->\n",
        f"<!-- end of {part} -->\nafter\n",
        out / "p.md",
    )
    file.write_text(f"{begin}old\n{end}", "utf-8")
    results.main([name, str(out), "--page", str(file)])
    page = file.read_text("utf-8")
    assert page.startswith(begin)
    assert page.endswith(end)
    assert "old" not in page
    return page


def test_churn_is_told_by_rounds_and_in_the_steady_state_of_all_seeds(tmp_path):
    """All measures fall to a value until round 12, and one falls for ever."""
    names = "lookups.delivered lookups.right lookups.hops lookups.lost cells.missing cells.dead"
    for name, value in (("churn", 1.0), ("churn-2", 3.0)):
        line = [8 * value] * 12 + [value] * 28
        measures = dict.fromkeys([*names.split(), "cells.nearest_delay"], line)
        measures["cells.delay"] = [100 * value - number for number in range(40)]
        write(tmp_path / name, "rounds", rounds_of(measures).drop(columns="system"))
    page = LIVING.parts["churn"].lines(tmp_path)
    rows = [line[2:-2].split(" | ") for line in page if line.startswith("| ")]
    assert [row[0] for row in rows[1:]] == ["0-19", "20-39", "steady, 2 seeds"]
    assert rows[2][3] == "1"
    steady = dict(zip(rows[0], rows[-1], strict=True))
    assert steady["`lookups.hops`"] == "2 ± 1.41 (12, 12)"
    assert steady["`cells.delay`"] == "not settled"


def test_trees_under_churn_have_a_table_and_a_figure(tmp_path):
    """Worlds of two seeds; RAD grows for four rounds, and one round had no multicast."""
    for seed in (1, 2):
        rads = [1.5, None, 1.6, 1.9, *[seed + 1.0] * 20]
        measures = dict.fromkeys(["scribe.rad.median", "scribe.rmd.median"], rads)
        for name, value in (("scribe.multicasts.reached", 0.9), ("scribe.depth.mean", 4.0),
                            ("nodes.live", 9), ("scribe.children_entries.max", 8)):  # fmt: skip
            measures[name] = [value] * len(rads)
        shed = {"scribe.joins.shed": [40, None, None, 2, *[seed] * 20]}
        for point, more in (("plain", {}), ("bottleneck", shed)):
            folder = tmp_path / f"seed-{seed}" / f"variants={point}"
            write(folder, "rounds", rounds_of(measures | more))
    text = written("rad-under-churn", tmp_path, "rad_under_churn")
    rows = [line[2:-2].split(" | ") for line in text.splitlines() if line.startswith("| ")]
    heads = ("RAD, median group", "JOINs of dropped children in a round")
    rad, shed = (rows[0].index(head) for head in heads)
    steady = "2", "mean of rounds 3-4 to 23", "2.5 ± 0.71"
    assert [(row[0], row[1], row[2], row[rad], row[shed]) for row in rows[1:]] == [
        ("Scribe", "2", "round 0", "1.5", "0"),
        ("Scribe", *steady, "0"),
        ("with the bottleneck remover", "2", "round 0", "1.5", "40"),
        ("with the bottleneck remover", *steady, "1.52 ± 0.673"),
    ]
    figure = (tmp_path / "figure-rad-under-churn.svg").read_text("utf-8")
    assert "RAD, median over the groups" in figure
    assert "with the bottleneck remover" in figure


def test_reference_trees_have_tables(tmp_path):
    events = {f"faults.{event}": {0: 4} for event in ("connection", "disconnection")}
    areas = {"area.connection": {3: 4}, "area.disconnection": {5: 4}}
    areas |= {"area_without.connection": {2: 4}, "area_without.disconnection": {4: 4}}
    small = {"degree": {1: 6, 2: 3, 9: 1}, **areas, **events}
    large = {**small, "depth": {2: 1, 4: 3}, "parent_lookups": {1: 4}, "child_lookups": {2: 4}}
    for name, point, measured in (
        ("degrees-pastry", TreePoint("events", 120, 8, 3, "pastry"), small),
        ("scaling-pastry", TreePoint("scaling", 1024, 128, 2, "pastry"), large),
    ):
        write(tmp_path / name, "reference_tree", tidy({point: measured}))
    page = written("reference-tree", tmp_path, "trees")
    for line in (
        "*More children* (120 hosts, 256 keys): with up to 3 children, at most 10.00 % of the "
        "hosts have more neighbours than the bound (children + 1); the largest degree is 9. The "
        "cause: if a child of a host's topmost key is not the topmost key of its owner, the hosts "
        "below this child become children of the host. The tree was right after every event.",
        "| `pastry` | 1,024 | 60.0 | 30.0 | 0.0 | 10.00 | 3.50 | 4 | 10.00 | 4.00 ± 0.38 "
        "| 8 | 0 | 1.00 | 2.00 |",
    ):
        assert f"\n{line}\n" in page
    file = tmp_path / "empty.md"
    file.write_text("nothing")
    with pytest.raises(SystemExit, match="the page has no lines"):
        results.main(["reference-tree", str(tmp_path), "--page", str(file)])
    assert file.read_text() == "nothing"


@pytest.mark.parametrize("name", REFERENCE_TREE.experiments)
def test_commands_on_reference_trees_are_understood(name, monkeypatch, capsys):
    monkeypatch.chdir(Path(__file__).parents[1])
    code = exit_code([*REFERENCE_TREE.command(name), "--dry-run"])
    assert code == 0, capsys.readouterr().err
