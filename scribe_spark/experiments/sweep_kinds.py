"""The kinds of sweeps, over runs and over worlds: all that differs between the two."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd

from scribe_spark.config import (
    RUN_FIELDS,
    WORLD_FIELDS,
    Execution,
    FieldRecord,
    RunConfig,
    WorldConfig,
)
from scribe_spark.experiments.checks import check
from scribe_spark.experiments.folder import Folder
from scribe_spark.experiments.manifest import MANIFEST
from scribe_spark.experiments.owner import SWEEP, WORLD_SWEEP, Owner
from scribe_spark.experiments.phases import REPORT, TABLE_PHASES
from scribe_spark.experiments.world_setup import check_world_run
from scribe_spark.measures.metrics import metric_definitions
from scribe_spark.systems import check_systems
from scribe_spark.worlds.summary import measures_by_round, summarise, summary_units


@dataclass(frozen=True)
class PointResult:
    """The numbers of a point that has been run, and its rounds if it is a world.

    Attributes
    ----------
    values : dict
        Metric -> value; None where there is none.
    rounds : DataFrame, optional
        Of a world: a row for each round, a column for each measure.
    """

    values: dict[str, float | None]
    rounds: pd.DataFrame | None = None


@dataclass(frozen=True)
class SweepKind:
    """A kind of sweep.

    Attributes
    ----------
    noun : str
        What a point is: ``run`` or ``world``.
    owner : Owner
        The command that the folder of the sweep belongs to.
    config : type
        The config of a point.
    fields : mapping of str to FieldRecord
        What can be swept, by flat name.
    show : tuple of str
        The metrics on the page, unless the user says which.
    units : callable
        () -> unit of every metric that a point may have, by its name.
    check_names : callable
        config -> None; refuses what only a registry can say to be unknown.  It reads no file.
    check : callable
        (config, execution) -> None; refuses what can be found without Spark.
    read : callable
        The folder of a point that has been run -> PointResult.
    """

    noun: str
    owner: Owner
    config: type[RunConfig] | type[WorldConfig]
    fields: Mapping[str, FieldRecord]
    show: tuple[str, ...]
    units: Callable[[], dict[str, str]]
    check_names: Callable[[Any], None]
    check: Callable[[Any, Execution], None]
    read: Callable[[Folder], PointResult]

    def value_kind(self, field: str) -> str:
        """``int``, ``float``, ``str`` or ``bool``; lists and quantities are swept as texts."""
        kind = self.fields[field].kind.name
        return kind if kind in ("int", "float", "bool") else "str"


# --- runs

#: What a run costs: seconds of the phases that leave tables, and their sum.  The report's are left
#: out: it is drawn again whenever a sweep goes on.
_COSTS = {**{f"cost.{phase}.seconds": "s" for phase in TABLE_PHASES}, "cost.seconds": "s"}


def _run_units() -> dict[str, str]:
    return {name: metric.unit for name, metric in metric_definitions().items()} | _COSTS


def _check_run_names(config: RunConfig) -> None:
    check_systems(config.trees.variants, config.trees.systems)


def _read_run(folder: Folder) -> PointResult:
    metrics, manifest = folder.read_json("metrics.json"), folder.read_json(MANIFEST)
    took = {e["name"]: float(e["seconds"]) for e in manifest["phases"] if e["name"] != REPORT}
    values = {m["name"]: None if m["value"] is None else float(m["value"]) for m in metrics}
    values |= {f"cost.{phase}.seconds": seconds for phase, seconds in took.items()}
    return PointResult(values | {"cost.seconds": round(sum(took.values()), 3)})


_RUNS = SweepKind(
    noun="run",
    owner=SWEEP,
    config=RunConfig,
    fields=RUN_FIELDS,
    show=(
        "pastry.hops.mean",
        "pastry.table_entries.mean",
        "scribe.rad.median",
        "scribe.rad.largest",
        "scribe.rmd.median",
        "scribe.children_entries.mean",
        "scribe.children_entries.max",
        "scribe.link_stress.mean_existing",
        "scribe.link_stress.max",
        "cost.seconds",
    ),
    units=_run_units,
    check_names=_check_run_names,
    check=check,
    read=_read_run,
)


# --- worlds


def _check_world_names(_: WorldConfig) -> None:
    """Generators and overlays are looked up when a world's events are checked."""


def _read_world(folder: Folder) -> PointResult:
    rounds = measures_by_round(folder.read_table("rounds").toPandas())
    return PointResult(summarise(rounds), rounds)


_WORLDS = SweepKind(
    noun="world",
    owner=WORLD_SWEEP,
    config=WorldConfig,
    fields=WORLD_FIELDS,
    show=(
        "lookups.hops",
        "lookups.hops.last",
        "lookups.delivered.least",
        "lookups.lost",
        "leaf_sets.right.least",
        "cells.missing.last",
        "cells.delay.last",
        "nodes.live.last",
    ),
    units=summary_units,
    check_names=_check_world_names,
    check=check_world_run,
    read=_read_world,
)


def sweep_kind(config: type) -> SweepKind:
    """The kind of sweep whose points have such a config."""
    return _WORLDS if issubclass(config, WorldConfig) else _RUNS
