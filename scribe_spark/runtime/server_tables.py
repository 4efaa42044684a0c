"""Tables that a Spark Connect server keeps: as its checkpoints, or in a folder that the user names.

A checkpoint is freed by the server: it forgets the table when the client has no DataFrame of it any
more, and its blocks when Java's garbage collector finds them unused.  Observations say nothing of
checkpoints there, so rows are counted by the job that computes them.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from weakref import WeakKeyDictionary

from pyspark.sql import DataFrame, SparkSession

from scribe_spark.runtime.filesystem import open_files, table_url
from scribe_spark.runtime.sessions import Connected, abilities

#: Where tables are that were written, to be deleted with them.
_written: WeakKeyDictionary[DataFrame, str] = WeakKeyDictionary()


def keep(frame: DataFrame) -> DataFrame:
    """Return the same rows with a plan of one leaf; computed by the first job that reads them."""
    server = _server(frame)
    if not server.checkpoints:
        return _write(frame, server)
    if server.checkpoints_are_reliable:
        return frame.checkpoint(eager=True)
    return frame.localCheckpoint(eager=False)


def persist(frame: DataFrame) -> tuple[DataFrame, Callable[[], object]]:
    """See :func:`scribe_spark.runtime.blocks.persist`; without a cache the table is kept."""
    if _server(frame).caches:
        persisted = frame.persist()
        return persisted, persisted.unpersist
    table = keep(frame)
    return table, lambda: release(table)


def release(table: DataFrame) -> None:
    """Delete a table's files, if it has some; nothing else of it can be freed from here."""
    url = _written.pop(table, None)
    if url is not None:
        _delete(table.sparkSession, url)


def delete_scratch(spark: SparkSession) -> None:
    """Delete what is ours in the folder that the user has named, as the session ends."""
    server = abilities(spark)
    if isinstance(server, Connected) and server.scratch is not None:
        _delete(spark, server.scratch)


def _server(frame: DataFrame) -> Connected:
    server = abilities(frame.sparkSession)
    assert isinstance(server, Connected)
    return server


def _write(frame: DataFrame, server: Connected) -> DataFrame:
    url = server.scratch_table()
    frame.write.parquet(table_url(url))
    table = frame.sparkSession.read.schema(frame.schema).parquet(table_url(url))
    _written[table] = url
    return table


def _delete(spark: SparkSession, url: str) -> None:
    with suppress(OSError):  # it may be gone, and whose folder it is can delete it
        files = open_files(spark, url)
        try:
            files.delete(url)
        finally:
            files.close()
