"""Commands for HyParView and Plumtree, played by the kernels on buckets of one process."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from scribe_spark import draws
from scribe_spark.clock import (
    COPIES,
    COUNTS,
    PLACES,
    ClockSetting,
    Kinds,
    PlayKernel,
    Wires,
    play_kernel,
)
from scribe_spark.engine.in_task import InTask
from scribe_spark.engine.packing import Columns
from scribe_spark.engine.program import Tables
from scribe_spark.plumtree.hyparview import HyParViewRules
from scribe_spark.plumtree.overlay import RECEIPTS, VIEWS, PlumtreeKernel, PlumtreeSetting
from scribe_spark.plumtree.plumtree import PlumtreeRules

#: A command: time in microseconds, kind, node, value, and the room (0 by default); kinds as in
#: `PlumtreeKernel.commands`.
Command = tuple[int, str, int, int] | tuple[int, str, int, int, int]


def waves(nodes: int, wave_us: int, seed: int, growth: float = 1.5) -> list[Command]:
    """Return arrivals in waves, at drawn contacts."""
    commands, there, wave = [(0, "arrive", 0, -1)], 1, 1
    while there < nodes:
        end = min(nodes, there + max(1, int(there * (growth - 1))))
        new = np.arange(there, end)
        contact = draws.bits_np(seed, "contact", new) % np.uint64(there)
        pairs = zip(new.tolist(), contact.tolist(), strict=True)
        commands += [(wave * wave_us, "arrive", node, at) for node, at in pairs]
        there, wave = end, wave + 1
    return commands


@dataclass
class Overlay:
    """An overlay on buckets, which plays commands."""

    nodes: int
    delay: Callable[[np.ndarray, np.ndarray], np.ndarray]
    window_us: int
    views: HyParViewRules = field(default_factory=HyParViewRules)
    tree: PlumtreeRules = field(default_factory=PlumtreeRules)
    seed: int = 0
    buckets: int = 1
    grows: bool = True
    wires: Wires | None = None
    #: (room, node) of all places, ascending; by default all nodes are in room 0.
    places: np.ndarray | None = None
    kernel: Callable[[PlumtreeSetting], PlumtreeKernel] = PlumtreeKernel

    def __post_init__(self) -> None:
        self.bounds = np.linspace(0, self.nodes, self.buckets + 1).astype(np.int64)
        self.player = InTask([Tables.of({}) for _ in range(self.buckets)])
        if self.places is None:
            return
        room, node = self.places.T
        for bucket, tables in enumerate(self.player.tables):
            mine = (node >= self.bounds[bucket]) & (node < self.bounds[bucket + 1])
            tables[PLACES] = {"room": room[mine], "node": node[mine]}

    def fix(self, views: np.ndarray, lazy: np.ndarray | None = None) -> None:
        """Start with living nodes whose views (n, slots) are `views`; all neighbours are eager."""
        self.grows = False
        lazy = np.zeros(views.shape, dtype=bool) if lazy is None else lazy
        for bucket, tables in enumerate(self.player.tables):
            some = slice(*self.bounds[bucket : bucket + 2])
            alive = np.ones(len(views[some]), dtype=bool)
            if not len(alive):
                continue
            tables[VIEWS] = {"active": views[some], "lazy": lazy[some], "alive": alive}

    def play(self, commands: list[Command]) -> None:
        """Play commands until nothing is due."""
        names = list(PlumtreeKernel.commands)
        rows = [(one[0], names.index(one[1]), *one[2:], 0)[:5] for one in commands]
        names_of = "time_us", "kind", "node", "value", "room"
        table = np.array(rows, dtype=np.int64).reshape(-1, len(names_of))
        columns = dict(zip(names_of, table.T, strict=True))
        published = np.flatnonzero(columns["kind"] == names.index("publish"))
        room = np.zeros(int(columns["value"][published].max(initial=-1)) + 1, dtype=np.int64)
        room[columns["value"][published]] = columns["room"][published]
        setting = PlumtreeSetting(self.views, self.tree, self.seed, room, self.grows)
        self.kinds = Kinds.of(self.kernel(setting)).names
        clock = ClockSetting(self.nodes, self.delay, self.window_us, self.wires)
        play_kernel(
            self.player,
            PlayKernel(self.bounds, clock, lambda: self.kernel(setting)),
            columns,
        )

    def table(self, name: str) -> Columns:
        """Return a table of all buckets."""
        return self.player.gather(name).get(name, {})

    def views_of(self, name: str) -> dict[int, set[int]]:
        """Return the views (``active`` or ``passive``) of living nodes."""
        return self._living(self.table(VIEWS)[name])

    def eager(self) -> dict[int, set[int]]:
        """Return the eager neighbours of living nodes."""
        views = self.table(VIEWS)
        return self._living(np.where(views["lazy"], -1, views["active"]))

    def _living(self, rows: np.ndarray) -> dict[int, set[int]]:
        alive = np.flatnonzero(self.table(VIEWS)["alive"]).tolist()
        return {node: set(rows[node].tolist()) - {-1} for node in alive}

    def receipts(self) -> list[tuple[int, ...]]:
        """Return (publication, node, time, hops, sender), sorted."""
        found = self.table(RECEIPTS)
        names = "publication", "node", "at_us", "hops", "sender"
        return sorted(zip(*(found[name].tolist() for name in names), strict=True))

    def copies(self) -> list[tuple[int, ...]]:
        """Return (publication, sender, node, time of arrival), sorted."""
        found = self.table(COPIES)
        names = "publication", "sender", "node", "at_us"
        return sorted(zip(*(found[name].tolist() for name in names), strict=True))

    def counts(self) -> dict[str, int]:
        """Return the numbers of messages that were sent in the last play, by kind."""
        found = self.table(COUNTS)
        counts = np.bincount(found["kind"], found["count"]).astype(int).tolist()
        return {name: count for name, count in zip(self.kinds, counts, strict=False) if count}


def drawn_delay(least_us: int, span_us: int) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
    """Return a delay that is drawn for each pair of nodes, the same in both directions."""

    def delay(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        bits = draws.bits_np(1, "delay", np.minimum(a, b), np.maximum(a, b))
        return least_us + (bits % np.uint64(span_us)).astype(np.int64)

    return delay
