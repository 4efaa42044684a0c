"""NICE: halves, two rules by hand, bad input, pictures."""

import itertools
from types import SimpleNamespace

import numpy as np
import pytest

from nice.played import Played, drawn_network
from scribe_spark.config import RunConfig
from scribe_spark.core.errors import InputError
from scribe_spark.rounds.group_overlays import Network
from scribe_spark.systems.nice.config import NiceConfig
from scribe_spark.systems.nice.period import halves

CALM = 14


def larger_radius(trip: np.ndarray, half: set[int]) -> int:
    """The larger of the radii of a half and of the rest."""
    sides = half, set(range(len(trip))) - half
    return max(min(max(trip[a, b] for b in one) for a in one) for one in sides)


@pytest.mark.parametrize("m", [7, 8, 9, 12])
def test_halves_have_the_least_larger_radius_of_all(m):
    rng = np.random.default_rng(m)
    for most in (6, 10**6):
        trip = rng.integers(1, most, (5, m, m))
        trip += trip.transpose(0, 2, 1)
        trip[:, np.arange(m), np.arange(m)] = 0
        for one, chosen in zip(trip, halves(trip), strict=True):
            every = itertools.combinations(range(m), (m + 1) // 2)
            least = min(larger_radius(one, set(half)) for half in every)
            half = set(np.flatnonzero(chosen).tolist())
            assert len(half) == (m + 1) // 2
            assert larger_radius(one, half) == least


# --- by hand


def line(*at_ms: float) -> Network:
    """Nodes on a line; the delay between two is their distance."""
    network = drawn_network(len(at_ms), 0)
    at = np.array(at_ms) * 1000 // 1
    network.kernel.delay_us[:] = np.abs(at[:, None] - at)
    return network


#: Eleven members at two places, 0 to 4 and 5 to 10, split into these places.
PLACES = [0, 1, 2, 3, 4, 100, 101, 102, 103, 104, 105]


def two_clusters() -> Played:
    played = Played(line(*PLACES), {"join_periods": 1})
    for _ in range(4):
        played.play(join=[(0, node) for node in range(11)] if not played.number else ())
    return played


@pytest.mark.parametrize(("guard", "moves"), [(True, 2), (False, 4)])
def test_moves_leave_k_members_unless_they_are_not_guarded(guard, moves):
    played = two_clusters()
    played.network = line(0, 98, 99, 100, 101, *PLACES[5:])
    played.system = Played(played.network, {"guard": guard}).system
    played.play()
    assert played.counts["moves"] == moves


def seated(network: Network, clusters: dict, **rules) -> Played:
    """A group with given clusters, by (layer, leader)."""
    played = Played(network, rules)
    rows = sorted((0, *key, node) for key, some in clusters.items() for node in some)
    columns = np.array(rows).T
    played.state["clusters"] = dict(zip(("group", "layer", "leader", "node"), columns, strict=True))
    return played


def test_of_two_small_clusters_that_want_each_other_the_least_stays():
    given = {(0, 0): {0, 1, 2}, (0, 3): {3, 4}, (0, 5): {5, 6}, (1, 0): {0, 3, 5}}
    played = seated(line(0, 1, 2, 500, 501, 510, 511), given).play()
    assert played.clusters() == {
        (0, 0, 0): {0, 1, 2}, (0, 0, 3): {3, 4, 5, 6}, (0, 1, 0): {0, 3},
    }  # fmt: skip
    assert played.messages()["merge"] == {(0, 5, 3): 1}


# --- bad input


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"nice_k": 1}, "nice_k"),
        ({"nice_period_seconds": 0.0}, "nice_period_seconds"),
        ({"nice_join_periods": 0}, "nice_join_periods"),
        ({"nice_silence": 0}, "nice_silence"),
        ({"nice_stay_percent": 101}, "nice_stay_percent"),
        ({"nice_least_gain_ms": -1.0}, "nice_least_gain_ms"),
    ],
)
def test_bad_settings_are_refused_in_one_line(given, field):
    with pytest.raises(InputError) as refused:
        RunConfig(systems="nice", **given)
    assert refused.value.field == field
    assert "\n" not in str(refused.value)


def test_more_members_than_builders_hold_are_refused():
    with pytest.raises(InputError, match="1,000,001 members of all groups"):
        NiceConfig().check_groups(None, 2, 1_000_001, None)
    NiceConfig().check_groups(None, 2, 1_000_000, None)


def test_a_picture_has_an_edge_from_each_leader_to_each_member():
    played = Played(drawn_network(40, 1)).play(join=[(0, node) for node in range(40)])
    for _ in range(CALM):
        played.play()
    rows = played.system.picture(SimpleNamespace(state=played.state), played.network)
    edges = zip(*(rows[name].tolist() for name in ("rank", "parent", "child")), strict=True)
    clusters = played.clusters().items()
    assert {*edges} == {(-of[1], of[2], node) for of, some in clusters for node in some}
    assert len({of[1] for of, _ in clusters}) > 1
