"""The tables that are read off routing tables."""

import pytest
import worlds


def expected_rows(one: worlds.World) -> list[tuple[int, int, int, int]]:
    return sorted(
        (node, row, col, entry)
        for node in one.case.ids
        for (row, col), entry in one.overlay.routing_table(node).items()
    )


@pytest.mark.parametrize("b", worlds.BS)
def test_routing_table_has_a_row_for_each_entry(spark, b):
    overlay = worlds.overlay(spark, b)
    frame = overlay.routing_table()
    assert frame.dtypes == [("node", "bigint"), ("row", "int"), ("col", "int"), ("entry", "bigint")]
    found = worlds.by_seed(map(tuple, frame.collect()), 0, 3)
    entries = 0
    for one in worlds.of_b(b):
        assert found[one.case.seed] == expected_rows(one)
        entries += len(found[one.case.seed])
    nodes, counted = overlay.table_entries().to_pylist()[0].values()
    assert (nodes, counted) == (sum(len(one.case.ids) for one in worlds.of_b(b)), entries)
