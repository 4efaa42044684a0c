"""Measured values of NICE beside bars: ``PYTHONPATH=.:tests python -m nice.measured``.

The network is the transit-stub preset; members join in 40 periods and rest; then `SOURCES` members
publish, and stress is over the core links in use.  The bars, in brackets, are values of an
independent program on one topology; means must be within tolerances of some of them.  ``--page
docs/differences.md`` also writes the table into the page, and ``--no-guard`` counts the moves of
2,048 members.
"""

import argparse
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from arriving import Kernel
from identifiers import parts

from nice.played import LAN_US, Played
from scribe_spark.config import TopologyConfig
from scribe_spark.core import draws
from scribe_spark.engine.facts import Ring
from scribe_spark.rounds.group_overlays import Network
from scribe_spark.topology.transit_stub import generate
from scribe_spark.underlay.dijkstra import LinkArrays
from scribe_spark.underlay.matrices import pendant_components, route_unit, units_of, unpack_routes
from scribe_spark.underlay.paths import packets_on_links
from tools.pages import write_part

SOURCES, JOINS = 8, 40
HEAD = [
    "| members | layers | link stress, mean | max | RDP, mean | RDP, 90th percentile | peers, max "
    "| messages of a member per s | bytes | periods until quiet, most | holds |",
    "|---" * 11 + "|",
]

#: By members: layers; mean stress (least and most), its maximum; RDP, mean and 90 %; peers; control
#: messages and bytes a member and second.
BARS = {
    8: (1, (1.59, 1.59), (7, 7), (1.0, 1.0), 1.0, 7, 1.4, 193),
    32: (2, (1.62, 1.62), (6, 6), (1.9, 1.9), 2.6, 10, 2.6, 203),
    128: (3, (1.71, 1.76), (12, 14), (2.0, 2.1), 3.0, 17, 3.7, 290),
    512: (4, (1.83, 1.89), (17, 19), (2.1, 2.1), 3.0, 24, 3.9, 295),
    1024: (4, (2.03, 2.03), (22, 22), (2.2, 2.2), 3.1, 26, 3.9, 289),
    2048: (4, (2.38, 2.61), (29, 34), (1.9, 2.2), 3.2, 32, 3.7, 290),
}
STRESS, MESSAGES = 0.15, 0.10  # tolerances
RDP = (1.8, 2.4)  # from 128 members on
SETTLES = 5  # the most periods after the last join until all is quiet


@dataclass(frozen=True)
class Routes:
    """The routes of the preset."""

    delay_us: np.ndarray
    pred: np.ndarray


@cache
def routes(seed: int) -> Routes:
    """The routes of the preset that a seed draws."""
    graph = generate(TopologyConfig(), seed)
    links = LinkArrays.of(graph.vertices["id"].to_numpy(), graph.edges, "delay", seed)
    components = pendant_components(links)
    rows = [row for unit in units_of(links, components) for row in route_unit(links, unit)]
    found = unpack_routes(links, components, pa.Table.from_batches(rows))
    return Routes(found.delay_us, found.pred)


def network(members: int, topology: int, seed: int) -> Network:
    """Members at drawn routers."""
    way = routes(topology)
    router = (draws.bits_np(seed, "place", np.arange(members)) % len(way.delay_us)).astype(np.int64)
    ring = Ring(*parts(range(members)), np.arange(members), router)
    kernel = Kernel(way.delay_us, np.arange(len(way.delay_us)))
    return Network(ring, kernel, LAN_US, seed, in_run=True)


class Grown(NamedTuple):
    """A group that rests, and the periods between its last join and the first quiet period."""

    played: Played
    settled: int


def grown(members: int, topology: int = 1, seed: int = 1, most: int = 60, **rules) -> Grown:
    """Let members join in 40 periods, and rest."""
    played = Played(network(members, topology, seed), {"join_periods": JOINS, **rules})
    played.play(join=[(0, node) for node in range(members)])
    last = 0
    while played.number < JOINS + most:
        if played.counts.get("joined"):
            last = played.number
        if played.quiet and played.number > last:
            break
        played.play()
    return Grown(played, played.number - 1 - last)


