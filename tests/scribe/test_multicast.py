"""MULTICAST from the root, routed to it, and sent to it: deliveries of all cases."""

import pytest
import worlds

from scribe_spark.systems.scribe import trees as scribe_trees


@pytest.mark.parametrize(
    ("source", "b"),
    [
        ("root", 4),
        ("routed", 4),
        *(
            pytest.param(source, b, marks=pytest.mark.slow)
            for source in ("root", "routed", "direct")
            for b in worlds.BS
            if b != 4 or source == "direct"
        ),
    ],
)
def test_deliveries_equal_the_oracle(spark, source, b):
    table = worlds.multicast(spark, b, source)
    assert table.columns == ["group", "node", "hops", "delay_us"]
    found = worlds.by_seed(map(tuple, table.collect()), 0, 1)
    assert sum(bool(mine) for mine in found.values()) > 20
    for one in worlds.of_b(b):
        assert found[one.case.seed] == one.deliveries(source), one.case.seed


def test_sources_are_roots_and_others():
    same = [
        one.sources[group] == one.roots[group] for one in worlds.worlds() for group in one.sources
    ]
    assert 50 < sum(same) < len(same) - 50


@pytest.mark.parametrize("source", ["root", "direct"])
def test_a_group_of_the_root_alone_delivers_nothing(spark, source):
    one, group = next(
        (w, g) for w in worlds.worlds() for g, m in w.case.members.items() if m == {w.roots[g]}
    )
    mine = worlds.groups(spark).where(f"group = {one.base + group}")
    members = worlds.members(spark).where(f"group = {one.base + group}")
    none = worlds.edges(spark).limit(0)
    overlay = worlds.overlay(spark, one.case.b)
    trees = scribe_trees.plant_trees(overlay, mine, members, none)
    delivered, tables = scribe_trees.multicast(trees, mine, source)
    assert delivered.frame.collect() == []
    tables.release()
    trees.release()
