"""Section IV as a whole: every experiment over every topology, and what they are together.

Each (experiment, seed) is a run of its own in ``OUT/<experiment>/seed=<seed>/``, resumed like any
run; the experiments of a seed share its routes.  What they are together is made from their
`metrics.json` and `distributions`, and is at OUT's top.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from typing import Any

import pandas as pd
from pyspark.sql import SparkSession

from scribe_spark import schemas
from scribe_spark.config import Execution, Paper, RunConfig
from scribe_spark.errors import InputError
from scribe_spark.experiments.checks import check_out, check_previous, refuse_buckets
from scribe_spark.experiments.finished_run import Run
from scribe_spark.experiments.folder import Folder, StoredFolder
from scribe_spark.experiments.locations import inside, run_folder
from scribe_spark.experiments.manifest import MANIFEST, non_default, provenance
from scribe_spark.experiments.owner import PAPER
from scribe_spark.experiments.previous import (
    refuse_contents,
    refuse_other_config,
    refuse_other_version,
)
from scribe_spark.experiments.reporting import DELAYS
from scribe_spark.experiments.run import locked
from scribe_spark.experiments.run import run as run_one
from scribe_spark.experiments.simulation import Simulation
from scribe_spark.inputs import is_local
from scribe_spark.measures.published import Published, published
from scribe_spark.progress import Progress, Silent
from scribe_spark.report import difference, render
from scribe_spark.report.means import average_deviations, mean_distributions, over_seeds

__all__ = ["check", "run"]


@dataclasses.dataclass(frozen=True)
class _Measured:
    """Metrics, distributions and delays of the runs of one experiment, by seed."""

    metrics: dict[int, list[dict[str, Any]]] = dataclasses.field(default_factory=dict)
    distributions: dict[int, pd.DataFrame] = dataclasses.field(default_factory=dict)
    delays: dict[int, pd.DataFrame] = dataclasses.field(default_factory=dict)


def check(paper: Paper, execution: Execution) -> None:
    """Refuse, without Spark, an OUT or a run in it that cannot be gone on with or replaced.

    Raises
    ------
    InputError
    """
    refuse_buckets(execution)
    out = execution.out
    check_out(out, lambda folder: _refuse_previous(folder, paper, execution))
    if execution.overwrite or not is_local(out):
        return
    for runs in paper.runs().values():
        for name, config in runs.items():
            check_previous(config, inside(execution, run_folder(name, config.seed)))


def run(
    spark: SparkSession, paper: Paper, execution: Execution, progress: Progress | None = None
) -> str:
    """Run what is not complete yet, and write what all of it says together; the page's location.

    Parameters
    ----------
    execution : Execution
        With ``resume`` runs that are complete in OUT are kept; seeds and experiments may be more or
        fewer than before, and the means are over those asked for.

    Raises
    ------
    InputError
        OUT cannot be used, or is of another scale, config or version.
    """
    progress = progress or Silent()
    with Folder(spark, execution.out) as folder:
        _refuse_previous(folder, paper, execution)
        with locked(folder, progress):
            return _run(spark, folder, paper, execution, progress)


def _run(
    spark: SparkSession, folder: Folder, paper: Paper, execution: Execution, progress: Progress
) -> str:
    folder.make()
    if execution.overwrite:
        folder.clear(PAPER)
    manifest = _manifest(paper, execution, spark)
    folder.write_json(MANIFEST, manifest)
    measured = {name: _Measured() for name in paper.experiments}
    for name, done in _runs(spark, paper, execution, progress):
        seed = done.simulation.config.seed
        measured[name].metrics[seed] = done.metrics()
        measured[name].distributions[seed] = done.table("distributions").toPandas()
        measured[name].delays[seed] = done.table("group_delay").select(*DELAYS).toPandas()
        manifest["runs"].append(_entry(name, done))
        folder.write_json(MANIFEST, manifest)
    with progress.phase("paper"):
        return _write(spark, paper, folder, manifest, measured)


def _runs(
    spark: SparkSession, paper: Paper, execution: Execution, progress: Progress
) -> Iterator[tuple[str, Run]]:
    """Every run, seed by seed."""
    plan = paper.runs()
    total, number = sum(map(len, plan.values())), 0
    for seed, runs in plan.items():
        with ExitStack() as closing:
            first: Simulation | None = None
            for name, config in runs.items():
                number += 1
                progress.note(f"{name}, seed {seed}: run {number} of {total}")
                how = inside(execution, run_folder(name, seed))
                done = run_one(spark, config, how, progress=progress, shares=first)
                closing.callback(done.close)
                first = first or done.simulation
                yield name, done


# --- the manifest


def _refuse_previous(folder: StoredFolder, paper: Paper, execution: Execution) -> None:
    """Refuse a folder that is somebody else's, or of another scale or version.

    Raises
    ------
    InputError
    """
    out = execution.out
    previous = refuse_contents(folder, execution, PAPER)
    if previous is None:
        return
    try:
        scale, version = previous["resolved"]["scale"], previous["versions"]["scribe_spark"]
    except Exception:
        raise InputError("out", out, f"its {MANIFEST} cannot be read; use --overwrite") from None
    refuse_other_config({"scale": paper.scale}, {"scale": scale}, out)
    refuse_other_version("scribe_spark", version, out)


def _manifest(paper: Paper, execution: Execution, spark: SparkSession) -> dict[str, Any]:
    resolved, runs = paper.flat(), paper.runs()[1]
    return {
        "config": non_default(resolved, Paper().flat()),
        "resolved": resolved,
        "experiments": {
            name: non_default(config.flat(), RunConfig(seed=config.seed).flat())
            for name, config in runs.items()
        },
        **provenance(execution, spark),
        "runs": [],
    }


def _entry(name: str, done: Run) -> dict[str, Any]:
    """A run as the manifest has it: what it took when it was made."""
    phases = done.manifest()["phases"]
    return {
        "name": f"{name}, seed {done.simulation.config.seed}",
        "seconds": round(sum(phase["seconds"] for phase in phases), 3),
        "rows": sum(phase["rows"] for phase in phases),
    }


# --- all of it together


def _write(
    spark: SparkSession,
    paper: Paper,
    folder: Folder,
    manifest: dict[str, Any],
    measured: Mapping[str, _Measured],
) -> str:
    """Numbers, their tidy table, figures and page; the page's location."""
    drawn = _drawn(measured)
    known = {name: published(config) for name, config in paper.runs()[1].items()}
    metrics = [row for name, of in measured.items() for row in _rows(name, of, known[name])]
    tidy = [
        (name, seed, row["name"], None if row["value"] is None else float(row["value"]))
        for name, of in measured.items()
        for seed, rows in of.metrics.items()
        for row in rows
    ]
    table = schemas.local_table(spark, tidy, schemas.METRICS)
    manifest["tables"] = {"metrics": folder.write_table("metrics", table)}
    manifest["texts"] = {"metrics.json": folder.write_json("metrics.json", metrics)}
    summary = {
        **manifest,
        "resolved": {**manifest["resolved"], **manifest["experiments"]},
        "phases": manifest["runs"],
    }
    first = next(iter(measured.values()))  # whose delay penalties are drawn
    distributions = pd.concat(map(mean_distributions, drawn.values()))
    page = render(metrics, summary, distributions, delays=pd.concat(first.delays.values()))
    location = folder.write_page(page)
    folder.write_json(MANIFEST, manifest)
    return location


def _drawn(measured: Mapping[str, _Measured]) -> dict[str, list[pd.DataFrame]]:
    """Each experiment's distributions, one a topology, of the figures that none before it has."""
    drawn, taken = {}, set[str]()
    for name, of in measured.items():
        tables = list(of.distributions.values())
        mine = {figure for table in tables for figure in table["figure"]} - taken
        drawn[name] = [table[table["figure"].isin(mine)] for table in tables]
        taken |= mine
    return drawn


def _rows(name: str, of: _Measured, known: Mapping[str, Published]) -> Iterator[dict[str, Any]]:
    """An experiment's rows of `metrics.json`, with the differences in per cent."""
    tables = list(of.distributions.values())
    for row in (*over_seeds(of.metrics), *average_deviations(tables, known)):
        apart = difference(row["value"], row["paper"])
        yield {"experiment": name, **row, "difference": apart and apart.percent}
