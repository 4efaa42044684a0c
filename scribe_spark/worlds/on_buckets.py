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
from pyspark.sql.types import StructType

from scribe_spark import schemas
from scribe_spark.core.arrays import row_numbers
from scribe_spark.engine import Inbox, Outbox, Tables
from scribe_spark.engine.buckets import BucketRing, tables_by_bucket, typed
from scribe_spark.engine.facts import bucket_bounds, distribute_facts
from scribe_spark.engine.on_spark import ROWS, BucketTables, Costs, Layout, pack_row
from scribe_spark.engine.program import AT, deliver
from scribe_spark.pastry.arrivals.closeness import Keys
from scribe_spark.pastry.arrivals.observer import MESSAGES, TRAFFIC
from scribe_spark.pastry.arrivals.overlay import play_arrivals
from scribe_spark.pastry.arrivals.states import CELLS, LEAVES, NONE, States, table_rows
from scribe_spark.pastry.arrivals.wave import Given, NodeProgram
from scribe_spark.pastry.arrivals.waves import arrival_ranks
from scribe_spark.pastry.bucket_tables import ENTRY, LEAF_SET, Assemble
from scribe_spark.pastry.events import Events
from scribe_spark.pastry.lives import NEVER, Lives
from scribe_spark.pastry.lookups import Lookups, try_routes
from scribe_spark.pastry.node_rows import to_rows
from scribe_spark.pastry.perfect_tables import perfect_tables
from scribe_spark.pastry.player_on_spark import OnSpark
from scribe_spark.pastry.prefix_summaries import bucket_digits
from scribe_spark.pastry.round import NEW_LEAFS
from scribe_spark.pastry.rules import WorldRules
from scribe_spark.pastry.tally import MESSAGE_KINDS
from scribe_spark.runtime.sessions import parallelism
from scribe_spark.scribe.scribe import SCRIBE_KINDS
from scribe_spark.underlay.protocol import Kernel, Underlay
from scribe_spark.worlds.groups_on_buckets import (
    GroupsOnBuckets,
    pack_part,
    read_incarnations,
    spread_groups,
)
from scribe_spark.worlds.live_tree import find_live_tree, live_tree_measures
from scribe_spark.worlds.live_world import PlayedRound, Protocols, play_overlay
from scribe_spark.worlds.packed import unpack, unpacked
from scribe_spark.worlds.round_job import lookup_columns, message_table
from scribe_spark.worlds.state_table import NODES, read_state, state_table

__all__ = ["OnBuckets"]


