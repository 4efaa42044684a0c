"""The abilities of a session, with the same interface for classic sessions and for Spark Connect.

A classic session is in the process of Spark's driver, with its SparkContext and its JVM.  A session
of Spark Connect is the client of a server, which may be on another machine: it has neither.  No
other package distinguishes the two, and only `runtime` uses a SparkContext.  Facts that only a
server knows, and its refusals, are found by a trial, once per session.
"""

from __future__ import annotations

import importlib.util
import secrets
import shutil
import socket
import time
import uuid
import zipfile
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import cached_property
from pathlib import Path
from typing import Any, cast
from weakref import WeakKeyDictionary, proxy

import pyarrow as pa
from pyspark import SparkContext, TaskContext, inheritable_thread_target
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from scribe_spark.core.errors import InputError, one_line
from scribe_spark.core.paths import is_local, local_path
from scribe_spark.runtime.environment import LOOPBACK, scratch_folder
from scribe_spark.runtime.jvm_process import ConnectServer, how_it_ended
from scribe_spark.runtime.master import on_this_machine
from scribe_spark.runtime.tricks import TRICKS, enabled

_PACKAGE = "scribe_spark"
#: Tricks that a client cannot use.
_CLASSIC = frozenset(trick.name for trick in TRICKS if trick.connect)
#: The greatest number of cores of a server that are counted.
_MOST_CORES = 10_000
_LOOK = "partition int, sees boolean, imports boolean"


def is_connect(spark: Any) -> bool:
    """Return True if a session is the client of a Spark Connect server."""
    return type(spark).__module__.startswith("pyspark.sql.connect.")


def abilities(spark: SparkSession) -> Classic | Connected:
    """Return the object that knows what a session can do: `Classic` or `Connected`."""
    if not is_connect(spark):
        return Classic(spark)
    if spark not in _connected:
        _connected[spark] = Connected(spark)
    return _connected[spark]


def parallelism(spark: SparkSession) -> int:
    """Return the number of tasks that executors run at a time, as Spark counts them."""
    return abilities(spark).parallelism


def usable(trick: str, spark: SparkSession) -> bool:
    """Return True if a trick (by its name) is enabled, and possible in this session."""
    return enabled(trick) and not (trick in _CLASSIC and is_connect(spark))


def note_seconds(spark: SparkSession, part: str, seconds: float) -> None:
    """Add seconds to those that a part of a session's work has taken."""
    _seconds.setdefault(spark, defaultdict(float))[part] += seconds


def seconds_of(spark: SparkSession) -> Mapping[str, float]:
    """Return the seconds of a session's ``session`` (start), ``planning`` and ``tasks`` so far."""
    return _seconds.get(spark, {})


_seconds: WeakKeyDictionary[SparkSession, defaultdict[str, float]] = WeakKeyDictionary()


@contextmanager
def timed_query(frame: DataFrame) -> Iterator[None]:
    """Return a context manager in which a query is run; its planning and its tasks are timed."""
    spark, began = frame.sparkSession, time.perf_counter()
    if usable("planned_queries", spark):
        frame._jdf.queryExecution().executedPlan()
        note_seconds(spark, "planning", time.perf_counter() - began)
    with timed_tasks(spark):
        yield


@contextmanager
def timed_tasks(spark: SparkSession) -> Iterator[None]:
    """Return a context manager in which jobs are run; their time is added to that of tasks."""
    began = time.perf_counter()
    try:
        yield
    finally:
        note_seconds(spark, "tasks", time.perf_counter() - began)


def describe_jobs(spark: SparkSession, description: str) -> AbstractContextManager[None]:
    """Return a context manager in which jobs have a description in Spark's UI and event log."""
    return abilities(spark).describing(description)


def local_frame(spark: SparkSession, table: pa.Table) -> DataFrame:
    """Return rows of this process as a DataFrame, with the table's columns even without rows."""
    return spark.createDataFrame(table, from_arrow_schema(table.schema))


class Classic:
    """The abilities of a session beside Spark's driver, which has a SparkContext."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark

    @property
    def _context(self) -> SparkContext:
        return self._spark.sparkContext

    @property
    def master(self) -> str:
        """The Spark master."""
        return str(self._context.master)

    @property
    def parallelism(self) -> int:
        """The number of tasks that executors run at a time, as Spark counts them."""
        return self._context.defaultParallelism

    @property
    def shares_disk(self) -> bool:
        """True if all tasks read and write the files of this machine."""
        return on_this_machine(self.master)

    def hosts(self) -> tuple[str, str] | None:
        """Return the name by which tasks reach this process, and the address where it listens."""
        if self.shares_disk:
            return LOOPBACK, LOOPBACK
        conf = self._context.getConf()
        host = conf.get("spark.driver.host") or socket.gethostname()
        return host, conf.get("spark.driver.bindAddress") or host

    @contextmanager
    def describing(self, description: str) -> Iterator[None]:
        """Return a context manager in which new jobs have a description in Spark's UI."""
        before = self._context.getLocalProperty("spark.job.description")
        self._context.setJobDescription(description)
        try:
            yield
        finally:
            self._context.setLocalProperty("spark.job.description", before)  # type: ignore[arg-type]

    def tag(self, tag: str, pool: str) -> None:
        """Give the jobs of the calling thread a tag, and their own `pool` of Spark's scheduler."""
        self._context.addJobTag(tag)
        self._context.setLocalProperty("spark.scheduler.pool", pool)

    def cancel_tagged(self, tag: str) -> None:
        """Cancel the jobs that have a tag."""
        self._context.cancelJobsWithTag(tag)

    def cancel_all(self, silently: bool) -> None:
        """Cancel all jobs; with `silently`, the JVM prints nothing."""
        if silently:
            self._context.setLogLevel("OFF")
        self._context.cancelAllJobs()

    def how_it_ended(self) -> str | None:
        """Return a few words about the end of a JVM that was started here; None while it runs."""
        return how_it_ended(getattr(self._context._gateway, "proc", None))


