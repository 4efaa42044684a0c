"""Values under the pointer: every value is told, where it is, in the drawing itself."""

import io
import re
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from scribe_spark.core.histogram import Histogram
from scribe_spark.report.charts import line_words
from scribe_spark.report.paper_figures import FIGURES, draw_figure
from scribe_spark.report.run import render
from scribe_spark.report.svg import (
    MOST_ROWS,
    Line,
    Readout,
    Spot,
    exactly,
    figure_files,
    new_figure,
    spot_svg,
    svg_element,
)
from scribe_spark.report.sweep import render_sweep

from . import sample
from .sample import rounds_svg

COLUMNS = ["figure", "system", "measure", "value", "count"]
SVG = "{http://www.w3.org/2000/svg}"


def spots(svg: str) -> list[tuple[ElementTree.Element, list[str]]]:
    """The area of each spot, and its words."""
    found = []
    for group in ElementTree.fromstring(svg).iter(f"{SVG}g"):
        if group.get("class") == "spot":
            area, told = group
            assert area.get("class") == "area"
            assert (told.get("class"), told.get("visibility")) == ("told", "hidden")
            found.append((area, [line.text or "" for line in told.iter(f"{SVG}tspan")]))
    return found


def words(svg: str) -> list[list[str]]:
    return [lines for _, lines in spots(svg)]


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


def test_a_touch_or_the_keys_show_a_value():
    """A spot can have the focus, and the words of the one that has it are seen."""
    svg = rounds_svg({"a": pd.Series([1.0, 2.0])})
    assert svg.count('<g class="spot" tabindex="-1">') == 2
    assert ".spot:focus .told { visibility: visible; }" in svg


def test_areas_lie_side_by_side_over_the_axes():
    svg = rounds_svg({"a": pd.Series(np.arange(30.0))})
    areas = [area for area, _ in spots(svg)]
    left, width = ([float(a.get(name, "")) for a in areas] for name in ("x", "width"))
    assert np.allclose(np.array(left) + width, [*left[1:], left[-1] + width[-1]], atol=0.11)
    # as wide as the axes: 0.81 of 4.6 inches
    assert sum(width) == pytest.approx(0.81 * 4.6 * 72, abs=3)


def test_values_too_close_to_be_pointed_at_are_thinned():
    svg = rounds_svg({"a": pd.Series(np.arange(5000.0))})
    told = spots(svg)
    assert 100 < len(told) < 0.83 * 4.6 * 72 / 2.4 + 2
    assert min(float(area.get("width", "")) for area, _ in told) > 1


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


def test_counts_of_a_histogram_between_and_beyond_its_values():
    data = Histogram(np.array([1.0, 3.0]), np.array([10.0, 2.0]))
    x = np.array([0.0, 1.0, 2.0, 3.0, 4.0])
    assert data.count_at_most(x).tolist() == [0, 10, 10, 12, 12]
    assert np.nan_to_num(data.count_of(x), nan=-1).tolist() == [0, 10, 0, 2, -1]
    assert np.nan_to_num(data.count_at_least(x), nan=-1).tolist() == [12, 12, 2, 2, -1]


def test_words_stay_inside_the_drawing():
    for x in (0, 50, 99):
        for y in (0, 90):
            svg = spot_svg(Spot('circle r="1"', x, y, [("some words", "red"), ("b", "")]), 100, 90)
            box = ElementTree.fromstring(svg).find(".//rect")
            left, top, wide, high = (float(box.get(n)) for n in ("x", "y", "width", "height"))
            assert left >= 0
            assert left + wide <= 100
            assert top >= 0
            assert top + high <= 90


def test_markers_are_where_the_line_is():
    with new_figure(2, 2) as figure:
        axes = figure.add_axes((0.0, 0.0, 1.0, 1.0))
        axes.set(xlim=(0, 10), ylim=(0, 10))
        x, y = np.array([2.0, 5.0]), np.array([3.0, 9.0])
        readout = Readout(axes, [Line("a", {"color": "#123456"}, x, exactly(x, y))], str)
        svg = svg_element(figure, "n", "t", "w", [readout])
    dots = re.findall(r'<circle cx="([\d.]+)" cy="([\d.]+)" r="2.2" fill="#123456"/>', svg)
    assert dots == [("28.8", "100.8"), ("72", "14.4")]


def test_a_drawing_without_readouts_has_no_spots():
    with new_figure(1, 1) as figure:
        with_none = svg_element(figure, "n", "t", "w")
    assert spots(with_none) == []
    assert "<script" not in with_none


