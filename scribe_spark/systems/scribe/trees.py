"""The trees and deliveries of a run, as user tables on top of a settled round; costs of failures.

The cost of a node failure is computed from static trees.  A failed node breaks the link to its
parent and the links to its children.  Each child joins again, which costs at least one new link and
one JOIN, and the parent drops the failed child.

JSAC 2002, Sections III.A and III.C.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from scribe_spark.core import arrays
from scribe_spark.core.key_limits import refuse_groups
from scribe_spark.core.keys import key_parts
from scribe_spark.core.progress import Progress
from scribe_spark.engine import Columns, Tables, in_task
from scribe_spark.engine.buckets import Names, arrow_schema, read_view
from scribe_spark.engine.facts import Facts, Keys, KnowsRing
from scribe_spark.engine.on_spark import BucketTables, OnSpark
from scribe_spark.engine.packing import take
from scribe_spark.engine.player import Player, play_in_turn, tables_called
from scribe_spark.engine.program import AT
from scribe_spark.multicast import DELIVERIES, EDGES, FAILURES, failure_sums
from scribe_spark.overlay import NextHop, Overlay
from scribe_spark.rounds.applications import Applications
from scribe_spark.rounds.events import Events
from scribe_spark.rounds.group_events import JOINING, GroupEvents, Groups, Publishing
from scribe_spark.rounds.player import Environment, Observer, RoundPlayer
from scribe_spark.runtime.batches import Batches, Table, rows_of
from scribe_spark.runtime.blocks import read_partition, union_tables
from scribe_spark.runtime.sessions import local_frame
from scribe_spark.systems.scribe import bottleneck, figures, state, upcalls
from scribe_spark.systems.scribe import multicast as payloads
from scribe_spark.systems.scribe.anycast import Anycast, Anycasts, play_anycasts
from scribe_spark.systems.scribe.root import MADE, become_root
from scribe_spark.systems.scribe.round import PlayEvents, growing, join_trees, publishing
from scribe_spark.systems.scribe.scribe import RoundOfGroups, RoundProgram, Scribe
from scribe_spark.underlay.protocol import Kernel, node_delays

SYSTEM = "scribe"

# tables of a bucket
ENTRIES, CHILDREN = state.table_of("entries"), state.table_of("children")
# kinds of messages
_ROOT, _PARENT, _CHILD = "root", "parent", "child"


@dataclass
class Trees:
    """The trees of a settled round, distributed over the buckets of the ring.

    With `in_tasks`, the programs of a phase run in one job whose tasks keep their buckets;
    otherwise each superstep is a job.
    """

    overlay: Overlay
    player: RoundPlayer
    round: RoundOfGroups
    in_tasks: bool = False
    #: `multicast.DELIVERIES` of the messages that roots have published in :func:`build_trees`.
    delivered: Batches | None = None

    @classmethod
    def over(
        cls, overlay: Overlay, groups: pa.Table, tables: BucketTables, progress: Progress | None
    ) -> Trees:
        """Return trees of groups ``group, key_hi, key_lo``, sorted by group, with stored tables."""
        number, hi, lo = (groups.column(name).to_numpy() for name in ("group", "key_hi", "key_lo"))
        ring, underlay = overlay.ring, overlay.underlay
        keys = hi.view(np.uint64), lo.view(np.uint64)
        round = settled_round(number, *keys, len(ring), overlay.rule, underlay.lan_us)
        environment = settled_environment(ring.facts, ring.bounds, underlay.kernel)
        return cls(overlay, RoundPlayer(OnSpark(tables, progress=progress), environment), round)

    @property
    def engine(self) -> OnSpark:
        """The engine that plays the programs and has the tables."""
        assert isinstance(self.player.engine, OnSpark)
        return self.player.engine

    def play(self, orchestrate: Callable[[RoundPlayer, RoundOfGroups], None], called: str) -> None:
        """Run a picklable ``orchestrate(player, round)``, which plays programs of the round."""
        round, environment = self.round, self.player.environment
        if not self.in_tasks:
            orchestrate(self.player, round)
            return

        def play(engine: in_task.InTask) -> None:
            orchestrate(RoundPlayer(engine, environment), round)

        self.engine.play_in_tasks(play, called)

    @property
    def number(self) -> np.ndarray:
        """The numbers of the groups: int64, shape (G,)."""
        return self.round.groups.number

    def fork(
        self, called: str, round: RoundOfGroups, *, seed: int = 0, routes: bool = True
    ) -> Trees:
        """Return a copy for programs that change the trees, with jobs called `called`."""
        engine = self.engine.fork(called, constant=routes)
        player = RoundPlayer(engine, replace(self.player.environment, seed=seed))
        return replace(self, player=player, round=round, delivered=None)

    def created(self) -> pa.Table:
        """Return on the driver where each group's CREATE was delivered.

        The columns are :data:`_CREATED_ROWS`: `source` is the creator, `node` the root,
        `direct_us` the delay between them.
        """
        made, wanted = self.engine.gather(MADE).get(MADE), arrow_schema(_CREATED_ROWS)
        if made is None:
            return wanted.empty_table()
        creator, root = made["creator"], made[AT]
        direct_us = np.where(creator == root, 0, self._delays(creator, root))
        columns = {**made, "source": creator, "node": root, "direct_us": direct_us}
        return pa.Table.from_batches([self.names.batch(columns, wanted)])

    @property
    def names(self) -> Names:
        """The numbers of nodes and groups and the ids of routers, for views."""
        environment = self.player.environment
        return Names(environment.facts, environment.kernel, self.number)

    @property
    def _delays(self) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
        """A function of two arrays of ring positions: the delays between nodes (us)."""
        environment, lan_us = self.player.environment, self.round.lan_us
        facts, kernel = environment.facts, environment.kernel

        def delays(one: np.ndarray, other: np.ndarray) -> np.ndarray:
            router = facts.ring.router
            return node_delays(kernel, lan_us, router[one], router[other])

        return delays

    def _view(self, table: str, schema: str, make: Callable[[Columns], Columns] = dict) -> Batches:
        return read_view(self.engine.tables.batches(table), self.names, schema, make)

    def anycast(
        self,
        messages: DataFrame,
        application: Callable[[int], upcalls.ScribeApplication] | None = None,
    ) -> DataFrame:
        """Send anycasts through the trees; see `worlds.World.anycast`."""
        ring, groups = self.overlay.ring.facts.ring, self.round.groups
        of = Anycasts.of(messages.toArrow(), groups, ring)
        applications = None if application is None else Applications(application, len(ring))
        round = replace(self.round, applications=applications)
        fork = self.fork("anycasts", round)
        found = play_anycasts(fork.engine, Anycast(fork.player.environment, round, of))
        fork.release()
        return local_frame(messages.sparkSession, found.table(of, groups, ring))

    def edges(self) -> DataFrame:
        """Return all edges: ``group, parent, child, parent_router, child_router, delay_us``."""
        return self.read_edges().frame

    def member_pairs(self) -> tuple[np.ndarray, np.ndarray]:
        """Return all members on the driver: indices of groups, and ring positions."""
        entries = self.engine.tables.read(ENTRIES)
        keys = [columns["key"][columns["member"]] for _, _, columns in entries]
        return arrays.divided(
            np.concatenate([arrays.whole_numbers(), *keys]), len(self.overlay.ring)
        )

    def read_members(self) -> Batches:
        """Return ``group, node, router`` of all members, for further kernels; lazy."""
        size = len(self.overlay.ring)

        def made(some: Columns) -> Columns:
            return key_parts(some["key"][some["member"]], ("group", "node"), size)

        return self._view(ENTRIES, _MEMBERS, made)

    def read_edges(self) -> Batches:
        """Return the rows of :meth:`edges`, for further kernels; lazy."""
        size, delays = len(self.overlay.ring), self._delays

        def made(some: Columns) -> Columns:
            edge = key_parts(some["key"], ("group", "parent", "child"), size)
            return {**edge, "delay_us": delays(edge["parent"], edge["child"])}

        return self._view(CHILDREN, _EDGES, made)

    def read_extra_joins(self) -> Batches:
        """Return the JOINs of the bottleneck remover: `multicast.EDGES` and ``probes``."""

        def made(some: Columns) -> Columns:
            return {**some, "parent": some[AT]}

        return self._view(bottleneck.EXTRA_JOINS, bottleneck.EXTRA_JOINS_COLUMNS, made)

    def release(self) -> None:
        """Free the tables of the trees."""
        self.player.release()


_MEMBERS = "group bigint, node bigint, router bigint"
_CREATED_ROWS = (
    "group bigint, source bigint, source_router bigint, node bigint, router bigint, hops int, "
    "delay_us bigint, direct_us bigint"
)
_EDGES = f"{EDGES}, delay_us bigint"


def build_trees(
    overlay: Overlay,
    groups: DataFrame | pa.Table,
    members: Table | None,
    progress: Progress | None = None,
    *,
    in_tasks: bool = False,
    publishes: bool = False,
    then: Callable[[Player, np.ndarray], None] | None = None,
) -> Trees:
    """Build the trees: CREATE every group; then every member sends a JOIN.

    `groups` has ``group, key_hi, key_lo, creator``, `members` has ``group, node``, or is None.
    If the roots publish, each multicasts one message in the same job; then ``then(player,
    roots)``, which must be picklable, is played in the same tasks, with the positions of the
    roots.
    """
    listed = rows_of(groups, ["group", "key_hi", "key_lo", "creator"]).sort_by("group")
    ring, unfilled = overlay.ring, overlay.unfilled if in_tasks else None
    known = overlay.known if unfilled is None else ()
    trees = Trees.over(overlay, listed, BucketTables(ring.layout, ring.starts(), known), progress)
    if members is not None:
        came = ring.messages(members, JOINING, "node", groups=trees.number)
        trees.engine.send_first(PlayEvents, came)
    creator = ring.facts.positions(listed.column("creator").to_numpy())
    trees.in_tasks = in_tasks
    grow = partial(grow_trees, creator=creator, events=GroupEvents(), publishes=publishes)
    if in_tasks:
        grow = partial(_grow_in_task, fill=unfilled, grow=partial(grow, then=then))
    trees.play(grow, "trees" if unfilled is None else "overlay and trees")
    if unfilled is not None:
        tables = overlay.filled_in(trees.engine.tables)
        trees.player = RoundPlayer(OnSpark(tables, progress=progress), trees.player.environment)
    if publishes:
        roots = _positions_of_roots(trees.engine, len(trees.number))
        trees.delivered = _read_deliveries(trees, trees.engine, roots)
        is_delivered = tables_called([payloads.DELIVERIES]).fullmatch
        trees.engine.forget(lambda name: is_delivered(name) is not None)
    return trees


def _grow_in_task(
    player: RoundPlayer,
    round: RoundOfGroups,
    fill: Callable[[Player], None] | None,
    grow: Callable[[RoundPlayer, RoundOfGroups], None],
) -> None:
    """Fill the tables of the overlay's nodes, and grow the trees."""
    engine = player.engine
    assert isinstance(engine, in_task.InTask)
    if fill is not None:
        fill(engine.without_inbox())
        engine.put_away()
    grow(player, round)


