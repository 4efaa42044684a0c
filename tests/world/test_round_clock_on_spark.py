"""The clock with bandwidth in worlds on Spark: against a run, in tables and on the page."""

import pandas as pd
import pytest
from small_network import NETWORK, table

from scribe_spark.config import Execution, RunConfig, WorldConfig
from scribe_spark.experiments import Simulation, make_world, run_world
from scribe_spark.runtime.batches import Batches

NODES = {**NETWORK, "nodes": 60}
LINKS = {"message_size": "128KB", "uplink": "50Mbit/s", "downlink": "30Mbit/s", "validation": "1ms"}
GROUPS = {"groups": 5, "source": "root", "overlay": "perfect"}


def test_a_round_without_failures_is_a_run(spark):
    """The trees are the same, and so are the deliveries by the clock with bandwidth."""
    given = {**NODES, **LINKS, **GROUPS}
    config = WorldConfig(
        **given, rounds=2, lookups=0, generator="publications", publish_source="root"
    )
    with Simulation(spark, RunConfig(**given), engine="tasks") as run:
        (made,) = (one for one in run.systems if one.system == "scribe")
        columns = ["group", "node", "hops", "delay_us"]
        rows = Batches.of(made.deliveries, columns).frame.select(*columns).toArrow()
        expected = sorted(zip(*rows.to_pydict().values(), strict=True))
        with Simulation(spark, config, shares=run) as simulation:
            world = make_world(simulation, config)
            world.step()
            measured = world.step()
            found = world.deliveries.where("system = 'scribe'").toPandas()
            world.release()
    found["delay_us"] = (found["delay_ms"] * 1000).round().astype(int)
    assert sorted(found[columns].itertuples(index=False, name=None)) == expected
    assert len(expected) > 30
    assert measured["scribe.latency.max"] == max(row[3] for row in expected) / 1000
    assert measured["scribe.bytes.up.mean"] > 0


@pytest.fixture(scope="module")
def finished(spark, tmp_path_factory):
    """A world with classes, played and read again."""
    classes = [
        {"name": "fast", "share": 0.3, "up": "1Gbit/s", "down": "1Gbit/s"},
        {"name": "slow", "share": 0.7},
    ]
    given = {**NODES, **LINKS, "groups": 4, "classes": classes, "systems": "scribe,gossipsub"}
    churn = {"generator": "churn+publications", "lifetime": 10.0, "rounds": 4}
    config = WorldConfig(**given, **churn, lookups=0, round_seconds=5.0)
    out = tmp_path_factory.mktemp("clock") / "out"
    tables = []
    for resume in (False, True):  # the second time everything is read from the save
        run_world(spark, config, Execution(out=str(out), resume=resume))
        tables.append(table(out, "rounds_by_part"))
    return out, *tables


def test_measures_of_rounds_are_split_by_class(finished):
    out, by_part, again = finished
    pd.testing.assert_frame_equal(by_part, again)
    assert set(by_part["round"]) == set(range(4))
    assert set(by_part["system"]) == {"scribe", "gossipsub"}
    assert set(by_part["part"]) == {"fast", "slow"}
    measures = {"delay_ms", "hops", *(f"bytes.{of}" for of in ("payload_up", "control_down"))}
    assert measures <= set(by_part["measure"])
    rounds = table(out, "rounds")
    values = rounds.set_index(["round", "measure"])["value"]
    for (number, system), rows in by_part.groupby(["round", "system"]):
        sent = rows[rows["measure"] == "bytes.payload_up"]
        assert sent["count"].sum() == values[number, "nodes.live"]
        mean = (sent["mean"] * sent["count"]).sum() / sent["count"].sum()
        assert mean == pytest.approx(values[number, f"{system}.bytes.up.mean"])
        delays = rows[rows["measure"] == "delay_ms"]
        assert delays["max"].max() == values[number, f"{system}.latency.max"]
