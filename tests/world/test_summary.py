"""Statistics over rounds: the steady state, counts that are 0, and rounds without a value."""

import pandas as pd
import pytest

from scribe_spark.systems.reference_tree.live import LIVE_TREE_MEASURES
from scribe_spark.worlds.summary import (
    first_steady,
    measure_of,
    measures_by_round,
    steady_from,
    summarise,
    summary_units,
    with_zeros,
)

NAN = float("nan")


@pytest.mark.parametrize(
    ("values", "begin"),
    [
        ([5.0] * 20, 0),
        ([0.0] * 20, 0),
        ([5.0] * 19, None),  # nothing after the mean of ten
        ([9.0] * 7 + [5.0] * 20, 7),
        ([5.0] * 10 + [5.099] * 10, 0),
        ([5.0] * 10 + [5.11] * 10, None),
        (list(range(200)), None),  # grows for ever
        ([10.0 - number for number in range(9)] + [1.0] * 21, 9),
        # a mean of ten that is like the next ten, but not like all that follow
        ([10.0] * 20 + [2.0] * 40, 20),
        ([NAN, 9.0, NAN] + [NAN, 5.0] * 12, 2),
        ([NAN] * 40, None),
    ],
)
def test_the_steady_state_begins_where_the_moving_mean_is_that_of_all_later_rounds(values, begin):
    assert steady_from(values) == begin


def test_several_lines_are_steady_together_from_the_last_of_their_beginnings():
    one, other = [9.0] * 7 + [5.0] * 20, [3.0] * 27
    assert first_steady([one, other]) == 7
    assert first_steady([other]) == 0
    assert first_steady([one, list(range(1, 28))]) is None


# --- rounds without a value


@pytest.mark.parametrize(
    ("name", "is_count"),
    [
        ("messages.JOIN", True),
        ("my_system.messages.lost x", True),
        ("scribe.joins.parent failed", True),
        ("scribe.repaired.2", True),
        ("scribe.deliveries.late.1", True),
        ("scribe.publications.source died", True),
        # without a value, there is none
        ("scribe.publications.lost", False),
        ("scribe.time_to_50.p95", False),
        ("gossipsub.mesh", False),
        ("lookups.hops", False),
    ],
)
def test_a_count_is_0_in_rounds_without_it(name, is_count):
    found = with_zeros({0: {"nodes.live": 9.0}, 1: {name: 2.0}, 2: {name: 0.5}})
    absent = {name: 0.0} if is_count else {}
    assert found == {0: {"nodes.live": 9.0, **absent}, 1: {name: 2.0}, 2: {name: 0.5}}


def test_lookups_with_other_hops_are_a_share_of_0():
    """Where no lookup was delivered, there is no share."""
    some = {"lookups.hops": 1.0, "hops.1": 1.0}
    found = with_zeros({0: some, 1: {"lookups": 3.0}, 2: {"lookups.hops": 2.0, "hops.2": 1.0}})
    assert found[0] == {**some, "hops.2": 0.0}
    assert found[1] == {"lookups": 3.0}
    assert found[2] == {"lookups.hops": 2.0, "hops.2": 1.0, "hops.1": 0.0}


def test_what_did_not_occur_is_nothing_and_what_is_unknown_is_left_out():
    told = {
        0: {"nodes.live": 3.0, "lookups.hops": 2.0, "hops.1": 0.5, "hops.3": 0.5},
        1: {"nodes.live": 1.0, "messages.join message": 6.0, "scribe.repaired.2": 3.0},
        2: {"nodes.live": 2.0, "lookups.hops": 1.0, "hops.1": 1.0},
    }
    rows = [(number, *one) for number, of in told.items() for one in of.items()]
    found = summarise(measures_by_round(pd.DataFrame(rows, columns=["round", "measure", "value"])))
    ends = ("", ".first", ".last", ".least", ".most")
    assert {name: [found.pop(name + end) for end in ends] for name in [*found][::5]} == {
        "nodes.live": [2.0, 3.0, 2.0, 1.0, 3.0],
        "lookups.hops": [1.5, 2.0, 1.0, 1.0, 2.0],
        "hops.1": [0.75, 0.5, 1.0, 0.5, 1.0],
        "hops.3": [0.25, 0.5, 0.0, 0.0, 0.5],
        "messages.join message": [2.0, 0.0, 0.0, 0.0, 6.0],
        "scribe.repaired.2": [1.0, 0.0, 0.0, 0.0, 3.0],
    }
    assert not found


def test_statistics_have_a_unit_also_those_of_the_reference_tree():
    measured = {measure_of(name) for name in summary_units() if name.endswith(".most")}
    assert LIVE_TREE_MEASURES.keys() <= measured
