"""Meshes of one topic, worked by hand: cases that the oracle and the kernels play."""

from dataclasses import dataclass, field, replace

import numpy as np
import pytest
from oracle.gossipsub.topic import Settings, Topic

from scribe_spark.systems.gossipsub.router import (
    DIALLED,
    BackOff,
    LinkNames,
    Links,
    LinkSpace,
    Router,
    turned_way,
)

from .played import config_of, other_ends

COUNT, DEGREES = 30, Settings(d=2, d_low=1, d_high=3, d_out=0)

Pairs = set[tuple[int, int]]


@dataclass(frozen=True)
class Case:
    """A heartbeat of node 0, or GRAFTs that arrive; equal draws, so that nodeIds decide."""

    settings: Settings
    links: str  # ``0>1``: node 0 has dialled node 1
    mesh: str  # the peers in the mesh of node 0, which is in theirs
    peers: set[int]  # the mesh of node 0 afterwards
    #: Node, peer and end of each back-off afterwards.
    backing_off: set[tuple[int, int, int]] = field(default_factory=set)
    #: (node, peer) -> until which heartbeat.
    back_off: dict[tuple[int, int], int] = field(default_factory=dict)
    #: Senders and receivers, whose meshes have the receivers; without any node 0 has a heartbeat.
    grafts: Pairs = field(default_factory=set)
    heartbeat: int = 0

    def dialled(self) -> list[tuple[int, int]]:
        """Return who has dialled whom."""
        pairs = [link.split(">") for link in self.links.split()]
        return [(int(a), int(b)) for a, b in pairs]

    def meshes(self) -> dict[int, set[int]]:
        """Return the meshes of all nodes before."""
        found: dict[int, set[int]] = {}
        for peer in map(int, self.mesh.split()):
            found.setdefault(0, set()).add(peer)
            found.setdefault(peer, set()).add(0)
        for sender, receiver in self.grafts:
            found.setdefault(sender, set()).add(receiver)
        return found

    def links_after(self) -> Pairs:
        """Return the links of the mesh afterwards, at both ends."""
        return {pair for peer in self.peers for pair in ((0, peer), (peer, 0))}


def both_ways(*peers: int, until: int) -> set[tuple[int, int, int]]:
    """Return back-offs between node 0 and some peers."""
    return {(a, b, until) for peer in peers for a, b in ((0, peer), (peer, 0))}


CASES = {
    "a full mesh takes those alone that it has dialled": Case(
        replace(DEGREES, prune_backoff=7), "0>1 0>2 0>3 4>0 0>5", "1 2 3",
        peers={1, 2, 3, 5}, backing_off=both_ways(4, until=10),
        grafts={(4, 0), (5, 0)}, heartbeat=3,
    ),
    "nobody GRAFTs a peer in back-off": Case(
        DEGREES, "0>1 0>2", "", peers={2}, backing_off=both_ways(1, until=5),
        back_off={(0, 1): 5, (1, 0): 5}, heartbeat=4,
    ),
    "a back-off that ends now is over": Case(
        DEGREES, "0>1 0>2", "", peers={1, 2}, back_off={(0, 1): 5, (1, 0): 5}, heartbeat=5
    ),
    "a back-off that one end alone knows is refused there": Case(
        DEGREES, "0>1 0>2", "", peers={2}, backing_off=both_ways(1, until=64),
        back_off={(1, 0): 5}, heartbeat=4,
    ),
    "a mesh that is too large keeps its outbound links": Case(
        Settings(d=4, d_low=3, d_high=5, d_out=2, prune_backoff=9),
        "1>0 2>0 3>0 4>0 0>5 0>6", "1 2 3 4 5 6",
        peers={1, 2, 5, 6}, backing_off=both_ways(3, 4, until=9),
    ),
    "a mesh of D_high stays": Case(
        Settings(d=1, d_low=1, d_high=2, d_out=0), "0>1 0>2", "1 2", peers={1, 2}
    ),
    "a mesh of D_high is pruned if asked": Case(
        Settings(d=1, d_low=1, d_high=2, d_out=0, prune_at_d_high=True), "0>1 0>2", "1 2",
        peers={1}, backing_off=both_ways(2, until=60),
    ),
    "outbound links are grafted besides": Case(
        Settings(d=2, d_low=2, d_high=4, d_out=1), "1>0 2>0 0>3 0>4", "1 2", peers={1, 2, 3}
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_the_oracle(case: Case) -> None:
    topic = Topic(1, case.settings, lambda *_: 0, {node: node for node in range(COUNT)})
    for a, b in case.dialled():
        topic.connect(a, b)
        topic.joined |= {a, b}
    topic.mesh = case.meshes()
    for (node, peer), until in case.back_off.items():
        topic.backoff.setdefault(node, {})[peer] = until
    if case.grafts:
        topic.deliver(sorted(case.grafts), [], case.heartbeat)
    else:
        topic.heartbeat(case.heartbeat, acting=[0])
    assert topic.mesh_links() == case.links_after()
    assert topic.backoffs(case.heartbeat) == case.backing_off


class EqualDraws(LinkNames):
    """Draws that say nothing."""

    def bits(self, purpose, heartbeat, topic, *nodes):
        """See `LinkNames`."""
        return np.zeros(len(topic), dtype=np.uint64)

    def bits_of_peers(self, purpose, heartbeat, topic, node, of, peer):
        """See `LinkNames`."""
        return np.zeros(len(peer), dtype=np.uint64)


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_the_kernels(case: Case) -> None:
    space, number, at = LinkSpace(COUNT), np.arange(COUNT), case.heartbeat
    ways: dict[int, int] = {}
    for a, b in case.dialled():
        for key, way in ((a * COUNT + b, DIALLED), (b * COUNT + a, turned(DIALLED))):
            ways[key] = ways.get(key, 0) | way
    mesh = [a * COUNT + b for a, peers in case.meshes().items() for b in peers]
    off = {node * COUNT + peer: until for (node, peer), until in case.back_off.items()}
    connections, meshes, back_off = Links(), Links(), BackOff()
    connections.insert(keys(ways), way=np.array([ways[key] for key in sorted(ways)]))
    meshes.insert(keys(mesh), way=np.array([ways[key] for key in sorted(mesh)]))
    back_off.insert(keys(off), until=np.array([off[key] for key in sorted(off)]))
    names = EqualDraws(np.array([1]), number, 0)
    router = Router(config_of(case.settings).filled(), names, space, connections, meshes, back_off)
    grafted, pruned = keys(a * COUNT + b for a, b in case.grafts), keys([])
    if not case.grafts:
        grafted, pruned = router.heartbeat(np.array([0]), at)
    until = at + router.rules.prune_backoff
    router.take_prunes(other_ends(space, pruned), until)
    way = turned_way(connections.way[connections.find(grafted)])
    refused = router.take_grafts(other_ends(space, grafted), way, at)
    router.take_prunes(other_ends(space, refused), until)
    ends = set(zip(*(part.tolist() for part in np.divmod(meshes.key, COUNT)), strict=True))
    assert ends == case.links_after()
    holds = back_off.until > at
    rows = (*np.divmod(back_off.key[holds], COUNT), back_off.until[holds])
    assert set(zip(*(part.tolist() for part in rows), strict=True)) == case.backing_off


def turned(way: int) -> int:
    """Return a way as the other end has it."""
    return int(turned_way(np.array([way], dtype=np.int8))[0])


def keys(numbers) -> np.ndarray:
    """Return keys, ascending."""
    return np.array(sorted(numbers), dtype=np.int64)
