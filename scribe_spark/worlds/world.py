"""A world: an overlay whose nodes arrive, leave, fail and recover, played round by round."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from decimal import Decimal
from functools import partial
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import DecimalType, StructType

from scribe_spark import schemas
from scribe_spark.engine.on_spark import Costs
from scribe_spark.errors import InputError
from scribe_spark.pastry.events import ImpossibleRound
from scribe_spark.pastry.overlay import PastryOverlay
from scribe_spark.runtime.blocks import materialise, release
from scribe_spark.runtime.sessions import describe_jobs, local_frame, parallelism
from scribe_spark.runtime.task_reports import Address, receive_reports
from scribe_spark.underlay.protocol import Underlay
from scribe_spark.worlds.group_tables import children, memberships
from scribe_spark.worlds.groups_on_buckets import refuse_other_buckets, saved_buckets
from scribe_spark.worlds.live_groups import LEFT_BY_ROUNDS
from scribe_spark.worlds.live_world import Protocols
from scribe_spark.worlds.on_buckets import OnBuckets
from scribe_spark.worlds.operations import Operations
from scribe_spark.worlds.packed import unpack, unpacked
from scribe_spark.worlds.round_job import (
    UNHEARD,
    EventsByRound,
    LastRound,
    event_rows,
    live_overlay,
    played,
    routed,
)
from scribe_spark.worlds.starts import arrived_start, check_start, perfect_tables
from scribe_spark.worlds.state_table import NODES, leaf_sets, routing_table
from scribe_spark.worlds.world_rows import (
    LOOKUPS,
    MEASURE,
    MESSAGES,
    MULTICASTS,
    NEW_LEAFS,
    OF_GROUPS,
    REFUSED,
    SECONDS,
    STATE,
)

__all__ = ["Played", "World"]

_ROUND = DecimalType(20, 0)

#: The rows that are brought to the driver.
_TOLD = (MEASURE, SECONDS, REFUSED, OF_GROUPS)

#: More joins and quits of a round than this go to the buckets of their nodes, not to the driver.
MANY = 2**16

#: Events that a round may have many of.
_MEMBERSHIPS = ("join", "quit")

#: Rounds of the first job that plays as many as time allows; each later one has twice as many as
#: were played before, so that few events are read that are not played.
_FIRST_ROUNDS = 16


@dataclass(frozen=True)
class Played:
    """A round that has been played.

    Attributes
    ----------
    measures : dict of str to float
        By name; see :mod:`.round_measures`, :mod:`.group_measures`, :mod:`.live_tree`.
    seconds : float
        How long it took; the first of a job's rounds, with unpacking the state.
    costs : Costs, optional
        Supersteps, messages and bytes, where nodes are in several buckets.
    """

    measures: dict[str, float]
    seconds: float
    costs: Costs | None = None


class World:
    """An overlay between two rounds; :meth:`step` plays the next one, :meth:`play` several.

    Parameters
    ----------
    state : DataFrame
        `schemas.PACKED`, materialised; the world frees it.
    events : DataFrame
        `schemas.EVENTS`, checked.
    underlay : Underlay
    protocols : Protocols
        What rounds are played by.
    number : int
        The round that is played next.
    buckets : int
        In how many the nodes are; one is played in one task, many rounds in a job.
    on_buckets : OnBuckets, optional
        The nodes in buckets already; `state` is not read then.

    Raises
    ------
    InputError
        The groups in `state` were in another number of buckets.

    Attributes
    ----------
    number : int
        The round that is played next.
    scribe : Operations
        Scribe's operations: what they ask for happens in the round that is played next.
    publications : pandas.DataFrame
        ``round, group, expected, in_time, late, lost, duplicates``: of those publications whose
        deadline was one of the rounds last played together; of the last one, after :meth:`step`.
    publications_of_systems : pandas.DataFrame
        The same with a column ``system``, of the systems beside Scribe.
    watched_trees : pandas.DataFrame
        `schemas.WATCHED_TREES` of the same rounds.
    extra_joins : pandas.DataFrame
        `schemas.EXTRA_JOINS` but `system`: JOINs that the bottleneck remover added in these rounds.
    """

    def __init__(
        self,
        state: DataFrame,
        events: DataFrame,
        underlay: Underlay,
        protocols: Protocols,
        number: int = 0,
        buckets: int = 1,
        on_buckets: OnBuckets | None = None,
    ) -> None:
        self.number, self._most = number, _FIRST_ROUNDS
        self.publications = self.watched_trees = self.extra_joins = pd.DataFrame()
        self.publications_of_systems = pd.DataFrame()
        self.scribe = Operations()
        self._rows: DataFrame | None = None
        self._last_round: LastRound | None = None
        self._keeps_messages = False
        self._state, self._events = state, events
        self._underlay, self._protocols = underlay, protocols
        self._on_buckets = on_buckets
        if protocols.groups is not None and number and on_buckets is None:
            refuse_other_buckets(buckets, saved_buckets(state))
        if buckets > 1 and on_buckets is None:
            self._on_buckets = self._spread(buckets)

    @classmethod
    def start(
        cls,
        nodes: DataFrame,
        initial: int,
        events: DataFrame,
        underlay: Underlay,
        protocols: Protocols,
        overlay: str = "perfect",
        buckets: int = 1,
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
        protocols, buckets
            As of the constructor.

        Raises
        ------
        InputError
            No world starts with the overlay.
        """
        check_start(overlay)
        begin = arrived_start if overlay == "arrivals" else perfect_tables
        with describe_jobs(nodes.sparkSession, "start of the world"):
            if buckets > 1:
                spread = OnBuckets.at_start(nodes, initial, overlay, buckets, protocols, underlay)
                return cls(nodes, events, underlay, protocols, 0, buckets, spread)
            state, _ = materialise(begin(nodes, initial, protocols.rules, underlay.kernel))
        return cls(state, events, underlay, protocols, 0, buckets)

    def step(self, *, messages: bool = False) -> dict[str, float]:
        """Play a round; its measures by name.

        See :mod:`.round_measures`, :mod:`.group_measures`, :mod:`.live_tree`.

        Parameters
        ----------
        messages : bool
            Keep the round's messages, for :attr:`messages`.

        Raises
        ------
        InputError
            The round has an event that cannot be, or leaves no node; the world stays as it was.
        """
        number = self.number
        rounds, on_buckets = range(number, number + 1), self._on_buckets
        if on_buckets is not None:
            done = self._play_on_buckets(on_buckets, rounds, 0.0, messages=messages)
        else:
            done = self._play(rounds, 0.0, messages=messages)
        return done[number].measures

    def play(
        self, until: int, seconds: float, tell: Callable[[int, Played], None] | None = None
    ) -> dict[int, Played]:
        """Play the next round, and those after it that begin within some seconds.

        They are played in one job, which is several times as fast as a job for each where rounds
        are short.  Results do not depend on how many are played together.

        Parameters
        ----------
        until : int
            The first round that is not played.
        tell : callable, optional
            Called with each round and what there is of it, once and in order: while the job is
            going, from another thread; or after it, where tasks cannot report to the driver.  No
            job then takes much longer than a second.

        Returns
        -------
        dict
            Round -> what there is of it.

        Raises
        ------
        InputError
            The next round has an event that cannot be, or leaves no node; the world stays as it
            was.  A later one that is like this is not played.
        """
        rounds = range(self.number, min(until, self.number + self._most))
        if self._on_buckets is not None:
            done = self._play_on_buckets(self._on_buckets, rounds, seconds, tell)
        elif tell is None:
            done = self._play(rounds, seconds)
        else:
            teller = _Teller(tell, rounds)
            with receive_reports(self._events.sparkSession, teller.take) as address:
                limit = min(seconds, UNHEARD) if address is None else seconds
                done = self._play(rounds, limit, address)
            for number, played in done.items():
                teller.tell(number, played)
        self._most = max(self._most, 2 * len(done))
        return done

    def _play(
        self,
        rounds: range,
        seconds: float,
        report_to: Address | None = None,
        *,
        messages: bool = False,
    ) -> dict[int, Played]:
        events = self._events_of(rounds)
        with describe_jobs(self._events.sparkSession, f"world rounds from {rounds[0]}"):
            rows, _ = materialise(
                played(self._state, events, rounds, seconds, self._protocols, report_to, messages)
            )
            told = rows.where(F.col("what").isin(*_TOLD))
            results = told.select("what", "round", "value", *schemas.PACKED.names).toArrow()
        by_what = {what: results.filter(pc.field("what") == what) for what in _TOLD}
        if len(by_what[REFUSED]):
            release(rows)
            why = by_what[REFUSED].column("name")[0].as_py()
            raise InputError("round", rounds[0], f"cannot be played: {why}")
        self.release()
        self._rows, self._state = rows, _of(rows, STATE, schemas.PACKED.names)
        self._keeps_messages = messages
        done = {row["round"]: Played({}, row["value"]) for row in by_what[SECONDS].to_pylist()}
        for row in by_what[MEASURE].to_pylist():
            done[row["round"]].measures[row["name"]] = row["value"]
        of_groups = _by_name(by_what[OF_GROUPS])
        for name in (*LEFT_BY_ROUNDS, "publications_of_systems"):
            setattr(self, name, of_groups.get(name, pd.DataFrame()))
        self.number += len(done)
        return done

    def _events_of(self, rounds: range) -> DataFrame:
        return self.scribe.added_to(self._checked_events(rounds), rounds[0])

    def _checked_events(self, rounds: range) -> DataFrame:
        # DECIMALs: whole numbers are written into generated code, which would be new in each job
        first, last = (F.lit(Decimal(number)) for number in (rounds[0], rounds[-1]))
        return self._events.where(F.col("round").cast(_ROUND).between(first, last))

    def _spread(self, buckets: int) -> OnBuckets:
        """Return the nodes in buckets; the packed state is freed."""
        with describe_jobs(self._events.sparkSession, "start of the world"):
            spread = OnBuckets.of_state(self._state, buckets, self._protocols, self._underlay)
        release(self._state)
        return spread

    def _play_on_buckets(
        self,
        world: OnBuckets,
        rounds: range,
        seconds: float,
        tell: Callable[[int, Played], None] | None = None,
        *,
        messages: bool = False,
    ) -> dict[int, Played]:
        """Play rounds until some seconds are over."""
        started = time.monotonic()
        given = self._checked_events(rounds)
        many = _many_memberships(given) if self._protocols.groups is not None else {}
        asked = self.scribe.added_to(_without(given, many), rounds[0])
        events = EventsByRound(event_rows(asked).toArrow())
        done: dict[int, Played] = {}
        left: list[dict[str, pa.Table]] = []
        for number in rounds:
            before, self._keeps_messages = time.monotonic(), False
            try:
                played = world.play(number, events.of(number), messages, many.get(number))
            except ImpossibleRound as impossible:
                if done:  # it is refused when it is the next one
                    break
                raise InputError(
                    "round", number, f"cannot be played: {impossible.what}"
                ) from impossible
            took = time.monotonic() - before
            measures = {name: float(value) for name, value in played.measures.items()}
            done[number] = Played(measures, took, world.costs)
            self._last_round, self._keeps_messages = LastRound.of(played, world.known), messages
            left.append(played.of_groups)
            self.number += 1
            if tell is not None:
                tell(number, done[number])
            if time.monotonic() - started >= seconds:
                break
        for name in LEFT_BY_ROUNDS if left[0] else ():
            setattr(self, name, pa.concat_tables([of[name] for of in left]).to_pandas())
        return done

    @property
    def packed(self) -> DataFrame:
        """`schemas.PACKED`: all that has to be kept to go on with the next round."""
        return self._state if self._on_buckets is None else self._on_buckets.packed()

    @property
    def state(self) -> DataFrame:
        """`schemas.WORLD_STATE`: every node that is or was there, or may arrive."""
        return unpacked(self._packed_nodes, NODES, schemas.WORLD_STATE)

    @property
    def nodes(self) -> DataFrame:
        """`schemas.NODES` of those that are alive."""
        return self.state.where("alive").select(schemas.NODES.names)

    @property
    def _packed_nodes(self) -> DataFrame:
        return self._state if self._on_buckets is None else self._on_buckets.nodes()

    @property
    def leaf_sets(self) -> DataFrame:
        """`schemas.LEAF_SETS` of all nodes; those of dead nodes are as they were last."""
        return unpacked(self._packed_nodes, NODES, schemas.LEAF_SETS, rows_of=leaf_sets)

    @property
    def routing_table(self) -> DataFrame:
        """`schemas.ROUTING_TABLE`: the filled cells of all nodes' tables; entries may be dead."""
        rows_of = partial(routing_table, b=self._protocols.rules.b)
        return unpacked(self._packed_nodes, NODES, schemas.ROUTING_TABLE, rows_of=rows_of)

    @property
    def messages(self) -> DataFrame:
        """`schemas.MESSAGES` of the last round, if :meth:`step` was to keep them."""
        if self._on_buckets is not None and self._keeps_messages:
            return self._on_buckets.messages()
        if self._rows is None or not self._keeps_messages:
            raise ValueError("the last round has not kept its messages: step(messages=True)")
        return unpacked(
            _of(self._rows, MESSAGES, schemas.PACKED.names), "messages", schemas.MESSAGES
        )

    @property
    def memberships(self) -> DataFrame:
        """`schemas.MEMBERSHIPS`: who is in which group's tree."""
        return memberships(self._of_groups())

    @property
    def children(self) -> DataFrame:
        """`schemas.CHILDREN`: the children tables."""
        return children(self._of_groups())

    @property
    def tree_edges(self) -> DataFrame:
        """Edges of the multicasts of the last round, if these are measured; as a run writes them.

        ``system, group, parent, child, parent_router, child_router, merged``.
        """
        return self._multicasts("tree_edges", schemas.WRITTEN["tree_edges"])

    @property
    def deliveries(self) -> DataFrame:
        """`schemas.DELIVERIES` of the multicasts of the last round, if these are measured."""
        return self._multicasts("deliveries", schemas.DELIVERIES)

    @property
    def measures_ways(self) -> bool:
        """Whether there are :attr:`tree_edges` and :attr:`deliveries`."""
        groups = self._protocols.groups
        return groups is not None and groups.multicasts.of_ways

    def _multicasts(self, name: str, schema: StructType) -> DataFrame:
        if self._last_round is not None and self._on_buckets is not None and self.measures_ways:
            return self._on_buckets.multicasts(name, schema)
        if self._rows is None or not self.measures_ways:
            raise ValueError("no round has been played, or its multicasts are not measured")
        return unpacked(_of(self._rows, MULTICASTS, schemas.PACKED.names), name, schema)

    def _of_groups(self) -> DataFrame:
        if self._protocols.groups is None or not self.number:
            raise ValueError("there are no groups, or no round has been played")
        return self._state if self._on_buckets is None else self._on_buckets.trees()

    def route(self, messages: DataFrame) -> DataFrame:
        """Route messages by what nodes know now: `schemas.LOOKUPS`, a row for each message; lazy.

        Nothing changes: dead nodes that a message meets stay in tables.

        Parameters
        ----------
        messages : DataFrame
            ``node, key_hi, key_lo``: where each begins, and its key.  `node` is a node of this
            world; a message of one that is not alive is not delivered.
        """
        if self._on_buckets is not None:
            sent = messages.select("node", "key_hi", "key_lo").toArrow()
            found = self._on_buckets.route(sent)
            return local_frame(self._events.sparkSession, found)
        return routed(self._state, messages, self._protocols.rules, self._underlay.kernel)

    def overlay(self) -> PastryOverlay:
        """The live nodes as an overlay of their own; to be freed by its ``release``.

        Dead leaves and entries are left out.  What runs on any overlay (Scribe's `build_trees`,
        GraphFrames, ...) runs on it.
        """
        partitions = parallelism(self._events.sparkSession)
        return live_overlay(self._packed_nodes, self._protocols.rules, self._underlay, partitions)

    @property
    def lookups(self) -> DataFrame:
        """`schemas.LOOKUPS` of the last round."""
        return self._last(LOOKUPS, schemas.LOOKUPS.names)

    @property
    def new_leafs(self) -> DataFrame:
        """``node``: whose leaf set changed in the last round (the upcall ``newLeafs``)."""
        if self._last_round is not None and self._on_buckets is not None:
            return self._on_buckets.new_leafs()
        return self._last(NEW_LEAFS, ["node"])

    def _last(self, what: int, columns: list[str]) -> DataFrame:
        if self._last_round is not None:
            spark = self._events.sparkSession
            return local_frame(spark, self._last_round.tables[what]).select(columns)
        if self._rows is None:
            raise ValueError("no round has been played")
        last = F.col("round").cast(_ROUND) == F.lit(Decimal(self.number - 1))
        return _of(self._rows.where(last), what, columns)

    def release(self) -> None:
        """Free the nodes' memory."""
        if self._on_buckets is not None:
            self._on_buckets.release()
        else:
            release(self._rows if self._rows is not None else self._state)


