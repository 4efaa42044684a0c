"""Measured trees of Overcast beside bars: ``PYTHONPATH=.:tests python -m overcast.measured``.

Five transit-stub graphs of 600 routers, 24 of them transit routers; each member is at a router of
its own, the root at router 0.  Members join at once (*start*); when the tree rests, ten more join
(+10); then ten fail (-10).  The certificates are those that are news to the root; in brackets, all
that it gets, with the tables of those whom it adopts.  The bars are tolerances around the values of
independent reference programs (C), which were settled before; published values are recalled (R) or
from abstracts (A).  With ``--page docs/differences.md``, the table also replaces that of the page.
"""

import argparse
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from overcast.played import NOBODY, Played, paper_network
from scribe_spark.core import draws
from tools.pages import write_part

GRAPHS, TRANSIT, ROUTERS = range(1, 6), 24, 600
QUIET, MOST = 60, 2000  # rounds without a change that end a part; rounds of a part
LEASES = 400  # rounds in which all certificates arrive

#: The values of the reference programs: shared (sum, mean of nodes), bottleneck, load, stress,
#: depth, rounds (start, +10, -10), certificates a node (start, +10).
REFERENCE = {
    (50, "backbone"): (0.76, 0.86, 1.0, 2.0, 1.09, 20, 89, 63, 32, 4.9, 4.4),
    (50, "random"): (0.78, 0.98, 0.88, 1.7, 1.12, 14, 37, 23, 15, 3.1, 2.1),
    (200, "backbone"): (0.62, 0.84, 1.0, 1.6, 1.07, 38, 178, 123, 60, 4.7, 8.6),
    (200, "random"): (0.71, 0.92, 0.98, 1.5, 1.06, 38, 114, 151, 57, 4.4, 8.9),
    (600, "backbone"): (0.62, 0.73, 1.0, 1.7, 1.05, 120, 426, None, 19, 5.6, None),
    (600, "transit first"): (0.73, 0.97, 1.0, 1.7, 1.02, 117, 211, None, 90, 4.6, None),
}
PUBLISHED = (
    *(".7-1 (A)", "", "1; random .7-.8 (R)", "< 2 (A)", "1-1.2 (R)", ""),
    *("tens; 50; 30 (R)", "3-4 (R)"),
)
HEAD = (
    "members", "bandwidth: sum, shared", "mean, shared", "sum, bottleneck", "load",
    "stress: mean, maximum", "depth", "rounds: start; +10; -10", "certificates: start; +10",
)  # fmt: skip


@dataclass
class Grown:
    """A tree, and the rounds and certificates that its parts took."""

    played: Played
    rounds: list[int]
    certificates: list[tuple[float, float]]

    def rest(self, count: int, join=NOBODY, died=NOBODY) -> None:
        """Let members join and fail; play until no parent changes, and all certificates arrive."""
        played, begin, last, told, news = self.played, self.played.number, 0, 0, 0
        before, known = None, self._known()
        while (now := played.number - begin) < min(MOST, last + QUIET) or self._fresh(now):
            changes = () if now else ([(0, node) for node in join], (), died)
            played.play(*changes)
            told += played.counts["certificates"]
            had, known = known, self._known()
            news += sum(had.get(node) != row for node, row in known.items())
            rows = played.state["members"]
            living = rows["alive"]
            above = dict(zip(rows["node"][living], rows["parent"][living], strict=True))
            if above != before:
                before, last = above, now
        self.rounds.append(last)
        self.certificates.append((news / count, told / count))
        self.faults = played.measures()["table.faults"]

    def _known(self) -> dict[int, tuple[int, bool]]:
        """The root's certificates, without the parents."""
        rows = self.played.state.get("certificates", {"key": NOBODY})
        mine = np.flatnonzero(rows["key"] < len(self.played.router))
        return {int(rows["key"][at]): (rows["number"][at], rows["alive"][at]) for at in mine}

    def _fresh(self, now: int) -> bool:
        """Whether certificates are under way."""
        rows, played = self.played.state["certificates"], self.played
        owner = rows["key"][rows["fresh"]] // len(played.router)
        return now < MOST + LEASES and bool((owner != 0).any())


def numbers_of_nodes(seed: int) -> np.ndarray:
    """Numbers of the nodes at all routers, such that the root is at router 0."""
    number = np.arange(ROUTERS)
    root = int(np.argmin(draws.bits_np(seed, "overcast root", 0, number)))
    number[[0, root]] = number[[root, 0]]
    return number


def members_of(graph: int, placement: str) -> np.ndarray:
    """All routers in the order in which they get members."""
    others = np.arange(1, ROUTERS)
    drawn = draws.bits_np(graph, "placement", others)
    if placement == "random":
        return np.r_[0, others[np.argsort(drawn)]]
    return np.r_[0, others[np.lexsort((drawn, others >= TRANSIT))]]


