"""The experiments on the reference tree: point by point into a folder, resumed after any point.

A point is a number of hosts and of children.  What was measured of it is a text of its own in
``OUT/points``, with its digest in the manifest; table, metrics and page are made of all of them.

References
----------
P. Costa, D. Frey: Publish-Subscribe Tree Maintenance over a DHT, Section 4.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd
from pyspark.sql import SparkSession

from scribe_spark import schemas
from scribe_spark.config import Execution
from scribe_spark.config.reference_tree import Point, ReferenceTreeConfig
from scribe_spark.errors import InputError
from scribe_spark.experiments.checks import check_out, refuse_buckets
from scribe_spark.experiments.folder import Folder, StoredFolder
from scribe_spark.experiments.manifest import MANIFEST, non_default, provenance
from scribe_spark.experiments.owner import REFERENCE_TREE
from scribe_spark.experiments.previous import previous_manifest
from scribe_spark.experiments.reference_tree_points import measure_point
from scribe_spark.experiments.run import locked
from scribe_spark.experiments.simulation import Simulation
from scribe_spark.experiments.world_setup import network_of
from scribe_spark.measures.reference_tree import reference_tree_metrics
from scribe_spark.overlays import check_overlay
from scribe_spark.progress import Progress, Silent
from scribe_spark.report.reference_tree import render_reference_tree
from scribe_spark.runtime.settings import default_partitions, tuned
from scribe_spark.topology import load, needs_spark
from scribe_spark.underlay.routable import check_routes

__all__ = ["check_reference_tree", "run_reference_tree"]

#: Where the manifest lists the points that are done.
_DONE = "points"

Counts = dict[str, dict[int, int]]


def check_reference_tree(config: ReferenceTreeConfig, execution: Execution) -> None:
    """Refuse bad input that can be found without Spark.

    Raises
    ------
    InputError
    """
    refuse_buckets(execution)
    check_out(execution.out, lambda folder: _previous(folder, config, execution))
    if config.reference_tree.dht == "routed":
        if not check_overlay(config.overlay).randomised:
            remedy = (
                "has other roots of keys than Pastry; with dht = routed give perfect or arrivals"
            )
            raise InputError("overlay", config.overlay.kind, remedy)
        if not needs_spark(config.topology.kind):
            check_routes(load(network_of(config)), config.topology.tie, config.seed)


def run_reference_tree(
    spark: SparkSession,
    config: ReferenceTreeConfig,
    execution: Execution,
    progress: Progress | None = None,
) -> str:
    """Measure the points that have not been measured yet; the location of the page.

    Raises
    ------
    InputError
        OUT cannot be used, is in use, or is of something else.
    """
    progress = progress or Silent()
    most = max(point.hosts for point in config.points())
    # (what is not asked for is not computed: without `dht = routed`, nothing)
    network = Simulation(spark, network_of(config), progress=progress)
    with network, Folder(spark, execution.out) as folder, locked(folder, progress) as lock:
        manifest = _previous(folder, config, execution)
        if manifest is None:
            folder.make()
            folder.clear(REFERENCE_TREE)
            manifest = _new_manifest(spark, config, execution)
            folder.write_json(MANIFEST, manifest)
        partitions = execution.partitions or default_partitions(spark, most)
        measured: dict[Point, Counts] = {}
        with tuned(spark, partitions):
            for point in config.points():
                counts = _saved(folder, manifest, point, progress)
                if counts is None:
                    with progress.phase(point.name):
                        counts = measure_point(network, point, config, progress)
                    lock.check()
                    digest = folder.write_json(_file(point), counts)
                    manifest = {**manifest, _DONE: {**manifest[_DONE], point.name: digest}}
                    folder.write_json(MANIFEST, manifest)
                measured[point] = counts
            with progress.phase("report"):
                lock.check()
                return _finish(folder, manifest, measured)


def _new_manifest(
    spark: SparkSession, config: ReferenceTreeConfig, execution: Execution
) -> dict[str, Any]:
    resolved = config.flat()
    return {
        "config": non_default(resolved, ReferenceTreeConfig().flat()),
        "resolved": resolved,
        "seed": config.seed,
        **provenance(execution, spark),
        _DONE: {},
    }


def _previous(
    folder: StoredFolder, config: ReferenceTreeConfig, execution: Execution
) -> dict[str, Any] | None:
    """The manifest to go on with; None where there is none or it is to be replaced."""
    return previous_manifest(folder, config.flat(), execution, REFERENCE_TREE, _check_shape)


def _check_shape(manifest: Mapping[str, Any]) -> None:
    """Raise unless all that is read of the manifest later has the form it needs."""
    dict(manifest["resolved"]), manifest["versions"]["scribe_spark"], dict(manifest[_DONE])


def _file(point: Point) -> str:
    return f"points/{point.name}.json"


def _saved(
    folder: Folder, manifest: Mapping[str, Any], point: Point, progress: Progress
) -> Counts | None:
    """Return the measures of a point in the folder; None if there are none, or damaged ones."""
    digest = manifest[_DONE].get(point.name)
    if digest is None:
        return None
    problem = folder.verify_text(_file(point), digest)
    if problem is not None:
        progress.note(f"{point.name} is not as written: {problem}: measured again")
        return None
    read = folder.read_json(_file(point))
    return {
        measure: {int(value): count for value, count in counts.items()}
        for measure, counts in read.items()
    }


def _finish(folder: Folder, manifest: Mapping[str, Any], measured: Mapping[Point, Counts]) -> str:
    """Write the table, the metrics and the page."""
    rows = tidy(measured)
    table = schemas.local_table(folder.spark, rows, schemas.REFERENCE_TREE)
    record = folder.write_table("reference_tree", table)
    metrics = reference_tree_metrics(rows)
    digest = folder.write_json("metrics.json", metrics)
    location = folder.write_page(render_reference_tree(rows, metrics, manifest))
    tables = {"tables": {"reference_tree": record}, "texts": {"metrics.json": digest}}
    folder.write_json(MANIFEST, {**manifest, **tables})
    return location


def tidy(measured: Mapping[Point, Counts]) -> pd.DataFrame:
    """`schemas.REFERENCE_TREE` of what was measured."""
    rows = [
        (point.kind, point.hosts, point.bits, point.children, point.assignment, measure, *pair)
        for point, counts in measured.items()
        for measure, values in sorted(counts.items())
        for pair in sorted(values.items())
    ]
    return pd.DataFrame(rows, columns=schemas.REFERENCE_TREE.names)
