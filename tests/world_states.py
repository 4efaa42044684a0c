"""Worlds of the oracle's cases, played by `WorldState` without Spark, on any buckets."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import numpy as np
import pyarrow as pa
from in_tasks import Jobs
from in_threads import play_in_threads
from living_groups import World, access_of

from scribe_spark.can.config import CanConfig
from scribe_spark.can.multicast import live_can
from scribe_spark.core.arrays import NO_GROUP
from scribe_spark.engine import Tables
from scribe_spark.engine.buckets import tables_by_bucket
from scribe_spark.engine.facts import RingInMemory
from scribe_spark.engine.in_task import InTask
from scribe_spark.engine.packing import pack_rows
from scribe_spark.measures.multicasts import MulticastMeasures
from scribe_spark.rounds.event_rows import EVENT_NAMES
from scribe_spark.rounds.player import TRAFFIC
from scribe_spark.rounds.system import SystemOnBuckets
from scribe_spark.systems.baselines import LiveIpMulticast, LiveUnicast
from scribe_spark.systems.bayeux.live import LiveBayeux
from scribe_spark.systems.flooding.flood import LiveFlooding
from scribe_spark.systems.gossipsub.config import GossipSubConfig
from scribe_spark.systems.gossipsub.round import live_gossipsub
from scribe_spark.systems.reference_tree.live import LiveTree
from scribe_spark.systems.scribe.live import LiveScribe
from scribe_spark.worlds import views, world_state
from scribe_spark.worlds.drivers import lookup_table
from scribe_spark.worlds.round_measures import LinkStress
from scribe_spark.worlds.save import is_saved, lives_tables
from scribe_spark.worlds.views import Bucket, View
from scribe_spark.worlds.world_state import LiveGroups, LiveSystems, Protocols, WorldState

_NEVER = LinkStress(0, 0, 0)

_MEASURES = MulticastMeasures(("delay", "node_stress"), lan_us=1_000)


def flooders(world: World) -> dict[str, SystemOnBuckets]:
    """The systems that build an overlay of each group anew in every round."""
    overlay, can = world.config.overlay, CanConfig(dimensions=2)
    return {
        "flooding": LiveFlooding(overlay.b, overlay.leaf_set),
        "can": live_can(can, world.config.seed),
        "ip_multicast": LiveIpMulticast(),
        "naive_unicast": LiveUnicast(),
    }


def protocols_of(
    world: World,
    stress: LinkStress = _NEVER,
    measures: MulticastMeasures = _MEASURES,
    more: Mapping[str, SystemOnBuckets] = MappingProxyType({}),
    only: Collection[str] = (),
    lookups: int = 5,
) -> Protocols:
    """Scribe, GossipSub, Bayeux and `more` systems (or `only` some of these), and lookups.

    In odd worlds, there is the reference tree, too.
    """
    groups, keys = world.groups, (world.groups.keys.hi, world.groups.keys.lo)
    live = LiveGroups(
        *(groups.number, *keys, access_of(world.case.groups), world.config.scribe.deadline),
        *(world.case.rounds, stress, replace(measures, source=world.config.groups.source)),
        groups.number[:2],
    )
    limits, trees = world.limits, world.config.trees
    if limits is not None:
        trees = trees.replace(limit=max(1, limits.limit))
    tree = LiveTree() if world.case.seed % 2 else None
    beside = {
        "scribe": LiveScribe(world.config.scribe, trees),
        "gossipsub": live_gossipsub(GossipSubConfig()),
        "bayeux": LiveBayeux(),
        **more,
    }
    beside = {name: one for name, one in beside.items() if name in only or not only}
    systems = LiveSystems(beside, limits=None if limits is None else limits.capacities)
    config = world.config.replace(lookups=lookups)
    of_pastry = config.overlay, config.world, config.seed, world.pastry.kernel
    return Protocols(*of_pastry, tree, live, systems)


class Played:
    """A world of the oracle's cases, played by `WorldState`.

    With an `exchange`, a task has one of the buckets; else a player of type `engine` has all.
    """

    def __init__(
        self,
        world: World,
        buckets: int = 1,
        exchange: Any = None,
        engine: type[InTask | Jobs] = InTask,
        **of_protocols: Any,
    ) -> None:
        self.world, self.exchange, self._engine = world, exchange, engine
        self.known = world.overlay.states.known
        self.protocols = protocols_of(world, **of_protocols)
        self.bounds = np.linspace(0, len(self.known), buckets + 1).astype(np.int64)
        self.own = range(buckets) if exchange is None else [exchange.rank]
        never = np.full(len(self.known), -1)
        rows = []
        for bucket in self.own:
            mine = world.overlay.states.of(slice(*self.bounds[bucket : bucket + 2])).tables()
            mine |= lives_tables(self.bounds, bucket, world.overlay.lives, never, 0)
            rows += rows_of(bucket, mine)
        self.read(rows)

    def read(self, rows: list[pa.RecordBatch]) -> None:
        """Go on with saved rows."""
        found = tables_by_bucket(rows)
        tables = [found.get(one, Tables()) for one in self.own]
        together = self.exchange is None
        self.engine = self._engine(tables) if together else InTask(tables, self.exchange)
        facts = RingInMemory(self.known)
        self.state = WorldState.of_engine(self.engine, facts, self.bounds, self.protocols)

    def rows(self, number: int) -> list[pa.RecordBatch]:
        """The rows of this task's buckets."""
        return [
            row
            for bucket, mine in zip(self.own, self.engine.tables, strict=True)
            for row in rows_of(bucket, {**mine, **self.state.tables(number, bucket)})
        ]

    def step(self, number: int, keeps_messages: bool = False) -> world_state.Played:
        """Play a round."""
        mine = [(*event, NO_GROUP)[1:4] for event in self.world.case.events if event[0] == number]
        columns = events_of(mine, "node", "event", "group")
        return self.state.play(number, columns, keeps_messages)

    def play(self, saves: bool, rounds: int | None = None) -> list[Any]:
        """What each round leaves; in every third one the world is saved and read, if it `saves`."""
        left = []
        for number in range(self.world.case.rounds if rounds is None else rounds):
            done = self.step(number, number % 4 == 1)
            assert self.engine.has(f"{TRAFFIC} 0") == (number % 4 == 1)
            lookups = lookup_table(done.lookups, self.known.node).to_pydict()
            tables = {name: table.to_pydict() for name, table in done.tables.items()}
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
        tables = tables_by_bucket(self.rows(self.world.case.rounds))
        return {
            name: sorted(
                (row for bucket in self.own for row in self._rows(view, bucket, tables[bucket])),
                key=str,
            )
            for name, view in wanted.items()
        }

    def _rows(self, view: View, bucket: int, tables: Tables) -> list[tuple]:
        first, last = self.bounds[bucket : bucket + 2].tolist()
        of = self.known, self.world.pastry.kernel, self.world.groups.number
        found = view.batches(Bucket(tables, first, last, *of))
        return [tuple(row.values()) for table in found for row in table.to_pylist()]


