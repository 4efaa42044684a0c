"""Measured values of Narada beside bars: ``PYTHONPATH=.:tests python -m narada.measured``.

With ``--page docs/differences.md``, the rows also replace the table of the page.

The bars are values that an independent program measured (C, one topology), or that are recalled
(R); the kernel was not tuned to them.  Measured values are means over seeds, with the range.

Members are at drawn routers of the preset transit-stub network.  RDP is the delay over the tree
divided by that of the route from the source; the stress of a link, also of a LAN link, is the
number of a publication's copies on it; the usage of resources is the sum of the delays of all
copies, divided by that of IP multicast.  Values are those of 16 sources, over all members, in the
first period from the last one on in which copies reach all members: a link that has ended may cut
off members for a period.  KB/s are those of all vectors, also in answers.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from bars import Row, print_rows, write_rows

from narada.played import Played
from scribe_spark.config import TopologyConfig
from scribe_spark.core import draws
from scribe_spark.systems.narada import VECTOR_BYTES
from scribe_spark.topology import transit_stub
from scribe_spark.underlay.dijkstra import LinkArrays, route_block

LAN_US = 1_000
SOURCES = 16
HEAD = (
    "| members | what | independent program | bar | measured | holds |\n|---|---|---|---|---|---|"
)

#: Members -> RDP below 4 (%) and mean; worst stress; usage; KB/s (C, R).
REFERENCE = {
    128: ("95-97; 2.1-2.2 (R: 90)", "8-9 (R: 9)", "2.2; 4.0 (R: 1.3-1.8; 2.2)", "1.35 (R: 5.8)"),
    256: ("91; 2.6", "13", "2.8; 5.2", "2.7"),
}


@dataclass(frozen=True)
class Placed:
    """Members at routers of the preset network, and the routes from there."""

    router: np.ndarray  # (n,): the members' routers
    delay_us: np.ndarray  # (n, n): D
    before: np.ndarray  # (n, R): the router before another on the route from a member
    core_us: np.ndarray  # (n, R): the delays of routes, without LAN links

    @classmethod
    def of(cls, members: int, seed: int) -> Placed:
        graph = transit_stub.generate(TopologyConfig(), seed)
        routers = graph.vertices["id"].to_numpy()
        links = LinkArrays.of(routers, graph.edges, "delay", seed)
        drawn = np.argsort(draws.bits_np(seed, "place", np.arange(len(routers))))
        router = np.sort(drawn[:members])
        core_us, before = route_block(links, router)
        delay_us = core_us[:, router] + 2 * LAN_US
        np.fill_diagonal(delay_us, 0)
        return cls(router, delay_us, before, core_us)

    def on_links(self, sender: np.ndarray, to: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the core links of routes, src * R + dst, and their delays, copy by copy."""
        here, found, delays = self.router[to], [], []
        while len(here):
            before = self.before[sender, here]
            found.append(before * self.before.shape[1] + here)
            delays.append(self.core_us[sender, here] - self.core_us[sender, before])
            on = before != self.router[sender]
            sender, here = sender[on], before[on]
        return np.concatenate(found), np.concatenate(delays)


@dataclass(frozen=True)
class Tree:
    """A publication's tree: the parent of each member (-1), and the delay from the source."""

    source: int
    parent: np.ndarray
    delay_us: np.ndarray  # -1: not reached

    @classmethod
    def of(cls, played: Played, source: int) -> Tree:
        edges = played.edges([(0, source)])
        size = len(played.alive)
        parent, delay_us = np.full(size, -1), np.full(size, -1)
        node, peer = edges["node"], edges["peer"]
        live = played.alive[peer] & played.alive[node]
        node, peer = node[live], peer[live]
        assert len(np.unique(peer)) == len(peer), "a member has two parents"
        delay_us[source] = 0
        while len(new := np.flatnonzero((delay_us[node] >= 0) & (delay_us[peer] < 0))):
            ends = node[new], peer[new]
            parent[ends[1]] = ends[0]
            delay_us[ends[1]] = delay_us[ends[0]] + played.delay_us[ends]
        return cls(source, parent, delay_us)

    def reached(self, alive: np.ndarray) -> float:
        """Return the share of the living others that are reached."""
        return float(((self.delay_us >= 0) & alive).sum() - 1) / float(alive.sum() - 1)

    def stress_and_usage(self, placed: Placed) -> tuple[int, float, float]:
        """Return the worst stress, and the usage of the tree and of unicast by IP multicast's."""
        peer = np.flatnonzero(self.parent >= 0)
        links, _ = placed.on_links(self.parent[peer], peer)
        stress = np.unique(links, return_counts=True)[1]
        worst = int(max(np.bincount(self.parent[peer]).max(), stress.max()))
        others = np.flatnonzero(np.arange(len(self.parent)) != self.source)
        ways, delays = placed.on_links(np.full(len(others), self.source), others)
        merged = delays[np.unique(ways, return_index=True)[1]].sum()
        multicast = merged + LAN_US * (len(others) + 1)
        usage = placed.delay_us[self.parent[peer], peer].sum() / multicast
        unicast = float(placed.delay_us[self.source].sum() / multicast)
        return worst, float(usage), unicast


