"""The rows that a world is saved in: the engine's `ROWS`, and what the header says of them.

Rows name nodes by their positions on the ring, so they belong to the nodes of their world.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from scribe_spark.engine.packing import Columns, concatenate
from scribe_spark.engine.rows import pack_rows, read_rows
from scribe_spark.errors import InputError
from scribe_spark.pastry.lives import Lives
from scribe_spark.pastry.states import CELLS, LEAVES
from scribe_spark.schemas import ROWS
from scribe_spark.scribe.multicast import OF_THE_LAST_ROUND
from scribe_spark.scribe.state import PREFIX
from scribe_spark.worlds.live_systems import OF_SYSTEM

#: Tables of a bucket: the lives of its nodes, the round of each node's last arrival or recovery
#: (``round``), and what the save is.
LIVES, INCARNATIONS, HEADER = "lives", "incarnations", "world"

#: The version of the saved tables; saves of others are not read.
VERSION = 2


@dataclass(frozen=True)
class WorldHeader:
    """The head of a save.

    Attributes
    ----------
    buckets : int
        B.
    round : int
        The round that is played next.
    version : int
    """

    buckets: int
    round: int
    version: int = VERSION

    def columns(self) -> dict[str, np.ndarray]:
        """Return the table :data:`HEADER`."""
        return {name: np.array([value]) for name, value in vars(self).items()}


def read_header(rows: DataFrame) -> WorldHeader:
    """Return the header of saved rows (`ROWS`)."""
    first = rows.where((F.col("name") == HEADER) & (F.col("bucket") == 0) & F.col("table"))
    (row,) = read_rows(first.select(ROWS.names).toArrow().to_batches())
    return WorldHeader(**{name: int(column[0]) for name, column in row.read().items()})


def lives_tables(
    bounds: np.ndarray, bucket: int, lives: Lives, incarnation: np.ndarray, number: int
) -> dict[str, Columns]:
    """Return the tables of a bucket that players do not keep.

    Parameters
    ----------
    bounds : ndarray of int64, shape (B + 1,)
    lives, incarnation
        Of all nodes.
    number : int
        The round that is played next.
    """
    own = slice(bounds[bucket], bounds[bucket + 1])
    return {
        LIVES: {name: array[own] for name, array in lives.arrays().items()},
        INCARNATIONS: {"round": incarnation[own]},
        HEADER: WorldHeader(len(bounds) - 1, number).columns(),
    }


def lives_rows(
    bounds: np.ndarray, lives: Lives, incarnation: np.ndarray, number: int
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of :func:`lives_tables` of all buckets: `ROWS`."""
    for bucket in range(len(bounds) - 1):
        tables = lives_tables(bounds, bucket, lives, incarnation, number)
        for name, columns in tables.items():
            yield from pack_rows(bucket, bucket, True, name, columns)


def read_lives(rows: DataFrame) -> Lives:
    """Return the lives of all nodes, off the rows of a world."""
    tables = rows.where((F.col("name") == LIVES) & F.col("table")).select(ROWS.names).toArrow()
    found = sorted(read_rows(tables.to_batches()), key=lambda row: row.bucket)
    return Lives(**concatenate([row.read() for row in found]))


def refuse_other_buckets(buckets: int, before: int, otherwise: str = "") -> None:
    """Refuse another number of buckets than nodes were saved in: each has tables of its own.

    Parameters
    ----------
    otherwise : str
        What else would do.

    Raises
    ------
    InputError
    """
    if buckets != before:
        remedy = f"differs from the saved world; give {before}{otherwise}"
        raise InputError("buckets", buckets, remedy)


def is_saved(name: str) -> bool:
    """Return whether a table is needed to go on; the others can be made again or are forgotten."""
    if name.startswith(PREFIX):
        return name not in OF_THE_LAST_ROUND
    return name in (LEAVES, CELLS, LIVES, INCARNATIONS, HEADER) or OF_SYSTEM in name


def saved_rows(rows: DataFrame) -> DataFrame:
    """Return those of a world's rows that are needed to go on, with their bytes: `ROWS`; lazy."""

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for row in read_rows(batches):
            if is_saved(row.name):
                yield from row.with_bytes()

    return rows.where("table").mapInArrow(run, ROWS)
