"""The runs and worlds inside OUT of a sweep or of the paper; each has its own folder."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping

from pyspark.sql import SparkSession

from scribe_spark.config import Execution, RunConfig, WorldConfig
from scribe_spark.experiments.folder import Folder
from scribe_spark.experiments.locations import inside
from scribe_spark.experiments.run import run
from scribe_spark.experiments.run_world import run_world
from scribe_spark.experiments.simulation import Simulation
from scribe_spark.experiments.steps import closed_at_last
from scribe_spark.experiments.world_setup import network_of
from scribe_spark.progress import Progress


def play_inside(
    spark: SparkSession,
    configs: Mapping[str, RunConfig | WorldConfig],
    execution: Execution,
    progress: Progress,
    title: Callable[[int, str], str],
) -> Iterator[tuple[str, Folder]]:
    """Complete each run or world; yield its name and its folder.

    Runs on the same network share its routes, and follow one another, so that only the routes of
    one network take disk space at a time.
    """
    networks: dict[Hashable, list[str]] = {}
    for name, config in configs.items():
        networks.setdefault(config.network_key, []).append(name)
    number = 0
    for names in networks.values():
        with closed_at_last(Simulation(spark, network_of(configs[names[0]]))) as shared:
            for name in names:
                number += 1
                progress.note(title(number, name))
                config, how = configs[name], inside(execution, name)
                if isinstance(config, WorldConfig):
                    run_world(spark, config, how, progress, shared)
                else:
                    run(spark, config, how, progress=progress, shares=shared).close()
                with Folder(spark, how.out) as folder:
                    yield name, folder
