"""A world: an overlay whose nodes arrive, leave, fail and recover, played round by round."""

from __future__ import annotations

from decimal import Decimal

import pandas as pd
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import DecimalType

from scribe_spark import schemas
from scribe_spark.errors import InputError
from scribe_spark.pastry.living.rules import WorldRules
from scribe_spark.pastry.overlay import PastryOverlay
from scribe_spark.runtime.blocks import describe_jobs, materialise, release
from scribe_spark.underlay.protocol import Underlay
from scribe_spark.worlds.group_tables import children, memberships
from scribe_spark.worlds.live_groups import LiveGroups
from scribe_spark.worlds.live_tree import LiveTree
from scribe_spark.worlds.operations import Operations
from scribe_spark.worlds.packed import unpack, unpacked
from scribe_spark.worlds.round_job import live_overlay, played, routed
from scribe_spark.worlds.starts import arrived_start, perfect_tables
from scribe_spark.worlds.state_table import NODES
from scribe_spark.worlds.world_rows import (
    LOOKUPS,
    MEASURE,
    NEW_LEAFS,
    PUBLICATIONS,
    REFUSED,
    STATE,
)

__all__ = ["World"]

_ROUND = DecimalType(20, 0)


class World:
    """An overlay between two rounds; :meth:`step` plays the next one.

    Parameters
    ----------
    state : DataFrame
        `schemas.PACKED`, materialised; the world frees it.
    events : DataFrame
        `schemas.EVENTS`, checked.
    underlay : Underlay
    rules : WorldRules
    lookups : int
        Made in each round, between live nodes and keys that are drawn.
    number : int
        The round that is played next.
    live_tree : LiveTree, optional
        The reference tree that is kept over the live nodes.
    groups : LiveGroups, optional
        The groups of the world.

    Attributes
    ----------
    number : int
        The round that is played next.
    scribe : Operations
        Scribe's operations: what they ask for happens in the round that is played next.
    publications : pandas.DataFrame
        ``round, group, expected, in_time, late, lost, duplicates``: of those publications whose
        deadline was the last round.
    watched_trees : pandas.DataFrame
        `schemas.WATCHED_TREES` of the last round.
    """

    def __init__(
        self,
        state: DataFrame,
        events: DataFrame,
        underlay: Underlay,
        rules: WorldRules,
        lookups: int,
        number: int = 0,
        live_tree: LiveTree | None = None,
        groups: LiveGroups | None = None,
    ) -> None:
        self.number, self._live_tree, self._groups = number, live_tree, groups
        self.publications = self.watched_trees = pd.DataFrame()
        self.scribe = Operations()
        self._rows: DataFrame | None = None
        self._state, self._events = state, events
        self._underlay, self._rules, self._lookups = underlay, rules, lookups

    @classmethod
    def start(
        cls,
        nodes: DataFrame,
        initial: int,
        events: DataFrame,
        underlay: Underlay,
        rules: WorldRules,
        lookups: int,
        overlay: str = "perfect",
        live_tree: LiveTree | None = None,
        groups: LiveGroups | None = None,
    ) -> World:
        """The world before its first round.

        Parameters
        ----------
        nodes : DataFrame
            `schemas.NODES`: those that are alive at the start, and those that may arrive.
        initial : int
            How many are alive at the start: the first numbers.
        overlay : str
            How tables are filled at the start: ``perfect`` or ``arrivals``.
        live_tree, groups
            As of the constructor.
        """
        begin = arrived_start if overlay == "arrivals" else perfect_tables
        with describe_jobs(nodes.sparkSession.sparkContext, "start of the world"):
            state, _ = materialise(begin(nodes, initial, rules, underlay.kernel))
        return cls(state, events, underlay, rules, lookups, live_tree=live_tree, groups=groups)

    def step(self) -> dict[str, float]:
        """Play a round; its measures by name.

        See :mod:`.round_measures`, :mod:`.group_measures`, :mod:`.live_tree`.

        Raises
        ------
        InputError
            The round has an event that cannot be, or leaves no node; the world stays as it was.
        """
        number = self.number
        # a DECIMAL: whole numbers are written into generated code, which would be new in each round
        events = self._events.where(F.col("round").cast(_ROUND) == F.lit(Decimal(number)))
        events = self.scribe.added_to(events, number)
        context = self._events.sparkSession.sparkContext
        with describe_jobs(context, f"world round {number}"):
            rows, _ = materialise(
                played(
                    *(self._state, events, number, self._lookups),
                    *(self._rules, self._underlay.kernel, self._live_tree, self._groups),
                )
            )
            told = rows.where(F.col("what").isin(MEASURE, REFUSED, PUBLICATIONS))
            results = told.select("what", "value", *schemas.PACKED.names).toArrow()
        measured, refused, published = (
            results.filter(pc.field("what") == what) for what in (MEASURE, REFUSED, PUBLICATIONS)
        )
        if len(refused):
            release(rows)
            why = refused.column("name")[0].as_py()
            raise InputError("round", number, f"cannot be played: {why}")
        if len(published):
            of_groups = unpack(published)
            self.publications = of_groups["publications"].to_pandas()
            self.watched_trees = of_groups["watched_trees"].to_pandas()
        self.release()
        self._rows, self._state = rows, _of(rows, STATE, schemas.PACKED.names)
        self.number += 1
        return {row["name"]: row["value"] for row in measured.to_pylist()}

    @property
    def packed(self) -> DataFrame:
        """`schemas.PACKED`: all that has to be kept to go on with the next round."""
        return self._state

    @property
    def state(self) -> DataFrame:
        """`schemas.WORLD_STATE`: every node that is or was there, or may arrive."""
        return unpacked(self._state, NODES, schemas.WORLD_STATE)

    @property
    def memberships(self) -> DataFrame:
        """`schemas.MEMBERSHIPS`: who is in which group's tree."""
        return memberships(self._of_groups())

    @property
    def children(self) -> DataFrame:
        """``group, parent, child``: the children tables."""
        return children(self._of_groups())

    def _of_groups(self) -> DataFrame:
        if self._groups is None or not self.number:
            raise ValueError("there are no groups, or no round has been played")
        return self._state

    def route(self, messages: DataFrame) -> DataFrame:
        """Route messages by what nodes know now: `schemas.LOOKUPS`, a row for each message; lazy.

        Nothing changes: dead nodes that a message meets stay in tables.

        Parameters
        ----------
        messages : DataFrame
            ``node, key_hi, key_lo``: where each begins, and its key.  `node` is a node of this
            world; a message of one that is not alive is not delivered.
        """
        return routed(self._state, messages, self._rules, self._underlay.kernel)

    def send(self, messages: DataFrame) -> DataFrame:
        """Send messages to nodes whose address is known; lazy.

        Parameters
        ----------
        messages : DataFrame
            ``node`` (the receiver) and payload.

        Returns
        -------
        DataFrame
            `messages` and ``delivered``: False where the receiver is not alive.
        """
        alive = self.state.where("alive").select("node", F.lit(True).alias("delivered"))
        found = messages.join(alive, "node", "left")
        return found.withColumn("delivered", F.coalesce("delivered", F.lit(False)))

    def overlay(self) -> PastryOverlay:
        """The live nodes as an overlay of their own; to be freed by its ``release``.

        Dead leaves and entries are left out.  What runs on any overlay (Scribe's `build_trees`,
        GraphFrames, ...) runs on it.
        """
        partitions = self._events.sparkSession.sparkContext.defaultParallelism
        return live_overlay(self._state, self._rules, self._underlay, partitions)

    @property
    def lookups(self) -> DataFrame:
        """`schemas.LOOKUPS` of the last round."""
        return self._last(LOOKUPS, schemas.LOOKUPS.names)

    @property
    def new_leafs(self) -> DataFrame:
        """``node``: whose leaf set changed in the last round (the upcall ``newLeafs``)."""
        return self._last(NEW_LEAFS, ["node"])

    def _last(self, what: int, columns: list[str]) -> DataFrame:
        if self._rows is None:
            raise ValueError("no round has been played")
        return _of(self._rows, what, columns)

    def release(self) -> None:
        """Free the nodes' memory."""
        release(self._rows if self._rows is not None else self._state)


def _of(rows: DataFrame, what: int, columns: list[str]) -> DataFrame:
    return rows.where(F.col("what") == what).select(columns)