# --- drawings over the rounds of a world


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({3: 2, 4: 5, 9: 1}, "Late: 2 in round 3, 1 in round 9, between 1 and 5."),
        ({3: 2, 4: None, 9: 2}, "Late: 2 in rounds 3 to 9."),
        ({3: None, 9: 90}, "Late: 90 in round 9."),
    ],
)
def test_words_of_a_line(values, words):
    assert line_words("late", pd.Series(values, dtype=float)) == words


def ticks(drawing: str, axis: str) -> list[str]:
    """The labels along an axis, by matplotlib's names of their groups."""
    found = ElementTree.fromstring(drawing).iter(f"{SVG}g")
    return [
        "".join(text.itertext()).strip()
        for group in found
        if group.get("id", "").startswith(f"name-{axis}tick")
        for text in group.iter(f"{SVG}text")
    ]


@pytest.mark.parametrize("rounds", [[9], [0, 1], [0, 1, 2]])
def test_rounds_and_counts_are_whole_numbers(rounds):
    line = pd.Series(1.0, index=rounds)
    drawing = rounds_svg({"lost": line, "none": line * 0}, "name")
    for axis in "xy":
        found = ticks(drawing, axis)
        assert found
        assert all(text.isdigit() for text in found), found
    assert "9" in ticks(rounds_svg({"lost": line}, "name"), "x") or rounds != [9]


def test_shares_have_parts():
    line = pd.Series([0.2, 0.9], index=[0, 1])
    drawing = rounds_svg({"share": line}, "name")
    assert not all(text.isdigit() for text in ticks(drawing, "y"))


# --- the files of a figure: SVG, PNG and CSV of the same values


def links_of(html: str) -> list[str]:
    return re.findall(r'<a href="([^"]*)"', html)


def table(content: bytes) -> pd.DataFrame:
    return pd.read_csv(io.BytesIO(content))


def test_a_figure_of_lines_is_also_a_png_and_a_table(images):
    lines = {"joined": pd.Series([1.0, 2.5, None]), "left, <&>": pd.Series([7.0, 8], index=[1, 2])}
    files = dict(figure_files({"x": rounds_svg(lines)}))
    assert list(files) == ["x.svg", "x.png", "x.csv"]
    png = Image.open(io.BytesIO(files["x.png"]))
    assert (png.size, png.mode) == ((920, 540), "RGB")  # quickly packed, without alpha
    found = table(files["x.csv"])
    assert list(found) == ["round", "joined", "left, <&>"]
    assert found.fillna(-1).to_numpy().tolist() == [[0, 1, -1], [1, 2.5, 7], [2, -1, 8]]


def test_equal_data_give_equal_files(images):
    drawn = [rounds_svg({"a": pd.Series([1.0, 3.0])}) for _ in range(2)]
    first, second = (dict(figure_files({"x": one})) for one in drawn)
    assert first == second


def test_a_table_of_many_values_is_thinned_and_keeps_both_ends():
    drawn = rounds_svg({"a": pd.Series(range(5 * MOST_ROWS), dtype=float)})
    found = table(drawn.as_csv())
    assert len(found) == MOST_ROWS
    assert found["round"].iloc[[0, -1]].tolist() == [0, 5 * MOST_ROWS - 1]


def test_every_figure_of_a_run_links_its_files_and_its_table():
    report = render(sample.metrics(), sample.manifest(), sample.distributions(2_000, 60))
    links = links_of(report.html)
    for name in report.figures:
        assert {f"figures/{name}.{kind}" for kind in ("svg", "png", "csv")} <= {*links}
    assert links.count("tables/distributions") == len(report.figures)
    rows = sample.distributions(2_000, 60)
    packets = rows[(rows["measure"] == "link_stress") & (rows["system"] == "naive_unicast")]
    found = table(report.figures["figure-10-link-stress"].as_csv())
    named = dict(zip(found.iloc[:, 0], found["Naive unicast"], strict=True))
    some = packets.iloc[0]  # of a system that is in the inset only
    assert named[some["value"]] == some["count"]


def test_links_to_tables_that_a_folder_does_not_have_are_left_out():
    metrics = [*sample.metrics(), {"name": "scribe.latency.p50", "value": 3.0}]
    args = metrics, sample.manifest(), sample.distributions(200, 6)
    assert {"tables/distributions", "tables/latency"} <= {*links_of(render(*args).html)}
    assert "tables/" not in render(*args, tables=("metrics",)).html


def test_the_table_of_a_sweep_has_values_as_they_are_typed():
    grid = {"topology": ("a,b", "c")}
    rows = pd.DataFrame({"topology": ["a,b", "c"], "metric": "m.x", "value": [1.0, 2.0]})
    page = render_sweep(rows, grid, {"m.x": "s"}, {"p": ("a,b",), "q": ("c",)}, {})
    (name,) = page.figures
    assert page.figures[name].as_csv() == b'topology,s\n"a,b",1\nc,2\n'
    assert f"figures/{name}.png" in page.html
