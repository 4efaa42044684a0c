"""The page of the living overlay: its section on sustained churn."""

from pathlib import Path

import pandas as pd

from tools.results import page_of

MEASURES = ("lookups.delivered", "lookups.right", "lookups.hops", "lookups.lost", "cells.missing",
            "cells.dead", "cells.delay", "cells.nearest_delay")  # fmt: skip


def write(folder: Path, value: float) -> None:
    """A world of 40 rounds, in which all measures fall to a value until round 12, one for ever."""
    rows = []
    for measure in MEASURES:
        line = [8 * value] * 12 + [value] * 28
        if measure == "cells.delay":
            line = [100 * value - number for number in range(40)]
        rows += [(number, measure, float(one)) for number, one in enumerate(line)]
    (folder / "tables" / "rounds").mkdir(parents=True)
    table = pd.DataFrame(rows, columns=["round", "measure", "value"])
    table.to_parquet(folder / "tables" / "rounds" / "part.parquet")


def test_churn_is_told_by_rounds_and_in_the_steady_state_of_all_seeds(tmp_path):
    write(tmp_path / "churn", 1.0)
    write(tmp_path / "churn-2", 3.0)
    page = page_of("living").parts["churn"].lines(tmp_path)
    rows = [line[2:-2].split(" | ") for line in page if line.startswith("| ")]
    assert [row[0] for row in rows[1:]] == ["0-19", "20-39", "steady, 2 seeds"]
    assert rows[2][3] == "1"
    steady = dict(zip(rows[0], rows[-1], strict=True))
    assert steady["`lookups.hops`"] == "2 ± 1.41 (12, 12)"
    assert steady["`cells.delay`"] == "not settled"
