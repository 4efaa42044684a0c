"""Round 0 of a run, played by the engine in process: the rows of its views."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from scribe_spark.engine import Columns, Tables
from scribe_spark.engine.facts import Ring, RingInMemory
from scribe_spark.engine.in_task import InTask
from scribe_spark.rounds.system import Publishing, SystemOnBuckets
from scribe_spark.worlds import round_of_run


@dataclass
class Round0:
    """A run of a system; nodes have numbers, groups are given by theirs.

    `joins` are pairs of a group and a node; `publish` has the group, source, time and size of each
    publication; `given` has other fields of `LivingRound`; `known` are tables of the buckets.
    """

    system: SystemOnBuckets
    ring: Ring
    bounds: np.ndarray
    keys: Mapping[int, int]  # group -> groupId
    joins: Sequence[tuple[int, int]]
    publish: Sequence[tuple[int, int, int, int]]
    given: Mapping[str, Any]
    known: Sequence[Mapping[str, Columns]] | None = None
    player: Callable[[list[Tables]], InTask] = InTask
    guests: Sequence[tuple[int, int]] = ()  # pairs as `joins`, which have no deliveries

    @cached_property
    def groups(self) -> np.ndarray:
        return np.array(sorted(self.keys), dtype=np.int64)

    @cached_property
    def tables(self) -> dict[str, Columns]:
        """The tables of views, from all buckets."""
        return self.play()

    def play(self) -> dict[str, Columns]:
        """Play the round; return :attr:`tables`, whose lock would stop other threads."""
        ids = [self.keys[group] for group in self.groups.tolist()]
        group, node = np.array(self.joins, dtype=np.int64).reshape(-1, 2).T
        joins = np.searchsorted(self.groups, group), self.ring.positions(node)
        order = np.lexsort(joins[::-1])
        columns = np.array(self.publish, dtype=np.int64).reshape(-1, 4).T
        group, node = np.searchsorted(self.groups, columns[0]), self.ring.positions(columns[1])
        given = {
            **{"group": self.groups, "capacity": None, "links": None, "source": "root"},
            "key_hi": np.array([one >> 64 for one in ids], dtype=np.uint64),
            "key_lo": np.array([one % 2**64 for one in ids], dtype=np.uint64),
            "join": tuple(column[order] for column in joins),
            "publish": Publishing(group, node, *columns[2:]),
            **self.given,
        }
        known = [{}] * (len(self.bounds) - 1) if self.known is None else self.known
        player = self.player([Tables.of(dict(one)) for one in known])
        guests = [
            np.searchsorted(self.groups, group) * len(self.ring)
            + int(self.ring.positions([node])[0])
            for group, node in self.guests
        ]
        of_guests = np.sort(np.array(guests, dtype=np.int64))
        wanted = round_of_run.Wanted(True, self.system.has_trees, of_guests)
        facts = RingInMemory(self.ring)
        round_of_run.play_round("it", self.system, given, facts, self.bounds, wanted, player)
        names = ("copies", "edges", "deliveries", "state", "control")
        found = player.gather(*(f"it/{name} of round 0" for name in names))
        return {name.split()[0].removeprefix("it/"): columns for name, columns in found.items()}

    def rows(self, table: str, *names: str) -> list[tuple]:
        """Return the rows of a table, sorted; the number of "no group" is None."""
        columns = dict(self.tables.get(table, {name: () for name in names}))
        for name in ("node", "sender", "to", "receiver"):
            if len(columns.get(name, ())):
                columns[name] = self.ring.node[columns[name]]
        if len(columns.get("group", ())):
            named = [*self.groups.tolist(), None]
            columns["group"] = np.array([named[at] for at in columns["group"]], dtype=object)
        found = zip(*(np.asarray(columns[name]).tolist() for name in names), strict=True)
        return sorted(found, key=lambda row: tuple((one is not None, one) for one in row))

    def control(self) -> Counter:
        """Return (group, sender, receiver, kind) -> messages."""
        kinds = *self.system.control, *self.system.building
        names = "group", "sender", "receiver", "kind", "messages"
        rows = self.rows("control", *names)
        assert len({row[:4] for row in rows}) == len(rows)
        return Counter({(*ends, kinds[kind]): n for *ends, kind, n in rows})

    def state(self) -> dict:
        """Return (group, node) -> entries."""
        rows = self.rows("state", "group", "node", "entries")
        assert len({row[:2] for row in rows}) == len(rows)
        return {row[:2]: row[2] for row in rows}
