"""The graphs of a run's overlay and trees against its tables, and the page that describes them."""

import re
from collections import Counter

import pytest

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
