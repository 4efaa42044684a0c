"""The SparkSession: how one is made here, and the settings a run wants of any session.

A caller's own session (a notebook's, ``spark-submit``'s) is used as it is: :func:`tuned` sets what
can be set at run time and puts it back.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pyspark.sql import SparkSession

from scribe_spark.config import Execution
from scribe_spark.runtime.graphframes_jar import FOLDER, jars

__all__ = ["default_partitions", "session", "tuned"]

#: The classes of a Spark session as the JVM lays them out, recorded once by set-up: sessions start
#: in half the time. A JVM that does not fit it ignores it.
CLASS_ARCHIVE = FOLDER / "classes.jsa"

_GIB = 2**30

#: Classes PySpark asks the JVM for by name at each use, some fifty times in a superstep.
_CLASSES = (
    "functions",
    "PythonUtils",
    "org.apache.spark.sql.functions",
    "org.apache.spark.sql.classic.SparkSession",
    "org.apache.spark.sql.catalyst.trees.PySparkCurrentOrigin",
)


def session(
    execution: Execution | None = None, nodes: int = 100_000, effort: int | None = None
) -> SparkSession:
    """The active SparkSession, or a new one on `execution`'s master.

    Parameters
    ----------
    nodes : int
        What the heap is sized for.
    effort : int, optional
        What all that it will do costs (`RunConfig.estimated_work`); `nodes` if it is not known.
    """
    active = SparkSession.getActiveSession()
    if active is not None:
        return active
    master = execution.master if execution else "local[*]"
    builder = (
        SparkSession.builder.appName("scribe_spark")
        .config("spark.driver.memory", f"{_heap_mib(nodes)}m")
        .config("spark.driver.maxResultSize", "0")
        .config(
            "spark.driver.extraJavaOptions",
            _java_options(nodes, nodes if effort is None else effort),
        )
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.artifact.isolation.enabled", "false")
        # of the classes that Spark generates for its plans it keeps 100; a run has several hundred,
        # and each that is made again is compiled again
        .config("spark.sql.codegen.cache.maxEntries", "10000")
        .config("spark.shuffle.compress", "false" if master.startswith("local[") else "true")
    )
    submitted = "PYSPARK_GATEWAY_PORT" in os.environ
    if submitted:  # the JVM of spark-submit has its log set up already
        builder = builder.config("spark.log.level", "ERROR")
    if "SPARK_ENV_LOADED" not in os.environ or master != "local[*]":
        builder = builder.master(master)  # under spark-submit its --master wins
    if master.startswith("local"):  # executors on this machine: the same interpreter
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        # elsewhere the package may come with the job, after the daemon starts
        if not submitted and not master.startswith("local-cluster"):
            builder = builder.config("spark.python.daemon.module", "scribe_spark.runtime.daemon")
    found = jars()
    if found:
        builder = builder.config("spark.jars", ",".join(found))
    spark = builder.getOrCreate()
    for name in _CLASSES:  # found once: each time the JVM looks through all its jars
        setattr(spark._jvm, name, getattr(spark._jvm, name))
    partitions = execution.partitions if execution else None
    for name, value in _settings(partitions or default_partitions(spark, nodes)).items():
        spark.conf.set(name, value)
    return spark


def default_partitions(spark: SparkSession, nodes: int) -> int:
    """Partitions of node-level tables: the cores, and no more than 250,000 nodes in each."""
    return max(spark.sparkContext.defaultParallelism, -(-nodes // 250_000))


def _settings(partitions: int) -> dict[str, str]:
    """The SQL settings that supersteps want; a session made here has them from the start.

    Adaptive execution costs a third of a short superstep and loses the partitioning of a
    checkpoint; co-partitioning on a subset of the join keys saves one shuffle a round.
    """
    return {
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.shuffle.partitions": str(partitions),
        "spark.sql.requireAllClusterKeysForCoPartition": "false",
        "spark.sql.execution.arrow.maxRecordsPerBatch": "100000",
        "spark.sql.inMemoryColumnarStorage.compressed": "false",
        # columns are packed in one so that joins copy one: not to be unpacked before the join
        "spark.sql.optimizer.expression.nestedPruning.enabled": "false",
    }


@contextmanager
def tuned(spark: SparkSession, partitions: int) -> Iterator[None]:
    """The SQL settings that supersteps want, put back afterwards."""
    settings = _settings(partitions)
    before = {name: spark.conf.get(name, None) for name in settings}
    for name, value in settings.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name, earlier in before.items():
            if earlier is None:
                spark.conf.unset(name)
            else:
                spark.conf.set(name, earlier)


def _heap_mib(nodes: int) -> int:
    """Heap for `nodes`: 3 GiB and 5 KiB a node, at most 60 % of the machine's memory."""
    try:
        physical = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError):
        physical = 8 * _GIB
    wanted = 3 * _GIB + nodes * 5 * 1024
    return int(max(_GIB, min(wanted, 0.6 * physical)) / 2**20)


def _java_options(nodes: int, effort: int) -> str:
    """Half of a short run is JVM warm-up: the first compiler alone is faster there.

    The code that it makes is slower by a third than what the second makes in the end.
    """
    tier = "-XX:TieredStopAtLevel=1" if effort <= 200_000 else ""
    # half of the heap for what a round makes and drops, from the start: growing costs collections
    heap = _heap_mib(nodes)
    sizes = f"-Xms{heap}m -Xmn{heap // 2}m -XX:MetaspaceSize=256m"
    return " ".join([tier, "-XX:+UseParallelGC", sizes, _archive_option(), _log_option()]).strip()


def _archive_option() -> str:
    if "SCRIBE_SPARK_RECORD_CLASSES" in os.environ:  # set-up's: where to
        return f"-XX:ArchiveClassesAtExit={os.environ['SCRIBE_SPARK_RECORD_CLASSES']}"
    archive = CLASS_ARCHIVE
    if not archive.is_file() or any(letter.isspace() for letter in str(archive)):
        return ""
    return f"-XX:SharedArchiveFile={archive} -Xshare:auto -Xlog:cds=off -Xlog:cds+dynamic=off"


def _log_option() -> str:
    """Errors only, and none of what Spark says of its own default log settings."""
    settings = Path(__file__).with_name("log4j2.properties")
    if "SPARK_CONF_DIR" in os.environ or not settings.is_file():  # the user's own; a zipped package
        return ""
    return f"-Dlog4j2.configurationFile={settings.as_uri()}"
