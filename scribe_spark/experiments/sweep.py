"""Sweeps: every point of a plan is played, then one table and one page show all points.

:class:`Sweep` is a grid over a config's fields, with a run or a world at each point; all
differences between runs and worlds are in :class:`SweepKind`.  OUT holds a folder for each point
(``b=2,nodes=1000/``), ``sweep`` (Parquet, tidy rows: `sweep_rows`), ``sweep.html`` and a manifest
that says which grid it is.
"""

from __future__ import annotations

import csv
import hashlib
import itertools
import math
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, Protocol
from urllib.parse import quote

import pandas as pd
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import BooleanType, DoubleType, LongType, StringType, StructField, StructType

from scribe_spark import schemas
from scribe_spark.config import (
    RUN_FIELDS,
    WORLD_FIELDS,
    Execution,
    FieldRecord,
    RunConfig,
    WorldConfig,
)
from scribe_spark.core.errors import InputError, check_names, redacted
from scribe_spark.core.progress import Progress, Silent
from scribe_spark.experiments.checks import check, check_out
from scribe_spark.experiments.folder import SWEPT, Folder
from scribe_spark.experiments.manifest import (
    MANIFEST,
    SWEEP,
    WORLD_SWEEP,
    Owner,
    inside,
    join,
)
from scribe_spark.experiments.phases import REPORT, TABLE_PHASES
from scribe_spark.experiments.plan import Plan, settings_of
from scribe_spark.experiments.run import run
from scribe_spark.experiments.run_world import run_world
from scribe_spark.experiments.simulation import Simulation
from scribe_spark.experiments.steps import Work, closed_at_last, opened
from scribe_spark.experiments.world_setup import check_world_run
from scribe_spark.measures.coverage import coverage_units
from scribe_spark.measures.metrics import metric_definitions
from scribe_spark.report.sweep import MOST_LINES, render_sweep
from scribe_spark.systems.registry import all_systems, check_systems
from scribe_spark.worlds.summary import measure_of, measures_by_round, summarise, summary_units


class Swept(NamedTuple):
    """A finished sweep: its folder, its page, and its table with the columns of `sweep_rows`."""

    out: str
    page: str
    rows: DataFrame


class PlanOfPoints(Protocol):
    """The interface of plans of a sweep: its points, and what becomes of their results."""

    #: Returns what the whole sweep writes into its manifest: settings, defaults, points.
    def plan(self, execution: Execution) -> Plan: ...

    #: Refuses bad input that can be found without Spark, other than OUT.
    def check(self, execution: Execution) -> None: ...

    #: Plays every incomplete point; returns the results of all.
    def play_points(self, work: Work, execution: Execution) -> Any: ...

    #: Writes the tables and the page; returns the page's location, and the main table.
    def write(self, work: Work, results: Any) -> tuple[str, DataFrame]: ...


def check_sweep(sweep: PlanOfPoints, execution: Execution) -> None:
    """Refuse bad input that can be found without Spark, at any point."""
    check_out(sweep.plan(execution))
    sweep.check(execution)


def run_sweep(
    spark: SparkSession,
    sweep: PlanOfPoints,
    execution: Execution,
    progress: Progress | None = None,
) -> Swept:
    """Play every incomplete point, then write the table and the page."""
    with opened(spark, sweep.plan(execution), progress or Silent()) as work:
        results = sweep.play_points(work, execution)
        work.lock.check()
        return Swept(execution.out, *sweep.write(work, results))


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


# --- grids over the fields of a config


class PointResult(NamedTuple):
    """The metrics of a completed point, and a world's measures (columns) by round (rows)."""

    values: dict[str, float | None]
    rounds: pd.DataFrame | None = None


@dataclass(frozen=True)
class SweepKind:
    """A kind of sweep, over runs or over worlds, and what differs between the kinds."""

    #: The noun for a point, and the command of the sweep's folder.
    noun: str
    owner: Owner
    config: type[RunConfig] | type[WorldConfig]
    #: The settings that can be swept, by flat name.
    fields: Mapping[str, FieldRecord]
    #: The default metrics on the page.
    show: tuple[str, ...]
    #: The metric of the members that a system reaches, without the name of the system.
    reached: str
    #: Returns the unit of every possible metric of points with some configs, by name.
    units: Callable[[Sequence[Any]], dict[str, str]]
    #: Refuses bad input that can be found without Spark.
    check: Callable[[Any, Execution], None]
    #: Returns the result of a completed point.
    read: Callable[[Folder], PointResult]

    def value_kind(self, field: str) -> str:
        """Return the type of a setting's values: ``int``, ``float``, ``bool``, or else ``str``."""
        kind = self.fields[field].kind.name
        return kind if kind in ("int", "float", "bool") else "str"


