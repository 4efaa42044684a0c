"""What tests of worlds on Spark share: the network of a file's `CONFIG`, and worlds on it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from pyspark.sql import SparkSession

from scribe_spark.config import WorldConfig
from scribe_spark.experiments import Simulation, make_world
from scribe_spark.worlds.world import World


@pytest.fixture(scope="module")
def simulation(request: pytest.FixtureRequest, spark: SparkSession) -> Iterator[Simulation]:
    """The network and the nodes of the file's `CONFIG`."""
    with Simulation(spark, request.module.CONFIG) as made:
        yield made


@pytest.fixture
def begin(simulation: Simulation) -> Iterator[Callable[..., World]]:
    """Make worlds before their first round, by default of the file's network; free them."""
    made: list[World] = []

    def make(config: WorldConfig, *given: Any, on: Simulation = simulation, **more: Any) -> World:
        made.append(make_world(on, config, *given, **more))
        return made[-1]

    yield make
    for world in made:
        world.release()
