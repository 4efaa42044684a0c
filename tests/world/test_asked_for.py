"""A world plays the systems that its config names, and no other protocol."""

from typing import Any

import pytest
from small_network import NETWORK

from scribe_spark.config import WorldConfig
from scribe_spark.core.errors import InputError
from scribe_spark.experiments.simulation import Simulation
from scribe_spark.experiments.world_setup import make_world

SMALL = NETWORK | {
    "nodes": 60, "initial": 45, "groups": 4, "group_size": 12, "rounds": 5, "round_seconds": 5.0,
    "generator": "churn+group-churn+publications", "lifetime": 8.0, "membership": 6.0,
    "measures": "delay,link_stress", "link_stress_period": 2, "lost_after": 1, "seed": 5,
}  # fmt: skip

#: The systems of a world -> the protocols whose messages it counts.
WORLDS = {"can,naive_unicast": (), "bayeux": ("pastry",)}


def measured(
    spark: Any, systems: str, buckets: int = 1, engine: str = "tasks", rounds: int = 2
) -> list[dict]:
    """The measures of each of some rounds of a world."""
    config = WorldConfig(**SMALL | {"systems": systems})
    with Simulation(spark, config) as simulation:
        world = make_world(simulation, config, None, None, buckets, engine)
        try:
            return [world.step() for _ in range(rounds)]
        finally:
            world.release()


@pytest.fixture(scope="module")
def beside(spark) -> list[dict]:
    """The rounds of a world with GossipSub and Scribe."""
    return measured(spark, "gossipsub,scribe", rounds=4)


@pytest.mark.parametrize("systems", WORLDS)
def test_only_protocols_of_the_named_systems_send_messages(spark, systems):
    rounds = measured(spark, systems)
    of_pastry = [name for one in rounds for name in one if name.startswith(("cells.", "lookups"))]
    of_scribe = [name for one in rounds for name in one if name.startswith("scribe.")]
    assert bool(of_pastry) == ("pastry" in WORLDS[systems])
    assert not of_scribe
    messages = {name for one in rounds for name in one if name.startswith("messages.")}
    assert bool(messages) == ("pastry" in WORLDS[systems])
    for name in systems.split(","):
        assert all(f"{name}.multicasts.reached" in one for one in rounds)


@pytest.mark.parametrize(
    ("buckets", "engine", "rounds"),
    [(2, "tasks", 4), pytest.param(2, "jobs", 2, marks=pytest.mark.slow)],
)
def test_a_system_alone_is_what_it_is_beside_scribe(spark, beside, buckets, engine, rounds):
    alone = measured(spark, "gossipsub", buckets, engine, rounds)
    for one, other in zip(alone, beside[:rounds], strict=True):
        assert one == {name: other[name] for name in one}
        assert {name for name in other if name.startswith("gossipsub.")} <= one.keys()


@pytest.mark.parametrize("given", [{"delivery": "reliable"}, {"variants": "lazy"}])
def test_settings_of_scribe_are_refused_without_scribe(given):
    with pytest.raises(InputError, match="has no effect without Scribe; add scribe to systems"):
        WorldConfig(**SMALL | {"systems": "gossipsub"} | given)