class _Teller:
    """Tells of each round once, also where a task that was tried again reports it again."""

    def __init__(self, tell: Callable[[int, Played], None], rounds: range) -> None:
        self._tell, self._next = tell, rounds[0]

    def take(self, report: dict[str, Any]) -> None:
        """Take what a task reports."""
        self.tell(report["round"], Played(report["measures"], report["seconds"]))

    def tell(self, number: int, played: Played) -> None:
        """Tell of a round, unless it was told of."""
        if number == self._next:
            self._next += 1
            self._tell(number, played)


def _by_name(packed: pa.Table) -> dict[str, pd.DataFrame]:
    """Tables that each round has packed: those of all rounds by name, one after the other."""
    rounds = [packed.filter(pc.field("round") == number) for number in pc.unique(packed["round"])]
    tables = [unpack(each) for each in rounds]
    return {
        name: pa.concat_tables([each[name] for each in tables]).to_pandas()
        for name in (tables[0] if tables else ())
    }


def _of(rows: DataFrame, what: int, columns: list[str]) -> DataFrame:
    return rows.where(F.col("what") == what).select(columns)


def _is_round(number: int) -> Column:
    # a DECIMAL: whole numbers are written into generated code, which would be new in each job
    return F.col("round").cast(_ROUND) == F.lit(Decimal(number))


def _many_memberships(events: DataFrame) -> dict[int, DataFrame]:
    """Joins and quits of the rounds that have many, which the driver does not see."""
    changes = events.where(F.col("event").isin(*_MEMBERSHIPS))
    counts = changes.groupBy("round").count().where(F.col("count") > MANY).toArrow()
    return {
        number: changes.where(_is_round(number)).select("node", "event", "group")
        for number in counts.column("round").to_pylist()
    }


def _without(events: DataFrame, rounds: Iterable[int]) -> DataFrame:
    """Return events without the joins and quits of some rounds."""
    for number in rounds:
        events = events.where(~(_is_round(number) & F.col("event").isin(*_MEMBERSHIPS)))
    return events
