"""MULTICAST from the root, routed to it, and sent to it: deliveries of all cases."""

from __future__ import annotations

import pytest
import worlds

from scribe_spark import scribe
from scribe_spark.multicast import Multicast
from scribe_spark.runtime import blocks


def deliveries(spark, source: str) -> dict[int, list[tuple]]:
    """seed -> (group, node, hops, delay_us) that `scribe.multicast` made."""
    edges, members = worlds.edges(spark), worlds.members(spark)
    if source == "routed":  # only routes depend on b
        made = [
            scribe.multicast(
                worlds.overlay(spark, b), worlds.groups(spark, b), members, edges, source
            )
            for b in worlds.BS
        ]
    else:
        groups, overlay = worlds.groups(spark), worlds.overlay(spark, 4)
        if source == "root":
            groups = groups.withColumns(
                {"source": groups.root, "source_router": groups.root_router}
            )
        made = [scribe.multicast(overlay, groups, members, edges, source)]
    assert all(isinstance(m, Multicast) and m.system == "scribe" and not m.merged for m, _ in made)
    assert all(m.tree_edges is edges for m, _ in made)
    table = blocks.union_tables([m.deliveries for m, _ in made])
    assert table.columns == ["group", "node", "hops", "delay_us"]
    rows = worlds.by_seed(map(tuple, table.collect()), 0, 1)
    for _, finished in made:
        for loop in finished:
            loop.release()
    return rows


def expected(one: worlds.World, source: str) -> list[tuple]:
    """The oracle's."""
    sent = {
        group: one.grown.multicast(group, source, None if source == "root" else one.sources[group])
        for group in one.case.keys
    }
    return sorted((group, node, *got) for group, all_ in sent.items() for node, got in all_.items())


@pytest.mark.parametrize("source", ["root", "routed", "direct"])
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
    overlay = worlds.overlay(spark, 4)
    system, (loop,) = scribe.multicast(overlay, mine, members, none, source)
    assert loop.messages == (1,)
    assert system.deliveries.collect() == []
    loop.release()
