"""The kinds of sweeps, over runs and over worlds, with all differences between the two."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

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
from scribe_spark.worlds.summary import measures_by_round, summarise, summary_units


class PointResult(NamedTuple):
    """The metrics of a completed point, and a world's rounds: a row for each round, a column for
    each measure.
    """

    values: dict[str, float | None]
    rounds: pd.DataFrame | None = None


@dataclass(frozen=True)
class SweepKind:
    """A kind of sweep."""

    #: The noun for a point, and the command of the sweep's folder.
    noun: str
    owner: Owner
    config: type[RunConfig] | type[WorldConfig]
    #: The settings that can be swept, by flat name.
    fields: Mapping[str, FieldRecord]
    #: The default metrics on the page.
    show: tuple[str, ...]
    #: Returns the unit of every possible metric of a point, by name.
    units: Callable[[], dict[str, str]]
    #: Refuses bad input that can be found without Spark.
    check: Callable[[Any, Execution], None]
    #: Returns the result of a completed point.
    read: Callable[[Folder], PointResult]

    def value_kind(self, field: str) -> str:
        """Return ``int``, ``float``, ``str`` or ``bool``; lists and quantities are
        swept as texts.
        """
        kind = self.fields[field].kind.name
        return kind if kind in ("int", "float", "bool") else "str"


# --- runs

#: The costs of a run: seconds of the phases that write tables, and their sum.  The report is left
#: out, as it is drawn again whenever a sweep continues.
_COSTS = {**{f"cost.{phase}.seconds": "s" for phase in TABLE_PHASES}, "cost.seconds": "s"}


def _run_units() -> dict[str, str]:
    return {name: metric.unit for name, metric in metric_definitions().items()} | _COSTS


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
    check=check,
    read=_read_run,
)


# --- worlds


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
    check=check_world_run,
    read=_read_world,
)


def sweep_kind(config: type) -> SweepKind:
    """Return the kind of sweep for a class of configs."""
    return _WORLDS if issubclass(config, WorldConfig) else _RUNS
