"""The command that writes docs/checks.md, and its published numbers."""

from collections.abc import Iterator
from dataclasses import replace
from functools import cache

import pytest

from tools import checks
from tools.checks import CHECKS, SHARES, Sizes

SMALL = Sizes(seeds=2, gerbil=(250,), lean={200: 2}, corrosion={40: 20}, lookups=())


@pytest.fixture(scope="module", autouse=True)
def gerbil_once() -> Iterator[None]:
    """A world of gerbil-simsub is played once."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(checks, "gerbil", cache(checks.gerbil))
        yield


def rows_of(name: str) -> list[list[str]]:
    """Return the cells of a check's table, without the head."""
    _, _, *lines = CHECKS[name](SMALL)
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def test_copies_and_grafts_are_those_of_gerbil_simsub():
    """Within 5 % in each of two seeds."""
    copies, grafts, _ = rows_of("gerbil")
    assert copies[:3] == ["250", "copies", "96,320; 6.45"]
    assert copies[4] == grafts[4] == "2 of 2"


def test_peers_that_come_and_go_miss_what_a_flood_brings():
    rules = {tuple(row[:2]): row[2:] for row in rows_of("lean")}
    assert list(rules) == [
        ("D 8, lazy 1", "1,000 (published)"),
        ("D 8, lazy 1", "200"),
        ("D 8, lazy 1", "200, announced for 7 s"),
        ("D 60, flood", "1,000 (published)"),
        ("D 60, flood", "200"),
    ]
    shares = {name: [float(cell.split(";")[0]) for cell in row] for name, row in rules.items()}
    mesh, flood = shares["D 8, lazy 1", "200"], shares["D 60, flood", "200"]
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
    page.write_text("before\n<!-- lean: written by x -->\n<!-- end of lean -->\nafter\n", "utf-8")
    checks.write(page, ["lean"], SMALL)
    assert len(played) == 3 * len(SHARES)
    text = page.read_text("utf-8")
    row = "| D 60, flood | 200 |" + " 12.3; 5.0; 6.0 |" * 4
    assert row in text
    page.write_text(text.replace(row, "| D 60, flood | 200 | old | - | old | - |"), "utf-8")
    played.clear()
    checks.write(page, ["lean"], replace(SMALL, kept=checks.kept_cells(page)))
    assert played == [("D 60, flood", 200, 0.1), ("D 60, flood", 200, 0.3)]
    again = "| D 60, flood | 200 | old | 12.3; 5.0; 6.0 | old | 12.3; 5.0; 6.0 |"
    assert page.read_text("utf-8") == text.replace(row, again)


def test_corrosions_inequalities_hold():
    rows = rows_of("corrosion")
    assert [row[:2] for row in rows] == [["40", "0%"], ["40", "2%"]]
    assert {row[-1] for row in rows} == {"yes"}


def test_a_can_finds_every_key_unless_nodes_are_dead():
    right, hops = checks.can_lookups(200, count=100)
    assert right == 1
    assert 1 < hops < 5
    right = [checks.can_lookups(200, dead)[0] for dead in (0.1, 0.5)]
    assert 0.8 < right[0] < 0.95
    assert 0.1 < right[1] < 0.5
