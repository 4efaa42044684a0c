"""The options that the driver's JVM starts with."""

from __future__ import annotations

import os
from pathlib import Path

from scribe_spark.runtime.graphframes_jar import FOLDER
from scribe_spark.runtime.tricks import enabled

#: The classes of a Spark session as the JVM lays them out, recorded once by set-up: sessions start
#: in half the time. A JVM that does not fit it ignores it.
CLASS_ARCHIVE = FOLDER / "classes.jsa"

#: Estimated work, in nodes of a plain run, up to which the JVM's first compiler is enough.
_SHORT = 200_000


def is_short(nodes: int, estimated_work: int) -> bool:
    """Return whether the JVM's first compiler is enough for what a session will do.

    It is for a plain run of any size: what grows with the nodes is the work of Python's kernels.

    Parameters
    ----------
    nodes : int
        The most nodes of a run.
    estimated_work : int
        Of all runs together.
    """
    return estimated_work <= max(_SHORT, nodes)


def java_options(heap_mib: int, young_mib: int, short: bool) -> str:
    """The JVM's options for a heap of `heap_mib` MiB, `young_mib` of them for new objects.

    Half of what a JVM does in a `short` session is to compile its own code: the first compiler
    alone is faster there. The code that it makes is slower by a third than what the second makes in
    the end.
    """
    options = [archive_option(), log_option()]
    if enabled("first_compiler") and short:
        # room for the code of many queries: with this compiler's own 48 MiB a long session of small
        # ones spends a sixth of its time making room
        options.append("-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m")
    if enabled("heap_layout"):
        # all of it from the start: growing costs collections
        sizes = f"-Xms{heap_mib}m -Xmn{young_mib}m -XX:MetaspaceSize=256m"
        # what survives two collections is a table's row, which stays: not to be copied again
        options += ["-XX:+UseParallelGC", sizes, "-XX:MaxTenuringThreshold=1"]
    return " ".join(option for option in options if option)


def archive_option() -> str:
    """The option that starts the JVM from set-up's archive of classes; '' where there is none."""
    if "SCRIBE_SPARK_RECORD_CLASSES" in os.environ:  # set-up's: where to
        return f"-XX:ArchiveClassesAtExit={os.environ['SCRIBE_SPARK_RECORD_CLASSES']}"
    archive = CLASS_ARCHIVE
    usable = archive.is_file() and not any(letter.isspace() for letter in str(archive))
    if not usable or not enabled("class_archive"):
        return ""
    return f"-XX:SharedArchiveFile={archive} -Xshare:auto -Xlog:cds=off -Xlog:cds+dynamic=off"


def log_option() -> str:
    """The option for the log settings beside this module; '' where they are not used.

    With them Spark says nothing until ``SparkContext.setLogLevel``.
    """
    settings = Path(__file__).with_name("log4j2.properties")
    if "SPARK_CONF_DIR" in os.environ or not settings.is_file():  # the user's own; a zipped package
        return ""
    return f"-Dlog4j2.configurationFile={settings.as_uri()}"
