"""The manifest of OUT (``manifest.json``): the commands, their settings, versions and records.

A command continues, replaces and deletes only its own files.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import os
import platform
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pyspark
from pyspark.sql import SparkSession

from scribe_spark.config import Execution, RunConfig, WorldConfig
from scribe_spark.config.execution import PHASES
from scribe_spark.core.errors import InputError, one_line
from scribe_spark.core.inputs import is_local, local_path
from scribe_spark.core.registry import imported
from scribe_spark.runtime.sessions import abilities, java_version
from scribe_spark.topology.regions import is_shipped
from scribe_spark.topology.registry import is_path


def join(out: str, name: str) -> str:
    """Return the location `name` in `out`."""
    return f"{out.rstrip('/')}/{name}"


def inner_name(name: object) -> str:
    """Return a name that a manifest gives to a table, text or folder; refuse a path."""
    if not isinstance(name, str) or name in ("", ".", "..") or set(name) & set("/\\\0"):
        remedy = "must be the name of one file or folder beside it"
        raise InputError("a name in manifest.json", name, remedy)
    return name


def run_folder(experiment: str, seed: int | str) -> str:
    """Return the folder of one run of the paper, in OUT."""
    return f"{experiment}/seed={seed}"


def inside(execution: Execution, name: str) -> Execution:
    """Return the settings of execution for one of several runs, in the folder `name` of OUT."""
    return execution.replace(out=join(execution.out, name), resume=True, overwrite=False)


MANIFEST = "manifest.json"

#: A manifest, or a record in it.
Manifest = Mapping[str, Any]

#: The libraries that compute results; the manifest has their versions.
_LIBRARIES = ("numpy", "scipy", "pandas", "pyarrow", "pydantic", "topohub")


def provenance(execution: Execution, spark: SparkSession) -> dict[str, Any]:
    """Return where and by which software a result was made: ``execution, versions, machine``."""
    return {
        "execution": {
            "out": execution.out,
            "master": abilities(spark).master,
            "partitions": execution.partitions,
            "buckets": execution.buckets,
            "engine": execution.engine,
            "imports": imported(),
        },
        "versions": {
            "scribe_spark": version_of("scribe_spark"),
            "spark": spark.version,
            "pyspark": pyspark.__version__,
            "python": platform.python_version(),
            "java": java_version(spark),
            **{library: version_of(library) for library in _LIBRARIES},
        },
        "machine": {"system": platform.platform(), "cores": os.cpu_count()},
    }


def version_of(library: str) -> str | None:
    """Return a library's version; None if it is not installed."""
    try:
        return importlib.metadata.version(library)
    except importlib.metadata.PackageNotFoundError:
        return None


def input_digests(config: RunConfig | WorldConfig) -> dict[str, str]:
    """Return the digests of the user's local tables, by flat name of the setting."""
    flat = config.flat()
    tables = ("members", "capacities", "events", "access", "schedule", "weights")
    networks = ("node_routers", "nodes_file", "edges_file")
    given = {name: flat[name] for name in (*tables, *networks) if name in flat}
    if flat.get("knowledge") is not None:
        given["knowledge"] = f"{flat['knowledge']}/tables/knowledge"
    if is_path(flat["topology"]):
        given["topology"] = flat["topology"]
    if flat["regions"] is not None and not is_shipped(flat["regions"]):
        given["regions"] = flat["regions"]
    given["withhold"] = config.forwarding.table([one.name for one in config.classes])
    return {n: file_digest(local_path(v)) for n, v in given.items() if v and is_local(v)}


def file_digest(path: Path) -> str:
    """Return the SHA-256 of a file, or of a folder's files in order of their names."""
    digest = hashlib.sha256()
    files = [path] if path.is_file() else sorted(p for p in path.rglob("*") if p.is_file())
    for file in files:
        with open(file, "rb") as opened:
            digest.update(hashlib.file_digest(opened, "sha256").digest())
    return digest.hexdigest()


# --- completed phases


def phase_entry(
    name: str,
    seconds: float,
    tables: Mapping[str, Any],
    texts: Mapping[str, str],
    registered: Mapping[str, list[str]],
) -> dict[str, Any]:
    """Return a phase's entry for the manifest."""
    rows = sum(record["rows"] for record in tables.values())
    return {
        "name": name,
        "seconds": round(seconds, 3),
        "rows": rows,
        "tables": dict(tables),
        "texts": dict(texts),
        "registered": dict(registered),
    }


def entry_of(phase: str, manifest: Manifest) -> dict[str, Any] | None:
    """Return the entry of a completed phase; None if the manifest has none."""
    return {entry["name"]: entry for entry in manifest["phases"]}.get(phase)


def put_entry(manifest: Manifest, entry: Manifest) -> dict[str, Any]:
    """Return the manifest with a phase's entry, in place of an earlier one of that phase."""
    others = [e for e in manifest["phases"] if e["name"] != entry["name"]]
    phases = sorted([*others, entry], key=lambda e: PHASES.index(e["name"]))
    return {**manifest, "phases": phases}


def without_entries_from(manifest: Mapping[str, Any], phase: str) -> dict[str, Any]:
    """Return the manifest without the entries of a phase and of later ones."""
    before = PHASES[: PHASES.index(phase)]
    return {**manifest, "phases": [e for e in manifest["phases"] if e["name"] in before]}


