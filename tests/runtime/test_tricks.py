"""Tricks with what is private to Spark: their switchboard, their place, forked workers."""

import ast
import gc
import importlib
import subprocess
import sys
import zipimport
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

import scribe_spark
from scribe_spark.core.errors import InputError
from scribe_spark.runtime.tricks import TRICKS, VARIABLE, check_tricks, enabled

NAMES = [trick.name for trick in TRICKS]


@pytest.mark.parametrize(
    ("text", "used"),
    [
        (None, NAMES),
        ("", NAMES),
        ("all", NAMES),
        ("none", []),
        ("cached_classes, python_daemon", ["cached_classes", "python_daemon"]),
        ("-cached_classes", [name for name in NAMES if name != "cached_classes"]),
        ("all,-cached_classes", [name for name in NAMES if name != "cached_classes"]),
    ],
)
def test_the_variable_chooses(monkeypatch, text, used):
    monkeypatch.delenv(VARIABLE, raising=False)
    if text is not None:
        monkeypatch.setenv(VARIABLE, text)
    check_tricks()
    assert {name for name in NAMES if enabled(name)} == set(used)


@pytest.mark.parametrize("text", ["magic", "all,-magic", "none,cached_classes", "None"])
def test_another_value_is_refused(monkeypatch, text):
    monkeypatch.setenv(VARIABLE, text)
    with pytest.raises(InputError, match=VARIABLE) as caught:
        check_tricks()
    assert "\n" not in str(caught.value)


# --- only `runtime/` goes behind Spark's public interface -----------------------------------------


PACKAGE = Path(scribe_spark.__file__).parent

#: Attributes of PySpark's objects that lead into the JVM.
PRIVATE = {
    *("_gateway", "_jconf", "_jdf", "_jrdd", "_jsc", "_jschema", "_jsparkSession", "_jvm"),
    "_ssql_ctx",
}

#: What a session of Spark Connect has not: `runtime` asks for it where a session is classic.
CLASSIC = {"RDD", "SparkContext", "rdd", "sparkContext"}

#: Names of sessions and contexts, of which nothing that begins with an underscore is to be used.
SESSIONS = {"SparkContext", "SparkSession", "context", "spark", "sparkContext", "sparkSession"}


def violations(source: str) -> Iterator[tuple[int, str]]:
    """Lines of a module that use what is private to Spark, and what they use."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Attribute):
            owner = node.value
            name = {ast.Name: "id", ast.Attribute: "attr"}.get(type(owner), "")
            private = node.attr.startswith("_") and not node.attr.startswith("__")
            if node.attr in PRIVATE | CLASSIC or (private and getattr(owner, name, "") in SESSIONS):
                yield node.lineno, node.attr
        elif isinstance(node, ast.Constant) and node.value in PRIVATE | CLASSIC:
            yield node.lineno, str(node.value)  # getattr(spark, "_jvm")
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            modules = [alias.name for alias in node.names]
            if isinstance(node, ast.ImportFrom):
                modules = [node.module or ""]
            for module in modules:
                if module.partition(".")[0] == "py4j":
                    yield node.lineno, module
            for name in {alias.name for alias in node.names} & CLASSIC:
                yield node.lineno, name


def test_only_runtime_goes_behind_sparks_public_interface():
    """And only there is anything used that classic sessions alone have; notebooks do without it."""
    files = [*PACKAGE.rglob("*.py"), *(PACKAGE.parent / "jobs").rglob("*.py")]
    found = [
        f"{file.relative_to(PACKAGE.parent)}:{line}: {name}"
        for file in sorted(files)
        if file.relative_to(PACKAGE.parent).parts[:2] != (PACKAGE.name, "runtime")
        for line, name in violations(file.read_text("utf-8"))
    ]
    assert len(files) > 250
    assert not found


# --- workers are forked with all that kernels need ------------------------------------------------


def test_a_worker_at_its_task(spark):
    def look(batches):
        def read(archive):
            raise AssertionError(f"{archive} is read again")

        loaded = {"numpy", "pandas", "pyarrow", "scipy.sparse.csgraph"} <= sys.modules.keys()
        found = [type(importer) for importer in sys.path_importer_cache.values()]
        before, zipimport._read_directory = zipimport._read_directory, read
        try:
            importlib.invalidate_caches()
        finally:
            zipimport._read_directory = before
        state = loaded, gc.get_freeze_count(), found.count(zipimport.zipimporter)
        for _ in batches:
            yield pa.RecordBatch.from_arrays([pa.array([value]) for value in state], names)

    names = ["loaded", "frozen", "archives"]
    one = spark.range(1).coalesce(1).mapInArrow(look, "loaded boolean, frozen long, archives long")
    (row,) = one.collect()
    assert row["loaded"]
    assert row["frozen"] > 50_000  # objects that a collection does not look at
    assert row["archives"] >= 1  # there are some to be read


#: Workers of pyspark's daemon, and Spark, which has hung up: what each ends with, and its stderr.
WORKERS = """
import os, socket, subprocess, sys, tempfile
import pyspark.daemon
from scribe_spark.runtime.daemon import end_where_spark_hangs_up

def half(infile, outfile):
    outfile.write(b"rows")

def failing(infile, outfile):
    half(infile, outfile)
    sys.exit(-1)

def wrong(infile, outfile):
    1 / 0

os.environ["PYTHON_WORKER_FACTORY_SECRET"] = ""
for task, authenticated in ((half, True), (failing, True), (half, False), (wrong, True)):
    with tempfile.TemporaryFile("w+") as told:
        if not (worker := os.fork()):
            os.dup2(told.fileno(), 2)
            pyspark.daemon.worker_main = task
            end_where_spark_hangs_up()
            ours, spark = socket.socketpair()
            spark.close()
            try:
                pyspark.daemon.worker(ours, authenticated)
            except BaseException:  # as the daemon's loop does
                pyspark.daemon.traceback.print_exc()
            finally:
                sys.stderr.flush()
                os._exit(0)
        code = os.waitstatus_to_exitcode(os.waitpid(worker, 0)[1])
        told.seek(0)
        print(code, told.read().splitlines()[-1:])
"""


def test_workers_where_spark_has_hung_up_say_nothing_of_it():
    """pyspark would print BrokenPipeError's traceback, and the JVM would hand it on."""
    done = subprocess.run([sys.executable, "-c", WORKERS], capture_output=True, text=True)
    assert done.stdout.splitlines() == [
        *("1 []", "1 []"),  # a task that was cancelled
        "0 []",  # a worker that nobody waits for any more
        "0 ['ZeroDivisionError: division by zero']",
    ], done.stderr