# --- runs

#: The costs of a run: seconds of the phases that write tables, and their sum.  The report is left
#: out, as it is drawn again whenever a sweep continues.
_COSTS = {**{f"cost.{phase}.seconds": "s" for phase in TABLE_PHASES}, "cost.seconds": "s"}


def _run_units(configs: Sequence[RunConfig]) -> dict[str, str]:
    units = {name: metric.unit for name, metric in metric_definitions().items()} | _COSTS
    for config in configs:
        if config.coverage.on:
            of = coverage_units(config.coverage, config.bandwidth.several).items()
            units |= {f"{s.name}.{name}": unit for s in all_systems() for name, unit in of}
    return units


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
    reached="reached",
    units=_run_units,
    check=check,
    read=_read_run,
)


# --- worlds


def _world_units(configs: Sequence[WorldConfig]) -> dict[str, str]:
    return summary_units((one.coverage, one.bandwidth.several) for one in configs)


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
    reached="multicasts.reached.least",
    units=_world_units,
    check=check_world_run,
    read=_read_world,
)


def sweep_kind(config: type) -> SweepKind:
    """Return the kind of sweep for a class of configs."""
    return _WORLDS if issubclass(config, WorldConfig) else _RUNS


#: What names of swept fields are, in messages.
_FIELD = "sweep field"

#: Every point has a folder of its own, and a line of the page: more are a mistake.
MOST_POINTS = 10_000

_LONGEST = 200  # of a folder's name; file systems take 255


@dataclass(frozen=True)
class Point:
    """One run, or one world, of a sweep."""

    values: dict[str, Any]  # by swept field
    config: RunConfig | WorldConfig

    @property
    def name(self) -> str:
        """The name of the point's folder, ``field=value,...``, safe for any values."""
        name = ",".join(f"{field}={_safe(value)}" for field, value in self.values.items())
        if len(name) <= _LONGEST:
            return name
        return f"{name[: _LONGEST - 20]}~{hashlib.sha256(name.encode()).hexdigest()[:16]}"


