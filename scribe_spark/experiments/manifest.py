"""The manifest of OUT (``manifest.json``), and the locations in OUT that it names."""

from __future__ import annotations

import hashlib
import importlib.metadata
import os
import platform
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyspark
from pyspark.sql import SparkSession

from scribe_spark.config import Execution, RunConfig, WorldConfig
from scribe_spark.config.execution import PHASES
from scribe_spark.core.errors import InputError
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
