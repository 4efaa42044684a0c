"""Coverage over time, with percentiles marked."""

from __future__ import annotations

import pandas as pd

from scribe_spark.report import Latency, render
from scribe_spark.report.coverage import draw_coverage

from .test_page import NOTHING

#: Of 100 members of Scribe 96 get the message; of IP multicast's all.
COUNTS = pd.DataFrame(
    [
        ("scribe", "ms", 30.0, 40),
        ("scribe", "ms", 10.0, 50),
        ("scribe", "ms", 70.0, 6),
        ("scribe", "hops", 1.0, 96),
        ("ip_multicast", "ms", 5.0, 100),
    ],
    columns=["system", "unit", "value", "count"],
)
EXPECTED = {"scribe": 100.0, "ip_multicast": 100.0}


def test_a_share_is_of_the_members_that_are_to_get_it():
    drawn = draw_coverage(COUNTS, EXPECTED, set())
    assert drawn is not None
    assert drawn.words == (
        "Scribe: 50\xa0% within 10 ms, 90\xa0% within 30 ms, 95\xa0% within 70 ms, 99\xa0% \u2013. "
        "IP multicast: 50\xa0% within 5 ms, 90\xa0% within 5 ms, 95\xa0% within 5 ms, "
        "99\xa0% within 5 ms."
    )
    assert "within 30 ms" in drawn.svg
    assert "Scribe: 90\xa0%" in drawn.svg  # under the pointer


def test_without_latencies_there_is_no_figure():
    assert draw_coverage(COUNTS[COUNTS["unit"] == "hops"], EXPECTED, set()) is None
    assert "Coverage over time" not in render([], {}, NOTHING).html


def test_the_page_has_it_first():
    report = render([], {}, NOTHING, latency=Latency(COUNTS, EXPECTED))
    assert next(iter(report.figures)) == "figure-coverage"
    assert "Coverage over time</h3>" in report.html
