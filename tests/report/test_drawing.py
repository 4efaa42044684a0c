"""The figures: what they draw, the same every time, and that they may share a page."""

import re
import subprocess
import sys
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import pytest

from scribe_spark.core.histogram import Histogram
from scribe_spark.report.comparison import published_of_figure
from scribe_spark.report.paper_figures import (
    FIGURES,
    draw_figure,
    read_histogram,
    series_of,
    shown_figures,
    with_gaps,
)
from scribe_spark.report.svg import PageFigure
from scribe_spark.systems.registry import TREE, System, register_system, unregister_system

from . import sample

COLUMNS = ["figure", "system", "measure", "value", "count"]


@pytest.fixture(scope="module")
def drawings() -> dict[str, PageFigure]:
    table = sample.distributions(nodes=2_000, groups=60)
    return {spec.number: drawn(spec, table) for spec in FIGURES}


def drawn(spec, table) -> PageFigure:
    """A figure of the paper's experiment."""
    return draw_figure(spec, table, published_of_figure(spec, sample.metrics()))


def texts(svg: str) -> list[str]:
    return ["".join(e.itertext()).strip() for e in ElementTree.fromstring(svg).iter() if is_text(e)]


def is_text(element: ElementTree.Element) -> bool:
    return element.tag == "{http://www.w3.org/2000/svg}text"


def test_figures_6_to_14_in_order():
    assert [spec.number for spec in FIGURES] == [str(number) for number in range(6, 15)]
    assert FIGURES[1].name == "figure-07-delay-penalty"


def test_an_experiment_shows_the_figures_it_has_and_the_main_ones_that_none_replaces():
    def numbers(*there: str) -> list[str]:
        table = pd.DataFrame({"figure": there}) if there else pd.DataFrame()
        return [spec.number for spec in shown_figures(table)]

    main = ["6", "7", "8", "9", "10"]
    assert numbers() == main
    assert numbers("8", "10") == main
    assert numbers("6", "9", "11") == [*main, "11"]
    assert numbers("6", "12", "13", "14") == ["6", "7", "12", "13", "14"]
    assert numbers(*main, "11", "12", "13", "14") == [*main, "11", "12", "13", "14"]


def test_equal_data_give_equal_bytes_whatever_the_order_of_rows(drawings):
    table = sample.distributions(nodes=2_000, groups=60).sample(frac=1, random_state=7)
    assert {spec.number: drawn(spec, table) for spec in FIGURES} == drawings


def test_the_users_matplotlib_settings_do_not_matter(drawings):
    import matplotlib

    with matplotlib.rc_context({"font.size": 20, "axes.facecolor": "black", "svg.hashsalt": "x"}):
        again = drawn(FIGURES[3], sample.distributions(nodes=2_000, groups=60))
    assert again == drawings["9"]


def test_no_date_and_no_address_but_namespaces(drawings):
    for drawing in drawings.values():
        assert "<metadata" not in drawing.svg
        assert set(re.findall(r'https?://[^"\s<]+', drawing.svg)) == {
            "http://www.w3.org/2000/svg",
            "http://www.w3.org/1999/xlink",
        }


def test_ids_never_meet_and_every_reference_has_its_id(drawings):
    together = "".join(drawing.svg for drawing in drawings.values())
    ids = re.findall(r'\bid="([^"]+)"', together)
    references = re.findall(r'href="#([^"]+)"|url\(#([^)]+)\)', together)
    assert len(ids) == len(set(ids))
    assert {a or b for a, b in references} <= set(ids)


def test_text_stays_text_and_has_an_alternative(drawings):
    for number, drawing in drawings.items():
        (spec,) = (spec for spec in FIGURES if spec.number == number)
        assert spec.x in texts(drawing.svg)
        root = ElementTree.fromstring(drawing.svg)
        assert root.get("role") == "img"
        ids = {e.get("id"): e.text for e in root.iter()}
        named = [ids[name] for name in (root.get("aria-labelledby") or "").split()]
        assert named == [drawing.title, drawing.words]
        assert drawing.title == f"Figure {number}. {spec.title}"


def test_minor_ticks_of_logarithmic_axes_are_no_ticks_of_matplotlib(drawings):
    """As such they would take most of a figure's time: each tick left has a label."""
    groups = [
        group
        for group in ElementTree.fromstring(drawings["6"].svg).iter("{http://www.w3.org/2000/svg}g")
        if re.search(r"[xy]tick_\d+$", group.get("id", ""))
    ]
    labels = ["".join(group.itertext()).strip() for group in groups]
    assert len(labels) > 4
    assert all(labels)


def test_what_the_paper_quotes_is_marked(drawings):
    assert "paper: median RAD 1.68, RMD 1.69" in texts(drawings["7"].svg)
    assert "paper: max 1,059" in texts(drawings["9"].svg)


def test_nothing_is_quoted_of_a_run_that_is_no_experiment_of_the_papers(drawings):
    table = sample.distributions(nodes=2_000, groups=60)
    for spec in FIGURES[:5]:
        assert any("paper" in text for text in texts(drawings[spec.number].svg))
        assert not [text for text in texts(draw_figure(spec, table).svg) if "paper" in text]


def test_a_line_needs_all_that_it_quotes():
    median, *_ = FIGURES[1].marks
    assert median.metrics == ["scribe.rad.median", "scribe.rmd.median"]
    assert not median.is_published({"scribe.rad.median": 1.68})
    assert median.text({"scribe.rad.median": 1.5, "scribe.rmd.median": 1234}) == (
        "paper: median RAD 1.5, RMD 1,234"
    )


