"""GossipSub's kernels beside its oracle: meshes, back-off, first copies, all copies and counts."""

from __future__ import annotations

from collections import Counter

import keyed
import pytest
from oracle.gossipsub.cases import random_gossip

from .played import ANSWERS, CONNECTIONS, COPIES, GRAPH, TOLD_OF, UNWANTED, play_case

SEEDS = range(200)
DEFAULT = range(0, 200, 8)


def check(seed: int, buckets: int, poisoned: bool = False, spread_out: bool = False) -> None:
    """Compare a case with its oracle."""
    one = random_gossip(seed)
    settings = one.settings

    def draw(purpose, *numbers):
        return keyed.bits(one.case.seed, purpose, *numbers) % 2**64

    graph, got = one.graph(draw), play_case(one, buckets, poisoned, spread_out)
    wanted = {group: one.play(group, draw, graph) for group in one.case.keys}
    if not wanted:
        assert not got.arrivals()
        return
    # 1. connections, meshes and back-off after every wave and heartbeat
    connections = {
        (group, *row) for group, played in wanted.items() for row in played.topic.connections()
    }
    assert {(g, x, y, bool(way & 1)) for g, x, y, way in got.rows(CONNECTIONS)} == connections
    first = 0 if settings.joins != "unconnected" else 1  # kernels have no empty JOIN
    waves = settings.join_waves if settings.joins == "waves" else 1
    steps = range(first, 2 * waves - 1 + settings.heartbeats)
    for at, step in enumerate(steps):
        meshes = {(g, *link[:2]) for g, p in wanted.items() for link in p.meshes[step]}
        assert {row[:3] for row in got.meshes[at]} == meshes, f"mesh after step {step}"
    for at, step in enumerate(steps):
        h = _number(step, waves)
        for group, played in wanted.items():
            mine = {row[1:] for row in got.backoffs[at] if row[0] == group and row[3] > h}
            assert mine == {row for row in played.backoffs[step] if row[2] > h}
    # 2. who got the publication first, when, from whom
    arrivals = {
        (group, node): (had.hops, had.at, had.sender)
        for group, played in wanted.items()
        for node, had in played.publication.had.items()
    }
    assert got.arrivals() == arrivals
    # 3. every copy, and the messages of the publication
    copies = Counter(
        (group, c.receiver, c.sender, c.sent, c.hop, c.lost)
        for group, played in wanted.items()
        for c in played.publication.copies
    )
    sent = [row for table in (COPIES, ANSWERS) for _, row in got.messages(table)]
    assert Counter(row[:6] for row in sent) == copies
    firsts = Counter(row[:3] for row in sent if row[6])
    assert firsts == Counter((*at, had[2]) for at, had in arrivals.items() if had[2] is not None)
    told = Counter((name.split()[2], *row) for name, row in got.messages(TOLD_OF))
    unwanted = Counter(("IDONTWANT", *row[:3]) for _, row in got.messages(UNWANTED))
    told += unwanted
    assert told == Counter(
        {
            (kind, group, receiver, sender): count
            for group, played in wanted.items()
            for (sender, receiver, kind), count in played.publication_messages().items()
            if kind != "payload"
        }
    )
    # 4. messages while joining
    joining = Counter((kind, *row) for kind, row in got.told())
    dials = got.rows(CONNECTIONS) if graph is None else []
    joining.update(("dial", g, x, y) for g, x, y, way in dials if way & 2)
    assert joining == Counter(
        {
            (kind, group, receiver, sender): count
            for group, played in wanted.items()
            for (sender, receiver, kind), count in played.joining_messages().items()
        }
    )
    if graph is not None:
        assert {(x, y) for _, y, x, way in got.rows(GRAPH) if way & 2} == graph
    assert got.lazy_heartbeats >= max(played.lazy_heartbeats for played in wanted.values())


def _number(step: int, waves: int) -> int:
    """The number of the heartbeat that would come after a step of joining."""
    if step < 2 * waves - 1:
        return (step + 1) // 2
    return step - waves + 1


@pytest.mark.parametrize("seed", DEFAULT)
def test_kernels_equal_the_oracle(seed):
    """Some of the cases."""
    check(seed, (1, 2, 7)[seed // 8 % 3])


@pytest.mark.slow
@pytest.mark.parametrize("buckets", [1, 2, 7])
@pytest.mark.parametrize("seed", SEEDS)
def test_kernels_equal_the_oracle_everywhere(seed, buckets):
    """All cases, however many buckets there are."""
    check(seed, buckets)


def test_keys_near_their_limit_lose_nothing():
    """Nodes are so far apart that keys of topics and two nodes come near to 2**63."""
    dialled = [seed for seed in range(40) if random_gossip(seed).settings.discovery == "dial"]
    for seed in dialled[:12]:
        check(seed, (1, 3)[seed % 2], spread_out=True)


def test_buckets_do_not_see_one_another():
    """Tables can be read only while their bucket is played."""
    for seed in (3, 4, 11):
        check(seed, 3, poisoned=True)
