"""A world whose nodes are in buckets: each round is supersteps on Spark.

What the executors keep are the tables of the buckets; between saves nothing is packed.

References
----------
G. Malewicz et al.: Pregel: a system for large-scale graph processing, SIGMOD 2010.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema

from scribe_spark import schemas
from scribe_spark.engine import Inbox, Outbox, Tables
from scribe_spark.engine.buckets import BucketRing
from scribe_spark.engine.facts import bucket_bounds, distribute_facts
from scribe_spark.engine.on_spark import ROWS, BucketTables, Costs, Layout, pack_row, read_rows
from scribe_spark.engine.program import AT, deliver
from scribe_spark.pastry.arrivals.closeness import Keys
from scribe_spark.pastry.arrivals.states import NONE, States, table_rows
from scribe_spark.pastry.arrivals.wave import CELLS, LEAVES, Given
from scribe_spark.pastry.events import Events
from scribe_spark.pastry.lives import Lives
from scribe_spark.pastry.lookups import Lookups, try_routes
from scribe_spark.pastry.node_rows import to_rows
from scribe_spark.pastry.player_on_spark import OnSpark
from scribe_spark.pastry.rules import WorldRules
from scribe_spark.pastry.tally import MESSAGE_KINDS
from scribe_spark.pastry.traffic import Traffic
from scribe_spark.scribe.scribe import SCRIBE_KINDS
from scribe_spark.underlay.protocol import Kernel, Underlay
from scribe_spark.worlds.groups_on_buckets import GroupsOnBuckets, spread_groups
from scribe_spark.worlds.live_tree import live_tree_measures
from scribe_spark.worlds.live_world import PlayedRound, Protocols, measures_of, play_overlay
from scribe_spark.worlds.packed import pack, unpack, unpacked
from scribe_spark.worlds.round_job import lookup_columns
from scribe_spark.worlds.state_table import NODES, read_state, state_table

__all__ = ["OnBuckets"]

#: Parts of the table of nodes that a bucket may have when the state is packed.
_PARTS = 10_000


class OnBuckets:
    """The nodes of a world on the buckets of the ring.

    Parameters
    ----------
    state : DataFrame
        `schemas.PACKED`.
    buckets : int
        B.
    """

    def __init__(
        self, state: DataFrame, buckets: int, protocols: Protocols, underlay: Underlay
    ) -> None:
        self._protocols, self._kernel = protocols, underlay.kernel
        nodes = unpacked(state, NODES, schemas.NODES)
        facts, self._known = distribute_facts(nodes, self._kernel)
        layout = Layout(state.sparkSession, buckets, buckets)
        self._ring = BucketRing(facts, bucket_bounds(self._known, buckets, 64), layout)
        rules = protocols.rules
        first = _spread(state, self._ring, rules, self._kernel)
        kinds: tuple[str, ...] = MESSAGE_KINDS
        self._groups: GroupsOnBuckets | None = None
        if protocols.groups is not None:
            first, kinds = first.unionByName(spread_groups(state)), kinds + SCRIBE_KINDS
            self._groups = GroupsOnBuckets(protocols.groups, state, self._known)
        lives = _lives(state, self._ring)
        tables = BucketTables(layout, first)
        self._player = OnSpark(self._ring, tables, rules, self._kernel, lives, kinds)
        self._player.play(_Assemble(self._player.given))

    @property
    def known(self) -> np.ndarray:
        """The numbers of the nodes, by position."""
        return self._known.node

    @property
    def costs(self) -> Costs:
        """What the last round has cost."""
        return self._player.tables.costs

    def play(
        self, number: int, events: Mapping[str, np.ndarray], traffic: Traffic | None
    ) -> PlayedRound:
        """Play a round.

        Parameters
        ----------
        events : mapping of str to ndarray
            ``node, event``: all events of the round.
        traffic : Traffic, optional
            Where senders and receivers of all messages are remembered.

        Raises
        ------
        ImpossibleRound
            An event that cannot be, or no node is left; nothing has been played then.
        """
        player, protocols = self._player, self._protocols
        player.begin_round(number)
        was_alive = player.lives.alive.copy() if protocols.live_tree else None
        of_groups = None
        if self._groups is None:
            of_nodes = Events.of(self._known, events["node"], events["event"])
            result, measures = play_overlay(player, number, of_nodes, protocols.lookups, traffic)
        else:
            of_groups = self._groups.play(player, number, events, protocols.lookups, traffic)
            result, measures = of_groups.overlay, measures_of(player, of_groups.overlay)
        if protocols.live_tree is not None and was_alive is not None:
            alive = player.lives.alive
            measures |= live_tree_measures(protocols.live_tree, self._known, was_alive, alive)
        if of_groups is None:
            return PlayedRound(result, measures, {})
        left = {name: getattr(of_groups, name) for name in ("publications", "watched_trees")}
        return PlayedRound(result, measures | of_groups.measures, left, of_groups.multicasts)

    def route(self, messages: pa.Table) -> pa.Table:
        """Route messages by what nodes know now: `schemas.LOOKUPS`; nothing changes.

        Parameters
        ----------
        messages : pyarrow.Table
            ``node, key_hi, key_lo``: where each begins, and its key.
        """
        node, hi, lo = (messages.column(name).to_numpy() for name in messages.column_names)
        keys = Keys(hi.view(np.uint64), lo.view(np.uint64))
        lookups = Lookups(self._ring.facts.positions(node), keys)
        columns = lookup_columns(try_routes(self._player, lookups), self.known)
        return pa.Table.from_pydict(columns, schema=to_arrow_schema(schemas.LOOKUPS))

    def packed(self) -> DataFrame:
        """`schemas.PACKED`: all that has to be kept; lazy."""
        rows = self._player.tables.rows(LEAVES, CELLS)
        nodes = self._ring.layout.place(rows).mapInArrow(
            _packing(self._player.given, self._kernel), schemas.PACKED
        )
        return nodes if self._groups is None else self._groups.packed(self._player, nodes)

    def release(self) -> None:
        """Free what the executors keep."""
        self._player.release()


def _lives(state: DataFrame, ring: BucketRing) -> Lives:
    """Return the lives of all nodes of a packed state."""
    columns = ["node", "alive", "died", "wait", "entered"]
    rows = unpacked(state, NODES, schemas.WORLD_STATE).select(*columns).toArrow()
    node, *kept = (rows.column(name).to_numpy() for name in columns)
    order = np.argsort(ring.facts.positions(node))
    return Lives(*[column[order] for column in kept])


def _spread(state: DataFrame, ring: BucketRing, rules: WorldRules, kernel: Kernel) -> DataFrame:
    """Return what nodes know as messages to them (:data:`ROWS`), of a packed state; lazy."""
    facts, bounds = ring.facts, ring.bounds

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for row in range(batch.num_rows):
                part = unpack(pa.Table.from_batches([batch.slice(row, 1)]))[NODES]
                rows = read_state(part, rules.leaf_set, kernel)
                width = table_rows(facts.ring, rules.b) * 2**rules.b
                cells = np.full((len(rows.node), width), NONE, dtype=np.int32)
                node = np.repeat(np.arange(len(rows.node)), np.diff(rows.offsets))
                cells[node, rows.cell] = facts.positions(rows.entry)
                leaves = facts.positions(np.maximum(rows.leaves, 0))
                leaves = np.where(rows.leaves >= 0, leaves, NONE).astype(np.int32)
                at = facts.positions(rows.node)
                known = {AT: at, "leaves": leaves, "cells": cells}
                for to, kind, columns in deliver(bounds, {NODES: known}):
                    yield pack_row(to, 0, False, kind, columns)

    return state.where(F.col("name") == NODES).mapInArrow(run, ROWS)


@dataclass(frozen=True)
class _Assemble:
    """Puts what nodes are told that they know into tables of their bucket."""

    given: Given

    @property
    def bounds(self) -> np.ndarray:
        """See `engine.Program`."""
        return self.given.bounds

    def step(self, bucket: int, tables: Tables, inbox: Inbox, superstep: int) -> Outbox:
        """See `engine.Program`."""
        rules, ring = self.given.rules, self.given.facts.ring
        own = np.arange(*self.bounds[bucket : bucket + 2])
        states = States.empty(ring, own, rules.leaf_set, rules.b)
        if NODES in inbox:
            came = inbox[NODES]
            index = came[AT] - states.first
            states.leaves[index] = came["leaves"]
            states.cells.reshape(len(own), -1)[index] = came["cells"]
        tables[LEAVES], tables[CELLS] = {"leaves": states.leaves}, {"cells": states.cells}
        return {}


def _packing(
    given: Given, kernel: Kernel
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return the kernel that packs the nodes of the buckets of a partition."""

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        found: dict[int, dict[str, Callable[[], dict[str, np.ndarray]]]] = {}
        for row in read_rows(batches):
            found.setdefault(row.bucket, {})[row.name] = row.read
        for bucket, read in sorted(found.items()):
            own = np.arange(*given.bounds[bucket : bucket + 2])
            leaves, cells = read[LEAVES]()["leaves"], read[CELLS]()["cells"]
            states = States(given.facts.ring, own, leaves, cells)
            table = pack({NODES: state_table(to_rows(states, given.in_round), kernel)})
            part = np.arange(len(table), dtype=np.int32) + bucket * _PARTS
            place = table.column_names.index("part")
            yield from table.set_column(
                place, table.schema.field("part"), pa.array(part, table.schema.field("part").type)
            ).to_batches()

    return run
