"""How a message spreads, against an event by event simulation."""

from __future__ import annotations

import random
import zlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import pytest
from arriving import Kernel
from oracle.dissemination import Edge, First, spread
from seeds import seeds
from spread_out import SpreadOut

from scribe_spark.dissemination import (
    ARRIVALS,
    ARRIVED_COPIES,
    EDGES,
    START,
    Dissemination,
    all_but_sender,
)
from scribe_spark.engine.facts import Ring, RingInMemory
from scribe_spark.engine.in_task import play
from scribe_spark.engine.losses import Lost
from scribe_spark.engine.packing import Packed, concatenate, pack, take
from scribe_spark.engine.program import AT, Tables
from scribe_spark.multicast import HOPS, TIME

LAN_US = 1000


@dataclass(frozen=True)
class LostCopies(Lost):
    """The lost and the withheld copies of a case; `of_position` returns the nodes of positions."""

    case: Case
    of_position: Callable[[np.ndarray], np.ndarray] = np.asarray

    def __call__(self, publication, links):
        ends = (self.of_position(links[name]).tolist() for name in ("node", "peer"))
        copies = zip(publication.tolist(), *ends, strict=True)
        return np.array([self.case.is_lost(*copy) for copy in copies], dtype=bool)

    def withheld(self, publication, links):
        case, node = self.case, self.of_position(links["node"]).tolist()
        copies = zip(publication.tolist(), node, strict=True)
        found = [one in case.withholds and one not in case.sources[of] for of, one in copies]
        return np.array(found, dtype=bool)


@dataclass(frozen=True)
class Drawn:
    """A rule that looks at everything it may look at, and chooses as a hash does."""

    salt: int

    def __call__(self, first, edges):
        numbers = [first[name] for name in ("sender", "hops", "dim", "way")]
        numbers += [edges[name] for name in ("node", "peer", "dim", "way")]
        rows = zip(*(one.tolist() for one in numbers), strict=True)
        return np.array([self.of(*row) for row in rows], dtype=bool)

    def plain(self, first: First, edge: Edge) -> bool:
        return self.of(first.sender, first.hops, *first.label, edge.node, edge.peer, *edge.label)

    def of(self, *numbers: int) -> bool:
        return zlib.crc32(repr((self.salt, numbers)).encode()) % 4 > 0


def onward(first, edges):
    """As rules of CAN's flooding: along lower dimensions both ways, along its own the same way."""
    same = (edges["dim"] == first["dim"]) & (edges["way"] == first["way"])
    return (first["hops"] == 0) | (edges["dim"] < first["dim"]) | same


def plainly_onward(first: First, edge: Edge) -> bool:
    return first.hops == 0 or edge.label[0] < first.label[0] or edge.label == first.label


