"""Commands for HyParView and Plumtree, played by the kernels on buckets of one process."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from scribe_spark.bandwidth.windows import play_in_windows
from scribe_spark.clock.bucket import (
    COMMANDS,
    COPIES,
    COUNTS,
    PLACES,
    RECEIPTS,
    STATE,
    KernelSetting,
    PlayKernel,
    Wires,
)
from scribe_spark.clock.kernel import Kinds
from scribe_spark.core import draws
from scribe_spark.engine.in_task import InTask
from scribe_spark.engine.losses import Lost
from scribe_spark.engine.packing import Columns, take
from scribe_spark.engine.program import Tables
from scribe_spark.systems.plumtree.config import PlumtreeConfig
from scribe_spark.systems.plumtree.overlay import PlumtreeKernel

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
    rules: PlumtreeConfig = field(default_factory=PlumtreeConfig)
    seed: int = 0
    buckets: int = 1
    wires: Wires | None = None
    #: (room, node) of all places, ascending; by default all nodes are in room 0.
    places: np.ndarray | None = None
    #: Makes the kernel of a bucket, as `PlumtreeKernel` does.
    kernel: Callable[..., PlumtreeKernel] = PlumtreeKernel
    lost: Lost | None = None
    validation_us: np.ndarray | None = None

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
        self.rules = self.rules.replace(views="static")
        lazy = np.zeros(views.shape, dtype=bool) if lazy is None else lazy
        passive = np.full((len(views), self.rules.passive), -1)
        state = {"key": np.arange(len(views)), "active": views, "lazy": lazy, "passive": passive}
        state["duplicates"] = np.zeros(views.shape, dtype=np.int16)
        for bucket, tables in enumerate(self.player.tables):
            tables[STATE] = take(state, slice(*self.bounds[bucket : bucket + 2]))

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
        self.kinds = Kinds.of(PlumtreeKernel).names
        for bucket, tables in enumerate(self.player.tables):
            first, last = self.bounds[bucket : bucket + 2]
            mine = (columns["node"] >= first) & (columns["node"] < last)
            tables[COMMANDS] = take(columns, mine)
        of_copies = {"lost": self.lost, "validation_us": self.validation_us}
        clock = KernelSetting(self.nodes, self.delay, self.window_us, self.wires, **of_copies)
        kernel = partial(self.kernel, self.rules.for_tasks(), self.seed, room)
        play_in_windows(self.player, PlayKernel(self.bounds, clock, kernel))

    def table(self, name: str) -> Columns:
        """Return a table of all buckets."""
        return self.player.gather(name).get(name, {})

    def views_of(self, name: str) -> dict[int, set[int]]:
        """Return the views (``active`` or ``passive``) of living nodes."""
        return self._living(self.table(STATE)[name])

    def eager(self) -> dict[int, set[int]]:
        """Return the eager neighbours of living nodes."""
        views = self.table(STATE)
        return self._living(np.where(views["lazy"], -1, views["active"]))

    def _living(self, rows: np.ndarray) -> dict[int, set[int]]:
        living = (self.table(STATE)["key"] % self.nodes).tolist()
        return {node: set(row) - {-1} for node, row in zip(living, rows.tolist(), strict=True)}

    def receipts(self) -> list[tuple[int, ...]]:
        """Return (publication, node, time, hops, sender), sorted."""
        found = self.table(RECEIPTS)
        names = "publication", "node", "at_us", "hops", "sender"
        return sorted(zip(*(found[name].tolist() for name in names), strict=True))

    def copies(self) -> list[tuple[int, ...]]:
        """Return (publication, sender, node, time of arrival) of all sent copies, sorted."""
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
