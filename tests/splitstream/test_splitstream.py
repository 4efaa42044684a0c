"""SplitStream in worlds: invariants of the trees, copies, and results that no bucket changes."""

from collections import Counter
from contextlib import nullcontext
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from scribe_spark.core.arrays import least_of, run_starts
from scribe_spark.core.draws import order_of_draws
from scribe_spark.core.errors import InputError
from scribe_spark.engine.facts import Ring
from scribe_spark.engine.packing import take
from scribe_spark.rounds.group_overlays import Network
from scribe_spark.rounds.grown_overlays import Period
from scribe_spark.systems.splitstream.channels import Channels
from scribe_spark.systems.splitstream.forest import Forest
from scribe_spark.systems.splitstream.routes import Routes
from scribe_spark.systems.splitstream.splitstream import SplitStream
from splitstream.played import Case, Rules, Seen, of_all, play, random_case

SLOW = pytest.mark.slow


@pytest.mark.parametrize("seeds", [range(4), pytest.param(range(4, 220), marks=SLOW)])
def test_invariants(seeds) -> None:
    met = Counter()
    for seed in seeds:
        case = random_case(seed)
        for number, seen in enumerate(play(case)):
            for group in range(len(case.keys)):
                met += check_channel(case, seen, group, number)
            met += Counter(kind for *_, kind in seen.messages)
    kinds = ["subscribe", "ack", "drop", "path", "leave", "anycast", "spare_join", "spare_leave"]
    assert min(met[name] for name in (*kinds, "attached", "copies", "late")) > 0, met


def check_channel(case: Case, seen: Seen, group: int, number: int) -> Counter:
    """Check the trees of a channel, and the copies of its publication."""
    if not seen.state["nodes"]:
        return Counter()
    of, met = seen.channel(case, group), Counter()
    node, parent, stripes = of["node"].tolist(), of["parent"], case.rules.stripes
    row = {at: index for index, at in enumerate(node)}
    live = [seen.alive[at] for at in node]
    channels = seen.state["channels"]
    mine = channels["group"] == group
    if not mine.any():
        assert not any(live)
        return met
    root = channels["root"][mine][0].tolist()
    degree = Counter(parent[parent >= 0].tolist())
    for at in node:  # no degree above the bound
        bound = case.rules.bound if case.capacity is None else case.capacity[case.ring.node[at]]
        assert degree[at] <= bound or (not bound and case.capacity is None)
    # members, the dead that nobody has noticed, and roots
    members = {at for at in node if of["member"][row[at]]}
    assert {at for at, here in zip(node, live, strict=True) if here} - members <= set(root)
    for stripe in range(stripes):
        above = {at: int(parent[row[at], stripe]) for at in node}
        for at, here in zip(node, live, strict=True):
            if not here:
                continue
            path, up = [], above[at]
            while up >= 0 and len(path) <= len(node):
                path.append(up)
                up = above[up]
            if len(path) > len(node):  # a cycle, in which a dead node hides it
                assert not all(live[row[up]] for up in path)
                continue
            # each stripe; the dead hold places until they are noticed
            assert path or at == root[stripe] or not all(live)
            known = of["ancestors"][row[at], stripe]
            if all(live):
                assert known[known >= 0].tolist() == path
                assert at == root[stripe] or path[-1:] == [root[stripe]]
            met["attached"] += len(path)
    if all(live):
        assert degree.total() == stripes * (len(node) - 1)
    if case.days[number].publish:
        check_copies(case, seen, group, number, row, parent, root)
        met["copies"] += 1
    met["late"] += number > 2
    return met


def check_copies(case, seen, group, number, row, parent, root) -> None:
    """Compare copies with the edges of the publication's stripe: rule L11."""
    numbers, position = sorted(case.keys), {int(n): at for at, n in enumerate(case.ring.node)}
    source = [
        position[node] for of, node in case.days[number].publish if numbers.index(of) == group
    ]
    stripe = number % case.rules.stripes
    for start in source:
        heard, wanted, queue = {start}, Counter(), [start]
        while queue:
            at = queue.pop()
            children = [one for one in row if parent[row[one], stripe] == at and one != start]
            children += [root[stripe]] * (at == start != root[stripe])
            for one in children:
                wanted[group, at, one] += 1
                if one not in heard and seen.alive[one]:
                    heard.add(one)
                    queue.append(one)
        assert Counter({key: n for key, n in seen.copies.items() if key[0] == group}) == wanted


@pytest.mark.parametrize("seeds", [range(1), pytest.param(range(1, 60), marks=SLOW)])
@pytest.mark.parametrize("buckets", [2, 7])
def test_buckets_change_nothing(seeds, buckets) -> None:
    for seed in seeds:
        case = random_case(seed)
        for one, other in zip(play(case), play(case, buckets, blind=True), strict=True):
            assert one.messages == other.messages
            assert one.copies == other.copies
            assert one.measures == pytest.approx(other.measures)
            assert one.counts == other.counts
            for name, columns in one.state.items():
                same(columns, other.state[name])


