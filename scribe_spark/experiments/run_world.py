"""Running a world: round by round into a folder, to be gone on with after any round that was saved.

What is needed to go on (what every node knows, and all measures so far) is saved in two places in
turn.  The manifest names the last that is complete, so a world that is killed while it saves goes
on from the save before.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import pandas as pd
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from scribe_spark import schemas
from scribe_spark.config import Execution, RunConfig, WorldConfig
from scribe_spark.errors import InputError
from scribe_spark.experiments.checks import refuse_local_lock
from scribe_spark.experiments.folder import Folder
from scribe_spark.experiments.locations import local_contents, probe_local
from scribe_spark.experiments.lock import Lock
from scribe_spark.experiments.manifest import MANIFEST, file_digest, non_default, provenance
from scribe_spark.experiments.previous import (
    refuse_contents,
    refuse_other_config,
    refuse_other_version,
)
from scribe_spark.experiments.run import locked
from scribe_spark.experiments.simulation import Simulation
from scribe_spark.inputs import is_local, local_path
from scribe_spark.pastry.living.rules import WorldRules
from scribe_spark.progress import Progress, Silent
from scribe_spark.report.world import render_world
from scribe_spark.runtime.blocks import materialise
from scribe_spark.runtime.settings import default_partitions, tuned
from scribe_spark.topology import check_routable, load, needs_spark
from scribe_spark.worlds import World, check_world, extent_of, world_events

__all__ = ["WORLD_OVERLAYS", "check_world_run", "make_world", "network_of", "run_world"]

#: How tables may be filled at the start of a world.
WORLD_OVERLAYS = ("perfect", "arrivals")

#: Seconds after which the next round that ends is saved.
_SAVE_EVERY = 20.0


# --- a world out of a config


def make_world(
    simulation: Simulation, config: WorldConfig, events: DataFrame | None = None
) -> World:
    """The world of a config before its first round; to be freed by its ``release``.

    Parameters
    ----------
    simulation : Simulation
        Of :func:`network_of` the config.
    events : DataFrame, optional
        `schemas.EVENTS`, where they have been made already.

    Examples
    --------
    >>> config = WorldConfig(nodes=1000, generator="mass-failure")
    >>> with Simulation(spark, network_of(config)) as simulation:
    ...     world = make_world(simulation, config)
    ...     print(world.step()["lookups.hops"])
    ...     world.lookups.where("NOT right").show()
    """
    return World.start(
        simulation.nodes,
        extent_of(config).initial,
        world_events(simulation.nodes, config) if events is None else events,
        simulation.underlay,
        _rules(config),
        config.world.lookups,
        config.overlay.kind,
    )


def network_of(config: WorldConfig) -> RunConfig:
    """A run's config with the same network and nodes."""
    flat, known = config.flat(), RunConfig().flat()
    given = config.given()
    return RunConfig(**{name: flat[name] for name in flat if name in known and name in given})


def _rules(config: WorldConfig) -> WorldRules:
    overlay, world = config.overlay, config.world
    return WorldRules(
        b=overlay.b,
        leaf_set=overlay.leaf_set,
        growth=overlay.growth,
        contact=overlay.contact,
        rows=overlay.rows,
        announce=overlay.announce,
        maintenance=overlay.maintenance,
        seed=config.seed,
        detection=world.detection,
        repair=world.repair,
        maintenance_period=world.maintenance_period,
    )


# --- refusals


def check_world_run(config: WorldConfig, execution: Execution) -> None:
    """Refuse bad input that can be found without Spark.

    Raises
    ------
    InputError
    """
    if is_local(execution.out):
        _previous(*local_contents(execution.out), config, execution)
        refuse_local_lock(execution.out)
        probe_local(execution.out)
    if config.overlay.kind not in WORLD_OVERLAYS:
        remedy = f"has no world; give one of {', '.join(WORLD_OVERLAYS)}"
        raise InputError("overlay", config.overlay.kind, remedy)
    if not needs_spark(config.topology.kind):
        check_routable(load(network_of(config)), config.topology.tie)
    check_world(config)


