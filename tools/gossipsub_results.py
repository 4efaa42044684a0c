"""GossipSub beside what others have published, and what becomes of it when nodes fail.

``python -m tools.gossipsub_results PAGE [--seeds N] [--nodes N ...]``

Plays topics in one process (about a minute) and writes three tables between the marks in PAGE,
``docs/gossipsub.md``: receivers by hop, duplicates by processing time, and what is reached when
nodes fail just before a publication.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from scribe_spark import draws
from scribe_spark.config.gossipsub import GossipSubConfig
from scribe_spark.core.paths import replace_file
from tools.gossipsub_in_memory import DrawnDelays, TopicsInMemory, build_topics
from tools.pages import table, with_lines

__all__ = ["SCHEDULES", "WAKU", "lines", "main", "receivers_by_hop"]

MARKS = ("<!-- gossipsub results: begin -->\n", "<!-- gossipsub results: end -->\n")

#: Receivers by hop 1 to 4: waku-org/research, rln-delay-simulations, raw data of a run of 1,000
#: nodes, each of which dials 25, with flood publishing and equal delays of links.
WAKU = (53, 281, 562, 103)

#: Mean degrees of Waku's meshes, by D_high: waku-org/nwaku, pull request 2168, with the same tool.
WAKU_DEGREES = {12: 6.129, 8: 6.124}

#: Nodes dial while they run: 4 of 28 before each heartbeat, and their heartbeats are not in step.
WHILE_DIALLING: dict[str, Any] = {
    "joins": "unconnected",
    "heartbeat_phases": 30,
    "dials": 28,
    "dials_per_heartbeat": 4,
}

#: Duplicates a node, 3,000 to 12,000 nodes, D = 8: vac.dev, 2025-08, read off a figure.
_VAC = 4.7

#: Schedules of joining: what the table calls them -> fields.
SCHEDULES: dict[str, dict[str, Any]] = {
    "while they dial 28, 4 a heartbeat; heartbeats in 30 groups": WHILE_DIALLING,
    "the same, D_high = 8": {**WHILE_DIALLING, "d_high": 8},
    "before they are connected; heartbeats in 10 groups": {
        "joins": "unconnected",
        "heartbeat_phases": 10,
    },
    "before they are connected; heartbeats together": {"joins": "unconnected"},
    "at once; heartbeats together": {"joins": "at_once"},
    "in 20 waves; heartbeats together": {"joins": "waves", "join_waves": 20},
    "at once; preset `go`": {"preset": "go"},
}

_PROCESSING_MS = (0, 10, 20, 30, 40, 50, 60, 80, 100, 150, 200)
_SHARES = (0.25, 0.5, 0.7, 0.8)

#: One run each of an independent simulation of the rules, without flood publishing: share -> what
#: it reached by pushing and after each heartbeat, of 1,000 nodes and of 3,000.
_CHECKED = {
    0.25: ".999, 1; 1",
    0.5: ".002, .98, 1; .995, 1",
    0.7: ".82, .99, 1; .93, .999, 1",
    0.8: ".30, .78, .97, 1; .01, .74, .95, .99",
}


def one_topic(nodes: int, seed: int, **given: Any) -> TopicsInMemory:
    """Build the mesh of one topic of all nodes, whose source is drawn; delays of 40 to 130 ms."""
    config = GossipSubConfig(**given)
    source = draws.distinct_below(nodes, 1, seed, "source", 0)
    delays = DrawnDelays(40_000, 130_000, seed)
    return build_topics(config, nodes, [np.arange(nodes)], delays, seed, source)


# --- (1) receivers by hop


def receivers_by_hop(seeds: Sequence[int], **given: Any) -> tuple[np.ndarray, float]:
    """Return the receivers at hops 1 to 5 in Waku's set-up, shape (seeds, 5); the mean degree."""
    topics = [one_topic(1000, seed, **{"dials": 25, "clock": "hops"} | given) for seed in seeds]
    counts = [np.bincount(one.publish().arrivals.hops, minlength=6)[1:6] for one in topics]
    return np.array(counts), float(np.mean([one.degrees().mean() for one in topics]))


def _hops(seeds: Sequence[int]) -> Iterator[list[str]]:
    """The rows of the table of receivers by hop."""
    degrees = ", ".join(f"{degree} (D_high = {high})" for high, degree in WAKU_DEGREES.items())
    yield ["(Waku, published: one sender)", degrees, *map(str, WAKU), ""]
    for what, given in SCHEDULES.items():
        counts, degree = receivers_by_hop(seeds, **given)
        mean, spread = counts.mean(axis=0), counts.std(axis=0)
        told = [f"{m:.0f} ± {s:.0f}" for m, s in zip(mean, spread, strict=True)]
        yield [what, f"{degree:.2f}", *told]


# --- (2) duplicates by processing time


