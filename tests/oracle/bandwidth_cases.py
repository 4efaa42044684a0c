"""Cases of the clock with bandwidth: worked by hand, random, and trees without duplicates.

In the cases worked by hand 8 Mbit/s is the usual bandwidth: a byte takes a microsecond.
"""

import heapq
import random
import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from .bandwidth import INTERLEAVED, SERIAL, Link, Network, Node, Publication, Rules, tx

#: A byte takes a microsecond.
BYTE = 8_000_000


@dataclass(frozen=True)
class Case:
    """What is played, and what comes of it."""

    name: str
    network: Network
    publications: list[Publication]
    rules: Rules
    copies: dict[tuple[int, int, int], tuple[int, int]]  # All copies that are sent
    held_back: set[tuple[int, int, int, int]] = field(default_factory=set)

    @property
    def first(self) -> dict[tuple[int, int], tuple[int, int, int]]:
        """The first copies of all but sources (ties: fewest hops, the sender's least nodeId)."""
        ident = {at: self.network.nodes[node].ident for at, node in self.network.places.items()}
        sources = {(p, one.source) for p, one in enumerate(self.publications)}
        found = dict.fromkeys(sources, (0, 0, 0))
        for (p, y, x), (_, complete) in sorted(self.copies.items(), key=lambda row: row[1][1]):
            if (p, x) not in sources:
                row = complete, found[p, y][1] + 1, y
                ways = found.get((p, x), row), row
                found[p, x] = min(ways, key=lambda way: (*way[:2], ident[way[2]]))
        return {key: row for key, row in found.items() if key not in sources}


def network(links: str, delay: int, nodes: dict[int, Node], at: dict[int, int]) -> Network:
    """Return a network, in which nodes that are not given have no limits.

    Links: ``0-1`` both ways in the mesh, ``0>1`` one way, ``0:1`` both ways, not in the mesh; a
    delay of its own after ``@``.  `at` has the nodes of places; others have the place's number.
    """
    found: list[Link] = []
    for text in links.split():
        ends, _, own = text.partition("@")
        mark = next(mark for mark in "->:" if mark in ends)
        y, x = map(int, ends.split(mark))
        takes = int(own or delay)
        found.append(Link(y, x, takes, mark != ":"))
        if mark != ">":
            found.append(Link(x, y, takes, mark != ":"))
    places = {place: at.get(place, place) for link in found for place in link[:2]}
    every = {node: nodes.get(node, Node(node)) for node in places.values()}
    return Network(every, places, found)


def up(*nodes: int, validation_us: int = 0) -> dict[int, Node]:
    """Return nodes whose uplinks take a microsecond a byte."""
    return {node: Node(node, up=BYTE, validation_us=validation_us) for node in nodes}


def sent(*publications: str) -> dict[tuple[int, int, int], tuple[int, int]]:
    """Return copies of each publication: ``0>1 5-9`` starts at 5 and is complete at 9."""
    found = {}
    for publication, text in enumerate(publications):
        for copy in text.split(", "):
            y, x, start, complete = map(int, re.findall(r"\d+", copy))
            found[publication, y, x] = start, complete
    return found


def in_parts(publications: list[Publication], count: int) -> list[Publication]:
    """Return the messages of publications that have a number of parts (B9)."""
    return [publication for publication in publications for _ in range(count)]


FROM_0 = [Publication(0, 0, 100)]
TRIANGLE = "0-1 0-2 1-2"
TWO_TOPICS = "10>11 10>12 20>21 20>22"
TOPICS = {10: 0, 11: 1, 12: 2, 20: 0, 21: 1, 22: 2}
BOTH = [Publication(10, 0, 100), Publication(20, 0, 100)]
IN_SERIES, TOGETHER = Rules(SERIAL), Rules(INTERLEAVED)


def told(rules: Rules, size: int = 1) -> Rules:
    """Return rules with IDONTWANT from a size on."""
    return replace(rules, idontwant=size)


