"""Phases over a folder: run, mark whole, resume, report.

The phases and what each leaves: topology (routers, links), overlay (nodes, on request
routing_table), trees (members, groups, tree_edges, deliveries), measures (node_stress,
link_stress, group_delay, metrics.json), report (report.html, figures).

A phase is whole when the manifest has its record and every table and text still has the digest
recorded there.  The record is dropped before the phase touches a table and written after the last.
"""

from __future__ import annotations

import dataclasses
import hashlib
import importlib.metadata
import json
import os
import platform
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pyspark
from pyspark.sql import DataFrame, SparkSession

from scribe_spark.config import Execution, RunConfig
from scribe_spark.errors import InputError
from scribe_spark.experiments.folder import (
    MANIFEST,
    Folder,
    local_contents,
    probe_local,
    refuse_contents,
)
from scribe_spark.experiments.phases import PHASES, REPORT, TABLE_PHASES
from scribe_spark.experiments.simulation import Simulation
from scribe_spark.inputs import is_local, local_path
from scribe_spark.pastry.registry import check_overlay
from scribe_spark.progress import Progress, Silent
from scribe_spark.report import render
from scribe_spark.runtime.jvm import java_version
from scribe_spark.runtime.settings import default_partitions, tuned
from scribe_spark.scribe import check_capacities, check_members
from scribe_spark.topology import check_routable, is_path, load, needs_spark

__all__ = ["Run", "check", "report", "run"]


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
        check_former(config, execution)
        probe_local(execution.out)
    if not needs_spark(config.topology.kind):
        check_routable(load(config), config.tie)
    check_overlay(config.overlay)
    if config.members is not None and is_local(config.members):
        check_members(config)
    if config.capacities is not None and is_local(config.capacities):
        check_capacities(config)


def check_former(config: RunConfig, execution: Execution) -> None:
    """Refuse a local OUT that holds what the run cannot go on with or replace.

    Raises
    ------
    InputError
    """
    _former(*local_contents(execution.out), config, execution)


def run(
    spark: SparkSession,
    config: RunConfig,
    execution: Execution,
    phases: tuple[str, ...] = PHASES,
    progress: Progress | None = None,
    shares: Simulation | None = None,
) -> Run:
    """Run phases of an experiment into `execution.out`.

    Parameters
    ----------
    phases : tuple of str
        Of :data:`PHASES`.  With ``execution.resume`` phases that are whole are not run again.
    shares : Simulation, optional
        One of the same session: its routes are taken where the network is the same.

    Raises
    ------
    InputError
        OUT cannot be used, is of another config, or lacks the tables that a phase reads.
    """
    progress = progress or Silent()
    folder = Folder(spark, execution.out)
    manifest = _open(folder, config, execution, phases, spark)
    done = {entry["name"]: entry for entry in manifest["phases"]}
    simulation = Simulation(spark, config, progress=progress, shares=shares)
    partitions = execution.partitions or default_partitions(spark, config.nodes)
    with tuned(spark, partitions):
        usable = True  # all tables so far are those that the next phase's record was made from
        for name in TABLE_PHASES:
            if usable and name in done and _is_whole(folder, done[name]):
                progress.note(f"{name}: whole already")
                _take(simulation, folder, done[name])
                _record(folder, manifest, done[name])
            elif name in phases:
                entry = _run_phase(name, simulation, folder, manifest, progress)
                usable = name in done and _left(entry) == _left(done[name])
            else:
                _refuse_gap(name, phases)
                usable = False
        if REPORT in phases:
            started = time.perf_counter()
            with progress.phase(REPORT):
                report(spark, execution.out)
            _record(folder, manifest, _entry(REPORT, started, {}, {}))
    return Run(execution.out, simulation, folder)


def _refuse_gap(name: str, phases: tuple[str, ...]) -> None:
    later = [phase for phase in PHASES[PHASES.index(name) + 1 :] if phase in phases]
    if later:
        remedy = f"needs the tables of {name}, which are missing or damaged; run --phase {name}"
        raise InputError("phase", later[0], remedy)


