"""NICE's rules: halves, invariants of every period and of rest, and cases by hand."""

import itertools
from types import SimpleNamespace

import numpy as np
import pytest

from nice.played import LAN_US, Played, drawn_network
from nice.worlds import events
from scribe_spark.config import RunConfig
from scribe_spark.core.errors import InputError
from scribe_spark.rounds.group_overlays import Network
from scribe_spark.systems.nice.config import NiceConfig
from scribe_spark.systems.nice.period import halves

NODES, GROUPS, PERIODS, CALM = 50, (7, 3, -5), 40, 14

#: k, and the number of different delays (0: any), which makes ties.
RULES = [(3, 0), (2, 4), (4, 1)]


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


def check_structure(played: Played) -> None:
    """A node sits in layer i + 1 if and only if it leads in layer i; the top layer is one."""
    clusters = played.clusters()
    seats = {
        (group, layer, node): head
        for (group, layer, head), some in clusters.items()
        for node in some
    }
    assert len(seats) == sum(map(len, clusters.values()))
    tops: dict[int, int] = {}
    for group, layer, _ in clusters:
        tops[group] = max(layer, tops.get(group, 0))
    for (group, layer, node), head in seats.items():
        assert seats[group, layer, head] == head
        leads = head == node and layer < tops[group]
        assert leads == ((group, layer + 1, node) in seats)
        assert not layer or seats[group, layer - 1, node] == node
    for group, top in tops.items():
        (cluster,) = (some for key, some in clusters.items() if key[:2] == (group, top))
        assert not top or len(cluster) > 1


def check_rest(played: Played) -> None:
    """Sizes from k to 3k + 1, few layers, and each member gets each publication once."""
    k, clusters = played.system.rules.k, played.clusters()
    assert played.quiet
    assert not played.rows("silent")
    for group in {group for group, _, _ in clusters}:
        mine = {key: some for key, some in clusters.items() if key[0] == group}
        members = set().union(*mine.values())
        top = max(layer for _, layer, _ in mine)
        assert k**top <= len(members)
        for (_, layer, _), some in mine.items():
            assert (k if layer < top else min(2, len(members))) <= len(some) <= 3 * k + 1
        guests = set(np.flatnonzero(played.alive).tolist()) - members
        for source in {min(members), max(members), *sorted(guests)[:1]}:
            if {source} == members:
                continue
            _, to, _ = played.copies(group, source)
            assert sorted(to.tolist()) == sorted(members - {source})


@pytest.mark.parametrize(("k", "values"), RULES)
@pytest.mark.parametrize(
    "seed", [*range(4), *(pytest.param(s, marks=pytest.mark.slow) for s in range(4, 60))]
)
def test_members_sit_once_and_come_to_rest(seed, k, values):
    network = drawn_network(NODES, seed, values, in_run=bool(seed % 2))
    played = Played(
        network, {"join_periods": 1 + seed % 5, "newcomers": 2 + 5 * (seed % 3), "k": k}, GROUPS
    )
    for one in events(seed, NODES, len(GROUPS), PERIODS, CALM):
        played.play(one.join, one.quit, one.fail, one.back)
        check_structure(played)
        silent = {row[:2] for row in played.rows("silent")}
        seated = {(row[0], row[3]) for row in played.rows("clusters")} - silent
        waiting = {row[:2] for row in played.rows("waiting")}
        assert not seated & waiting
        assert seated | waiting == one.members
    check_rest(played)


@pytest.mark.parametrize("seed", range(3))
def test_a_group_alone_does_what_it_does_beside_others(seed):
    network = drawn_network(NODES, seed)
    together = Played(network, {"join_periods": 3}, GROUPS)
    alone = [Played(network, {"join_periods": 3}, GROUPS) for _ in GROUPS]
    for one in events(seed, NODES, len(GROUPS), 20, 5):
        together.play(one.join, one.quit, one.fail, one.back)
        for group, played in enumerate(alone):
            mine = one.of(group)
            played.play(mine.join, mine.quit, mine.fail, mine.back)
        for name in ("clusters", "silent", "waiting"):
            assert together.rows(name) == sorted(row for one in alone for row in one.rows(name))
        sent = [one.messages() for one in alone]
        for kind, messages in together.messages().items():
            assert messages == sum((one[kind] for one in sent if kind in one), type(messages)())


