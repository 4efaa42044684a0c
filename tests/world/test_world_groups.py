"""Worlds with groups on Spark: what the kernels make of them, resumed, and told as tables."""

import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from pyspark.sql import DataFrame
from small_network import NETWORK, table

from scribe_spark import experiments
from scribe_spark.config import Execution, RunConfig, WorldConfig
from scribe_spark.core.errors import InputError
from scribe_spark.engine.packing import take
from scribe_spark.experiments import PHASES, Simulation, run_world, world_setup
from scribe_spark.experiments.run_world import tidy
from scribe_spark.measures.multicasts import BASELINES, multicast_units
from scribe_spark.report.world import GROUP_PANELS
from scribe_spark.systems.registry import SCRIBE, find_system
from scribe_spark.systems.scribe.upcalls import Application, Emitted
from scribe_spark.worlds.round_measures import ROUND_MEASURES
from scribe_spark.worlds.summary import system_measures, system_of
from scribe_spark.worlds.traffic import LINK_STRESS_MEASURES

MULTICAST_MEASURES = multicast_units(SCRIBE, BASELINES)

CONFIG = WorldConfig(
    **NETWORK, nodes=80, leaf_set=8, groups=6, replicas=3, rounds=9, lookups=20, lost_after=4,
    generator="mass-failure+root-failure+publications", share=0.2, event_round=2,
    delivery="reliable", publish_source="member", link_stress_period=3,
    measures=("delay", "link_stress", "node_stress"),
)  # fmt: skip


def test_limits_of_nodes_are_read_once(simulation, tmp_path, monkeypatch):
    """For the variants of Scribe and for the systems beside it, which share the array."""
    path, read = tmp_path / "capacities.csv", world_setup.read_capacities
    rows = [f"{node},{1 + node % 7}" for node in range(CONFIG.overlay.nodes)]
    path.write_text("\n".join(["node,limit", *rows]))
    reads = []
    monkeypatch.setattr(
        world_setup, "read_capacities", lambda *given: reads.append(given) or read(*given)
    )
    more = {"capacities": str(path), "variants": "bottleneck", "systems": "scribe,gossipsub"}
    made = world_setup.protocols_of(simulation, WorldConfig(**CONFIG.given() | more))
    assert len(reads) == 1
    assert made.systems.limits[:9].tolist() == [1, 2, 3, 4, 5, 6, 7, 1, 2]


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


