"""The table of latencies on a run's page."""

from __future__ import annotations

import pandas as pd

from scribe_spark.measures.latency import LATENCY_MEASURE
from scribe_spark.report import render
from scribe_spark.report.latencies import (
    COLUMNS,
    latencies_of_last_round,
    latency_rows,
    without_latencies,
)
from scribe_spark.report.text import ABSENT

from . import sample


def latencies(system: str, p50: float, **others: float | None) -> list[dict]:
    """Return the rows of `metrics.json` of a system; `others` by names without dots."""
    values = {"latency_p50": p50} | others
    return [
        {"name": f"{system}.{metric.name}", "value": values.get(metric.name.replace(".", "_"))}
        for metric in LATENCY_MEASURE.metrics
    ]


METRICS = [
    *latencies("scribe", 150.25, latency_p90=201, latency_p99=300.5, latency_max=411),
    *latencies("ip_multicast", 90, time_to_100_median=None, time_to_90_median=120),
    *latencies("gossipsub", 140, latency_hops_p50=3, latency_hops_max=7, hops_to_50_median=4),
    *({"name": f"can.{metric.name}", "value": None} for metric in LATENCY_MEASURE.metrics),
]


def test_a_row_for_each_system_and_unit():
    rows = latency_rows(METRICS)
    assert [(row.system, row.unit) for row in rows] == [
        ("Scribe", "ms"), ("IP multicast", "ms"), ("GossipSub", "ms"), ("GossipSub", "hops")
    ]  # fmt: skip
    cells = [dict(zip(COLUMNS, row.cells, strict=True)) for row in rows]
    assert (cells[0]["p50"], cells[0]["max"], cells[0]["50 %"]) == ("150.2", "411", ABSENT)
    assert (cells[1]["90 %"], cells[1]["100 %"]) == ("120", ABSENT)
    assert (cells[3]["p50"], cells[3]["max"], cells[3]["50 %"]) == ("3", "7", "4")


def test_of_a_world_the_last_round_that_has_some():
    rounds = pd.DataFrame(
        {
            "nodes.live": [9, 9, 9, 9],
            "scribe.latency.p50": [None, 80, 81.5, None],
            "scribe.latency.max": [None, 200, 220, None],
            "scribe.time_to_100.median": [None, 110, None, None],
        }
    )
    found = latencies_of_last_round(rounds)
    assert found["latency_of"] == " in round 2, the last one with multicasts"
    (row,) = found["latencies"]
    cells = dict(zip(COLUMNS, row.cells, strict=True))
    assert (cells["p50"], cells["max"], cells["100 %"]) == ("81.5", "220", ABSENT)
    assert latencies_of_last_round(rounds[["nodes.live"]])["latencies"] == []
    several = pd.DataFrame({f"{name}.latency.p50": [1.0] for name in ("can", "scribe")})
    rows = latencies_of_last_round(several)["latencies"]
    assert [row.system for row in rows] == ["Scribe", "CAN multicast"]


def test_they_are_in_their_table_alone():
    other = [{"name": "scribe.rad.max", "value": 2}, {"name": "gossipsub.duplicates.p95"}]
    assert without_latencies([*METRICS, *other]) == other
    page = render(METRICS + sample.metrics(), sample.manifest(), sample.distributions()).html
    assert page.count('id="latencies"') == 1
    assert "scribe.latency.p50" not in page
    sizes = {"message_size": "128KB", "uplink_order": "serial", "links": "shared"}
    manifest = {**sample.manifest(), "resolved": sizes}
    page = render(METRICS + sample.metrics(), manifest, sample.distributions()).html
    assert 'id="latencies">Latencies: 128KB, serial uplinks, shared links<' in page
    plain = render(sample.metrics(), sample.manifest(), sample.distributions()).html
    assert 'id="latencies"' not in plain
