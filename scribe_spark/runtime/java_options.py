"""The options that the driver's JVM starts with."""

from __future__ import annotations

import os
from pathlib import Path

from scribe_spark.runtime.graphframes_jar import FOLDER
from scribe_spark.runtime.tricks import enabled

#: The classes of a Spark session as the JVM lays them out, recorded once by set-up: sessions start
#: in half the time. A JVM that does not fit it ignores it.
CLASS_ARCHIVE = FOLDER / "classes.jsa"

#: The greatest estimated work, in nodes of a plain run, for which the JVM's first compiler
#: suffices.
_SHORT = 200_000


def is_short(nodes: int, estimated_work: int) -> bool:
    """Return True if the JVM's first compiler suffices: also for a plain run of any size."""
    return estimated_work <= max(_SHORT, nodes)


def java_options(heap_mib: int, young_mib: int, short: bool) -> str:
    """Return the JVM's options for a heap of `heap_mib` MiB, with `young_mib` for new objects.

    In a `short` session, half of a JVM's work is the compilation of its own code, so the first
    compiler alone is faster.  Its code is slower by a third than the final code of the second.
    """
    options = [archive_option(), log_option()]
    if enabled("first_compiler") and short:
        # room for the code of many queries: with this compiler's own 48 MiB a long session of small
        # ones spends a sixth of its time making room
        options.append("-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m")
    if enabled("heap_layout"):
        # the whole heap from the start, as growing costs collections
        sizes = f"-Xms{heap_mib}m -Xmn{young_mib}m -XX:MetaspaceSize=256m"
        # objects that survive two collections are rows of tables, which stay: do not copy them
        # again
        options += ["-XX:+UseParallelGC", sizes, "-XX:MaxTenuringThreshold=1"]
    return " ".join(option for option in options if option)


def archive_option() -> str:
    """Return the option that starts the JVM from set-up's archive of classes; '' without one."""
    if "SCRIBE_SPARK_RECORD_CLASSES" in os.environ:  # set-up's: where to
        return f"-XX:ArchiveClassesAtExit={os.environ['SCRIBE_SPARK_RECORD_CLASSES']}"
    archive = CLASS_ARCHIVE
    usable = archive.is_file() and not any(letter.isspace() for letter in str(archive))
    if not usable or not enabled("class_archive"):
        return ""
    return f"-XX:SharedArchiveFile={archive} -Xshare:auto -Xlog:cds=off -Xlog:cds+dynamic=off"


def log_option() -> str:
    """Return the option for the log settings beside this module; '' if they are not used."""
    settings = Path(__file__).with_name("log4j2.properties")
    if "SPARK_CONF_DIR" in os.environ or not settings.is_file():  # the user's own; a zipped package
        return ""
    return f"-Dlog4j2.configurationFile={settings.as_uri()}"
