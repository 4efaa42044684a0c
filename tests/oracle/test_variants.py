"""The oracles of the tree variants checked against themselves, and examples worked by hand."""

from __future__ import annotations

import hashlib
import random
from collections import Counter
from collections.abc import Callable, Iterable
from functools import cache, partial
from itertools import product

import pytest
from seeds import seeds

from .bottleneck import (
    SHED_CHILD,
    SHED_GROUP,
    Join,
    Refusal,
    Rejoin,
    Removal,
    path,
    randomised_route,
    remove_bottlenecks,
)
from .pastry import Overlay
from .random_cases import random_case
from .scribe import Edge
from .test_oracle import grown, setting
from .variants import collapse, grow_lazily, in_waves

# Cases with something to do.
SEEDS = [s for s in range(400) if any(len(m) > 4 for m in random_case(s).members.values())]
SOME = seeds(SEEDS, 60)
OPTIONS = list(product(SHED_GROUP, SHED_CHILD))


def keyed(seed: int) -> Callable[..., int]:
    """Return draws of 64 bits keyed by (seed, purpose, ids)."""

    def draws(purpose: str, *ids: int) -> int:
        digest = hashlib.blake2b(repr((seed, purpose, *ids)).encode(), digest_size=8).digest()
        return int.from_bytes(digest, "big", signed=True)

    return draws


def small_limits(seed: int) -> dict[int, int]:
    """Draw a limit for each node of a case: all the same, or from 1 up, and at most 6."""
    rng = random.Random(seed)
    most = rng.choice([2, 3, 6])
    least = rng.choice([1, most])
    return {node: rng.randint(least, most) for node in setting(seed)[0].ids}


def loads(edges: Iterable[Edge]) -> Counter[int]:
    """Return every node's number of children over all groups."""
    return Counter(parent for _, parent, _ in edges)


def roots(seed: int) -> dict[int, int]:
    """Return the root of each group of a case."""
    case, _, overlay = setting(seed)
    return {group: overlay.root(key) for group, key in case.keys.items()}


def assert_trees(seed: int, edges: set[Edge]) -> None:
    """Assert one parent per node, no loop, and that a multicast reaches each member once."""
    case, _, _ = setting(seed)
    assert len({(group, child) for group, _, child in edges}) == len(edges)
    for group, root in roots(seed).items():
        reached = [root]
        for node in reached:
            reached += [child for g, parent, child in edges if (g, parent) == (group, node)]
            assert len(reached) <= len(case.ids)
        in_group = {node for g, *ends in edges if g == group for node in ends}
        assert sorted(reached) == sorted(in_group | {root})
        assert case.members[group] <= set(reached)


# --- Bottleneck remover -------------------------------------------------------------------------


@cache
def removed(seed: int, shed_table: str) -> Removal:
    """Return what the bottleneck remover makes of a case; options go with the seed."""
    case, _, overlay = setting(seed)
    shed_group, shed_child = OPTIONS[seed % len(OPTIONS)]
    draws = keyed(seed)

    def rejoin(child: int, group: int, attempt: int) -> list[int]:
        key = case.keys[group]
        return randomised_route(overlay, key, group, child, attempt, draws, attempts=8)

    return remove_bottlenecks(
        grown(seed).edges(),
        overlay.proximity,
        small_limits(seed),
        shed_group=shed_group,
        shed_child=shed_child,
        shed_table=shed_table,
        draws=draws,
        rejoin=rejoin,
    )


@pytest.mark.parametrize("shed_table", ["remaining", "whole"])
@pytest.mark.parametrize("seed", SOME)
def test_nobody_is_above_its_limit_who_can_help_it(seed, shed_table):
    limits, removal = small_limits(seed), removed(seed, shed_table)
    assert_trees(seed, removal.edges)
    above = {node: n for node, n in loads(removal.edges).items() if n > limits[node]}
    assert removal.overloaded == above
    tables = Counter((group, parent) for group, parent, _ in removal.edges)
    assert all(n == 1 for (_, parent), n in tables.items() if parent in above)


