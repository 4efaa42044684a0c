"""A world on one bucket, on several in this process, and in tasks that exchange: the same rounds.

The world is saved and read again on its way.  Nothing needs Spark.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from living_groups import World, access_of, world_of
from oracle.scribe_living.cases import random_world

from scribe_spark.engine import Tables
from scribe_spark.engine import on_spark as engine_rows
from scribe_spark.engine.between_tasks import play_in_threads
from scribe_spark.engine.buckets import tables_by_bucket
from scribe_spark.engine.facts import RingInMemory
from scribe_spark.engine.in_task import InTask
from scribe_spark.engine.on_spark import pack_rows
from scribe_spark.pastry.arrivals.observer import TRAFFIC
from scribe_spark.worlds import LiveTree, views
from scribe_spark.worlds.link_stress import LinkStress
from scribe_spark.worlds.live_groups import LiveGroups
from scribe_spark.worlds.played import lookup_table
from scribe_spark.worlds.save import is_saved, lives_rows
from scribe_spark.worlds.views import Bucket
from scribe_spark.worlds.world_state import Protocols, WorldState

ROUNDS = 9


def protocols_of(world: World) -> Protocols:
    """Groups, lookups and, in some worlds, the reference tree."""
    groups, keys = world.groups, (world.groups.keys.hi, world.groups.keys.lo)
    live = LiveGroups(
        *(groups.number, *keys, access_of(world.case.groups), world.rules, ROUNDS),
        *(LinkStress(0, 0, 0), groups.number[:2]),
    )
    tree = LiveTree() if world.case.seed % 2 else None
    return Protocols(5, world.pastry.rules, world.pastry.kernel, tree, live)


class Played:
    """A world of the oracle's cases, played by `WorldState`.

    Parameters
    ----------
    exchange : Exchange, optional
        Of a task that has one of the buckets.
    """

    def __init__(self, world: World, buckets: int, exchange: Any = None) -> None:
        self.world, self.exchange = world, exchange
        self.known, self.protocols = world.overlay.states.known, protocols_of(world)
        self.bounds = np.linspace(0, len(self.known), buckets + 1).astype(np.int64)
        self.own = range(buckets) if exchange is None else [exchange.rank]
        never = np.full(len(self.known), -1)
        rows = list(lives_rows(self.bounds, self.own, world.overlay.lives, never, 0))
        for bucket in self.own:
            mine = world.overlay.states.of(slice(*self.bounds[bucket : bucket + 2]))
            for name, columns in mine.tables().items():
                rows += pack_rows(bucket, bucket, True, name, columns)
        self.read(rows)

    def read(self, rows: list[pa.RecordBatch]) -> None:
        """Go on with saved rows."""
        found = tables_by_bucket(rows)
        self.engine = InTask([found.get(one, Tables()) for one in self.own], self.exchange)
        facts = RingInMemory(self.known)
        self.state = WorldState.of_engine(self.engine, facts, self.bounds, self.protocols)

    def rows(self, number: int) -> list[pa.RecordBatch]:
        """The rows of this task's buckets."""
        return [*self.engine.rows(), *self.state.rows(number, self.own)]

    def play(self, saves: bool) -> list[Any]:
        """What each round leaves; in every third one the world is saved and read, if it is to."""
        left = []
        for number in range(ROUNDS):
            mine = [event for event in self.world.case.events if event[0] == number]
            columns = [np.array([event[at] for event in mine]) for at in (1, 2)]
            group = [event[3] if len(event) > 3 else -1 for event in mine]
            events = dict(zip(("node", "event"), columns, strict=True), group=np.array(group))
            events = {name: of if len(mine) else of.astype(int) for name, of in events.items()}
            done = self.state.play(number, events, keeps_messages=number % 4 == 1)
            assert self.engine.has(f"{TRAFFIC} 0") == (number % 4 == 1)
            lookups = lookup_table(done.result.lookups, self.known.node).to_pydict()
            tables = {name: table.to_pydict() for name, table in done.of_groups.items()}
            left.append((done.measures, tables, lookups))
            if saves and number % 3 == 2:
                saved = [row for row in self.rows(number + 1) if is_saved(name_of(row))]
                self.read(saved[::-1])
        return left

    def seen(self) -> dict[str, list[tuple]]:
        """What users read of the world of this task, rows in order."""
        wanted = {
            "state": views.STATE,
            "leaf sets": views.LEAF_SETS,
            "routing table": views.ROUTING_TABLE,
            "memberships": views.MEMBERSHIPS,
            "children": views.CHILDREN,
            "new leafs": views.NEW_LEAF_SETS,
        }
        tables = tables_by_bucket(self.rows(ROUNDS))
        groups, kernel = self.world.groups, self.world.pastry.kernel
        return {
            name: sorted(
                (
                    tuple(row.values())
                    for bucket in self.own
                    for row in self._rows(view, bucket, tables[bucket], kernel, groups)
                ),
                key=str,
            )
            for name, view in wanted.items()
        }

    def _rows(self, view, bucket, tables, kernel, groups) -> list[dict]:
        first, last = self.bounds[bucket : bucket + 2].tolist()
        one = Bucket(tables, first, last, self.known, kernel, groups)
        return [row for table in view.rows(one) for row in table.to_pylist()]


def name_of(row: pa.RecordBatch) -> str:
    return row.column("name")[0].as_py()


def in_one_process(seed: int, buckets: int, saves: bool = True) -> tuple[list, dict]:
    played = Played(world_of(random_world(seed, most=40, rounds=ROUNDS)), buckets)
    return played.play(saves), played.seen()


def in_tasks(seed: int, buckets: int) -> tuple[list, dict]:
    """Each bucket in a task of its own; all tasks see the same."""

    def work(exchange) -> tuple[list, dict]:
        world = world_of(random_world(seed, most=40, rounds=ROUNDS))
        played = Played(world, buckets, exchange)
        return played.play(saves=True), played.seen()

    each = play_in_threads(buckets, work)
    assert all(left == each[0][0] for left, _ in each)
    together = {
        name: sorted((row for _, seen in each for row in seen[name]), key=str)
        for name in each[0][1]
    }
    return each[0][0], together


@pytest.mark.parametrize(
    "seed", [0, 1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(6, 40))]
)
def test_rounds_are_the_same_wherever_the_buckets_are(seed, monkeypatch) -> None:
    """Rows have several parts, which come in any order."""
    monkeypatch.setattr(engine_rows, "_PART", 2**12)
    one = in_one_process(seed, 1, saves=False)
    assert sum(len(rows) for rows in one[1].values()) > 40
    assert in_one_process(seed, 1) == one
    assert in_one_process(seed, 3) == one
    for buckets in (2, 7):
        assert in_tasks(seed, buckets) == one