def test_words_say_what_is_drawn():
    rows = [("7", "scribe", "rad", 1.25, 3), ("7", "scribe", "rad", 1.5, 1)]
    rows += [("6", "all", "group_size", 1, 20), ("6", "all", "group_size", 2, 8)]
    table = pd.DataFrame(rows, columns=COLUMNS)
    assert draw_figure(FIGURES[1], table).words == "RAD: 4 groups, median 1.25, maximum 1.50."
    assert draw_figure(FIGURES[0], table).words == "2 groups, from 20 members down to 8, 28 in all."


def test_naive_unicast_is_drawn_in_the_inset_only(drawings):
    assert "Naive unicast (inset only)" in texts(drawings["10"].svg)


@pytest.mark.parametrize("spec", FIGURES, ids=lambda spec: spec.name)
@pytest.mark.parametrize(
    "table", [pd.DataFrame(), pd.DataFrame(columns=COLUMNS)], ids=["bare", "empty"]
)
def test_without_data_it_says_so(spec, table):
    drawing = draw_figure(spec, table)
    assert "no data" in texts(drawing.svg)
    assert drawing.words == "No data."


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("spec", FIGURES, ids=lambda spec: spec.name)
@pytest.mark.parametrize("value", [0, 1, 7, 2_500_000])
def test_one_value_is_enough(spec, value):
    series = series_of(spec, pd.DataFrame())
    rows = [(spec.number, s.system, s.measure, value, 5) for s in series]
    drawing = draw_figure(spec, pd.DataFrame(rows, columns=COLUMNS))
    assert ("no data" in texts(drawing.svg)) == (value == 0 and spec.log_x)


def tables_per_node(rows) -> Histogram:
    table = pd.DataFrame(rows, columns=COLUMNS)
    return read_histogram(table, "8", "scribe", "children_tables")


def test_histogram_adds_up_equal_values_and_leaves_out_what_is_no_number():
    rows = [("8", "scribe", "children_tables", value, 2) for value in (3, 1, 3, np.nan, np.inf)]
    rows += [("8", "other", "children_tables", 9, 1), (8, "scribe", "children_tables", 5, 0)]
    data = tables_per_node(rows)
    assert data.values.tolist() == [1, 3]
    assert data.counts.tolist() == [2, 4]
    assert data.at_most.tolist() == [2, 6]
    assert data.at_least.tolist() == [6, 4]
    assert (data.total, data.median()) == (6, 3)


def test_a_gap_between_values_is_drawn_as_zero():
    data = Histogram(np.array([0.0, 1, 4, 6]), np.array([5.0, 2, 1, 1]))
    x, y = with_gaps(data)
    assert x.tolist() == [0, 1, 2, 3, 4, 5, 6]
    assert y.tolist() == [5, 2, 0, 0, 1, 0, 1]


@pytest.mark.parametrize("values", [np.arange(30) ** 2, np.arange(31) ** 2, [2, 2, 7, 7], [5]])
def test_median_against_numpy(values):
    data = tables_per_node([("8", "scribe", "children_tables", value, 1) for value in values])
    assert data.median() == np.median(values)


def test_curves_are_of_the_systems_that_a_figure_is_about():
    def labels(number: str) -> list[str]:
        (spec,) = [spec for spec in FIGURES if spec.number == number]
        return [series.label for series in series_of(spec, pd.DataFrame())]

    assert labels("6") == ["Group size"]
    assert labels("7") == ["RAD", "RMD"]
    assert labels("9") == ["Scribe"]
    assert labels("10") == ["Scribe", "IP multicast", "Naive unicast"]
    assert labels("11") == ["Scribe, bottleneck remover"]
    trees = ["Scribe", "Collapse", "Lazy growth"]
    assert labels("13") == trees
    assert labels("14") == [*trees, "IP multicast", "Naive unicast"]


def test_a_system_that_the_paper_does_not_have_is_drawn_too():
    """By its label where its code is loaded, else by its name; after the paper's systems."""
    names = ("scribe", "chain", "star_of_mine")
    rows = [("9", name, "children_entries", 3, 5 + n) for n, name in enumerate(names)]
    rows += [("7", "chain", "rad", 1.5, 5), ("7", "chain", "rmd", 2.5, 5)]
    rows += [("9", "scribe_bottleneck", "children_entries", 3, 5)]  # has a figure of its own
    table = pd.DataFrame(rows, columns=COLUMNS)
    register_system(System("chain", "A chain of $members & <friends>$", TREE, lambda config: None))
    try:
        nine, seven = draw_figure(FIGURES[3], table), draw_figure(FIGURES[1], table)
    finally:
        unregister_system("chain")
    legend = ["Scribe", "A chain of $members & <friends>$", "Star of mine"]
    assert [text for text in texts(nine.svg) if text in legend] == legend
    assert "A chain of $members & <friends>$, RMD" in texts(seven.svg)
    assert "bottleneck" not in nine.words


def test_importing_the_report_does_not_import_matplotlib():
    code = "import sys, scribe_spark.report; sys.exit('matplotlib' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_what_drawing_takes_is_loaded_in_advance():
    code = """
import sys
from scribe_spark.report.page import preload
preload().join()
before = {name for name in sys.modules if name.partition(".")[0] in ("matplotlib", "jinja2")}
from scribe_spark.report.page import environment
compiled = {name for _, name in environment().cache.keys()}
import pandas
from scribe_spark.report.run import render
render([], {}, pandas.DataFrame())
print(sorted({name for name in sys.modules if name.startswith("matplotlib.")} - before))
sys.exit(not before or "page.html" not in compiled)
"""
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    # locators and such may come with the first figure, the heavy part may not
    assert "matplotlib.figure" not in done.stdout
    assert "matplotlib.font_manager" not in done.stdout