# fmt: off
def by_hand() -> Iterator[Case]:
    """Yield the cases that were worked by hand."""
    star = network("0>1 0>2", 1000, up(0), {})
    yield Case("serial: one copy after the other", star, FROM_0, IN_SERIES,
               sent("0>1 0-1100, 0>2 100-1200"))
    yield Case("interleaved: both copies take the time of both", star, FROM_0, TOGETHER,
               sent("0>1 0-1200, 0>2 0-1200"))
    yield Case("a byte at 3 Mbit/s takes 8/3 us, rounded up; two interleaved copies twice that",
               network("0>1 0>2", 10, {0: Node(0, up=3_000_000)}, {}), [Publication(0, 0, 1)],
               TOGETHER, sent("0>1 0-16, 0>2 0-16"))
    down = network("10>12 21>22@950", 1000, {2: Node(2, down=BYTE)}, TOPICS)
    late = [Publication(10, 0, 100), Publication(21, 100, 100)]
    yield Case("copies of two topics take the shared downlink in the order of their first bytes",
               down, late, TOGETHER, sent("10>12 0-1100", "21>22 100-1200"))
    yield Case(
        "first bytes at the same time: the earlier publication, whatever the senders' nodeIds",
        network("10>12 21>22", 1000, {0: Node(9), 1: Node(1), 2: Node(2, down=BYTE)}, TOPICS),
        [Publication(10, 0, 100), Publication(21, 0, 100)],
        TOGETHER,
        sent("10>12 0-1100", "21>22 0-1200"),
    )
    yield Case(
        "copies complete at the same time: fewest hops, then the sender's least nodeId",
        network("0>1@500 0>2@500 0>5@200 5>4@300 1>3@500 2>3@500 4>3@500", 0, {1: Node(8)}, {}),
        FROM_0,
        TOGETHER,
        sent(
            "0>1 0-500, 0>2 0-500, 0>5 0-200, 5>4 200-500, 1>3 500-1000, 2>3 500-1000, 4>3 500-1000"
        ),
    )
    two = network(TWO_TOPICS, 1000, up(0), TOPICS)
    firsts = {(0, 11): 1, (0, 12): 1, (1, 21): 1, (1, 22): 1}
    for name, rules, complete in (
        ("serial, shared", IN_SERIES, (1100, 1200, 1300, 1400)),
        ("serial, independent", replace(IN_SERIES, shared=False), (1100, 1200, 1100, 1200)),
        ("interleaved, shared", TOGETHER, (1200, 1200, 1400, 1400)),
        ("interleaved, independent", replace(TOGETHER, shared=False), (1200,) * 4),
    ):
        together = 2 if rules.discipline == INTERLEAVED else 1
        yield Case(
            f"two publications of a node at the same time: {name}",
            two,
            BOTH,
            rules,
            {
                (p, 10 * (p + 1), x): (at - 1000 - 100 * together, at)
                for (p, x), at in zip(firsts, complete, strict=True)
            },
        )
    validates = {
        validation: network(TRIANGLE, 1000, up(0, 1, 2, validation_us=validation), {})
        for validation in (50, 1100, 1101, 2000)
    }
    from_source = sent("0>1 0-1100, 0>2 100-1200")
    yield Case(
        "an IDONTWANT that arrives when a copy starts holds nothing back",
        validates[1100],  # 1 enqueues at 2200, when the IDONTWANT of 2 arrives
        FROM_0,
        told(IN_SERIES),
        from_source | sent("1>2 2200-3300"),
        {(0, 2, 1, 2300)},
    )
    yield Case("an IDONTWANT that arrives a microsecond earlier holds the copy back",
               validates[1101], FROM_0, told(IN_SERIES), from_source,
               {(0, 1, 2, 2201), (0, 2, 1, 2301)})
    yield Case("without IDONTWANT a complete copy of the peer holds a copy back",
               network(TRIANGLE, 1000, up(0, 1) | up(2, validation_us=5000), {}), FROM_0, IN_SERIES,
               from_source | sent("1>2 1100-2200"), {(0, 2, 1, 6200)})
    large = [Publication(0, 0, 1000)]
    yield Case("serial: a copy is held back after it has waited at the uplink, and takes no time",
               network("0-1 0-3 0-2 0-4 1-2", 10, {0: Node(0, up=BYTE)}, {}), large,
               told(IN_SERIES), sent("0>1 0-1010, 0>3 1000-2010, 0>4 2000-3010, 1>2 1010-1020"),
               {(0, 0, 2, 2000)})
    yield Case(
        "interleaved: the copies that are not held back share the uplink",
        # 1 validates until 120; the IDONTWANT of 2 is there at 105: 3 and 4 alone share the uplink
        network("0-1@10 0-2@100 1-2@5 1-3@10 1-4@10", 0, up(1, validation_us=110), {}),
        FROM_0,
        told(TOGETHER),
        sent("0>1 0-10, 0>2 0-100, 1>3 120-330, 1>4 120-330"),
        {(0, 2, 1, 100), (0, 1, 2, 120)},
    )
    yield Case(
        "batches wait in the order of their enqueueing, then of publications",
        network("10>11 10>12 20>21 20>22 30>20", 1000, up(0), TOPICS | {30: 3}),
        [Publication(30, 0, 100), Publication(10, 1000, 100)],  # 0 enqueues both at 1000
        IN_SERIES,
        sent("30>20 0-1000, 20>21 1000-2100, 20>22 1100-2200", "10>11 1200-2300, 10>12 1300-2400"),
    )
    backwards = replace(IN_SERIES, order=lambda p, y, x: -x)
    yield Case("a batch in the order of a draw", star, FROM_0, backwards,
               sent("0>2 0-1100, 0>1 100-1200"))
    for flood in (False, True):
        yield Case(f"the source alone sends on connections outside of the mesh: flood {flood}",
                   network("0-1 0:2 1:2 1:3", 1000, {}, {}), [Publication(0, 0, 100, flood)],
                   TOGETHER, sent("0>1 0-1000") | (sent("0>2 0-1000") if flood else {}))
    yield Case(
        "a tree: the publisher, a child of the root, sends to the root on its node's uplink",
        # place 9 is the publisher on node 2, place 2 the same node in the tree, 3 its child
        network("9>0 0>1 0>2 2>3", 1000, up(0, 2), {9: 2}),
        [Publication(9, 0, 100)],
        TOGETHER,
        sent("9>0 0-1100, 0>1 1100-2300, 0>2 1100-2300, 2>3 2300-3400"),
    )
