"""The graphs of a run's overlay and trees against its tables, and the page that describes them."""

import re
from collections import Counter

import pytest

from scribe_spark import schemas
from scribe_spark.config import RunConfig
from scribe_spark.experiments import Simulation
from scribe_spark.multicast import Multicast

from .conftest import ROOT

PAGE = (ROOT / "docs" / "graphframes.md").read_text()


def rows(frame, *columns: str) -> Counter:
    return Counter(map(tuple, frame.select(*columns).collect()))


@pytest.mark.slow
def test_the_trees_are_the_tree_edges(grown):
    trees = grown.simulation.trees
    found = rows(trees.edges, "src", "dst", "system", "group")
    assert found == rows(grown.table("tree_edges"), "parent", "child", "system", "group")
    assert {system for _, _, system, _ in found} >= {"scribe", "scribe_lazy", "ip_multicast"}
    nodes = rows(grown.table("nodes"), "node", "id_hi", "id_lo", "router")
    assert rows(trees.vertices, "id", "id_hi", "id_lo", "router") == nodes


def test_the_trees_of_systems_that_were_not_saved(spark):
    nodes = schemas.local_table(spark, [(0, 5, 6, 7), (1, 8, 9, 7), (2, 0, 0, 7)], schemas.NODES)
    edges = spark.createDataFrame(
        [(1, 0, 1, 7, 7, 2000)],
        "group long, parent long, child long, parent_router long, child_router long, delay_us long",
    )
    delivered = spark.createDataFrame(
        [(1, 1, 1, 2000)], "group long, node long, hops int, delay_us long"
    )
    simulation = Simulation(spark, RunConfig(nodes=3, groups=1), saved={"nodes": nodes})
    simulation.stages["systems"] = [Multicast(name, edges, delivered) for name in ("one", "two")]
    trees = simulation.trees
    assert sorted(map(tuple, trees.edges.collect())) == [(0, 1, "one", 1), (0, 1, "two", 1)]
    assert sorted(map(tuple, trees.vertices.collect())) == [
        (0, 5, 6, 7),
        (1, 8, 9, 7),
        (2, 0, 0, 7),
    ]


@pytest.mark.slow
def test_the_overlays_edges_are_leaf_sets_and_the_routing_table(grown):
    overlay = grown.simulation.overlay
    found = [tuple(row) for row in overlay.edges.collect()]
    entries = Counter((s, row, col, d) for s, d, kind, row, col, _ in found if kind != "leaf_set")
    assert entries == rows(grown.table("routing_table"), "node", "row", "col", "entry")
    leaves = {(src, dst, place) for src, dst, kind, _, _, place in found if kind == "leaf_set"}
    # 60 nodes: the 8 next ones on either side; who is next to me has me next to it
    assert len(leaves) == 60 * 16
    assert leaves == {(dst, src, -place) for src, dst, place in leaves}
    by_place = {(src, place): dst for src, dst, place in leaves}
    identifier = {
        row["id"]: (row["id_hi"] % 2**64) << 64 | row["id_lo"] % 2**64
        for row in overlay.vertices.collect()
    }
    ring = sorted(identifier, key=identifier.__getitem__)
    for node, after in zip(ring, [*ring[1:], ring[0]], strict=True):
        assert (by_place[node, 1], by_place[after, -1]) == (after, node)


@pytest.mark.slow
@pytest.mark.parametrize("graph", ["topology", "overlay", "trees"])
def test_the_page_has_the_columns(grown, graph):
    found = getattr(grown.simulation, graph)
    for part, frame in (("vertices", found.vertices), ("edges", found.edges)):
        said = re.search(rf"^\| {graph} \| {part} \| (.*?) \|", PAGE, re.M)
        assert said is not None
        columns = re.findall(r"`(\w+):(BIGINT|INT|DOUBLE|STRING)`", said[1])
        kinds = [(f.name, f.dataType.simpleString().upper()) for f in frame.schema.fields]
        assert columns == kinds


@pytest.mark.slow
def test_the_trees_as_a_graphframe(grown, with_graphframes):
    graph = grown.simulation.trees.graphframe()
    tree = graph.filterEdges("system = 'scribe' AND group = 1").dropIsolatedVertices()
    parents = tree.inDegrees.toPandas()
    assert (parents["inDegree"] == 1).all()
    assert len(parents) == tree.edges.count() == tree.vertices.count() - 1


def test_the_examples_of_the_page_run(spark, small, with_graphframes, capsys):
    examples = re.findall(r"^```python\n(.*?)^```$", PAGE, re.M | re.S)
    assert len(examples) >= 4
    names = {"simulation": small.simulation, "spark": spark}
    for example in examples:
        if "RunConfig(" not in example:
            exec(compile(example, "docs/graphframes.md", "exec"), names)
    assert capsys.readouterr().out.count("+---") > 6
