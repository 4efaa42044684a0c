"""Tables that a Spark Connect server keeps, as its checkpoints or in a folder that the user names.

The server frees a checkpoint: it forgets the table when the client has no DataFrame of it any more,
and its blocks when Java's garbage collector finds them unused.  Observations do not work for
checkpoints there, so the job that computes rows also counts them.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from weakref import WeakKeyDictionary

from pyspark.sql import DataFrame, SparkSession

from scribe_spark.runtime.filesystem import open_files, table_url
from scribe_spark.runtime.sessions import Connected, abilities

#: The locations of written tables, which are deleted with them.
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
    """Persist a table; without a cache, write it.  Return it and the function that frees it."""
    if _server(frame).caches:
        persisted = frame.persist()
        return persisted, persisted.unpersist
    table = keep(frame)
    return table, lambda: release(table)


def release(table: DataFrame) -> None:
    """Delete a table's files, if it has some; the client cannot free other data."""
    url = _written.pop(table, None)
    if url is not None:
        _delete(table.sparkSession, url)


def delete_scratch(spark: SparkSession) -> None:
    """Delete our files in the folder that the user has named, when the session ends."""
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
    with suppress(OSError):  # it may be gone; otherwise the user can delete it
        files = open_files(spark, url)
        try:
            files.delete(url)
        finally:
            files.close()
