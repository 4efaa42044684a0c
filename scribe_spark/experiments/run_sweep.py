"""The run of a sweep: every point of its plan, then one table and one page about all points."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import pandas as pd
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import BooleanType, DoubleType, LongType, StringType, StructField, StructType

from scribe_spark import schemas
from scribe_spark.config import Execution, RunConfig, WorldConfig
from scribe_spark.core.progress import Progress, Silent
from scribe_spark.experiments.checks import check_out
from scribe_spark.experiments.folder import Folder
from scribe_spark.experiments.manifest import inside, join
from scribe_spark.experiments.plan import Plan, settings_of
from scribe_spark.experiments.run import run
from scribe_spark.experiments.run_world import run_world
from scribe_spark.experiments.simulation import Simulation
from scribe_spark.experiments.steps import Work, closed_at_last, opened
from scribe_spark.experiments.sweep import PointResult, Sweep
from scribe_spark.report.sweep import MOST_LINES, render_sweep
from scribe_spark.worlds.summary import measure_of


class Swept(NamedTuple):
    """A finished sweep: its folder, its page, and its table with the columns of `sweep_rows`."""

    out: str
    page: str
    rows: DataFrame


class PlanOfPoints(Protocol):
    """The interface of plans of a sweep: its points, and what becomes of their results.

    `nodes` is the greatest number of nodes, if Spark's settings are for all points; None if each
    has its own.  `folders` are the names of the points that have folders in OUT.
    """

    @property
    def nodes(self) -> int | None: ...
    @property
    def folders(self) -> Iterable[str]: ...

    #: Returns what the whole sweep writes into its manifest: settings, defaults, points.
    def plan(self, execution: Execution) -> Plan: ...

    #: Refuses bad input that can be found without Spark, other than OUT.
    def check(self, execution: Execution) -> None: ...

    #: Plays every incomplete point; returns the results of all.
    def play_points(self, work: Work, execution: Execution) -> Any: ...

    #: Writes the tables and the page; returns the page's location, and the main table.
    def write(self, work: Work, results: Any) -> tuple[str, DataFrame]: ...


def check_sweep(sweep: Sweep | PlanOfPoints, execution: Execution) -> None:
    """Refuse bad input that can be found without Spark, at any point."""
    points = _Grid(sweep) if isinstance(sweep, Sweep) else sweep
    check_out(points.plan(execution))
    points.check(execution)


def run_sweep(
    spark: SparkSession,
    sweep: Sweep | PlanOfPoints,
    execution: Execution,
    progress: Progress | None = None,
) -> Swept:
    """Play every incomplete point, then write the table and the page."""
    points = _Grid(sweep) if isinstance(sweep, Sweep) else sweep
    plan, progress = points.plan(execution), progress or Silent()
    with opened(spark, plan, progress, nodes=points.nodes, inner=points.folders) as work:
        results = points.play_points(work, execution)
        work.lock.check()
        return Swept(execution.out, *points.write(work, results))


@dataclass(frozen=True)
class _Grid:
    """A plan: a grid over a config's fields; each point is a run or a world in a folder of OUT."""

    sweep: Sweep
    nodes: None = None

    @property
    def folders(self) -> list[str]:
        return [point.name for point in self.sweep.points]

    def plan(self, execution: Execution) -> Plan:
        """See `PlanOfPoints`.  The plan names no input files: the manifest of each point does."""
        resolved, (_, defaults) = self.sweep.as_dict(), settings_of(self.sweep.base)
        done = {"phases": [], "points": self.folders}
        about = {"seed": resolved["seed"], "inputs": {}}
        return Plan(self.sweep.kind.owner, execution, resolved, defaults, about, done)

    def check(self, execution: Execution) -> None:
        """Refuse bad input at any point of the grid."""
        for point in self.sweep.points:
            how = execution.replace(out=join(execution.out, point.name))
            self.sweep.kind.check(point.config, how)

    def play_points(self, work: Work, execution: Execution) -> dict[str, PointResult]:
        configs = {point.name: point.config for point in self.sweep.points}
        results: dict[str, PointResult] = {}
        drawn = len(configs) <= MOST_LINES  # the rounds of more points would fill the memory
        for name, folder in play_inside(
            *(work.folder.spark, configs, execution, work.progress),
            lambda number, name: f"point {number} of {len(configs)}: {name}",
        ):
            done = self.sweep.kind.read(folder)
            results[name] = done if drawn else done._replace(rounds=None)
        return results

    def write(self, work: Work, results: dict[str, PointResult]) -> tuple[str, DataFrame]:
        sweep = self.sweep
        schema = sweep_rows({name: sweep.kind.value_kind(name) for name in sweep.grid})
        cells = _tidy(sweep, results, schema.names)
        manifest = {n: of for n, of in work.manifest.items() if n != "tables"}
        work.save(manifest)  # without the table until it is written again
        frame = schemas.local_table(work.folder.spark, cells, schema)
        table, record = work.folder.write_rows("sweep", frame)
        units = sweep.units
        rounds = {name: of for name in self.folders if (of := results[name].rounds) is not None}
        shown = [*_incomplete(sweep, results), *sweep.shown]
        measures = dict.fromkeys(measure_of(name) for name in shown) if rounds else {}
        page = render_sweep(
            cells,
            sweep.grid,
            {name: units[name] for name in shown},
            {point.name: tuple(point.values.values()) for point in sweep.points},
            manifest,
            sweep.kind.noun,
            rounds,
            {name: units[name] for name in measures},
        )
        location = work.folder.write_page(page, "sweep.html")
        work.save({**manifest, "tables": {"sweep": record}})
        return location, table