def _run_phase(
    name: str, simulation: Simulation, folder: Folder, manifest: dict, progress: Progress
) -> dict[str, Any]:
    # this phase's record and those of later ones no longer hold
    before = PHASES.index(name)
    manifest["phases"] = [e for e in manifest["phases"] if PHASES.index(e["name"]) < before]
    folder.write_json(MANIFEST, manifest)
    started, tables, texts = time.perf_counter(), {}, {}
    phase = TABLE_PHASES[name]
    with progress.phase(name):
        for table, frame in phase.tables(simulation):
            tables[table] = folder.write_table(table, frame)
            simulation.saved[table] = folder.read_table(table, frame.schema)
        for file, value in phase.texts(simulation).items():
            texts[file] = folder.write_json(file, value)
    entry = _entry(name, started, tables, texts)
    _record(folder, manifest, entry)
    return entry


def _entry(name: str, started: float, tables: dict, texts: dict) -> dict[str, Any]:
    """A phase as the manifest has it."""
    seconds = round(time.perf_counter() - started, 3)
    rows = sum(record["rows"] for record in tables.values())
    return {"name": name, "seconds": seconds, "rows": rows, "tables": tables, "texts": texts}


def _record(folder: Folder, manifest: dict, entry: dict[str, Any]) -> None:
    """Put a phase's entry in its place in the manifest, unless it is there."""
    if entry in manifest["phases"]:
        return
    others = [e for e in manifest["phases"] if e["name"] != entry["name"]]
    manifest["phases"] = sorted([*others, entry], key=lambda e: PHASES.index(e["name"]))
    folder.write_json(MANIFEST, manifest)


def _left(entry: dict[str, Any]) -> tuple[dict, dict]:
    """What a phase left, by digest."""
    return entry["tables"], entry["texts"]


def _is_whole(folder: Folder, entry: dict[str, Any]) -> bool:
    texts = all(folder.is_whole_text(name, digest) for name, digest in entry["texts"].items())
    return texts and all(folder.is_whole(name, record) for name, record in entry["tables"].items())


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
        # its own time is not on the page: drawn again, the page stays the same
        manifest["phases"] = [e for e in manifest["phases"] if e["name"] != REPORT]
        finished = manifest["phases"][-1]["name"] == list(TABLE_PHASES)[-1]
        spread = folder.read_table("distributions").toPandas()
    except Exception:
        finished = False
    if not finished:
        remedy = "holds no finished run; make one with `scribe-spark run`"
        raise InputError("out", out, remedy)
    return folder.write_page(render(metrics, manifest, spread))


# --- the manifest


def _open(
    folder: Folder,
    config: RunConfig,
    execution: Execution,
    phases: tuple[str, ...],
    spark: SparkSession,
) -> dict[str, Any]:
    """The manifest to go on with: the folder's, or a new one."""
    manifest = _former(folder.names(), folder.read_text, config, execution)
    if manifest is not None:
        return manifest
    if PHASES[0] not in phases:
        _refuse_gap(PHASES[0], phases)
    folder.make()
    folder.clear()
    manifest = new_manifest(config, execution, spark)
    folder.write_json(MANIFEST, manifest)
    return manifest


def _former(
    names: Iterable[str], read: Callable[[str], str], config: RunConfig, execution: Execution
) -> dict[str, Any] | None:
    """The manifest of the run to go on with; None where there is none, or it is to be replaced.

    Raises
    ------
    InputError
        The folder is somebody else's, or a run's of another config, input or version.
    """
    manifest = former(names, read, config.as_dict(), execution)
    if manifest is not None:
        for name, digest in _inputs(config).items():
            if manifest["inputs"].get(name) != digest:
                remedy = (
                    f"has changed since {execution.out} was made; use --overwrite or another OUT"
                )
                raise InputError(name, config.flat()[name], remedy)
    return manifest


