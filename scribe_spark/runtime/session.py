"""The creation of the SparkSession, and its first job, at the same time as the driver's own work.

A user's own session (for example of a notebook) is used as it is, and settings of ``spark-submit``
override the settings here.  The first job with a Python kernel takes two seconds of both cores:
Python workers start, and the JVM loads its planner.
"""

from __future__ import annotations

import atexit
import os
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Thread
from typing import Any, cast

from pyspark.sql import SparkSession

from scribe_spark.config import Execution
from scribe_spark.core.errors import InputError, RunError, one_line
from scribe_spark.runtime.blocks import provide_scratch_directory
from scribe_spark.runtime.environment import (
    LOOPBACK,
    blame_environment,
    check_environment,
    environment_of_machine,
    given_environment,
    jvm_locale,
    names_address,
    spark_failure,
)
from scribe_spark.runtime.graphframes_jar import FOLDER, jars
from scribe_spark.runtime.java import check_java
from scribe_spark.runtime.jvm_process import (
    ConnectServer,
    await_jvm,
    begin_jvm,
    is_submitted,
    start_jvm,
    start_server,
    submitted_settings,
    user_jars,
)
from scribe_spark.runtime.master import (
    check_master,
    check_remote,
    is_local_master,
    is_own,
    on_this_machine,
    reach_master,
    reach_remote,
)
from scribe_spark.runtime.memory import SMALL, heap_mib, young_mib
from scribe_spark.runtime.sessions import (
    Classic,
    Connected,
    abilities,
    describe_jobs,
    java_letters,
    parallelism,
)
from scribe_spark.runtime.settings import partitions_of, set_all, sql_settings
from scribe_spark.runtime.tricks import check_tricks, enabled

#: The classes of a Spark session as the JVM lays them out, recorded once by set-up: sessions start
#: in half the time. A JVM that does not fit it ignores it.
CLASS_ARCHIVE = FOLDER / "classes.jsa"

#: The greatest estimated work, in nodes of a plain run, for which the JVM's first compiler
#: suffices.
_SHORT = 200_000


def is_short(nodes: int, estimated_work: int) -> bool:
    """Return True if the JVM's first compiler is enough: little work, or a single run of Scribe."""
    return estimated_work <= max(_SHORT, nodes)


def java_options(heap_mib: int, young_mib: int, short: bool) -> str:
    """Return the JVM's options for heap and new objects (MiB); see `first_compiler` for `short`."""
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
    """Return the JVM's option for set-up's archive of classes (a quicker start); '' without one."""
    if "SCRIBE_SPARK_RECORD_CLASSES" in os.environ:  # set-up's: where to
        return f"-XX:ArchiveClassesAtExit={os.environ['SCRIBE_SPARK_RECORD_CLASSES']}"
    archive = CLASS_ARCHIVE
    usable = archive.is_file() and not any(letter.isspace() for letter in str(archive))
    if not usable or not enabled("class_archive"):
        return ""
    return f"-XX:SharedArchiveFile={archive} -Xshare:auto -Xlog:cds=off -Xlog:cds+dynamic=off"


def log_option() -> str:
    """Return the JVM's option for the log settings beside this module; '' if they are not used."""
    settings = Path(__file__).with_name("log4j2.properties")
    if "SPARK_CONF_DIR" in os.environ or not settings.is_file():  # the user's own; a zipped package
        return ""
    return f"-Dlog4j2.configurationFile={settings.as_uri()}"


_LONGEST = 60.0  # the longest wait for the job, in seconds


@contextmanager
def warmed_up(spark: SparkSession) -> Iterator[None]:
    """Return a context manager that runs a job beside the block, if the session is local.

    Its end waits for the job: a thread that works when Python ends can crash the process.
    """
    server, thread = abilities(spark), threading.Thread(target=_play, args=(spark,), daemon=True)
    if isinstance(server, Classic) and server.shares_disk:
        thread.start()
    try:
        yield
    finally:
        if thread.is_alive():
            thread.join(_LONGEST)


def _play(spark: SparkSession) -> None:
    cores = parallelism(spark)
    # tasks start their workers at once: a query would first be planned
    with suppress(Exception), describe_jobs(spark, "warm-up"):  # the session may be over
        spark.sparkContext.parallelize(range(cores), cores).foreach(lambda number: None)


#: The number of retries of a client if a server of this process does not answer: pyspark would
#: retry for ten minutes, but such a server has ended.
_TRIES = 4

_ANY_CORES, _NAME = "local[*]", "scribe_spark"

