"""The directory of checkpoints, and the deletion of its files.

If the user named a directory (``spark.checkpoint.dir`` or ``SparkContext.setCheckpointDir``),
supersteps write reliable checkpoints there, which survive the loss of an executor.  GraphFrames'
iterative algorithms fail without a directory, so a local session has one for them; supersteps do
not use it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pyspark import SparkContext, SparkFiles
from pyspark.sql import SparkSession

from scribe_spark.runtime.server_tables import delete_scratch
from scribe_spark.runtime.sessions import is_connect

#: The name that Spark gave to the directory of :func:`provide_scratch_directory`.
_scratch: set[str] = set()


def checkpoints_are_reliable(context: SparkContext) -> bool:
    """Return True if the user named a directory for checkpoints."""
    directory = context.getCheckpointDir()
    return directory is not None and directory not in _scratch


def provide_scratch_directory(context: SparkContext) -> None:
    """Give a local session a directory, which Spark deletes, for GraphFrames' checkpoints."""
    if context.getCheckpointDir() is None:
        context.setCheckpointDir(Path(SparkFiles.getRootDirectory(), "checkpoints").as_uri())
        made = context.getCheckpointDir()
        if made is not None:
            _scratch.add(made)


def delete_checkpoints(spark: SparkSession) -> None:
    """Delete the folder of a session's checkpoints; the directory that the user named stays."""
    if is_connect(spark):
        delete_scratch(spark)
        return
    folder = spark.sparkContext.getCheckpointDir()
    if folder is not None and checkpoints_are_reliable(spark.sparkContext):
        _delete(spark, folder)


def delete_checkpoint(spark: SparkSession, rdd: Any) -> None:
    """Delete the files of a reliably checkpointed RDD of the JVM; for other RDDs, do nothing."""
    file = rdd.getCheckpointFile()
    if file.isDefined():
        _delete(spark, file.get())


def _delete(spark: SparkSession, location: str) -> None:
    path = getattr(spark._jvm, "org.apache.hadoop.fs.Path")(location)
    path.getFileSystem(spark._jsc.hadoopConfiguration()).delete(path, True)