def _incomplete(sweep: Sweep, results: Mapping[str, PointResult]) -> list[str]:
    """Return the shown systems' metrics of reached members, where not all are reached.

    Other metrics of such a system mislead without this one.
    """
    systems = dict.fromkeys(name.partition(".")[0] for name in sweep.shown)
    metrics = [f"{system}.{sweep.kind.reached}" for system in systems]

    def is_below(metric: str) -> bool:
        values = (result.values.get(metric) for result in results.values())
        return any(value is not None and value < 1 for value in values)

    return [metric for metric in metrics if metric not in sweep.shown and is_below(metric)]


def _tidy(sweep: Sweep, results: dict[str, PointResult], columns: list[str]) -> pd.DataFrame:
    """Return the sweep's table: a row for each metric of each point, in the order of the points."""
    rows = []
    for point in sweep.points:
        at = {**point.values, "seed": point.config.seed}
        for metric, value in results[point.name].values.items():
            row = {**at, "metric": metric, "value": value}
            rows.append(tuple(row[name] for name in columns))
    return pd.DataFrame(rows, columns=columns)


_TYPES = {"int": LongType(), "float": DoubleType(), "str": StringType(), "bool": BooleanType()}


def sweep_rows(swept: Mapping[str, str]) -> StructType:
    """Return the columns of a sweep's table; a metric that a point does not have is NULL."""
    fields = {**swept, "seed": "int", "metric": "str", "value": "float"}
    return StructType([StructField(name, _TYPES[kind], True) for name, kind in fields.items()])


def play_inside(
    spark: SparkSession,
    configs: Mapping[str, RunConfig | WorldConfig],
    execution: Execution,
    progress: Progress,
    title: Callable[[int, str], str],
) -> Iterator[tuple[str, Folder]]:
    """Complete each run or world; yield its name and its folder.

    `configs` has the configs by name; ``title(number, name)`` is the line that announces one.

    Runs on the same network share its routes, and follow one another, so that only the routes of
    one network take disk space at a time.
    """
    networks: dict[Hashable, list[str]] = {}
    for name, config in configs.items():
        networks.setdefault(config.network_key, []).append(name)
    number = 0
    for names in networks.values():
        with closed_at_last(Simulation(spark, configs[names[0]])) as shared:
            for name in names:
                number += 1
                progress.note(title(number, name))
                config, how = configs[name], inside(execution, name)
                if isinstance(config, WorldConfig):
                    run_world(spark, config, how, progress, shared)
                else:
                    run(spark, config, how, progress=progress, shares=shared).close()
                with Folder(spark, how.out) as folder:
                    yield name, folder