def same(one, other) -> None:
    """Compare tables, whose lists may be filled differently."""
    assert one.keys() == other.keys()
    for name, column in one.items():
        theirs = other[name]
        if name == "ancestors":
            width = min(column.shape[2], theirs.shape[2])
            assert all((lists[:, :, width:] < 0).all() for lists in (column, theirs))
            column, theirs = column[:, :, :width], theirs[:, :, :width]
        assert np.array_equal(column, theirs), name


@pytest.mark.parametrize("seeds", [range(1), pytest.param(range(1, 60), marks=SLOW)])
def test_a_group_does_not_depend_on_others(seeds) -> None:
    for seed in seeds:
        case = random_case(seed)
        first = min(case.keys)
        days = [
            replace(
                day,
                join=frozenset(one for one in day.join if one[0] == first),
                quit=frozenset(one for one in day.quit if one[0] == first),
                publish=tuple(one for one in day.publish if one[0] == first),
            )
            for day in case.days
        ]
        alone = replace(case, keys={first: case.keys[first]}, days=days)
        for one, other in zip(play(case), play(alone), strict=True):
            if other.state["nodes"]:
                mine = one.state["nodes"]["group"] == 0
                same(take(one.state["nodes"], mine), other.state["nodes"])


@pytest.mark.parametrize("seeds", [range(5), pytest.param(range(5, 100), marks=SLOW)])
def test_without_a_bound_trees_are_routes(seeds) -> None:
    hops = 0
    for seed in seeds:
        case = of_all(random_case(seed, bound=0, waves=1))
        (seen,) = play(case)
        for group in range(len(case.keys)):
            onward = seen.next_hops(case, group)[:, : case.rules.stripes]
            wanted = np.where(onward == np.arange(len(onward))[:, None], -1, onward)
            assert np.array_equal(seen.channel(case, group)["parent"], wanted)
            hops += np.count_nonzero(wanted >= 0)
    assert hops > 500


@pytest.mark.parametrize(("nodes", "few"), [(5_000, False), (5_001, True)])
def test_limits_of_nodes_that_are_too_low_for_a_large_channel_are_refused(nodes, few) -> None:
    """Half of the nodes have 17 places, the others 18, for 16 stripes."""
    key, every = np.arange(nodes), np.ones(nodes, dtype=bool)
    ring = Ring(key.astype(np.uint64) << np.uint64(40), key.astype(np.uint64), key, key * 0)
    network = Network(ring, None, 0, 1, capacity=17 + key % 2)
    number, none = np.array([0]), (key[:0], key[:0])
    id = number.astype(np.uint64)
    period = Period(0, 0, True, True, number, id, id, (key * 0, key), none, key[:0], every, network)
    begun = Channels(Rules(), {}, period)
    expected = (
        pytest.raises(InputError, match=r"mean of capacities = 17\.4.*: must be 18")
        if few
        else nullcontext()
    )
    with expected:
        Forest(begun, 4, Routes())


@pytest.mark.parametrize("kinds", [3, 2**63])
def test_orders_by_draws_are_those_of_lexsort(kinds) -> None:
    """Also of equal draws, and of draws that differ in their last bits only."""
    drawn = np.random.default_rng(1)
    row = np.sort(drawn.integers(0, 40, 500))
    draw = drawn.integers(0, kinds, 500).astype(np.uint64)
    order = np.lexsort((draw, row))
    assert np.array_equal(order_of_draws(row, draw), order)
    assert np.array_equal(least_of(row, draw), order[run_starts(row[order])])
    assert not len(order_of_draws(row[:0], draw[:0])) + len(least_of(row[:0], draw[:0]))


def test_a_picture_has_all_edges_of_one_node_of_each_group() -> None:
    several = 0
    for seed in range(6):
        case = random_case(seed)
        seen = play(case)[0]
        system = SplitStream(case.rules, case.b)
        rows = system.picture(SimpleNamespace(state=seen.state), SimpleNamespace(ring=case.ring))
        for group in np.unique(rows["group"]).tolist():
            of, mine = seen.channel(case, group), take(rows, rows["group"] == group)
            (middle,) = np.unique(mine["parent"])
            ups = of["parent"][of["node"] == middle][0]
            row, stripe = np.nonzero(of["parent"] == middle)
            wanted = Counter((up, 0, at) for at, up in enumerate(ups.tolist()) if up >= 0)
            wanted += Counter(zip(of["node"][row], -1 - stripe, stripe * 0 - 1, strict=True))
            value = np.where(np.isnan(mine["value"]), -1, mine["value"]).astype(int)
            edges = zip(mine["child"], mine["rank"], value, strict=True)
            assert Counter(edges) == wanted
            inner = [len({*np.nonzero(of["parent"] == at)[1]}) for at in of["node"]]
            assert len({*stripe}) == max([n for n in inner if n <= 4], default=min(inner))
            several += len({*stripe}) > 1
    assert several
