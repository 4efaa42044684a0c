"""Things added from outside the package as the pages say: the examples of docs/extending_*.md.

References
----------
T. Thiery, The paths of least resistance: Introducing WFR-Gossip, ethresear.ch, 2025-06-26: with
10,000 nodes and D_robust = 3 about 98 % of the nodes are reached with half of the copies.
"""

import bisect
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from extending import FILES, run_example
from identifiers import whole
from oracle.dissemination import Edge, spread
from pyspark import cloudpickle

from scribe_spark import Simulation, experiments
from scribe_spark.config import Execution, RunConfig
from scribe_spark.core.errors import InputError
from scribe_spark.measures.metrics import unregister_measure
from scribe_spark.overlays import unregister_overlay
from scribe_spark.report.comparison import is_headline
from scribe_spark.rounds.declaration import MESH, System
from scribe_spark.rounds.group_overlays import GroupOverlays, Network, Overlays
from scribe_spark.systems.registry import register_system, unregister_system
from scribe_spark.topology.registry import load, unregister_topology
from tools import tutorials

cloudpickle.register_pickle_by_value(sys.modules[__name__])

NODES = 20
NETWORK = {"transit_domains": 2, "transit_size": 2, "stubs_per_transit": 2, "stub_size": 3}
TASKS = {"master": "local[2]", "partitions": 1, "engine": "tasks"}
SYSTEMS = ("chain", "circle", "random_tree", "scribe_star", "downhill", "push", "few")


class Push(GroupOverlays):
    """A push to eight random nodes, by the clock of hops."""

    clock = "hops"

    def edges(self, overlays, network):
        return overlays.each_publication(overlays.random_peers(network, 8, "push"))


class Few(GroupOverlays):
    """A push to two random nodes, which does not reach all."""

    def edges(self, overlays, network):
        return overlays.each_publication(overlays.random_peers(network, 2, "few"))


@pytest.fixture(scope="module")
def examples() -> Iterator[None]:
    """All examples, registered."""
    for name in ("chain", "circle", "random_tree", "star", "slowest", "fingers", "downhill"):
        run_example(name)
    run_example("ring_topology")
    register_system(
        System("push", "Push", MESH, lambda config: Push(), requested=True, clock="hops")
    )
    register_system(System("few", "Few", MESH, lambda config: Few(), requested=True))
    yield
    for name in SYSTEMS:
        unregister_system(name)
    unregister_measure("slowest")
    unregister_overlay("fingers")
    unregister_topology("ring")


@pytest.fixture(scope="module")
def run(spark, examples, tmp_path_factory) -> Iterator[experiments.Run]:
    """A small run with all examples."""
    config = RunConfig(
        nodes=NODES,
        groups=4,
        overlay="fingers",
        variants="star,chain,circle,random_tree,few",
        random_tree_children=2,
        write_routing_table=True,
        **NETWORK,
    )
    execution = Execution(out=str(tmp_path_factory.mktemp("extending") / "out"), **TASKS)
    experiments.check(config, execution)
    with experiments.run(spark, config, execution) as done:
        yield done


@pytest.fixture(scope="module")
def values(run) -> dict[str, Any]:
    """The metrics of the run by their names."""
    return {row["name"]: row["value"] for row in run.metrics()}


def rows(run: experiments.Run, table: str, system: str) -> pd.DataFrame:
    """The rows of one system."""
    found = run.table(table).toPandas()
    return found[found["system"] == system]


def who_heard(run: experiments.Run, system: str) -> list[tuple[int, int]]:
    """Group and node of each delivery, in order."""
    heard = rows(run, "deliveries", system)
    return sorted(zip(heard["group"], heard["node"], strict=True))


# --- a tree, a measure


