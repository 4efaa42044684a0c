"""The page: every number is there, differences are right, and nothing in it is believed."""

import re
from html import unescape

import pandas as pd
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
from scribe_spark.report.svg import PageFigure, figure_files
from scribe_spark.report.world import render_world

from . import sample
from .sample import HOSTILE, NOTHING, Page

ROUND = pd.DataFrame(
    [(0, "pastry", "nodes.live", 9.0)], columns=["round", "system", "measure", "value"]
)


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


def test_the_figures_are_named_and_in_the_page(report):
    assert list(report.figures) == [  # in the order of the page
        "figure-07-delay-penalty",
        "figure-08-children-tables",
        "figure-09-children-entries",
        "figure-10-link-stress",
        "figure-06-group-size",
    ]
    assert all(svg in report.html for svg in report.figures.values())
    table = sample.distributions()
    assert render(sample.metrics(), sample.manifest(), table) == report  # the same page twice


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
    assert files == {name for name, _ in figure_files(report.figures)}


def test_every_metric_has_its_row(page):
    for metric in sample.metrics():
        assert measured(page, str(metric["name"]))


def test_rows_are_grouped_by_figure_and_the_others_come_last():
    metrics = [
        {"name": "a", "value": 1, "figure": None},
        {"name": "b", "value": 1, "figure": "15"},
        {"name": "c", "value": 1, "figure": "Section IV-E"},
        {"name": "d", "value": 1, "figure": 7},
        {"name": "e", "value": 1, "figure": "7"},
    ]
    rows = Page(render(metrics, {}, NOTHING).html).rows
    assert [row[0].split()[-1] if len(row) == 5 else row[0].strip() for row in rows[1:]] == [
        "Figure 7: Delay penalty relative to IP multicast",
        "d",
        "e",
        "Figure 15",
        "b",
        "Section IV-E",
        "c",
        "Other measures",
        "a",
    ]


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


def test_what_cannot_be_compared_is_not():
    values = [(value, 4) for value in (None, float("nan"), float("inf"), "many", True)]
    values += [(4, paper) for paper in (None, 0, float("nan"), "> 80 %", True)]
    metrics = [{"name": "a", "value": value, "paper": paper} for value, paper in values]
    rows = [row for row in Page(render(metrics, {}, NOTHING).html).rows[1:] if len(row) == 5]
    assert [row[3].strip() for row in rows] == ["\N{EN DASH}"] * len(values)


def test_a_page_without_published_numbers_says_so(report):
    metrics = [{**metric, "paper": None, "check": None} for metric in sample.metrics()]
    html = render(metrics, {}, sample.distributions(nodes=50, groups=6)).html
    said = "The settings are those of none of the paper's experiments"
    assert said in unescape(html)
    assert said not in unescape(report.html)
    assert "published numbers are met" not in html
    assert "<text" in html
    assert "paper: " not in html.partition("</style>")[2].partition('<h2 id="comparison"')[0]


def test_a_fitted_number_is_marked():
    rows = [{"name": n, "value": 1, "paper": 1, "fitted": f} for n, f in (("a", True), ("b", 0))]
    html = render(rows, {}, NOTHING).html
    page = Page(html)
    assert measured(page, "a")[2] == "1 fitted"
    assert measured(page, "b")[2] == "1"
    assert "confirms nothing" in html
    assert "confirms nothing" not in render(rows[1:], {}, NOTHING).html


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


def test_headlines_are_the_first_compared_number_of_each_figure(report):
    tiles = re.findall(r"<li>(.*?) <strong>(.*?)</strong>", report.html)
    assert tiles == [
        ("Groups, size, sum", "395,247"),
        ("Scribe, RAD, median", "1.471"),
        ("Scribe, children tables, mean", "2.321"),
        ("Scribe, children entries, mean", "6.163"),
        ("Scribe, link stress, packets", "2,221,034"),
    ]
    assert "9 of 20 published numbers" in report.html


def test_provenance(report, page):
    assert '<div class="given"><dt>seed</dt><dd>1</dd></div>' in report.html
    assert "<div><dt>stub_size</dt><dd>10</dd></div>" in report.html
    assert "<dt>Computed in</dt><dd>2 min 49 s</dd>" in report.html
    assert [cell.strip() for cell in page.rows[-3]] == ["overlay", "95.0", "7,311,002"]


def test_settings_show_the_values_of_a_preset():
    """A run and a world show the preset's D, where the user gives none."""
    resolved = {"gossipsub_preset": "ethereum", "gossipsub_d": None, "gossipsub_d_low": 5}
    for html in (
        render([], {"resolved": resolved}, NOTHING).html,
        render_world(ROUND, {"resolved": resolved}).html,
    ):
        assert "<dt>gossipsub_d</dt><dd>8</dd>" in html
        assert "<dt>gossipsub_d_low</dt><dd>5</dd>" in html


def test_the_page_has_a_table_of_contents_and_its_settings_are_folded(report):
    contents = report.html[report.html.index('<ul class="contents">') :].partition("</ul>")[0]
    names = ["time", "nodes", "links", "groups", "comparison", "run"]
    assert re.findall(r'href="#([\w-]+)"', contents) == names
    places = [report.html.index(f'<h2 id="{name}"') for name in names[:4]]
    assert places == sorted(places)
    given, _, others = report.html.partition("default settings</summary>")
    assert "<dt>groups</dt>" in given
    assert "<dt>b</dt>" in others


@pytest.mark.parametrize(
    "manifest",
    [
        {},
        {"config": None, "resolved": None, "versions": None, "phases": None, "machine": None},
        {"phases": [None, {}, {"name": "trees"}], "machine": "a laptop", "seed": None},
        {"resolved": {"nodes": None, "transit_stub": {"stub_size": 3}}, "phases": "none"},
    ],
)
def test_a_manifest_that_lacks_things_still_makes_a_page(manifest):
    html = render([], manifest, NOTHING).html
    Page(html)
    assert html.count("<p>No numbers were measured.</p>") == 1


def test_both_overlays_are_compared_where_both_were_run():
    page = render(sample.BOTH_OVERLAYS, {}, NOTHING).html
    assert "Of 4 published numbers that depend on the overlay, 1 are met within" in page
    assert "<td>arrivals only</td>" in page
    assert "tables of arrivals" not in render(sample.BOTH_OVERLAYS[:7], {}, NOTHING).html


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


def test_empty_parts_are_left_out():
    parts = ["", Text(""), NamedValues([]), Cards([]), PageTable(["head"]), Legend("name", [])]
    parts.append(Folded("nothing", []))
    without = Page(make_page("title", [], [PageSection("name", "section", [])]).html)
    assert Page(make_page("title", parts, [PageSection("name", "section", parts)]).html).tags == (
        without.tags
    )


def test_what_users_write_is_escaped():
    keys = ("name", "value", "unit", "paper", "figure", "check", "note")
    manifest = {
        "config": {"topology": HOSTILE, HOSTILE: HOSTILE},
        "resolved": {"members": HOSTILE},
        "versions": {HOSTILE: HOSTILE},
        "machine": {"cpu": HOSTILE},
        "phases": [{"name": HOSTILE, "seconds": HOSTILE, "rows": HOSTILE}],
        "seed": HOSTILE,
    }
    page = Page(html := render([dict.fromkeys(keys, HOSTILE)], manifest, NOTHING).html)
    assert page.tags.count("script") == 1  # the page's own
    assert HOSTILE not in html
    assert "&lt;script&gt;alert(&#39;&amp;&#39;)&lt;/script&gt;&#34;" in html
