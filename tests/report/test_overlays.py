"""The published numbers beside both overlays."""

from __future__ import annotations

from scribe_spark.report.overlays import met, published_numbers


def row(experiment, name, value, paper, **more):
    return {"experiment": experiment, "name": name, "value": value, "paper": paper, **more}


METRICS = [
    row("main", "scribe.rad.median", 1.47, 1.68),
    row("main", "scribe.children_tables.mean", 2.33, 2.4),
    row("main", "scribe.rad.max", 3.0, 2.0),
    row("main", "scribe.messages", None, 2_489_824),
    row("main", "scribe_bottleneck.overloaded", 0, 0),
    row("main", "ip_multicast.messages", 758_884, 758_853, fitted=True),
    row("main", "scribe.depth.mean", 3.1, None),
    row("arrivals", "scribe.rad.median", 1.62, 1.68),
    row("arrivals", "scribe.children_tables.mean", 2.38, 2.4),
    row("arrivals", "scribe.rad.max", 3.1, 2.0),
    row("arrivals", "scribe.messages", 2_500_000, 2_489_824),
    row("small_groups", "scribe.rad.median", 1.0, 1.68),
]


def test_which_overlay_meets_a_number():
    found = published_numbers(METRICS)
    assert [(n.name, n.verdict) for n in found] == [
        ("scribe.rad.median", "arrivals only"),
        ("scribe.children_tables.mean", "both"),
        ("scribe.rad.max", "neither"),
        ("scribe.messages", "arrivals only"),
    ]
    assert met(found) == {"perfect": 1, "arrivals": 3}
    assert found[0].paper == "1.68"
    assert found[0].measured == {"perfect": "1.47", "arrivals": "1.62"}
    assert found[3].differences["perfect"] is None


def test_one_overlay_is_not_compared():
    assert published_numbers(METRICS[:7]) == []
    assert published_numbers([]) == []
