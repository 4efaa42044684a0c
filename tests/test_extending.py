"""Things added from outside the package as the pages say: the examples in one small run.

The topology's are in `test_extending_topology`.
"""

import bisect
import json
from collections.abc import Iterator
from typing import Any

import pandas as pd
import pytest
from extending import run_example
from identifiers import whole
from oracle.dissemination import Edge, spread

from scribe_spark import experiments
from scribe_spark.config import Execution, RunConfig
from scribe_spark.core.errors import InputError
from scribe_spark.measures.metrics import unregister_measure
from scribe_spark.overlays import unregister_overlay
from scribe_spark.systems.registry import unregister_system

NODES = 20
NETWORK = {"transit_domains": 2, "transit_size": 2, "stubs_per_transit": 2, "stub_size": 3}


@pytest.fixture(scope="module")
def examples() -> Iterator[None]:
    """All examples, registered."""
    run_example("chain")
    run_example("circle")
    run_example("random_tree")
    run_example("star")
    run_example("slowest")
    run_example("fingers")
    yield
    for name in ("chain", "circle", "random_tree", "scribe_star"):
        unregister_system(name)
    unregister_measure("slowest")
    unregister_overlay("fingers")


@pytest.fixture(scope="module")
def run(spark, examples, tmp_path_factory) -> Iterator[experiments.Run]:
    """A small run with all examples."""
    config = RunConfig(
        nodes=NODES,
        groups=4,
        overlay="fingers",
        variants="star,chain,circle,random_tree",
        random_tree_children=2,
        write_routing_table=True,
        **NETWORK,
    )
    out = str(tmp_path_factory.mktemp("extending") / "out")
    execution = Execution(out=out, master="local[2]", partitions=1, engine="tasks")
    experiments.check(config, execution)
    with experiments.run(spark, config, execution) as done:
        yield done


def rows(run: experiments.Run, table: str, system: str) -> pd.DataFrame:
    """The rows of one system."""
    found = run.table(table).toPandas()
    return found[found["system"] == system]


def test_the_system_is_in_every_table_and_reaches_every_member_once(run):
    heard = rows(run, "deliveries", "chain")
    by_scribe = rows(run, "deliveries", "scribe")
    pairs = sorted(zip(heard["group"], heard["node"], strict=True))
    assert pairs == sorted(zip(by_scribe["group"], by_scribe["node"], strict=True))
    for _, group in heard.groupby("group"):
        group = group.sort_values("hops")
        assert group["hops"].tolist() == list(range(1, len(group) + 1))
        assert group["delay_ms"].is_monotonic_increasing
        assert group["node"].is_monotonic_increasing
    assert len(rows(run, "tree_edges", "chain")) == len(heard)
    assert len(rows(run, "node_stress", "chain")) == NODES
    assert rows(run, "link_stress", "chain")["packets"].sum() > 0
    assert len(rows(run, "group_delay", "chain")) == len(rows(run, "group_delay", "scribe")) > 0


def test_it_is_measured_like_the_others(run):
    values = {row["name"]: row["value"] for row in run.metrics()}
    deliveries = run.table("deliveries").toPandas()
    most = deliveries[deliveries["system"] == "chain"]["hops"].max()
    assert values["chain.depth.max"] == most
    # a copy to each member but the source
    assert (
        values["chain.children_entries.mean"]
        == len(deliveries[deliveries["system"] == "chain"]) / NODES
    )
    assert values["chain.rad.median"] > values["scribe.rad.median"] > 0
    assert values["chain.messages"] > 0


def test_it_is_drawn_beside_the_papers_systems(run):
    figure = run.read_text("figures/figure-07-delay-penalty.svg")
    assert "Chain, RAD" in figure
    assert "Chain" in run.read_text("figures/figure-09-children-entries.svg")


