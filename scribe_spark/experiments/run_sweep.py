"""Running a sweep: every point of its grid, then one table and one page of them all.

Points on the same network share its routes, and are run one after the other, so that the routes of
one network only take disk space at a time.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace

import pandas as pd
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import (
    BooleanType,
    DoubleType,
    LongType,
    StringType,
    StructField,
    StructType,
)

from scribe_spark import schemas
from scribe_spark.config import Execution
from scribe_spark.experiments.checks import check_out
from scribe_spark.experiments.folder import Folder
from scribe_spark.experiments.locations import inside, join
from scribe_spark.experiments.manifest import MANIFEST, non_default, provenance
from scribe_spark.experiments.previous import previous_manifest
from scribe_spark.experiments.run import locked
from scribe_spark.experiments.simulation import Simulation
from scribe_spark.experiments.sweep import Point, Sweep
from scribe_spark.experiments.sweep_kinds import PointResult
from scribe_spark.experiments.world_setup import network_of
from scribe_spark.progress import Progress, Silent
from scribe_spark.report import MOST_LINES, render_sweep
from scribe_spark.worlds.summary import measure_of

__all__ = ["Swept", "check_sweep", "run_sweep"]


@dataclass(frozen=True)
class Swept:
    """A folder that a sweep has left.

    Attributes
    ----------
    out : str
    rows : DataFrame
        `sweep_rows`, as saved.
    """

    out: str
    rows: DataFrame


def check_sweep(sweep: Sweep, execution: Execution) -> None:
    """Refuse bad input that can be found without Spark, at any point of the grid.

    Raises
    ------
    InputError
    """
    of = sweep.as_dict(), execution, sweep.kind.owner
    check_out(execution.out, lambda folder: previous_manifest(folder, *of))
    for point in sweep.points:
        sweep.kind.check(point.config, execution.replace(out=join(execution.out, point.name)))


def run_sweep(
    spark: SparkSession, sweep: Sweep, execution: Execution, progress: Progress | None = None
) -> Swept:
    """Run every point that is not complete yet, then write the table and the page.

    Raises
    ------
    InputError
        OUT cannot be used, is in use, or is of another sweep; or what a point's run refuses.
    RunError
        As a point's run.

    Examples
    --------
    >>> config = WorldConfig(nodes=2_000, generator="mass-failure", rounds=5)
    >>> sweep = Sweep(config, {"repair": ("lazy", "none")})
    >>> swept = run_sweep(spark, sweep, Execution(out="out/repair"))
    >>> swept.rows.where("metric = 'lookups.hops.last'").select("repair", "value").show()
    """
    progress = progress or Silent()
    with Folder(spark, execution.out) as folder:
        previous_manifest(folder, sweep.as_dict(), execution, sweep.kind.owner)
        with locked(folder, progress) as lock:
            _open(folder, sweep, execution)
            results = _run_points(spark, sweep, execution, progress)
            lock.check()
            return Swept(execution.out, _write(folder, sweep, results))


def _run_points(
    spark: SparkSession, sweep: Sweep, execution: Execution, progress: Progress
) -> dict[str, PointResult]:
    """Run every point, network by network; what each has left, by its folder."""
    networks: dict[Hashable, list[Point]] = {}
    for point in sweep.points:
        networks.setdefault(point.config.network_key, []).append(point)
    results: dict[str, PointResult] = {}
    drawn = len(sweep.points) <= MOST_LINES  # or the rounds of all points would fill the memory
    for points in networks.values():
        shared = Simulation(spark, network_of(points[0].config))
        try:
            for point in points:
                progress.note(f"point {len(results) + 1} of {len(sweep.points)}: {point.name}")
                how = inside(execution, point.name)
                done = sweep.kind.run(spark, point.config, how, progress, shared)
                results[point.name] = done if drawn else replace(done, rounds=None)
        finally:
            with suppress(Exception):  # the session may be ending by itself
                shared.close()
    return results


def _write(folder: Folder, sweep: Sweep, results: dict[str, PointResult]) -> DataFrame:
    """Write the table and the page of a sweep; the table."""
    schema = sweep_rows({name: sweep.kind.value_kind(name) for name in sweep.grid})
    cells = _tidy(sweep, results, schema.names)
    manifest = {n: of for n, of in folder.read_json(MANIFEST).items() if n != "tables"}
    folder.write_json(MANIFEST, manifest)  # until the table is there again
    frame = schemas.local_table(folder.spark, cells, schema)
    table, record = folder.write_rows("sweep", frame)
    units, names = sweep.kind.units(), [point.name for point in sweep.points]
    rounds = {name: of for name in names if (of := results[name].rounds) is not None}
    measures = dict.fromkeys(measure_of(name) for name in sweep.shown) if rounds else {}
    page = render_sweep(
        cells,
        sweep.grid,
        {name: units[name] for name in sweep.shown},
        {point.name: tuple(point.values.values()) for point in sweep.points},
        manifest,
        sweep.kind.noun,
        rounds,
        {name: units[name] for name in measures},
    )
    folder.write_text("sweep.html", page)
    folder.write_json(MANIFEST, {**manifest, "tables": {"sweep": record}})
    return table


def _tidy(sweep: Sweep, results: dict[str, PointResult], columns: list[str]) -> pd.DataFrame:
    """`sweep_rows`, in the order of the points."""
    rows = []
    for point in sweep.points:
        at = {**point.values, "seed": point.config.seed}
        for metric, value in results[point.name].values.items():
            row = {**at, "metric": metric, "value": value}
            rows.append(tuple(row[name] for name in columns))
    return pd.DataFrame(rows, columns=columns)


def _open(folder: Folder, sweep: Sweep, execution: Execution) -> None:
    """Make OUT this sweep's, unless it is already."""
    previous = previous_manifest(folder, sweep.as_dict(), execution, sweep.kind.owner)
    if previous is not None:
        return
    folder.make()
    names = [point.name for point in sweep.points]
    folder.clear(sweep.kind.owner, names)
    resolved = sweep.as_dict()
    given = non_default(sweep.base.flat(), type(sweep.base)().flat())
    manifest = {
        "config": {name: resolved[name] for name in [*given, *sweep.grid]},
        "resolved": resolved,
        "seed": resolved["seed"],
        "inputs": {},  # each point remembers its own
        **provenance(execution, folder.spark),
        "phases": [],
        "points": names,
    }
    folder.write_json(MANIFEST, manifest)


_TYPES = {"int": LongType(), "float": DoubleType(), "str": StringType(), "bool": BooleanType()}


def sweep_rows(swept: Mapping[str, str]) -> StructType:
    """A sweep's rows: each swept field, the seed, and one metric's value (NULL: there is none).

    Parameters
    ----------
    swept : mapping
        Field -> ``int``, ``float``, ``str`` or ``bool``.
    """
    fields = {**swept, "seed": "int", "metric": "str", "value": "float"}
    return StructType([StructField(name, _TYPES[kind], True) for name, kind in fields.items()])
