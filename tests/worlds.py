"""Many worlds in one: all random cases of the oracle side by side, so that one Spark run tests all.

A Spark run per case would take minutes.  Here case `s` of the oracle has routers, nodes and groups
of its own numbers (``STRIDE * s`` and up); one table holds the routes of all cases, with a far
delay and no route between two of them, and one overlay for each b holds the state of all nodes.
What nodes know is made by the very kernels of `perfect_tables`, a case at a time, without Spark.
"""

import functools
import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import pairwise

import arriving
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from identifiers import halves
from oracle import scribe as oracle_scribe
from oracle.pastry import Overlay
from oracle.random_cases import Case, random_case
from oracle.ring import RING, shared_digits
from oracle.routes import Routes
from pyspark.sql import DataFrame, SparkSession

from scribe_spark import schemas
from scribe_spark.engine import Tables
from scribe_spark.engine.facts import Ring, RingInMemory, ring_of
from scribe_spark.engine.in_task import InTask
from scribe_spark.multicast import DELIVERIES, EDGES
from scribe_spark.pastry.knowledge import live_knowledge
from scribe_spark.pastry.overlay import PastryOverlay
from scribe_spark.pastry.perfect_tables import PerfectTables
from scribe_spark.pastry.states import States
from scribe_spark.rounds.events import is_node
from scribe_spark.underlay.dijkstra import LinkArrays, route_block
from scribe_spark.underlay.matrices import MatrixUnderlay, RouteMatrices, pendant_exits

SEEDS = range(240)
STRIDE = 100  # no case has as many routers, nodes or groups
BS = (1, 2, 4, 8)
#: 4, and in slow tests the others.
EACH_B = [4, *(pytest.param(b, marks=pytest.mark.slow) for b in BS if b != 4)]
LAN_US = 1000
FAR_US = 2**30


class Memo(Overlay):
    """The oracle's overlay; what it works out again and again is kept."""

    def __init__(self, *args) -> None:
        super().__init__(*args)
        self._clockwise: dict[int, list[int]] = {}
        self._hops: dict[tuple[int, int], int | None] = {}

    def _others_clockwise(self, node: int) -> list[int]:
        if node not in self._clockwise:
            self._clockwise[node] = super()._others_clockwise(node)
        return self._clockwise[node]

    def next_hop(self, node: int, key: int) -> int | None:
        """See `Overlay.next_hop`."""
        if (node, key) not in self._hops:
            self._hops[node, key] = super().next_hop(node, key)
        return self._hops[node, key]


def route_matrices(case: Case, tie: str = "delay", seed: int = 1) -> tuple[np.ndarray, np.ndarray]:
    """delay_us and pred from all routers to all, by the kernel under test."""
    arrays = LinkArrays.of(np.array(case.routers), link_frame(case), tie, seed)
    return route_block(arrays, np.arange(len(case.routers)))


