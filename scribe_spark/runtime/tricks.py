"""The list of everything that goes beyond Spark's public interface, with switches.

Each trick has its purpose, its measured gain, and the alternative without it.  The environment
variable ``SCRIBE_SPARK_TRICKS`` chooses among them, separated by commas: ``all`` (the default),
``none``, names, or names to leave out (``-python_daemon``).  With ``none``, only the public
interface of PySpark is used; the results are the same, bit for bit.
"""

from __future__ import annotations

import dataclasses
import functools
import os
from dataclasses import dataclass

from scribe_spark.core.errors import InputError, listed, shown

#: The environment variable that chooses the tricks.
VARIABLE = "SCRIBE_SPARK_TRICKS"


@dataclass(frozen=True)
class Trick:
    """A feature beyond the public interface: what it uses, gains, and what happens without it."""

    name: str
    does: str
    uses: str
    gain: str
    without: str
    connect: str = ""


TRICKS = (
    Trick(
        "release_blocks",
        "Frees a materialised table at once.",
        "JVM: RDD.unpersist, RDD.getCheckpointFile",
        "Memory does not grow with the rounds of a loop: 84 bytes per row and round.",
        "Spark frees a table when Java's garbage collector finds it unused; memory may grow.",
        "No JVM.",
    ),
    Trick(
        "cached_classes",
        "Looks up once the JVM classes that PySpark looks up by name at each use.",
        "SparkSession._jvm (py4j)",
        "43 to 54 ms of each superstep; 1 ms since.",
        "PySpark looks them up, some fifty times in a superstep, each time through all jars.",
        "No JVM, and no calls of it.",
    ),
    Trick(
        "mapped_tables",
        "Where all tasks share the driver's disk (local, local-cluster), tables of buckets are "
        "files that tasks map into memory, and rows name them; a column that a superstep does not "
        "change stays in its file.  Tasks that exchange messages tell their addresses in files.",
        "Files outside of Spark's storage",
        "A superstep with constant tables of 60 MB (N = 100,000): 0.28 to 0.12 s; of 640 MB "
        "(N = 1,000,000): 3.3 to 0.14 s, tried beforehand.  A job of tasks that exchange messages: "
        "1 s less, as the JVM looks for addresses once a second.",
        "Rows hold the tables' bytes, and are shuffled with the messages of each superstep; "
        "addresses go through allGather.",
    ),
    Trick(
        "arrow_writer",
        "Where all tasks share the driver's disk (local, local-cluster), and OUT is on it, tasks "
        "write tables as Parquet themselves and hash their rows; the driver puts the files of "
        "those that Spark counts in place.",
        "Files outside of Spark's storage; pyarrow",
        "1.4 million tree edges (N = 100,000) in 3.4 s instead of 5.4 where they are Spark's rows, "
        "in 1 s where kernels make them.",
        "Spark writes tables, and sums the hashes of rows by an Observation.",
    ),
    Trick(
        "plain_tasks",
        "Tables that kernels make of files are written by a job without a query.",
        "SparkContext.parallelize: a public interface, but not one of Spark SQL",
        "A query: a third of a second of planning, and of the compilation of its code.",
        "A DataFrame of the files' names, by mapInArrow.",
        "No SparkContext.",
    ),
    Trick(
        "hadoop_files",
        "Reads, writes and lists the texts of a run through Hadoop's FileSystem in the JVM.",
        "SparkSession._jvm, JavaSparkContext.hadoopConfiguration",
        "None in time; every file system that Spark can write is read with the same settings.",
        "pyarrow.fs, which knows local files, HDFS (libhdfs), S3 and Google Cloud Storage and has "
        "settings of its own.",
        "No JVM.",
    ),
    Trick(
        "jvm_questions",
        "Asks the JVM for its version and for GraphFrames' classes.",
        "SparkSession._jvm (py4j)",
        "0.1 s, which a query for the version takes.",
        "SQL's function reflect for the version; GraphFrames itself fails where it is missing.",
        "No JVM.",
    ),
    Trick(
        "submitted_settings",
        "Reads what spark-submit was given before the session is made, so that it wins over ours.",
        "SparkContext._ensure_initialized",
        "None in time.",
        "Settings of ours replace those of the same name that spark-submit was given.",
        "A client is not submitted.",
    ),
    Trick(
        "planned_queries",
        "Plans a query before its job starts, so that `manifest.json` has the seconds of both.",
        "JVM: Dataset.queryExecution",
        "None in time; a reader sees where the time of a command goes.",
        "The seconds of planning are among those of tasks.",
        "No JVM.",
    ),
    Trick(
        "jvm_words",
        "Holds back what the JVM writes until a session is made; then it goes to stderr.",
        "pyspark.java_gateway.launch_gateway, SparkContext._ensure_initialized",
        "None in time; a JVM that cannot start is one line, not a hundred.",
        "The JVM writes to the terminal itself, and our line comes after its own.",
        "A client starts no JVM; the words of a server that a command starts are held back too.",
    ),
    Trick(
        "python_daemon",
        "Forks Python workers from a daemon that has loaded the libraries and frozen its objects, "
        "and has malloc keep freed memory for the next arrays.",
        "Setting spark.python.daemon.module; pyspark.daemon.manager; glibc: mallopt",
        "0.2 s of each task with Python; a run on local-cluster 60 to 50 s. Rounds of a world of "
        "400,000 nodes in 3.6 s of CPU instead of 4.5.",
        "Spark's own daemon, whose workers find no modules of yours in the working directory.",
        "The server's setting: a server that a command starts has it.",
    ),
    Trick(
        "class_archive",
        "Starts the JVM from an archive of Spark's classes, recorded once by `make setup`.",
        "Java: -XX:SharedArchiveFile",
        "Session start in half the time; N = 100,000 in 56 s instead of 65.",
        "The JVM loads classes from the jars.",
        "The server's setting.",
    ),
    Trick(
        "first_compiler",
        "Lets single runs, short sessions and those of tasks use the JVM's first compiler only.",
        "Java: -XX:TieredStopAtLevel=1, -XX:ReservedCodeCacheSize",
        "N = 100,000 in 56 s instead of 68; N = 20,000 with four systems in tasks in 36 s of "
        "processor time instead of 57. Long work uses both compilers: 70 s instead of 100 for "
        "the third run in a session.",
        "Both compilers, for all of them.",
        "The server's setting.",
    ),
    Trick(
        "heap_layout",
        "Starts with the whole heap, half of it for new objects (for few or many nodes less), and "
        "the parallel collector, which moves what survives two collections out of their way.",
        "Java: -Xms, -Xmn, -XX:+UseParallelGC, -XX:MaxTenuringThreshold, -XX:MetaspaceSize",
        "Collections take 20 s of a run of a million nodes; 29 s with half for new objects and the "
        "JVM's own threshold.",
        "The JVM's own choice of sizes and collector.",
        "The server's setting.",
    ),
    Trick(
        "internal_settings",
        "Sets SQL settings that Spark calls internal: classes generated for plans are kept.",
        "Settings spark.sql.codegen.cache.maxEntries, artifact.isolation.enabled",
        "A small run generates 300 classes, of which Spark keeps 100 and compiles the others "
        "again.",
        "Spark's defaults.",
    ),
)