def measured(members: int, topology: int, seed: int, **rules) -> dict[str, float]:
    """All measures of a case."""
    played, settled = grown(members, topology, seed, **rules)
    way, router = routes(topology), played.network.ring.router
    stress, ratio = [], []
    drawn = draws.bits_np(seed, "source", np.arange(members))
    for source in np.argsort(drawn)[:SOURCES].tolist():
        sender, to, rank = played.copies(0, source)
        came_us = np.zeros(members, dtype=np.int64)
        for some in (rank == hops for hops in range(1, rank.max() + 1)):
            ends = sender[some], to[some]
            delay_us = way.delay_us[router[ends[0]], router[ends[1]]] + 2 * LAN_US
            came_us[ends[1]] = came_us[ends[0]] + delay_us
        at = came_us[to]
        assert np.array_equal(np.sort(np.r_[to, source]), np.arange(members))
        ends = router[sender], router[to]
        away = ends[0] != ends[1]
        ones = np.ones(np.count_nonzero(away), dtype=np.int64)
        stress.append(packets_on_links(way.pred, ends[0][away], ends[1][away], ones)[1])
        ratio.append(at / (way.delay_us[router[source], router[to]] + 2 * LAN_US))
    links, rdp = np.concatenate(stress), np.concatenate(ratio)
    seconds = members * played.system.rules.period_seconds
    clusters = played.clusters()
    peers = np.zeros(members, dtype=np.int64)
    for cluster in clusters.values():
        peers[list(cluster)] += len(cluster) - 1
    played.play()
    return {
        "layers": 1 + max(layer for _, layer, _ in clusters),
        "stress, mean": float(links.mean()),
        "stress, max": int(links.max()),
        "RDP, mean": float(rdp.mean()),
        "RDP, 90 %": float(np.quantile(rdp, 0.9)),
        "peers, max": int(peers.max()),
        "messages a member and s": sum(len(rows["group"]) for rows in played.sent.values())
        / seconds,
        "bytes a member and s": played.counts["control_bytes"] / seconds,
        "periods until quiet": settled,
    }


def row(members: int, cases: list[tuple[int, int]], **rules) -> str:
    """The row of a size: means over cases (a topology and a seed), in brackets the bars."""
    found = [measured(members, *case, **rules) for case in cases]
    mean = {name: np.mean([one[name] for one in found]) for name in found[0]}
    layers, stress, most, rdp, ninety, peers, messages, size = BARS[members]
    settled = max(one["periods until quiet"] for one in found)
    held = [
        stress[0] * (1 - STRESS) <= mean["stress, mean"] <= stress[1] * (1 + STRESS),
        members < 128 or RDP[0] <= mean["RDP, mean"] <= RDP[1],
        abs(mean["messages a member and s"] / messages - 1) <= MESSAGES,
        settled <= SETTLES,
    ]
    cells = [
        f"{members:,}",
        f"{mean['layers']:.1f} ({layers})",
        f"{mean['stress, mean']:.2f} ({_text(*stress)})",
        f"{mean['stress, max']:.0f} ({_text(*most)})",
        f"{mean['RDP, mean']:.2f} ({_text(*rdp)})",
        f"{mean['RDP, 90 %']:.1f} ({ninety})",
        f"{mean['peers, max']:.0f} ({peers})",
        f"{mean['messages a member and s']:.2f} ({messages})",
        f"{mean['bytes a member and s']:.0f} ({size})",
        f"{settled} (0-3)",
        "yes" if all(held) else "NO",
    ]
    return f"| {' | '.join(cells)} |"


def _text(least: float, most: float) -> str:
    return str(least) if least == most else f"{least}-{most}"


def without_guard(members: int = 2048, periods: int = 300) -> str:
    """The moves of members that move at will, after all have joined."""
    played = Played(network(members, 1, 1), {"join_periods": JOINS, "guard": False})
    played.play(join=[(0, node) for node in range(members)])
    moves = quiet = 0
    while played.number < JOINS + periods:
        played.play()
        if played.number > JOINS:
            moves, quiet = moves + played.counts["moves"], quiet + played.quiet
    return f"{members:,} members without guard: {moves:,} moves, {quiet} quiet periods of {periods}"


def main() -> None:
    """Print the table, and write it into a page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", default=",".join(map(str, BARS)))
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--page", type=Path)
    parser.add_argument("--no-guard", action="store_true")
    given = parser.parse_args()
    if given.no_guard:
        print(without_guard())
        return
    cases = [(seed, seed) for seed in range(1, given.seeds + 1)]
    lines = [*HEAD, *(row(int(size), cases) for size in given.sizes.split(","))]
    print(*lines, sep="\n")
    write_part(given.page, "nice", lines)


if __name__ == "__main__":
    main()
