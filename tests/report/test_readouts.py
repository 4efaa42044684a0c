"""Values under the pointer, where they are, and the files of a figure."""

import io
import re

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from scribe_spark.report.page import Report
from scribe_spark.report.paper_figures import FIGURES, draw_figure
from scribe_spark.report.run import render

from . import sample
from .sample import COLUMNS, rounds_figure, spots, table, words


def test_every_round_of_every_line_is_told():
    lines = {
        "joined": pd.Series([1.0, 2.5, np.nan, 4000.0], index=[0, 1, 2, 3]),
        "left <&>": pd.Series([7.0, 8.0], index=[1, 3]),
    }
    svg = rounds_figure(lines).svg
    assert words(svg) == [
        ["round 0", "joined: 1"],
        ["round 1", "joined: 2.5", "left <&>: 7"],
        ["round 3", "joined: 4,000", "left <&>: 8"],
    ]
    assert "left &lt;&amp;&gt;" in svg
    # a touch or the keys show a value: a spot can have the focus, and its words are seen
    assert svg.count('<g class="spot" tabindex="-1">') == 3
    assert ".spot:focus .told { visibility: visible; }" in svg


@pytest.mark.parametrize("count", [30, 5_000])
def test_areas_lie_side_by_side_over_the_axes(count):
    """Values that are too close to be pointed at are thinned."""
    areas = [
        area for area, _ in spots(rounds_figure({"a": pd.Series(np.arange(float(count)))}).svg)
    ]
    left, width = ([float(a.get(name, "")) for a in areas] for name in ("x", "width"))
    assert np.allclose(np.array(left) + width, [*left[1:], left[-1] + width[-1]], atol=0.11)
    # as wide as the axes: 0.81 of 4.6 inches
    assert sum(width) == pytest.approx(0.81 * 4.6 * 72, abs=7)
    assert min(width) > 1
    assert len(areas) == count or 100 < len(areas) < 0.83 * 4.6 * 72 / 2.4 + 2


def test_figures_of_the_paper_tell_exact_bounded_and_cumulative_counts():
    rows = [("8", "scribe", "children_tables", value, n) for value, n in ((0, 5), (1, 2), (4, 3))]
    rows += [("7", "scribe", "rad", value, n) for value, n in ((1.25, 3), (1.5, 1))]
    rows += [("7", "scribe", "rmd", 1.25, 4)]
    table = pd.DataFrame(rows, columns=COLUMNS)
    assert words(draw_figure(FIGURES[2], table).svg) == [
        ["children tables: 0", "nodes: 5"],
        ["children tables: 1", "nodes: 2"],
        ["children tables: 4", "nodes: 3"],
        # the inset, on a logarithmic axis
        ["children tables: at least 1", "nodes: 5"],
        ["children tables: at least 4", "nodes: 3"],
    ]
    assert words(draw_figure(FIGURES[1], table).svg) == [
        ["delay penalty: at most 1.25", "RAD: 3", "RMD: 4"],
        ["delay penalty: at most 1.5", "RAD: 4", "RMD: 4"],
    ]


# --- the files of a figure: SVG, PNG and CSV of the same values


def links_of(html: str) -> list[str]:
    return re.findall(r'<a href="([^"]*)"', html)


def test_a_figure_of_lines_is_also_a_png_and_a_table(images):
    lines = {"joined": pd.Series([1.0, 2.5, None]), "left, <&>": pd.Series([7.0, 8], index=[1, 2])}
    files, again = (Report("", [rounds_figure(lines)]).files for _ in range(2))
    assert files == again
    assert list(files) == ["x.svg", "x.png", "x.csv"]
    png = Image.open(io.BytesIO(files["x.png"]))
    assert (png.size, png.mode) == ((920, 577), "RGB")  # quickly packed, without alpha
    assert files["x.csv"] == b'round,joined,"left, <&>"\n0,1,\n1,2.5,7\n2,,8\n'


def test_every_figure_of_a_run_links_its_files_and_its_table():
    rows = sample.distributions()
    metrics = [*sample.metrics(), {"name": "scribe.latency.p50", "value": 3.0}]
    report = render(metrics, sample.manifest(), rows)
    links = links_of(report.html)
    for figure in report.figures:
        names = {f"{figure.name}.{kind}" for kind in ("svg", "png", "csv")}
        assert {f"figures/{name}" for name in names} <= {*links}
    assert links.count("tables/distributions") == len(report.figures)
    assert "tables/latency" in links
    packets = rows[(rows["measure"] == "link_stress") & (rows["system"] == "naive_unicast")]
    (found,) = (table(one) for one in report.figures if one.name == "figure-10-link-stress")
    named = dict(zip(found.iloc[:, 0], found["Naive unicast"], strict=True))
    some = packets.iloc[0]  # of a system that is in the inset only
    assert float(named[some["value"]]) == some["count"]
    # links to tables that a folder does not have are left out
    few = sample.distributions(nodes=200, groups=6)
    assert "tables/" not in render(metrics, {}, few, tables=("metrics",)).html
