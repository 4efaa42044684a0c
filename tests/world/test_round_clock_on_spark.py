"""The clock with bandwidth in worlds on Spark, in tables."""

import pandas as pd
import pytest
from small_network import NETWORK, table

from scribe_spark.config import Execution, WorldConfig
from scribe_spark.experiments import run_world

NODES = {**NETWORK, "nodes": 60}
LINKS = {"message_size": "128KB", "uplink": "50Mbit/s", "downlink": "30Mbit/s", "validation": "1ms"}


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
