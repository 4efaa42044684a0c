"""Measured values of the kernels beside bars: ``PYTHONPATH=.:tests python -m plumtree.measured``.

With ``--page docs/differences.md``, the rows that have a bar also replace the table of the page.
Of iroh-gossip's scenarios, the values are RMR and LDH; those that iroh measures are in brackets.

The bars are values that were published, recalled or measured by independent programs (one
topology), with tolerances; the kernels were not tuned to them.  The bars of the part ``grown`` are
those of 10,000 nodes, which take minutes: fewer nodes do not reach all of them.

How iroh counts: all nodes join node 0 at once; a delay for each pair, 10 to 100 ms; RMR is the
number of payload copies that arrive until all nodes have the publication, or within 5 s, divided by
the expected deliveries - 1, minus 1.  LDH is the largest round number of a first copy.  Here each
publication begins 5 s after the one before; in iroh it begins when all nodes have that one.
"""

import argparse
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import networkx
import numpy as np
import scipy.sparse as sparse
from bars import Row, print_rows, write_rows
from scipy.sparse import csgraph

from plumtree.played import Command, Overlay, drawn_delay, waves
from scribe_spark.clock.bucket import STATE
from scribe_spark.clock.kernel import ClockEvents
from scribe_spark.core import draws
from scribe_spark.engine.packing import Columns
from scribe_spark.systems.plumtree import IROH, PAPER
from scribe_spark.systems.plumtree.config import PlumtreeConfig
from scribe_spark.systems.plumtree.overlay import PlumtreeKernel

SECOND = 1_000_000
LEAST_US = 10_000
DELAY = drawn_delay(LEAST_US, 90_000)
SHUFFLES = 5  # rounds before failures
HEAD = "| what | bar | measured | holds |\n|---|---|---|---|"
NOBODY = np.empty(0, dtype=np.int64)


@dataclass(frozen=True)
class Until:
    """A maker of kernels that handle no event from a time on."""

    end_us: int

    def __call__(self, rules: PlumtreeConfig, seed: int, room: np.ndarray) -> PlumtreeKernel:
        end_us = self.end_us

        class _Ends(PlumtreeKernel):
            def __getattr__(self, name: str) -> Callable[[ClockEvents], None]:
                handle = super().__getattr__(name)

                def some(events: ClockEvents) -> None:
                    events = events.take(events.time_us < end_us)
                    if len(events):
                        handle(events)

                return some

        return _Ends(rules, seed, room)


class Grown:
    """An overlay that was grown, from which scenarios begin."""

    def __init__(self, nodes: int, seed: int) -> None:
        self.nodes, self.seed = nodes, seed
        commands = waves(nodes, SECOND, seed)
        self.end_us = commands[-1][0] + 10 * SECOND
        self.overlay = Overlay(nodes, DELAY, LEAST_US, seed=seed)
        self.overlay.play(commands)
        self.views = [self.overlay.table(STATE)]
        for _ in range(SHUFFLES):
            self.overlay.play([(self.end_us, "refresh", node, 0) for node in range(nodes)])
            self.views.append(self.overlay.table(STATE))
            self.end_us += 10 * SECOND

    def copy(self, breaks: bool) -> Overlay:
        """Return an overlay with the views after all shuffles."""
        rules = PlumtreeConfig(notice="breaks" if breaks else "sending")
        found = Overlay(self.nodes, DELAY, LEAST_US, rules, self.seed)
        found.player.tables[0][STATE] = {name: one.copy() for name, one in self.views[-1].items()}
        return found

    def failing(self, share: float) -> np.ndarray:
        """Return drawn nodes that fail."""
        drawn = draws.bits_np(self.seed, "fails", np.arange(self.nodes))
        return np.sort(np.argsort(drawn)[: round(share * self.nodes)])


def links(views: Columns, but: np.ndarray = NOBODY) -> sparse.csr_matrix:
    """Return the links between living nodes that have each other; the nodes `but` are dead, too."""
    here = ~np.isin(views["key"], but)
    node, active = views["key"][here], views["active"][here]
    row, slot = np.nonzero(np.isin(active, node))
    column = np.searchsorted(node, active[row, slot])
    shape = (len(node), len(node))
    graph = sparse.csr_matrix((np.ones(len(row)), (row, column)), shape=shape)
    return graph.minimum(graph.T).tocsr()


