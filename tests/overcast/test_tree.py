"""Overcast's trees: what always holds, and what holds when all is quiet."""

import random
from collections import Counter
from types import SimpleNamespace

import numpy as np
import pytest
from periods import pairs_of

from overcast.played import NOBODY, Played, drawn_changes, small_network
from scribe_spark.core.errors import InputError
from scribe_spark.rounds.group_overlays import Overlays
from scribe_spark.underlay.flows import Flows

NODES, GROUPS, BUSY = 40, 3, 40

SETTINGS = [{}, {"decide": "bottleneck"}, {"linear": 2}, {"lease": 5, "evaluation": 4}]


def parents(played: Played) -> dict[tuple[int, int], int]:
    """The parent of each living member; NONE for the others."""
    rows = played.state["members"]
    columns = (rows[name].tolist() for name in ("group", "node", "parent", "alive"))
    return {(group, node): up for group, node, up, alive in zip(*columns, strict=True) if alive}


def roots(played: Played) -> dict[int, int]:
    """The root of each group."""
    rows = played.state["members"]
    top = rows["rank"] == 0
    return dict(zip(rows["group"][top].tolist(), rows["node"][top].tolist(), strict=True))


def depth(above: dict, group: int, node: int) -> int:
    """The number of living ancestors; a ring has no end."""
    steps = 0
    while (node := above.get((group, node), -1)) >= 0:
        steps += 1
        assert steps <= NODES, "a node has adopted its ancestor"
    return steps


def known_to(played: Played, group: int, root: int) -> dict[int, int]:
    """The parents that the root knows."""
    rows = played.state.get("certificates", {"key": NOBODY})
    size = len(played.router)
    table = {}
    for row, key in enumerate(rows["key"].tolist()):
        if key // size == group * size + root and rows["alive"][row]:
            table[key % size] = int(rows["parent"][row])
    view, found = {}, {root}
    while found:
        found = {n for n, up in table.items() if up in found and n not in view}
        view |= {n: table[n] for n in found}
    return view


@pytest.mark.parametrize("rules", SETTINGS, ids=str)
def test_trees_grow_and_mend(rules):
    seen = Counter()
    for seed in range(3):
        seen += grow(seed, rules)
    assert min(seen[name] for name in ("dead", "quits", "moves", "new roots", "deep")) > 0, seen


def grow(seed: int, rules: dict) -> Counter:
    """Play busy rounds, then quiet ones until nothing changes."""
    drawn, seen = random.Random(seed), Counter()
    router = np.random.default_rng(seed).integers(0, 12, NODES)
    played = Played(small_network(seed), router, rules, GROUPS, seed)
    members, alive, tops, quiet, dead = set(), set(range(NODES)), {}, 0, set()
    for number in range(900):
        busy = number < BUSY
        join, quit, died = drawn_changes(drawn, members, alive, GROUPS, busy)
        join -= dead  # who has quit stays away: no comebacks
        dead |= quit | {pair for pair in members if pair[1] in died}
        members = {pair for pair in members if pair[1] not in died} - quit | join
        alive -= died
        played.play(join, quit, died, measure=False)
        above = parents(played)
        assert set(above) == members
        deepest = max((depth(above, *one) for one in above), default=0)
        seen += Counter(dead=len(died), quits=len(quit), moves=played.counts["moves"])
        seen["deep"] += deepest > 4
        tops, before = roots(played), tops
        seen["new roots"] += sum(tops.get(group) != top for group, top in before.items())
        check_tables(played)
        still = not busy and not played.counts["moves"] and not unsettled(played, members, tops)
        quiet = quiet + 1 if still else 0
        if quiet == 2:
            break
    assert quiet == 2, "the trees do not rest"
    assert {group for group, _ in members} == set(tops)
    for group, root in tops.items():
        truth = {n: up for (of, n), up in above.items() if of == group and n != root}
        assert min(truth.values(), default=0) >= 0
        assert known_to(played, group, root) == truth
    check_copies(played, members, tops, seen)
    return seen


def check_tables(played: Played) -> None:
    """Tables are ascending, and of living members only."""
    size, rows = len(played.router), played.state["members"]
    key = rows["group"] * size + rows["node"]
    assert (np.diff(key) > 0).all()
    for name in ("children", "certificates"):
        there = played.state[name]["key"]
        assert (np.diff(there) > 0).all()
        assert np.isin(there // size, key[rows["alive"]]).all()


def unsettled(played: Played, members: set, tops: dict) -> bool:
    """Whether certificates are under way, members search, or children may be dead."""
    size, above = len(played.router), parents(played)
    fresh = played.state["certificates"]
    groups = fresh["key"][fresh["fresh"]] // size
    told = [divmod(key, size) for key in groups.tolist()]
    if any(tops.get(group) != node for group, node in told):
        return True
    listed = played.state["children"]["key"].tolist()
    edges = {(key // size**2, key // size % size, key % size) for key in listed}
    return edges != {(group, up, node) for (group, node), up in above.items() if up >= 0}


def check_copies(played: Played, members: set, tops: dict, seen: Counter) -> None:
    """Each member but the source gets a publication once, from members and from others."""
    numbers = np.arange(GROUPS)
    sources = [(group, node) for group in tops for node in range(0, NODES, 7)]
    of, source = np.array(sources).T
    overlays = Overlays(numbers, *pairs_of(members), of, source, state=played.state)
    edges = played.system.edges(overlays, played.network)
    for number, (group, node) in enumerate(sources):
        mine = edges["publication"] == number
        sent = dict.fromkeys(edges["peer"][mine].tolist(), 0)
        assert len(sent) == np.count_nonzero(mine)
        assert set(sent) == {member for of, member in members if of == group} - {node}
        told, more = {node}, {node}
        while more:
            at = mine & np.isin(edges["node"], list(more))
            more = set(edges["peer"][at].tolist()) - told
            told |= more
        assert told >= set(sent)


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