def plant_trees(overlay: Overlay, groups: DataFrame, members: DataFrame, edges: DataFrame) -> Trees:
    """Return trees with given edges, for example those of a user's variant.

    `groups` has ``group, key_hi, key_lo, root``, `members` has ``group, node``, and `edges` has
    ``group, parent, child``.  MULTICAST reads the tables of buckets, so both ends store an edge.
    """
    listed = groups.select("group", "key_hi", "key_lo").toArrow().sort_by("group")
    ring, number = overlay.ring, listed.column("group").to_numpy()

    def to(node: str, kind: str, table: DataFrame, *others: str) -> DataFrame:
        """Return messages to the nodes in a column, with the ring positions of `others`."""

        def columns(facts: Facts, batch: pa.RecordBatch) -> Columns:
            return {other: facts.positions(batch.column(other).to_numpy()) for other in others}

        return ring.messages(table.select("group", node, *others), kind, node, columns, number)

    first = [
        to("root", _ROOT, groups),
        to("node", JOINING, members),
        to("parent", _PARENT, edges, "child"),
        to("child", _CHILD, edges, "parent"),
    ]
    tables = BucketTables(ring.layout, union_tables(first), overlay.known)
    trees = Trees.over(overlay, listed, tables, None)
    trees.player.play(Plant(trees.player.environment, trees.round))
    return trees


