"""Phases over a folder: run, mark whole, resume, report.

The phases and what each leaves: topology (routers, links), overlay (nodes, on request
routing_table), trees (members, groups, tree_edges, deliveries), measures (node_stress,
link_stress, group_delay, metrics.json), report (report.html, figures).
"""

from __future__ import annotations

import dataclasses
import importlib.metadata
import json
import os
import platform
import time
from typing import Any

import pyspark
from pyspark.sql import DataFrame, SparkSession

from scribe_spark.config import Execution, InputError, RunConfig
from scribe_spark.experiments.folder import MANIFEST, Folder, refuse_contents, refuse_local
from scribe_spark.experiments.simulation import Simulation
from scribe_spark.inputs import is_local
from scribe_spark.progress import Progress, Silent
from scribe_spark.report import render
from scribe_spark.scribe import check_members
from scribe_spark.session import default_partitions, tuned
from scribe_spark.topology import load

__all__ = ["PHASES", "Run", "check", "report", "run"]

#: In order; each but the last leaves tables that the next ones read.
PHASES = ("topology", "overlay", "trees", "measures", "report")


@dataclasses.dataclass(frozen=True)
class Run:
    """A folder that a run has left.

    Attributes
    ----------
    out : str
    simulation : Simulation
        Every stage of the run as DataFrames, computed on demand.
    """

    out: str
    simulation: Simulation
    folder: Folder

    def table(self, name: str) -> DataFrame:
        """A table of the run, by its name in `schemas`."""
        return self.folder.read_table(name)

    def metrics(self) -> list[dict[str, Any]]:
        """`metrics.json`."""
        return self.folder.read_json("metrics.json")

    def manifest(self) -> dict[str, Any]:
        """`manifest.json`."""
        return self.folder.read_json(MANIFEST)


def check(config: RunConfig, execution: Execution) -> None:
    """Refuse bad input that can be told without Spark: topology, members, OUT.

    Raises
    ------
    InputError
    """
    if is_local(execution.out):
        refuse_local(execution.out, execution.resume, execution.overwrite)
    if not _needs_spark(config.topology):
        load(config)
    if config.members is not None and is_local(config.members):
        check_members(config)


def _needs_spark(topology: str) -> bool:
    named = topology == "transit-stub" or topology.startswith("topohub:")
    return not named and not is_local(topology)


def run(
    spark: SparkSession,
    config: RunConfig,
    execution: Execution,
    phases: tuple[str, ...] = PHASES,
    progress: Progress | None = None,
) -> Run:
    """Run phases of an experiment into `execution.out`.

    Parameters
    ----------
    phases : tuple of str
        Of :data:`PHASES`.  With ``execution.resume`` phases that are whole are not run again.

    Raises
    ------
    InputError
        OUT cannot be used, is of another config, or lacks the tables that a phase reads.
    """
    progress = progress or Silent()
    folder = Folder(spark, execution.out)
    manifest = _open(folder, config, execution, spark)
    done = {entry["name"]: entry for entry in manifest["phases"]}
    simulation = Simulation(spark, config, progress=progress)
    partitions = execution.partitions or default_partitions(spark, config.nodes)
    with tuned(spark, partitions):
        whole = True
        for name in PHASES[:-1]:
            whole = whole and name in done and _is_whole(folder, done[name])
            if whole:
                progress.note(f"{name}: whole already")
                _take(simulation, folder, done[name])
            elif name in phases:
                _run_phase(name, simulation, folder, manifest, progress)
                whole = True
            else:
                _refuse_gap(name, phases)
        if PHASES[-1] in phases:
            with progress.phase(PHASES[-1]):
                report(spark, execution.out)
    return Run(execution.out, simulation, folder)


def _refuse_gap(name: str, phases: tuple[str, ...]) -> None:
    later = [phase for phase in PHASES[PHASES.index(name) + 1 :] if phase in phases]
    if later:
        remedy = f"needs the tables of {name}, which are missing or damaged; run --phase {name}"
        raise InputError("phase", later[0], remedy)