def events_of(rows: list[tuple], *names: str) -> dict[str, np.ndarray]:
    """The events of a round as arrays, as a world takes them: the kinds of events by codes."""
    columns = dict(zip(names, zip(*rows, strict=True) if rows else [()] * len(names), strict=True))
    columns["event"] = [EVENT_NAMES.index(kind) for kind in columns["event"]]
    return {name: np.array(column, dtype=np.int64) for name, column in columns.items()}


def name_of(row: pa.RecordBatch) -> str:
    """The name of the table in a row."""
    return row.column("name")[0].as_py()


def rows_of(bucket: int, tables: dict) -> list[pa.RecordBatch]:
    """The tables of a bucket as rows."""
    return [row for name in tables for row in pack_rows(bucket, bucket, True, name, tables[name])]


def assert_alike(play: Callable[..., Any], *ways: Mapping[str, Any]) -> Any:
    """Assert that ``play(**way)`` is ``play()``, or its beginning; return the latter.

    With `exchange` in a way, each of its buckets has a task.
    """
    one = play()
    for way in ways:
        if "exchange" in way:
            count = way["buckets"]
            found = play_in_threads(count, lambda own: play(exchange=own, buckets=count))  # noqa: B023
        else:
            found = [play(**way)]
        assert all(each == (one if isinstance(one, dict) else one[: len(each)]) for each in found)
    return one