@dataclass(frozen=True)
class Sweep:
    """A grid over config fields.

    `base` has the fields that are not swept.  `grid` has the values of each other field; the last
    field's values change first.  `show` are the metrics on the page, by default those of
    :attr:`kind`.
    """

    base: RunConfig | WorldConfig
    grid: Mapping[str, tuple[Any, ...]]
    show: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        _check_grid(self.grid, self.kind)
        check_names(dict.fromkeys(self.shown), self.units, "show")

    @classmethod
    def of(
        cls,
        file: Mapping[str, Any],
        flags: Mapping[str, Any],
        sets: Sequence[str],
        config: type[RunConfig] | type[WorldConfig] = RunConfig,
    ) -> Sweep:
        """Return a sweep of a TOML file, flags and ``--set field=value,value`` texts.

        The file has config fields, and the table ``sweep``: field -> list of values, and ``show``.
        Flags win over the file: a flag of a field that the file sweeps keeps it at one value.
        """
        fixed = {name: value for name, value in file.items() if name != "sweep"}
        table = file.get("sweep", {})
        if not isinstance(table, Mapping):
            raise InputError("sweep", table, "must be a table: [sweep], then b = [1, 2, 4]")
        kind = sweep_kind(config)
        fixed, flags = config.flat_values(fixed), config.flat_values(flags)
        lists = {name: given for name, given in table.items() if name != "show"}
        lists = config.flat_values(lists, _FIELD)
        listed = {name: _values(name, given, kind) for name, given in lists.items()}
        typed = _sets(sets, kind)
        for swept, given, where in ((listed, fixed, "[sweep]"), (typed, flags, "--set")):
            for name in swept:
                if name in given:
                    remedy = f"is in {where} too; leave one of them out"
                    raise InputError(name, given[name], remedy)
        grid = {name: values for name, values in listed.items() if name not in flags} | typed
        _check_grid(grid, kind)
        base = {name: value for name, value in {**fixed, **flags}.items() if name not in grid}
        first = config.of(base, {name: values[0] for name, values in grid.items()})
        show = _metrics(table["show"], kind) if "show" in table else None
        sweep = cls(first, grid, show)
        for point in sweep.points:  # the check of a world's events looks up other names
            if isinstance(point.config, RunConfig):
                check_systems(point.config.trees.variants, point.config.trees.systems)
        return sweep

    @property
    def kind(self) -> SweepKind:
        """The kind of the sweep, over runs or worlds."""
        return sweep_kind(type(self.base))

    @property
    def shown(self) -> tuple[str, ...]:
        """The metrics on the page."""
        return self.kind.show if self.show is None else self.show

    @cached_property
    def points(self) -> list[Point]:
        """Every point of the grid."""
        rows = itertools.product(*self.grid.values())
        found = [dict(zip(self.grid, row, strict=True)) for row in rows]
        return [Point(values, self.base.replace(**values)) for values in found]

    @cached_property
    def units(self) -> dict[str, str]:
        """The unit of every possible metric of the points, by name."""
        return self.kind.units([point.config for point in self.points])

    def as_dict(self) -> dict[str, Any]:
        """Return the names of the swept settings, and every setting; a swept one as a list."""
        swept = {name: list(values) for name, values in self.grid.items()}
        return {"sweep": list(swept), **settings_of(self.base)[0], **swept}

    # --- the points, as `run_sweep` plays them

    def plan(self, execution: Execution) -> Plan:
        """See `PlanOfPoints`.  The plan names no input files: the manifest of each point does."""
        resolved, (_, defaults) = self.as_dict(), settings_of(self.base)
        folders = [point.name for point in self.points]
        done = {"phases": [], "points": folders}
        about = {"seed": resolved["seed"], "inputs": {}}
        return Plan(self.kind.owner, execution, resolved, defaults, about, done, inner=folders)

    def check(self, execution: Execution) -> None:
        """Refuse bad input at any point of the grid."""
        for point in self.points:
            how = execution.replace(out=join(execution.out, point.name))
            self.kind.check(point.config, how)

    def play_points(self, work: Work, execution: Execution) -> dict[str, PointResult]:
        """Play every incomplete point; return the results of all by name."""
        configs = {point.name: point.config for point in self.points}
        results: dict[str, PointResult] = {}
        drawn = len(configs) <= MOST_LINES  # the rounds of more points would fill the memory
        for name, folder in play_inside(
            *(work.folder.spark, configs, execution, work.progress),
            lambda number, name: f"point {number} of {len(configs)}: {name}",
        ):
            done = self.kind.read(folder)
            results[name] = done if drawn else done._replace(rounds=None)
        return results

    def write(self, work: Work, results: dict[str, PointResult]) -> tuple[str, DataFrame]:
        """Write the table and the page; return the page's location, and the table."""
        schema = sweep_rows({name: self.kind.value_kind(name) for name in self.grid})
        cells = self._tidy(results, schema.names)
        manifest = {n: of for n, of in work.manifest.items() if n != "tables"}
        work.save(manifest)  # without the table until it is written again
        frame = schemas.local_table(work.folder.spark, cells, schema)
        records = work.write_tables({SWEPT: frame.coalesce(1)})
        played = {point.name: results[point.name].rounds for point in self.points}
        rounds = {name: of for name, of in played.items() if of is not None}
        shown = [*self.incomplete(results), *self.shown]
        measures = dict.fromkeys(measure_of(name) for name in shown) if rounds else {}
        page = render_sweep(
            cells,
            self.grid,
            {name: self.units[name] for name in shown},
            {point.name: tuple(point.values.values()) for point in self.points},
            manifest,
            self.kind.noun,
            rounds,
            {name: self.units[name] for name in measures},
        )
        location = work.folder.write_page(page, "sweep.html")
        work.save({**manifest, "tables": records})
        return location, work.folder.read_table(SWEPT)

    def incomplete(self, results: Mapping[str, PointResult]) -> list[str]:
        """Return the shown systems' metrics of reached members, where not all are reached.

        Other metrics of such a system mislead without this one.
        """
        systems = dict.fromkeys(name.partition(".")[0] for name in self.shown)
        metrics = [f"{system}.{self.kind.reached}" for system in systems]

        def is_below(metric: str) -> bool:
            values = (result.values.get(metric) for result in results.values())
            return any(value is not None and value < 1 for value in values)

        return [metric for metric in metrics if metric not in self.shown and is_below(metric)]

    def _tidy(self, results: dict[str, PointResult], columns: list[str]) -> pd.DataFrame:
        """Return the sweep's table: a row for each metric of each point, in order."""
        rows = [
            {**point.values, "seed": point.config.seed, "metric": metric, "value": value}
            for point in self.points
            for metric, value in results[point.name].values.items()
        ]
        cells = [tuple(row[name] for name in columns) for row in rows]
        return pd.DataFrame(cells, columns=columns)


