"""The run of a world, round by round into a folder, resumable after any saved round.

The saved data (the state of every node, and all measures so far) is written into two slots in turn.
The manifest names the last complete one, so a world that is killed during a save continues from
the save before.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pandas as pd
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from scribe_spark import schemas
from scribe_spark.config import Execution, WorldConfig
from scribe_spark.core.progress import Progress, Silent
from scribe_spark.experiments.manifest import Manifest, names_of_save
from scribe_spark.experiments.reporting import latency_of
from scribe_spark.experiments.saved_knowledge import verify_saved_knowledge
from scribe_spark.experiments.simulation import Simulation
from scribe_spark.experiments.steps import Work, closed_at_last, opened
from scribe_spark.experiments.world_setup import (
    Engine,
    buckets_of,
    engine_of,
    make_world,
    plan_world,
    protocols_of,
)
from scribe_spark.measures.latency import (
    LATENCY_COLUMNS,
    collect_latencies,
    latency_counts,
    latency_rows,
)
from scribe_spark.measures.measure import PUBLICATION
from scribe_spark.measures.multicasts import BASELINES, UNICAST
from scribe_spark.report.page import Report
from scribe_spark.report.world import render_world
from scribe_spark.runtime.batches import Batches
from scribe_spark.systems.registry import SCRIBE, played_systems
from scribe_spark.systems.scribe.measures import all_told
from scribe_spark.worlds.drivers import EventFiles
from scribe_spark.worlds.events import written_events
from scribe_spark.worlds.save import VERSION
from scribe_spark.worlds.summary import publication_measures, system_of, with_zeros
from scribe_spark.worlds.world import World
from scribe_spark.worlds.world_state import Played

#: Seconds between two saves; in between, rounds are played in one job.  It is longer if a save
#: takes more than :data:`_QUICK` seconds.
SAVE_EVERY = 20.0
_QUICK = 2.0

#: The tables of `World` with rows of each round; a save has those of all rounds.
_BY_ROUND = ("publications", "watched_trees", "by_part")


def run_world(
    spark: SparkSession,
    config: WorldConfig,
    execution: Execution,
    progress: Progress | None = None,
    shares: Simulation | None = None,
    events: pa.Table | None = None,
) -> str:
    """Play the remaining rounds of a world; return the location of its page."""
    progress = progress or Silent()
    simulation = Simulation(spark, config, progress=progress, shares=shares)
    world = _WorldRun(simulation, config, execution, progress, events)
    plan = plan_world(config, execution)
    with closed_at_last(simulation), opened(spark, plan, progress, world.choose) as work:
        world.work = work
        work.until_played("rounds", world.play_from, simulation.release, world.saved_round)
        with progress.phase("report"):
            return world.finish()


class _WorldRun:
    """The command that plays a world: its rounds as a step, and the measures so far."""

    work: Work

    def __init__(
        self,
        simulation: Simulation,
        config: WorldConfig,
        execution: Execution,
        progress: Progress,
        events: pa.Table | None,
    ) -> None:
        self.simulation, self.config, self.events = simulation, config, events
        self.execution, self.progress = execution, progress
        self.buckets, self.engine = 1, Engine("tasks", "")
        self.measured: dict[int, dict[str, float]] = {}
        self.tables: dict[str, list[pd.DataFrame]] = {name: [] for name in _BY_ROUND}
        self.costs: dict[str, dict[str, int]] = {}
        #: The page, drawn while the tables of the last round are written, and its small tables.
        self.drawn: tuple[Report, dict[str, pd.DataFrame]] | None = None

    def choose(self, previous: Manifest | None) -> None:
        """Choose the buckets (those of the save, if there is one) and the engine of the rounds."""
        if self.config.knowledge is not None:
            verify_saved_knowledge(self.simulation.spark, self.config)
        saved = None if previous is None else previous["world"]["saved"]
        buckets = self.execution.buckets
        if buckets is None and saved is not None:
            buckets = int(saved.get("buckets", 1))
        if buckets is None:
            spark, engine = self.simulation.spark, self.execution.engine
            buckets = buckets_of(self.config, spark, engine)
            if buckets > 1:
                self.progress.note(f"rounds: nodes in {buckets} buckets")
        self.buckets = buckets
        self.engine = engine_of(self.execution.engine, self.simulation.spark, buckets)

    # --- the rounds

    def play_from(self, saved: int | None) -> None:
        """Play the rounds after a saved one (None: all rounds)."""
        if saved == self.config.world.rounds:
            self.progress.note("rounds: complete, skipped")
            return
        self.progress.note(self.engine.in_words())
        if saved is None:
            world = self._starts()
        else:
            self.simulation.saved["nodes"] = self.work.folder.read_table("nodes")
            self.progress.note(f"continues with round {saved}")
            world = self._saved_world()
        try:
            with self.progress.phase("rounds"):
                self._play(world)
        finally:
            world.release()

    def _starts(self) -> World:
        """Write the network and the events, and return the world before its first round."""
        self.measured, self.tables = {}, {name: [] for name in _BY_ROUND}
        self.simulation.saved.pop("nodes", None)  # the nodes are written again
        with self.progress.phase("start"), self.work.timed("start"):
            for line in self.simulation.graph.notes:
                self.progress.note(line)
            events = self.events
            if events is None:
                events = written_events(self.simulation.nodes, self.config)
            tables = {
                **self.simulation.network_tables,
                "nodes": self.simulation.written_nodes,
                "events": events,
            }
            records = self.work.write_tables(tables)
            self.events = None  # they may be large
            self.simulation.saved["nodes"] = self.work.folder.read_table("nodes")
            self.work.save(self.work.manifest | {"world": {"tables": records, "saved": None}})
            where = self.buckets, self.engine.name, self._event_files()
            return make_world(self.simulation, self.config, self._events(), None, *where)

    def saved_round(self) -> int | None:
        """Read the measures of the last save and return its round; None without a usable save."""
        saved = self._of_world["saved"]
        if saved is None:
            return None
        if saved.get("version") != VERSION:
            self.progress.note("an earlier version wrote the save: the world begins again")
            return None
        state, measures = names_of_save(saved)
        # `rounds` is always written again from the saved measures
        tables = {name: of for name, of in self._of_world["tables"].items() if name != "rounds"}
        record = {"tables": {**tables, state: saved["state"]}}
        record["texts"] = {measures: saved["measures"]}
        if not self.work.is_as_written("rounds", record):
            self.progress.note("the save is damaged: the world begins again")
            return None
        read = self.work.folder.read_json(measures)
        self.measured = {int(number): values for number, values in read["measures"].items()}
        self.tables = {name: [pd.DataFrame(read.get(name, {}))] for name in _BY_ROUND}
        return int(saved["number"])

    @property
    def _of_world(self) -> dict[str, Any]:
        """The entries of the world in the manifest."""
        return self.work.manifest["world"]

    def _saved_world(self) -> World:
        state, _ = names_of_save(self._of_world["saved"])
        return World.of_save(
            self.work.folder.read_table(state),
            self.work.folder.batches("nodes", schemas.NODES.names),
            self._events(),
            self.simulation.underlay,
            protocols_of(self.simulation, self.config),
            self.buckets,
            self.engine.name,
            self._event_files(),
        )

    def _events(self) -> DataFrame:
        return self.work.folder.read_table("events")

    def _event_files(self) -> EventFiles | None:
        files = self.work.folder.files_for_tasks("events")
        return None if files is None else EventFiles(files)

    def _play(self, world: World) -> None:
        last_saved, pause = time.monotonic(), SAVE_EVERY
        while world.number < self.config.world.rounds:
            began = time.monotonic()
            played = world.play(self.config.world.rounds, pause - (began - last_saved), self._tell)
            in_rounds = sum(each.seconds for each in played.values())
            self.work.seconds["rounds"] += in_rounds
            self.work.seconds["planning"] += max(0.0, time.monotonic() - began - in_rounds)
            self.measured |= {number: each.measures for number, each in played.items()}
            for name, tables in self.tables.items():
                tables.append(getattr(world, name))
            is_last = world.number == self.config.world.rounds
            if is_last or time.monotonic() - last_saved > pause:
                self._save(world)
                last_saved = time.monotonic()
                save = last_saved - began - in_rounds
                pause = SAVE_EVERY * max(1.0, save / _QUICK)

    def _tell(self, number: int, played: Played) -> None:
        live = int(played.measures["nodes.live"])
        cost = ""
        if played.costs is not None:
            cost = f", {played.costs.in_words()}"
            self.costs[str(number)] = vars(played.costs)
        self.progress.note(f"  round {number}: {live:,} live nodes, {played.seconds:.1f} s{cost}")

    def _save(self, world: World) -> None:
        before = self._of_world["saved"]
        slot = "odd" if before is not None and before["slot"] == "even" else "even"
        saved: dict[str, Any] = {"number": world.number, "buckets": self.buckets}
        saved |= {"version": VERSION, "slot": slot}
        state, measures = names_of_save(saved)
        is_last = world.number == self.config.world.rounds
        last: dict[str, Any] = world.last_tables if is_last else {}
        if is_last and self.config.write_knowledge:
            last["knowledge"] = world.knowledge
        if is_last and self.config.write_routing_table:
            last["routing_table"] = world.routing_rows
        last |= world.coverage_tables if is_last else {}
        if "deliveries" in last:
            last |= self._latency(world, last["deliveries"])
        with ThreadPoolExecutor(1) as beside:
            drawn = beside.submit(self._draw, last) if is_last else None
            records = self.work.write_tables({state: world.to_save, **last})
        saved["state"] = records.pop(state)
        self.drawn = None if drawn is None else drawn.result()
        tables = {name: table.to_dict("list") for name, table in self._so_far().items()}
        texts = {"measures": self.measured, **tables}
        saved["measures"] = self.work.write_json(measures, texts, indent=None)
        tables = {**self._of_world["tables"], **records}
        played = {"tables": tables, "saved": saved, "engine": self.engine._asdict()}
        played |= self._costs()
        self.work.save(self.work.manifest | {"world": played})

    def _costs(self) -> dict[str, Any]:
        """Return the mean costs of all rounds for the manifest; empty if rounds have none."""
        costs = {**self._of_world.get("costs", {}), **self.costs}
        return {"costs": costs} if costs else {}

    def _latency(self, world: World, deliveries: Batches) -> dict[str, pa.Table]:
        """Return the tables of latencies of the last round's publications."""
        systems = [SCRIBE, *BASELINES]
        if self.config.bandwidth.on:  # the clock has not played its copies
            systems.remove(UNICAST)
        published = world.published
        more = [] if published is None else [PUBLICATION]
        rows = deliveries.select([*LATENCY_COLUMNS, *more])
        found = collect_latencies(rows, systems, buckets=self.buckets)
        return {
            "latency": latency_rows(found, world.number - 1, published),
            "latency_counts": latency_counts(found),
        }

    def finish(self) -> str:
        """Write the tables of rounds and publications, and the page."""
        before = self._of_world["tables"]
        # without a drawn page, another process has played the last round
        page, small = self.drawn or self._draw(before)
        tables = before | self.work.write_tables(small)
        location = self.work.folder.write_page(page)
        world_entry = {**self._of_world, "tables": tables}
        self.work.save(self.work.with_seconds(self.work.manifest | {"world": world_entry}))
        return location

    def _small_tables(self) -> dict[str, pd.DataFrame]:
        so_far = self._so_far()
        measured = {number: dict(found) for number, found in self.measured.items()}
        for number, found in publication_measures(so_far["publications"]).items():
            measured[number] |= found
        tables = {"rounds": tidy(measured)}
        if self.config.groups.has_groups:
            tables["publications"] = so_far["publications"]
        if self.config.plays_scribe:
            tables["watched_trees"] = so_far["watched_trees"]
        if "by_part" in so_far:
            tables["rounds_by_part"] = so_far["by_part"]
        return tables

    def _draw(self, last: Mapping[str, Any]) -> tuple[Report, dict[str, pd.DataFrame]]:
        """Return the page, and the tables of all rounds, which are on the driver.

        `last` has the last round's tables, or the records of written ones.
        """

        def collect(name: str, columns: Sequence[str]) -> pa.Table:
            table = last[name]
            if isinstance(table, pa.Table):
                return table.select(list(columns))
            return self.work.folder.collect(name, columns)

        with self.work.timed("page"):
            tables = self._small_tables()
            manifest = {**self.work.manifest, "world": self._of_world | self._costs()}
            latency = latency_of(collect, manifest) if "latency_counts" in last else None
            rest = tables.get("watched_trees"), latency, tables.get("rounds_by_part")
            page = render_world(tables["rounds"], manifest, *rest)
            _ = page.files  # drawn here, beside the tables of the last round
            return page, tables

    @property
    def _is_split(self) -> bool:
        """True if measures are split by classes, regions or trees."""
        measured = self.config.bandwidth.on or self.config.coverage.on
        has_trees = any(system.several_trees for system in played_systems(self.config))
        of_trees = has_trees and self.config.bandwidth.several
        return of_trees or (measured and bool(self.simulation.node_parts))

    def _so_far(self) -> dict[str, pd.DataFrame]:
        """Return the tables of :data:`_BY_ROUND` of all rounds so far."""
        due = _together(self.tables["publications"], schemas.PUBLICATIONS.names)
        due = due.sort_values(["system", "round", "group"])
        whole = dict.fromkeys(("round", "group", *schemas.PUBLICATION_COUNTS), "int64")
        found = {
            "publications": due.astype(whole),
            "watched_trees": all_told(self.tables["watched_trees"]),
        }
        if self._is_split:
            names = schemas.ROUNDS_BY_PART.names
            found["by_part"] = _together(self.tables["by_part"], names)
        return found


def _together(tables: Collection[pd.DataFrame], columns: list[str]) -> pd.DataFrame:
    some = [found[columns] for found in tables if len(found)]
    return pd.concat(some, ignore_index=True) if some else pd.DataFrame(columns=columns)


def tidy(measured: Mapping[int, Mapping[str, float]]) -> pd.DataFrame:
    """Return the measures of rounds as the table `rounds`; see `with_zeros`."""
    rows = [
        (number, system_of(name), name, value)
        for number, measures in sorted(with_zeros(measured).items())
        for name, value in measures.items()
    ]
    return pd.DataFrame(rows, columns=schemas.ROUNDS.names)