# --- by hand


def line(*at_ms: float) -> Network:
    """Nodes on a line; the delay between two is their distance."""
    network = drawn_network(len(at_ms), 0)
    at = np.array(at_ms) * 1000 // 1
    network.kernel.delay_us[:] = np.abs(at[:, None] - at)
    return network


def test_a_group_begins_with_its_least_member_and_newcomers_ask_it():
    played = Played(line(0, 1, 2, 3), {"join_periods": 1})
    played.play(join=[(0, 3), (0, 1), (0, 2)])
    assert played.rows("clusters") == [(0, 0, 1, 1)]
    assert played.messages() == {}
    played.play()
    assert played.clusters() == {(0, 0, 1): {1, 2, 3}}
    sent = played.messages()
    assert set(sent) == {"query", "answer", "join"}
    assert sent["query"] == sent["join"] == {(0, 2, 1): 1, (0, 3, 1): 1}
    played.play()
    assert played.quiet
    assert played.messages()["heartbeat"].total() == 6


def test_a_leader_takes_those_in_who_have_waited_longest():
    played = Played(line(*range(6)), {"newcomers": 1})
    for newcomers, members in (
        ((5,), {5}),
        ((1, 4), {1, 5}),
        ((0,), {1, 4, 5}),
        ((), {0, 1, 4, 5}),
    ):
        played.play(join=[(0, node) for node in newcomers])
        assert played.clusters() == {(0, 0, 5): members}


#: Eleven members at two places, 0 to 4 and 5 to 10, split into these places.
PLACES = [0, 1, 2, 3, 4, 100, 101, 102, 103, 104, 105]


def two_clusters() -> Played:
    played = Played(line(*PLACES), {"join_periods": 1})
    for _ in range(4):
        played.play(join=[(0, node) for node in range(11)] if not played.number else ())
    return played


def test_a_large_cluster_splits_into_halves_and_the_rendezvous_point_stays_where_it_is():
    played = two_clusters()
    assert played.clusters() == {
        (0, 0, 0): set(range(5)), (0, 0, 7): set(range(5, 11)), (0, 1, 0): {0, 7},
    }  # fmt: skip


@pytest.mark.parametrize(("silence", "periods"), [(3, 2), (1, 0), (5, 4)])
def test_the_rendezvous_point_is_replaced_when_its_silence_is_noticed(silence, periods):
    played = two_clusters()
    played.system = Played(played.network, {"silence": silence}).system
    played.play(died=[0])
    for missed in range(1, periods + 1):
        assert played.rows("silent") == [(0, 0, missed)]
        assert (0, 0, 0) in played.clusters()
        played.play()
    assert played.clusters() == {
        (0, 0, 2): {1, 2, 3, 4}, (0, 0, 7): set(range(5, 11)), (0, 1, 2): {2, 7},
    }  # fmt: skip
    assert played.messages()["add"] == {(0, 2, 0): 1}


def test_nobody_joins_while_the_rendezvous_point_is_silent():
    played = Played(line(0, 1, 2), {"join_periods": 1})
    played.play(join=[(0, 0)]).play(join=[(0, 1)]).play(join=[(0, 2)], died=[0])
    for _ in range(2):
        assert played.rows("waiting") == [(0, 2, 2)]
        assert played.messages()["query"] == {(0, 2, 0): 1}
        played.play()
    played.play()
    assert played.clusters() == {(0, 0, 1): {1, 2}}


