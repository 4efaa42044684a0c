"""The page of a sweep: every number shown is there, and nothing in it is believed."""

import itertools
import math

import pandas as pd
import pytest

from scribe_spark.report.sweep import render_sweep

from .sample import HOSTILE, Page


def page(grid, values, show=("cost.seconds",), manifest=None):
    """The page of `values`: metric -> a function of the swept values."""
    points = {f"at={n}": at for n, at in enumerate(itertools.product(*grid.values()))}
    rows = [(*at, name, of(*at)) for at in points.values() for name, of in values.items()]
    table = pd.DataFrame(rows, columns=[*grid, "metric", "value"])
    return render_sweep(table, grid, dict.fromkeys(show, "s"), points, manifest or {}).html


def test_lines_and_cells():
    grid = {"tie": ("delay",), "nodes": (1000, 10, 100_000), "b": (2, 4)}
    html = page(grid, {"cost.seconds": lambda _, n, b: n * b / 8})
    rows = [[cell.strip() for cell in row] for row in Page(html).rows]
    assert rows[0][1:4] == ["nodes 1,000, b 2", "nodes 1,000, b 4", "nodes 10, b 2"]
    assert rows[1][1:] == ["250", "500", "2.5", "5", "25,000", "50,000"]
    assert "<h1>Sweep over nodes</h1>" in html
    told = "b 2: 2.5 at nodes 10, 25,000 at nodes 100,000, between 2.5 and 25,000. b 4: 5 at"
    assert told in html
    assert html.count("<svg") == 1 + 2  # and a sample of each line
    assert len(set(Page(html).ids)) == len(Page(html).ids)


@pytest.mark.parametrize(
    "grid",
    [
        {"b": (2,)},
        {"gtitm_quirk": (True, False)},
        {"topology": ("transit-stub", "a" * 80)},
        {"members": ("cost_$x_^$.csv", "$\\fraction$")},
        {"seed": tuple(range(30)), "b": (1, 2)},
        {"b": (1, 2), "seed": tuple(range(30))},
        {"seed": (-1, 0, 2**62)},
    ],
    ids=str,
)
def test_any_field_and_any_value_is_drawn(grid):
    values = {f"cost.{value}": lambda *_, value=value: value for value in (0.0, -5.0, 1e-9, 1e12)}
    html = page(grid, values, show=[*values])
    assert html == page(grid, values, show=[*values])
    assert len(Page(html).rows) == 1 + 4


def test_what_is_missing():
    """A gap in a line; a metric without any value is named, not drawn."""
    of = {"x": lambda b: None if b == 2 else b, "y": lambda b: math.nan}
    html = page({"b": (1, 2, 4)}, of, show=("x", "y", "z"))
    assert html.count("<figure") == 1
    assert "Without a value at any point: y, z." in html
    assert [cell.strip() for cell in Page(html).rows[1][1:]] == ["1", "\N{EN DASH}", "4"]


def test_values_are_not_markup():
    grid = {"topology": (HOSTILE, "b"), "members": (HOSTILE, "d")}
    manifest = {"config": {"topology": [HOSTILE]}, "resolved": {"sweep": [HOSTILE]}}
    html = page(grid, {"cost.seconds": lambda *_: 1.0}, manifest=manifest)
    assert Page(html).tags.count("script") == 1  # the page's own
    assert HOSTILE not in html


def worlds(points: int) -> str:
    """The page of a sweep of worlds; the second has no lookups."""
    grid = {"share": tuple(range(1, points + 1))}
    table = pd.DataFrame({"lookups.hops": [2.5, 3.0], "nodes.live": [60.0, 40.0]})
    rounds = {
        f"at={n}": table.drop(columns="lookups.hops") if n == 1 else table for n in range(points)
    }
    cells = pd.DataFrame(
        [(n + 1, "lookups.hops", 2.75) for n in range(points)], columns=["share", "metric", "value"]
    )
    places = {f"at={n}": (n + 1,) for n in range(points)}
    measures = {"lookups.hops": "hops", "cells.delay": "ms", "nodes.live": "nodes"}
    return render_sweep(
        cells, grid, {"lookups.hops": "hops"}, places, {}, "world", rounds, measures
    ).html


def test_measures_of_worlds_are_drawn_over_the_rounds():
    html = worlds(10)
    page = Page(html)
    assert html.count("<figure") == 1 + 2  # none of what no world has
    assert html.count("<svg") == 1 + 2 + 10  # a sample for each point
    assert len(set(page.ids)) == len(page.ids)
    assert "share 3: 2.5 in round 0, 3 in round 1, between 2.5 and 3." in html
    assert "share 2: 60 in round 0" in html
    assert "share 2: 2.5" not in html
    assert "<dt>Computed in</dt>" not in html  # worlds are not timed