@dataclass(frozen=True)
class Kernel(arriving.Kernel):
    """The routes of one case, as the table kernels ask for them (`underlay.protocol.Kernel`)."""

    pred: np.ndarray

    def open(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        return self.delay_us, self.pred, self.routers


@dataclass(frozen=True)
class World:
    """One case, the oracle's view of it, and its place among the others.

    Numbers of the case plus `base` are the numbers in all tables.
    """

    case: Case
    routes: Routes
    overlay: Memo
    base: int

    @functools.cached_property
    def kernel(self) -> Kernel:
        """The case's routes, made by the kernel under test."""
        delay_us, pred = route_matrices(self.case)
        return Kernel(delay_us, np.array(self.case.routers) + self.base, pred)

    @functools.cached_property
    def grown(self) -> oracle_scribe.Scribe:
        """The oracle's Scribe after all joins."""
        system = oracle_scribe.Scribe(self.overlay, self.case.keys)
        system.join_all(self.case.joins())
        return system

    @functools.cached_property
    def roots(self) -> dict[int, int]:
        """group -> root."""
        return {group: self.overlay.root(key) for group, key in self.case.keys.items()}

    def deliveries(self, source: str) -> list[tuple]:
        """(group, node, hops, delay_us) of the oracle's multicasts, sorted."""
        sent = {
            group: self.grown.multicast(
                group, source, None if source == "root" else self.sources[group]
            )
            for group in self.case.keys
        }
        return sorted((group, node, *got) for group, a in sent.items() for node, got in a.items())

    @functools.cached_property
    def sources(self) -> dict[int, int]:
        """group -> a member, drawn; often the root, where that is one."""
        rng = random.Random(self.case.seed)
        return {
            group: rng.choice(
                sorted(members) + [self.roots[group]] * (self.roots[group] in members)
            )
            for group, members in self.case.members.items()
        }

    def node_table(self) -> pa.Table:
        """`schemas.NODES`."""
        rows = (
            (self.base + node, *halves(ident), self.base + self.case.router[node])
            for node, ident in self.case.ids.items()
        )
        return _table(schemas.NODES.names, rows)

    @functools.cached_property
    def ring(self) -> Ring:
        """All nodes in the order of their nodeIds; routers are indices."""
        return ring_of(self.node_table(), self.kernel)[0]

    @functools.cached_property
    def knowledge(self) -> pa.Table:
        """What :meth:`make_knowledge` makes, with as few digits to a prefix as can be."""
        return self.make_knowledge(1)

    def make_knowledge(self, digits: int) -> pa.Table:
        """Perfect knowledge of all nodes, by the kernels of `perfect_tables`."""
        (tables,) = self.make_tables(np.array([0, len(self.ring)]), digits)
        states = States.of_tables(self.ring, 0, tables)
        return pa.Table.from_batches(live_knowledge(states, is_node, self.kernel))

    def make_tables(self, bounds: np.ndarray, digits: int = 1) -> list[dict]:
        """The tables of perfect knowledge, bucket by bucket.

        `bounds` are those of `engine.facts.bucket_bounds`; nodes of a prefix share `digits`.
        """
        case, engine = self.case, InTask([Tables() for _ in bounds[1:]])
        given = len(case.routers), case.b, case.leaf_set_size, digits
        PerfectTables(RingInMemory(self.ring), bounds, self.kernel, *given)(engine)
        return [dict(one) for one in engine.tables]

    def interesting_keys(self) -> list[int]:
        """Keys: the groups', nodeIds, both ends of the ring, halfway between neighbours and by."""
        rng = random.Random(self.case.seed)
        in_order = sorted(self.case.ids.values())
        keys = {*self.case.keys.values(), 0, RING - 1, rng.randrange(RING), rng.randrange(RING)}
        keys |= set(rng.sample(in_order, min(4, len(in_order))))
        keys |= {rng.choice(in_order) ^ 1 << rng.randrange(128) for _ in range(3)}
        for _ in range(2):
            place = rng.randrange(len(in_order))
            here, after = in_order[place], in_order[(place + 1) % len(in_order)]
            middle = here + (after - here) % RING // 2
            keys |= {(middle + step) % RING for step in (-1, 0, 1)}
        return sorted(keys)


def world(case: Case) -> World:
    """A case and the oracle's view of it."""
    routes = case.routes()
    overlay = Memo(case.ids, case.router, routes.delay, case.b, case.leaf_set_size, LAN_US)
    return World(case, routes, overlay, STRIDE * case.seed)


@functools.cache
def worlds() -> tuple[World, ...]:
    """All cases."""
    return tuple(world(modest(random_case(seed))) for seed in SEEDS)


def modest(case: Case) -> Case:
    """Large routing tables (b = 8, many digits shared) only in small cases: Spark copies them."""
    ids = sorted(case.ids.values())
    depth = max((shared_digits(*pair, 8) for pair in pairwise(ids)), default=0)
    return replace(case, b=4) if case.b == 8 and len(ids) * depth > 100 else case


def of_b(b: int | None) -> list[World]:
    """The cases with digits base 2**b; all without a base."""
    return [one for one in worlds() if b is None or one.case.b == b]


def by_seed(rows: Iterable[tuple], *moved: int) -> dict[int, list[tuple]]:
    """Rows by case, with the case's own numbers in the columns `moved`; sorted."""
    out: dict[int, list[tuple]] = {seed: [] for seed in SEEDS}
    for row in rows:
        seed = row[moved[0]] // STRIDE
        assert all(row[at] // STRIDE == seed for at in moved), f"{row} mixes cases"
        out[seed].append(tuple(v % STRIDE if at in moved else v for at, v in enumerate(row)))
    return {seed: sorted(mine) for seed, mine in out.items()}


def link_frame(case: Case) -> pd.DataFrame:
    """The links of a case as a topology has them."""
    rows = [(src, dst, d / 1000, float(w)) for (src, dst), (w, d) in case.links.items()]
    frame = pd.DataFrame(rows, columns=["src", "dst", "delay_ms", "weight"])
    return frame.astype({"src": "int64", "dst": "int64", "delay_ms": float, "weight": float})


# --- all cases as Spark has them ------------------------------------------------------------------


@functools.cache
def underlay(spark: SparkSession) -> MatrixUnderlay:
    """The routes of all cases: one block each, no way from one to another."""
    routers = np.concatenate([one.kernel.routers for one in worlds()])
    delay_us = np.full((len(routers), len(routers)), FAR_US, dtype=np.int32)
    pred = np.full_like(delay_us, -1)
    at = 0
    for one in worlds():
        block = slice(at, at + len(one.kernel.routers))
        delay_us[block, block] = one.kernel.delay_us
        pred[block, block] = np.where(one.kernel.pred < 0, -1, one.kernel.pred + at)
        at = block.stop
    links = sum(len(one.case.links) for one in worlds())
    routes = RouteMatrices(routers, delay_us, pred, pendant_exits(len(routers), []))
    return MatrixUnderlay.of(spark, routes, links, LAN_US)


@functools.cache
def overlay(spark: SparkSession, b: int) -> PastryOverlay:
    """The overlay of all cases with digits base 2**b."""
    rows = pa.concat_tables(one.knowledge for one in of_b(b))
    knowledge = spark.createDataFrame(rows, schemas.KNOWLEDGE)
    return PastryOverlay.of_knowledge(knowledge, underlay(spark), b, leaf_set=2)


def _frame(spark: SparkSession, schema: str, rows: Iterable[tuple]) -> DataFrame:
    names = [column.split()[0] for column in schema.split(", ")]
    return spark.createDataFrame(_table(names, rows), schema)


def _table(names: list[str], rows: Iterable[tuple]) -> pa.Table:
    columns = zip(names, zip(*rows, strict=True), strict=True)
    return pa.table({name: pa.array(values, pa.int64()) for name, values in columns})


MESSAGE = "node bigint, key_hi bigint, key_lo bigint, number bigint"


@functools.cache
def questions(b: int) -> list[tuple[World, int, int]]:
    """Every node of every case questions for every interesting key."""
    return [
        (one, node, key)
        for one in of_b(b)
        for key in one.interesting_keys()
        for node in one.case.ids
    ]


def messages(spark: SparkSession, rows: list[tuple[World, int, int]]) -> DataFrame:
    """Messages at (world, node) for a key; the payload `number` is the place in `rows`."""
    numbered = (
        (one.base + node, *halves(key), number) for number, (one, node, key) in enumerate(rows)
    )
    return _frame(spark, MESSAGE, numbered)


GROUPS = (
    "group bigint, key_hi bigint, key_lo bigint, size bigint, creator bigint, "
    "creator_router bigint, root bigint, root_router bigint, source bigint, source_router bigint"
)


@functools.cache
def groups(spark: SparkSession, b: int | None = None) -> DataFrame:
    """:data:`GROUPS` of all cases (of one b); root and source as the oracle says."""

    def rows() -> Iterator[tuple]:
        for one in of_b(b):
            rng = random.Random(one.case.seed)
            for group, key in one.case.keys.items():
                creator = rng.choice(sorted(one.case.ids))
                places = (creator, one.roots[group], one.sources[group])
                pairs = [(one.base + n, one.base + one.case.router[n]) for n in places]
                size = len(one.case.members[group])
                yield one.base + group, *halves(key), size, *[v for pair in pairs for v in pair]

    return _frame(spark, GROUPS, rows())


@functools.cache
def members(spark: SparkSession, b: int | None = None) -> DataFrame:
    """``group, node, router`` of all cases (of one b)."""
    rows = (
        (one.base + group, one.base + node, one.base + one.case.router[node])
        for one in of_b(b)
        for group, node in one.case.joins()
    )
    return _frame(spark, "group bigint, node bigint, router bigint", rows)


@functools.cache
def nodes(spark: SparkSession) -> DataFrame:
    """`schemas.NODES` of all cases."""
    return spark.createDataFrame(pa.concat_tables(one.node_table() for one in worlds()))


@functools.cache
def edges(spark: SparkSession, b: int | None = None) -> DataFrame:
    """The oracle's trees of all cases (of one b), with routers and delays."""
    rows = (
        (
            *(one.base + number for number in (group, parent, child)),
            *(one.base + one.case.router[end] for end in (parent, child)),
            one.overlay.proximity(parent, child),
        )
        for one in of_b(b)
        for group, parent, child in sorted(one.grown.edges())
    )
    return _frame(spark, f"{EDGES}, delay_us bigint", rows)


@functools.cache
def deliveries(spark: SparkSession, source: str) -> DataFrame:
    """`multicast.DELIVERIES` of a message that each group's source multicasts, as the oracle's."""
    rows = (
        (one.base + group, one.base + node, *way)
        for one in worlds()
        for group, node, *way in one.deliveries(source)
    )
    return _frame(spark, DELIVERIES, rows)