@pytest.mark.parametrize("seed", SOME)
def test_remaining_tables_move_children_and_nothing_else(seed):
    edges, removal = grown(seed).edges(), removed(seed, "remaining")
    assert removal.refused == removal.rejoins == []
    assert len(removal.edges) == len(edges)
    for join in removal.joins:
        # Within a round JOINs run along the tables as it began, but each child is dropped once.
        assert (join.group, join.dropped_by, join.child) in edges
        edges.remove((join.group, join.dropped_by, join.child))
        edges.add((join.group, join.to, join.child))
    assert removal.edges == edges


@pytest.mark.parametrize("seed", SOME)
def test_whole_tables_gain_forwarders_and_nothing_else(seed):
    edges, removal = grown(seed).edges(), removed(seed, "whole")
    below = {(group, child) for group, _, child in edges}
    forwarders = [(rejoin.group, node) for rejoin in removal.rejoins for node in rejoin.forwarders]
    assert len(set(forwarders)) == len(forwarders)
    assert below.isdisjoint(forwarders)
    assert {(group, child) for group, _, child in removal.edges} == below | set(forwarders)
    refused = {(r.round, r.group, r.child) for r in removal.refused}
    assert refused == {(r.round, r.group, r.child) for r in removal.rejoins}


@pytest.mark.parametrize("seed", SEEDS[:50])
def test_any_limit_can_be_met_by_one_group(seed):
    _, _, overlay = setting(seed)
    one_group = {edge for edge in grown(seed).edges() if edge[0] == 1}
    limits = dict.fromkeys(overlay.ids, 1)
    removal = remove_bottlenecks(one_group, overlay.proximity, limits)
    assert removal.overloaded == {}
    assert max(loads(removal.edges).values(), default=1) == 1


def test_the_remover_acts_is_refused_and_fails():
    remaining = [removed(seed, "remaining") for seed in SEEDS]
    whole = [removed(seed, "whole") for seed in SEEDS]
    assert len(SEEDS) >= 200
    assert sum(bool(removal.joins) for removal in remaining) > 190
    assert sum(removal.rounds > 2 for removal in remaining) > 50
    assert sum(bool(removal.overloaded) for removal in remaining) > 50
    assert sum(bool(removal.rejoins) for removal in whole) > 100
    assert sum(r.attempt is not None for removal in whole for r in removal.refused) > 200
    assert sum(len(r.forwarders) for removal in whole for r in removal.rejoins) > 50


def on_a_plane(*places: tuple[int, int]) -> Callable[[int, int], int]:
    """Return a delay: nodes 0, 1, ... stand at ``places``, and go along x, then along y."""

    def delay(a: int, b: int) -> int:
        return sum(abs(p - q) for p, q in zip(places[a], places[b], strict=True))

    return delay


def star(root: int, children: Iterable[int], group: int = 1) -> set[Edge]:
    """Return the edges of a root with children."""
    return {(group, root, child) for child in children}


def test_children_go_down_one_after_the_other():
    delay = on_a_plane((0, 0), (1, 0), (-2, 0), (5, 0), (9, 0))
    limits = {0: 2, 1: 1, 2: 1, 3: 1, 4: 1}
    removal = remove_bottlenecks(star(0, [1, 2, 3, 4]), delay, limits)
    assert removal.joins == [
        Join(1, 1, dropped_by=0, child=4, to=1, probes=3),  # 8 + 1; as far by 3, 4 + 5
        Join(1, 1, dropped_by=0, child=3, to=1, probes=2),  # 4 + 1; by 2 it is 7 + 2
        Join(2, 1, dropped_by=1, child=4, to=3, probes=1),  # its new parent has too many
    ]
    assert removal.edges == {(1, 0, 1), (1, 0, 2), (1, 1, 3), (1, 3, 4)}
    assert (removal.rounds, removal.overloaded, removal.refused) == (2, {}, [])


