"""Overlay nodes; the Pastry overlay: leaf sets and routing tables over an underlay, routing rule.

As a graph, nodes are vertices, and leaves and table entries are edges.

JSAC 2002, Section II: 128-bit nodeIds, uniformly distributed, "for instance by basing the nodeId
on a secure hash"; Section IV.A: end nodes "randomly assigned to routers ... with uniform
probability".
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from scribe_spark import schemas
from scribe_spark.core import draws
from scribe_spark.core.node_classes import share_of
from scribe_spark.core.progress import Progress
from scribe_spark.engine import Tables
from scribe_spark.engine.barrier import why_no_tasks
from scribe_spark.engine.buckets import BucketRing
from scribe_spark.engine.facts import Facts, Keys
from scribe_spark.engine.on_spark import BucketTables, OnSpark
from scribe_spark.engine.player import Player
from scribe_spark.overlay import Overlay
from scribe_spark.pastry.knowledge import (
    routing_table,
    table_entries,
    tables_of_knowledge,
    to_knowledge,
)
from scribe_spark.pastry.next_hop import hop
from scribe_spark.pastry.perfect_tables import PerfectTables, bucket_digits
from scribe_spark.pastry.round import arrive
from scribe_spark.pastry.states import CELLS, LEAVES, BucketNodes, Kind, SilentNodes, States
from scribe_spark.pastry.waves import Wave, WavePlan
from scribe_spark.rounds.events import is_node
from scribe_spark.rounds.player import MESSAGES, Environment, Observer, RoundPlayer, counted
from scribe_spark.runtime.batches import Batches, Table
from scribe_spark.runtime.blocks import union_tables
from scribe_spark.runtime.graph_frame import GraphTables
from scribe_spark.runtime.sessions import parallelism
from scribe_spark.schemas import LEAF_SET, OVERLAY_EDGES, ROUTING_TABLE_ENTRY, conform
from scribe_spark.underlay.protocol import Kernel, Underlay

if TYPE_CHECKING:  # not on executors
    from scribe_spark.config import ExperimentConfig
    from scribe_spark.config.overlay import OverlayConfig


# --- nodes


def draw_nodes(
    spark: SparkSession,
    config: ExperimentConfig,
    routers: np.ndarray,
    shares: np.ndarray | None = None,
    places: np.ndarray | None = None,
) -> Batches:
    """Return the nodes of the overlay, numbered from 0: `schemas.NODES`; lazy.

    `routers` are R ids.  The `shares` of the nodes at each router (default: equal), or `places`,
    the index of the router of each node, decide which routers nodes have.
    """
    rows = node_rows(config, routers, shares, places)

    def draw(batch: pa.RecordBatch) -> dict[str, np.ndarray]:
        return rows(batch.column("id").to_numpy())

    return Batches.numbered(spark, config.overlay.nodes).each(draw, schemas.NODES)


def node_rows(
    config: ExperimentConfig,
    routers: np.ndarray,
    shares: np.ndarray | None = None,
    places: np.ndarray | None = None,
) -> Callable[[np.ndarray], dict[str, np.ndarray]]:
    """Return the function from numbers of nodes to their columns ``node, id_hi, id_lo, router``."""
    seed, hashed = config.seed, config.overlay.node_ids == "sha1"

    def draw(node: np.ndarray) -> dict[str, np.ndarray]:
        hi, lo = _hashed_ids(node) if hashed else _uniform_ids(seed, node)
        place = router_index(seed, node, len(routers), shares, places)
        return {"node": node, "id_hi": hi, "id_lo": lo, "router": routers[place]}

    return draw


def router_index(
    seed: int,
    node: np.ndarray,
    routers: int,
    shares: np.ndarray | None = None,
    places: np.ndarray | None = None,
) -> np.ndarray:
    """Return the index (below `routers`) of each node's router: int64; see :func:`draw_nodes`."""
    if places is not None:
        return places[node].astype(np.int64)
    bits = draws.bits_np(seed, "router", node)
    return bits.view(np.int64) % routers if shares is None else share_of(bits, shares)


