"""Trees of one oracle case, played by the engine in process."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import worlds
from poisoned import OneAtATime, Poisoned

from scribe_spark.engine import Tables
from scribe_spark.engine.facts import RingInMemory, bucket_bounds
from scribe_spark.engine.in_process import play
from scribe_spark.engine.program import AT
from scribe_spark.overlay.route import MESSAGE, Route
from scribe_spark.pastry.arrivals.closeness import Keys
from scribe_spark.pastry.overlay import PastryNextHop
from scribe_spark.scribe.group_keys import Groups
from scribe_spark.scribe.run import Run
from scribe_spark.scribe.trees import CHILDREN, CREATED, Create, Join, Multicast

__all__ = ["Played", "trees"]


@dataclass
class Recording:
    """A program, and all that it sends."""

    program: object
    sent: list[dict] = field(default_factory=list)

    @property
    def bounds(self) -> np.ndarray:
        return self.program.bounds

    def step(self, bucket, tables, inbox, superstep):
        """See `engine.Program`."""
        outbox = self.program.step(bucket, tables, inbox, superstep)
        self.sent.append(dict(outbox))
        return outbox


@dataclass
class Played:
    """What CREATE and JOIN have left.

    Attributes
    ----------
    sent : list of int
        Messages of each superstep of JOIN.
    """

    one: worlds.World
    run: Run
    tables: list[Tables]
    sent: list[int]
    _outboxes: list[dict]

    def _rows(self, name: str) -> Iterator[dict]:
        for mine in self.tables:
            if isinstance(mine, Poisoned):
                mine.open = True
            if name in mine:
                yield mine[name]

    def edges(self) -> list[tuple[int, int, int]]:
        """(group, parent, child), sorted."""
        size, found = len(self.one.ring), []
        for table in self._rows(CHILDREN):
            place, child = np.divmod(table["key"], size)
            group, parent = np.divmod(place, size)
            node = self.one.ring.node - self.one.base
            rows = zip(self.run.number[group], node[parent], node[child], strict=True)
            found += [tuple(map(int, row)) for row in rows]
        return sorted(found)

    def roots(self) -> dict[int, int]:
        """group -> root."""
        node = self.one.ring.node - self.one.base
        return {
            int(self.run.number[group]): int(node[at])
            for table in self._rows(CREATED)
            for group, at in zip(table["group"], table[AT], strict=True)
        }

    def joins(self, columns: list[str]) -> list[np.ndarray]:
        """Columns of all JOINs that were sent."""
        sent = [outbox["JOIN"] for outbox in self._outboxes if "JOIN" in outbox]
        return [np.concatenate([one[name] for one in sent]) for name in columns]

    def multicast(self) -> list[tuple[int, int, int, int]]:
        """(group, node, hops, delay_us) of a message that each root sends."""
        index = {number: place for place, number in enumerate(self.run.number.tolist())}
        roots = self.roots()
        group = np.array([index[number] for number in roots], dtype=np.int64)
        numbers = np.array(list(roots.values()), dtype=np.int64) + self.one.base
        root = self.one.ring.positions(numbers)
        zero = np.zeros(len(group), dtype=np.int64)
        first = {"group": group, "sender": root, AT: root, "hops": zero, "delay_us": zero}
        play(self.run.program(Multicast), self.tables, {"payload": first})
        node = self.one.ring.node - self.one.base
        return [
            (int(self.run.number[g]), int(node[at]), int(hops), int(delay))
            for mine in self.tables
            for name in list(mine)
            if name.startswith("delivered")
            for g, at, hops, delay in zip(*mine[name].values(), strict=True)
        ]


def trees(one: worlds.World, buckets: int, poisoned: bool = False) -> Played:
    """CREATE and JOIN of a case over a number of buckets."""
    bounds = bucket_bounds(one.ring, buckets, one.case.b)
    kind = Poisoned if poisoned else Tables
    tables = [kind.of(known) for known in one.make_tables(bounds)]
    numbers = np.array(sorted(one.case.keys), dtype=np.int64)
    keys = [one.case.keys[number] for number in numbers.tolist()]
    hi = np.array([key >> 64 for key in keys], dtype=np.uint64)
    lo = np.array([key & (2**64 - 1) for key in keys], dtype=np.uint64)
    facts = RingInMemory(one.ring)
    groups = Groups(numbers, Keys(hi, lo), len(one.ring))
    way = (PastryNextHop(facts), one.kernel, worlds.LAN_US)
    run = Run.over(facts, bounds, groups, *way)
    # the creator of each group is any node
    creator = np.arange(len(numbers)) % len(one.ring)
    zero = np.zeros(len(numbers), dtype=np.int64)
    creates = {"group": np.arange(len(numbers)), AT: creator, "start": one.ring.node[creator]}
    creates |= {"key_hi": hi.view(np.int64), "key_lo": lo.view(np.int64)}
    creates |= {"hops": zero, "delay_us": zero}
    wrap = OneAtATime if poisoned else (lambda program: program)
    routed = Route(bounds, facts, Create(run), ("group",), None, *way)
    play(wrap(routed), tables, {MESSAGE: creates})
    joins = sorted(set(one.case.joins()))
    group = np.searchsorted(numbers, np.array([g for g, _ in joins], dtype=np.int64))
    nodes = np.array([n for _, n in joins], dtype=np.int64) + one.base
    recording = Recording(run.program(Join))
    member = {"group": group, AT: one.ring.positions(nodes)}
    sent = play(wrap(recording), tables, {"member": member})
    return Played(one, run, tables, sent, recording.sent)
