"""Workers of a session of this machine: forked with all that kernels need, archives read once."""

from __future__ import annotations

import gc
import importlib
import sys
import zipimport

import pyarrow as pa


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


def test_a_local_session_has_such_workers(spark):
    assert spark.conf.get("spark.python.daemon.module") == "scribe_spark.runtime.daemon"
