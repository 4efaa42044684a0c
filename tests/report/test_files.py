"""The files of a figure: SVG, PNG and CSV of the same values."""

from __future__ import annotations

import io

import pandas as pd
from PIL import Image

from scribe_spark.report import figure_files, render
from scribe_spark.report.svg import MOST_ROWS
from scribe_spark.report.sweep import render_sweep

from . import sample
from .test_page import Page


def table(content: bytes) -> pd.DataFrame:
    return pd.read_csv(io.BytesIO(content))


def test_a_figure_of_lines_is_also_a_png_and_a_table(images):
    lines = {"joined": pd.Series([1.0, 2.5, None]), "left, <&>": pd.Series([7.0, 8], index=[1, 2])}
    files = dict(figure_files({"x": sample.rounds_svg(lines)}))
    assert list(files) == ["x.svg", "x.png", "x.csv"]
    png = Image.open(io.BytesIO(files["x.png"]))
    assert (png.size, png.mode) == ((920, 540), "RGB")  # quickly packed, without alpha
    found = table(files["x.csv"])
    assert list(found) == ["round", "joined", "left, <&>"]
    assert found.fillna(-1).to_numpy().tolist() == [[0, 1, -1], [1, 2.5, 7], [2, -1, 8]]


def test_equal_data_give_equal_files(images):
    drawn = [sample.rounds_svg({"a": pd.Series([1.0, 3.0])}) for _ in range(2)]
    first, second = (dict(figure_files({"x": one})) for one in drawn)
    assert first == second


def test_a_table_of_many_values_is_thinned_and_keeps_both_ends():
    drawn = sample.rounds_svg({"a": pd.Series(range(5 * MOST_ROWS), dtype=float)})
    found = table(drawn.as_csv())
    assert len(found) == MOST_ROWS
    assert found["round"].iloc[[0, -1]].tolist() == [0, 5 * MOST_ROWS - 1]


def test_every_figure_of_a_run_links_its_files_and_its_table():
    report = render(sample.metrics(), sample.manifest(), sample.distributions(2_000, 60))
    page = Page(report.html)
    for name in report.figures:
        assert {f"figures/{name}.{kind}" for kind in ("svg", "png", "csv")} <= {*page.links}
    assert page.links.count("tables/distributions") == len(report.figures)
    rows = sample.distributions(2_000, 60)
    packets = rows[(rows["measure"] == "link_stress") & (rows["system"] == "naive_unicast")]
    found = table(report.figures["figure-10-link-stress"].as_csv())
    named = dict(zip(found.iloc[:, 0], found["Naive unicast"], strict=True))
    some = packets.iloc[0]  # of a system that is in the inset only
    assert named[some["value"]] == some["count"]


def test_links_to_tables_that_a_folder_does_not_have_are_left_out():
    metrics = [*sample.metrics(), {"name": "scribe.latency.p50", "value": 3.0}]
    args = metrics, sample.manifest(), sample.distributions(200, 6)
    assert {"tables/distributions", "tables/latency"} <= {*Page(render(*args).html).links}
    assert "tables/" not in render(*args, tables=("metrics",)).html


def test_the_table_of_a_sweep_has_values_as_they_are_typed():
    grid = {"topology": ("a,b", "c")}
    rows = pd.DataFrame({"topology": ["a,b", "c"], "metric": "m.x", "value": [1.0, 2.0]})
    page = render_sweep(rows, grid, {"m.x": "s"}, {"p": ("a,b",), "q": ("c",)}, {})
    (name,) = page.figures
    assert page.figures[name].as_csv() == b'topology,s\n"a,b",1\nc,2\n'
    assert f"figures/{name}.png" in page.html