def test_the_system_is_in_every_table_and_reaches_every_member_once(run):
    heard = rows(run, "deliveries", "chain")
    assert who_heard(run, "chain") == who_heard(run, "scribe")
    for _, group in heard.groupby("group"):
        group = group.sort_values("hops")
        assert group["hops"].tolist() == list(range(1, len(group) + 1))
        assert group["delay_ms"].is_monotonic_increasing
        assert group["node"].is_monotonic_increasing
    assert len(rows(run, "tree_edges", "chain")) == len(heard)
    assert len(rows(run, "node_stress", "chain")) == NODES
    assert rows(run, "link_stress", "chain")["packets"].sum() > 0
    assert len(rows(run, "group_delay", "chain")) == len(rows(run, "group_delay", "scribe")) > 0


def test_it_is_measured_and_drawn_like_the_others(run, values):
    heard = rows(run, "deliveries", "chain")
    assert values["chain.depth.max"] == heard["hops"].max()
    # a copy to each member but the source
    assert values["chain.children_entries.mean"] == len(heard) / NODES
    assert values["chain.rad.median"] > values["scribe.rad.median"] > 0
    assert values["chain.messages"] > 0
    assert json.loads(run.read_text("metrics.json")) == run.metrics()
    figure = run.read_text("figures/figure-07-delay-penalty.svg")
    assert "Chain, RAD" in figure
    figure = run.read_text("figures/figure-09-children-entries.svg")
    assert "Chain" in figure
    assert "Star" in figure


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


@pytest.mark.slow
def test_all_but_overlays_work_in_runs_with_rounds(spark, examples, tmp_path):
    """A third of the nodes fails; those that are left get the messages, and are measured."""
    config = RunConfig(
        **{"nodes": 60, "overlay": "perfect", "leaf_set": 8, "replicas": 3, "groups": 4, **NETWORK},
        **{"variants": "star,chain,circle,random_tree", "generator": "mass-failure", "share": 0.3},
    )
    execution = Execution(out=str(tmp_path / "out"), **TASKS)
    with experiments.run(spark, config, execution, experiments.PHASES[:-1]) as done:
        live = set(done.table("nodes").toPandas()["node"])
        assert 30 < len(live) < 60
        by_scribe = who_heard(done, "scribe")
        assert by_scribe
        assert {node for _, node in by_scribe} <= live
        for system in ("chain", "circle", "random_tree", "scribe_star"):
            assert who_heard(done, system) == by_scribe
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


def test_what_the_mesh_keeps_and_repeats_is_measured(run, circles, values):
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


def test_a_run_may_have_the_mesh_alone(spark, run):
    """Its copies are the same."""
    config = run.simulation.config.replace(variants="plain", systems="circle")
    with Simulation(spark, config, engine="tasks") as alone:
        copies = alone.table("circle", "copies").toPandas()
        with pytest.raises(InputError, match="systems = 'scribe': is unknown"):
            alone.table("scribe", "deliveries")
    names = ["group", "sender", "receiver", "hop", "first"]
    assert sorted(copies[names].to_numpy().tolist()) == sorted(
        rows(run, "copies", "circle")[names].to_numpy().tolist()
    )


# --- a tree variant


def test_the_variant_is_a_tree_of_one_hop_from_each_root(run):
    assert who_heard(run, "scribe_star") == who_heard(run, "scribe")
    assert set(rows(run, "deliveries", "scribe_star")["hops"]) == {1}
    root = run.table("groups").toPandas().set_index("group")["root"]
    edges = rows(run, "tree_edges", "scribe_star")
    assert edges["parent"].tolist() == root[edges["group"]].tolist()


def test_runs_have_a_variant_only_on_request(values, tmp_path):
    systems = {name.partition(".")[0] for name in values}
    assert "scribe_star" in systems
    assert not systems & {"scribe_collapse", "scribe_lazy", "scribe_bottleneck"}
    with pytest.raises(InputError, match=r"variants = 'sta': is unknown; did you mean 'star'\?"):
        experiments.check(RunConfig(variants="sta", **NETWORK), Execution(out=str(tmp_path)))