def _previous(
    names: Iterable[str], read: Callable[[str], str], config: WorldConfig, execution: Execution
) -> dict[str, Any] | None:
    """The manifest of the world to go on with; None where there is none or it is to be replaced."""
    out = execution.out
    manifest = refuse_contents(
        out, names, read, execution.resume, execution.overwrite, done="world"
    )
    if manifest is None:
        return None
    try:
        resolved, version = manifest["resolved"], manifest["versions"]["scribe_spark"]
        inputs, saved = dict(manifest["inputs"]), manifest["world"]["saved"]
        if saved is not None:
            int(saved["number"]), dict(saved["state"]), str(saved["measures"])
    except Exception:
        raise InputError("out", out, f"its {MANIFEST} cannot be read; use --overwrite") from None
    refuse_other_config(config.flat(), resolved, out)
    refuse_other_version("scribe_spark", version, out)
    for name, digest in _inputs(config).items():
        if inputs.get(name) != digest:
            remedy = f"has changed since {out} was made; use --overwrite or another OUT"
            raise InputError(name, config.flat()[name], remedy)
    return manifest


def _inputs(config: WorldConfig) -> dict[str, str]:
    path = config.world.events
    if path is None or not is_local(path):
        return {}
    return {"events": file_digest(local_path(path))}


# --- running


def run_world(
    spark: SparkSession,
    config: WorldConfig,
    execution: Execution,
    progress: Progress | None = None,
) -> str:
    """Play the rounds of a world that have not been played yet; the location of its page.

    Raises
    ------
    InputError
        OUT cannot be used, is in use, or is of another world; or the events cannot be.
    """
    progress = progress or Silent()
    simulation = Simulation(spark, network_of(config), progress=progress)
    try:
        with Folder(spark, execution.out) as folder, locked(folder, progress) as lock:
            partitions = execution.partitions or default_partitions(spark, config.overlay.nodes)
            with tuned(spark, partitions):
                return _WorldRun(folder, lock, simulation, config, progress).run(execution)
    finally:
        with suppress(Exception):  # the session may be ending by itself
            simulation.close()


