"""Published numbers of other simulators beside simulated ones: the tables of ``docs/checks.md``.

``python -m tools.checks --page PAGE [--only NAME ...] [--missing] [--out OUT]`` plays the set-ups,
and writes the tables between the marks of PAGE.  With ``--missing``, cells of lean-gossip that PAGE
has are kept.  Only the look-ups need Spark: OUT has a folder of each of their worlds, and complete
ones are not played again.

References
----------
vyzo/gerbil-simsub: README.org, ``simsub/scripts.ss``, ``simsub/gossipsub-base.ss``.
ankitku/lean-gossip: ``meshsub.py``, ``pareto_sweep.py``, ``results/pareto_results.csv``.
superfly/corrosion: ``crates/plum-foca/tests/sim.rs``.
freenet/freenet-core: pull request 3023.
"""

import argparse
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from scribe_spark.can.config import most_bits
from scribe_spark.can.zones import (
    Neighbours,
    Placement,
    Space,
    distance,
    neighbours_of,
    next_zones,
    zones_of_all,
)
from scribe_spark.cli import main as command
from scribe_spark.core import draws
from scribe_spark.core.arrays import offsets_of, whole_numbers
from scribe_spark.core.pair_delay import PairDelay
from scribe_spark.systems.gossipsub.config import GossipSubConfig
from scribe_spark.underlay.pairs import PairKernel
from tools.folders import Folder
from tools.one_group import play_group, play_topic, region_delays, regions_of, ring_of
from tools.pages import lines_of, table, write_part

ROOT = Path(__file__).resolve().parents[1]

#: How many seconds of a world are played before the first publication, as in gerbil-simsub.
_FIRST = 10


@dataclass(frozen=True)
class Sizes:
    """The sizes of the checks."""

    seeds: int = 10
    gerbil: Sequence[int] = (1000, 500, 250)
    #: lean-gossip's peers -> publications.
    lean: Mapping[int, int] = field(default_factory=lambda: {1000: 100, 10_000: 10, 100_000: 1})
    #: Corrosion's nodes -> publications.
    corrosion: Mapping[int, int] = field(default_factory=lambda: {200: 200, 2000: 200})
    lookups: Sequence[int] = (3_000, 30_000, 100_000)
    out: Path = Path("out/checks")
    #: Cells of lean-gossip that are kept, by rules and peers; ``-``: the cell is played.
    kept: Mapping[tuple[str, str], Sequence[str]] = field(default_factory=dict)


def _uniform(seed: int, purpose: str, *key: Any) -> np.ndarray:
    """Return numbers from 0 to 1 that are drawn by key."""
    return (draws.bits_np(seed, purpose, *key) >> np.uint64(11)) * 2.0**-53


# --- gerbil-simsub

#: GossipSub v1.0: no quota of outbound links, back-off, adaptive gossip, IDONTWANT.  All nodes dial
#: before the first heartbeat.  Heartbeats begin anywhere in a second, and a GRAFT takes 84 ms on
#: average: two nodes that act within 84 ms do not know of each other.  This is true of a sixth of
#: all pairs, as of nodes in 6 phases.
_V1_0: dict[str, Any] = {
    **{"d_out": 0, "gossip_factor": 0.0, "flood_publish": False, "idontwant": False},
    **{"prune_backoff_ms": 0.0, "dials": 20, "dials_per_heartbeat": 0, "heartbeat_phases": 6},
}
_V1_1 = _V1_0 | {"gossip_factor": 0.25, "flood_publish": True}

_MESSAGES, _SOURCES = 60, 5

#: (nodes, True for v1.1) -> what -> the published value, and that of an event queue of its rules
#: (six seeds; v1.1: four).
GERBIL: dict[tuple[int, bool], dict[str, tuple[float, float | None]]] = {
    (1000, False): {
        **{"copies": (377_370, 383_061), "GRAFT": (3_695, 3_775), "PRUNE": (43, 73)},
        **{"IHAVE": (372_006, 371_995), "IWANT": (2_143, 2_099), "0-100 ms": (1_334, 1_516)},
        **{"100-200 ms": (20_818, 23_530), "200-300 ms": (36_508, 33_542)},
        "300-400 ms": (1_280, 1_353),
    },
    (1000, True): {"copies": (381_920, 385_576), "0-100 ms": (5_375, 6_328)},
    (500, False): {"copies": (189_451, None), "GRAFT": (1_844, None), "PRUNE": (14, None)},
    (250, False): {"copies": (96_320, 95_096), "GRAFT": (961, 933), "PRUNE": (29, 12)},
}