def test_a_child_may_join_one_dropped_after_it():
    delay = on_a_plane((0, 0), (9, 0), (5, 0), (1, 0))
    removal = remove_bottlenecks(star(0, [1, 2, 3]), delay, dict.fromkeys(range(4), 1))
    assert removal.joins == [
        Join(1, 1, dropped_by=0, child=1, to=2, probes=2),
        Join(1, 1, dropped_by=0, child=2, to=3, probes=1),
    ]
    assert removal.edges == {(1, 0, 3), (1, 3, 2), (1, 2, 1)}


def test_the_nearest_child_may_go_instead():
    delay = on_a_plane((0, 0), (9, 0), (5, 0), (5, 0))
    limits = dict.fromkeys(range(4), 2)
    removal = remove_bottlenecks(star(0, [1, 2, 3]), delay, limits, shed_child="nearest")
    assert removal.joins == [Join(1, 1, dropped_by=0, child=2, to=3, probes=2)]


def test_random_choices_take_the_least_draw():
    delay = on_a_plane((0, 0), *[(x, 0) for x in range(1, 7)])
    edges = star(0, [1, 2], group=1) | star(0, [3, 4, 5, 6], group=2)
    least = {("shed", 2, 0, 5), ("shed", 1, 0, 1)}
    removal = remove_bottlenecks(
        edges,
        delay,
        dict.fromkeys(range(7), 4),
        shed_group="random",
        shed_child="random",
        draws=lambda *key: -5 if key in least else 5,
    )
    assert removal.joins == [
        Join(1, 1, dropped_by=0, child=1, to=2, probes=1),
        Join(1, 2, dropped_by=0, child=5, to=3, probes=3),  # group 1 has but one child left
    ]


def test_groups_take_turns_and_a_limit_that_cannot_be_met_is_told():
    delay = on_a_plane((0, 0), (1, 0), (2, 0), (3, 0), (4, 0), (5, 0))
    edges = star(0, [1, 2], group=1) | star(0, [3, 4], group=2) | star(0, [5], group=3)
    removal = remove_bottlenecks(edges, delay, dict.fromkeys(range(6), 1))
    assert removal.joins == [
        Join(1, 1, dropped_by=0, child=2, to=1, probes=1),
        Join(1, 2, dropped_by=0, child=4, to=3, probes=1),
    ]
    assert removal.edges == {(1, 0, 1), (1, 1, 2), (2, 0, 3), (2, 3, 4), (3, 0, 5)}
    assert (removal.rounds, removal.overloaded) == (1, {0: 3})


def test_two_children_that_choose_each_other():
    # 2 goes by 1 (1 + 10), 1 by 2 (1 + 11, as far as by 3: 11 + 1): a loop, were 1 not refused.
    delay = on_a_plane((0, 0), (10, 0), (11, 0), (-1, 0), (5, 0))
    routes = {(1, 1, 0): [2, 0], (1, 1, 1): [4, 0]}
    removal = remove_bottlenecks(
        star(0, [1, 2, 3]),
        delay,
        dict.fromkeys(range(5), 1),
        shed_table="whole",
        rejoin=lambda *key: routes[key],
    )
    assert removal.joins == [
        Join(1, 1, dropped_by=0, child=2, to=1, probes=2),
        Join(1, 1, dropped_by=0, child=1, to=2, probes=2),
        Join(2, 1, dropped_by=0, child=4, to=3, probes=1),  # a forwarder is a child as any
    ]
    assert removal.refused == [
        Refusal(1, 1, child=1, by=2, attempt=None),
        Refusal(1, 1, child=1, by=2, attempt=0),  # the route leads to 1's own child
    ]
    assert removal.rejoins == [Rejoin(1, 1, child=1, attempt=1, to=0, forwarders=(4,))]
    assert path(removal.edges, root=0, node=2, group=1) == [0, 3, 4, 1, 2]
    assert len(removal.edges) == 4
    assert (removal.rounds, removal.overloaded) == (2, {})


