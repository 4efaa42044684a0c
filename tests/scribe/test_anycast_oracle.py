"""The kernel of anycast ends where the oracle ends, over one bucket and several."""

from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import pytest
from arriving import Kernel
from oracle.anycast import Case, random_case, walk
from poisoned import PoisonedTask
from seeds import seeds

from scribe_spark.core.arrays import NONE
from scribe_spark.engine import Columns, Tables
from scribe_spark.engine.facts import Ring, RingInMemory
from scribe_spark.rounds.applications import Applications
from scribe_spark.rounds.events import Lives
from scribe_spark.systems.scribe.anycast import Anycast, Anycasts, play_anycasts
from scribe_spark.systems.scribe.state import ChildrenTable, Copies, Entries, table_of
from scribe_spark.systems.scribe.trees import settled_environment, settled_round
from scribe_spark.systems.scribe.upcalls import CAUSES, Application, Calls


@dataclass(frozen=True)
class _Routes:
    """The next hop of each node to the group's key, as of `overlay.route.NextHop`."""

    onward: np.ndarray

    def __call__(self, first, tables, at, key_hi, key_lo):
        return self.onward[at]


@dataclass(frozen=True)
class _Asks:
    """Makes the application of members, some of which accept; by their numbers."""

    accepts: frozenset[int]

    def __call__(self, nodes: int) -> Application:
        return _Accepts(self.accepts)


class _Accepts(Application):
    def __init__(self, accepts: frozenset[int]) -> None:
        self.accepting = accepts

    def accept(self, calls: Calls, asked: Columns) -> np.ndarray:
        return np.array([node in self.accepting for node in asked["node"].tolist()], dtype=bool)


def _tables(case: Case, bounds: np.ndarray) -> list[Tables]:
    """Return the trees of a case as the tables of buckets."""
    size, tree = len(case.nodes), [x for x in range(len(case.nodes)) if case.is_in_tree(x)]
    entries, children, copies = Entries(), ChildrenTable(), Copies()
    entries.enter(np.array(tree, dtype=np.int64), 0, CAUSES[0])
    entries.member[:] = [x in case.members for x in tree]
    entries.root[:] = [x == case.root for x in tree]
    entries.parent[:] = [case.parent(x) for x in tree]
    edges = np.array(sorted(p * size + c for p, c in case.edges), dtype=np.int64)
    zero = np.zeros(len(edges), dtype=np.int64)
    children.insert(edges, number=zero, refreshed=zero, got_payload=zero.astype(bool))
    if case.root != NONE:
        of = {"creator": case.root, "root": case.root, "value": NONE}
        copies.insert(np.array([case.root]), epoch=0, version=0, incarnation=0, **of)
    found = []
    for first, last in pairwise(bounds):
        parts = {}
        for name, whole, scale in (
            ("entries", entries, 1),
            ("children", children, size),
            ("copies", copies, 1),
        ):
            node = whole.key // scale
            mine = whole.take((node >= first) & (node < last))
            if len(mine):
                parts[table_of(name)] = mine.to_columns()
        found.append(Tables.of(parts))
    return found


def _play(case: Case, buckets: int) -> list[tuple[int, int, int, int]]:
    """Let the kernel play the calls: accepted, messages, visited, delay_us."""
    size = len(case.nodes)
    every, zero = np.arange(size), np.zeros(size, dtype=np.uint64)
    ring = Ring(zero, zero, np.array(case.nodes), every)
    bounds = np.linspace(0, size, buckets + 1).astype(np.int64)
    kernel = Kernel(np.array(case.distance, dtype=np.int64).reshape(size, size), every)
    lives = Lives.of(size, np.flatnonzero(case.alive))
    environment = settled_environment(RingInMemory(ring), bounds, kernel, case.seed)
    environment = replace(environment, lives=lives)
    onward = every.copy()
    for route in case.routes.values():
        onward[list(route[:-1])] = route[1:]
    key, number = zero[:1], np.array([case.group_number])
    round = settled_round(number, key, key, size, _Routes(onward), 0)
    applications = Applications(_Asks(frozenset(case.nodes[x] for x in case.accepts)), size)
    calls = np.arange(len(case.queries))
    anycasts = Anycasts(calls, np.zeros_like(calls), np.array(case.queries))
    round = replace(round, applications=applications)
    program = Anycast(environment, round, anycasts)
    found = play_anycasts(PoisonedTask(_tables(case, bounds)), program)
    columns = found.accepted, found.messages, found.visited, found.delay_us
    return list(zip(*(column.tolist() for column in columns), strict=True))


@pytest.mark.parametrize("seed", seeds(range(200), 12))
def test_the_kernel_equals_the_oracle(seed: int) -> None:
    case = random_case(seed)
    walks = [walk(case, query) for query in range(len(case.queries))]
    expected = [(one.accepted, one.messages, len(one.visited), one.delay_us) for one in walks]
    for buckets in (1, 2, 7):
        assert _play(case, buckets) == expected, f"{buckets} buckets"
