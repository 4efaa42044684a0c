"""The groups of a world whose nodes are in buckets.

What nodes know of groups are tables of their buckets, and measures are counted there; the driver
gets counts, and the rows of watched trees.

References
----------
JSAC 2002, Section III; docs/rules.md, "Scribe alive".
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, fields
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import LongType, StructField, StructType

from scribe_spark import schemas
from scribe_spark.engine import Columns
from scribe_spark.engine.buckets import BucketRing, tables_by_bucket
from scribe_spark.engine.facts import Facts
from scribe_spark.engine.on_spark import ROWS, pack_row, read_rows
from scribe_spark.engine.packing import unpack as unpack_columns
from scribe_spark.errors import InputError
from scribe_spark.pastry.lives import NEVER
from scribe_spark.pastry.player_on_spark import OnSpark
from scribe_spark.pastry.tally import MESSAGE_KINDS, Tally
from scribe_spark.runtime.distribute import discard_arrays, distribute_arrays, open_array
from scribe_spark.runtime.sessions import local_frame
from scribe_spark.scribe.end_of_round import OUTCOMES
from scribe_spark.scribe.events import JOINING, QUITTING, PlayEvents
from scribe_spark.scribe.multicast import DELIVERIES, OF_THE_LAST_ROUND, PAYLOADS
from scribe_spark.scribe.program import GroupRound as RoundOfGroups
from scribe_spark.scribe.rejoin import EXTRA_JOINS
from scribe_spark.scribe.round import COUNTS, play_groups
from scribe_spark.scribe.scribe import SCRIBE_KINDS
from scribe_spark.scribe.state import PREFIX, Entries, table_of
from scribe_spark.worlds.group_tables import INCARNATIONS, QUERIED, incarnation_table, queried
from scribe_spark.worlds.live_groups import (
    MEASURE_TABLES,
    GroupRound,
    LiveGroups,
    refuse_unknown,
    split_events,
)
from scribe_spark.worlds.packed import pack, unpacked
from scribe_spark.worlds.watched_trees import TREES_SEEN, SeeTrees, Tree, trees_of

__all__ = [
    "GroupsOnBuckets",
    "pack_part",
    "read_incarnations",
    "refuse_other_buckets",
    "saved_buckets",
    "spread_groups",
]

#: How the names of packed tables of a bucket begin: they are read by as many buckets alone.
_OF_BUCKET = "bucket/"

#: Parts of a packed table that a bucket may have.
_PARTS = 10_000

#: The packed table that tells how many buckets there are; one bucket has none.
_BUCKETS = "buckets"

_COUNT = StructType([StructField("buckets", LongType())])

_INCARNATIONS = StructType([StructField(name, LongType()) for name in ("node", "round")])


def spread_groups(state: DataFrame) -> DataFrame:
    """Return the buckets' tables of groups in a packed state: `ROWS`; lazy."""

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for row in batch.to_pylist():
                name = row["name"].removeprefix(_OF_BUCKET)
                bucket = row["part"]
                yield pack_row(bucket, bucket, True, name, unpack_columns(row["data"]))

    return state.where(F.col("name").startswith(_OF_BUCKET)).mapInArrow(run, ROWS)


def saved_buckets(state: DataFrame) -> int:
    """Return how many buckets the groups of a packed state (`schemas.PACKED`) were in."""
    told = unpacked(state, _BUCKETS, _COUNT).first()
    return 1 if told is None else told[0]


def refuse_other_buckets(buckets: int, before: int, otherwise: str = "") -> None:
    """Refuse another number of buckets than groups were saved in: each has tables of its own.

    Parameters
    ----------
    otherwise : str
        What else would do.

    Raises
    ------
    InputError
    """
    if buckets != before:
        remedy = f"is not what groups were saved with; give {before}{otherwise}"
        raise InputError("buckets", buckets, remedy)


