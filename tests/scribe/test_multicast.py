"""MULTICAST from the root, routed to it, and sent to it: deliveries of all cases."""

from __future__ import annotations

import pytest
import worlds

from scribe_spark import scribe


def deliveries(spark, source: str) -> dict[int, list[tuple]]:
    """seed -> (group, node, hops, delay_us) that `scribe.multicast` made."""
    table = worlds.deliveries(spark, source)
    assert table.columns == ["group", "node", "hops", "delay_us"]
    return worlds.by_seed(map(tuple, table.collect()), 0, 1)


def expected(one: worlds.World, source: str) -> list[tuple]:
    """The oracle's."""
    sent = {
        group: one.grown.multicast(group, source, None if source == "root" else one.sources[group])
        for group in one.case.keys
    }
    return sorted((group, node, *got) for group, all_ in sent.items() for node, got in all_.items())


@pytest.mark.parametrize(
    "source", ["root", "routed", pytest.param("direct", marks=pytest.mark.slow)]
)
def test_deliveries_equal_the_oracle(spark, source):
    found = deliveries(spark, source)
    assert sum(bool(mine) for mine in found.values()) > 150
    assert len(worlds.worlds()) >= 200
    for one in worlds.worlds():
        assert found[one.case.seed] == expected(one, source), one.case.seed


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
    trees = scribe.plant_trees(overlay, mine, members, none)
    delivered, tables = scribe.multicast(trees, mine, source)
    assert delivered.frame.collect() == []
    tables.release()
    trees.release()