class OnBuckets:
    """The nodes of a world on the buckets of the ring.

    Parameters
    ----------
    ring : BucketRing
        All nodes of the world.
    tables : BucketTables
        What nodes know.
    lives : Lives
        Of all nodes.
    incarnation : ndarray of int64
        The round of each node's last arrival or recovery.
    """

    def __init__(
        self,
        ring: BucketRing,
        tables: BucketTables,
        lives: Lives,
        incarnation: np.ndarray,
        protocols: Protocols,
    ) -> None:
        self._ring, self._protocols, self._kernel = ring, protocols, protocols.kernel
        kinds: tuple[str, ...] = MESSAGE_KINDS
        self._groups: GroupsOnBuckets | None = None
        if protocols.groups is not None:
            kinds += SCRIBE_KINDS
            self._groups = GroupsOnBuckets(protocols.groups, ring, incarnation)
        self._player = OnSpark(ring, tables, protocols.rules, self._kernel, lives, kinds)

    @classmethod
    def at_start(
        cls,
        nodes: DataFrame,
        initial: int,
        overlay: str,
        buckets: int,
        protocols: Protocols,
        underlay: Underlay,
    ) -> OnBuckets:
        """Return the nodes before the first round; each bucket makes its own tables.

        Parameters
        ----------
        nodes : DataFrame
            `schemas.NODES`.
        initial : int
            How many are alive: the first numbers.
        overlay : str
            ``perfect`` or ``arrivals``.
        buckets : int
            B.
        """
        ring, rules = _ring(nodes, buckets, underlay.kernel), protocols.rules
        known = ring.facts.ring
        live, entered = np.flatnonzero(known.node < initial), np.zeros(1, dtype=np.int64)
        if overlay == "arrivals":
            tables = play_arrivals(ring, initial, underlay.kernel, rules)
            entered = arrival_ranks(known.take(live), rules) + 1
        else:
            cores, routers = parallelism(nodes.sparkSession), len(underlay.routers)
            digits = bucket_digits(rules.b, initial, routers, cores)
            first = perfect_tables(ring, underlay, rules.b, rules.leaf_set, digits, initial)
            tables = BucketTables(ring.layout, first)
        tables.settle()
        tables.take(MESSAGES)
        lives = Lives.of(len(known), live, entered)
        return cls(ring, tables, lives, np.full(len(known), NEVER), protocols)

    @classmethod
    def of_state(
        cls, state: DataFrame, buckets: int, protocols: Protocols, underlay: Underlay
    ) -> OnBuckets:
        """Return the nodes of a packed state; each part of it goes to its buckets.

        Parameters
        ----------
        state : DataFrame
            `schemas.PACKED`.
        buckets : int
            B; where there are groups that has to be the number of the buckets that were packed.
        """
        nodes = unpacked(state, NODES, schemas.NODES)
        ring = _ring(nodes, buckets, underlay.kernel)
        first = _spread(state, ring, protocols.rules, underlay.kernel)
        if protocols.groups is not None:
            first = first.unionByName(spread_groups(state))
        incarnation = read_incarnations(state, ring.facts)
        tables = BucketTables(ring.layout, first)
        made = cls(ring, tables, _lives(state, ring), incarnation, protocols)
        rules, rows = protocols.rules, table_rows(ring.facts.ring, protocols.rules.b)
        made._player.play(Assemble(ring.bounds, rules.b, rules.leaf_set // 2, rows))
        return made

    @property
    def known(self) -> np.ndarray:
        """The numbers of the nodes, by position."""
        return self._ring.facts.ring.node

    @property
    def costs(self) -> Costs:
        """What the last round has cost."""
        return self._player.tables.costs

    def play(
        self,
        number: int,
        events: Mapping[str, np.ndarray],
        keeps_messages: bool,
        memberships: DataFrame | None = None,
    ) -> PlayedRound:
        """Play a round.

        Parameters
        ----------
        events : mapping of str to ndarray
            ``node, event, group``: all events of the round, but `memberships`.
        keeps_messages : bool
            Whether senders and receivers of all messages stay in the buckets, for :meth:`messages`.
        memberships : DataFrame, optional
            ``node, event, group``: joins and quits, checked, that the driver does not see.

        Raises
        ------
        ImpossibleRound
            An event that cannot be, or no node is left; nothing has been played then.
        """
        player, protocols = self._player, self._protocols
        player.begin_round(number)
        if player.has(f"{TRAFFIC} 0"):
            player.play(_ForgetMessages(player.given))
        if protocols.live_tree is not None:
            find_live_tree(protocols.live_tree, player)
        of_groups = None
        if self._groups is None:
            of_nodes = Events.of(self._ring.facts.ring, events["node"], events["event"])
            result, measures = play_overlay(
                *(player, number, of_nodes, protocols.lookups, None, ()),
                keeps_messages=keeps_messages,
            )
        else:
            of_groups = self._groups.play(
                player, number, events, protocols.lookups, keeps_messages, memberships
            )
            result, measures = of_groups.overlay, of_groups.measures
        if protocols.live_tree is not None:
            measures |= live_tree_measures(protocols.live_tree, player)
        if of_groups is None:
            return PlayedRound(result, measures, {})
        return PlayedRound(result, measures, of_groups.tables())

    def new_leafs(self) -> DataFrame:
        """Return ``node``: whose leaf set changed in the last round; lazy."""
        facts = self._ring.facts

        def numbers(bucket: int, columns: dict[str, np.ndarray]) -> Iterator[pa.RecordBatch]:
            node = facts.ring.node[columns["node"]]
            yield pa.RecordBatch.from_pydict({"node": pa.array(node, pa.int64())})

        return typed(self._player.tables.rows(NEW_LEAFS), numbers, "node bigint")

    def messages(self) -> DataFrame:
        """`schemas.MESSAGES` of the last round, if it was to keep them; lazy."""
        facts, kinds = self._ring.facts, self._player.given.observer.kinds

        def numbers(bucket: int, columns: dict[str, np.ndarray]) -> Iterator[pa.RecordBatch]:
            node, kind = facts.ring.node, np.array(kinds)[columns["kind"]]
            yield from message_table(
                kind, node[columns["sender"]], node[columns["to"]]
            ).to_batches()

        rows = self._player.tables.rows_called(f"{TRAFFIC} ")
        return typed(rows, numbers, schemas.MESSAGES)

    def multicasts(self, name: str, schema: StructType) -> DataFrame:
        """Return ``tree_edges`` or ``deliveries`` of the last round's multicasts; lazy."""
        assert self._groups is not None
        return self._groups.multicasts(self._player, name, schema)

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

    def nodes(self) -> DataFrame:
        """`schemas.PACKED` of the nodes; lazy."""
        rows = self._player.tables.rows(LEAVES, CELLS)
        return self._ring.layout.partition(rows).mapInArrow(
            _packing(self._player.given, self._kernel), schemas.PACKED
        )

    def trees(self) -> DataFrame:
        """`schemas.PACKED` of the tables of groups that queries read; lazy."""
        assert self._groups is not None
        return self._groups.asked(self._player)

    def packed(self) -> DataFrame:
        """`schemas.PACKED`: all that has to be kept; lazy."""
        nodes = self.nodes()
        return nodes if self._groups is None else self._groups.packed(self._player, nodes)

    def release(self) -> None:
        """Free what the executors keep."""
        if self._groups is not None:
            self._groups.release()
        self._player.release()


def _ring(nodes: DataFrame, buckets: int, kernel: Kernel) -> BucketRing:
    """Return the ring of all nodes, cut into buckets."""
    facts = distribute_facts(nodes, kernel)
    spark = nodes.sparkSession
    # a superstep costs as much as there are partitions, and no more for several buckets in one
    layout = Layout(spark, buckets, parallelism(spark))
    return BucketRing(facts, bucket_bounds(facts.ring, buckets, 64), layout)


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
                at = facts.positions(rows.node)
                leaves = facts.positions(np.maximum(rows.leaves, 0))
                leaves = np.where(rows.leaves >= 0, leaves, NONE)
                larger, smaller = np.split(leaves, 2, axis=1)
                entries = {
                    AT: at[row_numbers(rows.offsets)],
                    "cell": rows.cell.astype(np.int64),
                    "entry": facts.positions(rows.entry),
                }
                told = {LEAF_SET: {AT: at, "larger": larger, "smaller": smaller}, ENTRY: entries}
                for to, kind, columns in deliver(bounds, told):
                    yield pack_row(to, 0, False, kind, columns)

    return state.where(F.col("name") == NODES).mapInArrow(run, ROWS)


@dataclass(frozen=True)
class _ForgetMessages(NodeProgram):
    """Forgets the messages that were kept in the round before."""

    def step(self, bucket: int, tables: Tables, inbox: Inbox, superstep: int) -> Outbox:
        """See `engine.Program`."""
        for name in [name for name in tables if name.startswith(f"{TRAFFIC} ")]:
            del tables[name]
        return {}


def _packing(
    given: Given, kernel: Kernel
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return the kernel that packs the nodes of the buckets of a partition."""

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for bucket, tables in tables_by_bucket(batches).items():
            states = States.of_tables(given.facts.ring, int(given.bounds[bucket]), tables)
            table = state_table(to_rows(states, given.in_round), kernel)
            yield from pack_part(bucket, NODES, table)

    return run
