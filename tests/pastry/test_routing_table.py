"""The tables that are read off routing tables."""

import numpy as np
import pytest
import worlds

from scribe_spark.core.arrays import row_numbers
from scribe_spark.pastry.knowledge import RoutingTables


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


def test_dense_and_back():
    rng = np.random.default_rng(1)
    dense = np.where(rng.random((50, 3, 4)) < 0.4, rng.integers(0, 99, (50, 3, 4)), -1)
    tables = RoutingTables.of_dense(dense)
    for nodes, some in ((slice(None), tables), (slice(10, 20), tables.take(slice(10, 20)))):
        cells = np.full_like(dense[nodes], -1)
        cells[row_numbers(some.offsets), some.row, some.col] = some.entry
        assert np.array_equal(cells, dense[nodes])
