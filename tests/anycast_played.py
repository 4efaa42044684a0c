"""Anycasts on a Scribe tree that is given by its edges, in this process, without Pastry."""

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
from arriving import Kernel
from poisoned import Poisoned, play_blind
from pyspark import cloudpickle
from split_states import empty_state, split_state, tables_of

from scribe_spark.engine.facts import Ring, RingInMemory
from scribe_spark.engine.packing import Columns
from scribe_spark.rounds.applications import Applications
from scribe_spark.rounds.events import Lives
from scribe_spark.systems.scribe import anycast
from scribe_spark.systems.scribe.state import NOTHING
from scribe_spark.systems.scribe.trees import settled_environment, settled_round
from scribe_spark.systems.scribe.upcalls import Application, Calls

cloudpickle.register_pickle_by_value(sys.modules[__name__])  # applications go to the workers


class Accepting(Application):
    """Members that accept, by number; it records whom it asks, for a program in one process."""

    def __init__(self, nodes: set[int]) -> None:
        self.nodes, self.asked = nodes, list[int]()

    def accept(self, calls: Calls, asked: Columns) -> np.ndarray:
        """See `Application.accept`."""
        assert len(calls.here["node"]) == 1 + asked["call"].max()
        self.asked += asked["node"].tolist()
        return np.isin(asked["node"], sorted(self.nodes))


class Few(Application):
    """Of the members of a group, those with a number that seven divides accept."""

    def __init__(self, nodes: int) -> None:
        assert nodes > 0

    def accept(self, calls, asked) -> np.ndarray:
        """See `Application.accept`."""
        members = calls.here["joined"][asked["call"]] >= 0
        assert members.all()
        return asked["node"] % 7 == 0


class Nobody(Few):
    """No member accepts."""

    def accept(self, calls, asked) -> np.ndarray:
        """See `Application.accept`."""
        return np.zeros(len(asked["node"]), dtype=bool)


@dataclass(frozen=True)
class Routes:
    """A rule by which each node has one next hop, for all keys."""

    onward: Mapping[int, int]

    def __call__(self, first, tables, at, key_hi, key_lo) -> np.ndarray:
        return np.array([self.onward.get(node, -1) for node in at.tolist()], dtype=np.int64)


class _Engine:
    """A player of blind buckets that keeps the messages of each superstep."""

    def __init__(self, tables: list[Poisoned]) -> None:
        self.tables = tables

    def play(self, program: anycast.Anycast) -> None:
        play_blind(program, self.tables)

    def keep(self, orchestrate: Callable[[Any], None], called: str) -> None:
        orchestrate(self)

    def has(self, name: str) -> bool:
        return any(name in mine for mine in self.tables)

    def take(self, name: str) -> dict[str, Columns]:
        parts = [mine.pop(name) for mine in self.tables if name in mine]
        if not parts:
            return {}
        return {name: {one: np.concatenate([part[one] for part in parts]) for one in parts[0]}}


def play_case(case: Mapping[str, Any], buckets: int = 1) -> list[dict[str, int]]:
    """Return the results of a case of the oracle, query by query; nodes are positions.

    The case may lack ``nodes, seed, group_number, alive, distance, routes``.
    """
    nodes = case.get("nodes") or list(range(1 + max(max(edge) for edge in case["edges"])))
    size, node = len(nodes), np.array(nodes)
    bounds = np.linspace(0, size, buckets + 1).astype(np.int64)
    none = np.zeros(size, dtype=np.uint64)
    ring = Ring(none, none, node, np.arange(size))
    delay_us = np.array(case.get("distance", np.ones((size, size), dtype=np.int64)))
    onward = {case["root"]: case["root"]}
    for route in case.get("routes", {}).values():
        onward |= dict(pairwise(route))
    environment = settled_environment(
        RingInMemory(ring), bounds, Kernel(delay_us, np.arange(size)), case.get("seed", 1)
    )
    dead = np.flatnonzero(~np.array(case.get("alive", [True] * size), dtype=bool))
    lives = Lives.of(size, np.arange(size))
    lives.exit(dead, 0, 0)
    environment = replace(environment, lives=lives)
    number = np.array([case.get("group_number", 0)])
    halves = np.zeros(1, dtype=np.uint64)
    round = settled_round(number, halves, halves, size, Routes(onward), 0)
    state = _state(case, size)
    tables = [
        Poisoned.of(dict(tables_of(split_state(state, ring, *bounds[at : at + 2].tolist()))))
        for at in range(buckets)
    ]
    origin = np.array(case["queries"])
    which = np.arange(len(origin))
    calls = anycast.Anycasts(which, np.zeros(len(origin), dtype=np.int64), origin)
    application = Accepting({nodes[one] for one in case["accepts"]})
    applications = Applications(lambda _: application, size)
    round = replace(round, applications=applications)
    program = anycast.Anycast(environment, round, calls)
    found = anycast.play_anycasts(_Engine(tables), program).to_columns()
    assert not any("anycast" in name for mine in tables for name in mine)
    rows = zip(*(column.tolist() for column in found.values()), strict=True)
    return [dict(zip(found, row, strict=True)) for row in rows]


def _state(case: Mapping[str, Any], size: int) -> Any:
    """Return what the nodes know of the group's tree."""
    state = empty_state(size, 1)
    edges = np.array(sorted(case["edges"]), dtype=np.int64).reshape(-1, 2)
    inside = np.array(sorted({*edges.ravel().tolist(), case["root"], *case["members"]}))
    parent = np.full(size, -1)
    parent[edges[:, 1]] = edges[:, 0]
    state.entries.insert(
        inside,
        entered=0,
        cause=0,
        member=np.isin(inside, case["members"]),
        joined=0,
        root=inside == case["root"],
        parent=parent[inside],
        number=0,
        heard=0,
        tried=False,
        extra=NOTHING,
        path=-1,
        moved=False,
        heeded=False,
    )
    state.children.insert(
        edges[:, 0] * size + edges[:, 1], number=0, refreshed=0, got_payload=False
    )
    return state