# --- a rule over random peers

#: Nodes that have the message after 0, 1, ... rounds of a push to eight random nodes.
PUSHED = (1, 9, 73, 566, 3_644, 9_458, 9_995)
MANY = 10_000


@pytest.fixture(scope="module")
def pushed(spark, examples) -> dict[str, tuple[pd.DataFrame, int]]:
    """The deliveries and the number of copies of two systems, in one group of all nodes."""
    network = {"transit_domains": 3, "transit_size": 3, "stubs_per_transit": 3, "stub_size": 4}
    given = {"nodes": MANY, "groups": 1, "group_size": MANY, "overlay": "perfect", **network}
    with Simulation(spark, RunConfig(**given, systems="push,downhill"), engine="tasks") as made:
        return {
            name: (made.table(name, "deliveries").toPandas(), made.table(name, "copies").count())
            for name in ("push", "downhill")
        }


def test_a_push_to_eight_random_nodes_reaches_what_is_published(pushed):
    hops = pushed["push"][0]["hops"].value_counts().sort_index()
    assert hops[1] == PUSHED[1] - 1
    reached = 1 + hops.cumsum()
    for rounds, published in enumerate(PUSHED[1:], start=1):
        assert reached[rounds] == pytest.approx(published, rel=0.02)


def test_the_rule_of_the_guide_halves_the_copies_and_reaches_98_percent(pushed):
    deliveries, copies = pushed["downhill"]
    assert copies / (8 * MANY) == pytest.approx(0.5, abs=0.1)
    assert len(deliveries) / (MANY - 1) == pytest.approx(0.98, abs=0.015)


def test_a_run_tells_how_many_members_a_rule_reaches(run, values):
    """The metric, its headline and the card; delays are of the members that are reached."""
    by_ip, mine = (
        rows(run, "deliveries", name).set_index(["group", "node"])["delay_ms"]
        for name in ("ip_multicast", "few")
    )
    assert 0.5 < values["few.reached"] == len(mine) / len(by_ip) < 1
    assert values["ip_multicast.reached"] == 1
    assert is_headline("few.reached")
    rad = {group: of.mean() / by_ip[of.index].mean() for group, of in mine.groupby(level="group")}
    assert values["few.rad.median"] == pytest.approx(np.median([*rad.values()]))
    assert values["few.rad.largest"] == pytest.approx(rad[1])
    assert 'Few <span class="off">reaches ' in run.read_text("report.html")


def test_random_peers_are_others_each_once_and_all_of_small_groups():
    rng = np.random.default_rng(1)
    sizes = (1, 3, 5, 9, 40)
    group = np.repeat(np.arange(5), sizes)
    node = np.concatenate([np.sort(rng.permutation(60)[:n]) for n in sizes])
    ring = SimpleNamespace(node=rng.permutation(60), router=rng.integers(0, 7, 60))
    overlays = Overlays(np.arange(10, 15), group, node, of=node[:0], source=node[:0])
    kernel = SimpleNamespace(delays=lambda a, b: 10 * abs(a - b))
    network = Network(ring, kernel, lan_us=1000, seed=3)
    edges = pd.DataFrame(overlays.random_peers(network, 4))
    assert edges.equals(pd.DataFrame(overlays.random_peers(network, 4)))
    assert edges["peer"].tolist() != overlays.random_peers(network, 4, "other")["peer"].tolist()
    found = edges.groupby(["group", "node"])
    assert len(found) == 3 + 5 + 9 + 40
    for (of, one), mine in found:
        others = {*node[group == of].tolist()} - {one}
        assert {*mine["peer"]} <= others
        assert len({*mine["peer"]}) == len(mine) == min(4, len(others))
        assert sorted(mine["rank"]) == list(range(len(mine)))
    assert (edges["delay_us"] >= 2000).all()


# --- an overlay


