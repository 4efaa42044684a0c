"""Values under the pointer, where they are, and the files of a figure."""

import io
import re
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from scribe_spark.report.charts import MOST_ROWS, Axis, Panel, draw, line_of, lines_panel
from scribe_spark.report.paper_figures import FIGURES, draw_figure
from scribe_spark.report.run import render
from scribe_spark.report.style import as_text
from scribe_spark.report.svg import Spot, figure_files, new_figure, spot_svg, svg_element
from scribe_spark.report.sweep import render_sweep

from . import sample
from .sample import COLUMNS, SVG, rounds_svg, spots, table, words


def test_every_round_of_every_line_is_told():
    lines = {
        "joined": pd.Series([1.0, 2.5, np.nan, 4000.0], index=[0, 1, 2, 3]),
        "left <&>": pd.Series([7.0, 8.0], index=[1, 3]),
    }
    svg = rounds_svg(lines)
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
    areas = [area for area, _ in spots(rounds_svg({"a": pd.Series(np.arange(float(count)))}))]
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


def test_words_stay_inside_the_drawing():
    for x in (0, 50, 99):
        for y in (0, 90):
            spot = Spot((0, 0, 1, 1), x, y, [("some words", "red"), ("b", "")])
            _, box = ElementTree.fromstring(spot_svg(spot, 100, 90)).iter("rect")
            left, top, wide, high = (float(box.get(n)) for n in ("x", "y", "width", "height"))
            assert 0 <= left <= 100 - wide
            assert 0 <= top <= 90 - high


def test_markers_are_where_the_line_is():
    line = line_of("a", {"color": "#123456"}, [2.0, 5.0], [3.0, 9.0])
    axis = Axis("", 0, 10)
    svg = draw(Panel("n", "t", "points", [line], axis, axis)).svg
    dots = re.findall(r'<circle cx="([\d.]+)" cy="([\d.]+)" r="2.2" fill="#123456"/>', svg)
    # of 3.1 by 2.1 inches, the axes begin at 0.18 and 0.2, and take 0.78 and 0.75
    places = [(0.18 + 0.78 * x / 10, 1 - 0.2 - 0.75 * y / 10) for x, y in ((2, 3), (5, 9))]
    wanted = [(72 * 3.1 * x, 72 * 2.1 * y) for x, y in places]
    assert np.allclose([[float(x), float(y)] for x, y in dots], wanted, atol=0.06)


def test_a_drawing_without_spots_has_none():
    with new_figure(1, 1) as figure:
        assert spots(svg_element(figure, "n", "t", "w")) == []


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ({3: 2, 4: 5, 9: 1}, "late: 2 in day 3, 1 in day 9, between 1 and 5."),
        ({3: 2, 4: None, 9: 2}, "late: 2 from day 3 to day 9."),
        ({3: None, 9: 90}, "late: 90 in day 9."),
        ({3: None}, ""),
    ],
)
def test_words_of_a_line(values, told):
    lines = {"late": pd.Series(values, dtype=float)}
    axes = Axis(), Axis()
    panel = lines_panel("x", "x", "x", lines, *axes, lambda x: f"day {as_text(x)}", before="in")
    assert panel.words == told


def ticks(drawing: str, axis: str) -> list[str]:
    """The labels along an axis, by matplotlib's names of their groups."""
    return [
        "".join(text.itertext()).strip()
        for group in ElementTree.fromstring(drawing).iter(f"{SVG}g")
        if group.get("id", "").startswith(f"name-{axis}tick")
        for text in group.iter(f"{SVG}text")
    ]


@pytest.mark.parametrize("rounds", [[9], [0, 1], [0, 1, 2]])
def test_rounds_and_counts_are_whole_numbers_and_shares_are_not(rounds):
    line = pd.Series(1.0, index=rounds)
    drawing = rounds_svg({"lost": line, "none": line * 0}, "name")
    for axis in "xy":
        found = ticks(drawing, axis)
        assert found
        assert all(text.isdigit() for text in found), found
    assert "9" in ticks(drawing, "x") or rounds != [9]
    assert not all(text.isdigit() for text in ticks(rounds_svg({"a": line * 0.9}, "name"), "y"))


# --- the files of a figure: SVG, PNG and CSV of the same values


def links_of(html: str) -> list[str]:
    return re.findall(r'<a href="([^"]*)"', html)


def test_a_figure_of_lines_is_also_a_png_and_a_table(images):
    lines = {"joined": pd.Series([1.0, 2.5, None]), "left, <&>": pd.Series([7.0, 8], index=[1, 2])}
    files, again = (dict(figure_files({"x": rounds_svg(lines)})) for _ in range(2))
    assert files == again
    assert list(files) == ["x.svg", "x.png", "x.csv"]
    png = Image.open(io.BytesIO(files["x.png"]))
    assert (png.size, png.mode) == ((920, 540), "RGB")  # quickly packed, without alpha
    assert files["x.csv"] == b'round,joined,"left, <&>"\n0,1,\n1,2.5,7\n2,,8\n'


def test_a_table_of_many_values_is_thinned_and_keeps_both_ends():
    found = table(rounds_svg({"a": pd.Series(range(5 * MOST_ROWS), dtype=float)}))
    assert len(found) == MOST_ROWS
    assert found["round"].iloc[[0, -1]].tolist() == [0, 5 * MOST_ROWS - 1]


def test_every_figure_of_a_run_links_its_files_and_its_table():
    rows = sample.distributions()
    metrics = [*sample.metrics(), {"name": "scribe.latency.p50", "value": 3.0}]
    report = render(metrics, sample.manifest(), rows)
    links = links_of(report.html)
    for name in report.figures:
        assert {f"figures/{name}.{kind}" for kind in ("svg", "png", "csv")} <= {*links}
    assert links.count("tables/distributions") == len(report.figures)
    assert "tables/latency" in links
    packets = rows[(rows["measure"] == "link_stress") & (rows["system"] == "naive_unicast")]
    found = table(report.figures["figure-10-link-stress"])
    named = dict(zip(found.iloc[:, 0], found["Naive unicast"], strict=True))
    some = packets.iloc[0]  # of a system that is in the inset only
    assert float(named[some["value"]]) == some["count"]
    # links to tables that a folder does not have are left out
    few = sample.distributions(nodes=200, groups=6)
    assert "tables/" not in render(metrics, {}, few, tables=("metrics",)).html


def test_the_table_of_a_sweep_has_values_as_they_are_typed():
    grid = {"topology": ("a,b", "c")}
    rows = pd.DataFrame({"topology": ["a,b", "c"], "metric": "m.x", "value": [1.0, 2.0]})
    page = render_sweep(rows, grid, {"m.x": "s"}, {"p": ("a,b",), "q": ("c",)}, {})
    (name,) = page.figures
    assert page.figures[name].as_csv() == b'topology,s\n"a,b",1\nc,2\n'
    assert f"figures/{name}.png" in page.html