@pytest.mark.slow
def test_all_but_overlays_work_in_runs_with_rounds(spark, examples, tmp_path):
    """A third of the nodes fails; those that are left get the messages, and are measured."""
    config = RunConfig(
        **{"nodes": 60, "overlay": "perfect", "leaf_set": 8, "replicas": 3, "groups": 4, **NETWORK},
        **{"variants": "star,chain,circle,random_tree", "generator": "mass-failure", "share": 0.3},
    )
    how = {"master": "local[2]", "partitions": 1, "engine": "tasks"}
    execution = Execution(out=str(tmp_path / "out"), **how)
    with experiments.run(spark, config, execution, experiments.PHASES[:-1]) as done:
        live = set(done.table("nodes").toPandas()["node"])
        assert 30 < len(live) < 60
        by_scribe = rows(done, "deliveries", "scribe")
        assert len(by_scribe)
        for system in ("chain", "circle", "random_tree", "scribe_star"):
            heard = rows(done, "deliveries", system)
            assert set(heard["node"]) <= live
            assert sorted(zip(heard["group"], heard["node"], strict=True)) == sorted(
                zip(by_scribe["group"], by_scribe["node"], strict=True)
            )
        values = {row["name"]: row["value"] for row in done.metrics()}
        assert values["scribe_star.depth.max"] == 1
        assert values["chain.slowest_delivery"] > values["scribe_star.slowest_delivery"] > 0
    elsewhere = Execution(out=str(tmp_path / "other"), master="local[2]")
    with pytest.raises(InputError, match=r"fingers.*cannot start a world; give one of"):
        experiments.check(config.replace(overlay="fingers"), elsewhere)


# --- a mesh


@pytest.fixture(scope="module")
def circles(run) -> dict[int, list[int]]:
    """The members of each group and its source, in order."""
    members, groups = (run.table(name).toPandas() for name in ("members", "groups"))
    sitting = {int(group): {int(root)} for group, root in groups[["group", "root"]].to_numpy()}
    for group, node in members.to_numpy().tolist():
        sitting[group].add(node)
    return {group: sorted(nodes) for group, nodes in sitting.items()}


def test_the_mesh_is_flooded_as_event_by_event(run, circles):
    nodes = run.table("nodes").toPandas()
    router = nodes.set_index("node")["router"]
    rank = dict(zip(nodes.sort_values(["id_hi"], key=lambda c: c.astype("uint64"))["node"],
                    range(NODES), strict=True))  # fmt: skip
    underlay, root = run.simulation.underlay, run.table("groups").toPandas().set_index("group")
    kernel = underlay.kernel

    def delay(a: int, b: int) -> int:
        ends = (kernel.index(router.loc[[at_rank[end]]].to_numpy()) for end in (a, b))
        return int(kernel.delays(*ends)[0]) + 2 * underlay.lan_us

    at_rank = {place: node for node, place in rank.items()}
    copies, heard = rows(run, "copies", "circle"), rows(run, "deliveries", "circle")
    for group, seats in circles.items():
        edges = {
            Edge(rank[node], rank[seats[(seat + side) % len(seats)]], ())
            for seat, node in enumerate(seats)
            for side in (-2, -1, 1, 2)
        }
        edges = [edge for edge in edges if edge.node != edge.peer]
        source = rank[root.loc[group, "root"]]
        first, sent = spread([source], edges, lambda f, e: e.peer != f.sender, delay, "time", 0, 0)
        mine = copies[copies["group"] == group]
        found = zip(mine["sender"], mine["receiver"], mine["hop"], mine["sent_ms"], mine["first"],
                    strict=True)  # fmt: skip
        assert sorted(found) == sorted(
            (at_rank[c.sender], at_rank[c.receiver], c.hops, c.sent_us / 1000, c.first)
            for c in sent
        )
        got = heard[heard["group"] == group]
        assert sorted(zip(got["node"], got["hops"], got["delay_ms"], strict=True)) == sorted(
            (at_rank[node], f.hops, f.at_us / 1000) for node, f in first.items() if f.hops
        )