def _plant_roots(scribe: Scribe, came: Columns) -> None:
    group, root = came["group"], came[AT]
    figures.deliver_create(scribe, group, root, creator=root)
    become_root(scribe, scribe.key(group, root))


def _plant_parents(scribe: Scribe, came: Columns) -> None:
    entries, pair = scribe.state.entries, scribe.key(came["group"], came[AT])
    new = arrays.distinct(pair)
    entries.enter(new[~entries.has(new)], scribe.number, "own")
    entries.parent[entries.find(pair)] = came["parent"]


def _plant_members(scribe: Scribe, came: Columns) -> None:
    join_trees(scribe, came["group"], came[AT])


def _plant_children(scribe: Scribe, came: Columns) -> None:
    edge = arrays.distinct(scribe.edge(came["group"], came[AT], came["child"]))
    now = {"number": scribe.number, "refreshed": scribe.number, "got_payload": False}
    scribe.state.children.insert(edge, **now)


class Plant(RoundProgram):
    """A program that stores received parents, children and group states in the tables."""

    writes = ("entries", "children", "copies")
    handlers = (
        (_ROOT, _plant_roots),
        (_CHILD, _plant_parents),
        (JOINING, _plant_members),
        (_PARENT, _plant_children),
    )

    def begin(self, scribe: Scribe, tables: Tables) -> None:
        entries = scribe.state.entries
        entries.number[:], entries.heard[:], entries.tried[:] = scribe.number, scribe.number, True


