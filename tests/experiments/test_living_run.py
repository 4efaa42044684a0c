"""Runs with rounds: reliable delivery, access lists, events, applications of one's own.

Where nobody comes or goes they are runs without rounds; where somebody does, they are worlds that
are played by hand.  That worlds are the oracle's say tests/scribe_living and tests/world.
"""

import json
from collections import Counter
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from small_network import NETWORK, table

from scribe_spark import experiments, schemas
from scribe_spark.config import Execution, RunConfig, WorldConfig
from scribe_spark.core.progress import Silent
from scribe_spark.engine.packing import take
from scribe_spark.experiments import Simulation
from scribe_spark.systems.scribe.upcalls import Emitted, ScribeApplication
from scribe_spark.worlds.round_of_run import deliveries, other_tables, tree_edges
from scribe_spark.worlds.world import World

SIZE = {
    **NETWORK,
    "overlay": "perfect",
    "nodes": 90,
    "leaf_set": 8,
    "groups": 7,
    "seed": 3,
    "replicas": 3,
}
#: A third of the nodes goes, and so do members and roots.
EVENTFUL = {"generator": "mass-failure+root-failure+group-churn", "share": 0.3, "roots": 2,
            "event_round": 2, "rounds": 4, "membership": 6.0}  # fmt: skip
#: Systems that need no more than the overlay and the members that are left.
OTHERS = "scribe,naive_unicast,bayeux,flooding,can,gossipsub,reference_tree"


def rows(frame: DataFrame) -> Counter:
    return Counter(map(tuple, frame.collect()))


def handed_over(stages: Simulation) -> dict[str, Counter]:
    systems = stages.systems
    return {
        "tree_edges": rows(tree_edges(systems).frame),
        "deliveries": rows(deliveries(systems).frame),
    }


# --- where nobody comes or goes


@pytest.mark.slow
@pytest.mark.parametrize("overlay", ["perfect", "arrivals"])
def test_an_access_list_that_admits_everybody_is_a_run_with_all_variants(spark, tmp_path, overlay):
    """Every table, JOINs that the remover adds too."""
    nodes = range(SIZE["nodes"])
    listed = [(1, node, right) for right in ("create", "join", "multicast") for node in nodes]
    pd.DataFrame(listed, columns=["group", "node", "right"]).to_csv(tmp_path / "a.csv", index=False)
    config = RunConfig(
        **SIZE | {"overlay": overlay},
        **{"variants": "bottleneck,collapse,lazy", "limit": 6, "systems": OTHERS},
    )
    records = {}
    for name, given in {"plain": {}, "access": {"access": str(tmp_path / "a.csv")}}.items():
        out = str(tmp_path / name)
        with experiments.run(spark, config.replace(**given), Execution(out=out)) as done:
            phases = done.manifest()["phases"]
            records[name] = {
                table: (of["rows"], of["digest"])
                for p in phases
                for table, of in p["tables"].items()
            }
    others = {"events", "arrival_messages"}
    ours, theirs = ({n: of for n, of in r.items() if n not in others} for r in records.values())
    assert ours == theirs
    assert len(ours) > 14


#: A network that loses packets, and publications with sizes.
LOSSY = """graph [
  node [ id 0 ] node [ id 1 ] node [ id 2 ]
  edge [ source 0 target 1 latency "7 ms" packet_loss 0.2 ]
  edge [ source 1 target 2 latency "9 ms" packet_loss 0.1 ]
]
"""
RATES = {"uplink": "10Mbit/s", "downlink": "16Mbit/s", "validation": "3ms"}
SCHEDULE = "time,group,node,size\n40ms,2,11,60KB\n0,1,11,100KB\n15,1,29,20KB\n"

#: Publications of runs: settings with sizes, with several publications, with losses, with both.
PUBLISHED = {
    "sizes": {"message_size": "50KB", "source": "direct", **RATES},
    "a schedule, all": {"schedule": "schedule.csv", "source": "root", **RATES},
    "publications": {"publications": 2, "interval": "1ms", "published_by": "members"},
    "losses": {"topology": "lossy.gml"},
    "sizes and losses": {"topology": "lossy.gml", "message_size": "50KB", **RATES},
}
PUBLISHED["a schedule"] = PUBLISHED["a schedule, all"] | {
    **{"variants": "plain", "systems": "scribe,gossipsub"}
}