def read_incarnations(state: DataFrame, facts: Facts) -> np.ndarray:
    """Return the round of the last arrival or recovery of each node of a packed state."""
    incarnation = np.full(len(facts.ring), NEVER)
    came = unpacked(state, INCARNATIONS, _INCARNATIONS).toArrow()
    node, number = (came.column(name).to_numpy() for name in came.column_names)
    incarnation[facts.positions(node)] = number
    return incarnation


class _Incarnations:
    """The round of each node's last arrival or recovery: on the driver, and in a file for tasks."""

    def __init__(self, spark: SparkSession, rounds: np.ndarray) -> None:
        self.rounds, self._spark = rounds, spark
        self._names: list[str] = []

    def share(self) -> str:
        """Return the name of the file as of now."""
        if not self._names or not np.array_equal(open_array(self._names[-1]), self.rounds):
            self._names += distribute_arrays(self._spark, incarnation=self.rounds)
        return self._names[-1]

    def release(self, kept: int = 0) -> None:
        """Free all files but the newest ones."""
        old = self._names[: len(self._names) - kept]
        discard_arrays(*old)
        del self._names[: len(old)]


@dataclass(frozen=True)
class _SharedRound(RoundOfGroups):
    """A round whose incarnations tasks map: only the name of the file goes with a task."""

    share: Callable[[], str] | None = None

    def __getstate__(self) -> dict[str, Any]:
        assert self.share is not None
        state = {one.name: getattr(self, one.name) for one in fields(self)}
        return state | {"incarnation": self.share(), "share": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state | {"incarnation": open_array(state["incarnation"])})


