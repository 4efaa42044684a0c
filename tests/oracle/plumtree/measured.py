"""What is measured of HyParView and Plumtree, to be held against published values.

How iroh counts: a delay for each pair, 10 to 100 ms; all nodes join node 0 at once; a message
starts 2 s later, the next one when all nodes have it, or after 5 s.  RMR is the number of payload
copies that arrive until then, divided by the expected deliveries - 1, minus 1.  LDH is the largest
round number of a first copy, 0 at the source's neighbours.
"""

from __future__ import annotations

import copy
import statistics
from collections import Counter, deque
from collections.abc import Container, Iterable, Mapping
from dataclasses import replace
from typing import NamedTuple

from .cases import at_once, pair_delays, waves
from .draws import keyed_draw, one_draw
from .hyparview import Views
from .play import Command, Network
from .plumtree import CORROSION, IROH, PAPER, Rules

SECOND = 1_000_000
RULES = {"paper": PAPER, "iroh": IROH, "corrosion": CORROSION}


# --- the exact bars -----------------------------------------------------------------------------


def copies_of_messages(
    views: Mapping[int, list[int]], delays: tuple[int, int], seed: int, messages: int, rules: Rules
) -> list[int]:
    """Return the copies of each message of one sender on static views, one second apart."""
    delay = pair_delays(seed, *delays)
    network = Network(len(views), delay, keyed_draw(seed), rules=rules, static=views)
    source = one_draw(seed, "source") % len(views)
    network.add(Command(p * SECOND, "publish", source, p) for p in range(messages))
    network.play()
    found = Counter(copy[0] for copy in network.multicasts.copies)
    assert len(network.multicasts.receipts) == messages * len(views)
    return [found[p] for p in range(messages)]


# --- views --------------------------------------------------------------------------------------


def grown(count: int, seed: int, views: Views, rules: Rules, in_waves: bool = True) -> Network:
    """Return a network whose views have grown; nothing is due any more."""
    network = Network(count, pair_delays(seed, 10_000, 100_000), keyed_draw(seed), views, rules)
    network.add(waves(count, seed, SECOND) if in_waves else at_once(count))
    network.play()
    return network


def shuffle(network: Network, rounds: int = 1) -> None:
    """Let all living nodes shuffle, round after round."""
    for _ in range(rounds):
        at = network.queue.now + 1
        network.add(Command(at, "shuffle", node) for node in sorted(network.alive))
        network.play()


def links(network: Network) -> dict[int, list[int]]:
    """Return the neighbours of each living node that are alive and have it as a neighbour, too."""
    views = {me: network.nodes[me].views.active for me in sorted(network.alive)}
    return {
        me: [node for node in sorted(view) if node in views and me in views[node]]
        for me, view in views.items()
    }


def one_sided(network: Network) -> int:
    """Return the number of links to living nodes that have no link back."""
    both = links(network)
    all_links = (node in network.alive for me in both for node in network.nodes[me].views.active)
    return sum(all_links) - sum(map(len, both.values()))


def distances(views: Mapping[int, list[int]], start: int) -> dict[int, int]:
    """Return the hops from a node to all that it reaches."""
    found, waiting = {start: 0}, deque([start])
    while waiting:
        here = waiting.popleft()
        for node in views[here]:
            if node not in found:
                found[node] = found[here] + 1
                waiting.append(node)
    return found


def paths(views: Mapping[int, list[int]], seed: int, starts: int = 200) -> tuple[float, int]:
    """Return the mean path and the largest distance from some nodes."""
    some = sorted(views, key=lambda node: one_draw(seed, "start", node))[:starts]
    found = [hops for start in some for hops in distances(views, start).values() if hops]
    return statistics.mean(found), max(found)


def failing(network: Network, share: float, seed: int) -> list[int]:
    """Return the nodes of which a share fails, drawn."""
    nodes = sorted(network.alive, key=lambda node: one_draw(seed, "fails", node))
    return sorted(nodes[: round(share * len(nodes))])


# --- messages -----------------------------------------------------------------------------------