class Connected:
    """The abilities of a Spark Connect client: those of :class:`Classic`, and more."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark: SparkSession = proxy(spark)  # weak, as the session owns this object
        #: The URL of this session's own part of the user's scratch folder; None without one.
        self.scratch: str | None = None
        #: The server, if this process has started it.
        self.server: ConnectServer | None = None

    @cached_property
    def master(self) -> str:
        """The server's Spark master; empty if the server does not report it."""
        try:
            return str(self._spark.conf.get("spark.master", ""))
        except PySparkException:
            return ""

    @property
    def parallelism(self) -> int:
        return self._looked[0]

    @property
    def shares_disk(self) -> bool:
        """True if all tasks read and write this machine's files; a task has tested this."""
        return on_this_machine(self.master) and self._looked[1]

    def hosts(self) -> tuple[str, str] | None:
        """Return name and address of this process for tasks, or None if they may not reach it."""
        return (LOOPBACK, LOOPBACK) if self.shares_disk else None

    @contextmanager
    def describing(self, description: str) -> Iterator[None]:
        """Return a context manager in which jobs have the description as their tag."""
        tag = description.replace(",", ";")
        self._spark.addTag(tag)
        try:
            yield
        finally:
            self._spark.removeTag(tag)

    def tag(self, tag: str, pool: str) -> None:
        """Give the jobs of the calling thread a tag; `pool` has no effect: the server decides."""
        self._spark.addTag(tag)

    def cancel_tagged(self, tag: str) -> None:
        self._spark.interruptTag(tag)

    def cancel_all(self, silently: bool) -> None:
        self._spark.interruptAll()

    def how_it_ended(self) -> str | None:
        """Return a few words about the end of a server of this process; None while it runs."""
        return None if self.server is None else how_it_ended(self.server.process)

    # --- facts found by a trial

    @cached_property
    def _looked(self) -> tuple[int, bool]:
        """Find by a job how many tasks run at a time, and whether tasks see our files."""
        partitions, sees, imports = self._look(scratch_folder())
        if not imports:
            self._spark.addArtifacts(str(_zipped(scratch_folder())), pyfile=True)
            if not self._look(scratch_folder())[2]:
                why = "its tasks cannot import scribe_spark; install scribe_spark there"
                raise InputError("remote", self.master, why)
        return partitions, sees

    def _look(self, folder: Path) -> tuple[int, bool, bool]:
        token = secrets.token_hex()
        (folder / "token").write_text(token)
        looking = _looker(folder, token)
        try:
            found = self._spark.range(_MOST_CORES).mapInArrow(looking, _LOOK).toArrow().to_pylist()
        except PySparkException as error:
            raise InputError(
                "remote", self.master, f"cannot run a task ({one_line(error)})"
            ) from None
        wrote = [_read(folder / str(one["partition"])) == token for one in found]
        shutil.rmtree(folder, ignore_errors=True)
        sees = all(wrote) and all(one["sees"] for one in found)
        return len(found), sees, all(one["imports"] for one in found)

    @cached_property
    def _refuses_checkpoints(self) -> str | None:
        return _refusal(lambda: self._spark.range(1).localCheckpoint())

    # --- tables that stay

    @cached_property
    def caches(self) -> bool:
        """True if DataFrames can be persisted."""
        return _refusal(lambda: self._spark.range(1).persist().unpersist()) is None

    @property
    def checkpoints(self) -> bool:
        """True if DataFrames can be checkpointed; if not, tables go to :meth:`scratch_table`."""
        return self._refuses_checkpoints is None

    @property
    def checkpoints_are_reliable(self) -> bool:
        """True if the server has a directory for checkpoints."""
        with suppress(PySparkException):
            return bool(self._spark.conf.get("spark.checkpoint.dir", ""))
        return False

    def name_scratch(self, folder: str) -> None:
        """Set the folder or URL for tables that the server does not keep."""
        url = f"file://{local_path(folder).absolute()}" if is_local(folder) else folder.rstrip("/")
        self.scratch = f"{url}/scribe_spark-{uuid.uuid4().hex}"
        self.__dict__.pop("_tasks_see_scratch", None)

    def shared_folder(self) -> Path | None:
        """Return a new folder that all tasks can read: here, or in the user's folder; else None."""
        if self.shares_disk:
            return scratch_folder()
        return _new_folder(local_path(str(self.scratch))) if self._tasks_see_scratch else None

    @cached_property
    def _tasks_see_scratch(self) -> bool:
        if self.scratch is None or not is_local(self.scratch):
            return False
        try:
            return self.tasks_see(local_path(self.scratch))
        except OSError:
            return False

    def tasks_see(self, folder: Path) -> bool:
        """Create a folder, and return True if all tasks can read and write in it."""
        return self._look(_new_folder(folder))[1]

    def scratch_table(self) -> str:
        """Return a new URL for a table that the server does not keep."""
        if self.scratch is None:
            why = f"the session keeps no tables ({self._refuses_checkpoints})"
            raise InputError("scratch", None, f"{why}; name a folder that its tasks can write")
        return f"{self.scratch}/{uuid.uuid4().hex}"