def largest(views: Columns, but: np.ndarray = NOBODY) -> float:
    """Return the share of living nodes that are in the largest component."""
    _, component = csgraph.connected_components(links(views, but))
    return float(np.bincount(component).max() / len(component))


# --- the graph of views


def exact_rows(nodes: int) -> Iterator[Row]:
    """Yield the copies of publications on regular views, with two kinds of delays."""
    graph = networkx.random_regular_graph(5, nodes, 1)
    views = np.array([sorted(graph[node]) for node in range(nodes)])
    bar, found = [nodes * 5 - (nodes - 1), nodes - 1, nodes - 1], []
    for delay in (drawn_delay(50_000, 1), DELAY):
        overlay = Overlay(nodes, delay, LEAST_US)
        overlay.fix(views)
        overlay.play([(5 * p * SECOND, "publish", 7, p) for p in range(3)])
        found.append(np.bincount([copy[0] for copy in overlay.copies()]).tolist())
    here = " and ".join(_listed(one, ",d") for one in np.unique(found, axis=0).tolist())
    what = "copies of 3 publications, each node with 5 neighbours"
    yield Row((what,), _listed(bar, ",d"), here, found == [bar, bar])


def view_rows(grown: Grown) -> Iterator[Row]:
    """Yield the graph of views after shuffles; eccentricity is that of 300 nodes."""
    graph = links(views := grown.views[-1])
    one_sided = np.count_nonzero(views["active"] >= 0) - graph.nnz
    degree = np.count_nonzero(views["active"] >= 0) / grown.nodes
    some = np.argsort(draws.bits_np(grown.seed, "start", np.arange(grown.nodes)))[:300]
    hops = csgraph.shortest_path(graph, unweighted=True, indices=some)
    mean, most = hops[hops > 0].mean(), hops.max()
    what = f"after {SHUFFLES} exchanges (shuffles): one-sided links; degree; path; eccentricity"
    here = f"{one_sided}; {degree:.3f}; {mean:.3f}; {most:.0f}"
    holds = one_sided == 0 and degree >= 4.9 and 6.3 <= mean <= 6.5 and most <= 10
    yield Row((what,), "0; >= 4.9; 6.3-6.5; <= 10", here, bool(holds))


def component_rows(grown: Grown) -> Iterator[Row]:
    """Yield the largest components after failures."""
    expected = {0.1: 1, 0.3: 0.997, 0.5: 0.954, 0.6: 0.837}
    found = [largest(grown.views[-1], grown.failing(share)) for share in expected]
    near = all(abs(a - b) <= 0.03 for a, b in zip(found, expected.values(), strict=True))
    what = f"{_listed(expected, '.0%')} fail: live nodes in the largest component"
    bar = f"{_listed(expected.values(), '.3f')}, each +-.03"
    yield Row((what,), bar, _listed(found, ".3f"), near)
    fails: list[Command] = [(grown.end_us, "fail", node, 0) for node in grown.failing(0.8).tolist()]
    overlay = grown.copy(breaks=True)
    overlay.kernel = Until(grown.end_us + SECOND)
    overlay.play(fails)
    found = [largest(overlay.table(STATE))]
    overlay = grown.copy(breaks=True)
    overlay.play(fails)
    living = overlay.table(STATE)["key"].tolist()
    overlay.play([(grown.end_us + 20 * SECOND, "refresh", node, 0) for node in living])
    found.append(largest(overlay.table(STATE)))
    what = "80% fail, connections break: the same after 1 s; after a shuffle"
    holds = found[0] >= 0.98 and found[1] >= 0.999
    yield Row((what,), ">= .98; >= .999", _listed(found, ".4f"), holds)


def _listed(values: Iterable[float], form: str) -> str:
    return "; ".join(format(value, form) for value in values)


# --- publications


def reliability(grown: Grown, share: float, breaks: bool, messages: int) -> list[float]:
    """Return the share of living nodes with each publication, a second apart, after failures.

    Three publications come before.
    """
    dead = grown.failing(share)
    living = np.setdiff1d(np.arange(grown.nodes), dead).tolist()
    at_us, source = grown.end_us, living[0]
    commands: list[Command] = [(at_us + p * SECOND, "publish", source, p) for p in range(3)]
    fails_us = at_us + 3 * SECOND
    commands += [(fails_us, "fail", node, 0) for node in dead.tolist()]
    commands += [(fails_us + 1_000 + p * SECOND, "publish", source, 3 + p) for p in range(messages)]
    overlay = grown.copy(breaks)
    overlay.kernel = Until(fails_us + (messages + 3) * SECOND)
    overlay.play(commands)
    there = set(living)
    got = np.bincount([row[0] for row in overlay.receipts() if row[1] in there])
    return (got[3:] / len(living)).tolist()


