"""A system's rounds on buckets in process, and all messages that they count."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

import numpy as np
from poisoned import OneAtATime, Poisoned

from scribe_spark.engine import Tables
from scribe_spark.engine.facts import RingInMemory, bucket_bounds
from scribe_spark.engine.packing import Columns
from scribe_spark.engine.ring import Ring
from scribe_spark.living import (
    InBuckets,
    LivingRound,
    SystemOnBuckets,
    SystemRound,
    join_buckets,
    split_tables,
)
from scribe_spark.pastry.arrivals.observer import Observer
from scribe_spark.pastry.tally import Tally

__all__ = ["BlindBuckets", "RecordingTally", "buckets_of", "cut_again", "play", "tables_of"]

#: The names of the system's tables begin with it.
PREFIX = "system/"


@dataclass(frozen=True)
class Recorder(Observer):
    """Records each message by sender, receiver and kind; lost ones apart."""

    node: np.ndarray = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    messages: Counter = field(default_factory=Counter)
    lost: Counter = field(default_factory=Counter)

    def send(self, tables, kind, arrives, sender, to):
        """See `Observer.send`."""
        super().send(tables, kind, arrives, sender, to)
        ends = (self.node[one].tolist() for one in (sender, to))
        rows = [(*pair, kind) for pair in zip(*ends, strict=True)]
        self.messages.update(rows)
        self.lost.update(row for row, here in zip(rows, arrives.tolist(), strict=True) if not here)


class RecordingTally(Tally):
    """Counts the messages of a round, whose observer records each of them."""

    def __init__(self, kinds: tuple[str, ...], node: np.ndarray) -> None:
        super().__init__(kinds)
        self._recorder = Recorder(kinds, node=node)

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


class BlindBuckets(InBuckets):
    """Plays bucket after bucket, none of which sees another's tables."""

    def play(self, program, first=None):
        for mine in self.tables:
            mine.open = False
        sent = super().play(OneAtATime(program), first)
        for mine in self.tables:  # what the orchestrator takes
            mine.open = True
        return sent


def buckets_of(ring: Ring, count: int, blind: bool = False) -> InBuckets:
    """Return a player of empty buckets."""
    kind = BlindBuckets if blind else InBuckets
    tables = [(Poisoned if blind else Tables).of({}) for _ in range(count)]
    return kind(RingInMemory(ring), bucket_bounds(ring, count, 8), tables)


def tables_of(system: SystemOnBuckets, engine: InBuckets) -> dict[str, Columns]:
    """Return all that a system keeps between rounds, without the prefix."""
    names = [PREFIX + name for name in (*system.kept_in_buckets, *system.kept)]
    found = engine.gather(*names)
    return {name.removeprefix(PREFIX): columns for name, columns in found.items()}


def play(system: SystemOnBuckets, engine: InBuckets, now: LivingRound) -> SystemRound:
    """Play a round of the world, on buckets whose other tables are those of Pastry."""
    return system.play_on(engine, engine.facts, engine.bounds, PREFIX, now)


def cut_again(system: SystemOnBuckets, engine: InBuckets, ring: Ring, count: int) -> InBuckets:
    """Return other buckets, which have what the system keeps between rounds.

    Columns are read-only, as those of saved tables are.
    """
    powers = {PREFIX + name: power for name, power in system.kept_in_buckets.items()}
    cut = buckets_of(ring, count)
    parts = split_tables(join_buckets(engine.tables, powers), powers, cut.bounds)
    parts[0] |= engine.gather(*(PREFIX + name for name in system.kept))
    for mine, part in zip(cut.tables, parts, strict=True):
        mine.update(part)
        for columns in part.values():
            for column in columns.values():
                column.flags.writeable = False
    return cut