_NAMES = tuple(trick.name for trick in TRICKS)


def enabled(name: str) -> bool:
    """Return True if a trick of :data:`TRICKS` is enabled."""
    if name not in _NAMES:
        raise KeyError(name)
    return name in _chosen(os.environ.get(VARIABLE, ""))


def check_tricks() -> None:
    """Raise an InputError if the environment variable :data:`VARIABLE` has an unknown trick."""
    _chosen(os.environ.get(VARIABLE, ""))


@functools.lru_cache(maxsize=8)
def _chosen(text: str) -> frozenset[str]:
    words = [word for word in (part.strip() for part in text.split(",")) if word]
    left_out = {word[1:] for word in words if word.startswith("-")}
    named = {word for word in words if not word.startswith("-")}
    for word in sorted((named | left_out) - {"all", "none", *_NAMES}):
        raise InputError(
            VARIABLE,
            text,
            f"{shown(word)} is not a trick; give all, none, or some of {listed(_NAMES)}",
        )
    if "none" in named and len(words) > 1:
        raise InputError(VARIABLE, text, "none cannot be combined with others")
    used = set(_NAMES) if "all" in named or not named else named - {"none"}
    return frozenset(used - left_out)


def markdown() -> str:
    """Return the list of tricks as a table for the documentation."""
    columns = [field.name for field in dataclasses.fields(Trick)]
    rows = [columns, ["---"] * len(columns), *map(dataclasses.astuple, TRICKS)]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


if __name__ == "__main__":
    print(markdown())
