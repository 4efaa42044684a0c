"""The SparkSession: how one is made here.

A caller's own session (a notebook's) is used as it is, and what ``spark-submit`` was given wins
over what is set here; :func:`~scribe_spark.runtime.settings.tuned` sets what can be set at run
time and puts it back.
"""

from __future__ import annotations

import atexit
import os
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from scribe_spark.config import Execution
from scribe_spark.errors import InputError, one_line
from scribe_spark.runtime.checkpoints import provide_scratch_directory
from scribe_spark.runtime.connect_server import Server, start_server
from scribe_spark.runtime.environment import (
    LOOPBACK,
    blame_environment,
    check_environment,
    environment_of_machine,
    given_environment,
    jvm_locale,
    names_address,
)
from scribe_spark.runtime.graphframes_jar import jars
from scribe_spark.runtime.java_options import is_short, java_options, log_option
from scribe_spark.runtime.jvm import java_letters
from scribe_spark.runtime.master import check_master, is_local_master, on_this_machine, reach_master
from scribe_spark.runtime.memory import SMALL, heap_mib, young_mib
from scribe_spark.runtime.remote import check_remote, is_own, reach_remote
from scribe_spark.runtime.sessions import Connected, abilities
from scribe_spark.runtime.settings import default_partitions, set_all, sql_settings
from scribe_spark.runtime.tricks import check_tricks, enabled
from scribe_spark.runtime.user_settings import is_submitted, submitted_settings, user_jars

__all__ = ["session"]

_ANY_CORES = "local[*]"

#: Classes PySpark asks the JVM for by name at each use, some fifty times in a superstep.
_CLASSES = (
    "functions",
    "PythonUtils",
    "org.apache.spark.sql.functions",
    "org.apache.spark.sql.classic.SparkSession",
    "org.apache.spark.sql.catalyst.trees.PySparkCurrentOrigin",
)


def session(
    execution: Execution | None = None,
    nodes: int = 100_000,
    estimated_work: int | None = None,
    *,
    worlds: bool = False,
) -> SparkSession:
    """The active SparkSession, or a new one on `execution`'s master.

    Parameters
    ----------
    nodes : int
        What the heap is sized for.
    estimated_work : int, optional
        What all that the session will do costs (`RunConfig.estimated_work`); `nodes` if it is not
        given.
    worlds : bool
        Whether it is for worlds alone, which need less of a heap.

    Raises
    ------
    InputError
        The master, the environment's choice of tricks, or what Spark reads in it, is bad; or the
        JVM cannot write the name of OUT.
    """
    active = SparkSession.getActiveSession()
    if active is not None:
        return _with_scratch(active, execution)
    check_tricks()
    if execution is not None and execution.remote is not None:
        made = _connect(execution, nodes, estimated_work or nodes, worlds)
        return _with_scratch(made, execution)
    if not is_submitted():
        check_environment()
    given = submitted_settings()
    master = execution.master if execution else _ANY_CORES
    if given.get("spark.master", _ANY_CORES) != _ANY_CORES:  # spark-submit's --master wins
        master = given["spark.master"]
    check_master(master)
    reach_master(master)
    builder = SparkSession.builder.appName("scribe_spark")
    wanted = _context_settings(master, nodes, estimated_work or nodes, worlds)
    for name, value in (wanted | given).items():
        builder = builder.config(name, value)
    if "SPARK_ENV_LOADED" not in os.environ or master != _ANY_CORES:
        builder = builder.master(master)
    spark = _create(builder, master)
    if log_option() and "spark.log.level" not in dict(spark.sparkContext.getConf().getAll()):
        spark.sparkContext.setLogLevel("ERROR")
    if enabled("cached_classes"):
        for name in _CLASSES:  # found once: each time the JVM looks through all its jars
            setattr(spark._jvm, name, getattr(spark._jvm, name))
    if execution is not None:
        _refuse_other_letters(spark, execution.out)
    if is_local_master(master):
        provide_scratch_directory(spark.sparkContext)
    partitions = execution.partitions if execution else None
    set_all(spark, sql_settings(partitions or default_partitions(spark, nodes)))
    return spark


def _connect(execution: Execution, nodes: int, estimated_work: int, worlds: bool) -> SparkSession:
    """Return a session of the execution's Spark Connect server, which may be started here first."""
    remote = str(execution.remote)
    check_remote(remote)
    url = remote
    try:
        if is_own(remote):
            check_environment()
            settings = _context_settings(remote, nodes, estimated_work, worlds)
            url = _own_server(start_server(remote, settings))
        else:
            reach_remote(remote)
        spark = SparkSession.builder.remote(url).appName("scribe_spark").getOrCreate()
        atexit.register(_close_client, spark)
        partitions = execution.partitions or default_partitions(spark, nodes)
    except InputError as error:
        raise InputError("remote", remote, error.remedy) from None
    except Exception as error:
        reason = one_line(error).replace(url, remote)
        raise InputError("remote", remote, f"no session can be made there ({reason})") from None
    set_all(spark, sql_settings(partitions))
    return spark


