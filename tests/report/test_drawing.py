"""The figures: what they draw, the same every time, and that they may share a page."""

import re

import pandas as pd
import pytest

from scribe_spark.report.comparison import published_of_figure
from scribe_spark.report.paper_figures import (
    FIGURES,
    draw_figure,
    series_of,
)
from scribe_spark.report.svg import PageFigure
from scribe_spark.systems.registry import TREE, System, register_system, unregister_system

from . import sample
from .sample import COLUMNS, NOTHING, texts

BY_NUMBER = {spec.number: spec for spec in FIGURES}


def drawn(spec, table) -> PageFigure:
    """A figure of the paper's experiment."""
    return draw_figure(spec, table, published_of_figure(spec, sample.metrics()))


@pytest.fixture(scope="module")
def drawings() -> dict[str, PageFigure]:
    table = sample.distributions()
    return {number: drawn(spec, table) for number, spec in BY_NUMBER.items()}


def test_equal_data_give_equal_bytes_whatever_the_order_of_rows_and_the_users_style(drawings):
    import matplotlib

    table = sample.distributions().sample(frac=1, random_state=7)
    with matplotlib.rc_context({"font.size": 20, "axes.facecolor": "black", "svg.hashsalt": "x"}):
        again = {number: drawn(BY_NUMBER[number], table) for number in ("6", "7", "9")}
    assert again == {number: drawings[number] for number in again}


def test_ids_never_meet_and_every_reference_has_its_id(drawings):
    together = "".join(drawing.svg for drawing in drawings.values())
    ids = re.findall(r'\bid="([^"]+)"', together)
    references = re.findall(r'href="#([^"]+)"|url\(#([^)]+)\)', together)
    assert len(ids) == len(set(ids))
    assert {a or b for a, b in references} <= set(ids)
    assert "<metadata" not in together
    assert set(re.findall(r'https?://[^"\s<]+', together)) == {
        "http://www.w3.org/2000/svg",
        "http://www.w3.org/1999/xlink",
    }


#: A figure of each kind, with and without an axis of decades.
KINDS = [BY_NUMBER[number] for number in ("6", "7", "8", "10")]


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("spec", KINDS, ids=lambda spec: spec.name)
@pytest.mark.parametrize("value", [None, 0, 1, 7, 2_500_000])
def test_one_value_is_enough_and_without_data_a_figure_says_so(spec, value):
    series = series_of(spec, NOTHING)
    rows = [(spec.number, s.system, s.measure, value, 5) for s in series if value is not None]
    drawing = draw_figure(spec, pd.DataFrame(rows, columns=COLUMNS))
    is_empty = value is None or (value == 0 and spec.log_x)
    assert ("no data" in texts(drawing.svg)) == (drawing.words == "No data.") == is_empty


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