def test_without_whole_tables_they_cannot():
    delay = on_a_plane((0, 0), (10, 0), (11, 0), (-1, 0))
    removal = remove_bottlenecks(star(0, [1, 2, 3]), delay, dict.fromkeys(range(4), 1))
    assert removal.edges == {(1, 0, 3), (1, 3, 1), (1, 1, 2)}


def test_of_two_refused_children_the_greater_may_join_what_hangs_on_the_other():
    # 1 and 2 choose each other, so do 3 and 4.  3 joins 2, which hangs on 1, which waits; so 1 may
    # not join 4 at the same time.
    delay = on_a_plane((0, 0), (10, 0), (11, 0), (-10, 0), (-11, 0), (0, 1))
    routes = {(1, 1, 0): [4, 0], (3, 1, 0): [2, 0], (1, 1, 1): [4, 0], (1, 1, 2): [0]}
    removal = remove_bottlenecks(
        star(0, [1, 2, 3, 4, 5]),
        delay,
        dict.fromkeys(range(6), 1),
        shed_table="whole",
        rejoin=lambda *key: routes[key],
    )
    assert [(join.child, join.to) for join in removal.joins] == [
        *[(2, 1), (4, 3), (1, 2), (3, 4)],
        (1, 5),  # round 2
    ]
    assert removal.refused == [
        Refusal(1, 1, child=1, by=2, attempt=None),
        Refusal(1, 1, child=3, by=4, attempt=None),
        Refusal(1, 1, child=1, by=4, attempt=0),
        Refusal(1, 1, child=1, by=4, attempt=1),  # 4 hangs on 3, 3 on 2, 2 on 1
    ]
    assert removal.rejoins == [
        Rejoin(1, 1, child=3, attempt=0, to=2, forwarders=()),
        Rejoin(1, 1, child=1, attempt=2, to=0, forwarders=()),
    ]
    assert path(removal.edges, root=0, node=4, group=1) == [0, 5, 1, 2, 3, 4]


def test_a_forwarder_on_two_routes_goes_by_that_of_the_smaller_child():
    delay = on_a_plane((0, 0), (10, 0), (11, 0), (-10, 0), (-11, 0), (0, 1), (0, 2), (0, 3))
    routes = {(1, 1, 0): [6, 5, 0], (3, 1, 0): [7, 6, 0]}
    removal = remove_bottlenecks(
        star(0, [1, 2, 3, 4, 5]),
        delay,
        dict.fromkeys(range(8), 9) | {0: 1},
        shed_table="whole",
        rejoin=lambda *key: routes[key],
    )
    assert removal.rejoins == [
        Rejoin(1, 1, child=1, attempt=0, to=5, forwarders=(6,)),
        Rejoin(1, 1, child=3, attempt=0, to=0, forwarders=(7,)),
    ]
    below = [path(removal.edges, root=0, node=node, group=1) for node in (1, 3)]
    assert below == [[0, 5, 6, 1], [0, 5, 6, 7, 3]]


def test_bad_trees_and_options_are_refused():
    delay = on_a_plane((0, 0), (1, 0), (2, 0), (3, 0))
    limits = dict.fromkeys(range(4), 1)
    for edges in ({(1, 0, 1), (1, 2, 3)}, {(1, 0, 1), (1, 1, 0)}, {(1, 0, 2), (1, 1, 2)}):
        with pytest.raises(ValueError, match="root"):
            remove_bottlenecks(edges, delay, limits)
    with pytest.raises(ValueError, match="half"):
        remove_bottlenecks(star(0, [1]), delay, limits, shed_table="half")
    with pytest.raises(ValueError, match="nothing to draw"):
        remove_bottlenecks(star(0, [1, 2]), delay, limits, shed_child="random")
    with pytest.raises(ValueError, match="hangs on 2"):
        path({(1, 0, 1), (1, 2, 3)}, root=0, node=3, group=1)


