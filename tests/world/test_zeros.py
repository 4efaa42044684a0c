"""The rows of `rounds` that are 0."""

import pytest

from scribe_spark.experiments.run_world import tidy
from scribe_spark.worlds.summary import measures_by_round, summarise, with_zeros


@pytest.mark.parametrize(
    ("name", "is_count"),
    [
        ("messages.JOIN", True),
        ("messages.lost payload", True),
        ("gossipsub.messages.GRAFT", True),
        ("my_system.messages.lost x", True),
        ("scribe.joins.own", True),
        ("scribe.joins.parent failed", True),
        ("scribe.repaired.2", True),
        ("scribe.refused.JOIN", True),
        ("scribe.deliveries.late.1", True),
        ("scribe.publications.source died", True),
        # without a value, there is none
        ("scribe.publications.lost", False),
        ("scribe.time_to_50.p95", False),
        ("scribe.rad.largest", False),
        ("gossipsub.mesh", False),
        ("cells.delay", False),
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


def test_means_of_a_table_count_the_zeros():
    """Four GRAFTs in the first of four rounds are one in each."""
    measured = {n: {"nodes.live": 9.0} for n in range(4)}
    measured[0] |= {"gossipsub.messages.GRAFT": 4.0, "messages.JOIN": 4.0}
    rows = tidy(measured)
    graft = rows[rows["measure"] == "gossipsub.messages.GRAFT"]
    assert graft[["round", "value"]].values.tolist() == [[0, 4], [1, 0], [2, 0], [3, 0]]
    assert set(graft["system"]) == {"gossipsub"}
    found = summarise(measures_by_round(rows))
    for name in ("gossipsub.messages.GRAFT", "messages.JOIN"):
        assert (found[name], found[f"{name}.last"], found[f"{name}.least"]) == (1.0, 0.0, 0.0)
