"""A run: its phases over a folder, in order, each skipped where it is complete already.

A phase is complete when the manifest has its record, and every table and text is as recorded
there.  The record is dropped just before the first table of the phase is written again, and put
back after the last; so a run that is killed at any time can be resumed.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import ExitStack, closing, contextmanager, suppress
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from scribe_spark.config import Execution, RunConfig
from scribe_spark.errors import InputError, RunError
from scribe_spark.experiments import digests
from scribe_spark.experiments.finished_run import Run
from scribe_spark.experiments.folder import Folder
from scribe_spark.experiments.living_run import MakeApplication, simulation_of
from scribe_spark.experiments.lock import Lock
from scribe_spark.experiments.manifest import (
    MANIFEST,
    new_manifest,
    phase_entry,
    put_entry,
    without_entries_from,
)
from scribe_spark.experiments.owner import RUN
from scribe_spark.experiments.phases import PHASES, REPORT, TABLE_PHASES, Phase
from scribe_spark.experiments.previous import previous_run_manifest
from scribe_spark.experiments.reporting import report
from scribe_spark.experiments.scope import Scope
from scribe_spark.experiments.simulation import Simulation
from scribe_spark.progress import Progress, Silent
from scribe_spark.runtime.batches import Table
from scribe_spark.runtime.blocks import is_lost_block
from scribe_spark.runtime.concurrent_jobs import concurrent_jobs
from scribe_spark.runtime.settings import default_partitions, tuned

__all__ = ["locked", "run"]


def run(
    spark: SparkSession,
    config: RunConfig,
    execution: Execution,
    phases: tuple[str, ...] = PHASES,
    progress: Progress | None = None,
    shares: Simulation | None = None,
    application: MakeApplication | None = None,
) -> Run:
    """Run phases of an experiment into `execution.out`.

    Parameters
    ----------
    phases : tuple of str
        Of :data:`PHASES`.  With ``execution.resume`` phases that are complete are not run again.
    shares : Simulation, optional
        One of the same session: its routes are used where the network is the same.
    application : callable, optional
        Makes an application of yours on Scribe's upcalls; see `make_world`.

    Raises
    ------
    InputError
        OUT cannot be used, is in use, is of another config, or lacks the tables that a phase
        reads; or a table of the user's cannot be read.
    RunError
        Executors were lost, twice in one phase, with data that only they had.
    """
    progress = progress or Silent()
    simulation = simulation_of(
        spark,
        config,
        progress=progress,
        shares=shares,
        application=application,
        buckets=execution.buckets,
        engine=execution.engine,
    )
    try:
        with Folder(spark, execution.out) as folder:
            manifest = previous_run_manifest(folder, config, execution)
            if manifest is None and PHASES[0] not in phases:
                _refuse_gap(PHASES[0], phases)
            if manifest is None or "trees" not in _entries(manifest):
                simulation.read_inputs()
            with locked(folder, progress) as lock:
                work = _Work(folder, lock, simulation, progress)
                work.open(config, execution)
                partitions = execution.partitions or default_partitions(spark, config.overlay.nodes)
                with tuned(spark, partitions):
                    work.run(phases)
    except BaseException:
        with suppress(Exception):  # the session may be ending by itself
            simulation.close()
        raise
    return Run(execution.out, simulation)


@contextmanager
def locked(folder: Folder, progress: Progress) -> Iterator[Lock]:
    """The lock of a folder, for the time of a ``with``.

    Raises
    ------
    InputError
        Another run has it; or the folder cannot be written.
    """
    lock = folder.lock(progress.note)
    with ExitStack() as until_the_end:
        with folder.usable():
            until_the_end.enter_context(lock.acquired())
        yield lock


def _entries(manifest: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The phases that a manifest has as done, by name."""
    return {entry["name"]: entry for entry in manifest["phases"]}


def _refuse_gap(name: str, phases: tuple[str, ...]) -> None:
    later = [phase for phase in PHASES[PHASES.index(name) + 1 :] if phase in phases]
    if later:
        remedy = f"needs the tables of {name}, which are missing or damaged; run --phase {name}"
        raise InputError("phase", later[0], remedy)


