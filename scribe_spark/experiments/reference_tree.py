"""The experiments on the reference tree as a sweep: through events, or once and large.

The points are the numbers of hosts with the numbers of children of a config.  A point has no folder
of its own: all its repetitions are one job, and its results a text in ``OUT/points``, with its
digest in the manifest.

References
----------
P. Costa, D. Frey: Publish-Subscribe Tree Maintenance over a DHT, Sections 3.4 and 4.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pandas as pd
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from scribe_spark import schemas
from scribe_spark.config import Execution, RunConfig
from scribe_spark.config.reference_tree import ReferenceTreeConfig, TreePoint
from scribe_spark.core import draws
from scribe_spark.core.errors import InputError
from scribe_spark.core.progress import Progress
from scribe_spark.core.units import MICROSECONDS
from scribe_spark.experiments.checks import known_graph, refuse_buckets
from scribe_spark.experiments.manifest import REFERENCE_TREE, point_file
from scribe_spark.experiments.plan import Plan, settings_of
from scribe_spark.experiments.simulation import Simulation
from scribe_spark.experiments.stages import Scope
from scribe_spark.experiments.steps import Work, closed_at_last
from scribe_spark.overlays import check_overlay
from scribe_spark.report.reference_tree import reference_tree_metrics, render_reference_tree
from scribe_spark.runtime.blocks import release
from scribe_spark.systems.reference_tree.experiment import play_in_tasks
from scribe_spark.systems.reference_tree.multicast import degrees_and_depths
from scribe_spark.systems.reference_tree.places import places, route_lookups
from scribe_spark.systems.reference_tree.tree import ReferenceTree

#: Measure -> value -> the number of its occurrences.
Counts = dict[str, dict[int, int]]

#: The key of the manifest with the completed points.
_DONE = "points"

#: The number of connections of each independent repetition of a network: of a small one, and of a
#: large one (small enough that there are more repetitions than cores).
_PAIRS, _PAIRS_OF_LARGE = 8, 2

#: The measures of hosts between events.
_OF_HOSTS = ("degree", "depth")

#: A large tree has fewer connections: about this number of hosts is placed in all; but at least a
#: few connections.
_PLACED, _LEAST = 4_000_000, 4

#: The goal of a lookup -> the first part of the measures' names.
_PURPOSES = {"parent": "parent_lookup", "children": "child_lookup"}


def _network(config: ReferenceTreeConfig) -> RunConfig:
    """Return the config of a run with the network and overlay of a config, without groups."""
    sections = {"topology": config.topology, "overlay": config.overlay}
    return RunConfig.of({"seed": config.seed, "groups": 0}, sections)


@dataclass(frozen=True)
class TreeSweep:
    """The experiments of a config on the reference tree, as a plan of points (`PlanOfPoints`)."""

    config: ReferenceTreeConfig

    @property
    def nodes(self) -> int:
        """The greatest number of hosts."""
        return max(point.hosts for point in self.config.points())

    def plan(self, execution: Execution) -> Plan:
        return Plan(
            REFERENCE_TREE,
            execution,
            *settings_of(self.config),
            about={"seed": self.config.seed},
            done={_DONE: {}},
            nodes=self.nodes,
        )

    def check(self, execution: Execution) -> None:
        """Refuse buckets, and networks on which look-ups cannot be routed."""
        refuse_buckets(execution)
        if self.config.reference_tree.dht == "routed":
            if not check_overlay(self.config.overlay).randomised:
                remedy = "is not Pastry; with dht = routed, give perfect or arrivals"
                raise InputError("overlay", self.config.overlay.kind, remedy)
            known_graph(self.config)

    def play_points(self, work: Work, execution: Execution) -> dict[TreePoint, Counts]:
        # (the stages of the network are computed at their first use: without `dht = routed`, none)
        network = Simulation(work.folder.spark, _network(self.config), progress=work.progress)
        measured: dict[TreePoint, Counts] = {}

        with closed_at_last(network):
            for point in self.config.points():
                file, done = point_file(point.name), work.manifest[_DONE]
                record = {"tables": {}, "texts": {file: done.get(point.name)}}
                if point.name in done and work.is_as_written(point.name, record):
                    work.progress.note(f"{point.name}: complete, skipped")
                    measured[point] = {
                        measure: {int(value): count for value, count in counts.items()}
                        for measure, counts in work.folder.read_json(file).items()
                    }
                    continue
                with work.progress.phase(point.name):
                    measured[point] = measure_point(network, point, self.config, work.progress)
                    digest = work.write_json(file, measured[point])
                work.save({**work.manifest, _DONE: {**done, point.name: digest}})
        return measured

    def write(self, work: Work, results: Mapping[TreePoint, Counts]) -> tuple[str, DataFrame]:
        """Write the table `reference_tree`, the metrics and the page."""
        with work.progress.phase("report"):
            rows = tidy(results)
            records = work.write_tables({"reference_tree": rows})
            metrics = reference_tree_metrics(rows)
            digest = work.write_json("metrics.json", metrics)
            location = work.folder.write_page(render_reference_tree(rows, metrics, work.manifest))
            texts = {"metrics.json": digest}
            work.save({**work.manifest, "tables": records, "texts": texts})
            return location, work.folder.read_table("reference_tree")


def tidy(measured: Mapping[TreePoint, Counts]) -> pd.DataFrame:
    """Return the results of all points as the table `reference_tree`."""
    rows = [
        (point.kind, point.hosts, point.bits, point.children, point.assignment, measure, *pair)
        for point, counts in measured.items()
        for measure, values in sorted(counts.items())
        for pair in sorted(values.items())
    ]
    return pd.DataFrame(rows, columns=schemas.REFERENCE_TREE.names)


# --- a point


def measure_point(
    network: Simulation, point: TreePoint, config: ReferenceTreeConfig, progress: Progress
) -> Counts:
    """Return the histograms of a point: measure -> value -> number of occurrences."""
    found = _measured(network, point, config, progress)
    # the order of collected rows depends on partitions and cores
    return {measure: dict(sorted(counts.items())) for measure, counts in sorted(found.items())}


def _measured(
    network: Simulation, point: TreePoint, config: ReferenceTreeConfig, progress: Progress
) -> Counts:
    spark, events = network.spark, config.reference_tree.connections
    if point.kind == "events":
        return play_events(spark, point, events, config.seed)
    few = min(events, max(_PLACED // point.hosts, _LEAST))
    played = play_events(spark, point, few, config.seed)
    of_events = {measure: of for measure, of in played.items() if measure not in _OF_HOSTS}
    found = _large(spark, point, config.seed) | of_events
    if config.reference_tree.dht == "routed":
        ids = large_ids(spark, point.hosts, config.seed)
        found |= _routed_lookups(network, ids, point.hosts, point.children, progress)
    return found


def play_events(spark: SparkSession, point: TreePoint, events: int, seed: int) -> Counts:
    """Let hosts connect and disconnect; return counts of the measures, by value."""
    found: Counts = {}
    pairs = min(_PAIRS_OF_LARGE if point.kind == "scaling" else _PAIRS, events)
    tree = ReferenceTree(point.bits, point.children)
    played = play_in_tasks(
        *(spark, tree, point.assignment, point.hosts), events=events, pairs=pairs, seed=seed
    )
    for (event, measure, value), count in played.items():
        name = measure if measure in _OF_HOSTS else f"{measure}.{event}"
        counts = found.setdefault(name, {})
        counts[value] = counts.get(value, 0) + count
    return found


def _large(spark: SparkSession, point: TreePoint, seed: int) -> Counts:
    ids, tree = large_ids(spark, point.hosts, seed), ReferenceTree(point.bits, point.children)
    placed = places(ids, tree, point.assignment)
    try:
        found: Counts = {"degree": {}, "depth": {}}
        for measure, value, count in degrees_and_depths(placed).collect():
            found[measure][value] = count
        keys = placed.withColumnRenamed("depth", "key_depth")
        for measure in ("key_depth", "parent_lookups", "child_lookups"):
            found[measure] = dict(map(tuple, keys.groupBy(measure).count().collect()))
        return found
    finally:
        release(placed)


def large_ids(spark: SparkSession, hosts: int, seed: int) -> DataFrame:
    """Return hosts with uniform 128-bit ids: ``node, id_hi, id_lo``."""
    node = F.col("id")
    halves = [draws.bits(seed, f"host {half}", node).alias(f"id_{half}") for half in ("hi", "lo")]
    return spark.range(hosts).select(node.alias("node"), *halves)


# --- look-ups over Pastry: ``dht = routed``


def _routed_lookups(
    network: Simulation, ids: DataFrame, hosts: int, children: int, progress: Progress
) -> dict[str, dict[int, int]]:
    """Return the hops and delays of the lookups by which all hosts find their positions.

    Names begin with ``parent_lookup`` and ``child_lookup``; delays are one-way, in whole ms.
    """
    config = network.config.replace(nodes=hosts)
    with Simulation(network.spark, config, progress=progress, shares=network) as here, Scope() as s:
        placed = here.nodes.select("node", "router").join(ids, "node", "inner")
        here.saved["nodes"] = s.materialise(placed.select(schemas.NODES.names))
        asked = s.own_table(places(here.nodes, ReferenceTree(128, children), "pastry", named=True))
        routed = s.own_table(route_lookups(here.overlay, asked, progress))
        return _lookup_counts(routed, "hops", F.col("hops")) | _lookup_counts(
            routed, "delay", F.round(F.col("delay_us") / F.lit(MICROSECONDS)).cast("bigint")
        )


def _lookup_counts(routed: DataFrame, name: str, value: Column) -> dict[str, dict[int, int]]:
    rows = routed.groupBy("purpose", value.alias("value")).count().collect()
    found: dict[str, dict[int, int]] = {f"{first}_{name}": {} for first in _PURPOSES.values()}
    for row in rows:
        found[f"{_PURPOSES[row['purpose']]}_{name}"][int(row["value"])] = int(row["count"])
    return {measure: counts for measure, counts in found.items() if counts}