_connected: WeakKeyDictionary[SparkSession, Connected] = WeakKeyDictionary()


def _new_folder(parent: Path) -> Path:
    folder = parent / f".tasks-{uuid.uuid4().hex}"
    folder.mkdir(parents=True)
    return folder


def _refusal(attempt: Callable[[], object]) -> str | None:
    """Return Spark's error text if the call ``attempt()`` fails; None if it succeeds."""
    try:
        attempt()
    except PySparkException as error:
        return one_line(error)
    return None


def _looker(
    folder: Path, token: str
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return the kernel by which a task tests its files and imports, without this package."""
    shown, names, package = str(folder), [part.split()[0] for part in _LOOK.split(", ")], _PACKAGE

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in batches:
            pass
        task = TaskContext.get()
        assert task is not None
        partition = task.partitionId()
        try:
            sees = Path(shown, "token").read_text() == token
            Path(shown, str(partition)).write_text(token)
        except OSError:
            sees = False
        imports = importlib.util.find_spec(package) is not None
        columns = [pa.array([partition], pa.int32()), pa.array([sees]), pa.array([imports])]
        yield pa.RecordBatch.from_arrays(columns, names=names)

    return run


def _read(path: Path) -> str | None:
    try:
        return path.read_text()
    except OSError:
        return None


def _zipped(folder: Path) -> Path:
    """Write this package as a zip archive into `folder`, and return its path."""
    package, archive = Path(__file__).parents[1], folder / f"{_PACKAGE}.zip"
    with zipfile.ZipFile(archive, "w") as out:
        for file in sorted(package.rglob("*")):
            if file.is_file() and "__pycache__" not in file.parts:
                out.write(file, file.relative_to(package.parent))
    return archive


# --- jobs in parallel


_POOL = "concurrent-jobs"


#: ``submit(work, *given, **named)``: the function that :func:`concurrent_jobs` yields.
Submit = Callable[..., Future[Any]]


@contextmanager
def concurrent_jobs(spark: SparkSession) -> Iterator[Submit]:
    """Yield a function that runs work in a second thread, one piece after the other.

    The end of the block waits for all pieces.  If the caller raises (for example by Ctrl-C), the
    jobs of the running piece are cancelled, and later pieces are dropped.
    """
    pool, session = ThreadPoolExecutor(1, "concurrent-jobs"), abilities(spark)
    tag = f"concurrent-jobs-{uuid.uuid4().hex}"

    def submit(work: Callable[..., Any], *given: Any, **named: Any) -> Future[Any]:
        def tagged() -> Any:
            session.tag(tag, _POOL)
            return work(*given, **named)

        # the thread has the caller's local properties, such as its pool and its jobs' description
        return pool.submit(inheritable_thread_target(spark)(tagged))

    try:
        yield submit
    except BaseException:
        with suppress(Exception):  # the session may be ending
            session.cancel_tagged(tag)
        pool.shutdown(cancel_futures=True)
        raise
    pool.shutdown()


def java_version(spark: SparkSession) -> str | None:
    """Return the version of the driver's Java (``17.0.15``), None if a server has no answer."""
    try:
        return _java_property(spark, "java.version")
    except PySparkException:
        if is_connect(spark):
            return None
        raise


def java_letters(spark: SparkSession) -> str:
    """Return the encoding in which the driver's Java names files, such as ``UTF-8``."""
    return _java_property(spark, "sun.jnu.encoding")


def _java_property(spark: SparkSession, name: str) -> str:
    if usable("jvm_questions", spark):
        return str(cast(Any, spark._jvm).System.getProperty(name))
    words = map(F.lit, ("java.lang.System", "getProperty", name))
    return str(spark.range(1).select(F.reflect(*words)).collect()[0][0])


def has_class(spark: SparkSession, name: str) -> bool:
    """Return True if the driver can load a class, or if the public interface cannot tell."""
    if not usable("jvm_questions", spark):
        return True
    loader = cast(Any, spark._jvm).Thread.currentThread().getContextClassLoader()
    # py4j's own errors are not imported: they differ between a missing class and a broken jar
    try:
        loader.loadClass(name)
    except Exception:
        return False
    return True