def scenario(
    what: str, nodes: int, seed: int, rules: str, messages: int
) -> tuple[float, float, int]:
    """Return mean RMR and LDH of a scenario of iroh-gossip's tests, and the missing deliveries."""
    config = PlumtreeConfig(rules=rules, membership=IROH if rules == IROH else PAPER)
    overlay = Overlay(nodes, DELAY, LEAST_US, config, seed)
    drawn = (draws.bits_np(seed, "iroh", np.arange(messages)) % np.uint64(nodes)).tolist()
    sources: Sequence[Sequence[int]] = {
        "one sender": [drawn[:1]] * messages,
        "random senders": [[one] for one in drawn],
        "all at once": [range(nodes)] * messages,
    }[what]
    commands: list[Command] = [(0, "arrive", node, 0 if node else -1) for node in range(nodes)]
    at_us, of, publication = [], [], 0
    for turn, some in enumerate(sources):
        at_us.append((2 + 5 * turn) * SECOND)
        for node in some:
            commands.append((at_us[-1], "publish", node, publication))
            of.append(turn)
            publication += 1
    overlay.play(commands)
    receipts, copies = np.array(overlay.receipts()), np.array(overlay.copies())
    turn_of = np.array(of)
    rmr, ldh, missing = [], [], 0
    for turn in range(messages):
        end_us = at_us[turn] + 5 * SECOND
        got = receipts[(turn_of[receipts[:, 0]] == turn) & (receipts[:, 2] <= end_us)]
        expected = len(sources[turn]) * (nodes - 1)
        firsts = got[got[:, 4] >= 0]
        missing += expected - len(firsts)
        if len(firsts) == expected:
            end_us = firsts[:, 2].max()
        came = copies[(turn_of[copies[:, 0]] == turn) & (copies[:, 3] <= end_us)]
        rmr.append(len(came) / (len(firsts) - 1) - 1)
        ldh.append(firsts[:, 3].max() - 1)
    return float(np.mean(rmr)), float(np.mean(ldh)), missing


def iroh_rows(seeds: int) -> Iterator[Row]:
    """Yield the scenarios of iroh-gossip's tests that take less than minutes, by its rules."""
    for what, nodes, least, most, hops, beside in (
        ("one sender", 100, 0, 0.2, 15, "< .2; < 15 (.088-.096; 6-10)"),
        ("random senders", 100, 0, 1, 18, "< 1; < 18 (.65-.88; 9.8-11.4)"),
        ("one sender", 1_000, 0.05, 0.2, 17.001, ".05-.2; <= 17 (.077; 11-15.8)"),
    ):
        some = range(seeds if nodes == 100 else min(seeds, 2))
        found = [scenario(what, nodes, seed, IROH, 30) for seed in some]
        holds = all(least <= rmr < most and ldh < hops for rmr, ldh, _ in found)
        rmr, ldh, _ = zip(*found, strict=True)
        here = f"{min(rmr):.3f}-{max(rmr):.3f}; {min(ldh):.1f}-{max(ldh):.1f}"
        yield Row((f"{nodes:,} nodes, {what}, {len(some)} seeds: RMR; LDH",), beside, here, holds)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seeds", type=int, default=10, help="of iroh's scenarios")
    parser.add_argument("--parts", nargs="*", default=["exact", "grown", "iroh"])
    parser.add_argument("--page", type=Path)
    arguments = parser.parse_args()
    rows = print_rows(HEAD, _rows(arguments))
    write_rows(arguments.page, "plumtree", HEAD, rows)


def _rows(arguments: argparse.Namespace) -> Iterator[Row]:
    if "exact" in arguments.parts:
        yield from exact_rows(arguments.nodes)
    if "grown" in arguments.parts:
        grown = Grown(arguments.nodes, arguments.seed)
        yield from view_rows(grown)
        yield from component_rows(grown)
    if "iroh" in arguments.parts:
        yield from iroh_rows(arguments.seeds)


if __name__ == "__main__":
    main()
