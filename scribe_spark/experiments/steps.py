"""A command opens its folder OUT once: it locks the folder, and resumes from the manifest.

A part of a command (a phase, the rounds, a point) leaves tables and texts.  It is complete when the
manifest has its record, and every table and text is as recorded there.  So a command that is killed
at any time can be resumed.  Runs and worlds inside OUT, of a sweep or of the paper, are such
commands themselves (`run_sweep`).
"""

from __future__ import annotations

import json
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from typing import Any, TypeVar

import pandas as pd
import pyarrow as pa
from pyspark.sql import SparkSession

from scribe_spark import schemas
from scribe_spark.core.errors import RunError, redacted
from scribe_spark.core.progress import Progress
from scribe_spark.experiments.folder import Folder
from scribe_spark.experiments.lock import Lock
from scribe_spark.experiments.manifest import MANIFEST, Manifest
from scribe_spark.experiments.plan import Plan
from scribe_spark.experiments.simulation import Simulation
from scribe_spark.runtime.batches import Table
from scribe_spark.runtime.blocks import is_lost_block
from scribe_spark.runtime.sessions import seconds_of
from scribe_spark.runtime.settings import partitions_of, tuned

T = TypeVar("T")


class Work:
    """The folder of a command at work: locked, with the manifest that is there."""

    def __init__(
        self,
        folder: Folder,
        lock: Lock,
        progress: Progress,
        before: Mapping[str, float] | None = None,
    ) -> None:
        self.folder, self.lock, self.progress = folder, lock, progress
        self.manifest: dict[str, Any] = {}
        #: The seconds that parts of the command have taken so far, by part.
        self.seconds: defaultdict[str, float] = defaultdict(float)
        self._before = dict(before or {})

    @contextmanager
    def timed(self, part: str) -> Iterator[None]:
        """Return a context manager that adds its time to the seconds of a part of the command."""
        started = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[part] += time.perf_counter() - started

    def with_seconds(self, manifest: Manifest) -> dict[str, Any]:
        """Return the manifest with the seconds of the command's parts."""
        of_queries = {
            part: took if part == "session" else took - self._before.get(part, 0.0)
            for part, took in seconds_of(self.folder.spark).items()
        }
        spent = {part: round(took, 3) for part, took in (of_queries | self.seconds).items()}
        return {**manifest, "seconds": {**manifest.get("seconds", {}), **spent}}

    def save(self, manifest: Manifest) -> None:
        """Write a changed manifest, without secrets, and keep the written values in `manifest`."""
        text: dict[str, Any] = redacted(json.loads(json.dumps(manifest)))
        if text != self.manifest:
            self.lock.check()
            self.folder.write_json(MANIFEST, text)
            self.manifest = text

    def write_tables(self, tables: Mapping[str, Table | pa.Table | pd.DataFrame]) -> dict[str, Any]:
        """Write tables, unless another run has taken the lock over; return their records by name.

        Only tables of few rows may be a pandas.DataFrame.
        """
        self.lock.check()
        rows = {
            name: schemas.arrow_table(table, schemas.WRITTEN[name])
            if isinstance(table, pd.DataFrame)
            else table
            for name, table in tables.items()
        }
        with self.timed("writing"):
            return self.folder.write_tables(rows)

    def write_json(self, name: str, value: Any, indent: int | None = 2) -> str:
        """Write a value as JSON unless another run has the lock; return the text's digest."""
        self.lock.check()
        return self.folder.write_json(name, value, indent)

    def until_played(
        self,
        name: str,
        attempt: Callable[[Any], T],
        release: Callable[[], None],
        saved: Callable[[], Any] = lambda: None,
    ) -> T:
        """Return ``attempt(saved())``; repeat it if executors were lost with unsaved data.

        A second loss is an error, unless more has been saved before it.  In between, `release`
        frees what the attempt has left.
        """
        at, lost = saved(), False
        while True:
            try:
                return attempt(at)
            except Exception as error:
                if not is_lost_block(error):
                    raise
            release()
            before, at = at, saved()
            if lost and at == before:
                raise RunError(
                    f"{name}: executors with unsaved data were lost repeatedly; continue with "
                    "--resume, or keep such data in storage by --conf spark.checkpoint.dir=URL"
                )
            lost = True
            self.progress.note(f"{name}: an executor was lost; computed again")

    def is_as_written(self, name: str, record: Manifest) -> bool:
        """Return True if all outputs are as a record says; report the first that is not."""
        for path, problem in self.folder.faults(record["tables"], record["texts"]):
            self.progress.note(f"{name}: {path} is not as written: {problem}")
            return False
        return True


@contextmanager
def opened(
    spark: SparkSession,
    plan: Plan,
    progress: Progress,
    check: Callable[[Manifest | None], None] = lambda manifest: None,
) -> Iterator[Work]:
    """Open a command's folder, locked; `check` refuses bad input before OUT is touched."""
    with ExitStack() as until_the_end:
        folder = until_the_end.enter_context(Folder(spark, plan.execution.out))
        check(plan.previous(folder))
        with folder.usable():
            lock = until_the_end.enter_context(folder.lock(progress.note).acquired())
        work = Work(folder, lock, progress, seconds_of(spark))
        manifest = plan.previous(folder)
        if manifest is None:
            folder.make()
            folder.clear(plan.owner, plan.inner)
            work.save(plan.new_manifest(spark))
        else:
            work.manifest = manifest
        if plan.nodes is not None:
            partitions = partitions_of(plan.execution, spark, plan.nodes)
            until_the_end.enter_context(tuned(spark, partitions))
        yield work


@contextmanager
def closed_at_last(simulation: Simulation) -> Iterator[Simulation]:
    """Return a context manager that closes a simulation, even if the session has ended."""
    try:
        yield simulation
    finally:
        with suppress(Exception):
            simulation.close()