def multicast(
    trees: Trees, groups: DataFrame | pa.Table, source: str = "root"
) -> tuple[Batches, Trees]:
    """Let the source of each group multicast one message: ``group, node, hops, delay_us``, lazy.

    `groups` has ``group, root, source``. `source` is ``root``, or the way on which a source
    sends the message to the root first: ``routed`` by the overlay, or ``direct``, since sources
    cache the rendez-vous point's address (Section III.A.3). The result has a row for each member
    but the source; the caller must release the trees from which the rows are read.
    """
    listed = rows_of(groups, ["group", "root", "source"])
    index = arrays.index_sorted(trees.number, listed.column("group").to_numpy())
    facts = trees.overlay.ring.facts
    roots, source_of = (np.full(len(trees.number), arrays.NONE, dtype=np.int64) for _ in range(2))
    roots[index] = facts.positions(listed.column("root").to_numpy())
    source_of[index] = at = facts.positions(listed.column("source").to_numpy())
    round = replace(trees.round, source=source, roots=roots)
    sent = trees.fork("", round, routes=source == "routed")
    sent.play(partial(publish, group=index, source=at), "MULTICAST")
    return _read_deliveries(trees, sent.engine, source_of), sent


def _read_deliveries(trees: Trees, engine: OnSpark, source: np.ndarray) -> Batches:
    """Return the deliveries in an engine's tables, without those to groups' sources."""

    def members(some: Columns) -> Columns:
        return take(some, some["node"] != source[some["group"]])

    names = engine.tables.called(tables_called([payloads.DELIVERIES]).pattern)
    rows = engine.tables.batches(*names or [payloads.DELIVERIES])
    return read_view(rows, trees.names, DELIVERIES, members)


