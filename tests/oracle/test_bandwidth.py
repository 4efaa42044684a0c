"""The oracle of the clock with bandwidth: what always holds, other oracles, recoded parts by hand.

The other cases worked by hand are in tests/bandwidth/test_kernel.py, for the oracle and the kernel.
"""

from collections import Counter, defaultdict
from dataclasses import dataclass, field, replace
from itertools import pairwise

import pytest
from seeds import seeds

from . import bandwidth_cases as cases
from .bandwidth import SERIAL, First, Network, Node, Rules, play, tx
from .bandwidth_cases import FROM_0, IN_SERIES, TRIANGLE, in_parts, sent, told, up
from .dissemination import Edge, spread


@pytest.mark.parametrize("seed", seeds(range(150), 7))
def test_what_always_holds(seed: int) -> None:
    """Links carry messages one after the other; rules B4 to B7 hold for every copy."""
    network, publications, rules = cases.random_case(seed)
    played = play(network, publications, rules)
    sizes = [publication.size for publication in publications]
    delay = {(link.sender, link.receiver): link.delay_us for link in network.links}

    def owner(place: int) -> int:
        return network.places[place] if rules.shared else place

    batch = Counter((c.publication, c.sender) for c in played.copies)
    up, down = defaultdict(list), defaultdict(list)
    for c in played.copies:
        sender, receiver = (network.nodes[network.places[one]] for one in (c.sender, c.receiver))
        together = 1 if rules.discipline == SERIAL else batch[c.publication, c.sender]
        takes = together * tx(sizes[c.publication], sender.up)
        assert c.enqueued_us <= c.start_us
        assert c.arrives_us == c.start_us + delay[c.sender, c.receiver]
        assert c.last_us == c.arrives_us + takes
        up[owner(c.sender)].append((c.enqueued_us, c.publication, c.start_us, c.start_us + takes))
        order = (c.arrives_us, c.publication, sender.ident, c.sender)
        down[owner(c.receiver)].append((order, receiver.down, c))
    for used in up.values():
        used.sort()
        spans = [one[2:] for one in used]
        assert spans == sorted(spans)
        if rules.discipline != SERIAL:
            spans = sorted(set(spans))
        assert all(end <= begin for (_, end), (begin, _) in pairwise(spans))
    for used in down.values():
        free = 0
        for _, bandwidth, c in sorted(used, key=lambda one: one[0]):
            free = max(c.arrives_us, free) + tx(sizes[c.publication], bandwidth)
            assert c.complete_us == max(c.last_us, free)
    complete = {(c.publication, c.sender, c.receiver): c.complete_us for c in played.copies}
    by_receiver = defaultdict(list)
    for c in played.copies:
        ident = network.nodes[network.places[c.sender]].ident
        by_receiver[c.publication, c.receiver].append((c.complete_us, c.hops, ident, c.sender))
    for key, came in by_receiver.items():
        at, hops, _, sender = min(came)
        assert played.first[key] == First(at, hops, sender)
    told = {(t.publication, t.receiver, t.sender): t.arrives_us for t in played.told}
    never = float("inf")

    def known(p: int, y: int, x: int) -> float:
        return min(complete.get((p, x, y), never), told.get((p, y, x), never))

    assert all(known(p, y, x) < at for p, y, x, at in played.held_back)
    assert not any(known(c.publication, c.sender, c.receiver) < c.start_us for c in played.copies)


