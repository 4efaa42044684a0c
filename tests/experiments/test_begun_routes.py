"""Routes that a command computes while its session starts."""

from __future__ import annotations

import numpy as np
import pytest
from small_network import NETWORK

from scribe_spark.config import RunConfig
from scribe_spark.experiments import Simulation, stages
from scribe_spark.runtime.distribute import open_array

CONFIG = RunConfig(**NETWORK, nodes=9)


def matrices(spark) -> list[np.ndarray]:
    """Return the matrices of a simulation's routes."""
    with Simulation(spark, CONFIG) as simulation:
        return [open_array(name).copy() for name in simulation.underlay.kernel.arrays]


def test_a_simulation_takes_them_once(spark, monkeypatch):
    expected = matrices(spark)
    stages.begin_routes(CONFIG)
    with monkeypatch.context() as patch:
        patch.setattr(stages, "compute_routes", None)
        found = matrices(spark)
        with pytest.raises(TypeError):  # the next simulation computes its routes
            matrices(spark)
    assert len(found) == len(expected) > 3
    for mine, theirs in zip(found, expected, strict=True):
        np.testing.assert_array_equal(mine, theirs)


def test_routes_of_a_large_network_are_computed_by_tasks(spark, monkeypatch):
    expected = matrices(spark)
    monkeypatch.setattr("scribe_spark.underlay.matrices._FEW_UNITS", 0)
    stages.begin_routes(CONFIG)
    for mine, theirs in zip(matrices(spark), expected, strict=True):
        np.testing.assert_array_equal(mine, theirs)


def test_an_error_is_raised_where_the_routes_are_read(spark, monkeypatch):
    def fail(*_):
        raise ZeroDivisionError("!")

    monkeypatch.setattr(stages, "few_routes", fail)
    stages.begin_routes(CONFIG)
    with pytest.raises(ZeroDivisionError):
        matrices(spark)