def _run_phase(
    name: str, simulation: Simulation, folder: Folder, manifest: dict, progress: Progress
) -> None:
    # this phase's record and those of later ones no longer hold
    before = PHASES.index(name)
    manifest["phases"] = [e for e in manifest["phases"] if PHASES.index(e["name"]) < before]
    folder.write_json(MANIFEST, manifest)
    started, tables = time.perf_counter(), {}
    with progress.phase(name):
        for table, frame in simulation.phase(name):
            tables[table] = folder.write_table(table, frame)
            simulation.saved[table] = folder.read_table(table)
        if name == "measures":
            folder.write_json("metrics.json", simulation.numbers())
    seconds = round(time.perf_counter() - started, 3)
    rows = sum(record["rows"] for record in tables.values())
    entry = {"name": name, "seconds": seconds, "rows": rows, "tables": tables}
    manifest["phases"].append(entry)
    folder.write_json(MANIFEST, manifest)


def _is_whole(folder: Folder, entry: dict[str, Any]) -> bool:
    texts = ["metrics.json"] if entry["name"] == "measures" else []
    for text in texts:
        try:
            folder.read_json(text)
        except Exception:
            return False
    return all(folder.is_whole(table, record) for table, record in entry["tables"].items())


def _take(simulation: Simulation, folder: Folder, entry: dict[str, Any]) -> None:
    for table in entry["tables"]:
        simulation.saved[table] = folder.read_table(table)


def report(spark: SparkSession, out: str) -> str:
    """Draw the report of a run's folder; the page's location.

    Raises
    ------
    InputError
        The folder is not one of a finished run.
    """
    folder = Folder(spark, out)
    try:
        manifest, metrics = folder.read_json(MANIFEST), folder.read_json("metrics.json")
        spread = folder.read_table("distributions").toPandas()
    except Exception:
        remedy = "holds no finished run; make one with `scribe-spark run`"
        raise InputError("out", out, remedy) from None
    page = render(metrics, manifest, spread)
    for name, drawing in page.figures.items():
        folder.write_text(f"figures/{name}.svg", drawing)
    folder.write_text("report.html", page.html)
    return f"{out.rstrip('/')}/report.html"


# --- the manifest


def _open(
    folder: Folder, config: RunConfig, execution: Execution, spark: SparkSession
) -> dict[str, Any]:
    """The manifest to go on with: the folder's, or a new one."""
    refuse_contents(execution.out, folder.names(), execution.resume, execution.overwrite)
    if execution.resume and folder.exists(MANIFEST):
        try:
            manifest = folder.read_json(MANIFEST)
            resolved = manifest["resolved"]
            _ = [entry["tables"] for entry in manifest["phases"]]
        except Exception:
            remedy = "its manifest.json cannot be read; use --overwrite"
            raise InputError("out", execution.out, remedy) from None
        _refuse_other(config, resolved, execution.out)
        return manifest
    folder.make()
    folder.clear()
    manifest = _manifest(config, execution, spark)
    folder.write_json(MANIFEST, manifest)
    return manifest


def _refuse_other(config: RunConfig, resolved: dict[str, Any], out: str) -> None:
    ours = json.loads(json.dumps(config.as_dict()))
    names = [n for n in {**ours, **resolved} if ours.get(n) != resolved.get(n)]
    if names:
        name = names[0]
        remedy = f"{out} was made with {name} = {resolved.get(name)!r}; use that or another OUT"
        raise InputError(name, ours.get(name), remedy)


def _manifest(config: RunConfig, execution: Execution, spark: SparkSession) -> dict[str, Any]:
    resolved, usual = config.as_dict(), RunConfig().as_dict()
    return {
        "config": {name: value for name, value in resolved.items() if value != usual[name]},
        "resolved": resolved,
        "seed": config.seed,
        "execution": {
            "out": execution.out,
            "master": spark.sparkContext.master,
            "partitions": execution.partitions,
        },
        "versions": {
            "scribe_spark": importlib.metadata.version("scribe_spark"),
            "spark": spark.version,
            "pyspark": pyspark.__version__,
            "python": platform.python_version(),
            "java": spark._jvm.System.getProperty("java.version"),  # type: ignore[union-attr]
        },
        "machine": {"system": platform.platform(), "cores": os.cpu_count()},
        "phases": [],
    }
