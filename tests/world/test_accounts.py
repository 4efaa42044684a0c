"""The account of publications: due, lost and open; and the rounds that do not count in means."""

import math

import numpy as np
import pandas as pd
import pytest

from scribe_spark.measures.incomplete import (
    NONE_COMPLETE,
    NONE_DUE,
    NOT_SIMULATED,
    covers_reached,
    incomplete_rounds,
    values_in_means,
    words_in_place,
)
from scribe_spark.rounds.system import Publications
from scribe_spark.schemas import PUBLICATION_COUNTS
from scribe_spark.worlds.summary import measures_by_round, publication_measures, summarise

#: Rows of `Publications`: round, index of the group, expected, in time, late, first copies,
#: duplicates.  Two publications of round 3 and group 1.
COUNTED = [
    (2, 0, 10, 7, 1, 12, 5),
    (2, 1, 4, 4, 0, 4, 0),
    (3, 1, 5, 2, 1, 6, 1),
    (3, 1, 5, 3, 0, 4, 2),
]


def account(last_due: int) -> list[tuple[int, ...]]:
    rows = np.array(COUNTED, dtype=np.int64).T
    found = Publications(*rows).by_group(np.array([70, 90]), last_due)
    assert tuple(found) == ("round", "group", *PUBLICATION_COUNTS)
    return list(zip(*(column.tolist() for column in found.values()), strict=True))


def test_rounds_have_no_lost_deliveries_before_the_deadline_and_a_ratio_of_copies():
    rows = [("it", *row) for row in account(2)]
    table = pd.DataFrame(rows, columns=["system", "round", "group", *PUBLICATION_COUNTS])
    named = {
        number: {name.removeprefix("it.publications."): n for name, n in of.items()}
        for number, of in publication_measures(table).items()
    }
    assert named[2] == {
        **{"expected": 14, "due": 14, "in_time": 11, "late": 1, "lost": 2, "open": 0},
        **{"first_copies": 16, "duplicates": 5, "duplicates.mean": 5 / 16},
    }
    assert named[3] == {
        **{"expected": 10, "due": 0, "in_time": 5, "late": 1, "open": 4},
        **{"first_copies": 10, "duplicates": 3, "duplicates.mean": 0.3},
    }


#: Measure -> its values by round.  In round 1 of `a`, multicasts reach 80 %; in round 2, all, but a
#: member misses a publication of another source.
VALUES = {
    "a.publications.expected": [5, 5, 5, 5],
    "a.publications.due": [5, 5, 0, 0],
    "a.publications.in_time": [5, 4, 4, 5],
    "a.publications.lost": [0, 1, None, None],
    "a.control": [1, 1, 1, 1],
    "a.multicasts": [1, 1, 1, 1],
    "a.multicasts.reached": [1, 0.8, 1, 1],
    "a.rad.median": [2, 1, 1, 3],
    "a.time_to_99.p95": [None, None, 4, None],
    "a.link_stress.max": [8, 1, 1, 4],
    "a.link_stress.payload.max": [8, 1, 1, 4],
    "ip_multicast.link_stress.max": [3, 2, 2, 3],
    "b.publications.expected": [5, 5, 5, 5],
    "b.publications.due": [0, 0, 0, 0],
    "b.publications.in_time": [5, 5, 5, 4],
    "b.rad.median": [2, 1, 1, 3],  # delays without the share reached: unknown
}


def table() -> pd.DataFrame:
    return pd.DataFrame(VALUES, index=pd.RangeIndex(4, name="round"), dtype=float)


@pytest.mark.parametrize(
    ("measure", "rounds"),
    [
        ("a.rad.median", [1, 2]),
        ("a.time_to_99.p95", [2]),
        ("a.link_stress.max", [1, 2]),
        ("a.link_stress.payload.max", []),
        ("a.multicasts.reached", []),
        ("a.control", []),
        ("ip_multicast.link_stress.max", []),
        ("b.rad.median", []),
        ("not.there", []),
    ],
)
def test_rounds_that_do_not_reach_everybody_are_incomplete(measure: str, rounds: list[int]) -> None:
    assert incomplete_rounds(table(), measure) == rounds
    if measure in table():
        counted = values_in_means(table(), measure)
        assert counted.index.tolist() == [n for n in range(4) if n not in rounds]


@pytest.mark.parametrize(
    ("measure", "covers"),
    [
        *(
            (name, True)
            for name in ("scribe.rdp.below_2", "can.latency_hops.p99", "bayeux.messages")
        ),
        *((name, False) for name in ("messages.payload", "bayeux.messages.JOIN", "nodes.live")),
    ],
)
def test_measures_that_become_better_while_a_system_fails(measure: str, covers: bool) -> None:
    assert covers_reached(measure) == covers


def test_means_leave_incomplete_rounds_out():
    found = summarise(table())
    assert found["a.rad.median"] == 2.5
    assert (found["a.rad.median.first"], found["a.rad.median.least"]) == (2, 1)
    assert found["a.link_stress.payload.max"] == 3.5
    assert found["a.time_to_99.p95"] is None
    assert found["a.publications.lost"] == 0.5


def test_words_stand_in_place_of_what_has_no_value():
    assert words_in_place(table()) == {
        "a.time_to_99.p95": NONE_COMPLETE,
        "b.control": NOT_SIMULATED,
        "b.publications.lost": NONE_DUE,
    }


def test_a_count_that_is_not_known_yet_is_not_0():
    """A round without a row of a count of Scribe has 0 of it, but unknown losses are no number."""
    rows = [
        (number, "scribe", f"scribe.publications.{name}", value)
        for number, counts in enumerate(
            [{"expected": 3, "due": 3, "lost": 1}, {}, {"expected": 3, "due": 0}]
        )
        for name, value in counts.items()
    ] + [(1, "pastry", "nodes.live", 4)]
    of = measures_by_round(pd.DataFrame(rows, columns=["round", "system", "measure", "value"]))
    assert of["scribe.publications.lost"].tolist()[:2] == [1, 0]
    assert math.isnan(of["scribe.publications.lost"][2])
