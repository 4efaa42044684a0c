"""GossipSub beside what others have published: ``PYTHONPATH=.:tests python -m gossipsub.measured``.

With ``--page docs/gossipsub.md``, the table of the page is written (a minute).
"""

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from scribe_spark.core import draws
from tools.pages import table, write_part

from .topics import one_topic

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

#: Schedules of joining: name in the table -> fields.
SCHEDULES: dict[str, dict[str, Any]] = {
    "nodes dial while heartbeats run": WHILE_DIALLING,
    "nodes JOIN before they dial": {
        **{"joins": "unconnected", "heartbeat_phases": 10, "dials_per_heartbeat": 0}
    },
    "all JOIN at once, when all are connected": {"joins": "at_once"},
}

_PROCESSING_MS = (0, 10, 20, 30, 40, 50, 60, 80, 100, 150, 200)

#: Share of the nodes that fail, and the share of the live ones that one run of an independent
#: simulation of the rules reached by push and after one heartbeat (3,000 nodes).
_FAIL, _CHECKED = 0.5, "0.995, 1"


# --- the rows of the table


def receivers_by_hop(seeds: Sequence[int], **given: Any) -> tuple[np.ndarray, float]:
    """Return the receivers at hops 1 to 5 in Waku's set-up, shape (seeds, 5); the mean degree."""
    topics = [one_topic(1000, seed, **{"dials": 25, "clock": "hops"} | given) for seed in seeds]
    counts = [np.bincount(one.publish().arrivals.hops, minlength=6)[1:6] for one in topics]
    return np.array(counts), float(np.mean([one.degrees().mean() for one in topics]))


def _hops(seeds: Sequence[int]) -> Iterator[list[str]]:
    """Yield the rows of receivers by hop and of mesh degrees."""
    for schedule, given in SCHEDULES.items():
        counts, _ = receivers_by_hop(seeds, **given)
        mean, spread = counts.mean(axis=0)[:4], counts.std(axis=0)[:4]
        found = ", ".join(f"{m:.0f} ± {s:.0f}" for m, s in zip(mean, spread, strict=True))
        what = f"nodes first reached after 1, 2, 3, 4 hops; {schedule}"
        yield [what, ", ".join(map(str, WAKU)), found]
    for high, degree in WAKU_DEGREES.items():
        _, found_degree = receivers_by_hop(seeds, **WHILE_DIALLING, d_high=high)
        what = f"mesh links, mean of all nodes, D_high = {high}; nodes dial while heartbeats run"
        yield [what, f"{degree}", f"{found_degree:.2f}"]


def _duplicates(nodes: int, seeds: Sequence[int]) -> list[str]:
    """Return the row of the processing time that gives the published number of duplicates."""
    topics = [one_topic(nodes, seed, preset="ethereum", flood_publish=False) for seed in seeds]
    found = []
    for ms in _PROCESSING_MS:
        each = [topic.publish(processing_ms=float(ms)) for topic in topics]
        # the source gets none
        again = [np.sum(~done.copies["first"]) / (len(done.arrivals) - 1) for done in each]
        found.append(-float(np.mean(again)))
    reached = np.interp(-_VAC, found, _PROCESSING_MS)  # duplicates fall as processing takes longer
    time = f"{_VAC} with a processing time of {reached:.0f} ms"
    return [f"duplicates per node, {nodes:,} nodes, D = 8", f"{_VAC}", time]


def _failures(nodes: int, seeds: Sequence[int]) -> list[str]:
    """Return the row of the share of live nodes that have a publication after failures."""
    reached = []
    for seed in seeds:
        topic = one_topic(nodes, seed, flood_publish=False)
        drawn = draws.bits_np(seed, "fails before", np.arange(nodes))
        alive = (drawn >> np.uint64(11)) * 2.0**-53 >= _FAIL
        alive[topic.source] = True
        heartbeat = topic.publish(alive).arrivals.heartbeat
        reached.append([np.sum(heartbeat <= k) / np.sum(alive) for k in range(2)])
    found = ", ".join(f"{mean:.3f}" for mean in np.mean(reached, axis=0))
    reach = "share of the live nodes reached by the mesh, and after one more heartbeat"
    return [f"{reach}; {_FAIL:.0%} of {nodes:,} nodes fail", _CHECKED, found]


def lines(seeds: int, nodes: Sequence[int]) -> list[str]:
    """Play all set-ups; return the lines of the page."""
    every = range(1, seeds + 1)
    few = every[:3]
    rows = [*_hops(every), *(_duplicates(n, few) for n in nodes), _failures(max(nodes), every)]
    simulated = f"simulated (mean of {seeds} seeds; duplicates: {len(few)})"
    return ["", *table(["measured number", "published", simulated], rows), ""]


def main() -> None:
    """Print the table, or write it into a page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--nodes", type=int, nargs="+", default=[1000, 3000])
    parser.add_argument("--page", type=Path)
    given = parser.parse_args()
    found = lines(given.seeds, given.nodes)
    print(*found, sep="\n")
    write_part(given.page, "gossipsub", found)


if __name__ == "__main__":
    main()
