"""What tests of worlds share: a network of a file's `CONFIG`, worlds on it, what systems leave."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import pytest
from pyspark.sql import SparkSession

from scribe_spark.config import WorldConfig
from scribe_spark.experiments import Simulation, make_world
from scribe_spark.measures.multicasts import MeasureMulticasts
from scribe_spark.rounds.system import CARRIED, DELIVERED, Multicasts, SystemRound
from scribe_spark.worlds.world import World
from scribe_spark.worlds.world_state import SystemsInRound


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


#: System -> its multicasts, deliveries and copies of the last round, with the clock's times.
Left = dict[str, tuple[Multicasts, Mapping[str, np.ndarray], Mapping[str, np.ndarray]]]


@pytest.fixture
def left(monkeypatch: pytest.MonkeyPatch) -> Left:
    """What systems leave for the measures, which the world forgets."""
    found: Left = {}
    measure = SystemsInRound._measure_multicasts

    def gather(
        self: SystemsInRound, name: str, environment: Any, player: Any, done: SystemRound
    ) -> MeasureMulticasts | None:
        made = measure(self, name, environment, player, done)
        tables = player.gather(DELIVERED, CARRIED)
        assert done.multicasts is not None
        found[name] = done.multicasts, *(tables.get(one, {}) for one in (DELIVERED, CARRIED))
        return made

    monkeypatch.setattr(SystemsInRound, "_measure_multicasts", gather)
    return found