class Case:
    """Groups with random edges over few routers, so that many copies arrive at the same time."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        rng = self.rng = random.Random(f"dissemination {seed}")
        self.n, self.groups = rng.randint(2, 40), rng.randint(1, 3)
        self.numbers = np.array(sorted(rng.sample(range(1, 50), self.groups)))
        routers = rng.randint(1, 8)
        drawn_us = [
            [rng.choice([0, 1, 2, 5, 20, 40]) * 1000 for _ in range(routers)]
            for _ in range(routers)
        ]
        delay_us = np.array(drawn_us) * (1 - np.eye(routers, dtype=np.int64))
        self.kernel = Kernel(delay_us, np.arange(routers) + 500)
        router = np.array([rng.randrange(routers) for _ in range(self.n)])
        node = np.array(rng.sample(range(100), self.n))
        hi = np.sort(np.array(rng.sample(range(2**40), self.n), dtype=np.uint64))
        self.ring = Ring(hi, hi, node, router)
        self.lan_us = rng.choice([LAN_US, 0])
        self.clock = rng.choice([TIME, HOPS])
        self.processing_us = rng.choice([0, 0, 700, 5000])
        drawn = Drawn(seed)
        self.rule, self.plain = rng.choice(
            [
                (drawn, drawn.plain),
                (all_but_sender, lambda f, e: e.peer != f.sender),
                (onward, plainly_onward),
            ]
        )
        self.edges = [self._edges() for _ in range(self.groups)]
        self.sources = [
            rng.sample(range(self.n), min(self.n, rng.choice([1, 1, 1, 2])))
            for _ in range(self.groups)
        ]

    def is_lost(self, group: int, sender: int, receiver: int) -> bool:
        """In every second case, a third of the copies is lost."""
        numbers = self.seed, group, sender, receiver
        return self.seed % 2 > 0 and zlib.crc32(repr(numbers).encode()) % 3 == 0

    @property
    def withholds(self) -> list[int]:
        """In every third case, a third of the nodes forward nothing."""
        return [] if self.seed % 3 else [node for node in range(self.n) if node % 3 == 1]

    def _edges(self) -> list[Edge]:
        rng, most = self.rng, self.rng.choice([2, 5, 12])
        found = {
            Edge(a, rng.randrange(self.n), (rng.randrange(3), rng.choice([0, 1])))
            for a in range(self.n)
            for _ in range(rng.randint(most // 2, most))
        }
        return sorted((e for e in found if e.node != e.peer), key=lambda e: rng.random())

    def delay(self, a: int, b: int) -> int:
        r = self.ring.router
        return int(self.kernel.delays(r[[a]], r[[b]])[0]) + 2 * self.lan_us

    def expected(self) -> tuple[list[tuple], list[tuple]]:
        arrivals, copies = [], []
        for group in range(self.groups):
            first, sent = spread(
                *(self.sources[group], self.edges[group], self.plain, self.delay),
                *(self.clock, self.processing_us, 2),
                is_lost=partial(self.is_lost, group),
                withholds=self.withholds,
            )
            arrivals += [
                (group, f.node, f.at_us, f.hops, f.sender, *f.label) for f in first.values()
            ]
            copies += [
                (group, c.receiver, c.at_us, c.hops, c.sender, *c.label, c.first, c.lost)
                for c in sent
            ]
        return sorted(arrivals), sorted(copies)

    def program(self, buckets: int) -> Dissemination:
        cuts = sorted(self.rng.choices(range(self.n + 1), k=buckets - 1))
        return Dissemination(
            *(np.array([0, *cuts, self.n]), RingInMemory(self.ring), self.kernel, self.lan_us),
            *(self.rule, ("dim", "way"), self.clock, self.processing_us),
            None if self.seed % 6 in (2, 4) else LostCopies(self),
        )

    def play(self, program: Dissemination, out: SpreadOut | None = None) -> list[Tables]:
        rows = [
            (group, e.node, e.peer, *e.label)
            for group, edges in enumerate(self.edges)
            for e in edges
        ]
        names = ("group", "node", "peer", "dim", "way")
        columns = dict(zip(names, np.array(rows, dtype=np.int64).reshape(-1, 5).T, strict=True))
        pairs = [(g, s) for g, some in enumerate(self.sources) for s in some]
        group, at = np.array(pairs, dtype=np.int64).T
        if out is not None:
            at = out.positions(at)
            columns |= {name: out.positions(columns[name]) for name in ("node", "peer")}
        tables = []
        for low, high in zip(program.bounds, program.bounds[1:], strict=False):
            mine = (columns["node"] >= low) & (columns["node"] < high)
            tables.append(Tables.of({EDGES: take(columns, mine)} if mine.any() else {}))
        play(program, tables, {START: {"group": group, AT: at}})
        return tables


def gathered(tables: list[Tables], name: str) -> dict[str, np.ndarray]:
    """A table of all buckets together, as they come back from their bytes."""
    parts = [Packed(b"".join(pack(one[name])[0])) for one in tables if name in one]
    return concatenate(parts) if parts else {}


def rows(columns: dict[str, np.ndarray], *names: str) -> list[tuple]:
    if not columns:
        return []
    return sorted(zip(*(columns[name].tolist() for name in names), strict=True))


_LABEL = ("group", "node", "at_us", "hops", "sender", "dim", "way")


def copy_tuples(sent: dict[str, np.ndarray]) -> list[tuple]:
    """The rows of sent copies; only where copies can be lost, the table has that column."""
    sent = {"lost": np.zeros(len(sent["node"]), dtype=bool), **sent} if sent else {}
    return rows(sent, *_LABEL, "first", "lost")


@pytest.mark.parametrize("seed", seeds(range(600), in_each_run=60))
def test_copies_are_those_of_a_simulation_event_by_event(seed):
    case = Case(seed)
    arrivals, copies = case.expected()
    for buckets in (1, 2, 7):
        tables = case.play(case.program(buckets))
        assert rows(gathered(tables, ARRIVALS), *_LABEL) == arrivals
        sent = gathered(tables, ARRIVED_COPIES)
        assert seed % 6 in (2, 4) or not sent or "lost" in sent
        assert copy_tuples(sent) == copies


@dataclass(frozen=True)
class FarApart(Drawn):
    """The drawn rule, of nodes at spread-out positions."""

    out: SpreadOut

    def __call__(self, first, edges):
        first = {**first, "sender": self.out.nodes(first["sender"])}
        edges = {**edges, **{name: self.out.nodes(edges[name]) for name in ("node", "peer")}}
        return super().__call__(first, edges)


@pytest.mark.parametrize("seed", range(30))
def test_keys_near_their_limit_lose_no_copy(seed):
    case = Case(seed)
    arrivals, copies = case.expected()
    out = SpreadOut.of(case.n, case.groups)
    rule = FarApart(case.rule.salt, out) if isinstance(case.rule, Drawn) else case.rule
    for buckets in (1, 3):
        program = case.program(buckets)
        bounds = np.append(out.at, out.size)[program.bounds]
        bounds[0] = 0
        lost = program.lost and LostCopies(case, out.nodes)
        facts = RingInMemory(out.ring(case.ring))
        far = replace(program, bounds=bounds, facts=facts, rule=rule, lost=lost)
        tables = case.play(far, out)
        found = [{**gathered(tables, name)} for name in (ARRIVALS, ARRIVED_COPIES)]
        for table in found:
            table |= {name: out.nodes(table[name]) for name in ("node", "sender") if table}
        assert rows(found[0], *_LABEL) == arrivals
        assert copy_tuples(found[1]) == copies
