"""A world: an overlay whose nodes arrive, leave, fail and recover, played round by round.

References
----------
JSAC 2002, Section III: create, join, leave, multicast.  NGC 2001, Section 3, calls groups topics:
create, subscribe, unsubscribe, publish.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce

import numpy as np
import pandas as pd
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from scribe_spark import schemas
from scribe_spark.engine.buckets import BucketRing
from scribe_spark.measures.measure import ScheduledMessages
from scribe_spark.pastry.overlay import PastryOverlay
from scribe_spark.rounds.event_rows import CREATE, EVENT_NAMES, JOIN, PUBLISH, QUIT
from scribe_spark.runtime.batches import Batches, Table
from scribe_spark.runtime.sessions import describe_jobs, local_frame, parallelism
from scribe_spark.systems.registry import SCRIBE
from scribe_spark.systems.scribe.upcalls import ScribeApplication
from scribe_spark.underlay.protocol import Underlay
from scribe_spark.worlds import drivers, save, views, world_state


class Operations:
    """The Scribe operations of the next round.

    Each method takes a table ``group, node``: the node performs the operation on one of the world's
    groups.  The access list of a group decides whether a node may do so, and the node that checks
    the list refuses it.  :meth:`World.step` refuses impossible operations, such as a JOIN of a
    member or an operation of a dead node.

    Examples
    --------
    >>> world.scribe.join(spark.createDataFrame([(1, 17), (1, 18)], "group bigint, node bigint"))
    >>> world.scribe.publish(spark.createDataFrame([(1, 17)], "group bigint, node bigint"))
    >>> world.step()["scribe.publications.sent"]
    """

    def __init__(self) -> None:
        self._asked: list[DataFrame] = []

    def create(self, groups: DataFrame) -> None:
        """Create the groups of a table ``group, node``; each node becomes the creator."""
        self._ask(CREATE, groups)

    def join(self, members: DataFrame) -> None:
        """Let the nodes of a table ``group, node`` become members of the groups."""
        self._ask(JOIN, members)

    def leave(self, members: DataFrame) -> None:
        """Let the members in a table ``group, node`` leave the groups."""
        self._ask(QUIT, members)

    def multicast(self, sources: DataFrame) -> None:
        """Let each node of a table ``group, node`` send a message to the group.

        The node need not be a member.
        """
        self._ask(PUBLISH, sources)

    subscribe, unsubscribe, publish = join, leave, multicast

    @property
    def is_empty(self) -> bool:
        """True if no operation is requested."""
        return not self._asked

    def _ask(self, event: int, pairs: DataFrame) -> None:
        self._asked.append(
            pairs.select(
                F.col("node").cast("bigint").alias("node"),
                F.lit(EVENT_NAMES[event]).alias("event"),
                F.col("group").cast("bigint").alias("group"),
            )
        )

    def added_to(self, events: DataFrame, number: int) -> DataFrame:
        """Return the events of round `number` and the requested operations, which are cleared."""
        asked, self._asked = self._asked, []
        rows = [frame.withColumn("round", F.lit(number).cast("bigint")) for frame in asked]
        together = (one.select("round", "node", "event", "group") for one in rows)
        return reduce(lambda a, b: a.unionByName(b, allowMissingColumns=True), together, events)


#: The number of rounds of the first job that plays until a time limit; each later job has twice the
#: number of rounds that were played before, so that few unneeded events are read.
_FIRST_ROUNDS = 16

#: The results of rounds that are attributes of a world.
_OF_ROUNDS = ("publications", "by_part", "watched_trees", "extra_joins")


class World:
    """An overlay with groups between two rounds; :meth:`step` plays a round, :meth:`play` several.

    `make_world` returns a world of a config; the world frees the rows and the ring of its start.

    Attributes
    ----------
    number : int
        The number of the next round.
    scribe : Operations
        Scribe's operations for the user's code (create, join, ...); they happen in the next round.
    publications : pandas.DataFrame
        The results of publications whose deadline was in the rounds of the last :meth:`step` or
        :meth:`play`, after the last round also of all others: ``round, system, group`` and the
        counts `schemas.PUBLICATION_COUNTS`.
    watched_trees : pandas.DataFrame
        Small trees before and after failures in these rounds: ``round, moment, group, node,
        parent, member, root, orphan, alive``.
    by_part : pandas.DataFrame
        Measures of the nodes of each class or region in these rounds, if publications have a size,
        and of each tree, with a schedule: the columns of the table ``rounds_by_part``.
    extra_joins : pandas.DataFrame
        The JOINs that the bottleneck remover added in these rounds: ``group, parent, child,
        parent_router, child_router, probes``.
    """

    def __init__(
        self,
        start: save.Start,
        ring: BucketRing,
        number: int,
        events: DataFrame,
        underlay: Underlay,
        protocols: world_state.Protocols,
        engine: str | None = None,
        event_files: drivers.EventFiles | None = None,
    ) -> None:
        self._event_files = event_files
        self.number, self._most = number, _FIRST_ROUNDS
        self.publications = self.watched_trees = self.extra_joins = pd.DataFrame()
        self.by_part = pd.DataFrame()
        self.scribe = Operations()
        self._last: world_state.Played | None = None
        self._keeps_messages = False
        protocols = protocols.of_events(events.columns)
        self._events, self._underlay, self._protocols = events, underlay, protocols
        self._ring = ring
        groups = protocols.groups
        self._groups = None if groups is None else groups.groups(ring.facts.ring)
        self._driver: drivers.InTasks | drivers.OnDriver
        if engine is None:
            engine = "tasks" if len(ring.bounds) == 2 else "jobs"
        if engine == "tasks":
            self._driver = drivers.InTasks(start, ring, protocols)
        else:
            self._driver = drivers.OnDriver(start, ring, protocols, number)

    @classmethod
    def of_save(
        cls,
        rows: DataFrame,
        nodes: Table,
        events: DataFrame,
        underlay: Underlay,
        protocols: world_state.Protocols,
        buckets: int = 1,
        engine: str | None = None,
        event_files: drivers.EventFiles | None = None,
    ) -> World:
        """Return a world from a saved state.

        Parameters
        ----------
        rows : DataFrame
            The saved table :attr:`saved` of a world.
        nodes : DataFrame or Batches
            All nodes, also dead ones and those that may arrive later: ``node, id_hi, id_lo,
            router``.
        buckets : int
            The number of buckets with which the state was saved.
        events, underlay, protocols, engine, event_files
            See :meth:`start`.

        Raises
        ------
        InputError
            The state was saved with another number of buckets.
        """
        with describe_jobs(rows.sparkSession, "start of the world"):
            saved_with, number = save.read_header(rows)
            save.refuse_other_buckets(buckets, saved_with)
            ring = save.ring_of_world(nodes, buckets, underlay.kernel)
            start = save.Start(rows)
            return cls(start, ring, number, events, underlay, protocols, engine, event_files)

    @classmethod
    def start(
        cls,
        nodes: Table,
        initial: int,
        events: DataFrame,
        underlay: Underlay,
        protocols: world_state.Protocols,
        overlay: str = "perfect",
        buckets: int = 1,
        engine: str | None = None,
        event_files: drivers.EventFiles | None = None,
        knowledge: DataFrame | None = None,
    ) -> World:
        """Return a world before its first round; `make_world` does so for a config.

        Parameters
        ----------
        nodes : DataFrame or Batches
            The nodes that live at the start or may arrive: ``node, id_hi, id_lo, router``.
        initial : int
            The number of nodes that live at the start: those with the smallest numbers.
        events : DataFrame
            Checked events: ``round, node, event, group``; with a schedule also ``time, size``.
        underlay : Underlay
            The routes between routers.
        protocols : Protocols
            The protocols that each round plays.
        overlay : str
            The way to fill tables at the start: ``perfect`` or ``arrivals``.
        engine : str, optional
            ``tasks``: Spark tasks that keep their buckets for many rounds; ``jobs``: a Spark job
            for each superstep.  By default ``tasks`` for one bucket.
        event_files : EventFiles, optional
            The files of `events`, if all tasks can read them.
        knowledge : DataFrame, optional
            The tables of all nodes at the start (`schemas.KNOWLEDGE`), instead of filling them.

        Raises
        ------
        InputError
            Worlds cannot start from this overlay.
        """
        save.check_start(overlay)
        with describe_jobs(events.sparkSession, "start of the world"):
            ring = save.ring_of_world(nodes, buckets, underlay.kernel)
            tables = overlay if protocols.has_pastry else None
            filled = initial, tables, protocols.rules, protocols.seed, underlay, knowledge
            start = save.start_of_world(ring, *filled)
            return cls(start, ring, 0, events, underlay, protocols, engine, event_files)

    def step(self, *, messages: bool = False) -> dict[str, float]:
        """Play the next round and return its measures, by name.

        `docs/measures_reference.md` lists the measures of rounds.

        Parameters
        ----------
        messages : bool
            True to keep the round's messages for :attr:`messages`.

        Raises
        ------
        InputError
            The round has an impossible event or leaves no live node; the world does not change.
        """
        rounds = range(self.number, self.number + 1)
        (done,) = self._play(rounds, 0.0, messages=messages)
        return done.measures

    def play(
        self, until: int, seconds: float, tell: drivers.Tell = lambda number, played: None
    ) -> dict[int, world_state.Played]:
        """Play the next round and, while time is left, later rounds before `until`.

        One Spark job plays all of these rounds, which is faster for short rounds.  Results do not
        depend on the number of rounds in a job.

        Parameters
        ----------
        until : int
            The number of the round before which the world stops.
        seconds : float
            No round begins when this time of the job, in seconds, has passed.
        tell : callable, optional
            ``tell(number, results)`` is called for each round, in order: from another thread while
            the job runs, or after the job if tasks cannot report to the driver.

        Returns
        -------
        dict
            The number of each round that was played -> its results.

        Raises
        ------
        InputError
            The next round has an impossible event or leaves no live node; the world does not
            change.  If a later round is impossible, `play` stops before it.
        """
        rounds = range(self.number, min(until, self.number + self._most))
        done = dict(zip(rounds, self._play(rounds, seconds, tell), strict=False))
        self._most = max(self._most, 2 * len(done))
        return done

    def _play(
        self,
        rounds: range,
        seconds: float,
        tell: drivers.Tell = lambda number, played: None,
        *,
        messages: bool = False,
    ) -> list[world_state.Played]:
        """Play the given rounds, until a number of seconds has passed; return their results."""
        driver, files = self._driver, self._event_files
        if isinstance(driver, drivers.InTasks) and files is not None and self.scribe.is_empty:
            done = driver.play(rounds, files, seconds, tell, messages=messages)
        else:
            events = self._events.where(drivers.are_rounds(rounds[0], rounds[-1]))
            events = drivers.event_rows(self.scribe.added_to(events, rounds[0]))
            done = driver.play(rounds, events, seconds, tell, messages=messages)
        self._last, self._keeps_messages = done[-1], messages
        for name in _OF_ROUNDS:
            found = [left.tables[name] for left in done if name in left.tables]
            setattr(self, name, pa.concat_tables(found).to_pandas() if found else pd.DataFrame())
        self.number += len(done)
        return done

    # --- what the world is

    @property
    def saved(self) -> DataFrame:
        """The complete state between two rounds in packed form; :meth:`of_save` resumes from it."""
        return self.to_save.frame

    @property
    def to_save(self) -> Batches:
        """The rows of :attr:`saved`, in a form that tasks can write to files."""
        return save.saved_rows(self._driver.rows)

    @property
    def coverage_tables(self) -> dict[str, pa.Table]:
        """The tables of coverage (`schemas.CONTRACTS["coverage"]`) after a world's last round."""
        tables = self._left.tables
        return {name: tables[name] for name in schemas.CONTRACTS["coverage"] if name in tables}

    @property
    def last_tables(self) -> dict[str, Batches]:
        """The tables of the last round, for the tasks that write them, sorted in each bucket.

        They are ``memberships``, if Scribe is played, and ``tree_edges`` and ``deliveries``, if
        :attr:`measures_ways` is True.
        """
        tables = dict[str, Batches]()
        if self._plays_scribe:
            tables["memberships"] = self._of_groups(views.MEMBERSHIPS)
        if self.measures_ways:
            tables |= {name: self._multicasts(name) for name in ("tree_edges", "deliveries")}
        return tables

    @property
    def state(self) -> DataFrame:
        """All nodes with their tables, also dead nodes and nodes that may arrive later.

        The columns are ``node, id_hi, id_lo, router, alive, died, wait, entered`` and, in packed
        form, ``leaves, cells, entries`` (leaf set and routing table).
        """
        return self._view(views.STATE).frame

    @property
    def nodes(self) -> DataFrame:
        """The live nodes: ``node, id_hi, id_lo, router``."""
        return self.state.where("alive").select(schemas.NODES.names)

    @property
    def leaf_sets(self) -> DataFrame:
        """The leaf sets of all nodes, also of dead ones: ``node, leaf, place``.

        ``place`` is 1, 2, ... for the next larger nodeIds and -1, -2, ... for the next smaller
        ones.
        """
        return self._view(views.LEAF_SETS).frame

    @property
    def routing_table(self) -> DataFrame:
        """All filled cells of routing tables, also with dead nodes: ``node, row, col, entry``."""
        return self.routing_rows.frame

    @property
    def routing_rows(self) -> Batches:
        """The rows of :attr:`routing_table`, in a form that tasks can write to files."""
        return self._view(views.ROUTING_TABLE)

    @property
    def messages(self) -> DataFrame:
        """The messages of the last round, if :meth:`step` kept them: ``kind, sender, receiver``."""
        if not self._keeps_messages:
            raise ValueError("the last round has not kept its messages: step(messages=True)")
        return self._view(views.messages_view(self._protocols.kinds)).frame

    @property
    def memberships(self) -> DataFrame:
        """The nodes in the tree of each group: ``group, node, parent, member, root``."""
        return self._of_groups(views.MEMBERSHIPS).frame

    @property
    def children(self) -> DataFrame:
        """The children tables of all nodes: ``group, parent, child``."""
        return self._of_groups(views.CHILDREN).frame

    @property
    def tree_edges(self) -> DataFrame:
        """The tree edges that the publications of the last round used.

        They exist if :attr:`measures_ways` is True.  The columns are ``system, group, parent,
        child, parent_router, child_router, merged``.
        """
        return self._multicasts("tree_edges").frame

    @property
    def deliveries(self) -> DataFrame:
        """The deliveries of the last round's publications: ``system, group, node, hops, delay_ms``.

        They exist if :attr:`measures_ways` is True.  With a schedule, there is also the column
        ``publication``, the number of the publication in the round (rule W12).
        """
        return self._multicasts("deliveries").frame

    @property
    def published(self) -> ScheduledMessages | None:
        """The groups and sizes of the last round's publications; None without a schedule."""
        groups = self._protocols.groups
        if self._last is None or groups is None or not groups.scheduled:
            return None
        of = self._last.multicasts[SCRIBE]
        assert self._groups is not None
        group, size = np.zeros((2, int(of.number.max(initial=-1)) + 1), dtype=np.int64)
        group[of.number], size[of.number] = self._groups.number[of.group], of.size
        return ScheduledMessages(group, size)

    @property
    def measures_ways(self) -> bool:
        """True if Scribe is played and the config measures delays or link stress in each round."""
        groups = self._protocols.groups
        return self._plays_scribe and groups is not None and groups.multicasts.of_ways

    def _multicasts(self, name: str) -> Batches:
        groups = self._protocols.groups
        if self._last is None or groups is None or not self.measures_ways:
            raise ValueError("no round has been played, or its multicasts are not measured")
        systems, of_round = self._protocols.systems, self._last.multicasts[SCRIBE]
        of = systems.tables(SCRIBE, of_round, groups.multicasts.message_parts)
        schema = schemas.written(name, groups.scheduled)
        return self._view(views.multicasts_view(groups.multicasts, of, name, schema))

    @property
    def _plays_scribe(self) -> bool:
        return SCRIBE in self._protocols.systems.systems

    def _of_groups(self, wanted: views.View) -> Batches:
        self._need_trees()
        return self._view(wanted)

    def _need_trees(self) -> None:
        if not self._plays_scribe or not self.number:
            raise ValueError("Scribe is not played, or no round has been played")

    def _view(self, wanted: views.View) -> Batches:
        kernel = self._underlay.kernel
        return views.view(self._driver.rows, self._ring, kernel, wanted, self._groups)

    def route(self, messages: DataFrame) -> DataFrame:
        """Route messages by the nodes' present tables, and return their results.

        The tables do not change, even if a message meets a dead node.

        Parameters
        ----------
        messages : DataFrame
            ``node, key_hi, key_lo``: the node at which each message starts, and its 128-bit key.

        Returns
        -------
        DataFrame
            ``source, key_hi, key_lo, at, delivered, right, hops, lost``, a row for each message.
            ``right`` is True if the message ended at the root of its key.  A message from a dead
            node is not delivered.
        """
        return self._driver.route(messages.select("node", "key_hi", "key_lo").toArrow())

    def anycast(
        self, messages: DataFrame, application: Callable[[int], ScribeApplication] | None = None
    ) -> DataFrame:
        """Send each message to one member of its group that accepts it, by the present trees.

        Neither the trees nor the memory of an application change.

        Parameters
        ----------
        messages : DataFrame
            ``group, node``: the group and the origin of each message; perhaps ``number``, which
            keys the order in which a message visits the children of a node (0 by default).
        application : callable, optional
            ``application(nodes)`` returns the application whose method `accept` decides; by default
            that of the world, which accepts at all members unless it says otherwise.

        Returns
        -------
        DataFrame
            ``group, node, number, accepted, messages, visited, delay_ms``, a row for each message:
            the member that accepted or NULL, the numbers of messages and of tree nodes that did
            not accept, and the sum of the delays.  A dead origin sends no message.

        Raises
        ------
        InputError
            A group or a node does not exist.
        """
        self._need_trees()
        names = [name for name in ("group", "node", "number") if name in messages.columns]
        return self._driver.anycast(self.number - 1, messages.select(*names).toArrow(), application)

    @property
    def knowledge(self) -> Batches:
        """The live nodes and what they know of live nodes: `schemas.KNOWLEDGE`."""
        return self._view(views.live_knowledge_view(save.read_lives(self._driver.rows)))

    def overlay(self) -> PastryOverlay:
        """Return an overlay of the live nodes with their present tables; call its ``release``.

        It contains no dead nodes. It can be used like the overlay of a run, for example to build
        Scribe's trees or a graph.
        """
        rules, partitions = self._protocols.rules, parallelism(self._events.sparkSession)
        laid_out = self.knowledge.frame.repartition(partitions, "node")
        return PastryOverlay.of_knowledge(laid_out, self._underlay, rules.b, rules.leaf_set)

    def memory(self, system: str, table: str, schema: str) -> DataFrame:
        """Return a table that the user's applications remember.

        Parameters
        ----------
        system : str
            The system that calls the applications.
        table : str
            A name in `rounds.applications.WorldApplication.tables`.
        schema : str
            The columns of the table, such as ``"node bigint, failures bigint"``.
        """
        return self._view(views.memory_view(system, table, schema)).frame

    @property
    def lookups(self) -> DataFrame:
        """The lookups of the last round, with the columns that :meth:`route` returns."""
        found = drivers.lookup_table(self._left.lookups, self._ring.facts.ring.node)
        return local_frame(self._events.sparkSession, found)

    @property
    def new_leafs(self) -> DataFrame:
        """The nodes whose leaf set changed in the last round: ``node``.

        Pastry calls this upcall ``newLeafs``.
        """
        _ = self._left
        return self._view(views.NEW_LEAF_SETS).frame

    @property
    def _left(self) -> world_state.Played:
        if self._last is None:
            raise ValueError("no round has been played")
        return self._last

    def release(self) -> None:
        """Free the memory of the world's nodes; the world cannot be used afterwards."""
        self._driver.release()
        self._ring.release()