@pytest.mark.parametrize("seed", seeds(range(40), 5))
def test_trees_without_limits_as_dissemination(seed: int) -> None:
    """Without limits the links without a way back give the copies of a plain spread."""
    network, publications, _ = cases.random_case(seed, limits=False)
    nodes = {y: Node(node.ident, validation_us=5) for y, node in network.nodes.items()}
    back = {(link.receiver, link.sender) for link in network.links}
    links = [link for link in network.links if (link.sender, link.receiver) not in back]
    network = Network(nodes, network.places, links)
    played = play(network, publications, Rules())
    delays = {(link.sender, link.receiver): link.delay_us for link in links}
    for p, (source, at, _, _) in enumerate(publications):
        theirs = spread(
            [source],
            [Edge(link.sender, link.receiver, ()) for link in links],
            lambda first, edge: True,
            lambda y, x: delays[y, x],
            "time",
            5,
            0,
        )
        assert {
            place: (first.at_us + at, first.hops, first.sender)
            for place, first in theirs.first.items()
        } == {
            place: (first.at_us, first.hops, -1 if first.sender is None else first.sender)
            for (q, place), first in played.first.items()
            if q == p
        }


@dataclass(frozen=True)
class Recoded:
    """A publication by place 0 in recoded parts, and what comes of it."""

    network: Network
    rules: Rules
    copies: dict[tuple[int, int, int], tuple[int, int]]  # With the messages as sent
    first: dict[tuple[int, int], tuple[int, int, int]]  # Of all places but the source
    held_back: set[tuple[int, int, int, int]] = field(default_factory=set)
    told: set[tuple[int, int, int, int]] = field(default_factory=set)


def recoded(rules: Rules, parts: int, *useless: tuple[int, int, int]) -> Rules:
    """Return rules by which all copies but some are useful."""
    return replace(rules, recoded=parts, useful=lambda *copy: copy not in useless)


WAIT = cases.network(TRIANGLE, 1000, up(0, 1, 2, validation_us=1200), {})
FROM_SOURCE = "0>1 0-1100, 0>2 100-1200", "0>1 200-1300, 0>2 300-1400"
RECODED = {
    "a chain: the second copy becomes part 0, since the first one is not useful": Recoded(
        cases.network("0>1 1>2", 1000, up(0, 1), {}),
        recoded(IN_SERIES, 2, (0, 0, 1)),
        sent("0>1 0-1100, 1>2 1200-2300", "0>1 100-1200"),
        {(0, 1): (1200, 1, 0), (0, 2): (2300, 2, 1)},
    ),
    "only the last part is announced: at 2300 node 1 does not know that 2 has part 0": Recoded(
        WAIT,
        recoded(told(IN_SERIES), 2),
        sent(FROM_SOURCE[0] + ", 1>2 2300-3400", FROM_SOURCE[1]),
        {(0, 1): (1100, 1, 0), (1, 1): (1300, 1, 0), (0, 2): (1200, 1, 0), (1, 2): (1400, 1, 0)},
        {(1, 1, 2, 2500), (0, 2, 1, 2400), (1, 2, 1, 2600)},
        {(1, 1, 2, 2300), (1, 2, 1, 2400)},
    ),
    "a node to which message 1 is not useful gets copies until its part 1 is complete": Recoded(
        # 2 announces part 1 to the source, not to 1, the sender of the useful copy
        WAIT,
        recoded(told(IN_SERIES), 2, (1, 0, 2)),
        sent(FROM_SOURCE[0] + ", 1>2 2300-3400", FROM_SOURCE[1] + ", 1>2 2500-3600"),
        {(0, 1): (1100, 1, 0), (1, 1): (1300, 1, 0), (0, 2): (1200, 1, 0), (1, 2): (3400, 2, 1)},
        {(0, 2, 1, 2400)},
        {(1, 1, 2, 2300), (1, 2, 0, 4400)},
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", RECODED.values(), ids=list(RECODED))
def test_recoded_parts_by_hand(case: Recoded) -> None:
    """Useful copies become parts in the order of their completion; the last part is announced."""
    played = play(case.network, in_parts(FROM_0, case.rules.recoded), case.rules)
    assert {c[:3]: (c.start_us, c.complete_us) for c in played.copies} == case.copies
    assert {key: row for key, row in played.first.items() if key[1] != 0} == case.first
    assert set(played.held_back) == case.held_back
    assert set(played.told) == case.told