_TYPES = {"int": LongType(), "float": DoubleType(), "str": StringType(), "bool": BooleanType()}


def sweep_rows(swept: Mapping[str, str]) -> StructType:
    """Return the columns of a sweep's table; a metric that a point does not have is NULL."""
    fields = {**swept, "seed": "int", "metric": "str", "value": "float"}
    return StructType([StructField(name, _TYPES[kind], True) for name, kind in fields.items()])


# --- the swept settings


def _check_grid(grid: Mapping[str, tuple[Any, ...]], kind: SweepKind) -> None:
    if not grid:
        raise InputError("sweep", "", "sweeps no field; name one, such as --set b=1,2,4")
    check_names(grid, kind.fields, _FIELD)
    points = math.prod(map(len, grid.values()))
    if points > MOST_POINTS:
        raise InputError("sweep", points, f"points are too many; must be at most {MOST_POINTS:,}")
    for name, values in grid.items():
        if not values:
            raise InputError(name, "", "needs at least one value, such as --set b=1,2,4")
        for place, value in enumerate(values):
            if isinstance(value, str) and redacted(value) != value:
                remedy = "contains a secret, which the name of the point's folder would show"
                raise InputError(name, value, remedy)
            if value in values[:place]:
                raise InputError(name, value, "is swept twice; leave one of them out")


def _sets(texts: Sequence[str], kind: SweepKind) -> dict[str, tuple[Any, ...]]:
    """Return the values in ``field=value,value`` texts, in which CSV's quotes are allowed."""
    grid: dict[str, tuple[Any, ...]] = {}
    for text in texts:
        name, equals, rest = text.partition("=")
        name = name.strip()
        if not (equals and name):
            raise InputError("set", text, "must be FIELD=VALUE,VALUE,..., such as b=1,2,4")
        if "." in name:
            (name,) = kind.config.flat_values({name: None}, _FIELD)
        check_names([name], kind.fields, _FIELD)
        if name in grid:
            raise InputError("set", text, f"sweeps {name} again; give all its values in one --set")
        try:
            (cells,) = csv.reader([rest], skipinitialspace=True, strict=True) if rest else [[]]
        except (csv.Error, ValueError):
            remedy = 'must be values separated by commas; put a value with a comma in "quotes"'
            raise InputError(name, rest, remedy) from None
        grid[name] = tuple(kind.fields[name].kind.parse(name, cell.strip()) for cell in cells)
    return grid


def _values(name: str, given: Any, kind: SweepKind) -> tuple[Any, ...]:
    """Return the values of a swept setting from its list in TOML; refuse anything but a list."""
    if not isinstance(given, list):
        raise InputError(name, given, "must be a list in [sweep], such as [1, 2, 4]")
    if kind.fields[name].kind.name == "list":
        return tuple(",".join(map(str, v)) or "plain" if isinstance(v, list) else v for v in given)
    real = kind.value_kind(name) == "float"
    return tuple(float(v) if real and type(v) is int else v for v in given)


def _metrics(given: Any, kind: SweepKind) -> tuple[str, ...]:
    if not isinstance(given, list) or not all(isinstance(name, str) for name in given):
        raise InputError("show", given, f'must be a list of metrics, such as ["{kind.show[0]}"]')
    return tuple(dict.fromkeys(given))


def _safe(value: Any) -> str:
    """Return a value as a part of a folder's name.

    Escapes are not ``%2F``, which some programs decode.
    """
    text = str(value).lower() if isinstance(value, bool) else str(value)
    return quote(text, safe="").replace("~", "%7E").replace("%", "~")