def test_what_the_mesh_keeps_and_repeats_is_measured(run, circles):
    values = {row["name"]: row["value"] for row in run.metrics()}
    state = rows(run, "system_state", "circle")
    assert set(state["kind"]) == {"neighbours"}
    kept = state.groupby("node")["entries"].sum()
    assert values["circle.state.max"] == kept.max()
    assert values["circle.state.mean"] == kept.sum() / NODES
    assert kept.sum() == sum(len(s) * min(4, len(s) - 1) for s in circles.values())
    copies = rows(run, "copies", "circle")
    again = int((~copies["first"]).sum())
    assert values["circle.duplicates"] == again > 0
    assert values["circle.duplicates.mean"] == again / copies["first"].sum()
    # node stress is of the copies that a node sends, link stress of those that links carry
    assert values["circle.children_entries.mean"] == len(copies) / NODES
    up = rows(run, "link_stress", "circle").query("kind == 'lan_up'").set_index("src")["packets"]
    assert up.to_dict() == copies.groupby("sender").size().to_dict()
    assert values["circle.rad.median"] >= 1
    assert {row["clock"] for row in run.metrics() if row["name"].startswith("circle.")} == {"time"}


def test_a_run_may_have_the_mesh_alone(spark, run, tmp_path):
    """Beside what delays are compared with; its rows are the same, of two buckets."""
    config = run.simulation.config.replace(variants="plain", systems="circle")
    how = {"master": "local[2]", "partitions": 2, "engine": "tasks"}
    execution = Execution(out=str(tmp_path / "out"), **how)
    with experiments.run(spark, config, execution, experiments.PHASES[:-1]) as alone:
        assert set(alone.table("deliveries").toPandas()["system"]) == {"circle", "ip_multicast"}
        for table in ("copies", "deliveries", "link_stress", "group_delay", "node_stress"):
            mine, theirs = (rows(one, table, "circle") for one in (alone, run))
            names = list(mine.columns)
            pd.testing.assert_frame_equal(
                *(one.sort_values(names, ignore_index=True) for one in (mine, theirs))
            )
        systems = {row["name"].partition(".")[0] for row in alone.metrics()}
        assert {"circle", "ip_multicast"} <= systems
        assert not systems & {"scribe", "chain", "naive_unicast"}


def test_the_measure_is_among_the_metrics_and_in_the_report(run):
    rows = {row["name"]: row for row in run.metrics()}
    longest = run.table("deliveries").toPandas().groupby("system")["delay_ms"].max()
    for system in ("scribe", "scribe_star", "ip_multicast", "naive_unicast", "chain", "circle"):
        row = rows[f"{system}.slowest_delivery"]
        assert row["value"] == longest[system]
        assert (row["unit"], row["figure"], row["paper"]) == ("ms", None, None)
    page = run.read_text("report.html")
    assert "Other measures" in page
    assert "chain.slowest_delivery" in page


def test_metrics_are_json(run):
    assert json.loads(run.read_text("metrics.json")) == run.metrics()


# --- a tree variant


def test_the_variant_is_a_tree_of_one_hop_from_each_root(run):
    heard, by_scribe = rows(run, "deliveries", "scribe_star"), rows(run, "deliveries", "scribe")
    pairs = sorted(zip(heard["group"], heard["node"], strict=True))
    assert pairs == sorted(zip(by_scribe["group"], by_scribe["node"], strict=True))
    assert set(heard["hops"]) == {1}
    root = run.table("groups").toPandas().set_index("group")["root"]
    edges = rows(run, "tree_edges", "scribe_star")
    assert edges["parent"].tolist() == root[edges["group"]].tolist()
    assert "Star" in run.read_text("figures/figure-09-children-entries.svg")


