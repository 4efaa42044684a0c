"""How a message spreads, by supersteps in buckets, against an event by event simulation."""

from __future__ import annotations

import random
import zlib
from dataclasses import dataclass, replace

import numpy as np
import pytest
from oracle.dissemination import Edge, First, spread
from spread_out import SpreadOut

from scribe_spark.dissemination import (
    ARRIVALS,
    ARRIVED_COPIES,
    EDGES,
    START,
    Dissemination,
    all_but_sender,
    copy_rows,
    delivery_rows,
)
from scribe_spark.engine.buckets import arrow_schema
from scribe_spark.engine.facts import RingInMemory
from scribe_spark.engine.in_task import play
from scribe_spark.engine.packing import Packed, concatenate, pack, take
from scribe_spark.engine.program import AT, Tables
from scribe_spark.engine.ring import Ring
from scribe_spark.engine.views import Names
from scribe_spark.multicast import COPIES, DELIVERIES, HOPS, TIME

LAN_US = 1000


@dataclass(frozen=True)
class Routers:
    """A few routers; the way round may be the shorter one."""

    delay_us: np.ndarray

    def delays(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return self.delay_us[a, b]

    def ids(self, index: np.ndarray) -> np.ndarray:
        return index + 500


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
        rng = self.rng = random.Random(f"dissemination {seed}")
        self.n, self.groups = rng.randint(2, 40), rng.randint(1, 3)
        self.numbers = np.array(sorted(rng.sample(range(1, 50), self.groups)))
        routers = rng.randint(1, 8)
        drawn_us = [
            [rng.choice([0, 1, 2, 5, 20, 40]) * 1000 for _ in range(routers)]
            for _ in range(routers)
        ]
        self.kernel = Routers(np.array(drawn_us) * (1 - np.eye(routers, dtype=np.int64)))
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
            )
            arrivals += [
                (group, f.node, f.at_us, f.hops, f.sender, *f.label) for f in first.values()
            ]
            copies += [
                (group, c.receiver, c.at_us, c.hops, c.sender, *c.label, c.first) for c in sent
            ]
        return sorted(arrivals), sorted(copies)

    def program(self, buckets: int) -> Dissemination:
        cuts = sorted(self.rng.choices(range(self.n + 1), k=buckets - 1))
        return Dissemination(
            *(np.array([0, *cuts, self.n]), RingInMemory(self.ring), self.kernel, self.lan_us),
            *(self.rule, ("dim", "way"), self.clock, self.processing_us),
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


def compare(seed: int) -> None:
    case = Case(seed)
    arrivals, copies = case.expected()
    for buckets in (1, 2, 7):
        tables = case.play(case.program(buckets))
        assert rows(gathered(tables, ARRIVALS), *_LABEL) == arrivals
        assert rows(gathered(tables, ARRIVED_COPIES), *_LABEL, "first") == copies


@pytest.mark.parametrize("seed", range(60))
def test_copies_are_those_of_a_simulation_event_by_event(seed):
    compare(seed)


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
        far = replace(program, bounds=bounds, facts=RingInMemory(out.ring(case.ring)), rule=rule)
        tables = case.play(far, out)
        found = [{**gathered(tables, name)} for name in (ARRIVALS, ARRIVED_COPIES)]
        for table in found:
            table |= {name: out.nodes(table[name]) for name in ("node", "sender") if table}
        assert rows(found[0], *_LABEL) == arrivals
        assert rows(found[1], *_LABEL, "first") == copies


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(60, 600))
def test_copies_are_those_of_a_simulation_event_by_event_in_many_cases(seed):
    compare(seed)


def test_the_cases_take_copies_back():
    """What some nodes know as their first copy in a superstep is not the first in the end."""
    sent = []

    class Watched(Dissemination):
        def step(self, bucket, tables, inbox, superstep):
            out = super().step(bucket, tables, inbox, superstep)
            sent.extend(column["sent"] for column in out.values())
            return out

    for seed in range(30):
        case = Case(seed)
        case.play(Watched(**vars(case.program(2))))
    assert not np.concatenate(sent).all()


@pytest.mark.parametrize("seed", range(20))
def test_typed_rows_say_the_same(seed):
    case = Case(seed)
    program = case.program(2)
    tables = case.play(program)
    arrivals, copies = case.expected()
    node, router = case.ring.node, case.kernel.ids(case.ring.router)
    names = Names(RingInMemory(case.ring), case.kernel, case.numbers)

    def typed(columns, schema):
        batch = names.batch(columns, arrow_schema(schema))
        return {name: batch.column(name) for name in batch.schema.names}

    heard = typed(delivery_rows(gathered(tables, ARRIVALS)), DELIVERIES)
    assert rows(heard, "group", "node", "hops", "delay_us") == sorted(
        (case.numbers[g], node[n], hops, at) for g, n, at, hops, *_ in arrivals if hops
    )
    came = gathered(tables, ARRIVED_COPIES)
    if not came:
        assert not copies
        return
    found = typed(copy_rows(program, came), COPIES)
    columns = ("group", "sender", "receiver", "sender_router", "receiver_router", "hop", "first")
    assert rows(found, *columns) == sorted(
        (case.numbers[g], node[s], node[n], router[s], router[n], hops, first)
        for g, n, _, hops, s, *_, first in copies
    )
    sent = found["sent_us"].to_pylist()
    if case.clock == HOPS:
        assert sent == [None] * len(copies)
    else:
        assert sorted(sent) == sorted(at - case.delay(s, n) for _, n, at, _, s, *_ in copies)