# fmt: on


def greedy_tree(
    nodes: int, size: int, bandwidth: int, delay: int, validation_us: int
) -> tuple[Network, int]:
    """Return the tree of all equal nodes by which the last one is reached first, and that time.

    Each node that has the message sends one copy after the other to nodes that do not have it, for
    as long as there are such nodes; nodes are numbered in the order in which they are reached.
    """
    takes = tx(size, bandwidth)
    next_done = [(takes + delay, 0)]  # (the next copy of a node is complete, the node)
    links, done = [], 0
    for node in range(1, nodes):
        done, sender = next_done[0]
        links.append(Link(sender, node, delay))
        heapq.heapreplace(next_done, (done + takes, sender))
        heapq.heappush(next_done, (done + validation_us + takes + delay, node))
    every = {n: Node(n, up=bandwidth, validation_us=validation_us) for n in range(nodes)}
    return Network(every, {n: n for n in range(nodes)}, links), done


#: 600,000 bytes, 10 Mbit/s, 100 ms, 10 ms of validation, 10,000 nodes: the optimum.
OPTIMUM = {
    "nodes": 10_000, "size": 600_000, "bandwidth": 10_000_000, "delay": 100_000,
    "validation_us": 10_000,
}  # fmt: skip
OPTIMUM_US = 7_370_000


def random_case(seed: int, limits: bool = True) -> tuple[Network, list[Publication], Rules]:
    """Return a case with many equal times: meshes and trees, several topics and publications.

    Place 100 t + y is node y's part in topic t, place 1000 + 100 t + y the same node as the
    publisher of the tree of topic t.  `limits` False: no node has a limited link.
    """
    rng = random.Random(f"bandwidth {seed}")
    count, topics = rng.randint(2, 14), rng.randint(1, 3)
    delays = rng.choice([[1], [1, 2, 3], [5, 10, 20], [100, 100, 250], [7, 1000]])
    rates = rng.choice([[BYTE], [BYTE, BYTE * 4], [0, BYTE, BYTE // 3, 7_000_001]])
    waits = rng.choice([[0], [0, 1, 5], [3], [40, 250]])
    idents = rng.sample(range(1000), count)

    def rate(limited: bool) -> int:
        return rng.choice(rates) if limits and limited else 0

    ups, downs = rng.random() < 0.9, rng.random() < 0.6
    nodes = {y: Node(idents[y], rate(ups), rate(downs), rng.choice(waits)) for y in range(count)}
    places: dict[int, int] = {}
    links: list[Link] = []
    publications: list[tuple[int, int, int, Publication]] = []
    sizes = rng.choice([[1], [0, 1, 7], [20, 100], [3, 1000]])
    every = rng.choice([0, 0, 1, 30, 500])
    for topic in range(topics):
        base = 100 * topic
        some = rng.sample(range(count), rng.randint(2, count))
        places |= {base + y: y for y in some}
        tree = rng.random() < 0.3
        if tree:
            for place, child in enumerate(some[1:], 1):
                links.append(
                    Link(base + rng.choice(some[:place]), base + child, rng.choice(delays))
                )
        else:
            dense = rng.choice([0.2, 0.5, 1.0])
            for place, a in enumerate(some):
                for b in some[place + 1 :]:
                    if rng.random() < dense:
                        mesh = rng.random() < 0.8
                        there, back = rng.choice(delays), rng.choice(delays)
                        links.append(Link(base + a, base + b, there, mesh))
                        links.append(Link(base + b, base + a, back, mesh))
        for _ in range(rng.choice([1, 1, 2, 4])):
            source, at = rng.choice(some), rng.randint(0, 4) * every
            place, flood = base + source, not tree and rng.random() < 0.5
            if tree and source != some[0]:
                place += 1000
                if place not in places:
                    places[place] = source
                    links.append(Link(place, base + some[0], rng.choice(delays)))
            publication = Publication(place, at, rng.choice(sizes), flood)
            publications.append((at, topic, source, publication))
    drawn = rng.choice([None, 1, 3, 1000])
    order = None if drawn is None else lambda p, y, x: zlib.crc32(f"{p} {y} {x}".encode()) % drawn
    rules = Rules(
        discipline=rng.choice([SERIAL, INTERLEAVED]),
        shared=rng.random() < 0.7,
        idontwant=rng.choice([None, 0, 5]),
        order=order,
    )
    publications.sort(key=lambda one: one[:3])
    return Network(nodes, places, links), [one[3] for one in publications], rules
