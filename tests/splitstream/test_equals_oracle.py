"""SplitStream in worlds beside its oracle: trees, lists, the spare group's tree, messages."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from oracle.splitstream import SPARE, Channel

from splitstream.played import Case, Seen, play, random_case

SLOW = pytest.mark.slow


#: The worlds of quick tests; the last one has a cycle of parents.
QUICK = [*range(4), 29]


@pytest.mark.parametrize("seeds", [QUICK, pytest.param(range(4, 220), marks=SLOW)])
def test_worlds_equal_the_oracle(seeds) -> None:
    kinds: Counter = Counter()
    for seed in seeds:
        case = random_case(seed)
        channels = [channel_of(case, group) for group in sorted(case.keys)]
        for number, seen in enumerate(play(case)):
            messages: Counter = Counter()
            for group, channel in enumerate(channels):
                step(case, channel, group, number, seen)
                compare(case, channel, group, seen)
                messages += channel.messages
            number_of = case.ring.node
            wanted = Counter(
                {(int(number_of[a]), int(number_of[b]), k): n for (a, b, k), n in messages.items()}
            )
            found = {one: n for one, n in seen.messages.items() if one[2] != "payload"}
            assert found == wanted, (seed, number)
            kinds += Counter({kind: n for *_, kind in wanted for n in [1]})
    assert len(kinds) == 9, kinds


def channel_of(case: Case, group: int) -> Channel:
    """The oracle's channel of a group."""
    ring, rules, b = case.ring, case.rules, case.b
    ids = [int(hi) << 64 | int(lo) for hi, lo in zip(ring.hi, ring.lo, strict=True)]
    bits, key = rules.stripes.bit_length() - 1, case.keys[group]

    def match(x: int, s: int) -> int:
        stripe = s << (128 - bits) | key % 2 ** (128 - bits)
        different = (ids[x] ^ stripe).bit_length()
        return (128 - different) // b

    numbers = ring.node.tolist()
    bound = [rules.bound or None] * len(ids)
    if case.capacity is not None:
        bound = [case.capacity[node] for node in numbers]
    primary = [one >> (128 - bits) for one in ids]
    of_rules = rules.stripes, rules.policy, rules.waves
    return Channel(case.seed, group, *of_rules, numbers, primary, match, bound)


def step(case: Case, channel: Channel, group: int, number: int, seen: Seen) -> None:
    """Play a period of the oracle's channel."""
    day, ring = case.days[number], case.ring
    position = {int(node): at for at, node in enumerate(ring.node)}
    name = sorted(case.keys)[group]

    def of(pairs) -> set[int]:
        return {position[node] for one, node in pairs if one == name}

    ids = [int(hi) << 64 | int(lo) for hi, lo in zip(ring.hi, ring.lo, strict=True)]
    bits, key = case.rules.stripes.bit_length() - 1, case.keys[name]
    keys = [s << (128 - bits) | key % 2 ** (128 - bits) for s in range(case.rules.stripes)]
    keys += [key ^ (2**128 - 1)] * (case.rules.policy == SPARE)
    live = np.flatnonzero(seen.alive).tolist()

    def away(at: int, one: int) -> tuple[int, int]:
        distance = (ids[at] - one) % 2**128
        return min(distance, 2**128 - distance), at

    roots = [min(live, key=lambda at, one=one: away(at, one)) for one in keys]
    onward = seen.next_hops(case, group)
    events = of(day.join), of(day.quit), {position[node] for node in day.fail}
    channel.play(number, seen.alive.tolist(), *events, roots, lambda at, key: int(onward[at, key]))


def compare(case: Case, channel: Channel, group: int, seen: Seen) -> None:
    """Compare the state of a channel."""
    if not seen.state["nodes"]:
        assert not channel.nodes
        return
    of = seen.channel(case, group)
    assert of["node"].tolist() == sorted(channel.nodes)
    for row, x in enumerate(of["node"].tolist()):
        for s in range(case.rules.stripes):
            assert of["parent"][row, s] == channel.parent.get((x, s), -1), (x, s)
            if seen.alive[x]:
                known = of["ancestors"][row, s]
                assert known[known >= 0].tolist() == channel.ancestors.get((x, s), []), (x, s)
        if seen.alive[x]:
            assert of["spare_parent"][row] == channel.spare_parent.get(x, -1)
    for (m, s), children in channel.children.items():
        if m in channel.nodes:
            assert {x for x in channel.nodes if channel.parent.get((x, s)) == m} == children
