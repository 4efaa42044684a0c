"""Workers of a session of this machine: forked with all that kernels need, archives read once."""

from __future__ import annotations

import gc
import importlib
import platform
import subprocess
import sys
import zipimport

import pyarrow as pa
import pytest


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


#: Pages that were brought in for twenty sums of arrays of 3 MB.
SUMS = """
import resource
import numpy as np
from scribe_spark.runtime.daemon import keep_freed_memory

def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt

keep_freed_memory()
one = np.arange(400_000)
last = one + one
before = faults()
for _ in range(20):
    last = one + last
print(faults() - before)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="another malloc")
def test_arrays_get_the_memory_that_others_have_freed():
    told = subprocess.run([sys.executable, "-c", SUMS], capture_output=True, text=True, check=True)
    assert int(told.stdout) < 2 * 782  # pages of an array; thrice as many are mapped anew


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
