"""The groups of a world whose nodes are in buckets.

What nodes know of groups are tables of their buckets.  Measures look at the trees of all nodes:
these are put together on the driver after each round.

References
----------
JSAC 2002, Section III; docs/rules.md, "Scribe alive".
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import LongType, StructField, StructType

from scribe_spark import schemas
from scribe_spark.engine import Tables
from scribe_spark.engine.on_spark import ROWS, pack_row, read_rows
from scribe_spark.engine.packing import unpack as unpack_columns
from scribe_spark.engine.ring import Ring
from scribe_spark.pastry.arrivals.states import States
from scribe_spark.pastry.lives import NEVER, KnowsLives
from scribe_spark.pastry.overlay_state import OverlayState
from scribe_spark.pastry.player_on_spark import OnSpark
from scribe_spark.pastry.tally import MESSAGE_KINDS, Tally
from scribe_spark.pastry.traffic import Traffic
from scribe_spark.runtime.sessions import local_frame
from scribe_spark.scribe.program import GroupRound as RoundOfGroups
from scribe_spark.scribe.program import StoredApplications
from scribe_spark.scribe.round import play_groups
from scribe_spark.scribe.rows import to_tables
from scribe_spark.scribe.scribe import SCRIBE_KINDS
from scribe_spark.scribe.splitting import join_states, state_of
from scribe_spark.scribe.state import PREFIX, ScribeState
from scribe_spark.worlds.live_groups import GroupRound, LiveGroups, refuse_unknown, split_events
from scribe_spark.worlds.packed import pack, unpacked
from scribe_spark.worlds.watched_trees import told_trees

__all__ = ["GroupsOnBuckets", "spread_groups"]

#: How the names of packed tables of a bucket begin: they are read by as many buckets alone.
_OF_BUCKET = "bucket/"

_INCARNATIONS = StructType([StructField(name, LongType()) for name in ("node", "round")])

#: Packed tables of all nodes that queries read; what else there is, buckets have.
_ASKED = ("entries", "children", "incarnations")


def spread_groups(state: DataFrame) -> DataFrame:
    """Return the buckets' tables of groups in a packed state: `ROWS`; lazy."""

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for row in batch.to_pylist():
                name = row["name"].removeprefix(_OF_BUCKET)
                bucket = row["part"]
                yield pack_row(bucket, bucket, True, name, unpack_columns(row["data"]))

    return state.where(F.col("name").startswith(_OF_BUCKET)).mapInArrow(run, ROWS)


class GroupsOnBuckets:
    """The groups of a world, and since when its nodes are alive.

    Parameters
    ----------
    live : LiveGroups
    state : DataFrame
        `schemas.PACKED`.
    known : Ring
        All nodes of the world, in the order of nodeIds.
    """

    def __init__(self, live: LiveGroups, state: DataFrame, known: Ring) -> None:
        self._live, self._known, self._groups = live, known, live.groups(known)
        self._incarnation = np.full(len(known), NEVER)
        came = unpacked(state, "incarnations", _INCARNATIONS).toArrow()
        node, number = (came.column(name).to_numpy() for name in came.column_names)
        self._incarnation[known.positions(node)] = number
        self._before: ScribeState | None = None

    def play(
        self,
        player: OnSpark,
        number: int,
        events: Mapping[str, np.ndarray],
        lookups: int,
        traffic: Traffic | None,
    ) -> GroupRound:
        """Play a round of Pastry and Scribe.

        Raises
        ------
        ImpossibleRound
            An event that cannot be; or no node is left.
        """
        live, groups, known = self._live, self._groups, self._known
        refuse_unknown(number, events, known, groups)
        of_nodes, of_groups = split_events(events, known, groups)
        traffic = live.traffic(number, traffic)
        before = live.watched_trees(self._joined(player), groups)
        player.observe(traffic=traffic is not None)
        make = live.make_application
        kept = None if make is None else StoredApplications(make, len(known))
        lan_us = live.multicasts.lan_us if live.multicasts.of_ways else None
        timed = lan_us is not None
        round = RoundOfGroups(
            number, groups, live.rules, self._incarnation, kept, timed, lan_us or 0
        )
        tally = Tally(MESSAGE_KINDS + SCRIBE_KINDS, traffic)
        is_last = number == live.rounds - 1
        of_overlay, result = play_groups(
            player, round, of_nodes, of_groups, lookups, tally, is_last
        )
        self._before = None
        overlay, state = _overlay(known, player.lives), self._joined(player)
        trees = told_trees(number, before, state, groups, overlay)
        kernel = player.given.kernel
        return live.see(number, of_overlay, result, state, groups, overlay, kernel, traffic, trees)

    def _joined(self, player: OnSpark) -> ScribeState:
        """Return what all nodes know of groups."""
        if self._before is None:
            rows = read_rows(player.tables.rows_called(PREFIX).toArrow().to_batches())
            by_bucket: dict[int, Tables] = {n: Tables() for n in range(len(player.ring.bounds) - 1)}
            for row in rows:
                by_bucket[row.bucket][row.name] = row.read()
            size, groups = len(self._known), len(self._groups)
            self._before = join_states(
                [state_of(each, size, self._incarnation, groups) for each in by_bucket.values()]
            )
        return self._before

    def packed(self, player: OnSpark, nodes: DataFrame) -> DataFrame:
        """`schemas.PACKED`: the nodes, the buckets' tables, and tables that queries read."""

        def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for row in read_rows(batches):
                yield pa.RecordBatch.from_pydict(
                    {
                        "name": pa.array([_OF_BUCKET + row.name]),
                        "part": pa.array([row.bucket], pa.int32()),
                        "data": pa.array([row.packed()], pa.binary()),
                    }
                )

        of_buckets = player.tables.rows_called(PREFIX).mapInArrow(run, schemas.PACKED)
        tables = to_tables(self._joined(player), self._groups, self._known)
        asked = pack({name: tables[name] for name in _ASKED})
        both = nodes.unionByName(of_buckets)
        return both.unionByName(local_frame(nodes.sparkSession, asked))


def _overlay(known: Ring, lives: KnowsLives) -> OverlayState:
    """Return the overlay without what nodes know."""
    nothing = np.empty((0, 0), dtype=np.int32)
    states = States(known, np.arange(0), nothing, nothing)
    return OverlayState(states, lives.alive, lives.died, lives.wait, lives.entered)
