"""Figures that the paper does not have: bytes, latencies by class, and coverage over time."""

import pandas as pd

from scribe_spark import schemas
from scribe_spark.report.run import (
    Latency,
    draw_coverage,
    draw_node_bytes,
    draw_part_latencies,
)

from .sample import COLUMNS, table, words

HOSTILE = "<b>$x_1$"

#: Of ten nodes of Scribe eight send nothing and two send a copy or nine of 128 KB.
DISTRIBUTIONS = pd.DataFrame(
    [
        ("V", system, measure, value, count)
        for system, measure, values in (
            ("scribe", "bytes.up", {0: 8, 128_000: 1, 1_152_000: 1}),
            ("scribe", "control_bytes.up", {0: 5, 64: 5}),
            ("gossipsub", "bytes.up", {128_000: 10}),
            ("gossipsub", "bytes.down", {256_000: 10}),
        )
        for value, count in values.items()
    ],
    columns=COLUMNS,
)

BY_PART = pd.DataFrame(
    [
        ("class", part, "scribe", f"bytes.{kind}", 5, mean, 0.0, 0.0, p95, p95, 2 * p95)
        for part, kind, mean, p95 in (
            ("fast", "payload_up", 3e5, 9e5),
            (HOSTILE, "payload_up", 1e5, 2e5),
            (HOSTILE, "control_up", 500.0, 1e3),
            ("fast", "payload_down", 2e5, 2e5),
        )
    ],
    columns=schemas.BY_PART.names,
)


def test_bytes_by_system():
    bars, nodes, *down = draw_node_bytes(DISTRIBUTIONS, None)
    assert [one.name for one in (bars, nodes, *down)] == [
        *("figure-bytes-up", "figure-bytes-up-nodes"),
        *("figure-bytes-down", "figure-bytes-down-nodes"),
    ]
    assert table(bars).to_numpy().tolist() == [
        ["Scribe", "", 128_000, 32, 1_152_000, 1_152_000],
        ["GossipSub", "", 128_000, 0, 128_000, 128_000],
    ]
    assert "mean 128 KB" in bars.drawing
    assert words(bars.drawing)[0] == [
        "Scribe", "payload: 128 KB", "control: 32 B", "95\xa0% of the nodes: 1.15 MB",
        "greatest: 1.15 MB",
    ]  # fmt: skip
    assert words(nodes.drawing) == [
        ["at most 128 KB", "Scribe: 90\xa0%", "GossipSub: 100\xa0%"],
        ["at most 1.15 MB", "Scribe: 100\xa0%", "GossipSub: 100\xa0%"],
    ]


def test_bytes_by_class():
    """A user's name of a class is no markup and no formula."""
    bars = next(iter(draw_node_bytes(DISTRIBUTIONS, BY_PART)))
    assert table(bars).to_numpy().tolist() == [
        ["Scribe", HOSTILE, 100_000, 500, 200_000, 400_000],
        ["Scribe", "fast", 300_000, 0, 900_000, 1_800_000],
    ]
    assert "Scribe, &lt;b&gt;$x_1$" in bars.drawing
    assert HOSTILE not in bars.drawing


LATENCIES = pd.DataFrame(
    [
        ("class", "fast", "scribe", 10.0, 99),
        ("class", "fast", "scribe", 40.0, 1),
        ("class", HOSTILE, "scribe", 70.0, 4),
        ("class", HOSTILE, "can", 30.0, 1),
        ("region", "east", "scribe", 5.0, 2),
    ],
    columns=schemas.PART_LATENCIES.names,
)


def test_a_curve_for_each_class_in_a_chart_for_each_system():
    classes, regions = draw_part_latencies(LATENCIES)
    assert [classes.name, regions.name] == ["figure-latency-by-class", "figure-latency-by-region"]
    assert words(classes.drawing) == [
        ["within 10 ms", f"{HOSTILE}: 0\xa0%", "fast: 99\xa0%"],
        ["within 40 ms", f"{HOSTILE}: 0\xa0%", "fast: 100\xa0%"],
        ["within 70 ms", f"{HOSTILE}: 100\xa0%", "fast: 100\xa0%"],
        ["within 30 ms", f"{HOSTILE}: 100\xa0%"],
    ]
    found = table(classes)
    assert list(found) == [
        "deliveries (%)",
        f"Scribe, {HOSTILE} (ms)",
        "Scribe, fast (ms)",
        f"CAN multicast, {HOSTILE} (ms)",
    ]
    assert found["Scribe, fast (ms)"].tolist() == [10] * 99 + [40]
    assert "Scribe, fast: 50\xa0% within 10 ms, 90\xa0% within 10 ms, 99\xa0% within 10 ms." in (
        classes.words
    )


# --- coverage over time

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
    (plain,) = draw_coverage(Latency(COUNTS, EXPECTED), set())
    assert plain.words == (
        "Scribe: 50\xa0% within 10 ms, 90\xa0% within 30 ms, 95\xa0% within 70 ms, 99\xa0% \u2013. "
        "IP multicast: 50\xa0% within 5 ms, 90\xa0% within 5 ms, 95\xa0% within 5 ms, "
        "99\xa0% within 5 ms."
    )
    assert ["within 30 ms", "Scribe: 90\xa0%", "IP multicast: 100\xa0%"] in words(plain.svg)
    # deadlines are marked, also beyond the last delivery
    (drawn,) = draw_coverage(Latency(COUNTS, EXPECTED, ("20ms", "4s")), set())
    assert "Vertical lines mark the deadlines: 20ms, 4s." in drawn.caption
    assert "Vertical lines" not in plain.caption
    dashes = "stroke-dasharray: 4,2"
    assert drawn.svg.count(dashes) == plain.svg.count(dashes) + 2