def _uniform_ids(seed: int, node: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return random nodeIds as two halves (BIGINT), keyed by seed and node."""
    halves = (draws.bits_np(seed, f"nodeId {half}", node) for half in ("hi", "lo"))
    hi, lo = (half.view(np.int64) for half in halves)
    return hi, lo


def _hashed_ids(node: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return nodeIds as two halves (BIGINT): the first 128 bits of SHA-1 of the nodes' names."""
    digests = [hashlib.sha1(b"node-%d" % number).digest()[:16] for number in node.tolist()]
    halves = np.frombuffer(b"".join(digests), ">i8").astype(np.int64).reshape(-1, 2)
    return halves[:, 0], halves[:, 1]


def node_vertices(nodes: DataFrame) -> DataFrame:
    """Return the nodes (`schemas.NODES`) as vertices of a graph: `schemas.NODE_VERTICES`."""
    return schemas.conform(nodes.withColumnRenamed("node", "id"), schemas.NODE_VERTICES)


# --- the overlay


def overlay_edges(knowledge: DataFrame, nodes: DataFrame) -> DataFrame:
    """Return the edges to existing nodes, as a GraphFrame needs them: `schemas.OVERLAY_EDGES`."""
    leaves = knowledge.select("node", "smaller", F.posexplode("leaf_set").alias("index", "known"))
    clockwise, none = F.col("index") - F.col("smaller"), F.lit(None)
    # the node itself, at 0, is not in its leaf set
    place = F.when(clockwise < 0, clockwise).otherwise(clockwise + 1)
    entries = knowledge.select("node", F.explode("routing_table").alias("known"))
    of_leaf_set = F.lit(LEAF_SET), none, none, place
    of_table = F.lit(ROUTING_TABLE_ENTRY), F.col("known.row"), F.col("known.col"), none
    edges = [
        rows.select(
            *(F.col("node").alias("src"), F.col("known.entry").alias("dst")),
            *(column.alias(name) for column, name in zip(of, _OF_EDGE, strict=True)),
        )
        for rows, of in ((leaves, of_leaf_set), (entries, of_table))
    ]
    found = union_tables([conform(some, OVERLAY_EDGES) for some in edges])
    there = nodes.select(F.col("node").alias("dst"))
    return found.join(there, "dst", "left_semi").select(OVERLAY_EDGES.names)


_OF_EDGE = ("kind", "row", "col", "place")


# --- the overlay


@dataclass(frozen=True)
class PastryNextHop:
    """Pastry's routing rule, on the leaf sets and routing tables in a bucket."""

    facts: Facts

    def __call__(
        self, first: int, tables: Tables, at: np.ndarray, key_hi: np.ndarray, key_lo: np.ndarray
    ) -> np.ndarray:
        """See :class:`~scribe_spark.overlay.NextHop`."""
        states = States.of_tables(self.facts.ring, first, tables)
        return hop(states, is_node, at, Keys(key_hi, key_lo))[0]


class PastryOverlay(Overlay, GraphTables):
    """A Pastry network; its nodes know no other node until their tables are filled.

    :meth:`perfect` and :meth:`of_knowledge` return networks with filled tables.

    Parameters
    ----------
    nodes : DataFrame or Batches
        The nodes: ``node, id_hi, id_lo, router``.
    underlay : Underlay
        The routes between routers.
    b : int
        Digits of nodeIds have b bits.
    leaf_set : int
        The number of nodes in a leaf set, l; even.
    digits : int, optional
        The number of first digits of a nodeId that decide its bucket; by default chosen so that
        every core has work.

    Attributes
    ----------
    b : int
        Digits of nodeIds have b bits, so their base is 2**b.
    leaf_set : int
        The number of nodes in a leaf set, l.
    arrived : pyarrow.Table or None
        The messages of nodes that arrived by the protocol: ``kind, messages``.
    unfilled : callable or None
        ``unfilled(player)`` fills the tables of all nodes; None if they are filled.  A job of tasks
        may play it before its other work, and then passes its tables to :meth:`filled_in`.
    """

    def __init__(
        self, nodes: Table, underlay: Underlay, b: int, leaf_set: int, digits: int | None = None
    ) -> None:
        cores = parallelism(Batches.of(nodes).session)

        def digits_of(count: int) -> int:
            return digits or bucket_digits(b, count, len(underlay.routers), cores)

        super().__init__(nodes, underlay, lambda count: b * digits_of(count))
        self.b, self.leaf_set, self.digits = b, leaf_set, digits_of(len(self.ring))
        self.arrived: pa.Table | None = None
        self.unfilled: Callable[[Player], None] | None = None
        self.filled: BucketTables | None = None
        self._owned: list[Callable[[], None]] = []

    @classmethod
    def perfect(
        cls,
        nodes: Table,
        underlay: Underlay,
        b: int,
        leaf_set: int,
        in_tasks: bool = False,
        digits: int | None = None,
    ) -> PastryOverlay:
        """Return a Pastry network whose tables are perfect: each entry is the nearest fitting node.

        With `in_tasks`, the first job of tasks that needs the tables fills them.  Free the network
        by :meth:`release`.
        """
        made = cls(nodes, underlay, b, leaf_set, digits)
        ring, rules = made.ring, (len(underlay.routers), b, leaf_set, made.digits)
        made.unfilled = PerfectTables(ring.facts, ring.bounds, underlay.kernel, *rules)
        if not in_tasks:
            made.fill()
        return made

    @property
    def known(self) -> Sequence[DataFrame]:
        """The leaf sets and routing tables in each bucket, as `ROWS`."""
        if self.unfilled is not None:
            self.fill()
        return self._known

    @known.setter
    def known(self, rows: Sequence[DataFrame]) -> None:
        self._known = rows

    def fill(self) -> None:
        """Fill the tables of all nodes now: in one job, if tasks can keep all buckets."""
        assert self.unfilled is not None
        layout = self.ring.layout
        player = OnSpark(BucketTables(layout, self.ring.starts()))
        if why_no_tasks(layout.spark, layout.buckets) is None:
            player.play_in_tasks(self.unfilled, "overlay")
        else:
            self.unfilled(player)
        self.filled_in(player.tables)

    def filled_in(self, tables: BucketTables) -> BucketTables:
        """Take over tables of buckets with those of all nodes; return a copy without them."""
        self.unfilled, self.filled = None, tables
        self.own(tables.release)
        self._known = [tables.constant(LEAVES, CELLS)]
        return tables.fork(LEAVES, CELLS)

    @classmethod
    def of_knowledge(
        cls, knowledge: DataFrame, underlay: Underlay, b: int, leaf_set: int
    ) -> PastryOverlay:
        """Return a Pastry network with the leaf sets and routing tables of a saved table.

        Leaf sets may have any length, and entries may be missing, but every known node must exist.
        Free the network by :meth:`release`.

        Parameters
        ----------
        knowledge : DataFrame
            A row for each node, with the columns of the table ``knowledge`` of a run
            (``--write-knowledge``).
        underlay, b, leaf_set
            The same arguments as in :class:`PastryOverlay`.
        """
        made = cls(knowledge.select(schemas.NODES.names), underlay, b, leaf_set)
        tables = tables_of_knowledge(knowledge, made.ring, b, leaf_set)
        made.known = [tables.constant(LEAVES, CELLS)]
        return made

    def arrival_messages(self) -> pa.Table | None:
        """Return the messages that nodes sent to arrive, or None: ``kind, messages``."""
        return self.arrived

    def own(self, release: Callable[[], None]) -> None:
        """Register a function that :meth:`release` will call."""
        self._owned.append(release)

    def release(self) -> None:
        """Free the memory of the nodes and the overlay's own tables."""
        self.unfilled = None  # tables that nobody has read are never filled
        super().release()
        for release in self._owned:
            release()

    @property
    def rule(self) -> PastryNextHop:
        """Pastry's rule for the next hop of a message."""
        return PastryNextHop(self.ring.facts)

    @property
    def knowledge(self) -> DataFrame:
        """The leaf set and the routing table of each node, as arrays.

        It has a row for each node, with the columns of the table ``knowledge`` of a run.  Each
        query computes it again.
        """
        return to_knowledge(self.known[0], self.ring, self.underlay.kernel)

    @property
    def _cells(self) -> DataFrame:
        """The tables `CELLS` of all buckets, packed as `ROWS`."""
        return self.known[0].where(F.col("name") == CELLS)

    @property
    def leaf_sets(self) -> DataFrame:
        """The nodes in each leaf set, in clockwise order: ``node, leaf, place``.

        ``place`` is 1, 2, ... for the next larger nodeIds and -1, -2, ... for the next smaller
        ones.
        """
        edges = self.edges.where(F.col("kind") == schemas.LEAF_SET)
        return edges.select(F.col("src").alias("node"), F.col("dst").alias("leaf"), "place")

    @property
    def vertices(self) -> DataFrame:  # type: ignore[override]
        """The nodes as vertices of a graph: ``id, id_hi, id_lo, router``."""
        return node_vertices(self.nodes)

    @property
    def edges(self) -> DataFrame:  # type: ignore[override]
        """The links of the overlay: ``src, dst, kind, row, col, place``.

        ``kind`` is ``leaf_set`` (with ``place``) or ``routing_table`` (with ``row`` and ``col``).
        Each query computes them again.
        """
        return overlay_edges(self.knowledge, self.nodes)

    def routing_table(self) -> DataFrame:
        """Return the entries of all routing tables, without leaves: ``node, row, col, entry``."""
        return routing_table(self._cells, self.ring)

    def table_entries(self) -> pa.Table:
        """Return one row ``nodes, entries``: the numbers of nodes and of entries in all tables."""
        known = self._cells
        return table_entries(known if self.filled is None else self.filled.batches(CELLS))


def as_pastry(overlay: Overlay) -> PastryOverlay:
    """Return an overlay that has Pastry's tables; raise TypeError for another one."""
    if not isinstance(overlay, PastryOverlay):
        raise TypeError(f"Pastry's tables are needed; {type(overlay).__name__} has none")
    return overlay


# --- an overlay whose nodes arrive in waves


#: Tasks keep their buckets up to this number of nodes, and below the other one, a single task plays
#: all buckets, as messages between tasks would cost more.  The results do not depend on these.
_KEPT, _FEW = 2**17, 2**14


def arrivals(
    nodes: Table,
    underlay: Underlay,
    config: OverlayConfig,
    seed: int,
    progress: Progress | None = None,
    in_tasks: bool = False,
) -> PastryOverlay:
    """Return the overlay after arrivals; `in_tasks`, they wait for a job that needs the tables."""
    rules = config.for_tasks()
    overlay = _Arrived(nodes, underlay, rules.b, rules.leaf_set)
    ring = overlay.ring
    if in_tasks:
        environment = _environment(ring, rules, underlay.kernel, seed)
        sharing = OnSpark(BucketTables(ring.layout, ring.starts()))
        waves = _waves(environment, len(ring), sharing)
        overlay.own(sharing.release)
        overlay.unfilled = partial(play_waves, environment=environment, waves=waves)
    else:
        tables = play_arrivals(ring, len(ring), underlay.kernel, rules, seed, progress)
        overlay.filled_in(tables)
    return overlay


class _Arrived(PastryOverlay):
    """A Pastry network whose nodes arrive by the protocol."""

    def arrival_messages(self) -> pa.Table:
        """Return the messages that nodes sent to arrive: ``kind, messages``."""
        _ = self.known
        assert self.filled is not None
        sums = sum(
            (counted(columns, len(Kind))[0] for *_, columns in self.filled.read(MESSAGES)),
            start=np.zeros(len(Kind), dtype=np.int64),
        )
        by_kind = [(kind.value, int(sent)) for kind, sent in zip(Kind, sums, strict=True)]
        return schemas.arrow_table(by_kind, schemas.ARRIVAL_MESSAGES)


def play_arrivals(
    ring: BucketRing,
    initial: int,
    kernel: Kernel,
    rules: OverlayConfig,
    seed: int,
    progress: Progress | None = None,
) -> BucketTables:
    """Return the tables `LEAVES`, `CELLS` and `MESSAGES` after `initial` nodes have arrived."""
    environment = _environment(ring, rules, kernel, seed)
    tables = BucketTables(ring.layout, ring.starts())
    sharing = OnSpark(tables)
    kept = waves = _waves(environment, initial, sharing)
    if ring.layout.buckets > 1:  # a single task plays all waves anyway
        kept = [wave for wave in waves if wave.last <= _KEPT] or waves[:1]
    first = partial(play_waves, environment=environment, waves=kept)
    if initial < _FEW:
        sharing.play_in_tasks(first, "arrivals", alone=True)
    else:
        sharing.keep(first, "arrivals")
    for number, wave in enumerate(waves[len(kept) :], len(kept)):
        player = OnSpark(tables, f"wave {number}, ", progress)
        arrive(RoundPlayer(player, environment), wave, number)
        tables = player.tables
    sharing.free(waves[0].arrays)
    return tables


def play_waves(player: Player, environment: Environment, waves: Iterable[Wave]) -> None:
    """Let nodes arrive in waves, from the first node on."""
    player.play(Begin(environment))
    for number, wave in enumerate(waves):
        arrive(RoundPlayer(player, environment), wave, number)


class Begin(SilentNodes):
    """Give all nodes empty tables."""

    def begin(self, nodes: BucketNodes) -> None:
        rules, own = self.environment.rules, np.arange(nodes.first, nodes.last)
        nodes.tables.update(States.empty(nodes.ring, own, rules.leaf_set, rules.b).tables())


def _environment(ring: BucketRing, rules: OverlayConfig, kernel: Kernel, seed: int) -> Environment:
    return Environment(ring.facts, ring.bounds, rules, kernel, Observer(tuple(Kind)), seed=seed)


def _waves(environment: Environment, initial: int, sharing: OnSpark) -> list[Wave]:
    of = environment.facts.ring, environment.rules, environment.seed, environment.kernel
    return WavePlan.of(*of, initial).waves(sharing.share)