# --- the commands that write folders, and the records in their manifests


class Records(NamedTuple):
    """The records of a manifest: tables and texts by name, and the folders of inner commands."""

    finished: bool
    tables: dict[str, dict[str, Any]]
    texts: dict[str, str]
    inside: list[str]


class Owner(NamedTuple):
    """A command that writes folders, and the files in its folder."""

    #: The result of the command, for messages.
    noun: str
    #: The files and folders in its folder, besides the manifest and the folders of `inner`.
    contents: tuple[str, ...]
    #: The owner of the inner folders: the points of a sweep, the runs of the paper.
    inner: Owner | None = None


_PAGE = ("report.html", "figures", "tables")

RUN = Owner("a run", ("metrics.json", *_PAGE))
SWEEP = Owner("a sweep of runs", ("sweep", "sweep.html", "figures"), RUN)
WORLD = Owner("a world", ("measures_even.json", "measures_odd.json", *_PAGE))
WORLD_SWEEP = Owner("a sweep of worlds", SWEEP.contents, WORLD)
REFERENCE_TREE = Owner("experiments on the reference tree", ("metrics.json", "points", *_PAGE))
PAPER = Owner("the whole paper", ("metrics.json", *_PAGE), RUN)
COMPARISON = Owner("a comparison", ("compare.html", "compare.csv", "compare.json", "figures"))


def records_of(manifest: Manifest, owner: Owner) -> Records:
    """Return what a manifest records of the folder of its command `owner`."""
    for name in ("config", "resolved", "inputs", "versions", "machine", "round", "seconds"):
        if not isinstance(manifest.get(name, {}), Mapping):
            raise TypeError(name)
    parts = [{"tables": manifest.get("tables", {}), "texts": manifest.get("texts", {})}]
    finished, inside = owner is COMPARISON or "tables" in manifest, dict[str, None]()
    if owner is RUN:
        parts = manifest["phases"]
        for phase in parts:
            PHASES.index(phase["name"])
            dict(phase.get("registered", {}))
        finished = any(phase["name"] == PHASES[-1] for phase in parts)
    elif owner is WORLD:
        of_world, saved = manifest["world"]["tables"], manifest["world"]["saved"]
        parts, finished = [{"tables": of_world, "texts": {}}], "rounds" in of_world
        if saved is not None:
            state, measures = names_of_save(saved)
            last = {"tables": {state: saved["state"]}, "texts": {measures: saved["measures"]}}
            parts.append(last)
    elif owner is PAPER:
        runs = [run["name"].split(", seed ") for run in manifest["runs"]]
        inside = {run_folder(inner_name(name), inner_name(seed)): None for name, seed in runs}
    elif owner.inner is not None:
        inside = dict.fromkeys(map(inner_name, manifest["points"]))
    tables = {inner_name(name): dict(of) for part in parts for name, of in part["tables"].items()}
    texts = {inner_name(name): of for part in parts for name, of in part["texts"].items()}
    if owner is REFERENCE_TREE:
        points = manifest["points"].items()
        texts |= {point_file(inner_name(name)): digest for name, digest in points}
    return Records(finished, tables, texts, list(inside))


def names_of_save(saved: Manifest) -> tuple[str, str]:
    """Return the names of the table and of the text of a world's save."""
    return f"state_{saved['slot']}", f"measures_{saved['slot']}.json"


def point_file(name: str) -> str:
    """Return the path, below OUT, of the JSON file with the measures of a point."""
    return f"points/{name}.json"


#: A setting of worlds that runs do not have.
_OF_WORLDS = "lookups"

OWNERS = (RUN, SWEEP, WORLD, WORLD_SWEEP, REFERENCE_TREE, PAPER, COMPARISON)


def owner_of(manifest: Any) -> Owner | None:
    """Return the command that wrote the manifest, or None if no such command did.

    The manifest of each command has a list of completed steps under a name of its own.  A sweep has
    the list of a run, which stays empty, and a list of points.
    """
    if not (isinstance(manifest, Mapping) and "resolved" in manifest):
        return None
    if "compared" in manifest:
        return COMPARISON
    if "runs" in manifest:
        return PAPER
    if "world" in manifest:
        return WORLD
    if {"phases", "points"} <= manifest.keys():
        fields = manifest["resolved"]
        return WORLD_SWEEP if isinstance(fields, Mapping) and _OF_WORLDS in fields else SWEEP
    if "points" in manifest:
        return REFERENCE_TREE
    return RUN if "phases" in manifest else None


def points_of(manifest: Mapping[str, Any]) -> list[str]:
    """Return the folders of a sweep's points in a manifest, without names of paths."""
    points = manifest.get("points")
    names = [name for name in points if isinstance(name, str)] if isinstance(points, list) else []
    return [name for name in names if "=" in name and not {"/", "\\"} & set(name)]


def read_manifest(out: str, read: Callable[[str], str]) -> Any:
    """Return the manifest of a folder; ``read(name)`` returns a text of the folder."""
    try:
        return json.loads(read(MANIFEST))
    except InputError:  # the storage does not answer
        raise
    except (ValueError, RecursionError, OSError) as error:
        remedy = f"its {MANIFEST} cannot be read ({one_line(error)}); name another OUT"
        raise InputError("out", out, remedy) from None
