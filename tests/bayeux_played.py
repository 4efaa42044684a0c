"""Bayeux of one oracle case: round 0 of a run, played by the engine in process."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import worlds
from identifiers import parts
from oracle.bayeux.cases import BayeuxCase
from oracle.pastry import Overlay

from scribe_spark.bandwidth.runs import RoundLinks
from scribe_spark.bayeux.live import LiveBayeux
from scribe_spark.engine import Columns, Tables
from scribe_spark.engine.facts import RingInMemory, bucket_bounds
from scribe_spark.engine.in_task import InTask
from scribe_spark.experiments import round_in_run
from scribe_spark.pastry.states import CELLS
from scribe_spark.rounds.system import Publishing

__all__ = ["RunOfBayeux", "known_of"]


@dataclass
class RunOfBayeux:
    """Round 0 of a case: all members join, and each group's source publishes once."""

    case: BayeuxCase
    buckets: int
    #: The group and source of each publication with its time and size; by default one of each
    #: group at time 0.
    publish: list[tuple[int, int, int, int]] | None = None
    links: RoundLinks | None = None
    player: Callable[[list[Tables]], InTask] = InTask

    @cached_property
    def groups(self) -> list[int]:
        return sorted(self.case.case.keys)

    @cached_property
    def world(self) -> worlds.World:
        return worlds.world(self.case.case)

    @cached_property
    def tables(self) -> dict[str, Columns]:
        """The tables of views, from all buckets."""
        one, world, options = self.case, self.world, self.case.options
        ring, bounds = world.ring, bucket_bounds(world.ring, self.buckets, one.case.b)
        hi, lo = parts(one.case.keys[group] for group in self.groups)
        (way,) = {way for _, way in one.sources.values()} or {"root"}
        first = [(group, one.sources[group][0], 0, 0) for group in self.groups]
        group, node, at_us, size = np.array(
            self.publish or first, dtype=np.int64).reshape(-1, 4).T  # fmt: skip
        joins = sorted((self.groups.index(g), int(self._place(n)[0])) for g, n in one.case.joins())
        given = {
            **{"group": np.array(self.groups, dtype=np.int64), "key_hi": hi, "key_lo": lo},
            "join": tuple(np.array(joins, dtype=np.int64).reshape(-1, 2).T),
            "publish": Publishing(
                np.searchsorted(self.groups, group), self._place(node), at_us, size
            ),
            **{"kernel": world.kernel, "lan_us": worlds.LAN_US, "seed": one.case.seed},
            **{"source": way, "capacity": None, "links": self.links},
        }
        system = LiveBayeux(
            options.hops, b=one.case.b, partitions=options.partitions, root_rule=options.root
        )
        mine = [Tables.of(known) for known in known_of(world, one.overlay(), bounds)]
        wanted = round_in_run._Wanted(True, True)
        facts, player = RingInMemory(ring), self.player(mine)
        round_in_run._play("bayeux", system, given, facts, bounds, wanted, player)
        names = ("copies", "edges", "deliveries", "state", "control")
        found = player.gather(*(f"system/{name} of round 0" for name in names))
        return {name.split()[0][7:]: columns for name, columns in found.items()}

    def _place(self, node):
        return self.world.ring.positions(np.atleast_1d(node) + self.world.base)

    def rows(self, table: str, *names: str) -> list[tuple]:
        """The rows of a table, sorted; groups and nodes are the case's own numbers."""
        columns = dict(self.tables.get(table, {name: () for name in names}))
        for name in ("node", "sender", "to", "receiver"):
            if len(columns.get(name, ())):
                columns[name] = self.world.ring.node[columns[name]] - self.world.base
        if len(columns.get("group", ())):
            columns["group"] = np.array(self.groups)[columns["group"]]
        return sorted(zip(*(np.asarray(columns[n]).tolist() for n in names), strict=True))

    def control(self) -> Counter:
        """(group, sender, receiver, kind) -> messages."""
        kinds = LiveBayeux().control
        names = "group", "sender", "receiver", "kind", "messages"
        return Counter({(*ends, kinds[kind]): n for *ends, kind, n in self.rows("control", *names)})


def known_of(world: worlds.World, overlay: Overlay, bounds: np.ndarray) -> list[dict]:
    """The tables of an oracle's overlay, whose leaf sets are right."""
    tables = world.make_tables(bounds)
    for first, known in zip(bounds[:-1].tolist(), tables, strict=True):
        cells = np.full_like(known[CELLS]["cells"], -1)
        known[CELLS] = {"cells": cells}
        for place in range(len(cells)):
            node = int(world.ring.node[first + place]) - world.base
            for (row, digit), entry in overlay.routing_table(node).items():
                at = world.ring.positions(np.array([entry + world.base]))[0]
                cells[place, row, digit] = at
    return tables