def _close_client(spark: SparkSession) -> None:
    """Close the client of a session when Python ends.

    Tables that are left then would ask an open one to free them, and wait for ever.
    """
    connected: Any = spark
    connected.client.close()


def _own_server(server: Server) -> str:
    atexit.register(server.stop)
    return server.url


def _with_scratch(spark: SparkSession, execution: Execution | None) -> SparkSession:
    """Tell a session the folder for tables that its server does not keep, if there is one."""
    server = abilities(spark)
    if execution is not None and execution.scratch is not None and isinstance(server, Connected):
        server.name_scratch(execution.scratch)
    return spark


def _context_settings(master: str, nodes: int, estimated_work: int, worlds: bool) -> dict[str, str]:
    """The settings that a session can only be made with."""
    settings = {
        "spark.driver.maxResultSize": "0",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        # of the past Spark remembers 1,000 of each, plans too, for a page that nobody sees
        "spark.ui.retainedJobs": "50",
        "spark.ui.retainedStages": "50",
        "spark.ui.retainedTasks": "1000",
        "spark.sql.ui.retainedExecutions": "20",
        # jobs of two threads at once: not all tasks of the first before those of the second
        "spark.scheduler.mode": "FAIR",
        # else each call that makes a Column or a DataFrame asks the JVM four questions first, to be
        # able to tell where in the program an error comes from: a fifth of a small superstep
        "spark.python.sql.dataFrameDebugging.enabled": "false",
        # a barrier stage with more tasks than slots is refused after half a minute, not after ten
        "spark.scheduler.barrier.maxConcurrentTasksCheck.interval": "1s",
        "spark.scheduler.barrier.maxConcurrentTasksCheck.maxFailures": "30",
    }
    if is_local_master(master):
        settings |= {
            "spark.shuffle.compress": "false",
            # a task that waits for the host of its HDFS block would wait for ever: nobody offers
            # the threads of a local master again
            "spark.locality.wait": "0",
        }
    if nodes <= SMALL:
        # over a thousand rounds the part of the heap for old objects fills with what is not used
        # any more; to collect it takes a tenth of a second
        settings["spark.cleaner.periodicGC.interval"] = "1min"
    if enabled("internal_settings"):
        settings |= {
            "spark.sql.artifact.isolation.enabled": "false",
            # of the classes that Spark generates for its plans it keeps 100; a run has several
            # hundred, and each that is made again is compiled again
            "spark.sql.codegen.cache.maxEntries": "10000",
        }
    if not enabled("release_blocks"):  # then Spark is to delete what is not used any more
        settings["spark.cleaner.referenceTracking.cleanCheckpoints"] = "true"
    if is_submitted():  # the JVM of spark-submit has its log and its environment already
        return settings | _settings_of_machine(master) | {"spark.log.level": "ERROR"}
    heap, short = heap_mib(nodes, worlds=worlds), is_short(nodes, estimated_work)
    settings |= {
        "spark.driver.memory": f"{heap}m",
        "spark.driver.extraJavaOptions": java_options(heap, young_mib(heap, nodes), short),
    }
    # elsewhere the package may come with the job, after the daemon starts
    if on_this_machine(master) and enabled("python_daemon"):
        settings["spark.python.daemon.module"] = "scribe_spark.runtime.daemon"
    if together := _jars():
        settings["spark.jars"] = ",".join(together)
    return settings


def _settings_of_machine(master: str) -> dict[str, str]:
    """Return what `environment_of_machine` says, as settings for a JVM that runs already."""
    if not on_this_machine(master):
        return {}
    settings = {"spark.executorEnv.PYTHONSAFEPATH": "1"}
    if is_local_master(master) and not names_address():
        settings |= {"spark.driver.bindAddress": LOOPBACK, "spark.driver.host": LOOPBACK}
    return settings


def _jars() -> list[str]:
    """The user's jars, and GraphFrames' of set-up unless the user brings one."""
    own = user_jars()
    has_graphframes = any("graphframes" in Path(jar).name for jar in own)
    return own if has_graphframes else [*own, *jars()]


def _create(builder: SparkSession.Builder, master: str) -> SparkSession:
    try:
        local = on_this_machine(master)
        with given_environment(environment_of_machine() if local else jvm_locale()):
            return builder.getOrCreate()
    except Exception as error:
        if on_this_machine(master):
            refusal = blame_environment(error)
            if refusal is None:
                raise
            raise refusal from None
        reason = one_line(error)
        if "stopped SparkContext" in reason:  # its words where no master takes the application
            reason = "what is there does not answer as a Spark master of this version"
        raise InputError("master", master, f"no session can be made there ({reason})") from None


def _refuse_other_letters(spark: SparkSession, out: str) -> None:
    """Refuse a folder of this machine whose name Java cannot write in its locale.

    It would write another one.
    """
    if out.isascii():
        return
    letters = java_letters(spark)
    try:
        out.encode(letters)
    except (LookupError, UnicodeEncodeError):
        remedy = f"has letters that Java's locale ({letters}) has not; set LC_ALL=C.UTF-8"
        raise InputError("out", out, remedy) from None