class _Work:
    """A run on its way: the folder, its manifest as it is there, the simulation."""

    def __init__(
        self, folder: Folder, lock: Lock, simulation: Simulation, progress: Progress
    ) -> None:
        self._folder, self._lock = folder, lock
        self._simulation, self._progress = simulation, progress
        self._manifest: dict[str, Any] = {}
        simulation.saved.read = folder.batches

    def open(self, config: RunConfig, execution: Execution) -> None:
        """Go on with the manifest that is there now, or begin a new one."""
        previous = previous_run_manifest(self._folder, config, execution)
        if previous is not None:
            self._manifest = previous
            return
        self._folder.make()
        self._folder.clear(RUN)
        self._save(new_manifest(config, execution, self._simulation.spark))

    def _save(self, manifest: dict[str, Any]) -> None:
        if manifest != self._manifest:
            self._lock.check()
            self._folder.write_json(MANIFEST, manifest)
            self._manifest = manifest

    def run(self, phases: tuple[str, ...]) -> None:
        """Run `phases` but those that are complete."""
        recorded = _entries(self._manifest)
        same_inputs = True  # the tables so far are those that later records were made from
        for name, phase in TABLE_PHASES.items():
            entry = recorded.get(name)
            if same_inputs and entry is not None and self._is_complete(phase, entry):
                self._progress.note(f"{name}: complete, skipped")
                self._load_saved(entry)
                self._save(put_entry(self._manifest, entry))
            elif name in phases:
                made = self._run_phase(phase)
                same_inputs = entry is not None and digests.same_outputs(entry, made)
            else:
                _refuse_gap(name, phases)
                same_inputs = False
        if REPORT in phases:
            started = time.perf_counter()
            with self._progress.phase(REPORT):
                report(self._simulation.spark, self._folder.out)
            entry = phase_entry(REPORT, time.perf_counter() - started, {}, {}, {})
            self._save(put_entry(self._manifest, entry))

    # --- a phase that has been run

    def _is_complete(self, phase: Phase, entry: dict[str, Any]) -> bool:
        """Whether a phase was of the same systems and measures, and is there as recorded.

        Raises
        ------
        InputError
            The storage does not answer: nothing can be said.
        """
        for kind, names in phase.registered(self._simulation).items():
            if entry.get("registered", {}).get(kind) != names:
                self._progress.note(f"{phase.name}: other {kind} took part: computed again")
                return False
        verified = [
            *((name, self._folder.verify_text(name, d)) for name, d in entry["texts"].items()),
            *((name, self._folder.verify_table(name, r)) for name, r in entry["tables"].items()),
        ]
        for name, problem in verified:
            if problem is not None:
                self._progress.note(f"{entry['name']}: {name} is not as written: {problem}")
                return False
        return True

    def _load_saved(self, entry: dict[str, Any]) -> None:
        for table in entry["tables"]:
            self._simulation.saved[table] = self._folder.read_table(table)

    # --- a phase that has to be run

    def _run_phase(self, phase: Phase) -> dict[str, Any]:
        """Run a phase, and once more where executors were lost with data that only they had."""
        started = time.perf_counter()
        with self._progress.phase(phase.name):
            try:
                tables, texts = self._write(phase)
            except Exception as error:
                if not is_lost_block(error):
                    raise
                self._progress.note(f"{phase.name}: an executor was lost; computed again")
                self._simulation.release()
                tables, texts = self._write_again(phase)
        took, registered = time.perf_counter() - started, phase.registered(self._simulation)
        entry = phase_entry(phase.name, took, tables, texts, registered)
        self._save(put_entry(self._manifest, entry))
        return entry

    def _write_again(self, phase: Phase) -> tuple[dict[str, Any], dict[str, str]]:
        try:
            return self._write(phase)
        except Exception as error:
            if not is_lost_block(error):
                raise
            raise RunError(
                f"{phase.name}: executors were lost again, with data that only they had; go on "
                "with --resume, or let --conf spark.checkpoint.dir=URL keep that data in storage"
            ) from None

    def _write(self, phase: Phase) -> tuple[dict[str, Any], dict[str, str]]:
        """Write the tables and texts of a phase; their records.

        Tables are written by a thread beside the one that makes them, one after the other.
        """
        simulation, saved = self._simulation, self._simulation.saved
        for table in saved.keys() & phase.writes:  # to be overwritten, so not to be read
            del saved[table]
        records: dict[str, Any] = {}
        with (
            Scope() as scope,
            concurrent_jobs(simulation.spark) as submit,
            closing(phase.tables(simulation, scope)) as made,
        ):
            writes: list[Future[DataFrame]] = []
            for table, frame in made:
                # from here on neither this phase nor those after it are complete
                self._save(without_entries_from(self._manifest, phase.name))
                writes.append(submit(self._write_table, table, frame, records))
                saved[table] = writes[-1]
                for write in writes:
                    if write.done():
                        write.result()  # a failure ends the phase early
            for write in writes:
                write.result()
        texts = {
            file: self._folder.write_json(file, value)
            for file, value in phase.texts(simulation).items()
        }
        return records, texts

    def _write_table(
        self, table: str, rows: Table | pa.Table, records: dict[str, Any]
    ) -> DataFrame:
        """Write a table, put its record among `records`, read it back."""
        self._lock.check()
        records[table] = self._folder.write_table(table, rows)
        return self._folder.read_table(table)