def gerbil(nodes: int, seed: int, flood: bool) -> dict[str, float]:
    """Play gerbil-simsub's set-up; return the numbers of messages, and of deliveries by delay."""
    sources = draws.distinct_below(nodes, _SOURCES, seed, "sources", 0)
    chosen = draws.bits_np(seed, "publisher", np.arange(_MESSAGES)) % np.uint64(_SOURCES)

    def source(now: int, _alive: np.ndarray) -> int | None:
        at = now - _FIRST
        return int(sources[chosen[at]]) if 0 <= at < _MESSAGES else None

    config = GossipSubConfig(**(_V1_1 if flood else _V1_0))
    kernel = PairKernel(PairDelay.parse("uniform:10ms:150ms"), seed, 100_000)
    late, sent = play_topic(config, kernel, nodes, seed, _FIRST + _MESSAGES + 3, source)
    bins = np.bincount(late[late > 0] // 100_000, minlength=4)
    found = {"copies": sent["payload"], **{f"{n}00-{n + 1}00 ms": bins[n] for n in range(1, 4)}}
    found |= {"0-100 ms": bins[0], **{k: sent[k] for k in ("GRAFT", "PRUNE", "IHAVE", "IWANT")}}
    return {what: float(count) for what, count in found.items()}


def gerbil_lines(sizes: Sizes) -> Iterator[str]:
    """Yield the table of gerbil-simsub."""
    rows = []
    for (nodes, flood), published in GERBIL.items():
        if nodes not in sizes.gerbil:
            continue
        each = [gerbil(nodes, seed, flood) for seed in range(1, sizes.seeds + 1)]
        for what, (value, queue) in published.items():
            found = [one[what] for one in each]
            bar = 0.1 if "ms" in what else 0.05
            within = sum(abs(one / value - 1) <= bar for one in found)
            cells = [f"{value:,}", f"{np.mean(found):,.0f} ({min(found):,.0f}-{max(found):,.0f})"]
            if what == "copies":  # and those of a delivery
                per = (nodes - 1) * _MESSAGES
                cells[0] += f"; {value / per:.2f}"
                cells[1] += f"; {np.mean(found) / per:.2f}"
            cells += [f"{within} of {len(found)}", "-" if queue is None else f"{queue:,}"]
            rows.append([f"{nodes:,}{', v1.1' if flood else ''}", what, *cells])
    head = "nodes | what | published | simulated | seeds within the bar | event queue"
    yield from table(head, rows)


# --- lean-gossip

#: A peer table of 60 drawn peers and those that drew this one; D_low and D_high as its heartbeat
#: acts; whoever leaves is known at once.
_LEAN: dict[str, Any] = {
    **{"discovery": "graph", "dials": 60, "d_out": 0, "gossip_factor": 0.0},
    **{"flood_publish": False, "idontwant": False},
    **{"prune_backoff_ms": 0.0, "unsubscribe_backoff_ms": 0.0},
}
LEAN_RULES: dict[str, dict[str, Any]] = {
    "D 8, lazy 1": {"d": 8, "d_low": 8, "d_high": 10, "d_lazy": 1},
    "D 60, flood": {"d": 60, "d_low": 60, "d_high": 62, "d_lazy": 0},
}
SHARES = 0.0, 0.1, 0.2, 0.3

#: Delivered in percent, seconds, copies.
Delivered = tuple[float, float, float]

#: Rules -> delivered in percent, the 99th percentile in seconds, and payloads (there: all bytes) of
#: a delivery, by share of such peers.
LEAN: dict[str, tuple[Delivered, ...]] = {
    "D 8, lazy 1": ((100, 0.7, 7.9), (99.6, 3.2, 8.1), (99.3, 4.8, 9.8), (98.8, 7.8, 84.9)),
    "D 60, flood": ((100, 0.3, 59.8), (97.6, 0.3, 59.9), (95.9, 0.3, 59.9), (93.5, 0.4, 59.9)),
}

#: A peer leaves with probability .01 in each 100 ms, and comes back with .05: within a second, with
#: these probabilities.
_AWAY = 1 / 6
_LEAVES, _RETURNS = (part * (1 - np.exp(-0.6)) for part in (_AWAY, 1 - _AWAY))

#: lean-gossip announces what came in the last three heartbeats in which something came: with its
#: 545 publications in 1,000 s, 3 / (1 - exp(-.545)) = 7 heartbeats.
_ANNOUNCED = 7

#: The heartbeats after the last publication, if nodes gossip.
_TAIL = 20


def lean(nodes: int, share: float, rules: str, messages: int, **more: Any) -> Delivered:
    """Play lean-gossip's set-up; return the numbers of :data:`LEAN`."""
    seed, number = 1, np.arange(nodes)
    moves = _uniform(seed, "moves", number) < share

    def events(now: int, alive: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        if now == 0:
            return whole_numbers(), whole_numbers()
        drawn = _uniform(seed, "moves now", now, number)
        leaves = moves & alive & (drawn < (_AWAY if now == 1 else _LEAVES))
        return np.flatnonzero(leaves), np.flatnonzero(~alive & (drawn < _RETURNS))

    def source(now: int, alive: np.ndarray) -> int | None:
        if not _FIRST <= now < _FIRST + messages:
            return None
        return int(np.flatnonzero(alive)[int(_uniform(seed, "publisher", now) * alive.sum())])

    config = GossipSubConfig(**_LEAN, **LEAN_RULES[rules], **more)
    kernel = PairKernel(PairDelay.parse("uniform:100ms:200ms"), seed)
    rounds = _FIRST + messages + (_TAIL if config.d_lazy else 1)
    late, sent = play_topic(config, kernel, nodes, seed, rounds, source, events)
    p99 = float(np.percentile(late[late > 0], 99)) / 1e6
    return 100 * len(late) / (messages * nodes), p99, sent["payload"] / len(late)


def lean_lines(sizes: Sizes) -> Iterator[str]:
    """Yield the table of lean-gossip."""

    def shown(one: Delivered) -> str:
        return "{:.1f}; {:.1f}; {:.1f}".format(*one)

    def played(rules: str, nodes: int, words: str = "", **more: Any) -> list[str]:
        peers = f"{nodes:,}{words}"
        kept = sizes.kept.get((rules, peers), ["-"] * len(SHARES))
        cells = [
            shown(lean(nodes, share, rules, sizes.lean[nodes], **more)) if cell == "-" else cell
            for share, cell in zip(SHARES, kept, strict=True)
        ]
        return [rules, peers, *cells]

    rows = []
    for rules, published in LEAN.items():
        rows.append([rules, "1,000 (published)", *map(shown, published)])
        rows += [played(rules, nodes) for nodes in sizes.lean]
    rules, nodes = next(iter(LEAN)), min(sizes.lean)
    announced = f", announced for {_ANNOUNCED} s"
    rows.insert(2, played(rules, nodes, announced, mcache_gossip=_ANNOUNCED))
    yield from table(("rules", "peers", *(f"{share:.0%} come and go" for share in SHARES)), rows)


# --- Corrosion


def foca_redundancy(nodes: int, seed: int) -> float:
    """Return the redundancy of the gossip that Corrosion's Plumtree replaces, by its counts.

    A node sends a change `sends` times, to `peers` others each time; its source also sends to all
    nodes within a round trip of 6 ms (ring 0).
    """
    region, us = regions_of(nodes, seed), region_delays()
    sends = min(max(int(np.log10(nodes + 1) * 4), 1), 255)
    population = np.bincount(region, minlength=len(us))
    near = (population * (2 * us < 6000)).sum(axis=1)[region] - 1
    peers = np.maximum(3, (nodes - near) // (10 * sends))
    return float((np.minimum(sends * peers, nodes - 1).sum() + near.mean()) / (nodes - 1) - 1)


def corrosion_lines(sizes: Sizes) -> Iterator[str]:
    """Yield the table of Corrosion."""
    rows = []
    for nodes, publications in sizes.corrosion.items():
        gossip = foca_redundancy(nodes, 1)
        for loss in (0.0, 0.02):
            delivered, redundancy = play_group(nodes, publications, loss, 1)
            tenth = max(1, publications // 10)
            first, last = redundancy[:tenth].mean(), redundancy[-tenth:].mean()
            holds = (delivered == 1 if loss == 0 else delivered > 0.999) and last < gossip / 5
            cells = [f"{nodes:,}", f"{loss:.0%}", f"{100 * delivered:.3f} %"]
            cells += [f"{first:.1f}, {last:.1f}", f"{gossip:.0f}", f"{gossip / 5:.1f}"]
            rows.append([*cells, "yes" if holds else "NO"])
    head = "nodes | loss | delivered | redundancy, first and last tenth | of its gossip | a fifth"
    yield from table(f"{head} | holds", rows)


# --- look-ups

FREENET = {3_000: 40, 30_000: 28, 100_000: 10}

#: Name -> options of the command `world`.  The median session in Gnutella and Napster was an hour
#: (Saroiu, Gummadi and Gribble, MMCN 2002), so the mean of exponential lifetimes is 87 minutes.
_CHURN = f"--config {ROOT / 'data' / 'lookups.toml'}"
LOOKUP_WORLDS = {
    "no churn": "--overlay arrivals --rounds 1 --topology pairs --seed 1 --lookups 2000",
    "sessions of an hour": _CHURN,
    "lives of five minutes": f"{_CHURN} --lifetime-seconds 300",
}

#: The share of nodes that fail in a round of 30 s.
_DEAD = {"no churn": 0.0, "sessions of an hour": 30 / 5190, "lives of five minutes": 30 / 300}


def played_lookups(out: Path, nodes: int, churn: str) -> Path:
    """Play a world of Pastry, unless it is complete; return its folder."""
    folder = out / f"{churn.replace(' ', '_')}-{nodes}"
    if not (folder / "report.html").exists():
        all_nodes = nodes if churn == "no churn" else nodes + nodes // 4
        of_size = f"--nodes={all_nodes}", f"--initial={nodes}", "--groups=0"
        words = LOOKUP_WORLDS[churn].split()
        command(["world", *words, *of_size, f"--out={folder}", "--overwrite"])
    return folder


def pastry_lookups(folder: Path) -> tuple[float, float]:
    """Return the share of right look-ups, and their mean hops, in the second half of a world."""
    right, hops = (Folder(folder).of(f"lookups.{what}") for what in ("right", "hops"))
    first = (right.index.max() + 1) // 2
    return float(right[first:].mean()), float(hops[first:].mean())


def can_lookups(nodes: int, dead: float = 0.0, count: int = 2000) -> tuple[float, float]:
    """Return the same of look-ups from drawn nodes to drawn keys in a CAN of 6 dimensions.

    A share `dead` of the nodes has failed, and no neighbour has taken over a zone yet.  A message
    goes to the live neighbour nearest to the key; it is lost if none is nearer than its node.
    """
    seed, dimensions = 1, 6
    kernel = PairKernel(PairDelay.parse("constant:50ms"), seed)
    space = Space(dimensions, most_bits(dimensions))
    zones = zones_of_all(Placement(space, seed), ring_of(nodes), kernel)
    alive = _uniform(seed, "dies", zones.node) >= dead
    known, number = neighbours_of(zones), np.arange(count)
    kept = alive[known.neighbour]
    offsets = offsets_of(np.bincount(known.rows()["zone"][kept], minlength=len(zones)))
    pairs = Neighbours(offsets, known.neighbour[kept], known.face[kept])
    live, none = np.sort(zones.node[alive]), np.zeros(count, dtype=np.int64)
    start = live[(draws.bits_np(seed, "from", number) % np.uint64(len(live))).astype(np.int64)]
    point = space.point(draws.bits_np(seed, "key", number))
    at, hops, place = zones.of_node(none, start), 0, space.coordinates(point)
    for _ in range(nodes):
        onward = next_zones(zones, pairs, at, point)
        nearer = distance(zones, onward, place) < distance(zones, at, place)
        if not nearer.any():
            break
        hops += int(nearer.sum())
        at = np.where(nearer, onward, at)
    return float(np.mean(at == zones.of_point(none, point))), hops / count


def lookup_lines(sizes: Sizes) -> Iterator[str]:
    """Yield the table of look-ups."""
    rows = []
    for nodes in sizes.lookups:
        folders = [played_lookups(sizes.out, nodes, churn) for churn in LOOKUP_WORLDS]
        found = [*map(pastry_lookups, folders)]
        found += [can_lookups(nodes, dead) for dead in _DEAD.values()]
        cells = (f"{100 * right:.2f}; {hops:.1f}" for right, hops in found)
        rows.append([f"{nodes:,}", f"{FREENET.get(nodes, '-')}", *cells])
    systems = (f"{system}, {churn}" for system in ("Pastry", "CAN") for churn in LOOKUP_WORLDS)
    yield from table(("peers", "published", *systems), rows)


# --- the command

CHECKS: dict[str, Callable[[Sizes], Iterator[str]]] = {
    "gerbil": gerbil_lines,
    "lean": lean_lines,
    "corrosion": corrosion_lines,
    "lookups": lookup_lines,
}


def kept_cells(page: Path) -> dict[tuple[str, str], list[str]]:
    """Return the cells of the page's table of lean-gossip."""
    lines = [line for line in lines_of(page.read_text("utf-8"), "lean") if line.startswith("|")]
    rows = ([cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:])
    return {(rules, peers): cells for rules, peers, *cells in rows}


def write(page: Path, names: Sequence[str], sizes: Sizes) -> None:
    """Play checks, and write the table of each as soon as it is complete."""
    for name in names:
        write_part(page, name, ["", *CHECKS[name](sizes), ""])


def main(arguments: Sequence[str]) -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(description="Write the tables of docs/checks.md.")
    parser.add_argument("--page", type=Path, required=True)
    parser.add_argument("--only", nargs="+", choices=CHECKS, default=list(CHECKS))
    parser.add_argument("--missing", action="store_true", help="keep lean-gossip's cells of PAGE")
    parser.add_argument("--out", type=Path, default=Sizes.out, help="folder of Pastry's worlds")
    given = parser.parse_args(arguments)
    kept = kept_cells(given.page) if given.missing else {}
    write(given.page, given.only, Sizes(out=given.out, kept=kept))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
