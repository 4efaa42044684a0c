"""The overlay as a graph: its edges are what nodes know."""

from collections import Counter

import pytest
import worlds

from scribe_spark import schemas
from scribe_spark.pastry.overlay import overlay_edges


def plain(schema) -> list[tuple]:
    return [(field.name, field.dataType) for field in schema.fields]


def expected_edges(one: worlds.World) -> list[tuple]:
    """(src, dst, kind, row, col, place) of a case, as the oracle says."""
    edges = []
    for node in one.case.ids:
        clockwise = one.overlay._others_clockwise(node)
        total, half = len(clockwise), one.case.leaf_set_size // 2
        larger = min(half, total)
        smaller = min(half, total - larger)
        places = [(place + 1, clockwise[place]) for place in range(larger)]
        places += [(-place - 1, clockwise[-place - 1]) for place in range(smaller)]
        edges += [(node, leaf, "leaf_set", None, None, place) for place, leaf in places]
        table = one.overlay.routing_table(node)
        edges += [
            (node, entry, "routing_table", row, col, None) for (row, col), entry in table.items()
        ]
    return [(one.base + src, one.base + dst, *rest) for src, dst, *rest in edges]


def test_edges_equal_the_oracle(spark):
    """Leaf sets that cover the ring and such that do not; routing tables with missing entries."""
    overlay = worlds.overlay(spark, 4)
    assert plain(overlay.edges.schema) == plain(schemas.OVERLAY_EDGES)
    found = Counter(map(tuple, overlay.edges.collect()))
    expected = Counter(edge for one in worlds.of_b(4) for edge in expected_edges(one))
    assert found == expected
    covers = Counter(one.overlay.knows_whole_ring() for one in worlds.of_b(4))
    assert min(covers[True], covers[False]) > 10


def test_routing_table_has_a_row_for_each_entry(spark):
    overlay = worlds.overlay(spark, 4)
    tables = (edge for one in worlds.of_b(4) for edge in expected_edges(one) if edge[3] is not None)
    expected = sorted((node, row, col, entry) for node, entry, _, row, col, _ in tables)
    assert sorted(map(tuple, overlay.routing_table().collect())) == expected
    nodes, counted = overlay.table_entries().to_pylist()[0].values()
    assert (nodes, counted) == (sum(len(one.case.ids) for one in worlds.of_b(4)), len(expected))


@pytest.fixture
def knowledge(spark):
    """Node 1 knows 2 and 3 on one side only, and 4, which is not there; 2 and 3 know nobody."""

    def known(node: int, **cell: int) -> dict:
        return {**cell, "entry": node, "id_hi": node, "id_lo": 0, "router": 7}

    leaf_sets = {1: [known(3), known(2)], 2: [], 3: []}
    tables = {1: [known(2, row=0, col=5), known(4, row=1, col=0)], 2: [], 3: []}
    rows = [
        (node, node, 0, 7, len(leaves), False, leaves, tables[node])
        for node, leaves in leaf_sets.items()
    ]
    return spark.createDataFrame(rows, schemas.KNOWLEDGE)


def test_an_entry_without_its_node_is_no_edge(knowledge):
    assert sorted(map(tuple, overlay_edges(knowledge, knowledge).collect()), key=str) == [
        (1, 2, "leaf_set", None, None, -1),
        (1, 2, "routing_table", 0, 5, None),
        (1, 3, "leaf_set", None, None, -2),
    ]


def test_graphframe(spark, with_graphframes):
    overlay = worlds.overlay(spark, 4)
    graph = overlay.graphframe()
    known_by = {row["id"]: row["inDegree"] for row in graph.inDegrees.collect()}
    edges = Counter(edge[1] for one in worlds.of_b(4) for edge in expected_edges(one))
    assert known_by == edges
    both_ways = graph.filterEdges("kind = 'leaf_set'").find("(a)-[]->(b); (b)-[]->(a)").count()
    assert both_ways == sum(e[2] == "leaf_set" for w in worlds.of_b(4) for e in expected_edges(w))