def reached(played: Played, sources: Sequence[int]) -> float:
    """Return the mean share of living members that the publications of living sources reach."""
    living = [source for source in sources if played.alive[source]]
    return float(np.mean([Tree.of(played, source).reached(played.alive) for source in living]))


def until_all(played: Played, sources: Sequence[int]) -> None:
    """Play until copies reach all living members."""
    for _ in range(200):
        if reached(played, sources) == 1:
            return
        played.play()
    raise RuntimeError("copies do not reach all members")


def measured(members: int, periods: int, seed: int) -> dict[str, float]:
    """Return the values of a group."""
    placed = Placed.of(members, seed)
    played = Played(placed.delay_us, seed)
    played.play(join=[(0, node) for node in range(members)])
    for _ in range(periods - 1):
        played.play()
    sources = np.argsort(draws.bits_np(seed, "source", np.arange(members)))[:SOURCES].tolist()
    until_all(played, sources)
    trees = [Tree.of(played, source) for source in sources]
    ratio = np.concatenate(
        [
            np.delete(tree.delay_us, tree.source)
            / np.delete(placed.delay_us[tree.source], tree.source)
            for tree in trees
        ]
    )
    stress, usage, unicast = zip(*(tree.stress_and_usage(placed) for tree in trees), strict=True)
    return {
        **{"below": float((ratio < 4).mean()) * 100, "rdp": float(ratio.mean())},
        **{"stress": max(stress), "usage": np.mean(usage), "unicast": np.mean(unicast)},
        "kilobytes": played.counts[VECTOR_BYTES] / members / 10_000,
        "links": played.measures()["links"],
    }


def rows(members: int, periods: int, seeds: Sequence[int]) -> Iterator[Row]:
    """Yield the means over seeds beside the bars."""
    each = [measured(members, periods, seed) for seed in seeds]
    mean = {name: float(np.mean([one[name] for one in each])) for name in each[0]}

    def shown(name: str, form: str) -> str:
        values = [one[name] for one in each]
        return f"{mean[name]:{form}} ({min(values):{form}}-{max(values):{form}})"

    sent = (mean["links"] + 1) * (28 + 20 * members) / 10_000  # a vector a link, and an answer
    table = [
        (
            "RDP: below 4, %; mean",
            "at least 90 %",
            f"{shown('below', '.1f')}; {shown('rdp', '.2f')}",
            mean["below"] >= 90,
        ),
        (
            f"greatest stress (naive unicast: {members - 1})",
            "below a tenth of naive unicast's",
            shown("stress", ".0f"),
            mean["stress"] < (members - 1) / 10,
        ),
        (
            "usage; naive unicast's",
            "below 65 % of naive unicast's",
            f"{shown('usage', '.2f')}; {mean['unicast']:.2f}",
            mean["usage"] < 0.65 * mean["unicast"],
        ),
        (
            "KB/s of a member; links",
            "10 % about the bytes of its vectors",
            f"{shown('kilobytes', '.2f')}; {mean['links']:.2f}",
            abs(mean["kilobytes"] / sent - 1) < 0.1,
        ),
    ]
    for (what, bar, here, holds), other in zip(table, REFERENCE.get(members, "----"), strict=True):
        yield Row((str(members), what, other), bar, here, holds)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--members", type=int, nargs="+", default=[128, 256])
    parser.add_argument("--periods", type=int, default=170)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--page", type=Path)
    given = parser.parse_args(arguments)
    seeds = range(1, given.seeds + 1)
    every = (row for members in given.members for row in rows(members, given.periods, seeds))
    found = print_rows(HEAD, every)
    write_rows(given.page, "narada", HEAD, found)


if __name__ == "__main__":
    main()
