"""The tables of the pages: latencies, parts of the nodes, failures by depth, both overlays."""

from html import unescape

import pandas as pd

from scribe_spark import schemas
from scribe_spark.measures.joins_and_failures import FAILURES
from scribe_spark.measures.latency import LATENCY_MEASURE
from scribe_spark.report.page import PageSection, PageTable
from scribe_spark.report.run import render
from scribe_spark.report.style import ABSENT
from scribe_spark.report.tables import (
    LATENCIES,
    both_overlays,
    failures,
    latencies,
    latencies_by_part,
    latencies_of_last_round,
    met,
    published_numbers,
    without_tables_of_their_own,
)

from . import sample

MINUS = "\N{MINUS SIGN}"


def rows_of(sections: list[PageSection], heads: bool = False) -> list[list[str]]:
    """The rows of the only table of the only section, as texts."""
    (section,) = sections
    (table,) = (part for part in section.parts if isinstance(part, PageTable))
    ((_, rows),) = table.bodies
    shown = [table.heads, *rows] if heads else rows
    return [
        [cell if isinstance(cell, str) else " ".join(filter(None, cell[:4])) for cell in row]
        for row in shown
    ]


# --- latencies


def latency_metrics(system: str, p50: float, **others: float | None) -> list[dict]:
    """Return the rows of `metrics.json` of a system; `others` by names without dots."""
    values = {"latency_p50": p50} | others
    return [
        {"name": f"{system}.{metric.name}", "value": values.get(metric.name.replace(".", "_"))}
        for metric in LATENCY_MEASURE.metrics
    ]


METRICS = [
    *latency_metrics(
        "scribe", 150.25, reached=0.99996, latency_p90=201, latency_p99=300.5, latency_max=411
    ),
    *latency_metrics("ip_multicast", 90, time_to_100_median=None, time_to_90_median=120),
    *latency_metrics("bayeux", None, reached=0.0),
    *latency_metrics(
        "gossipsub", 140, reached=0.942, latency_hops_p50=3, latency_hops_max=7, hops_to_50_median=4
    ),
    *({"name": f"can.{metric.name}", "value": None} for metric in LATENCY_MEASURE.metrics),
]


def test_a_row_for_each_system_and_unit():
    rows = rows_of(latencies(METRICS))
    assert [row[0] for row in rows] == [
        *("Scribe", "IP multicast", "Bayeux", "GossipSub", "GossipSub in hops")
    ]
    scribe, ip, bayeux, gossipsub, hops = (
        dict(zip(LATENCIES, row[1:], strict=True)) for row in rows
    )
    assert (scribe["p50"], scribe["max"], scribe["50 %"]) == ("150.2", "411", ABSENT)
    assert (ip["90 %"], ip["100 %"]) == ("120", ABSENT)
    assert (hops["p50"], hops["max"], hops["50 %"]) == ("3", "7", "4")
    members = [of["Members"] for of in (scribe, ip, bayeux, gossipsub, hops)]
    assert members == ["99.996\xa0%", ABSENT, "0\xa0%", "94.2\xa0%", "94.2\xa0%"]
    assert {*bayeux.values()} == {"0\xa0%", ABSENT}


def test_of_a_world_the_last_round_that_has_some():
    rounds = pd.DataFrame(
        {
            "nodes.live": [9, 9, 9, 9],
            "scribe.latency.p50": [None, 80, 81.5, None],
            "scribe.latency.max": [None, 200, 220, None],
            "scribe.time_to_100.median": [None, 110, None, None],
            "scribe.multicasts.reached": [1.0, 0.5, 0.25, 0.0],
        }
    )
    (found,) = latencies_of_last_round(rounds)
    assert found.title == "Latencies in round 2, the last one with multicasts"
    ((_, *cells),) = rows_of([found])
    cells = dict(zip(LATENCIES, cells, strict=True))
    assert (cells["p50"], cells["max"], cells["100 %"]) == ("81.5", "220", ABSENT)
    assert cells["Members"] == "25\xa0%"
    assert latencies_of_last_round(rounds[["nodes.live"]]) == []
    several = pd.DataFrame({f"{name}.latency.p50": [1.0] for name in ("can", "scribe")})
    rows = rows_of(latencies_of_last_round(several))
    assert [system for system, *_ in rows] == ["Scribe", "CAN multicast"]


