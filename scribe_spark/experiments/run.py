"""A run: its phases over a folder; a finished run, for further queries.

The record of a phase is dropped just before its first table is written again, and put back after
the last one; so a run that is killed at any time can be resumed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, suppress
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from scribe_spark.config import Execution, RunConfig
from scribe_spark.core.errors import InputError
from scribe_spark.core.inputs import is_local
from scribe_spark.core.progress import Progress, Silent
from scribe_spark.core.units import MICROSECONDS
from scribe_spark.experiments.digests import same_outputs
from scribe_spark.experiments.folder import Folder
from scribe_spark.experiments.manifest import (
    MANIFEST,
    Manifest,
    entry_of,
    phase_entry,
    put_entry,
    without_entries_from,
)
from scribe_spark.experiments.phases import PHASES, REPORT, TABLE_PHASES, Phase, registered
from scribe_spark.experiments.plan import plan_run
from scribe_spark.experiments.reporting import report
from scribe_spark.experiments.simulation import Simulation
from scribe_spark.experiments.stages import MakeApplication, Scope
from scribe_spark.experiments.steps import Work, opened
from scribe_spark.runtime.sessions import concurrent_jobs


@dataclass(frozen=True)
class Run:
    """A finished run: its folder, and the simulation that wrote it.

    Used in a ``with`` statement, a run is closed at the end of it.

    Attributes
    ----------
    out : str
        The output folder, or its URL.
    simulation : Simulation
        The intermediate results of the run as DataFrames, which can be queried until
        :meth:`close`.
    """

    out: str
    simulation: Simulation

    def __enter__(self) -> Run:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()

    def table(self, name: str) -> DataFrame:
        """Return a table of the run, for example ``deliveries``.

        docs/tables.md lists all tables with their columns and units.
        """
        with self._folder() as folder:
            return folder.read_table(name)

    def arrivals(self) -> DataFrame:
        """Return the time and the sender of the first copy at each member.

        Returns
        -------
        DataFrame
            The columns ``system, group, publication, node, arrival_us, hops, from``, with a row for
            each system, publication and member.  ``arrival_us`` is the time from the start of the
            run in microseconds.  ``from`` is the node that sent the copy; it is NULL for a node on
            the way from a source to the root of its group.
        """
        scheduled = "schedule" in self._tables()
        keys = ["system", "group", "node", *(["publication"] if scheduled else [])]
        deliveries = self.table("deliveries")
        if scheduled:
            published = self.table("schedule").select("publication", "time_ms")
            deliveries = deliveries.join(published, "publication")
        else:
            of_run = {"publication": F.lit(0).cast("bigint"), "time_ms": F.lit(0.0)}
            deliveries = deliveries.withColumns(of_run)
        arrival_us = F.round((F.col("delay_ms") + F.col("time_ms")) * MICROSECONDS).cast("bigint")
        return deliveries.join(self._senders(keys), keys, "left").select(
            *("system", "group", "publication", "node"),
            *(arrival_us.alias("arrival_us"), "hops", "from"),
        )

    def _senders(self, keys: list[str]) -> DataFrame:
        """Return the sender (``from``) of each first copy, with the columns `keys` of the copy."""
        renamed = {"child": "node", "parent": "from", "receiver": "node", "sender": "from"}
        edges = self.table("tree_edges").withColumnsRenamed(renamed)
        if "copies" not in self._tables():
            return edges.select(*keys, "from")
        copies = self.table("copies").where("first").withColumnsRenamed(renamed)
        copies = copies.select(*keys, "from")
        # with a schedule, trees also have copies
        return copies if "publication" in keys else edges.select(*keys, "from").union(copies)

    def _tables(self) -> set[str]:
        return {name for entry in self.manifest()["phases"] for name in entry["tables"]}

    def read_text(self, name: str) -> str:
        """Return a text file of the folder, for example ``figures/figure-06-group-size.svg``."""
        with self._folder() as folder:
            return folder.read_text(name)

    def metrics(self) -> list[dict[str, Any]]:
        """Return the contents of ``metrics.json``: a dict for each number, with its name."""
        with self._folder() as folder:
            return folder.read_json("metrics.json")

    def manifest(self) -> dict[str, Any]:
        """Return the contents of ``manifest.json``: settings, versions, phases, digests."""
        with self._folder() as folder:
            return folder.read_json(MANIFEST)

    def close(self) -> None:
        """Free the memory and the temporary files of the simulation; the output folder stays."""
        self.simulation.close()

    def _folder(self) -> Folder:
        return Folder(self.simulation.spark, self.out)


def run(
    spark: SparkSession,
    config: RunConfig,
    execution: Execution,
    phases: tuple[str, ...] = PHASES,
    progress: Progress | None = None,
    shares: Simulation | None = None,
    application: MakeApplication | None = None,
    end_session: Callable[[], None] | None = None,
) -> Run:
    """Run phases of an experiment into `execution.out`.

    With ``execution.resume``, complete phases are kept.  The routes of `shares`, a simulation
    in the same session, are used if its network is the same.  ``application(nodes)`` returns the
    user's Scribe application, as in `make_world`.  With ``end_session()``, the simulation is closed
    and the session ends while the page is drawn, which needs no session in a local folder.
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
            _refuse_gap(PHASES[0], phases)
        if manifest is None or entry_of("trees", manifest) is None:
            simulation.read_inputs()

    try:
        with opened(spark, plan_run(config, execution), progress, check) as work:
            _Phases(work, simulation).play(phases, end_session)
    except BaseException:
        with suppress(Exception):  # the session may be ending by itself
            simulation.close()
        raise
    return Run(execution.out, simulation)


