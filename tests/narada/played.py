"""Groups of Narada, played period by period without Spark, over delays in a matrix."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from scribe_spark.engine import Columns
from scribe_spark.engine.facts import Ring
from scribe_spark.rounds.group_overlays import Network, Overlays
from scribe_spark.rounds.grown_overlays import Period
from scribe_spark.systems.narada.config import NaradaConfig
from scribe_spark.systems.narada.meshes import WAITING, CellRows, Meshes, read_table
from scribe_spark.systems.narada.overlay import Narada

__all__ = ["MatrixDelays", "Played", "pairs", "play_case"]


@dataclass(frozen=True)
class MatrixDelays:
    """The delays between routers, as a kernel: int64, shape (routers, routers)."""

    delay_us: np.ndarray

    def delays(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return self.delay_us[a, b]


def pairs(rows: Iterable[tuple[int, int]]) -> tuple[np.ndarray, np.ndarray]:
    """Return pairs, ascending, as two arrays."""
    first, second = np.array(sorted(rows), dtype=np.int64).reshape(-1, 2).T
    return first, second


@dataclass
class Played:
    """The state of groups; nodes are positions, groups are indices."""

    delay_us: np.ndarray  # D, shape (K, K)
    seed: int = 1
    settings: Mapping[str, Any] = field(default_factory=dict)
    groups: tuple[int, ...] = (0,)  # the numbers
    node: np.ndarray | None = None  # the numbers, by position

    def __post_init__(self) -> None:
        size = len(self.delay_us)
        self.alive, self.number = np.ones(size, dtype=bool), 0
        node = np.arange(size) if self.node is None else self.node
        none = np.zeros(size, dtype=np.uint64)
        ring = Ring(none, none, node, np.arange(size))
        self.network = Network(ring, MatrixDelays(self.delay_us), 0, self.seed)
        self.system = Narada(NaradaConfig(**self.settings).for_tasks())
        self.state: dict[str, Columns] = {}

    def play(
        self,
        joins: Iterable[tuple[int, int]] = (),
        quits: Iterable[tuple[int, int]] = (),
        died: Iterable[int] = (),
        recover: Iterable[int] = (),
    ) -> Mapping[str, Columns]:
        """Play a period; return the messages."""
        died = np.array(sorted(died), dtype=np.int64)
        self.alive[died] = False
        self.alive[list(recover)] = True
        groups = np.array(self.groups)
        keys = groups.astype(np.uint64), groups.astype(np.uint64)
        events = pairs(joins), pairs(quits), died, self.alive.copy(), self.network
        period = Period(self.number, self.number, True, True, groups, *keys, *events)
        self.number += 1
        sent = self.system.play_period(self.state, period)
        self.counts = period.counts
        return sent

    @property
    def meshes(self) -> Meshes:
        return Meshes.of(self.state)

    def measures(self) -> dict[str, float]:
        return self.system.measures_of(self.system.sums(self.state))

    def edges(self, sources: Iterable[tuple[int, int]]) -> Columns:
        """Return the edges of publications, one of each group and source."""
        of, source = pairs(sources)
        groups = np.array(self.groups)
        overlays = Overlays(groups, of, source, of, source, state=self.state)
        return self.system.edges(overlays, self.network)


def play_case(case: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return what is seen of each period of a case, in the form of the oracle's cases."""
    node, groups = np.array(case["nodes"]), tuple(case["groups"])
    given = np.array(case["distance"]), case["seed"], case["settings"], groups, node
    played, seen = Played(*given), []
    index = {number: place for place, number in enumerate(groups)}
    for number, events in enumerate(case["periods"]):
        pairs_of = {
            kind: [(index[group], node) for group, node in events[kind]]
            for kind in ("joins", "quits")
        }
        back = np.flatnonzero(np.array(events["alive"]) & ~played.alive).tolist()
        sent = played.play(**pairs_of, died=events["died"], recover=back)
        played.alive = np.array(events["alive"])
        messages = {kind: _rows(groups, *rows.values()) for kind, rows in sent.items()}
        copies = {}
        for group, source in case["publications"].get(number, ()):
            edges = played.edges([(index[group], source)])
            ends = zip(edges["node"].tolist(), edges["peer"].tolist(), strict=True)
            copies[group, source] = sorted(ends)
        seen.append({"groups": _state_of(played), "messages": messages, "copies": copies})
    return seen


def _rows(groups: tuple[int, ...], group: np.ndarray, *columns: np.ndarray) -> list[tuple]:
    numbers = np.array(groups)[group].tolist()
    return sorted(zip(numbers, *(column.tolist() for column in columns), strict=True))


def _state_of(played: Played) -> dict[int, dict[str, list]]:
    """Return the state of the groups that have members, or some that wait, by number."""
    of, groups = played.meshes, played.groups
    here = of.is_in[of.a] | of.is_in[of.b]
    once = np.flatnonzero(here & (of.a < of.b))
    rows = CellRows(of, np.flatnonzero(of.is_in))
    knows = np.flatnonzero(of.cells["heard"][rows.cell] >= 0)
    cells = (of.cells[name][rows.cell[knows]] for name in ("heard", "number", "cost", "next"))
    owner = rows.e[rows.of[knows]]
    waiting = read_table(played.state, WAITING)
    found = {
        "in": _rows(groups, of.group[of.is_in], of.node[of.is_in]),
        "waiting": _rows(groups, *waiting.values()),
        "links": _rows(
            *(groups, of.group[of.a[once]], of.node[of.a[once]], of.node[of.b[once]]),
            of.since[once],
        ),
        "cells": _rows(
            *(groups, of.group[owner], of.node[owner], of.node[rows.column(knows)], *cells)
        ),
    }
    there = {group for name in ("in", "waiting") for group, *_ in found[name]}
    return {
        group: {name: [row[1:] for row in rows if row[0] == group] for name, rows in found.items()}
        for group in sorted(there)
    }
