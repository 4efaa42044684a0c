"""Applications of systems beside Scribe: nodes tell them which neighbours they have given up."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from small_network import NETWORK

from scribe_spark.config import WorldConfig
from scribe_spark.core.errors import InputError
from scribe_spark.experiments import Simulation, make_world
from scribe_spark.rounds.applications import WorldApplication
from scribe_spark.worlds.events import world_events

CONFIG: dict[str, Any] = {
    **NETWORK,
    **{"nodes": 40, "groups": 2, "group_size": 20, "rounds": 4, "round_seconds": 60.0},
    **{"generator": "mass-failure", "event_round": 1, "share": 0.2, "narada_join_periods": 2},
}
SYSTEMS = "nice", "overcast", "narada", "splitstream"
NAMES = "round", "group", "node", "neighbour"


def mourning() -> type[WorldApplication]:
    """An application of one's own, which executors get as it is: it remembers all that it hears."""

    class Mourner(WorldApplication):
        def __init__(self, nodes: int) -> None:
            self.rows = {name: np.empty(0, dtype=np.int64) for name in NAMES}

        def neighbours_failed(self, system, number, failures) -> None:
            more = {"round": np.full(len(failures["node"]), number), **failures}
            self.rows = {name: np.r_[column, more[name]] for name, column in self.rows.items()}

        def tables(self):
            return {"deaths": self.rows}

        def restore(self, tables) -> None:
            self.rows = tables["deaths"]

    return Mourner


def test_nodes_tell_which_neighbours_they_have_given_up(spark):
    config = WorldConfig(**CONFIG, systems=SYSTEMS)
    schema = ", ".join(f"{name} bigint" for name in NAMES)
    with Simulation(spark, config) as simulation:
        events = world_events(simulation.nodes, config)
        dead = {row.node for row in events.where("event = 'fail'").collect()}
        world = make_world(simulation, config, events, application=mourning())
        for _ in range(4):
            world.step()
        for system in SYSTEMS:
            told = world.memory(system, "deaths", schema).toPandas()
            after = told[told["round"] >= 1]
            lost = set(after["neighbour"])
            assert lost & dead
            assert not dead & set(after["node"])
            # a parent of Overcast also gives up children that have moved
            assert system == "overcast" or (lost <= dead and len(after) == len(told))
        world.release()


@pytest.mark.parametrize(
    ("systems", "line"),
    [("can", "systems = 'can': call no application"), ("scribe,nice", "must be an application of")],
)
def test_applications_that_nobody_calls_are_refused(spark, systems, line):
    config = WorldConfig(**CONFIG, systems=systems)
    with Simulation(spark, config) as simulation, pytest.raises(InputError, match=line):
        make_world(simulation, config, application=mourning())
