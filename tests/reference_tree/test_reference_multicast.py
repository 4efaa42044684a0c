"""The reference tree as a multicast system of a run, against trees made plainly."""

import itertools

import pandas as pd
import pytest
from identifiers import whole
from oracle.reference_tree.tree import parents_of_hosts

from scribe_spark.config import RunConfig
from scribe_spark.experiments import Simulation
from scribe_spark.runtime.batches import Batches

NETWORK = {"transit_domains": 2, "transit_size": 2, "stubs_per_transit": 2, "stub_size": 3}
PERFECT = NETWORK | {"overlay": "perfect"}
CONFIG = RunConfig(**PERFECT, nodes=80, groups=6, variants="reference_tree")


@pytest.fixture(scope="module")
def simulation(spark):
    with Simulation(spark, CONFIG, engine="tasks") as made:
        yield made


def neighbours_of(simulation: Simulation, c: int, assignment: str) -> dict[int, int | None]:
    """Node -> parent, plainly."""
    rows = simulation.nodes.collect()
    node_of = {whole(row["id_hi"], row["id_lo"]): row["node"] for row in rows}
    above = parents_of_hosts(node_of, 128, c, assignment)
    return {node_of[i]: None if p is None else node_of[p] for i, p in above.items()}


def path(parent: dict[int, int | None], a: int, b: int) -> list[int]:
    ways = []
    for at in (a, b):
        way: list[int] = []
        node: int | None = at
        while node is not None:
            way.append(node)
            node = parent[node]
        ways.append(way)
    joint = next(node for node in ways[0] if node in ways[1])
    up, down = (way[: way.index(joint)] for way in ways)
    return [*up, joint, *down[::-1]]


@pytest.mark.parametrize(
    ("children", "assignment", "source"),
    [(2, "pastry", "root"), pytest.param(3, "chord", "direct", marks=pytest.mark.slow)],
)
def test_messages_go_over_the_tree_to_the_members(simulation, children, assignment, source):
    changes = {"reference_children": children, "reference_assignment": assignment}
    config = CONFIG.replace(source=source, **changes)
    with Simulation(simulation.spark, config, shares=simulation, engine="tasks") as ours:
        (made,) = [s for s in ours.systems if s.system == "reference_tree"]
        parent = neighbours_of(ours, children, assignment)
        groups = {row["group"]: row["source"] for row in ours.multicast_groups.collect()}
        members = [(row["group"], row["node"]) for row in ours.members.collect()]
        delay = {(row["a"], row["b"]): row["delay_us"] for row in all_delays(ours).collect()}
        router = {row["node"]: row["router"] for row in ours.nodes.collect()}
        copies, heard = set(), []
        for group, node in members:
            way = path(parent, groups[group], node)
            legs = list(itertools.pairwise(way))
            copies |= {(group, a, b, router[a], router[b]) for a, b in legs}
            if legs:
                total = sum(delay[router[a], router[b]] for a, b in legs)
                heard.append((group, node, len(legs), total))
        columns = ["group", "parent", "child", "parent_router", "child_router"]
        assert sorted(map(tuple, Batches.of(made.edges, columns).frame.collect())) == sorted(copies)
        assert sorted(map(tuple, Batches.of(made.deliveries).frame.collect())) == sorted(heard)


def all_delays(simulation: Simulation):
    routers = pd.DataFrame({"a": simulation.underlay.routers})
    frame = simulation.spark.createDataFrame(routers)
    both = frame.crossJoin(frame.withColumnRenamed("a", "b"))
    return simulation.underlay.delay(both, "a", "b")


@pytest.mark.parametrize(("nodes", "groups"), [pytest.param(30, 0, marks=pytest.mark.slow), (1, 2)])
def test_where_nobody_hears_anything(simulation, nodes, groups):
    config = RunConfig(**PERFECT, nodes=nodes, groups=groups, variants="reference_tree")
    with Simulation(simulation.spark, config, engine="tasks") as ours:
        assert all(Batches.of(s.edges).frame.count() == 0 for s in ours.systems)
