"""What tests of pages share: readers of pages and drawings, and a run near the paper's numbers."""

import io
from html.parser import HTMLParser
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pandas as pd

from scribe_spark.report.charts import draw, rounds_panel
from scribe_spark.report.svg import PageFigure

SVG = "{http://www.w3.org/2000/svg}"
HOSTILE = "<script>alert('&')</script>\""
NOTHING = pd.DataFrame()
COLUMNS = ["figure", "system", "measure", "value", "count"]

_VOID = {"meta", "link", "br", "hr", "img", "input"}


class Page(HTMLParser):
    """Checks that tags nest, and gathers table rows, ids, local links and the tags met."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.rows: list[list[str]] = []
        self.ids: list[str] = []
        self.links: list[str] = []
        self.feed(html)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        found = dict(attributes)
        if "id" in found:
            self.ids.append(found["id"])
        if tag == "a":
            self.links.append(found["href"])
        if tag not in _VOID:
            self.open.append(tag)
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")

    def handle_startendtag(self, tag, attributes):
        self.handle_starttag(tag, attributes)
        if tag not in _VOID:
            self.handle_endtag(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if "td" in self.open or "th" in self.open:
            self.rows[-1][-1] += data.replace("\N{NO-BREAK SPACE}", " ").strip() + " "


def texts(svg: str) -> list[str]:
    """The texts of a drawing, without those under the pointer."""
    drawn = ElementTree.fromstring(svg).iter(f"{SVG}text")
    return ["".join(e.itertext()).strip() for e in drawn if e.find(f"{SVG}tspan") is None]


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
    """The words under the pointer."""
    return [lines for _, lines in spots(svg)]


def table(figure: PageFigure) -> pd.DataFrame:
    """The values of a figure as its CSV file has them."""
    return pd.read_csv(io.BytesIO(figure.as_csv()), keep_default_na=False)


def rounds_figure(lines: dict[str, pd.Series]) -> PageFigure:
    """Lines over the rounds, drawn."""
    return draw(rounds_panel("x", "title", lines))


#: Name, value, unit, the paper's value, figure, the range of the check; a dash: none.
_METRICS = """
groups.size.sum 395247 members 395247 6 395,247
groups.size.min 11 members 11 6 -
groups.size.max 100000 members 100000 6 -
scribe.rad.median 1.4712 ratio 1.68 7 1.46-1.50
scribe.rad.max 3.1 ratio 2 7 2.8-3.9
scribe.rmd.median 1.392 ratio 1.69 7 1.36-1.47
scribe.rmd.max 4.05 ratio 4.26 7 -
scribe.children_tables.mean 2.3214 tables 2.4 8 2.31-2.33
scribe.children_tables.median 2 tables 2 8 2
scribe.children_tables.max 21 tables 40 8 20-25
scribe.children_entries.median 3 entries 3 9 3
scribe.children_entries.max 312 entries 1059 9 250-470
scribe.link_stress.max 2710 packets 4031 10 2500-2850
ip_multicast.link_stress.max 560 packets 950 10 467-679
scribe.link_stress.mean - packets 2.4 10 -
routing_table.rows.mean 4.9 rows - - -
"""


def metrics() -> list[dict[str, Any]]:
    """Rows of ``metrics.json``."""
    keys, numbers = ("name", "value", "unit", "paper", "figure", "check"), ("value", "paper")
    lines = (dict(zip(keys, line.split(), strict=True)) for line in _METRICS.strip().splitlines())
    return [
        {key: None if of == "-" else float(of) if key in numbers else of for key, of in row.items()}
        for row in lines
    ]


def manifest() -> dict[str, Any]:
    """A manifest as a run of the paper's preset leaves it."""
    resolved = {"nodes": 100_000, "groups": 1_500, "seed": 1, "topology": "transit-stub"}
    return {
        "config": {"seed": 1, "groups": 1_500},
        "resolved": resolved,
        "versions": {"scribe_spark": "0.1.0", "spark": "4.0.1", "python": "3.11.7", "java": "17"},
        "seed": 1,
        "phases": [
            {"name": "topology", "seconds": 12.31, "rows": 5050},
            {"name": "measures", "seconds": 20.11, "rows": None},
        ],
        "machine": {"cores": 2, "memory_gb": 16, "platform": "Linux x86_64"},
    }


def distributions(nodes: int = 2_000, groups: int = 60) -> pd.DataFrame:
    """Histograms of a run with three systems."""
    draw = np.random.default_rng(1)
    samples = {
        ("7", "scribe", measure): draw.normal(1.5, 0.1, groups) for measure in ("rad", "rmd")
    }
    for figure, measure in (("8", "children_tables"), ("9", "children_entries")):
        samples[figure, "scribe", measure] = np.floor(draw.lognormal(1.0, 1.0, nodes))
    for system, most in (("scribe", 270), ("ip_multicast", 56), ("naive_unicast", 16_000)):
        packets = np.ceil(draw.lognormal(1.0, 1.5, 2 * nodes)).clip(1, most)
        samples["10", system, "link_stress"] = np.append(packets, most)
    ranks = range(1, groups + 1)
    rows = [("6", "all", "group_size", rank, nodes // rank) for rank in ranks]
    for key, sample in samples.items():
        rows += [(*key, *pair) for pair in zip(*np.unique(sample, return_counts=True), strict=True)]
    return pd.DataFrame(rows, columns=COLUMNS).astype({"value": float})


#: Of ``make paper``: experiment, name, value, and the paper's value.
BOTH_OVERLAYS: list[dict[str, Any]] = [
    {"experiment": experiment, "name": name, "value": value, "paper": paper,
     "fitted": name == "ip_multicast.messages"}
    for name, paper, *values in (
        ("scribe.rad.median", 1.68, 1.47, 1.62, 1.0),
        ("scribe.children_tables.mean", 2.4, 2.33, 2.38),
        ("scribe.rad.max", 2.0, 3.0, 3.1),
        ("scribe.messages", 2_489_824, None, 2_500_000),
        ("scribe_bottleneck.overloaded", 0, 0),
        ("ip_multicast.messages", 758_853, 758_884),
        ("scribe.depth.mean", None, 3.1),
    )
    for experiment, value in zip(("main", "arrivals", "small_groups"), values, strict=False)
]  # fmt: skip
