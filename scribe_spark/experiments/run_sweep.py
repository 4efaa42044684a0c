"""Running a sweep: every point of its grid, then one table and one page of them all.

Points on the same network share its routes, and are run one after the other, so that the routes of
one network only take disk space at a time.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

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
from scribe_spark.errors import InputError
from scribe_spark.experiments.checks import check, refuse_local_lock
from scribe_spark.experiments.folder import Folder
from scribe_spark.experiments.locations import inside, join, local_contents, probe_local
from scribe_spark.experiments.manifest import MANIFEST, new_manifest
from scribe_spark.experiments.phases import REPORT
from scribe_spark.experiments.previous import previous_manifest
from scribe_spark.experiments.run import locked, run
from scribe_spark.experiments.simulation import Simulation
from scribe_spark.experiments.sweep import COSTS, KINDS, Point, Sweep
from scribe_spark.inputs import is_local
from scribe_spark.measures.metrics import metric_definitions
from scribe_spark.progress import Progress, Silent
from scribe_spark.report import render_sweep

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
    if is_local(execution.out):
        previous_manifest(*local_contents(execution.out), sweep.as_dict(), execution)
        refuse_local_lock(execution.out)
        probe_local(execution.out)
    for point in sweep.points:
        check(point.config, execution.replace(out=join(execution.out, point.name)))


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
    """
    progress = progress or Silent()
    with Folder(spark, execution.out) as folder:
        previous_manifest(folder.names(), folder.read_text, sweep.as_dict(), execution)
        with locked(folder, progress) as lock:
            _open(folder, sweep, execution)
            cells = _run_points(spark, sweep, execution, progress)
            lock.check()
            return Swept(execution.out, _write(folder, sweep, cells))


def _run_points(
    spark: SparkSession, sweep: Sweep, execution: Execution, progress: Progress
) -> pd.DataFrame:
    """Run every point, network by network; the rows of all, in the order of the points."""
    networks: dict[Hashable, list[Point]] = {}
    for point in sweep.points:
        networks.setdefault(point.config.network_key, []).append(point)
    rows: dict[str, list[dict[str, Any]]] = {}
    for points in networks.values():
        with ExitStack() as closing:
            first: Simulation | None = None
            for point in points:
                progress.note(f"point {len(rows) + 1} of {len(sweep.points)}: {point.name}")
                how = inside(execution, point.name)
                done = run(spark, point.config, how, progress=progress, shares=first)
                closing.callback(done.close)
                first = first or done.simulation
                rows[point.name] = list(_rows(point, done.metrics(), done.manifest()))
    schema = sweep_rows({name: KINDS[name] for name in sweep.grid})
    return pd.DataFrame(
        [
            tuple(row[name] for name in schema.names)
            for point in sweep.points
            for row in rows[point.name]
        ],
        columns=schema.names,
    )


def _write(folder: Folder, sweep: Sweep, cells: pd.DataFrame) -> DataFrame:
    """Write the table and the page of a sweep; the table."""
    schema = sweep_rows({name: KINDS[name] for name in sweep.grid})
    table = folder.write_rows("sweep", schemas.local_table(folder.spark, cells, schema))
    units = {name: metric.unit for name, metric in metric_definitions().items()} | COSTS
    page = render_sweep(
        cells,
        sweep.grid,
        {name: units[name] for name in sweep.show},
        {point.name: tuple(point.values.values()) for point in sweep.points},
        folder.read_json(MANIFEST),
    )
    folder.write_text("sweep.html", page)
    return table


def _open(folder: Folder, sweep: Sweep, execution: Execution) -> None:
    """Make OUT this sweep's, unless it is already."""
    previous = previous_manifest(folder.names(), folder.read_text, sweep.as_dict(), execution)
    if previous is not None:
        return
    folder.make()
    names = [point.name for point in sweep.points]
    for name in {*names, *_previous_points(folder)}:
        with Folder(folder.spark, join(execution.out, name)) as point:
            point.remove()
    folder.clear()
    manifest = new_manifest(sweep.base, execution, folder.spark)
    resolved = sweep.as_dict()
    given = {name: resolved[name] for name in [*manifest["config"], *sweep.grid]}
    # the inputs are each run's own to remember
    of_sweep = {"config": given, "resolved": resolved, "seed": resolved["seed"], "inputs": {}}
    folder.write_json(MANIFEST, {**manifest, **of_sweep, "points": names})


def _previous_points(folder: Folder) -> list[str]:
    """The points' folders of the sweep that was here; names that lead elsewhere are left out."""
    try:
        names = folder.read_json(MANIFEST)["points"]
        texts = [name for name in names if isinstance(name, str)]
        return [name for name in texts if "=" in name and not {"/", "\\"} & set(name)]
    except InputError:  # the storage does not answer
        raise
    except (FileNotFoundError, ValueError, KeyError, TypeError, RecursionError):
        return []  # there was none, or its manifest cannot be read


def _rows(
    point: Point, metrics: Sequence[Mapping[str, Any]], manifest: Mapping[str, Any]
) -> Iterator[dict[str, Any]]:
    """A row for each number of the run, and for what it cost."""
    took = {e["name"]: float(e["seconds"]) for e in manifest["phases"] if e["name"] != REPORT}
    values = {metric["name"]: metric["value"] for metric in metrics}
    values |= {f"cost.{phase}.seconds": seconds for phase, seconds in took.items()}
    values["cost.seconds"] = round(sum(took.values()), 3)
    at = {**point.values, "seed": point.config.seed}
    for name, value in values.items():
        yield {**at, "metric": name, "value": None if value is None else float(value)}


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
