"""GossipSub's kernels beside its oracle: meshes, back-off, first copies, all copies and counts."""

from collections import Counter
from dataclasses import replace

import keyed
import pytest
from oracle.gossipsub.cases import random_gossip

from scribe_spark.systems.gossipsub.mesh import CONNECTIONS

from .played import play_case

SEEDS = range(200)
DEFAULT = range(0, 200, 8)


def check(
    seed: int,
    buckets: int,
    poisoned: bool = False,
    spread_out: bool = False,
    withhold: str | None = None,
) -> Counter:
    """Compare a case with its oracle; return the number of messages by kind.

    With `withhold` = payload, every third node withholds copies; with all, announcements, too.
    """
    one = random_gossip(seed)
    if withhold is not None:
        silent = frozenset(node for node in one.case.ids if node % 3 == seed % 3)
        kind = {"withholds_announcements": withhold == "all"}
        one = replace(one, settings=replace(one.settings, withholds=silent, **kind))

    def draw(purpose, *numbers):
        return keyed.bits(one.case.seed, purpose, *numbers) % 2**64

    graph, got = one.graph(draw), play_case(one, buckets, poisoned, spread_out)
    wanted = {group: one.play(group, draw, graph) for group in one.case.keys}
    if not wanted:
        assert not got.deliveries()
        return Counter()
    # 1. connections, meshes and back-off after every own round
    connections = {
        (group, *row) for group, played in wanted.items() for row in played.topic.connections()
    }
    assert {(g, x, y, bool(way & 1)) for g, x, y, way in got.links(CONNECTIONS)} == connections
    for number, (mesh, back_off) in enumerate(zip(got.meshes, got.backoffs, strict=True)):
        seen = {group: played.seen[number] for group, played in wanted.items()}
        meshes = {(group, *link) for group, one in seen.items() for link in one.mesh}
        assert mesh == meshes, f"mesh after heartbeat {number}"
        holds = {row for row in back_off if row[3] > number + 1}
        assert holds == {(group, *row) for group, one in seen.items() for row in one.backoffs}
    assert {len(played.seen) for played in wanted.values()} == {len(got.meshes)}
    # 2. who got the publication first, and when; by the clock of hops, delays are sums of ways
    deliveries = {
        (group, node): (had.hops, had.at)
        for group, played in wanted.items()
        for node, had in played.publication.had.items()
        if had.sender is not None
    }
    if one.settings.clock == "hops":
        hops = {place: had[0] for place, had in deliveries.items()}
        assert {place: had[0] for place, had in got.deliveries().items()} == hops
    else:
        assert got.deliveries() == deliveries
    # 3. every copy, and the messages of the publication
    messages = got.messages()
    copies = Counter(
        (group, c.sender, c.receiver, c.sent, c.hop)
        for group, played in wanted.items()
        for c in played.publication.copies
    )
    sent = [row for kind, row in messages if kind == "payload"]
    assert Counter(row[:5] for row in sent) == copies
    firsts = Counter(
        (group, had.sender, node)
        for group, played in wanted.items()
        for node, had in played.publication.had.items()
        if had.sender is not None
    )
    assert Counter(row[:3] for row in sent if row[5]) == firsts
    told = Counter((kind, *row[:3]) for kind, row in messages if kind != "payload")
    assert told == Counter(
        {
            (kind, group, sender, receiver): count
            for group, played in wanted.items()
            for (sender, receiver, kind), count in played.publication_messages().items()
            if kind != "payload"
        }
    )
    # 4. messages while joining
    joining = Counter(
        {
            (kind, group, sender, receiver): count
            for group, played in wanted.items()
            for (sender, receiver, kind), count in played.joining_messages().items()
        }
    )
    joining.update(("dial", None, x, y) for x, y in graph or ())
    assert got.joining() == joining
    return Counter(kind for kind, _ in messages)


@pytest.mark.parametrize("seed", DEFAULT)
def test_kernels_equal_the_oracle(seed):
    """Some of the cases."""
    check(seed, (1, 2, 7)[seed // 8 % 3])


@pytest.mark.parametrize("buckets", [1, 2])
def test_nodes_withhold_copies_or_announcements_too(buckets):
    kinds = "payload", "all"
    sent = {
        kind: sum((check(seed, buckets, withhold=kind) for seed in range(12)), Counter())
        for kind in kinds
    }
    for kind in ("IHAVE", "IDONTWANT"):
        assert 0 < sent["all"][kind] < sent["payload"][kind]


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