@pytest.fixture
def tables(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("lossy.gml").write_text(LOSSY, "utf-8")
    Path("schedule.csv").write_text(SCHEDULE, "utf-8")


def published(stages: Simulation) -> dict[str, Counter]:
    """Return deliveries, and the copies of systems that hand them over."""
    found = {name: rows(of.frame) for name, of in other_tables(stages.systems) if name == "copies"}
    return {**handed_over(stages), **found}


@pytest.mark.slow
@pytest.mark.parametrize("name", PUBLISHED)
def test_publications_of_rounds_are_those_of_a_run_where_nobody_comes_or_goes(spark, tables, name):
    """By the clock, and down to the first loss."""
    given = {
        n: one for n, one in SIZE.items() if "topology" not in PUBLISHED[name] or n not in NETWORK
    }
    given |= {"variants": "collapse", "systems": "scribe,bayeux,flooding,gossipsub"}
    config = RunConfig(**given | PUBLISHED[name])
    reliable = config.replace(delivery="reliable")
    experiments.check(reliable, Execution(out="out"))
    with (
        Simulation(spark, config, engine="tasks") as plain,
        Simulation(spark, reliable, shares=plain, engine="tasks") as stages,
    ):
        ours, theirs = published(stages), published(plain)
    assert ours == theirs
    assert all(len(found) > 50 for found in ours.values())


# --- where nodes and members come and go


@pytest.fixture(scope="module")
def eventful(spark, tmp_path_factory) -> Path:
    """A run in which nodes, roots and members go, with all systems."""
    out = tmp_path_factory.mktemp("eventful") / "out"
    config = RunConfig(**SIZE, **EVENTFUL, systems=OTHERS, variants="bottleneck", limit=6)
    how = Execution(out=str(out), engine="tasks")
    experiments.run(spark, config, how).close()
    return out


#: Settings of runs that a world of the same settings has in its last round.
BY_HAND = {
    "": {},
    "sizes": {"message_size": "50KB", **RATES},
    "sizes, routed": {"message_size": "50KB", "source": "routed", **RATES},
    "earlier publications": {
        **{"generator": f"{EVENTFUL['generator']}+publications", "publish_rate": 0.5},
        **{"delivery": "reliable", "lost_after": 9, "publish_source": "any"},
    },
}


@pytest.mark.slow
@pytest.mark.parametrize("name", BY_HAND)
def test_the_world_played_by_hand_has_the_same_edges_and_deliveries(spark, name):
    config = RunConfig(**SIZE | EVENTFUL | BY_HAND[name])
    given = WorldConfig.of_run(config).replace(**BY_HAND[name])
    with (
        Simulation(spark, given) as simulation,
        Simulation(spark, config, shares=simulation, engine="tasks") as stages,
    ):
        ours = handed_over(stages)
        sources = stages.multicast_groups.select("group", F.col("source").alias("node"))
        last = stages.events.toPandas()["round"].max()
        assert last > 1
        assert stages.node_count < 70
        world = experiments.make_world(simulation, given)
        after = 10 if name == "earlier publications" else 6
        assert after == max(given.scribe.child_timeout + 2, given.scribe.deadline + 1)
        for _ in range(last + after):
            world.step()
        world.scribe.publish(sources)
        assert world.step(messages=True)["scribe.multicasts.reached"] == 1
        # the clock of a world does not play the copies of baselines
        systems = ["scribe", "ip_multicast", *([] if "sizes" in name else ["naive_unicast"])]
        for table, every in ours.items():
            found = Counter({row: n for row, n in every.items() if row[0] in systems})
            theirs = getattr(world, table).where(F.col("system").isin(systems))
            assert rows(theirs) == found
            assert len(found) > 100
        both_have_the_same_tables(stages, world)
        world.release()


@pytest.mark.slow
def test_a_run_with_rounds_may_have_no_groups(spark):
    """The overlay is that of a world of Pastry alone after as many rounds."""
    config = RunConfig(**SIZE | {"groups": 0, "generator": "mass-failure", "rounds": 4})
    experiments.check(config, Execution(out="out"))
    given = WorldConfig.of_run(config)
    with (
        Simulation(spark, given) as simulation,
        Simulation(spark, config, shares=simulation) as stages,
    ):
        world = experiments.make_world(simulation, given)
        for _ in range(stages.events.toPandas()["round"].max() + 7):
            world.step()
        assert rows(stages.nodes) == rows(world.nodes)
        assert stages.node_count == 81
        overlay = world.overlay()
        assert rows(stages.routing_table) == rows(overlay.routing_table())
        overlay.release()
        assert not any(found for found in handed_over(stages).values())
        world.release()


def both_have_the_same_tables(stages: Simulation, world: World) -> None:
    """By the same names and types: what nodes know of live nodes, and the trees."""
    for name, schema in (
        ("nodes", schemas.NODES),
        ("leaf_sets", schemas.LEAF_SETS),
        ("routing_table", schemas.ROUTING_TABLE),
        ("children", schemas.CHILDREN),
        ("messages", schemas.MESSAGES),
    ):
        found = []
        for asked in (getattr(stages, name), getattr(world, name)):
            table = asked.select(schema.names)
            assert table.dtypes == [(one.name, one.dataType.simpleString()) for one in schema]
            found.append(rows(table))
        ours, theirs = found
        if name in ("leaf_sets", "routing_table"):  # dead nodes are in the world's
            live = [row["node"] for row in world.nodes.collect()]
            entry = schema.names[-1] if name == "routing_table" else "leaf"
            of = world.nodes.select("node")
            known = (
                getattr(world, name).join(of, "node", "left_semi").where(F.col(entry).isin(live))
            )
            ours, theirs = (
                Counter((row["node"], row[entry]) for row in table.collect())
                for table in (getattr(stages, name), known)
            )
        if name == "messages":
            theirs = Counter({row: n for row, n in theirs.items() if row[0] == "payload"})
        assert ours == theirs, name
        assert len(ours) > 50
    members = world.memberships.where("member")
    assert world.memberships.schema.names == schemas.MEMBERSHIPS.names
    assert rows(members.select(schemas.MEMBERS.names)) == rows(
        stages.members.select(schemas.MEMBERS.names)
    )


@pytest.mark.slow
def test_a_run_on_buckets_has_the_same_tables(spark, eventful, tmp_path):
    """All systems; JOINs that the remover adds, and every number."""
    config = RunConfig(**json.loads((eventful / "manifest.json").read_text())["resolved"])
    how = Execution(out=str(tmp_path / "out"), buckets=2)
    with experiments.run(spark, config, how) as done:
        assert done.simulation.buckets == 2
        ours, theirs = (
            {
                table: of["digest"]
                for phase in json.loads((Path(out) / "manifest.json").read_text())["phases"]
                for table, of in phase["tables"].items()
            }
            for out in (done.out, eventful)
        )
    assert ours == theirs
    assert len(ours) > 14
    assert len(table(eventful, "extra_joins")) > 20
    name = "metrics.json"
    assert (tmp_path / "out" / name).read_text() == (eventful / name).read_text()


# --- access lists and applications


def test_whom_the_access_list_names_joins_and_multicasts(spark, tmp_path):
    few = {1: range(20), 2: [70, 71, 72]}
    listed = [(group, node, "join") for group, nodes in few.items() for node in nodes]
    listed += [(1, 7, "multicast"), (3, 5, "create")]
    pd.DataFrame(listed, columns=["group", "node", "right"]).to_csv(tmp_path / "a.csv", index=False)
    config = RunConfig(**SIZE, source="routed", access=str(tmp_path / "a.csv"))
    with (
        Simulation(spark, config.replace(access=None), engine="tasks") as plain,
        Simulation(spark, config, shares=plain, engine="tasks") as stages,
    ):
        everybody, ours = (rows(one.members.select("group", "node")) for one in (plain, stages))
        assert set(ours) == {(g, n) for g, n in everybody if g not in few or n in few[g]}
        sources = dict(stages.multicast_groups.select("group", "source").collect())
        assert set(sources) == set(range(1, 8))
        assert sources[1] == 7
        reached = Counter()
        for (system, group, node, *_), times in handed_over(stages)["deliveries"].items():
            assert times == 1
            assert (group, node) in ours
            reached[system, group] += 1
        for group, its in Counter(group for group, _ in ours).items():
            expected = its - ((group, sources[group]) in ours)
            assert reached["scribe", group] == reached["ip_multicast", group] == expected


def test_an_application_of_ones_own_is_part_of_a_run(spark, tmp_path):
    """Half of the children get nothing: the members below are not reached."""

    class Half(ScribeApplication):
        def __init__(self, nodes: int) -> None:
            self.nodes = nodes

        def forward_handler(self, calls, messages, contents) -> Emitted:
            children = take(calls.children, calls.children["child"] < self.nodes // 2)
            return Emitted({**children, "message": np.full(len(children["call"]), -1)})

    config, out = RunConfig(**SIZE), str(tmp_path / "out")
    how, trees = Execution(out=out, engine="tasks"), ("topology", "overlay", "trees")
    with experiments.run(spark, config, how, trees, application=Half) as done:
        phases = {phase["name"]: phase["registered"] for phase in done.manifest()["phases"]}
        (name,) = phases["trees"]["application"]
        assert name.endswith("Half")
        delivered = Counter(table(Path(out), "deliveries")["system"])
        assert 0 < delivered["scribe"] < 0.7 * delivered["ip_multicast"]
    notes = []

    class Told(Silent):
        def note(self, text: str) -> None:
            notes.append(text)

    experiments.run(spark, config, how.replace(resume=True), trees, progress=Told()).close()
    assert any("saved tables are of other" in note for note in notes)