@dataclass
class _WorldRun:
    """A world on its way: the folder, its manifest as it is there, measures so far."""

    folder: Folder
    lock: Lock
    simulation: Simulation
    config: WorldConfig
    progress: Progress
    manifest: dict[str, Any] = field(default_factory=dict)
    measured: dict[int, dict[str, float]] = field(default_factory=dict)

    def run(self, execution: Execution) -> str:
        names, read = self.folder.names(), self.folder.read_text
        previous = _previous(names, read, self.config, execution)
        if previous is None:
            self._open(execution)
        else:
            self.manifest = previous
        world = self._goes_on() or self._starts()
        try:
            with self.progress.phase("rounds"):
                self._play(world)
        finally:
            world.release()
        with self.progress.phase("report"):
            return self._finish()

    def _open(self, execution: Execution) -> None:
        resolved = self.config.flat()
        self.folder.make()
        self.folder.clear()
        self._save_manifest(
            {
                "config": non_default(resolved, WorldConfig().flat()),
                "resolved": resolved,
                "seed": self.config.seed,
                "inputs": _inputs(self.config),
                **provenance(execution, self.simulation.spark),
                "world": {"tables": {}, "saved": None},
            }
        )

    def _save_manifest(self, manifest: dict[str, Any]) -> None:
        self.lock.check()
        self.folder.write_json(MANIFEST, manifest)
        self.manifest = manifest

    def _starts(self) -> World:
        """The world before its first round, its network and events written."""
        self.measured = {}
        with self.progress.phase("start"):
            tables = {
                "routers": self.simulation.topology.routers(),
                "links": self.simulation.topology.links(),
                "nodes": self.simulation.nodes,
                "events": _as_written(world_events(self.simulation.nodes, self.config)),
            }
            records = {name: self.folder.write_table(name, t) for name, t in tables.items()}
            self.simulation.saved["nodes"] = self.folder.read_table("nodes")
            self._save_manifest(self.manifest | {"world": {"tables": records, "saved": None}})
            return make_world(self.simulation, self.config, self._events())

    def _goes_on(self) -> World | None:
        """The world as it was saved; None where it was not, or what was saved is damaged."""
        world = self.manifest["world"]
        saved = world["saved"]
        if saved is None:
            return None
        state, measures = _places(saved["number"])
        problems = [
            *(self.folder.verify_table(name, of) for name, of in world["tables"].items()),
            self.folder.verify_table(state, saved["state"]),
            self.folder.verify_text(measures, saved["measures"]),
        ]
        if any(problem is not None for problem in problems):
            self.progress.note("what was saved is not as written: begins again")
            return None
        read = self.folder.read_json(measures)
        self.measured = {int(number): values for number, values in read.items()}
        self.simulation.saved["nodes"] = self.folder.read_table("nodes")
        self.progress.note(f"goes on with round {saved['number']}")
        rows, _ = materialise(self.folder.read_table(state).coalesce(1))
        return World(
            rows,
            self._events(),
            self.simulation.underlay,
            _rules(self.config),
            self.config.world.lookups,
            saved["number"],
        )

    def _events(self) -> DataFrame:
        return self.folder.read_table("events").drop("group")

    def _play(self, world: World) -> None:
        last_saved = time.monotonic()
        while world.number < self.config.world.rounds:
            started, number = time.monotonic(), world.number
            self.measured[number] = world.step()
            live = int(self.measured[number]["nodes.live"])
            now = time.monotonic()
            self.progress.note(f"  round {number}: {live:,} live nodes, {now - started:.1f} s")
            is_last = world.number == self.config.world.rounds
            if is_last or now - last_saved > _SAVE_EVERY:
                self._save(world)
                last_saved = time.monotonic()

    def _save(self, world: World) -> None:
        state, measures = _places(world.number)
        self.lock.check()
        record = self.folder.write_table(state, world.state)
        digest = self.folder.write_json(measures, self.measured)
        saved = {"number": world.number, "state": record, "measures": digest}
        self._save_manifest(self.manifest | {"world": {**self.manifest["world"], "saved": saved}})

    def _finish(self) -> str:
        """Write the table of rounds and the page."""
        rows = tidy(self.measured)
        self.lock.check()
        table = schemas.local_table(self.simulation.spark, rows, schemas.ROUNDS)
        record = self.folder.write_table("rounds", table)
        tables = {**self.manifest["world"]["tables"], "rounds": record}
        page = render_world(rows, self.manifest)
        location = self.folder.write_page(page)
        world = {**self.manifest["world"], "tables": tables}
        self._save_manifest(self.manifest | {"world": world})
        return location


def _places(number: int) -> tuple[str, str]:
    """The table and the text that a save before round `number` goes to."""
    place = "even" if number % 2 == 0 else "odd"
    return f"state_{place}", f"measures_{place}.json"


def _as_written(events: DataFrame) -> DataFrame:
    """`schemas.WORLD_EVENTS`."""
    group = F.lit(None).cast("bigint").alias("group")
    return schemas.conform(events.withColumn("group", group), schemas.WORLD_EVENTS)


def tidy(measured: Mapping[int, Mapping[str, float]]) -> pd.DataFrame:
    """`schemas.ROUNDS` of the measures of rounds."""
    rows = [
        (number, schemas.PASTRY, name, value)
        for number, measures in sorted(measured.items())
        for name, value in measures.items()
    ]
    return pd.DataFrame(rows, columns=schemas.ROUNDS.names)