def test_a_leader_that_quits_hands_its_clusters_over():
    played = two_clusters().play(quit=[(0, 0)])
    assert played.clusters() == {
        (0, 0, 2): {1, 2, 3, 4}, (0, 0, 7): set(range(5, 11)), (0, 1, 2): {2, 7},
    }  # fmt: skip
    assert played.messages()["transfer"] == {(0, 0, 2): 2}  # in both layers


def test_a_small_cluster_merges_with_the_nearest_and_the_top_goes():
    played = two_clusters().play(quit=[(0, node) for node in (5, 6, 8, 9)])
    assert played.clusters() == {(0, 0, 0): {0, 1, 2, 3, 4, 7, 10}}
    sent = played.messages()
    assert sent["merge"] == {(0, 7, 0): 1}
    assert sent["remove"] == {(0, 7, 0): 1}
    assert "force_merge" not in sent


def test_the_rendezvous_point_forces_another_cluster_to_come():
    played = two_clusters().play(quit=[(0, node) for node in (1, 2, 3)])
    assert played.clusters() == {(0, 0, 0): {0, 4, *range(5, 11)}}
    assert played.messages()["force_merge"] == {(0, 0, 7): 1}


def test_a_guest_sends_to_the_rendezvous_point():
    played = Played(line(0, 1, 2, 9), {"join_periods": 1})
    played.play(join=[(0, 0), (0, 1), (0, 2)]).play()
    sender, to, at = played.copies(0, 3)
    assert [*zip(sender.tolist(), to.tolist(), strict=True)] == [(3, 0), (0, 1), (0, 2)]
    assert at[0] == 9000 + 2 * LAN_US


@pytest.mark.parametrize(("at_ms", "moves"), [(55, 0), (60, 0), (65, 1), (90, 1)])
def test_a_member_moves_to_a_leader_that_is_nearer_by_enough(at_ms, moves):
    """Its leader is at 0 and the other one at 102 ms: .7 d(leader) - d(other) > 5.1 to 5.6 ms."""
    played = two_clusters()
    played.network = line(*PLACES[:4], at_ms, *PLACES[5:])
    played.play()
    assert played.counts["moves"] == moves


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


def test_nobody_moves_to_a_leader_that_is_replaced_in_the_same_period():
    """Leader 6 is replaced by 7, and 4 is near it."""
    lower = {(0, 0): {0, 1}, (0, 2): {2, 3}, (0, 4): {4, 5}, (0, 6): {6, 7, 8}, (0, 9): {9, 10}}
    given = lower | {(1, 0): {0, 2, 4}, (1, 6): {6, 9}, (2, 0): {0, 6}}
    network = line(0, 1, 10, 11, 900, 901, 1000, 1100, 1200, 1002, 1003)
    played = seated(network, given, k=2).play()
    after = {(0, 7) if key == (0, 6) else key: some for key, some in lower.items()}
    after |= {(1, 0): {0, 2, 4}, (1, 7): {7, 9}, (2, 0): {0, 7}}
    assert played.clusters() == {(0, *key): some for key, some in after.items()}
    assert played.messages()["remove"] == {(0, 6, 0): 1}
    assert played.play().messages()["join"][0, 4, 7] == 1


def test_a_group_ends_with_its_last_member_and_may_begin_again():
    played = two_clusters().play(quit=[(0, node) for node in range(11)])
    assert played.clusters() == {}
    assert played.system.sums(played.state) == {"waiting": 0.0}
    assert played.system.sums(played.play(join=[(0, 4)]).state)["members"] == 1


def test_who_fails_while_waiting_and_joins_again_waits_once():
    played = Played(line(0, 1, 2), {"newcomers": 1}).play(join=[(0, 0)])
    played.play(join=[(0, 1), (0, 2)])
    assert played.rows("waiting") == [(0, 2, 1)]
    played.play(join=[(0, 2)], died=[2], back=[2], quit=[(0, 1)])
    assert played.clusters() == {(0, 0, 0): {0, 2}}
    assert played.rows("waiting") == []


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
