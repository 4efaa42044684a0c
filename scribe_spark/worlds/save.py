"""The rows in which a world is saved: the engine's `ROWS`, and a header.

Rows refer to nodes by ring position, so they are valid only with the nodes of their world.
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

#: Tables of a bucket: the lives of its nodes; the round of each node's last arrival or recovery
#: (``round``); and the header.
LIVES, INCARNATIONS, HEADER = "lives", "incarnations", "world"

#: The version of the saved tables; other versions are refused.
VERSION = 2


@dataclass(frozen=True)
class WorldHeader:
    """The header of a saved world.

    Attributes
    ----------
    buckets : int
        B, the number of buckets.
    round : int
        The number of the next round.
    version : int
    """

    buckets: int
    round: int
    version: int = VERSION

    def columns(self) -> dict[str, np.ndarray]:
        """Return the table :data:`HEADER`."""
        return {name: np.array([value]) for name, value in vars(self).items()}


def read_header(rows: DataFrame) -> WorldHeader:
    """Read the header of saved rows (`ROWS`)."""
    first = rows.where((F.col("name") == HEADER) & (F.col("bucket") == 0) & F.col("table"))
    (row,) = read_rows(first.select(ROWS.names).toArrow().to_batches())
    return WorldHeader(**{name: int(column[0]) for name, column in row.read().items()})


def lives_tables(
    bounds: np.ndarray, bucket: int, lives: Lives, incarnation: np.ndarray, number: int
) -> dict[str, Columns]:
    """Return the tables of a bucket that the player does not hold.

    Parameters
    ----------
    bounds : ndarray of int64, shape (B + 1,)
    lives, incarnation
        The values for all nodes.
    number : int
        The number of the next round.
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
    """Yield the tables of :func:`lives_tables` for all buckets: `ROWS`."""
    for bucket in range(len(bounds) - 1):
        tables = lives_tables(bounds, bucket, lives, incarnation, number)
        for name, columns in tables.items():
            yield from pack_rows(bucket, bucket, True, name, columns)


def read_lives(rows: DataFrame) -> Lives:
    """Read the lives of all nodes from the rows of a world."""
    tables = rows.where((F.col("name") == LIVES) & F.col("table")).select(ROWS.names).toArrow()
    found = sorted(read_rows(tables.to_batches()), key=lambda row: row.bucket)
    return Lives(**concatenate([row.read() for row in found]))


def refuse_other_buckets(buckets: int, before: int, otherwise: str = "") -> None:
    """Refuse a number of buckets other than that of the saved world.

    Parameters
    ----------
    otherwise : str
        Another remedy, for the error message.

    Raises
    ------
    InputError
    """
    if buckets != before:
        remedy = f"differs from the saved world; give {before}{otherwise}"
        raise InputError("buckets", buckets, remedy)


def is_saved(name: str) -> bool:
    """Return True for tables that are needed to resume; others are recomputed or dropped."""
    if name.startswith(PREFIX):
        return name not in OF_THE_LAST_ROUND
    return name in (LEAVES, CELLS, LIVES, INCARNATIONS, HEADER) or OF_SYSTEM in name


def saved_rows(rows: DataFrame) -> DataFrame:
    """Return the rows of a world that are needed to resume, with their bytes: `ROWS`; lazy."""

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for row in read_rows(batches):
            if is_saved(row.name):
                yield from row.with_bytes()

    return rows.where("table").mapInArrow(run, ROWS)
