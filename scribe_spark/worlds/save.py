"""The rows of a world before its first round, and of a saved one: `ROWS`, and a header.

Rows refer to nodes by ring position, so they are valid only with the nodes of their world.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from scribe_spark.core.errors import InputError, listed
from scribe_spark.engine.buckets import BucketRing
from scribe_spark.engine.facts import bucket_bounds, distribute_facts
from scribe_spark.engine.on_spark import Layout
from scribe_spark.engine.packing import Columns, concatenate, pack_rows, read_rows
from scribe_spark.engine.player import Player
from scribe_spark.pastry.knowledge import tables_of_knowledge
from scribe_spark.pastry.overlay import play_arrivals
from scribe_spark.pastry.perfect_tables import PerfectTables, bucket_digits
from scribe_spark.pastry.states import CELLS, LEAVES, table_rows
from scribe_spark.pastry.waves import arrival_ranks
from scribe_spark.rounds.events import NEVER, Lives
from scribe_spark.rounds.group_events import MEMBERS
from scribe_spark.rounds.system import CARRIED, DELIVERED, OF_SYSTEM
from scribe_spark.runtime.batches import Batches, Table
from scribe_spark.runtime.blocks import materialise
from scribe_spark.runtime.sessions import local_frame, parallelism
from scribe_spark.schemas import ROWS
from scribe_spark.underlay.protocol import Kernel, Underlay
from scribe_spark.worlds.round_measures import is_traffic

if TYPE_CHECKING:  # not on executors
    from scribe_spark.config import OverlayConfig

#: Tables of a bucket: the lives of its nodes; the round of each node's last arrival or recovery
#: (``round``); and the header: the number of buckets, the number of the next round, the version.
LIVES, INCARNATIONS, HEADER = "lives", "incarnations", "world"

#: The version of the saved tables; other versions are refused.
VERSION = 11


def read_header(rows: DataFrame) -> tuple[int, int]:
    """Read the number of buckets and the number of the next round from saved rows (`ROWS`)."""
    first = rows.where((F.col("name") == HEADER) & (F.col("bucket") == 0) & F.col("table"))
    (row,) = read_rows(first.select(ROWS.names).toArrow().to_batches())
    header = row.read()
    return int(header["buckets"][0]), int(header["round"][0])


def lives_tables(
    bounds: np.ndarray, bucket: int, lives: Lives, incarnation: np.ndarray, number: int
) -> dict[str, Columns]:
    """Return the tables of a save besides those of a bucket: lives, incarnations, a header."""
    own = slice(bounds[bucket], bounds[bucket + 1])
    header = {"buckets": len(bounds) - 1, "round": number, "version": VERSION}
    return {
        LIVES: {name: array[own] for name, array in lives.arrays().items()},
        INCARNATIONS: {"round": incarnation[own]},
        HEADER: {name: np.array([value]) for name, value in header.items()},
    }


def lives_rows(
    bounds: np.ndarray, lives: Lives, incarnation: np.ndarray, number: int
) -> Iterator[pa.RecordBatch]:
    """Yield the tables of :func:`lives_tables` for all buckets: `ROWS`."""
    for bucket in range(len(bounds) - 1):
        tables = lives_tables(bounds, bucket, lives, incarnation, number)
        for name, columns in tables.items():
            yield from pack_rows(bucket, bucket, True, name, columns)


def no_members(bounds: np.ndarray) -> Iterator[pa.RecordBatch]:
    """Yield the table `MEMBERS` of all buckets before the first join: `ROWS`."""
    for bucket in range(len(bounds) - 1):
        yield from pack_rows(bucket, bucket, True, MEMBERS, {"key": np.empty(0, dtype=np.int64)})


def read_lives(rows: DataFrame) -> Lives:
    """Read the lives of all nodes from the rows of a world."""
    tables = rows.where((F.col("name") == LIVES) & F.col("table")).select(ROWS.names).toArrow()
    found = sorted(read_rows(tables.to_batches()), key=lambda row: row.bucket)
    return Lives(**concatenate([row.read() for row in found]))


def refuse_other_buckets(buckets: int, before: int, otherwise: str = "") -> None:
    """Refuse a number of buckets other than that of the saved world."""
    if buckets != before:
        remedy = f"differs from the saved world; give {before}{otherwise}"
        raise InputError("buckets", buckets, remedy)


def is_saved(name: str) -> bool:
    """Return True for tables of buckets that a save needs; others are computed again or dropped."""
    _, of_system, table = name.partition(OF_SYSTEM)
    if of_system:  # views of the last round read deliveries, copies and messages
        return table not in (DELIVERED, CARRIED) and not is_traffic(table)
    return name in (LEAVES, CELLS, LIVES, INCARNATIONS, HEADER, MEMBERS)


def saved_rows(rows: DataFrame) -> Batches:
    """Return the rows of a world that a save needs, with their bytes: `ROWS`."""

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for row in read_rows(batches):
            if is_saved(row.name):
                yield from row.with_bytes()

    return Batches.made(rows.where("table"), run, ROWS)


#: The kinds of overlays with which a world can start.
_OVERLAYS = ("perfect", "arrivals")


def check_start(overlay: str) -> None:
    """Refuse a kind of overlay with which no world can start."""
    if overlay not in _OVERLAYS:
        remedy = f"cannot start a world; give one of {listed(_OVERLAYS)}"
        raise InputError("overlay", overlay, remedy)


def ring_of_world(nodes: Table, buckets: int, kernel: Kernel) -> BucketRing:
    """Return the ring of all nodes (`schemas.NODES`) of a world, cut into buckets."""
    facts, spark = distribute_facts(nodes, kernel), Batches.of(nodes).session
    # the cost of a superstep grows with the number of partitions, not of buckets in them
    layout = Layout(spark, buckets, parallelism(spark))
    return BucketRing(facts, bucket_bounds(facts.ring, buckets, 64), layout)


@dataclass(frozen=True)
class Start:
    """A world before its first round: its rows (`ROWS`), and how its nodes' tables are filled.

    ``fill(player)`` writes the tables into the buckets, before the first round; None if the rows
    have them.
    """

    rows: DataFrame
    fill: Callable[[Player], None] | None = None


def start_of_world(
    ring: BucketRing,
    initial: int,
    overlay: str | None,
    rules: OverlayConfig,
    seed: int,
    underlay: Underlay,
    knowledge: DataFrame | None = None,
) -> Start:
    """Return a world before its first round.

    `initial` is the number of live nodes: those with the smallest numbers.  Without an overlay,
    nodes have no tables.  `knowledge` has the tables of all nodes, if these are known.
    """
    known, kernel, spark = ring.facts.ring, underlay.kernel, ring.layout.spark
    live, entered = np.flatnonzero(known.node < initial), np.zeros(1, dtype=np.int64)
    made = fill = None
    if overlay == "arrivals":
        entered = arrival_ranks(known.take(live), seed) + 1
    if overlay is not None and knowledge is not None:
        shape = rules.b, rules.leaf_set, table_rows(known, rules.b)
        made = tables_of_knowledge(knowledge, ring, *shape)
    elif overlay == "arrivals":
        made = play_arrivals(ring, initial, kernel, rules, seed)
    elif overlay is not None:
        cores = parallelism(spark)
        digits = bucket_digits(rules.b, initial, len(underlay.routers), cores)
        of = len(underlay.routers), rules.b, rules.leaf_set, digits, initial
        fill = PerfectTables(ring.facts, ring.bounds, kernel, *of)
    lives, incarnation = Lives.of(len(known), live, entered), np.full(len(known), NEVER)
    batches = list(lives_rows(ring.bounds, lives, incarnation, 0))
    if overlay is None:  # a bucket needs a table, so that Spark plays it
        batches += no_members(ring.bounds)
    lazy = local_frame(spark, pa.Table.from_batches(batches))
    if made is None:
        return Start(lazy, fill)
    rows, _ = materialise(made.rows(LEAVES, CELLS).unionByName(lazy))
    made.release()
    return Start(rows)
