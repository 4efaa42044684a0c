"""A run: its phases as steps over a folder.

The record of a phase is dropped just before its first table is written again, and put back after
the last one; so a run that is killed at any time can be resumed.
"""

from __future__ import annotations

import time
from concurrent.futures import Future
from contextlib import closing, suppress
from functools import partial
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from scribe_spark.config import Execution, RunConfig
from scribe_spark.core.progress import Progress, Silent
from scribe_spark.experiments.finished_run import Run
from scribe_spark.experiments.manifest import (
    Manifest,
    entry_of,
    phase_entry,
    put_entry,
    without_entries_from,
)
from scribe_spark.experiments.phases import PHASES, REPORT, TABLE_PHASES, Phase, registered
from scribe_spark.experiments.plan import plan_run
from scribe_spark.experiments.reporting import report
from scribe_spark.experiments.scope import Scope
from scribe_spark.experiments.simulation import Simulation
from scribe_spark.experiments.stages import MakeApplication
from scribe_spark.experiments.steps import Step, Work, opened, refuse_gap
from scribe_spark.runtime.batches import Table
from scribe_spark.runtime.sessions import concurrent_jobs


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

    With ``execution.resume``, complete phases are kept.  The routes of `shares`, a simulation
    in the same session, are used if its network is the same.  ``application(nodes)`` returns the
    user's Scribe application, as in `make_world`.
    """
    progress = progress or Silent()
    simulation = Simulation(
        spark,
        config,
        progress=progress,
        shares=shares,
        application=application,
        buckets=execution.buckets,
        engine=execution.engine,
    )

    def check(manifest: Manifest | None) -> None:
        if manifest is None and PHASES[0] not in phases:
            refuse_gap(PHASES, PHASES[0], phases)
        if manifest is None or entry_of("trees", manifest) is None:
            simulation.read_inputs()

    plan, nodes = plan_run(config, execution), config.overlay.nodes
    try:
        with opened(spark, plan, progress, nodes=nodes, check=check) as work:
            work.play(_Phases(work, simulation).steps(), phases)
    except BaseException:
        with suppress(Exception):  # the session may be ending by itself
            simulation.close()
        raise
    return Run(execution.out, simulation)


class _Phases:
    """The phases of a run as steps on its folder."""

    def __init__(self, work: Work, simulation: Simulation) -> None:
        self._work, self._folder, self._progress = work, work.folder, work.progress
        self._simulation = simulation
        simulation.saved.read = work.folder.batches

    def steps(self) -> list[Step]:
        """Return a step for each phase."""
        tables = [
            Step(
                name,
                partial(self._run_phase, phase),
                recorded=partial(entry_of, name),
                put=put_entry,
                load=self._load_saved,
                is_current=partial(self._has_same_parts, phase),
            )
            for name, phase in TABLE_PHASES.items()
        ]
        return [*tables, Step(REPORT, self._draw, put=self._put_report)]

    def _put_report(self, manifest: Manifest, entry: Manifest) -> Manifest:
        return self._work.with_seconds(put_entry(manifest, entry))

    def _draw(self) -> dict[str, Any]:
        started = time.perf_counter()
        with self._progress.phase(REPORT), self._work.timed("page"):
            report(self._simulation.spark, self._folder.out)
        return phase_entry(REPORT, time.perf_counter() - started, {}, {}, {})

    # --- a completed phase

    def _has_same_parts(self, phase: Phase, entry: Manifest) -> bool:
        """Return True if a phase was run with the same systems and measures."""
        for kind, names in registered(phase, self._simulation).items():
            if entry.get("registered", {}).get(kind) != names:
                self._progress.note(
                    f"{phase.name}: the saved tables are of other {kind}; computed again"
                )
                return False
        return True

    def _load_saved(self, entry: Manifest) -> None:
        for table in entry["tables"]:
            self._simulation.saved[table] = self._folder.read_table(table)

    # --- an incomplete phase

    def _run_phase(self, phase: Phase) -> dict[str, Any]:
        """Run a phase, and once more if executors were lost with data that only they had."""
        simulation, started = self._simulation, time.perf_counter()
        with self._progress.phase(phase.name):
            tables, texts = self._work.until_played(
                phase.name, lambda _: self._write(phase), simulation.release
            )
        took, names = time.perf_counter() - started, registered(phase, simulation)
        entry = phase_entry(phase.name, took, tables, texts, names)
        clock = simulation.clock_player if phase.name == "trees" else None
        return entry if clock is None else {**entry, "clock": clock}

    def _write(self, phase: Phase) -> tuple[dict[str, Any], dict[str, str]]:
        """Write the tables of a phase, in a thread, and its texts; return their records."""
        simulation, saved = self._simulation, self._simulation.saved
        records: dict[str, Any] = {}
        writes: dict[str, Future[DataFrame]] = {}
        try:
            with (
                Scope() as scope,
                concurrent_jobs(simulation.spark) as submit,
                closing(phase.tables(simulation, scope)) as made,
            ):
                for table, frame in made:
                    # from here on neither this phase nor those after it are complete
                    self._work.save(without_entries_from(self._work.manifest, phase.name))
                    saved[table] = writes[table] = submit(self._write_table, table, frame, records)
                    for write in writes.values():
                        if write.done():
                            write.result()  # a failure ends the phase early
                for write in writes.values():
                    write.result()
        except BaseException:
            for table in writes:  # another attempt overwrites them, so it must not read them
                del saved[table]
            raise
        texts = {
            file: self._folder.write_json(file, value)
            for file, value in phase.texts(simulation).items()
        }
        return records, texts

    def _write_table(
        self, table: str, rows: Table | pa.Table, records: dict[str, Any]
    ) -> DataFrame:
        """Write a table, put its record into `records`, and read it back."""
        records |= self._work.write_tables({table: rows})
        return self._folder.read_table(table)