#: Classes that PySpark looks up in the JVM at each use, some fifty times in a superstep.
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
    """Return the active SparkSession, or start one on the master of `execution`.

    Parameters
    ----------
    execution : Execution, optional
        The master (or Spark Connect server), the output folder and the number of partitions.
    nodes : int
        The number of simulated nodes, which decides the size of the Java heap.
    estimated_work : int, optional
        The cost of all runs in the session (`RunConfig.estimated_work`), which decides the
        compilers of the JVM; by default `nodes`.
    worlds : bool
        True for a session that plays worlds only; its Java heap can be smaller.

    Raises
    ------
    InputError
        The master or an environment variable is bad, or the name of the output folder has
        characters that Java cannot write.
    RunError
        Spark cannot start on this machine.
    """
    active = SparkSession.getActiveSession()
    if active is not None:
        return _with_scratch(active, execution)
    check_tricks()
    if execution is not None and execution.remote is not None:
        made = _connect(execution, nodes, _work(execution, nodes, estimated_work, worlds), worlds)
        return _with_scratch(made, execution)
    master, settings = _classic(execution, nodes, estimated_work, worlds)
    reach_master(master)
    try:
        spark = _create(settings, master)
        if execution is not None:
            _refuse_other_letters(spark, execution.out)
        set_all(spark, sql_settings(partitions_of(execution, spark, nodes)))
    except InputError:
        raise
    except Exception as error:
        raise _refusal(error, master) from None
    return spark


def begin(
    execution: Execution, nodes: int, estimated_work: int | None = None, *, worlds: bool = False
) -> None:
    """Start the JVM of a later :func:`session` with the same arguments, which raises its errors."""
    if execution.remote is not None or is_submitted():
        return
    with suppress(InputError):
        check_tricks()
        master, settings = _classic(execution, nodes, estimated_work, worlds)
        begin_jvm({"spark.app.name": _NAME, **settings}, _environment(master))


def _classic(
    execution: Execution | None, nodes: int, estimated_work: int | None, worlds: bool
) -> tuple[str, dict[str, str]]:
    """Return the master and the settings (name -> value) of a classic session."""
    if not is_submitted():
        check_environment()
    given = submitted_settings()
    master = execution.master if execution else _ANY_CORES
    if (
        given.get("spark.master", _ANY_CORES) != _ANY_CORES
    ):  # spark-submit's --master overrides ours
        master = given["spark.master"]
    check_master(master)
    work = _work(execution, nodes, estimated_work, worlds)
    settings = _context_settings(master, nodes, work, worlds) | given
    if "SPARK_ENV_LOADED" not in os.environ or master != _ANY_CORES:
        settings["spark.master"] = master
    return master, settings


def _work(execution: Execution | None, nodes: int, estimated_work: int | None, worlds: bool) -> int:
    """Return the estimated work of jobs, as a number of nodes."""
    engine = "auto" if execution is None else execution.engine
    in_tasks = engine == "tasks" or (worlds and engine == "auto")
    return nodes if in_tasks else estimated_work or nodes


def _environment(master: str) -> dict[str, str]:
    return environment_of_machine() if on_this_machine(master) else jvm_locale()


def _create(settings: dict[str, str], master: str) -> SparkSession:
    """Start a classic session; the JVM's output is passed on when the session exists."""
    await_jvm()  # the thread that starts a JVM changes the environment
    with given_environment(_environment(master)):
        words = start_jvm({"spark.app.name": _NAME, **settings})
        builder = SparkSession.builder.appName(_NAME)
        for name, value in settings.items():
            builder = builder.config(name, value)
        spark = builder.getOrCreate()
    if log_option() and "spark.log.level" not in dict(spark.sparkContext.getConf().getAll()):
        spark.sparkContext.setLogLevel("ERROR")
    if enabled("cached_classes"):
        for name in _CLASSES:  # looked up once: each time the JVM searches all its jars
            setattr(spark._jvm, name, getattr(spark._jvm, name))
    if is_local_master(master):
        provide_scratch_directory(spark.sparkContext)
    if words is not None:
        words.pass_on()
        # the server of accumulators should print nothing when the JVM ends
        server: Any = spark.sparkContext._accumulatorServer
        server.handle_error = lambda *_: None
    return spark


def _refusal(error: Exception, master: str) -> InputError | RunError:
    """Return the error (one line) for a classic session that cannot start."""
    if on_this_machine(master):
        try:
            check_java()  # commands have done so before
        except InputError as refusal:
            return refusal
        return blame_environment(error) or spark_failure(error)
    reason = one_line(error)
    if "stopped SparkContext" in reason:  # Spark's words if no master accepts the application
        reason = "the server does not answer as a Spark master of this version"
    return InputError("master", master, f"cannot start a session ({reason})")


def _connect(execution: Execution, nodes: int, estimated_work: int, worlds: bool) -> SparkSession:
    """Return a session of the execution's Spark Connect server, which may be started here first."""
    remote = str(execution.remote)
    check_remote(remote)
    try:
        if is_own(remote):
            check_environment()
            spark = _own_session(remote, _context_settings(remote, nodes, estimated_work, worlds))
        else:
            reach_remote(remote)
            spark = _client(remote)
        partitions = partitions_of(execution, spark, nodes)
    except InputError as error:
        if error.field != "remote":
            raise
        raise InputError("remote", remote, error.remedy) from None
    except Exception as error:
        if is_own(remote):
            raise _refusal(error, remote) from None
        reason = one_line(error)
        raise InputError("remote", remote, f"cannot start a session ({reason})") from None
    set_all(spark, sql_settings(partitions))
    return spark