def _duplicates(nodes: Sequence[int], seeds: Sequence[int]) -> Iterator[list[str]]:
    """The rows of the table of duplicates."""
    for count in nodes:
        topics = [one_topic(count, seed, preset="ethereum", flood_publish=False) for seed in seeds]
        degree = float(np.mean([topic.degrees().mean() for topic in topics]))
        found = [_mean_duplicates(topics, ms, idontwant=True) for ms in _PROCESSING_MS]
        without = [_mean_duplicates(topics, ms, idontwant=False) for ms in _PROCESSING_MS]
        for ms, own, other in zip(_PROCESSING_MS, found, without, strict=True):
            yield [f"{count:,}", f"{degree:.2f}", f"{ms}", f"{own:.2f}", f"{other:.2f}"]
        # duplicates fall as processing takes longer
        reached = np.interp(-_VAC, [-one for one in found], _PROCESSING_MS)
        yield [f"{count:,}", f"{degree:.2f}", f"**{reached:.0f}**", f"**{_VAC}**", ""]


def _mean_duplicates(topics: Sequence[TopicsInMemory], ms: int, idontwant: bool) -> float:
    """Copies that nodes get besides their first ones, a node; the source gets none."""
    return float(
        np.mean(
            [
                np.count_nonzero(~done.copies["first"]) / (len(done.arrivals) - 1)
                for topic in topics
                for done in [topic.publish(processing_ms=float(ms), idontwant=idontwant)]
            ]
        )
    )


# --- (3) failures


def _failures(nodes: Sequence[int], seeds: Sequence[int]) -> Iterator[list[str]]:
    """The rows of the table of failures."""
    for flood in (False, True):
        for count in nodes:
            topics = [one_topic(count, seed, flood_publish=flood) for seed in seeds]
            for share in _SHARES:
                reached = []
                for seed, topic in zip(seeds, topics, strict=True):
                    drawn = draws.bits_np(seed, "fails before", np.arange(count))
                    alive = (drawn >> np.uint64(11)) * 2.0**-53 >= share
                    alive[topic.source] = True
                    heartbeat = topic.publish(alive).arrivals.heartbeat
                    live = np.count_nonzero(alive)
                    reached.append([np.count_nonzero(heartbeat <= k) / live for k in range(4)])
                mean, least = np.mean(reached, axis=0), np.min(reached, axis=0)
                told = [f"{m:.4f} ({low:.4f})" for m, low in zip(mean, least, strict=True)]
                checked = "" if flood else _CHECKED[share]
                yield [f"{count:,}", "yes" if flood else "no", f"{share:.0%}", *told, checked]


# --- the page


def lines(seeds: int, nodes: Sequence[int]) -> list[str]:
    """Play everything; the lines of the page."""
    every = range(1, seeds + 1)
    return [
        "",
        "### Receivers by hop",
        "",
        "One topic of 1,000 nodes, each of which dials 25 unless said; D = 6 (4, 12), flood "
        f"publishing, clock: hops. Mean and standard deviation of {seeds} seeds.",
        "",
        *table(
            ["members JOIN", "mesh degree", "hop 1", "hop 2", "hop 3", "hop 4", "hop 5"],
            _hops(every),
        ),
        "",
        "### Duplicates by processing time",
        "",
        "One topic of all nodes, D = 8 (6, 12), each dials 20, no flood publishing, delays drawn "
        "for each pair from 40 to 130 ms; members JOIN at once; clock: time. Mean of "
        f"{min(seeds, 3)} seeds. Bold: the processing time at which duplicates are those that "
        f"vac.dev has published ({_VAC}, Shadow, 3,000 to 12,000 nodes), between the two rows "
        "around it.",
        "",
        *table(
            ["nodes", "mesh degree", "processing, ms", "duplicates a node", "without IDONTWANT"],
            _duplicates(nodes, every[:3]),
        ),
        "",
        "### Nodes that fail just before a publication",
        "",
        "One topic of all nodes, preset `spec`, each dials 20; a share of the nodes, the source "
        "not among them, fails silently before the publication, and no mesh is repaired. Share of "
        f"the live nodes that have it: mean of {seeds} seeds, in brackets the least. Last column: "
        "one run each of an independent simulation (push and heartbeats; of 1,000 nodes; of "
        "3,000).",
        "",
        *table(
            [
                *("nodes", "flood publishing", "fail", "by push", "after 1 heartbeat"),
                *("after 2", "after 3", "independent check"),
            ],
            _failures(nodes, every),
        ),
        "",
    ]


def main(arguments: Sequence[str]) -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(description="Write the tables of docs/gossipsub.md.")
    parser.add_argument("page", type=Path)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--nodes", type=int, nargs="+", default=[1000, 3000])
    given = parser.parse_args(arguments)
    text = given.page.read_text("utf-8")
    text = with_lines(text, MARKS, lines(given.seeds, given.nodes))
    replace_file(given.page, text.encode())


if __name__ == "__main__":
    main(sys.argv[1:])
