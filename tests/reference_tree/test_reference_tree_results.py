"""The tables of docs/reference_tree.md, out of what the experiments have left."""

from pathlib import Path

import pytest

from scribe_spark.config import ReferenceTreeConfig
from scribe_spark.config.reference_tree import TreePoint
from scribe_spark.experiments.reference_tree import tidy
from tools import results
from tools.pastry_results import REFERENCE_TREE

BEGIN, END = "<!-- trees: -->\n", "<!-- end of trees -->\n"


def write(out: Path, name: str, measured) -> None:
    folder = out / name / "tables" / "reference_tree"
    folder.mkdir(parents=True)
    tidy(measured).to_parquet(folder / "part.parquet")


def test_tables_between_the_marks(tmp_path):
    events = {f"faults.{event}": {0: 4} for event in ("connection", "disconnection")}
    areas = {"area.connection": {3: 4}, "area.disconnection": {5: 4}}
    areas |= {"area_without.connection": {2: 4}, "area_without.disconnection": {4: 4}}
    small = {"degree": {1: 6, 2: 3, 9: 1}, **areas, **events}
    write(tmp_path, "degrees-pastry", {TreePoint("events", 120, 8, 3, "pastry"): small})
    large = {**small, "depth": {2: 1, 4: 3}, "parent_lookups": {1: 4}, "child_lookups": {2: 4}}
    write(tmp_path, "scaling-pastry", {TreePoint("scaling", 1024, 128, 2, "pastry"): large})
    file = tmp_path / "page.md"
    file.write_text(f"before\n{BEGIN}old\n{END}after\n")
    results.main(["reference-tree", str(tmp_path), "--page", str(file)])
    page = file.read_text("utf-8")
    assert page.startswith(f"before\n{BEGIN}")
    assert page.endswith(f"{END}after\n")
    assert "old" not in page
    for line in (
        "*More children* (120 hosts, 256 keys): with up to 3 children, at most 10.00 % of the "
        "hosts have more neighbours than the bound (children + 1); the largest degree is 9. The "
        "tree was wrong after 0 events.",
        "| `pastry` | 1,024 | 60.0 | 30.0 | 0.0 | 10.00 | 3.50 | 4 | 10.00 | 4.00 ± 0.38 "
        "| 8 | 0 | 1.00 | 2.00 |",
    ):
        assert f"\n{line}\n" in page
    file.write_text("nothing")
    with pytest.raises(SystemExit, match="the page has no lines"):
        results.main(["reference-tree", str(tmp_path), "--page", str(file)])
    assert file.read_text() == "nothing"


def test_every_experiment_is_a_command():
    for name in REFERENCE_TREE.experiments:
        command, *words = REFERENCE_TREE.command(name)
        assert command == "reference-tree"
        pairs = zip(words[::2], words[1::2], strict=True)
        ReferenceTreeConfig(**{flag[2:]: int(v) if flag == "--connections" else v
                               for flag, v in pairs})  # fmt: skip
