"""The table of failures by depth."""

from __future__ import annotations

from scribe_spark.measures.failures import FAILURES
from scribe_spark.report import render
from scribe_spark.report.failures import failure_rows, without_failures

from .sample import distributions, manifest


def metrics(values: dict[str, float]) -> list[dict]:
    """As a run has them: every metric of the measure, most without a value."""
    rows = [
        {"name": f"reference_tree.{m.name}", "value": values.get(m.name), "unit": m.unit,
         "paper": None, "figure": None}
        for m in FAILURES.metrics
    ]  # fmt: skip
    return [*rows, {**rows[0], "name": "scribe.messages", "value": 5}]


VALUES = {
    "failure.depth_0.links": 5,
    "failure.depth_0.links.scribe": 40.25,
    "failure.depth_5_9.acting": 5.5,
    "failure.depth_20_and_deeper.messages": 110,
}


def test_a_row_for_each_depth_that_has_numbers():
    rows = failure_rows(metrics(VALUES))
    assert [row.depth for row in rows] == ["0", "5 to 9", "20 and deeper"]
    none = "\N{EN DASH}"
    assert rows[0].cells == ["5", "40.25", none, none, none, none]
    assert rows[1].cells == [none, none, "5.5", none, none, none]
    assert rows[2].cells == [none, none, none, none, "110", none]
    assert failure_rows([{"name": "scribe.messages", "value": 5}]) == []


def test_they_are_in_their_table_alone():
    assert [row["name"] for row in without_failures(metrics(VALUES))] == ["scribe.messages"]
    page = render(metrics(VALUES), manifest(), distributions(200, 5)).html
    assert "Cost of the failure of a host, by the host's depth" in page
    assert "failure.depth" not in page