@pytest.fixture(scope="module")
def ring(run) -> list[tuple[int, int]]:
    """nodeId and node, in the order of the ring."""
    nodes = run.table("nodes").toPandas()
    ids = map(whole, nodes["id_hi"].tolist(), nodes["id_lo"].tolist())
    return sorted(zip(ids, nodes["node"].tolist(), strict=True))


def test_nodes_of_the_overlay_know_those_1_2_4_8_places_after_them(run, ring, values):
    order = [node for _, node in ring]
    table = run.table("routing_table").toPandas()
    found = {(node, row): entry for node, row, _, entry in table.itertuples(index=False)}
    assert found == {
        (node, row): order[(rank + 2 ** (row - 1)) % NODES]
        for rank, node in enumerate(order)
        for row in range(1, 6)
    }
    assert run.table("table_entries").toPandas().values.tolist() == [[NODES, 5 * NODES]]
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


def test_what_the_overlay_cannot_do_is_refused_before_any_work(examples, tmp_path):
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


# --- a topology


@pytest.mark.usefixtures("examples")
def test_the_ring_is_a_topology_like_any_other():
    graph = load(RunConfig(topology="ring:100"))
    assert len(graph.vertices) == 100
    assert len(graph.edges) == 200
    assert graph.edges["delay_ms"].between(1, 10).all()
    assert load(RunConfig(topology="ring:100")).edges.equals(graph.edges)
    assert not load(RunConfig(topology="ring:100", seed=2)).edges.equals(graph.edges)
    with pytest.raises(InputError, match=r"topology = .ring:2.: give ring:3 to ring:10000"):
        load(RunConfig(topology="ring:2"))
    with pytest.raises(InputError, match=r"does not exist; give .*, ring:ROUTERS, or the path of "):
        load(RunConfig(topology="ring"))


# --- the pages

PAGES = tutorials.pages_on_extensions()


@pytest.mark.parametrize(
    ("line", "words"),
    [("rm -r out", "not rm"), ("python -c 'print(5); exit(3)'", "5\n.*ended with 3")],
)
def test_other_programs_and_failures_are_refused(line, words, tmp_path):
    with pytest.raises((ValueError, SystemExit), match=re.compile(words, re.S)):
        list(tutorials.play(f"```sh\n{line}\n```\n", tmp_path))


@pytest.mark.parametrize("name", PAGES)
def test_a_page_has_a_file_a_command_an_output_and_a_test(name):
    text = PAGES[name].read_text("utf-8")
    blocks, files = tutorials.blocks_of(text), tutorials.files_of(text)
    tests = {file for file in files if file.startswith("test_")}
    assert tests
    assert {*files} - tests
    assert any(block.output for block in blocks)
    assert any(block.language == "sh" for block in blocks)
    assert all(f"python -m pytest -q {file}\n" in text for file in tests)


def test_the_index_has_every_page_and_names_of_files_are_different():
    index = (tutorials.ROOT / "docs" / "extending.md").read_text("utf-8")
    assert sorted(re.findall(r"\((extending_\w+)\.md\)", index)) == sorted(PAGES)
    every = [name for page in PAGES.values() for name in tutorials.files_of(page.read_text())]
    assert len(every) == len(set(every)) > 15


def test_the_tests_of_the_pages_pass(tmp_path):
    """But for the one that starts Spark."""
    for name, code in FILES.items():
        (tmp_path / name).write_text(code, "utf-8")
    tests = sorted(name for name in FILES if name.startswith("test_") and name != "test_slowest.py")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *tests]
    given = os.environ | {"PYTHONPATH": str(tutorials.ROOT)}
    done = subprocess.run(command, cwd=tmp_path, env=given, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
    assert f"{len(tests)} passed" in done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("name", PAGES)
def test_a_page_prints_what_it_says(name, tmp_path):
    text = PAGES[name].read_text("utf-8")
    assert tutorials.with_outputs(text, list(tutorials.play(text, tmp_path))) == text