def test_runs_have_a_variant_only_on_request(run, tmp_path):
    systems = {row["name"].partition(".")[0] for row in run.metrics()}
    assert "scribe_star" in systems
    assert not systems & {"scribe_collapse", "scribe_lazy", "scribe_bottleneck"}
    with pytest.raises(InputError, match=r"variants = 'sta': is unknown; did you mean 'star'\?"):
        experiments.check(RunConfig(variants="sta", **NETWORK), Execution(out=str(tmp_path)))


# --- an overlay


@pytest.fixture(scope="module")
def ring(run) -> list[tuple[int, int]]:
    """nodeId and node, in the order of the ring."""
    nodes = run.table("nodes").toPandas()
    ids = map(whole, nodes["id_hi"].tolist(), nodes["id_lo"].tolist())
    return sorted(zip(ids, nodes["node"].tolist(), strict=True))


def test_nodes_of_the_overlay_know_those_1_2_4_8_places_after_them(run, ring):
    order = [node for _, node in ring]
    table = run.table("routing_table").toPandas()
    found = {(node, row): entry for node, row, _, entry in table.itertuples(index=False)}
    assert found == {
        (node, row): order[(rank + 2 ** (row - 1)) % NODES]
        for rank, node in enumerate(order)
        for row in range(1, 6)
    }
    assert run.table("table_entries").toPandas().values.tolist() == [[NODES, 5 * NODES]]
    values = {row["name"]: row["value"] for row in run.metrics()}
    assert values["pastry.table_entries.mean"] == 5


def last_before(ring: list[tuple[int, int]], key: int) -> int:
    """The rank of the last node at or before a key."""
    return (bisect.bisect_right(ring, (key, NODES)) - 1) % len(ring)


def test_messages_end_at_the_last_node_before_their_key_by_the_steps_of_the_overlay(run, ring):
    groups = run.table("groups").toPandas()
    keys = list(map(whole, groups["key_hi"].tolist(), groups["key_lo"].tolist()))
    roots = [last_before(ring, key) for key in keys]
    assert groups["root"].tolist() == [ring[rank][1] for rank in roots]
    # every hop of a JOIN is the longest step that does not pass the root
    rank_of = {node: rank for rank, (_, node) in enumerate(ring)}
    root_of = dict(zip(groups["group"], roots, strict=True))
    edges = rows(run, "tree_edges", "scribe")
    assert len(edges) > NODES
    for group, parent, child in edges[["group", "parent", "child"]].itertuples(index=False):
        left = (root_of[group] - rank_of[child]) % NODES
        step = (rank_of[parent] - rank_of[child]) % NODES
        assert step == 2 ** (left.bit_length() - 1)


def test_what_the_overlay_cannot_do_is_refused_before_any_work(run, tmp_path):
    out = Execution(out=str(tmp_path))
    remover: dict[str, Any] = {"variants": "bottleneck", "shed_table": "whole", **NETWORK}
    with pytest.raises(InputError, match=r"shed_table = 'whole': needs randomised routing, which"):
        experiments.check(RunConfig(overlay="fingers", **remover), out)
    experiments.check(RunConfig(**remover), out)
    with pytest.raises(
        InputError, match=r"overlay = 'finger': is unknown; give one of perfect, arrivals, can, f"
    ):
        experiments.check(RunConfig(overlay="finger", **NETWORK), out)


# --- an application


def test_the_application_counts_the_nodes_on_the_way_to_the_root(run, ring):
    census = run_example("census")["census"]
    counted, arrived = census(run.simulation.overlay)
    assert [tuple(row) for row in counted.collect()] == [(ring[last_before(ring, 0)][1], NODES)]
    numbers = [row["count"] for row in arrived.select("count").collect()]
    assert sum(numbers) == NODES
    # those of nodes d places before the root come by the steps in the binary digits of d, the
    # longest first: they go on as one where the last step and the number of steps are equal
    steps = {(d & -d, d.bit_count()) for d in range(1, NODES)}
    assert len(numbers) == 1 + len(steps)
