"""Meshes of one topic, worked by hand: cases that the oracle plays."""

from dataclasses import dataclass, field, replace

import pytest
from oracle.gossipsub.topic import Settings, Topic

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
