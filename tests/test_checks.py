"""The command that writes docs/checks.md, its published numbers, and the configs of checks."""

from dataclasses import replace

import pandas as pd
import pytest

from scribe_spark.cli import main as command
from tools import checks
from tools.checks import CHECKS, GERBIL, SHARES, Sizes
from tools.questions import question_of

SMALL = Sizes(seeds=2, gerbil=(250,), lean={300: 2}, corrosion={40: 20}, lookups=())


def rows_of(name: str, sizes: Sizes = SMALL) -> list[list[str]]:
    """Return the cells of a check's table, without the head."""
    _, _, *lines = CHECKS[name](sizes)
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def test_the_command_writes_tables_between_marks(tmp_path):
    page = tmp_path / "checks.md"
    marks = "".join(f"<!-- {name}: written by x -->\n<!-- end of {name} -->\n" for name in CHECKS)
    page.write_text(f"before\n{marks}after\n", "utf-8")
    checks.write(page, ["corrosion"], SMALL)
    text = page.read_text("utf-8")
    assert text.startswith("before\n<!-- gerbil: written by x -->\n<!-- end of gerbil -->\n")
    assert text.endswith("after\n")
    assert "| 40 | 2% | 100.000 % |" in text


def test_the_page_has_the_marks_of_all_checks():
    page = (checks.ROOT / "docs" / "checks.md").read_text("utf-8")
    for name in CHECKS:
        assert page.count(f"<!-- {name}: written by `make checks` -->\n\n|") == 1
        assert page.count(f"|\n\n<!-- end of {name} -->") == 1


def test_copies_and_grafts_are_those_of_gerbil_simsub():
    """Within 5 % in each of two seeds."""
    copies, grafts, _ = rows_of("gerbil")
    assert copies[:3] == ["250", "copies", "96,320; 6.45"]
    assert copies[4] == grafts[4] == "2 of 2"


def test_a_delivery_of_flood_publishing_takes_less_time():
    mesh, flood = (checks.gerbil(250, 1, flood=flood) for flood in (False, True))
    assert flood["0-100 ms"] > 3 * mesh["0-100 ms"]
    assert flood["copies"] > mesh["copies"]
    assert sum(flood[f"{100 * n}-{100 * n + 100} ms"] for n in range(4)) == 249 * 60
    # in each of the 62 heartbeats after the first publication
    assert mesh["IHAVE"] == 62 * 250 * 6


def test_published_numbers_add_up():
    """The bins of gerbil-simsub are the deliveries of 60 messages to 999 nodes."""
    bins = [value for what, (value, _) in GERBIL[1000, False].items() if "ms" in what]
    assert sum(bins) == 60 * 999


def test_peers_that_come_and_go_miss_what_a_flood_brings():
    rules = {tuple(row[:2]): row[2:] for row in rows_of("lean")}
    assert list(rules) == [
        ("D 8, lazy 1", "1,000 (published)"),
        ("D 8, lazy 1", "300"),
        ("D 8, lazy 1", "300, announced for 7 s"),
        ("D 60, flood", "1,000 (published)"),
        ("D 60, flood", "300"),
    ]
    shares = {name: [float(cell.split(";")[0]) for cell in row] for name, row in rules.items()}
    mesh, flood = shares["D 8, lazy 1", "300"], shares["D 60, flood", "300"]
    assert mesh[0] == flood[0] == 100
    assert all(low <= high for low, high in zip(flood, mesh, strict=True))
    assert flood[-1] == pytest.approx(100 * (1 - SHARES[-1] / 6), abs=2)


def test_cells_of_the_page_are_kept_and_missing_ones_played(tmp_path, monkeypatch):
    played = []

    def lean(nodes, share, rules, messages, **more):
        played.append((rules, nodes, share, *more))
        return 12.34, 5.0, 6.0

    monkeypatch.setattr(checks, "lean", lean)
    page = tmp_path / "checks.md"
    page.write_text("<!-- lean: written by x -->\n<!-- end of lean -->\n", "utf-8")
    checks.write(page, ["lean"], SMALL)
    assert len(played) == 3 * len(SHARES)
    text = page.read_text("utf-8")
    row = "| D 60, flood | 300 |" + " 12.3; 5.0; 6.0 |" * 4
    assert row in text
    page.write_text(text.replace(row, "| D 60, flood | 300 | old | - | old | - |"), "utf-8")
    played.clear()
    checks.write(page, ["lean"], replace(SMALL, kept=checks.kept_cells(page)))
    assert played == [("D 60, flood", 300, 0.1), ("D 60, flood", 300, 0.3)]
    again = "| D 60, flood | 300 | old | 12.3; 5.0; 6.0 | old | 12.3; 5.0; 6.0 |"
    assert page.read_text("utf-8") == text.replace(row, again)


def test_corrosions_inequalities_hold():
    rows = rows_of("corrosion")
    assert [row[:2] for row in rows] == [["40", "0%"], ["40", "2%"]]
    assert {row[-1] for row in rows} == {"yes"}


def test_the_gossip_of_corrosion_is_counted_by_hand(monkeypatch):
    """Three regions of one node each: nobody is near, and each node sends to both others."""
    monkeypatch.setattr(checks, "regions_of", lambda nodes, seed: checks.np.array([0, 7, 17]))
    assert checks.foca_redundancy(3, 1) == 3 * 2 / 2 - 1


def test_look_ups_are_the_mean_of_the_second_half(tmp_path):
    (tmp_path / "tables" / "rounds").mkdir(parents=True)
    values = {"lookups.right": [0.1, 0.2, 0.9, 0.8], "lookups.hops": [1.0, 1.0, 2.0, 3.0]}
    rows = [
        {"round": number, "measure": name, "value": value}
        for name, each in values.items()
        for number, value in enumerate(each)
    ]
    pd.DataFrame(rows).to_parquet(tmp_path / "tables" / "rounds" / "one.parquet")
    assert checks.pastry_lookups(tmp_path) == (pytest.approx(0.85), 2.5)


def test_a_can_without_churn_finds_every_key():
    right, hops = checks.can_lookups(200, count=100)
    assert right == 1
    assert 1 < hops < 5


def test_a_can_with_dead_nodes_finds_the_keys_of_live_ones():
    right = [checks.can_lookups(200, dead)[0] for dead in (0.1, 0.5)]
    assert 0.8 < right[0] < 0.95
    assert 0.1 < right[1] < 0.5


@pytest.mark.parametrize(
    ("name", "asks"), [("gerbil_simsub", "run"), ("corrosion", "run"), ("lookups", "world")]
)
def test_configs_of_checks_ask_one_question(name, asks, capsys):
    path = checks.ROOT / "data" / f"{name}.toml"
    asked = question_of(path)
    assert asked[0].isupper()
    assert asked.count("?") == 1
    command([asks, "--config", str(path), "--dry-run"])
    assert f"nodes = {dict(gerbil_simsub=1000, corrosion=200, lookups=3300)[name]}" in (
        capsys.readouterr().out
    )
