"""The page's tables of classes and regions."""

from __future__ import annotations

import pandas as pd

from scribe_spark import schemas
from scribe_spark.report import render
from scribe_spark.report.parts import COLUMNS, parts_tables
from scribe_spark.report.text import as_setting

from .sample import distributions, manifest

BY_PART = pd.DataFrame(
    [
        ("class", "fast", "scribe", "delay_ms", 9, 0.0, 12.5, 20.0, 0.0, 30.25, 0.0),
        ("class", "slow", "scribe", "delay_ms", 9, 0.0, 1250.0, 2000.0, 0.0, 3000.0, 0.0),
        ("class", "slow", "gossipsub", "delay_ms", 9, 0.0, 5.0, 6.0, 0.0, 7.0, 0.0),
        ("class", "slow", "scribe", "hops", 9, 0.0, 1.0, 2.0, 0.0, 3.0, 0.0),
        ("region", "<east>", "scribe", "delay_ms", 9, 0.0, 1.0, 2.0, 0.0, 3.0, 0.0),
    ],
    columns=COLUMNS,
)


def test_a_table_for_classes_and_one_for_regions():
    classes, regions = parts_tables(BY_PART)
    none = "\N{EN DASH}"
    assert (classes.by, classes.systems) == ("class", ("Scribe", "GossipSub"))
    assert classes.rows == [
        ("fast", ["12.5", "20", "30.25", none, none, none]),
        ("slow", ["1,250", "2,000", "3,000", "5", "6", "7"]),
    ]
    assert (regions.by, regions.rows) == ("region", [("<east>", ["1", "2", "3"])])
    assert parts_tables(None) == []
    assert {*COLUMNS} <= {*schemas.BY_PART.names}


def test_the_page_has_them_where_there_are_parts():
    metrics = [{"name": "scribe.messages", "value": 5, "unit": "", "paper": None, "figure": None}]
    page = render(metrics, manifest(), distributions(200, 5), by_part=BY_PART).html
    assert "Latency by class of nodes" in page
    assert "&lt;east&gt;" in page
    assert "Latency by" not in render(metrics, manifest(), distributions(200, 5)).html


def test_classes_among_the_settings_can_be_read():
    assert as_setting([{"name": "fast", "share": 0.2}]) == "{name = fast, share = 0.2}"