@pytest.mark.parametrize("seed", SEEDS[:50])
def test_randomised_routes_end_at_the_root_and_never_return(seed):
    case, _, overlay = setting(seed)
    for (group, key), node in product(case.keys.items(), case.ids):
        if node != overlay.root(key):
            route = randomised_route(overlay, key, group, node, 0, keyed(seed))
            assert route[-1] == overlay.root(key)
            assert len({node, *route}) == len(route) + 1


# --- Collapse -----------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", SOME)
def test_collapse_keeps_members_roots_and_forks(seed):
    case, _, _ = setting(seed)
    edges = grown(seed).edges()
    collapsed = collapse(edges, case.members, roots(seed))
    assert_trees(seed, collapsed)
    tables = Counter((group, parent) for group, parent, _ in edges)
    forks = {at for at, children in tables.items() if children > 1}
    kept = forks | set(case.joins()) | set(roots(seed).items())
    expected = set()
    for group, node in kept - set(roots(seed).items()):
        above = path(edges, roots(seed)[group], node, group)[:-1]
        expected.add((group, [n for n in above if (group, n) in kept][-1], node))
    assert collapsed == expected
    after = Counter((group, parent) for group, parent, _ in collapsed)
    assert all(after[at] == children for at, children in tables.items() if at in kept)
    assert all(at in kept and (at in forks or tables[at] == 1) for at in after)


def test_collapse_by_hand():
    # 9 - 1 - 2 - 3 (member) - 4 - 5 (member), and 2 forks to 6 - 7 (member).  9 is no member.
    chain = {(1, 9, 1), (1, 1, 2), (1, 2, 3), (1, 3, 4), (1, 4, 5), (1, 2, 6), (1, 6, 7)}
    other = {(2, 3, 4), (2, 4, 5)}
    assert collapse(chain | other, {1: {3, 5, 7}, 2: {4, 5}}, {1: 9, 2: 3}) == {
        *[(1, 9, 2), (1, 2, 3), (1, 3, 5), (1, 2, 7)],
        *other,  # where 4 is a member
    }


def test_collapse_leaves_a_root_with_one_child():
    assert collapse({(1, 0, 1), (1, 1, 2), (1, 2, 3)}, {1: {3}}, {1: 0}) == {(1, 0, 3)}
    assert collapse({(1, 0, 1)}, {1: {1}}, {1: 0}) == {(1, 0, 1)}


# --- Lazy growth --------------------------------------------------------------------------------


def routes_of(overlay: Overlay, seed: int) -> dict[tuple[int, int], list[int]]:
    """Return the nodes after each member on its route to its group's root."""
    case, _, _ = setting(seed)
    return {(g, member): overlay.route(member, case.keys[g])[1:] for g, member in case.joins()}


@cache
def lazily(seed: int, limit: int | None = None) -> set[Edge]:
    """Return the trees of a case grown lazily, with one limit or with `small_limits`."""
    case, _, overlay = setting(seed)
    limits = small_limits(seed) if limit is None else dict.fromkeys(case.ids, limit)
    waves = in_waves(case.members, keyed(seed))
    return grow_lazily(routes_of(overlay, seed), waves, roots(seed), limits)


@pytest.mark.parametrize("limit", [None, 0])
@pytest.mark.parametrize("seed", SOME)
def test_lazy_trees_run_along_routes(seed, limit):
    case, _, overlay = setting(seed)
    edges = lazily(seed, limit)
    assert_trees(seed, edges)
    plain = grown(seed).edges()
    assert {(g, child) for g, _, child in edges} <= {(g, child) for g, _, child in plain}
    forwarding = {(group, parent) for group, parent, _ in edges}
    for group, parent, child in edges:
        assert parent in overlay.route(child, case.keys[group])[1:]
        assert child in case.members[group] or (group, child) in forwarding


@pytest.mark.parametrize("seed", SEEDS[:50])
def test_without_limits_members_are_the_only_forwarders(seed):
    case, _, _ = setting(seed)
    edges = lazily(seed, 1000)
    joined = {(group, m) for group, m in case.joins() if roots(seed)[group] != m}
    assert {(group, child) for group, _, child in edges} == joined


