"""Overcast: flows on links, groups that are too large, and pictures."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from living_buckets import ring_of
from periods import SystemWorld

from overcast.played import Played, small_network
from scribe_spark.core.errors import InputError
from scribe_spark.rounds.group_overlays import Network
from scribe_spark.rounds.system import OwnRounds
from scribe_spark.underlay.flows import Flows


def parents(played: Played) -> dict[tuple[int, int], int]:
    """The parent of each living member; NONE for the others."""
    rows = played.state["members"]
    columns = (rows[name].tolist() for name in ("group", "node", "parent", "alive"))
    return {(group, node): up for group, node, up, alive in zip(*columns, strict=True) if alive}


def test_flows_share_links():
    """Rows 0 to 3 have an edge from rows 4 to 7, and rows 8 to 11 are at the same routers."""
    kernel = small_network(1)
    router = np.array([4, 4, 4, 3, 0, 0, 5, 3, 4, 4, 4, 3])
    group = np.array([0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1, 0])
    child, parent = np.arange(4), np.arange(4, 8)
    shared, alone = (Flows(kernel, how, router, group, child, parent) for how in (True, False))
    of, link = kernel.route_links(router[parent], router[child])
    least = [min(kernel.link_rates[link[of == row]], default=np.inf) for row in range(4)]
    assert alone.edge.tolist() == [*least, *[-1] * 8]
    halves = [least[0] / 2, least[1] / 2, *least[2:]]
    assert shared.edge[:4].tolist() == halves
    for rows, wanted in (
        (child, halves),  # with their own flows
        (child + 8, [least[0] / 3, least[1] / 3, least[2] / 2, np.inf]),
    ):
        bandwidth, hops = shared.bandwidth(rows, parent)
        assert bandwidth.tolist() == wanted
        assert hops.tolist() == np.bincount(of, minlength=4).tolist()


def test_a_large_group_is_refused():
    played = Played(small_network(1), np.zeros(5001, dtype=np.int64))
    with pytest.raises(InputError, match="has 5,001 members in group 0; must be at most 5,000"):
        played.play([(0, node) for node in range(5001)])


def test_a_picture_has_the_bandwidth_of_each_way_from_the_root():
    played = Played(small_network(5), np.arange(12))
    played.play([(0, node) for node in range(12)])
    for number in range(30):
        played.play(measure=number == 29)
    rows = played.system.picture(SimpleNamespace(state=played.state), played.network)
    above = parents(played)
    found = {(0, child): up for up, child in zip(rows["parent"], rows["child"], strict=True)}
    assert found == {node: up for node, up in above.items() if up >= 0}
    # the sum that the measure `shared` is made of
    assert rows["value"].sum() * 1e6 == pytest.approx(played.state["measured"]["shared_sum"].sum())
    least = dict(zip(rows["child"].tolist(), rows["value"].tolist(), strict=True))
    for up, child, rank in zip(rows["parent"], rows["child"], rows["rank"], strict=True):
        assert least[child] <= least.get(up, np.inf)
        assert least[child] * 1e6 < 10 ** ((1 - rank) / 2)  # the edge has its class, or less


@pytest.mark.parametrize("gone", ["one group", "all groups"])
def test_groups_lose_all_their_members(gone):
    """Publications of other nodes reach nobody, and nothing is measured."""
    ring = replace(ring_of({node: 7**node for node in range(4)}), router=np.arange(4))
    system = Played(small_network(1), ring.router).system
    network = Network(ring, small_network(1), 0, 1)
    world = SystemWorld(system, network, range(2), 1, OwnRounds(1000, 1000), 3)
    join, died = {(0, 1), (0, 2), (1, 3)}, {1, 2} if gone == "one group" else {1, 2, 3}
    found = []
    for joins, dies in [(join, ()), ((), died), ((), ())]:
        done, tally, _ = world.play(joins, (), {(0, 0)}, dies)
        sent = sum(n for key, n in tally.messages.items() if key[2] == "payload")
        found.append((sent, done.measures["depth.max"]))
    assert found == [(2, 0.5), (0, 0.0), (0, 0.0)]
