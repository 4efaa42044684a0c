"""The experiments on the reference tree, point by point into a folder, resumable after any point.

A point is a number of hosts and of children.  Its results are a text in ``OUT/points``, with its
digest in the manifest; the table, the metrics and the page are made from all points.

References
----------
P. Costa, D. Frey: Publish-Subscribe Tree Maintenance over a DHT, Section 4.
"""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd
from pyspark.sql import SparkSession

from scribe_spark import schemas
from scribe_spark.config import Execution, RunConfig
from scribe_spark.config.reference_tree import Point, ReferenceTreeConfig
from scribe_spark.errors import InputError
from scribe_spark.experiments.checks import check_out, known_graph, refuse_buckets
from scribe_spark.experiments.manifest import Manifest
from scribe_spark.experiments.owner import REFERENCE_TREE, point_file
from scribe_spark.experiments.plan import Plan, settings_of
from scribe_spark.experiments.reference_tree_points import measure_point
from scribe_spark.experiments.simulation import Simulation
from scribe_spark.experiments.steps import Step, Work, closed_at_last, opened
from scribe_spark.measures.reference_tree import reference_tree_metrics
from scribe_spark.overlays import check_overlay
from scribe_spark.progress import Progress, Silent
from scribe_spark.report.reference_tree import render_reference_tree

#: The key of the manifest with the completed points.
_DONE = "points"

Counts = dict[str, dict[int, int]]


def check_reference_tree(config: ReferenceTreeConfig, execution: Execution) -> None:
    """Refuse bad input that can be found without Spark."""
    refuse_buckets(execution)
    check_out(_plan(config, execution))
    if config.reference_tree.dht == "routed":
        if not check_overlay(config.overlay).randomised:
            remedy = "is not Pastry; with dht = routed, give perfect or arrivals"
            raise InputError("overlay", config.overlay.kind, remedy)
        known_graph(config)


def _network(config: ReferenceTreeConfig) -> RunConfig:
    """Return the config of a run with the same network and overlay, and without groups."""
    sections = {"topology": config.topology, "overlay": config.overlay}
    return RunConfig.of({"seed": config.seed, "groups": 0}, sections)


def run_reference_tree(
    spark: SparkSession,
    config: ReferenceTreeConfig,
    execution: Execution,
    progress: Progress | None = None,
) -> str:
    """Measure the incomplete points; return the location of the page."""
    progress = progress or Silent()
    # (its stages are computed at their first use: without `dht = routed`, none is)
    network = Simulation(spark, _network(config), progress=progress)
    most = max(point.hosts for point in config.points())
    plan = _plan(config, execution)
    with closed_at_last(network), opened(spark, plan, progress, nodes=most) as work:
        points = _Points(work, network, config)
        work.play([points.step(point) for point in config.points()])
        with progress.phase("report"):
            return _finish(work, points.measured)


def _plan(config: ReferenceTreeConfig, execution: Execution) -> Plan:
    about = {"seed": config.seed}
    return Plan(REFERENCE_TREE, execution, *settings_of(config), about, done={_DONE: {}})


class _Points:
    """The points as steps, and the results so far."""

    def __init__(self, work: Work, network: Simulation, config: ReferenceTreeConfig) -> None:
        self._work, self._network, self._config = work, network, config
        self.measured: dict[Point, Counts] = {}

    def step(self, point: Point) -> Step:
        """Return the step that measures a point."""
        file = point_file(point.name)

        def play() -> Manifest:
            with self._work.progress.phase(point.name):
                counts = measure_point(self._network, point, self._config, self._work.progress)
                self.measured[point] = counts
                return {"tables": {}, "texts": {file: self._work.write_json(file, counts)}}

        def recorded(manifest: Manifest) -> Manifest | None:
            digest = manifest[_DONE].get(point.name)
            return None if digest is None else {"tables": {}, "texts": {file: digest}}

        def put(manifest: Manifest, record: Manifest) -> Manifest:
            done = {**manifest[_DONE], point.name: record["texts"][file]}
            return {**manifest, _DONE: done}

        def load(_: Manifest) -> None:
            self.measured[point] = {
                measure: {int(value): count for value, count in counts.items()}
                for measure, counts in self._work.folder.read_json(file).items()
            }

        return Step(point.name, play, recorded, put, load)


def _finish(work: Work, measured: Mapping[Point, Counts]) -> str:
    """Write the table, the metrics and the page."""
    rows = tidy(measured)
    records = work.write_tables({"reference_tree": rows})
    metrics = reference_tree_metrics(rows)
    digest = work.write_json("metrics.json", metrics)
    location = work.folder.write_page(render_reference_tree(rows, metrics, work.manifest))
    work.save({**work.manifest, "tables": records, "texts": {"metrics.json": digest}})
    return location


def tidy(measured: Mapping[Point, Counts]) -> pd.DataFrame:
    """Return the results as the table `reference_tree`."""
    rows = [
        (point.kind, point.hosts, point.bits, point.children, point.assignment, measure, *pair)
        for point, counts in measured.items()
        for measure, values in sorted(counts.items())
        for pair in sorted(values.items())
    ]
    return pd.DataFrame(rows, columns=schemas.REFERENCE_TREE.names)