def irohs_rounds(network: Network, rounds: Iterable[list[int]]) -> list[tuple[float, int, int]]:
    """Return RMR, LDH and missing deliveries of rounds, counted as iroh does.

    Parameters
    ----------
    rounds : iterable of list of int
        The sources of the messages of each round.
    """
    receipts, queue = network.multicasts.receipts, network.queue
    at, p, found = queue.now + 1, 0, []
    for sources in rounds:
        begin = at
        network.play(begin)
        network.add(Command(begin, "publish", node, p + i) for i, node in enumerate(sources))
        p += len(sources)
        expected = p * len(network.alive)
        network.play(begin + 5 * SECOND, stop=lambda due=expected: len(receipts) == due)
        all_have = len(receipts) == expected
        at = queue.now if all_have else begin + 5 * SECOND
        # a copy that arrives at the very end counts, since its handling ends the round
        got = [c for c in network.multicasts.copies if begin <= c[5] <= at and c[5] > begin]
        missed = expected - len(receipts)
        new = [r for (q, _), r in receipts.items() if r[2] >= 0 and begin <= r[0] <= at]
        due = len(sources) * (len(network.alive) - 1) - missed
        rmr = len(got) / (due - 1) - 1
        found.append((rmr, max(hops for _, hops, _ in new) - 1, missed))
        network.multicasts.copies[:] = [c for c in network.multicasts.copies if c[5] > at]
        for key in [key for key, r in receipts.items() if missed == 0]:
            receipts[key] = (receipts[key][0], receipts[key][1], -1)
    return found


def irohs_network(count: int, seed: int, rules: str) -> Network:
    """Return a network that has grown as iroh's simulator lets it grow."""
    membership = "iroh" if rules == "iroh" else "paper"
    network = Network(
        count,
        pair_delays(seed, 10_000, 99_999),
        keyed_draw(seed),
        Views(rules=membership),
        RULES[rules],
    )
    network.add(at_once(count))
    network.play(2 * SECOND)
    return network


class Scenario(NamedTuple):
    """Mean RMR and LDH of the messages, and mean missing deliveries."""

    rmr: float
    ldh: float
    missed: float

    def __str__(self) -> str:
        missed = f"; missing {self.missed:.1f} a message" if self.missed else ""
        return f"{self.rmr:.3f}; {self.ldh:.1f}{missed}"


def irohs_scenario(
    what: str, count: int, seed: int, rules: str, messages: int, settled: bool = False
) -> Scenario:
    """Play a scenario of iroh-gossip's tests; `settled`: messages wait until nothing is due."""
    network = irohs_network(count, seed, rules)
    if settled:
        network.play()

    def drawn(n: int) -> int:
        return one_draw(seed, "iroh", n) % count

    rounds = {
        "one sender": [[drawn(0)] for _ in range(messages)],
        "random senders": [[drawn(n)] for n in range(messages)],
        "all at once": [list(range(count)) for _ in range(messages)],
    }[what]
    found = irohs_rounds(network, rounds)
    return Scenario(*(statistics.mean(column) for column in zip(*found, strict=True)))


def reliability(
    network: Network,
    share: float,
    seed: int,
    breaks: bool,
    messages: int,
    shuffles: Container[int] = (),
) -> list[float]:
    """Return the share of living nodes that get each message after a share fails.

    Three messages come before. Messages are a second apart, the first is 1 ms after the failures.

    Parameters
    ----------
    shuffles : container of int
        The messages (from 0) in the middle of whose seconds all living nodes shuffle.
    """
    dead = set(failing(network, share, seed))
    source = next(node for node in range(len(network.nodes)) if node not in dead)
    found: Network = copy.deepcopy(network)
    found.settings = replace(found.settings, breaks=breaks)
    at = found.queue.now + 1
    found.add(Command(at + p * SECOND, "publish", source, p) for p in range(3))
    fails = at + 3 * SECOND
    found.add(Command(fails, "fail", node) for node in sorted(dead))
    for p in range(messages):
        begin = fails + 1000 + p * SECOND
        found.add([Command(begin, "publish", source, 3 + p)])
        if p in shuffles:
            living = sorted(found.alive - dead)
            found.add(Command(begin + SECOND // 2, "shuffle", node) for node in living)
    found.play(fails + (messages + 3) * SECOND)
    got = Counter(p for p, node in found.multicasts.receipts if node in found.alive)
    return [got[3 + p] / len(found.alive) for p in range(messages)]
