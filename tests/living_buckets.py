"""A system's rounds on buckets in process, and all messages that they count."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

import numpy as np
from identifiers import parts
from poisoned import PoisonedTask

from scribe_spark.config import OverlayConfig
from scribe_spark.engine import Tables
from scribe_spark.engine.facts import Ring, RingInMemory, bucket_bounds
from scribe_spark.engine.in_task import InTask
from scribe_spark.engine.packing import Columns, take
from scribe_spark.engine.program import bucket_of
from scribe_spark.measures.multicasts import (
    MULTICASTS_MEASURED,
    MeasureMulticasts,
    MulticastMeasures,
    SystemTables,
)
from scribe_spark.measures.within import Asked
from scribe_spark.rounds.events import KnowsLives
from scribe_spark.rounds.player import Environment, Observer, Tally, ends_of
from scribe_spark.rounds.system import CARRIED, SystemOnBuckets, SystemPlayer, SystemRound
from scribe_spark.underlay.protocol import Kernel

#: The names of the system's tables begin with it.
PREFIX = "system/"


@dataclass(frozen=True)
class Recorder(Observer):
    """Records each message by sender, receiver and kind; lost ones apart.

    Of messages that are counted without a note of which ones are lost, those to dead nodes are.
    """

    node: np.ndarray = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    alive: np.ndarray = field(default_factory=lambda: np.empty(0, dtype=bool))
    messages: Counter = field(default_factory=Counter)
    lost: Counter = field(default_factory=Counter)

    def count(self, tables, kind, messages, lost=0, *, between, groups=None, **more):
        """See `Observer.count`."""
        super().count(tables, kind, messages, lost, between=between, groups=groups, **more)
        sender, to = ends_of(kind, messages, between)
        arrives = self.alive[to]
        assert lost == np.count_nonzero(~arrives)
        self._record(kind, arrives, sender, to)

    def send(self, tables, kind, arrives, sender, to, group=None, times=None, size=None):
        """See `Observer.send`."""
        assert times is None  # each row is one message
        lost = np.count_nonzero(~arrives)
        super().count(tables, kind, len(arrives), lost, between=lambda: (sender, to))
        self._record(kind, arrives, sender, to)

    def _record(self, kind, arrives, sender, to):
        ends = (self.node[one].tolist() for one in (sender, to))
        rows = [(*pair, kind) for pair in zip(*ends, strict=True)]
        self.messages.update(rows)
        self.lost.update(row for row, here in zip(rows, arrives.tolist(), strict=True) if not here)


class RecordingTally(Tally):
    """Counts the messages of a round, whose observer records each of them."""

    def __init__(self, kinds: tuple[str, ...], node: np.ndarray, alive: np.ndarray) -> None:
        super().__init__(kinds)
        self._recorder = Recorder(kinds, node=node, alive=alive)

    @property
    def observer(self) -> Observer:
        return self._recorder

    @property
    def messages(self) -> Counter:
        """All messages; what buckets have counted is as many."""
        sent, counted = self._recorder.messages, self.by_kind()
        by_kind = Counter(kind for *_, kind in sent.elements())
        assert by_kind == {k: n for k, n in counted.items() if not k.startswith("lost ")}
        return sent

    @property
    def lost(self) -> Counter:
        """Those that were lost."""
        return self._recorder.lost


def ring_of(idents: dict[int, int]) -> Ring:
    """Return all nodes in the order of their nodeIds; routers are positions."""
    nodes = np.array(sorted(idents, key=idents.__getitem__), dtype=np.int64)
    return Ring(*parts(idents[node] for node in nodes.tolist()), nodes, np.arange(len(nodes)))


@dataclass
class SystemBuckets:
    """Buckets of a ring, and a system's tables in them."""

    ring: Ring
    bounds: np.ndarray
    engine: InTask

    @classmethod
    def empty(cls, ring: Ring, count: int, blind: bool = False) -> SystemBuckets:
        """Return buckets without tables; those that are blind can be read only in their turn."""
        engine = (PoisonedTask if blind else InTask)([Tables() for _ in range(count)])
        return cls(ring, bucket_bounds(ring, count, 8), engine)

    def player(self, system: SystemOnBuckets) -> SystemPlayer:
        """Return the player of the system."""
        return SystemPlayer(self.engine, RingInMemory(self.ring), self.bounds, PREFIX, system.reads)

    def tables_of(self, system: SystemOnBuckets) -> dict[str, Columns]:
        """Return all that the system keeps between rounds; nothing else is there."""
        there = {name for mine in self.engine.tables for name in mine if name not in system.reads}
        names = sorted(name.removeprefix(PREFIX) for name in there)
        assert all(system.stays(name) for name in names)
        return self.player(system).gather(*names)

    def measure(
        self,
        system: SystemOnBuckets,
        done: SystemRound,
        kernel: Kernel,
        lives: KnowsLives,
        names: tuple[str, ...] = ("delay", "node_stress"),
        by_hops: bool = False,
        asked: Asked | None = None,
    ) -> tuple[dict[str, float], Counter]:
        """Return some measures of a round's multicasts, and their copies.

        Copies are (group, sender, receiver), by indices and positions.
        """
        player, facts = self.player(system), RingInMemory(self.ring)
        given = Environment(
            facts, self.bounds, OverlayConfig(b=4, leaf_set=16), kernel, Observer(()), lives
        )
        measures = MulticastMeasures(names, lan_us=1000, asked=asked)
        name = "ip_multicast" if system.merged else "it"
        of = SystemTables(name, system, done.multicasts, by_hops)
        player.play(MeasureMulticasts(given, measures, of))
        found = measures.measures(player.take(*MULTICASTS_MEASURED), of, len(self.ring))
        rows = player.gather(CARRIED).get(CARRIED, {})
        sent = of.in_bucket({CARRIED: rows}, len(self.ring)).copies
        ends = (sent[name].tolist() for name in ("group", "sender", "to"))
        copies = Counter(zip(*ends, strict=True))
        return {n.removeprefix(f"{name}."): value for n, value in found.items()}, copies

    def cut_again(self, system: SystemOnBuckets, count: int) -> SystemBuckets:
        """Return other buckets, which have what the system keeps between rounds.

        Columns are read-only, as those of saved tables are.
        """
        cut, size = SystemBuckets.empty(self.ring, count), len(self.ring)
        for name, columns in self.tables_of(system).items():
            order, bucket = np.arange(1), np.zeros(1, dtype=np.int64)
            if name in system.kept_in_buckets:
                order = np.argsort(columns["key"])
                node = columns["key"][order] // size ** system.kept_in_buckets[name] % size
                bucket = bucket_of(cut.bounds, node)
            for number, mine in enumerate(cut.engine.tables):
                if name in system.kept_in_buckets:
                    part = take(columns, order[bucket == number])
                elif number:
                    continue
                else:
                    part = columns
                for column in part.values():
                    column.flags.writeable = False
                mine[PREFIX + name] = part
        return cut