def test_lazy_growth_overflows_and_makes_forwarders():
    forwarders = 0
    for seed in SEEDS:
        members = set(setting(seed)[0].joins())
        forwarders += len({(group, child) for group, _, child in lazily(seed)} - members)
    assert forwarders > 100


def test_waves_double():
    members = {1: range(9), 2: [5, 3]}
    assert in_waves(members, lambda *key: 0) == [
        [(1, 0), (2, 3)],
        [(1, 1), (1, 2), (2, 5)],
        [(1, 3), (1, 4), (1, 5), (1, 6)],
        [(1, 7), (1, 8)],
    ]
    backwards = in_waves({1: [1, 2, 3]}, lambda purpose, group, member: -member)
    assert backwards == [[(1, 3)], [(1, 1), (1, 2)]]


# Where the nodes' routes lead: to 0, the root of all groups.
NEXT = {1: 3, 3: 0, 4: 3, 5: 4, 6: 3, 7: 4, 8: 4}


def along(node: int) -> list[int]:
    """Return the nodes after ``node`` on its route to 0."""
    return [] if node == 0 else [NEXT[node], *along(NEXT[node])]


def lazily_by_hand(waves: list[list[tuple[int, int]]], limits: dict[int, int]) -> set[Edge]:
    """Return the trees that members of groups 1 and 2 grow along ``NEXT``."""
    joins = {join for wave in waves for join in wave}
    every = dict.fromkeys({0, *NEXT}, 100) | limits
    return grow_lazily({(g, m): along(m) for g, m in joins}, waves, {1: 0, 2: 0}, every)


def test_lazy_growth_by_hand():
    grow = partial(lazily_by_hand, limits={0: 1, 3: 1})
    wave_0 = [(1, 5)]
    edges = {(1, 0, 5)}  # 3 and 4 do not become forwarders
    assert grow([wave_0]) == edges
    wave_1 = [(1, 6), (1, 7)]
    edges |= {(1, 0, 3), (1, 3, 6), (1, 3, 7)}  # 0 is full: 3 takes both, 0 takes 3 once
    assert grow([wave_0, wave_1]) == edges
    # 3 is in the tree by now and sends no JOIN.  It is full, but 4 is its neighbour.  8 comes by 4.
    wave_2 = [(1, 3), (1, 4), (1, 8)]
    edges |= {(1, 3, 4), (1, 4, 8)}
    assert grow([wave_0, wave_1, wave_2]) == edges


def test_lazy_growth_counts_the_children_of_all_groups():
    # One place at 0: of the JOINs that arrive together the smallest group's gets it.
    assert lazily_by_hand([[(2, 6), (1, 5)]], {0: 1}) == {(1, 0, 5), (2, 0, 3), (2, 3, 6)}
    # In the next wave 0 has two children, more than its limit, and q takes all.
    edges = {(1, 0, 5), (2, 0, 3), (2, 3, 6), (1, 0, 3), (1, 3, 7), (2, 3, 8)}
    assert lazily_by_hand([[(2, 6), (1, 5)], [(1, 7), (2, 8)]], {0: 1}) == edges


def test_waves_do_not_see_their_own_joins():
    # 4 joins together with 5: 5's route passes 4, which is not yet in the tree.
    assert lazily_by_hand([[(1, 4), (1, 5)]], {}) == {(1, 0, 4), (1, 0, 5)}
    assert lazily_by_hand([[(1, 4)], [(1, 5)]], {}) == {(1, 0, 4), (1, 4, 5)}
    # With no place at 3, both 4 and 1 are taken nevertheless: they are q of themselves.
    full = {(1, 0, 3), (1, 3, 4), (1, 3, 1), (1, 4, 5)}
    assert lazily_by_hand([[(1, 3)], [(1, 4), (1, 1), (1, 5)]], {3: 0}) == full
