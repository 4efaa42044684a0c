"""Duplicates, control messages and state of systems that hand them over, against plain counts."""

from __future__ import annotations

import pandas as pd

from scribe_spark.measures.copies import (
    CONTROL,
    STATE,
)
from scribe_spark.measures.distributions import read_histograms
from scribe_spark.measures.measure import Found, Size


def test_of_trees_they_are_read_off_their_edges():
    """Each edge is a JOIN, and a node keeps its children."""
    counted = pd.DataFrame(
        [
            *(("scribe", "children_entries", value, n) for value, n in ((0.0, 7), (4.0, 3))),
            *(("naive_unicast", "children_entries", value, n) for value, n in ((0.0, 9), (5.0, 1))),
            *(("scribe", "link_stress", value, n) for value, n in ((1.0, 6), (3.0, 2))),
        ],
        columns=["system", "measure", "value", "count"],
    )
    found = Found(Size(10, 5, 9), 4, read_histograms(counted), {})
    numbers = {m.name: m.value(found, "scribe") for m in (*STATE.metrics, *CONTROL.metrics)}
    assert (numbers["state.mean"], numbers["state.max"]) == (1.2, 4)
    assert (numbers["join_messages.mean"], numbers["join_messages.max"]) == (1.2, 4)
    assert (numbers["control_stress.max"], numbers["control_packets"]) == (3, 12)
    (naive,) = (m.value(found, "naive_unicast") for m in STATE.metrics if m.name == "state.max")
    assert naive == 5
    (none,) = (
        m.value(found, "naive_unicast") for m in CONTROL.metrics if m.name == "join_messages.max"
    )
    assert none is None
