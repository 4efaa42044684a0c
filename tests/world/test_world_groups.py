"""Worlds with groups on Spark: what the kernels make of them, resumed, and told as tables."""

from pathlib import Path

import pandas as pd
import pytest
from small_network import NETWORK, table

from scribe_spark import experiments
from scribe_spark.config import Execution, RunConfig, WorldConfig
from scribe_spark.core.errors import InputError
from scribe_spark.experiments import PHASES, Simulation, run_world
from scribe_spark.measures.multicasts import BASELINES, multicast_units
from scribe_spark.systems.registry import SCRIBE
from scribe_spark.systems.scribe.upcalls import ScribeApplication

MULTICAST_MEASURES = multicast_units(SCRIBE, BASELINES)

CONFIG = WorldConfig(
    **NETWORK, nodes=80, leaf_set=8, groups=6, replicas=3, rounds=9, lookups=20, lost_after=4,
    generator="mass-failure+root-failure+publications", share=0.2, event_round=2,
    delivery="reliable", publish_source="member", link_stress_period=3,
    measures=("delay", "link_stress", "node_stress"),
)  # fmt: skip


@pytest.mark.parametrize(
    ("source", "measured_in"),
    [
        ("routed", 0),
        *(pytest.param(*of, marks=pytest.mark.slow) for of in (("root", 0), ("direct", 1))),
    ],
)
def test_a_round_is_measured_as_a_run(spark, tmp_path, source, measured_in):
    """Perfect tables, nobody comes or goes, the run's sources publish: the very numbers of a run.

    In the round before the first measured one, sources are told the root's address.
    """
    same = {**NETWORK, "nodes": 90, "leaf_set": 8, "groups": 7, "seed": 3, "source": source}
    run = RunConfig(**same, overlay="perfect")
    how = Execution(out=str(tmp_path / "run"), engine="tasks", partitions=1)
    with experiments.run(spark, run, how, PHASES[:-1]) as done:
        metrics = {metric["name"]: metric["value"] for metric in done.metrics()}
    star = table(tmp_path / "run", "tree_edges").query("system == 'naive_unicast'")
    sources = star[["group", "parent"]].drop_duplicates()
    events = pd.concat([sources.assign(round=number) for number in range(2)])
    events = events.rename(columns={"parent": "node"}).assign(event="publish")
    events.to_csv(tmp_path / "events.csv", index=False)
    world = WorldConfig(
        **same, replicas=3, rounds=2, lookups=0, events=str(tmp_path / "events.csv"),
        measures="link_stress,delay,node_stress",
    )  # fmt: skip
    with Simulation(spark, world) as simulation:
        played = experiments.make_world(simulation, world)
        measured = [played.step() for _ in range(measured_in + 1)][-1]
        for name in ("tree_edges", "deliveries"):
            ours, theirs = getattr(played, name).toPandas(), table(tmp_path / "run", name)
            by = [column for column in theirs if column not in ("hops", "delay_ms")]
            assert {*ours["system"]} == {"scribe", "ip_multicast", "naive_unicast"}
            pd.testing.assert_frame_equal(_ordered(ours, by), _ordered(theirs, by))
        played.release()
    found = {name: measured[name] for name in measured.keys() & MULTICAST_MEASURES.keys()}
    assert found.pop("scribe.multicasts") == 7
    assert found.pop("scribe.multicasts.reached") == 1
    # of trees a run does not count them
    again = {name for name in found if name.startswith("scribe.duplicates.")}
    assert {found.pop(name) for name in again} == {0}
    assert len(found) > 45
    assert found == {name: pytest.approx(metrics[name], rel=1e-12) for name in found}
    assert (metrics["scribe.rad.median"] > 1) or source == "root"


def test_an_application_of_ones_own_delivers_itself(simulation):
    with pytest.raises(InputError, match="delivery = 'reliable': is an application itself"):
        experiments.make_world(simulation, CONFIG, application=ScribeApplication)


def _ordered(frame: pd.DataFrame, by: list[str]) -> pd.DataFrame:
    return frame.sort_values(by).reset_index(drop=True)


# --- runs


@pytest.fixture(scope="module")
def finished(spark, tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("groups") / "out"
    run_world(spark, CONFIG, Execution(out=str(out)))
    return out


def test_reliable_delivery_loses_nothing_and_trees_reach_everybody(finished):
    publications = table(finished, "publications")
    assert publications["round"].nunique() == CONFIG.world.rounds
    assert publications["expected"].sum() > 100
    counted = publications["in_time"] + publications["late"] + publications["lost"]
    assert (counted == publications["expected"]).all()
    assert publications["late"].sum() > 0
    assert publications["lost"].sum() == 0
    members = table(finished, "memberships")
    rounds = table(finished, "rounds")
    of = rounds[rounds["measure"] == "scribe.members"].sort_values("round")["value"]
    assert members["member"].sum() == of.iloc[-1] < of.iloc[0]
    for _, tree in members.groupby("group"):
        assert tree["root"].sum() == 1
        parents = dict(zip(tree["node"], tree["parent"], strict=True))
        for node in parents:
            seen = set()
            while not pd.isna(parents[node]):
                assert node not in seen
                seen.add(node)
                node = int(parents[node])
            assert tree.set_index("node").at[node, "root"]
