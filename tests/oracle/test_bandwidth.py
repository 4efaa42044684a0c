"""The oracle of the clock with bandwidth: what always holds, and other oracles.

The cases worked by hand are in tests/bandwidth/test_kernel.py, for the oracle and the kernel.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import replace
from itertools import pairwise

import pytest
from seeds import seeds

from . import bandwidth_cases as cases
from .bandwidth import SERIAL, First, Network, Node, Publication, Rules, play, tx
from .dissemination import Edge, spread
from .gossipsub.run import Publication as GossipPublication
from .gossipsub.topic import Settings, Topic


@pytest.mark.parametrize("seed", seeds(range(150), 25))
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


@pytest.mark.parametrize("seed", seeds(range(60), 20))
def test_without_limits_as_gossipsub(seed: int) -> None:
    """Without limits the copies and first copies are those of a GossipSub topic's publication."""
    network, publications, rules = cases.random_case(seed, limits=False)
    idontwant = rules.idontwant is not None
    rules = replace(rules, idontwant=0 if idontwant else None)
    played = play(network, publications, rules)
    # that oracle has one processing time for all nodes, and no trees
    waits = {node.validation_us for node in network.nodes.values()}
    back = {(link.receiver, link.sender) for link in network.links}
    if len(waits) > 1 or any((link.sender, link.receiver) not in back for link in network.links):
        network, publications, rules = equal_meshes(network, publications, rules, back)
        played = play(network, publications, rules)
    processing = network.nodes[0].validation_us
    delays = {(link.sender, link.receiver): link.delay_us for link in network.links}
    idents = {place: network.nodes[node].ident for place, node in network.places.items()}
    for p, (source, at, _, flood) in enumerate(publications):
        settings = replace(
            Settings(),
            flood_publish=flood,
            idontwant=idontwant,
            processing_ms=processing / 1000,
            loss=0.0,
            clock="time",
        )
        topic = Topic(0, settings, lambda *_: 0, idents)
        for link in network.links:
            topic.connect(link.sender, link.receiver)
            if link.mesh:
                topic.mesh_of(link.sender).add(link.receiver)
        theirs = GossipPublication(topic, source, lambda y, x: delays[y, x])
        theirs.publish()
        assert {
            place: (had.at + at, had.hops, had.sender) for place, had in theirs.had.items()
        } == {place: tuple(first) for (q, place), first in played.first.items() if q == p}
        assert {(c.sender, c.receiver, c.sent + at, c.arrives + at) for c in theirs.copies} == {
            (c.sender, c.receiver, c.start_us, c.complete_us)
            for c in played.copies
            if c.publication == p
        }


def equal_meshes(
    network: Network, publications: list[Publication], rules: Rules, back: set[tuple[int, int]]
) -> tuple[Network, list[Publication], Rules]:
    """Return a case whose nodes validate for the same time, and whose links have a way back."""
    wait = max(node.validation_us for node in network.nodes.values())
    nodes = {y: Node(node.ident, validation_us=wait) for y, node in network.nodes.items()}
    links = [link for link in network.links if (link.sender, link.receiver) in back]
    return Network(nodes, network.places, links), publications, rules


@pytest.mark.parametrize("seed", seeds(range(40), 20))
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