# --- a settled round: round 0 of a world in which no node fails, arrives or leaves
#
# All nodes are alive and their tables are right, so no JOIN visits a node twice and no known path
# to a root is out of date.  Programs skip work that only a later round would need.  A run without
# rounds is one settled round: CREATEs and JOINs, then one publication per group.


def settled_environment(
    facts: KnowsRing, bounds: np.ndarray, kernel: Kernel, seed: int = 0
) -> Environment:
    """Return the environment of a settled round; called on the driver."""
    from scribe_spark.config import OverlayConfig  # not on executors

    nobody_arrives = OverlayConfig().for_tasks()
    return Environment(facts, bounds, nobody_arrives, kernel, Observer(()), seed=seed)


def settled_round(
    number: np.ndarray,
    key_hi: np.ndarray,
    key_lo: np.ndarray,
    size: int,
    rule: NextHop,
    lan_us: int,
) -> RoundOfGroups:
    """Return the parameters of a settled round of groups, whose numbers ascend."""
    from scribe_spark.config import ScribeConfig, TreesConfig  # not on executors

    refuse_groups(len(number), size)
    groups = Groups(number, Keys(key_hi, key_lo), size)
    rules = ScribeConfig().for_tasks(), TreesConfig().for_tasks()
    first = RoundOfGroups(0, groups, *rules, arrays.whole_numbers(), timed=True, lan_us=lan_us)
    return replace(first, settled=True, rule=rule)


def grow_trees(
    player: RoundPlayer,
    round: RoundOfGroups,
    creator: np.ndarray,
    events: GroupEvents,
    publishes: bool = False,
    then: Callable[[Player, np.ndarray], None] | None = None,
) -> None:
    """Create all groups at the creators' positions, let members join, and perhaps publish."""
    created = replace(events, create=(np.arange(len(round.groups)), creator))
    play_in_turn(player, growing(player, round, Events(), created))
    if publishes:
        roots = _positions_of_roots(player.engine, len(round.groups))
        group = np.flatnonzero(roots != arrays.NONE)
        publish(player, replace(round, source="root", roots=roots), group, roots[group])
        if then is not None:
            then(player.engine, roots)


def _positions_of_roots(engine: Player, groups: int) -> np.ndarray:
    """Return the root's position of each group, NONE for a group that nobody has created."""
    roots = np.full(groups, arrays.NONE, dtype=np.int64)
    if made := engine.gather(MADE).get(MADE):
        roots[made["group"]] = made[AT]
    return roots


def publish(
    player: RoundPlayer, round: RoundOfGroups, group: np.ndarray, source: np.ndarray
) -> None:
    """Let the sources (ring positions) of groups (indices) multicast one message each."""
    play_in_turn(player, publishing(player, round, Publishing.at_begin((group, source))))


# --- the cost of failures


def costs_of_rejoining(edges: DataFrame) -> DataFrame:
    """Sum the costs of a failure of each (group, node), by the depth of the node: `FAILURES`."""
    whole = edges.select("group", "parent", "child").repartition("group")
    sums = [F.sum(name).alias(name) for name in ("failures", "links", "acting", "messages")]
    return whole.mapInArrow(_rejoin, FAILURES).groupBy("depth").agg(*sums)


def _rejoin(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    rows = read_partition(batches)
    if rows is None:
        return
    group, parent, child = (rows.column(n).to_numpy() for n in ("group", "parent", "child"))
    ends = np.stack([np.r_[group, group], np.r_[parent, child]])
    number = arrays.numbered(*ends)
    upper, lower = np.split(number, 2)
    above = np.full(number.max() + 1, -1)
    above[lower] = upper
    children = np.bincount(upper, minlength=len(above))
    below_root = (above >= 0).astype(np.int64)
    yield failure_sums(
        arrays.depths(above), 2 * children + below_root, children + below_root, children
    )
