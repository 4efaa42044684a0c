"""A world: an overlay whose nodes arrive, leave, fail and recover, played round by round."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pandas as pd
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from scribe_spark import schemas
from scribe_spark.engine.buckets import BucketRing
from scribe_spark.pastry.overlay import PastryOverlay
from scribe_spark.runtime.blocks import release
from scribe_spark.runtime.sessions import describe_jobs, local_frame, parallelism
from scribe_spark.runtime.task_reports import receive_reports
from scribe_spark.underlay.protocol import Underlay
from scribe_spark.worlds import views
from scribe_spark.worlds.in_tasks import UNHEARD, InTasks
from scribe_spark.worlds.live_groups import LEFT_BY_ROUNDS
from scribe_spark.worlds.on_driver import OnDriver
from scribe_spark.worlds.operations import Operations
from scribe_spark.worlds.played import Played, RoundLeft, are_rounds
from scribe_spark.worlds.save import read_header, read_lives, refuse_other_buckets, saved_rows
from scribe_spark.worlds.starts import check_start, ring_of_world, start_rows
from scribe_spark.worlds.world_state import Protocols, kinds_of

#: Rounds of the first job that plays as many as time allows; each later one has twice as many as
#: were played before, so that few events are read that are not played.
_FIRST_ROUNDS = 16

#: Results of rounds that a world has as attributes.
_OF_ROUNDS = (*LEFT_BY_ROUNDS, "publications_of_systems")


class World:
    """An overlay between two rounds; :meth:`step` plays the next one, :meth:`play` several.

    Parameters
    ----------
    rows : DataFrame
        `schemas.ROWS` of the world; the world frees them.
    ring : BucketRing
        All nodes that there are, were or may be; the world frees it.
    number : int
        The round that is played next.
    events : DataFrame
        `schemas.EVENTS`, checked.
    underlay : Underlay
    protocols : Protocols
        What rounds are played by.
    engine : str
        Where rounds are played: ``tasks`` keep their buckets for many rounds in a job; of ``jobs``
        each is a superstep.

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
        rows: DataFrame,
        ring: BucketRing,
        number: int,
        events: DataFrame,
        underlay: Underlay,
        protocols: Protocols,
        engine: str,
    ) -> None:
        self.number, self._most = number, _FIRST_ROUNDS
        self.publications = self.watched_trees = self.extra_joins = pd.DataFrame()
        self.publications_of_systems = pd.DataFrame()
        self.scribe = Operations()
        self._last: RoundLeft | None = None
        self._keeps_messages = False
        self._events, self._underlay, self._protocols = events, underlay, protocols
        self._ring = ring
        groups = protocols.groups
        self._groups = None if groups is None else groups.groups(ring.facts.ring)
        self._driver: InTasks | OnDriver
        if engine == "tasks":
            self._driver = InTasks(rows, ring, protocols)
        else:
            self._driver = OnDriver(rows, ring, protocols, number)
            release(rows)

    @classmethod
    def of_save(
        cls,
        rows: DataFrame,
        nodes: DataFrame,
        events: DataFrame,
        underlay: Underlay,
        protocols: Protocols,
        buckets: int = 1,
        engine: str | None = None,
    ) -> World:
        """Return a world as it was saved.

        Parameters
        ----------
        rows : DataFrame
            As of :attr:`saved`.
        nodes : DataFrame
            `schemas.NODES`: all nodes that there are, were or may be.
        events, underlay, protocols
            As of the constructor.
        buckets : int
            In how many the nodes are.
        engine : str, optional
            As of the constructor; by default tasks where there is one bucket.

        Raises
        ------
        InputError
            The rows are of another number of buckets.
        """
        with describe_jobs(nodes.sparkSession, "start of the world"):
            header = read_header(rows)
            refuse_other_buckets(buckets, header.buckets)
            ring = ring_of_world(nodes, buckets, underlay.kernel)
            played = engine or _engine_of(buckets)
            return cls(rows, ring, header.round, events, underlay, protocols, played)

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
        engine: str | None = None,
    ) -> World:
        """Return the world before its first round.

        Parameters
        ----------
        nodes : DataFrame
            `schemas.NODES`: those that are alive at the start, and those that may arrive.
        initial : int
            How many are alive at the start: the first numbers.
        overlay : str
            How tables are filled at the start: ``perfect`` or ``arrivals``.
        events, underlay, protocols, buckets, engine
            As of :meth:`of_save`.

        Raises
        ------
        InputError
            No world starts with the overlay.
        """
        check_start(overlay)
        with describe_jobs(nodes.sparkSession, "start of the world"):
            ring = ring_of_world(nodes, buckets, underlay.kernel)
            rows = start_rows(ring, initial, overlay, protocols.rules, protocols.seed, underlay)
            return cls(rows, ring, 0, events, underlay, protocols, engine or _engine_of(buckets))

    def step(self, *, messages: bool = False) -> dict[str, float]:
        """Play a round; return its measures by name.

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
        rounds = range(self.number, self.number + 1)
        (done,) = self._play(rounds, 0.0, messages=messages)
        return done.measures

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
        done = dict(zip(rounds, self._play(rounds, seconds, tell), strict=False))
        self._most = max(self._most, 2 * len(done))
        return done

    def _play(
        self,
        rounds: range,
        seconds: float,
        tell: Callable[[int, Played], None] | None = None,
        *,
        messages: bool = False,
    ) -> list[Played]:
        """Play rounds until some seconds are over."""
        events, driver = self._events.where(are_rounds(rounds)), self._driver
        add = partial(self.scribe.added_to, number=rounds[0])
        if isinstance(driver, OnDriver):
            done = driver.play(rounds, events, add, seconds, tell, messages=messages)
        elif tell is None:
            done = driver.play(rounds, events, add, seconds, messages=messages)
        else:
            teller = _Teller(tell, rounds)
            with receive_reports(self._events.sparkSession, teller.take) as address:
                limit = min(seconds, UNHEARD) if address is None else seconds
                done = driver.play(rounds, events, add, limit, address)
            for number, left in zip(rounds, done, strict=False):
                teller.tell(number, left.played)
        self._last, self._keeps_messages = done[-1], messages
        for name in _OF_ROUNDS:
            found = [left.of_groups[name] for left in done if name in left.of_groups]
            setattr(self, name, pa.concat_tables(found).to_pandas() if found else pd.DataFrame())
        self.number += len(done)
        return [left.played for left in done]

    # --- what the world is

    @property
    def saved(self) -> DataFrame:
        """`schemas.ROWS`: all that has to be kept to go on with the next round; lazy."""
        return saved_rows(self._driver.rows)

    @property
    def state(self) -> DataFrame:
        """`schemas.WORLD_STATE`: every node that is or was there, or may arrive."""
        return self._view(views.STATE)

    @property
    def nodes(self) -> DataFrame:
        """`schemas.NODES` of those that are alive."""
        return self.state.where("alive").select(schemas.NODES.names)

    @property
    def leaf_sets(self) -> DataFrame:
        """`schemas.LEAF_SETS` of all nodes; those of dead nodes are as they were last."""
        return self._view(views.LEAF_SETS)

    @property
    def routing_table(self) -> DataFrame:
        """`schemas.ROUTING_TABLE`: the filled cells of all nodes' tables; entries may be dead."""
        return self._view(views.ROUTING_TABLE)

    @property
    def messages(self) -> DataFrame:
        """`schemas.MESSAGES` of the last round, if :meth:`step` was to keep them."""
        if not self._keeps_messages:
            raise ValueError("the last round has not kept its messages: step(messages=True)")
        return self._view(views.messages_view(kinds_of(self._protocols)))

    @property
    def memberships(self) -> DataFrame:
        """`schemas.MEMBERSHIPS`: the nodes of each group's tree."""
        return self._of_groups(views.MEMBERSHIPS)

    @property
    def children(self) -> DataFrame:
        """`schemas.CHILDREN`: the children tables."""
        return self._of_groups(views.CHILDREN)

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
        """Return whether there are :attr:`tree_edges` and :attr:`deliveries`."""
        groups = self._protocols.groups
        return groups is not None and groups.multicasts.of_ways

    def _multicasts(self, name: str, schema: StructType) -> DataFrame:
        groups = self._protocols.groups
        if self._last is None or groups is None or not self.measures_ways:
            raise ValueError("no round has been played, or its multicasts are not measured")
        outcomes = self._last.outcomes
        return self._view(views.multicasts_view(groups.multicasts, outcomes, name, schema))

    def _of_groups(self, wanted: views.View) -> DataFrame:
        if self._groups is None or not self.number:
            raise ValueError("there are no groups, or no round has been played")
        return self._view(wanted)

    def _view(self, wanted: views.View) -> DataFrame:
        kernel = self._underlay.kernel
        return views.view(self._driver.rows, self._ring, kernel, wanted, self._groups)

    def route(self, messages: DataFrame) -> DataFrame:
        """Route messages by what nodes know now: `schemas.LOOKUPS`, a row for each message.

        Nothing changes: dead nodes that a message meets stay in tables.

        Parameters
        ----------
        messages : DataFrame
            ``node, key_hi, key_lo``: where each begins, and its key.  `node` is a node of this
            world; a message of one that is not alive is not delivered.
        """
        return self._driver.route(messages.select("node", "key_hi", "key_lo").toArrow())

    def overlay(self) -> PastryOverlay:
        """Return the live nodes as an overlay of their own; to be freed by its ``release``.

        Dead leaves and entries are left out.  What runs on any overlay (Scribe's `build_trees`,
        GraphFrames, ...) runs on it.
        """
        rules, partitions = self._protocols.rules, parallelism(self._events.sparkSession)
        known = self._view(views.live_knowledge_view(read_lives(self._driver.rows)))
        laid_out = known.repartition(partitions, "node")
        return PastryOverlay.of_knowledge(laid_out, self._underlay, rules.b, rules.leaf_set)

    @property
    def lookups(self) -> DataFrame:
        """`schemas.LOOKUPS` of the last round."""
        return local_frame(self._events.sparkSession, self._left.lookups)

    @property
    def new_leafs(self) -> DataFrame:
        """``node``: whose leaf set changed in the last round (the upcall ``newLeafs``)."""
        _ = self._left
        return self._view(views.NEW_LEAF_SETS)

    @property
    def _left(self) -> RoundLeft:
        if self._last is None:
            raise ValueError("no round has been played")
        return self._last

    def release(self) -> None:
        """Free the nodes' memory."""
        self._driver.release()
        self._ring.release()


def _engine_of(buckets: int) -> str:
    """Return the engine of a world if nobody names one."""
    return "tasks" if buckets == 1 else "jobs"


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
