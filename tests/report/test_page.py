"""The page: every number is there, differences are right, and nothing in it is believed."""

import re

import pytest

from scribe_spark.report.comparison import check_verdict
from scribe_spark.report.page import (
    Card,
    Cards,
    Cell,
    Figures,
    Folded,
    Legend,
    NamedValues,
    PageSection,
    PageTable,
    Report,
    Text,
    make_page,
)
from scribe_spark.report.run import render
from scribe_spark.report.svg import PageFigure

from . import sample
from .sample import HOSTILE, NOTHING, Page


def measured(page: Page, name: str) -> list[str]:
    """The cells of the row of one metric."""
    (row,) = [row for row in page.rows if len(row) == 5 and name in row[0].split()]
    return [" ".join(cell.split()) for cell in row]


@pytest.fixture(scope="module")
def report() -> Report:
    table = sample.distributions()
    return render(sample.metrics(), sample.manifest(), table)


@pytest.fixture(scope="module")
def page(report) -> Page:
    return Page(report.html)


def test_the_page_asks_the_network_for_nothing(report, page):
    namespaces = {"http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"}
    assert set(re.findall(r'https?://[^"\s<]+', report.html)) == namespaces
    assert not {"link", "img", "iframe"} & set(page.tags)
    assert "<script src" not in report.html
    assert "@import" not in report.html
    assert set(re.findall(r"url\(.", report.html)) <= {"url(#"}


def test_ids_are_unique_and_links_lead_somewhere(page, report):
    assert len(page.ids) == len(set(page.ids))
    inside = {link for link in page.links if link.startswith("#")}
    assert {link.removeprefix("#") for link in inside} <= set(page.ids)
    files = {link.removeprefix("figures/") for link in page.links if link.startswith("figures/")}
    assert {*page.links} - inside == {f"figures/{name}" for name in files} | {
        "tables/distributions"
    }
    assert files == {name for figure in report.figures for name in figure.files}


def test_a_difference_over_ten_per_cent_is_marked_in_words(page):
    assert measured(page, "scribe.rad.median") == [
        "Scribe, RAD, median scribe.rad.median",
        "1.471 ratio",
        "1.68",
        "\N{MINUS SIGN}12.4 % over 10 % below",
        "1.46-1.50",
    ]
    assert measured(page, "scribe.rad.max")[3] == "+55.0 % over 10 % above"
    assert measured(page, "scribe.rmd.max")[3] == "\N{MINUS SIGN}4.9 %"
    assert measured(page, "groups.size.sum")[1:4] == ["395,247 members", "395,247", "0 %"]

    # a number that is absent has no difference
    dash = "\N{EN DASH}"
    assert measured(page, "scribe.link_stress.mean")[1:4] == [f"{dash} packets", "2.4", dash]
    assert measured(page, "routing_table.rows.mean")[2:] == [dash, dash, dash]


@pytest.mark.parametrize(
    ("metric", "verdict"),
    [
        ({"value": 1.48}, ""),
        ({"value": 1.504}, ""),  # 1.50
        ({"value": 1.51}, "outside"),
        ({"value": None}, ""),
        ({"value": 1.48, "std": 0.01, "seeds": {"1": 1.47, "2": 1.49}}, ""),
        (
            {"value": 1.48, "std": 0.04, "seeds": {"1": 1.45, "2": 1.51}},
            "2 of 2 topologies outside, their mean inside",
        ),
        (
            {"value": 1.525, "std": 0.02, "seeds": {"1": 1.5, "2": 1.55, "3": None}},
            "1 of 2 topologies outside, their mean 0.02 above: 1.0 standard deviations",
        ),
        (
            {"value": 1.435, "std": None, "seeds": {"1": 1.435}},
            "1 of 1 topologies outside, their mean 0.02 below",
        ),
    ],
)
def test_what_exceeds_the_independent_checks_range_is_said(metric, verdict):
    metric = {"name": "a", "check": "1.46-1.50", **metric}
    assert check_verdict(metric) == verdict
    assert measured(Page(render([metric], {}, NOTHING).html), "a")[4] == (
        f"1.46-1.50 {verdict}".strip()
    )


def test_a_page_without_numbers_and_manifest():
    html = render([], {}, NOTHING).html
    Page(html)
    assert html.count("<p>No numbers were measured.</p>") == 1


def test_texts_of_all_parts_are_escaped():
    evil = HOSTILE
    card = Card(evil, evil, evil, evil, [(evil, evil)], share=5.0, note=evil, difference=evil)
    cell = Cell(evil, evil, evil, evil)
    table = PageTable([evil, cell], [(evil, cell)], evil, [(evil, [(evil, cell)])], look=evil)
    figure = PageFigure("name", evil, "<svg/>", evil, evil, evil, (evil,))
    parts = [
        *(evil, Text(evil), NamedValues([(evil, evil)]), Cards([card], evil), table),
        *(Legend(evil, [(evil, "<svg/>")]), Figures([figure]), Folded(evil, [evil])),
    ]
    page = Page(html := make_page(evil, parts, [PageSection("name", evil, parts)], evil).html)
    assert page.tags.count("script") == 1  # the page's own
    assert html.count("alert(&#39;&amp;&#39;)") > 2 * 20
    assert evil not in html