def _client(url: str) -> SparkSession:
    spark = SparkSession.builder.remote(url).appName(_NAME).getOrCreate()
    # otherwise remaining tables would ask the client to free them, and wait for ever
    atexit.register(cast(Any, spark).client.close)
    return spark


def _own_session(master: str, settings: dict[str, str]) -> SparkSession:
    from pyspark.sql.connect.client.retries import DefaultPolicy  # imported here, as it needs grpc

    server = start_server(master, settings)
    atexit.register(server.stop)
    spark = _client(server.url)
    client = cast(Any, spark).client
    client.set_retry_policies([DefaultPolicy(max_retries=_TRIES)])
    warnings.filterwarnings(
        "ignore", r"\[RETRIES_EXCEEDED\]"
    )  # one report of a server's end is enough
    Thread(target=_ask_no_more, args=(client, server), daemon=True).start()
    cast(Connected, abilities(spark)).server = server
    return spark


def _ask_no_more(client: Any, server: ConnectServer) -> None:
    """Let the client of a server of this process give up at once if that server has ended."""
    server.process.wait()
    client.set_retry_policies([])


def _with_scratch(spark: SparkSession, execution: Execution | None) -> SparkSession:
    """Tell a session which folder keeps tables that its server does not keep, if there is one."""
    server = abilities(spark)
    if execution is not None and execution.scratch is not None and isinstance(server, Connected):
        server.name_scratch(execution.scratch)
    return spark


def _context_settings(master: str, nodes: int, estimated_work: int, worlds: bool) -> dict[str, str]:
    """Return Spark's settings that must be set before a session starts."""
    settings = {
        "spark.driver.maxResultSize": "0",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        # by default Spark keeps 1,000 past jobs, stages and plans for a page that nobody reads
        "spark.ui.retainedJobs": "50",
        "spark.ui.retainedStages": "50",
        "spark.ui.retainedTasks": "1000",
        "spark.sql.ui.retainedExecutions": "20",
        # jobs of two threads share the cores: not all tasks of the first before the second's
        "spark.scheduler.mode": "FAIR",
        # otherwise each call that makes a Column or a DataFrame first calls the JVM four times, to
        # know the line of the program for errors: a fifth of a small superstep
        "spark.python.sql.dataFrameDebugging.enabled": "false",
        # queries set this variable for their workers; the warm-up has to start the same workers
        "spark.executorEnv.SPARK_SIMPLIFIED_TRACEBACK": "1",
        # a barrier stage with more tasks than slots is refused after half a minute, not after ten
        "spark.scheduler.barrier.maxConcurrentTasksCheck.interval": "1s",
        "spark.scheduler.barrier.maxConcurrentTasksCheck.maxFailures": "30",
    }
    if is_local_master(master):
        settings |= {
            "spark.shuffle.compress": "false",
            # a task that waits for the host of its HDFS block would wait for ever, as a local
            # master offers its threads once
            "spark.locality.wait": "0",
        }
    if nodes <= SMALL:
        # over a thousand rounds, unused data fills the heap's part for old objects; its collection
        # takes a tenth of a second
        settings["spark.cleaner.periodicGC.interval"] = "1min"
    if enabled("internal_settings"):
        settings |= {
            "spark.sql.artifact.isolation.enabled": "false",
            # by default Spark keeps 100 of the classes that it generates for plans; a run has
            # several hundred, and each dropped one is compiled again
            "spark.sql.codegen.cache.maxEntries": "10000",
        }
    if not enabled("release_blocks"):  # then Spark must delete unused data
        settings["spark.cleaner.referenceTracking.cleanCheckpoints"] = "true"
    if is_submitted():  # the running JVM of spark-submit already has its log and its environment
        return settings | _settings_of_machine(master) | {"spark.log.level": "ERROR"}
    mapped = enabled("mapped_tables") and on_this_machine(master)
    heap = heap_mib(nodes, worlds=worlds, mapped=mapped)
    short = is_short(nodes, estimated_work)
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
    """Return the environment of `environment_of_machine` as settings for a running JVM."""
    if not on_this_machine(master):
        return {}
    settings = {"spark.executorEnv.PYTHONSAFEPATH": "1"}
    if is_local_master(master) and not names_address():
        settings |= {"spark.driver.bindAddress": LOOPBACK, "spark.driver.host": LOOPBACK}
    return settings


def _jars() -> list[str]:
    """Return the user's jars for a session, and set-up's GraphFrames unless the user has one."""
    own = user_jars()
    has_graphframes = any("graphframes" in Path(jar).name for jar in own)
    return own if has_graphframes else [*own, *jars()]


def _refuse_other_letters(spark: SparkSession, out: str) -> None:
    """Refuse a folder whose name Java's locale cannot write: Java would write another name."""
    if out.isascii():
        return
    letters = java_letters(spark)
    try:
        out.encode(letters)
    except (LookupError, UnicodeEncodeError):
        remedy = f"has letters that Java's locale ({letters}) cannot write; set LC_ALL=C.UTF-8"
        raise InputError("out", out, remedy) from None