def test_an_application_of_ones_own_is_played_and_measured(spark):
    """Half of the children get nothing: the members below are not reached, in a round as in all."""

    class Plain(Application):
        def __init__(self, nodes: int) -> None:
            self.nodes = nodes

    class Half(Plain):
        def forward_handler(self, calls, messages, contents) -> Emitted:
            children = take(calls.children, calls.children["child"] < self.nodes // 2)
            return Emitted({**children, "message": np.full(len(children["call"]), -1)})

    config = WorldConfig(
        **NETWORK, nodes=90, leaf_set=8, groups=7, seed=3, replicas=3, rounds=1, lookups=0,
        generator="publications", measures="delay",
    )  # fmt: skip
    measured = {}
    with Simulation(spark, config) as simulation:
        for application in (None, Plain, Half):
            world = experiments.make_world(simulation, config, application=application)
            measured[application] = world.step()
            delivered = world.deliveries.where("system = 'scribe'").count()
            unicast = world.deliveries.where("system = 'naive_unicast'").count()
            assert measured[application]["scribe.multicasts.reached"] == delivered / unicast
            world.release()
        reliable = config.replace(delivery="reliable")
        with pytest.raises(InputError, match="delivery = 'reliable': is an application itself"):
            experiments.make_world(simulation, reliable, application=Half)
    for name in MULTICAST_MEASURES.keys() & measured[None].keys():
        assert measured[None][name] == measured[Plain][name]
    assert 0 < measured[Half]["scribe.multicasts.reached"] < 0.7
    assert measured[None]["scribe.multicasts.reached"] == 1


def _ordered(frame: pd.DataFrame, by: list[str]) -> pd.DataFrame:
    return frame.sort_values(by).reset_index(drop=True)


# --- runs


@pytest.fixture(scope="module")
def finished(spark, tmp_path_factory, drawn_rounds) -> Path:
    out = tmp_path_factory.mktemp("groups") / "out"
    with drawn_rounds():
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


def test_latencies_of_the_last_round_are_those_of_its_deliveries(finished):
    latency, heard, last = (
        table(finished, "latency"),
        table(finished, "deliveries"),
        CONFIG.world.rounds - 1,
    )
    assert {*latency["publication"]} == {last}
    reached = latency.set_index(["system", "group"])["reached"]
    assert reached[reached > 0].to_dict() == heard.groupby(["system", "group"]).size().to_dict()
    rounds = table(finished, "rounds").query("round == @last").set_index("measure")["value"]
    assert rounds["scribe.latency.max"] == heard.query("system == 'scribe'")["delay_ms"].max()
    counts = table(finished, "latency_counts").query("system == 'scribe'")["count"].sum()
    assert counts == reached["scribe"].sum()


def test_watched_trees_are_told_from_a_failure_to_its_repair(finished):
    trees = table(finished, "watched_trees")
    assert trees["round"].min() == CONFIG.world.event_round
    told = trees.groupby(["group", "round"])["moment"].agg(set)
    assert {"before", "after"} in list(told)
    orphans = trees[trees["moment"] == "after"].groupby(["group", "round"])["orphan"].any()
    assert orphans.any()
    assert not orphans.groupby("group").last().any()
    assert '<h2 id="scene">' in (finished / "report.html").read_text()
    for name in ("tree-before", "tree-failure", "tree-repaired"):
        assert (finished / "figures" / f"{name}.svg").is_file()


def test_measures_of_groups_are_scribes_and_the_page_draws_them(finished):
    rounds = table(finished, "rounds")
    scribe = set(rounds.loc[rounds["system"] == "scribe", "measure"])
    assert {"scribe.orphans", "messages.JOIN", "scribe.publications.late"} <= scribe
    assert "messages.join message" not in scribe
    measured = rounds[rounds["measure"].isin(LINK_STRESS_MEASURES)]
    assert set(measured["measure"]) == set(LINK_STRESS_MEASURES)
    assert set(measured["round"]) == {2, 5, 8}
    page = (finished / "report.html").read_text()
    assert all(panel.title in page for panel in GROUP_PANELS)
    assert re.search(r"maintenance: [\d.,]+ in round 2, [\d.,]+ in round 8", page)


def test_every_measure_of_groups_is_scribes():
    """Also those of numbers of rounds that are not listed: a repair may take any number."""
    measured = {"scribe.repaired.63": 1.0, "scribe.repaired.64": 2.0, "scribe.repaired.1000": 3.0,
                "messages.JOIN": 4.0, "messages.lost payload": 5.0, "messages.join message": 6.0,
                "nodes.live": 7.0, "reference_tree.hosts": 8.0}  # fmt: skip
    rows = tidy({0: measured})
    systems = dict(zip(rows["measure"], rows["system"], strict=True))
    assert systems == {
        **dict.fromkeys(list(measured)[:5], "scribe"),
        **{"messages.join message": "pastry", "nodes.live": "pastry"},
        "reference_tree.hosts": "reference_tree",
    }
    scribes = [
        name for name in system_measures(find_system(SCRIBE)) if name[:2] not in ("ip", "na")
    ]
    assert {system_of(measure) for measure in scribes} == {SCRIBE}
    names = [*scribes, *ROUND_MEASURES]
    assert len({name.lower() for name in names}) == len(names), "Spark does not see case"


@pytest.mark.parametrize("overlay", ["perfect", pytest.param("arrivals", marks=pytest.mark.slow)])
def test_with_no_events_after_the_joins_trees_are_the_runs(spark, overlay):
    """The trees that CREATE and JOIN build in a run's supersteps, edge by edge."""
    given = {**NETWORK, "nodes": 300, "leaf_set": 8, "groups": 20, "overlay": overlay}
    config = WorldConfig(**given, replicas=3, rounds=6, lookups=0)
    with Simulation(spark, RunConfig(**given), engine="tasks") as simulation:
        static = _edges(simulation.children)
        world = experiments.make_world(simulation, config)
        for number in range(config.world.rounds):
            measured = world.step()
            assert _edges(world.children) == static
            assert measured["scribe.orphans"] == 0
            # every node of a tree but its root has sent one JOIN
            assert measured["scribe.joins"] == (len(static) if number == 0 else 0)
    assert len(static) > 500


def _edges(children: DataFrame) -> set[tuple[int, int, int]]:
    return {tuple(row) for row in children.select("group", "parent", "child").collect()}