def _refuse_gap(missing: str, wanted: Collection[str]) -> None:
    """Refuse wanted phases after the phase `missing`, whose tables are missing and not wanted."""
    later = [name for name in PHASES[PHASES.index(missing) + 1 :] if name in wanted]
    if later:
        remedy = "needs the tables of {0}, which are missing or damaged; run --phase {0}"
        raise InputError("phase", later[0], remedy.format(missing))


class _Phases:
    """The phases of a run, which are played or skipped on its folder."""

    def __init__(self, work: Work, simulation: Simulation) -> None:
        self._work, self._simulation = work, simulation
        simulation.saved.folder = work.folder

    def play(self, wanted: tuple[str, ...], end_session: Callable[[], None] | None) -> None:
        """Play the phases that are not complete, and all phases after one with new outputs."""
        self._simulation.trees_follow = "trees" in wanted
        before, same = self._work.manifest, True
        for name, phase in TABLE_PHASES.items():
            record = entry_of(name, before)
            if same and record is not None and self._is_complete(phase, record):
                self._work.progress.note(f"{name}: complete, skipped")
                self._simulation.saved.update(dict.fromkeys(record["tables"]))
                self._work.save(put_entry(self._work.manifest, record))
            elif name in wanted:
                made = self._run_phase(phase)
                self._work.save(put_entry(self._work.manifest, made))
                same = same and record is not None and same_outputs(record, made)
            else:
                _refuse_gap(name, wanted)
                same = False
        if REPORT in wanted:
            self._draw(end_session)

    def _is_complete(self, phase: Phase, record: Manifest) -> bool:
        """Return True if the outputs are as recorded, of the systems and measures of this run."""
        for kind, names in registered(phase, self._simulation).items():
            if record.get("registered", {}).get(kind) != names:
                self._work.progress.note(
                    f"{phase.name}: the saved tables are of other {kind}; computed again"
                )
                return False
        return self._work.is_as_written(phase.name, record)

    def _draw(self, end_session: Callable[[], None] | None) -> None:
        """Draw the page; if the folder is local, the session may end meanwhile."""

        def end() -> None:
            self._simulation.close()
            assert end_session is not None
            end_session()

        work, out, started = self._work, self._work.folder.out, time.perf_counter()
        with work.progress.phase(REPORT), work.timed("page"):
            if end_session is None or not is_local(out):
                report(self._simulation.spark, out)
            else:
                with ThreadPoolExecutor(1) as beside:
                    ended = beside.submit(end)
                    report(None, out)
                ended.result()  # an error of the end is raised
        entry = phase_entry(REPORT, time.perf_counter() - started, {}, {}, {})
        work.save(work.with_seconds(put_entry(work.manifest, entry)))

    def _run_phase(self, phase: Phase) -> dict[str, Any]:
        """Write the tables and texts of a phase; return the phase's entry for the manifest.

        If executors with unsaved data were lost, the phase is computed once more.
        """
        simulation, started = self._simulation, time.perf_counter()
        with self._work.progress.phase(phase.name):
            tables, texts = self._work.until_played(
                phase.name, lambda _: self._write(phase), simulation.release
            )
        took, names = time.perf_counter() - started, registered(phase, simulation)
        entry = phase_entry(phase.name, took, tables, texts, names)
        clock = simulation.clock_player if phase.name == "trees" else None
        return entry if clock is None else {**entry, "clock": clock}

    def _write(self, phase: Phase) -> tuple[dict[str, Any], dict[str, str]]:
        """Write the tables of a phase, in a thread, and its texts; return their records."""
        simulation, work = self._simulation, self._work
        writes: dict[str, Future[dict[str, Any]]] = {}
        try:
            with (
                Scope() as scope,
                concurrent_jobs(simulation.spark) as submit,
                closing(phase.tables(simulation, scope)) as made,
            ):
                for tables in made:
                    # from here on neither this phase nor those after it are complete
                    work.save(without_entries_from(work.manifest, phase.name))
                    written = dict.fromkeys(tables, submit(work.write_tables, tables))
                    simulation.saved.update(written)
                    writes |= written
                    for write in writes.values():
                        if write.done():
                            write.result()  # a failure ends the phase early
                records = {name: write.result()[name] for name, write in writes.items()}
        except BaseException:
            for table in writes:  # another attempt overwrites them, so it must not read them
                del simulation.saved[table]
            raise
        texts = {
            file: work.folder.write_json(file, value)
            for file, value in phase.texts(simulation).items()
        }
        return records, texts