# --- classes and regions

BY_PART = pd.DataFrame(
    [
        ("class", "fast", "scribe", "delay_ms", 9, 0.0, 12.5, 20.0, 0.0, 30.25, 0.0),
        ("class", "slow", "scribe", "delay_ms", 9, 0.0, 1250.0, 2000.0, 0.0, 3000.0, 0.0),
        ("class", "slow", "gossipsub", "delay_ms", 9, 0.0, 5.0, 6.0, 0.0, 7.0, 0.0),
        ("class", "slow", "scribe", "hops", 9, 0.0, 1.0, 2.0, 0.0, 3.0, 0.0),
        ("region", "<east>", "scribe", "delay_ms", 9, 0.0, 1.0, 2.0, 0.0, 3.0, 0.0),
    ],
    columns=schemas.BY_PART.names,
)


def test_a_table_for_classes_and_one_for_regions():
    fast = ["12.5", "20", "30.25", ABSENT, ABSENT, ABSENT]
    slow = ["1,250", "2,000", "3,000", "5", "6", "7"]
    classes, regions = latencies_by_part(BY_PART, "by_part")
    assert rows_of([classes], heads=True) == [
        ["Class", *(f"{s} {p}" for s in ("Scribe", "GossipSub") for p in ("p50", "p90", "p99"))],
        *(["fast", *fast], ["slow", *slow]),
    ]
    assert rows_of([regions]) == [["<east>", "1", "2", "3"]]
    assert latencies_by_part(None, "by_part") == []
    page = render([], {}, pd.DataFrame(), by_part=BY_PART).html
    assert "Latency by class of nodes" in page
    assert "&lt;east&gt;" in page
    assert "Latency by" not in render([], {}, pd.DataFrame()).html


# --- failures of hosts of the reference tree


def test_a_row_for_each_depth_that_has_failures():
    """A run has every metric of the measure, most without a value."""
    values = {
        "failure.depth_0.links": 5,
        "failure.depth_0.links.scribe": 40.25,
        "failure.depth_5_9.acting": 5.5,
        "failure.depth_20_and_deeper.messages": 110,
    }
    rows = [
        {"name": f"reference_tree.{m.name}", "value": values.get(m.name), "unit": m.unit}
        for m in FAILURES.metrics
    ]
    other = {"name": "scribe.messages", "value": 5}
    assert rows_of(failures([*rows, other])) == [
        ["0", "5", "40.25", ABSENT, ABSENT, ABSENT, ABSENT],
        ["5 to 9", ABSENT, ABSENT, "5.5", ABSENT, ABSENT, ABSENT],
        ["20 and deeper", ABSENT, ABSENT, ABSENT, ABSENT, "110", ABSENT],
    ]
    assert failures([other]) == []
    assert without_tables_of_their_own([*rows, other]) == [other]
    page = unescape(render(rows, {}, pd.DataFrame()).html)
    assert "Cost of the failure of a host, by the host's depth" in page
    assert "failure.depth" not in page


# --- both overlays


def test_the_overlay_that_meets_a_number():
    found = published_numbers(sample.BOTH_OVERLAYS)
    assert met(found) == {"perfect": 1, "arrivals": 3}
    rows = rows_of(both_overlays(sample.BOTH_OVERLAYS))
    assert [(row[0].split()[-1], row[-1]) for row in rows] == [
        ("scribe.rad.median", "arrivals only"),
        ("scribe.children_tables.mean", "both"),
        ("scribe.rad.max", "neither"),
        ("scribe.messages", "arrivals only"),
    ]
    assert rows[3][1:4] == ["2,489,824", ABSENT, ABSENT]
    assert rows[0][1:6] == ["1.68", "1.47", f"{MINUS}12.5\xa0%", "1.62", f"{MINUS}3.6\xa0%"]
    # one overlay is not compared
    main = [row for row in sample.BOTH_OVERLAYS if row["experiment"] == "main"]
    assert published_numbers(main) == published_numbers([]) == []