def former(
    names: Iterable[str],
    read: Callable[[str], str],
    resolved: dict[str, Any],
    execution: Execution,
) -> dict[str, Any] | None:
    """The manifest to go on with, of what is `resolved` in the same way; or None.

    Raises
    ------
    InputError
        The folder is somebody else's, or of something resolved otherwise, or of another version.
    """
    out = execution.out
    manifest = refuse_contents(out, names, read, execution.resume, execution.overwrite)
    if manifest is None:
        return None
    try:
        # as if each were there in full; what is not is as good as an unreadable manifest
        _ = [(PHASES.index(e["name"]), *map(dict, _left(e))) for e in manifest["phases"]]
        theirs, _ = {**manifest["resolved"]}, {**manifest["inputs"]}
        version = manifest["versions"]["scribe_spark"]
    except Exception:
        remedy = f"its {MANIFEST} cannot be read; use --overwrite"
        raise InputError("out", out, remedy) from None
    refuse_other(resolved, theirs, out)
    refuse_version(version, out)
    return manifest


def _inputs(config: RunConfig) -> dict[str, str]:
    """The digest of each of the user's tables that is on this machine."""
    kind = config.topology.kind
    topology = kind if is_path(kind) else None
    given = {n: getattr(config, n) for n in ("members", "capacities")} | {"topology": topology}
    return {n: _file_digest(local_path(v)) for n, v in given.items() if v and is_local(v)}


def _file_digest(path: Path) -> str:
    """SHA-256 of a file, or of a folder's files in order of their names."""
    digest = hashlib.sha256()
    files = [path] if path.is_file() else sorted(p for p in path.rglob("*") if p.is_file())
    for file in files:
        with open(file, "rb") as opened:
            digest.update(hashlib.file_digest(opened, "sha256").digest())
    return digest.hexdigest()


def _version() -> str:
    return importlib.metadata.version("scribe_spark")


def refuse_version(version: str, out: str) -> None:
    """Refuse what another version of this package has made."""
    if version != _version():
        remedy = f"{out} was made by {version}; use that, --overwrite or another OUT"
        raise InputError("scribe_spark", _version(), remedy)


def refuse_other(ours: dict[str, Any], resolved: dict[str, Any], out: str) -> None:
    """Refuse what was made with another config, naming the first difference."""
    ours = json.loads(json.dumps(ours))
    names = [n for n in {**ours, **resolved} if ours.get(n) != resolved.get(n)]
    if names:
        name = names[0]
        remedy = f"{out} was made with {name} = {resolved.get(name)!r}; use that or another OUT"
        raise InputError(name, ours.get(name), remedy)


def new_manifest(config: RunConfig, execution: Execution, spark: SparkSession) -> dict[str, Any]:
    """The manifest of a run that has done nothing yet."""
    resolved = config.as_dict()
    return {
        "config": unusual(resolved, RunConfig().as_dict()),
        "resolved": resolved,
        "seed": config.seed,
        "inputs": _inputs(config),
        **provenance(execution, spark),
        "phases": [],
    }


def unusual(resolved: dict[str, Any], usual: dict[str, Any]) -> dict[str, Any]:
    """What of a config is not as `usual`."""
    return {name: value for name, value in resolved.items() if value != usual[name]}


def provenance(execution: Execution, spark: SparkSession) -> dict[str, Any]:
    """Where something is made, and with what: ``execution, versions, machine``."""
    return {
        "execution": {
            "out": execution.out,
            "master": spark.sparkContext.master,
            "partitions": execution.partitions,
        },
        "versions": {
            "scribe_spark": _version(),
            "spark": spark.version,
            "pyspark": pyspark.__version__,
            "python": platform.python_version(),
            "java": java_version(spark),
        },
        "machine": {"system": platform.platform(), "cores": os.cpu_count()},
    }