class GroupsOnBuckets:
    """The groups of a world, and since when its nodes are alive.

    Parameters
    ----------
    live : LiveGroups
    ring : BucketRing
        All nodes of the world.
    incarnation : ndarray of int64
        The round of each node's last arrival or recovery.
    """

    def __init__(self, live: LiveGroups, ring: BucketRing, incarnation: np.ndarray) -> None:
        self._live, self._ring = live, ring
        self._groups = live.groups(ring.facts.ring)
        self._incarnations = _Incarnations(ring.layout.spark, incarnation)
        self._watched = live.watched_indices(self._groups)
        self._before: Mapping[int, Tree] | None = None
        self._outcomes: Columns = {}

    def play(
        self,
        player: OnSpark,
        number: int,
        events: Mapping[str, np.ndarray],
        lookups: int,
        keeps_messages: bool,
        memberships: DataFrame | None = None,
    ) -> GroupRound:
        """Play a round of Pastry and Scribe.

        Parameters
        ----------
        keeps_messages : bool
            Whether senders and receivers of all messages stay in the buckets until the next round.
        memberships : DataFrame, optional
            ``node, event, group``: joins and quits that are not among the events; checked.

        Raises
        ------
        ImpossibleRound
            An event that cannot be; or no node is left.
        """
        live, groups, known = self._live, self._groups, self._ring.facts.ring
        refuse_unknown(number, events, known, groups)
        of_nodes, of_groups = split_events(events, known, groups)
        self._incarnations.release(kept=1)
        round = self._round(number)
        before = self._trees(player, round)
        player.observe(traffic=keeps_messages or live.link_stress.is_measured(number))
        tally = Tally(MESSAGE_KINDS + SCRIBE_KINDS)
        if memberships is not None:
            player.send_first(PlayEvents, self._messages(memberships))
        of_overlay, taken = play_groups(
            *(player, round, of_nodes, of_groups, lookups, tally, number == live.rounds - 1),
            measures=partial(live.programs, keeps_messages=keeps_messages),
            tables=(*COUNTS, EXTRA_JOINS, *MEASURE_TABLES),
        )
        self._outcomes = taken.get(OUTCOMES, {})
        seen = live.see(
            *(number, of_overlay, taken, groups, known, player.lives, player.given.kernel),
            *(before, dict),
        )
        self._before = seen.trees
        return seen

    def _round(self, number: int) -> _SharedRound:
        made = self._live.round(number, self._groups, self._incarnations.rounds)
        return _SharedRound(**vars(made), share=self._incarnations.share)

    def _trees(self, player: OnSpark, round: RoundOfGroups) -> Mapping[int, Tree]:
        """Return the watched trees as they are."""
        if self._before is not None:
            return self._before
        taken: dict[str, dict[str, np.ndarray]] = {}
        if player.has(table_of("entries")):
            player.play(SeeTrees(player.given, round, self._watched))
            taken = player.take(*TREES_SEEN)
        return trees_of(taken, self._watched, len(self._ring))

    def _messages(self, memberships: DataFrame) -> DataFrame:
        """Return joins and quits as messages to their nodes: `ROWS`; lazy."""
        numbers = self._groups.number

        def columns(facts: Facts, batch: pa.RecordBatch) -> Columns:
            return {"group": np.searchsorted(numbers, batch.column("group").to_numpy())}

        joins, quits = (
            self._ring.messages(memberships.where(F.col("event") == event), kind, "node", columns)
            for event, kind in (("join", JOINING), ("quit", QUITTING))
        )
        return joins.unionByName(quits)

    def multicasts(self, player: OnSpark, name: str, schema: StructType) -> DataFrame:
        """Return ``tree_edges`` or ``deliveries`` of the last round's multicasts; lazy."""
        live, groups, facts = self._live, self._groups, self._ring.facts
        of, kernel = live.multicasts.multicasts(self._outcomes), player.given.kernel
        entries = table_of("entries")

        def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for tables in tables_by_bucket(batches).values():
                known = Entries(**tables[entries]) if entries in tables else Entries()
                came = tables.get(DELIVERIES, {}), tables.get(PAYLOADS, {})
                made = live.multicasts.tables(of, known, *came, facts.ring, groups, kernel)
                yield from made[name].select(schema.names).to_batches()

        rows = player.tables.rows(entries, DELIVERIES, PAYLOADS)
        return self._ring.layout.partition(rows).mapInArrow(run, schema)

    def asked(self, player: OnSpark) -> DataFrame:
        """`schemas.PACKED` of the tables that queries read; lazy."""
        groups, facts = self._groups, self._ring.facts

        def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for row in read_rows(batches):
                for name, table in queried(row.name, row.read(), groups, facts.ring):
                    yield from pack_part(row.bucket, name, table)

        return player.tables.rows(*QUERIED).mapInArrow(run, schemas.PACKED)

    def packed(self, player: OnSpark, nodes: DataFrame) -> DataFrame:
        """`schemas.PACKED`: the nodes, the buckets' tables, and tables that queries read; lazy."""

        def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for row in read_rows(batches):
                yield pa.RecordBatch.from_pydict(
                    {
                        "name": pa.array([_OF_BUCKET + row.name]),
                        "part": pa.array([row.bucket], pa.int32()),
                        "data": pa.array([row.to_bytes()], pa.binary()),
                    }
                )

        kept = player.tables.rows_called(PREFIX).where(~F.col("name").isin(*OF_THE_LAST_ROUND))
        table = incarnation_table(self._incarnations.rounds, self._ring.facts.ring)
        told = pa.table({"buckets": [self._ring.layout.buckets]})
        driver = local_frame(nodes.sparkSession, pack({INCARNATIONS: table, _BUCKETS: told}))
        both = nodes.unionByName(kept.mapInArrow(run, schemas.PACKED))
        return both.unionByName(self.asked(player)).unionByName(driver)

    def release(self) -> None:
        """Free the files."""
        self._incarnations.release()


def pack_part(bucket: int, name: str, table: pa.Table) -> list[pa.RecordBatch]:
    """Return a bucket's part of a packed table: `schemas.PACKED`."""
    packed = pack({name: table})
    part = np.arange(len(packed), dtype=np.int32) + bucket * _PARTS
    column = packed.column_names.index("part")
    return packed.set_column(column, packed.schema.field("part"), pa.array(part)).to_batches()