def grown(graph: int, members: int, placement: str, **rules) -> Grown:
    """Play the three parts on a graph."""
    network = paper_network(graph)
    played = Played(network, np.arange(ROUTERS), rules, seed=graph, node=numbers_of_nodes(graph))
    order, tree = members_of(graph, placement), Grown(played, [], [])
    first, more = np.sort(order[:members]), np.sort(order[members : members + 10])
    if placement == "transit first":
        tree.rest(TRANSIT, first[first < TRANSIT])
        first = first[first >= TRANSIT]
    tree.rest(members, first)
    shares = np.array([TRANSIT, members])[-len(tree.rounds) :, None] / members
    every = tuple((np.array(tree.certificates) * shares).sum(axis=0))
    tree.rounds, tree.certificates = tree.rounds[-1:], [every]
    values = played.measures()
    if len(more):
        tree.rest(len(more), more)
    died = draws.bits_np(graph, "failures", first)
    tree.rest(10, died=np.sort(first[first > 0][np.argsort(died[first > 0])[:10]]))
    tree.values = values
    return tree


def row_of(members: int, placement: str, **rules) -> tuple[list[str], list[str]]:
    """Return the cells of a row, and the bars that it misses."""
    trees = [grown(graph, members, placement, **rules) for graph in GRAPHS]
    names = "shared", "shared.mean", "bottleneck", "load", "flows", "depth.max"
    each = {name: [tree.values[name] for tree in trees] for name in names}
    mean = {name: float(np.mean(found)) for name, found in each.items()}
    rounds = np.mean([tree.rounds for tree in trees], axis=0)
    certificates = np.mean([tree.certificates for tree in trees], axis=0)
    most = np.mean([tree.values["flows.max"] for tree in trees])
    cells = [
        f"{members} {placement}",
        f"{mean['shared']:.2f} ({min(each['shared']):.2f}-{max(each['shared']):.2f})",
        *(f"{mean[name]:.2f}" for name in names[1:4]),
        f"{mean['flows']:.2f}, {most:.1f}",
        f"{mean['depth.max']:.0f} ({max(each['depth.max']):.0f})",
        ("; " if len(rounds) > 2 else "; -; ").join(f"{number:.0f}" for number in rounds),
        "; ".join(f"{new:.1f} ({every:.1f})" for new, every in certificates[: len(rounds) - 1]),
    ]
    bars = {
        "shared sum >= .55": mean["shared"] >= 0.55,
        "mean of nodes >= .7": mean["shared.mean"] >= 0.7,
        "bottleneck >= .95, random .8": mean["bottleneck"]
        >= (0.8 if placement == "random" else 0.95),
        "load <= 2.1 x IP": mean["load"] <= 2.1,
        "stress <= 1.2": mean["flows"] <= 1.2,
        "certificates 2-9": all(2 <= new <= 9 for new, _ in certificates[: len(rounds) - 1]),
        "the root's table is the tree": not any(tree.faults for tree in trees),
    }
    return cells, [bar for bar, holds in bars.items() if not holds]


def reference(members: int, placement: str) -> list[str]:
    """Return the reference programs' cells."""
    values = REFERENCE[members, placement]
    rounds, certificates = (
        "; ".join("-" if number is None else str(number) for number in some)
        for some in (values[6:9], values[9:])
    )
    return ["(C)", *map(str, values[:6]), rounds, certificates]


def lines() -> Iterator[str]:
    """Yield the lines of the table, and of the finding."""
    yield "| " + " | ".join(HEAD) + " |"
    yield "|---" * len(HEAD) + "|"
    missed = []
    for members, placement in REFERENCE:
        cells, lost = row_of(members, placement)
        yield "| " + " | ".join(cells) + " |"
        yield "| " + " | ".join(reference(members, placement)) + " |"
        missed += [f"{members} {placement}: {bar}" for bar in lost]
    yield "| " + " | ".join(("published", *PUBLISHED)) + " |"
    yield "bars missed: " + ("; ".join(missed) or "none")
    cells, _ = row_of(200, "backbone", decide="bottleneck")
    yield "decided by bottleneck: " + "; ".join(
        f"{head} {cell}" for head, cell in zip(HEAD, cells, strict=True)
    )


def main() -> None:
    """Print the lines, and write the table into a page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--page", type=Path)
    page, table = parser.parse_args().page, []
    for line in lines():
        print(line, flush=True)
        table += [line] if line.startswith("|") else []
    write_part(page, "overcast", table)


if __name__ == "__main__":
    main()
