"""IP multicast and naive unicast: the same star of routes, from any source."""

from __future__ import annotations

import pytest
import worlds
from oracle.measures import unicast_deliveries, unicast_edges

from scribe_spark import baselines


@pytest.fixture(scope="module")
def star(spark):
    table = baselines.unicasts(
        worlds.groups(spark), worlds.members(spark), worlds.underlay(spark)
    ).frame.persist()
    yield table
    table.unpersist()


def test_the_star_equals_the_oracle(star):
    assert star.columns == [
        "group", "parent", "child", "parent_router", "child_router", "delay_us",
    ]  # fmt: skip
    found = worlds.by_seed(map(tuple, star.collect()), 0, 1, 2, 3, 4)
    assert len(found) >= 200
    for one in worlds.worlds():
        expected = [
            (g, s, m, one.case.router[s], one.case.router[m], one.overlay.proximity(s, m))
            for group, source in one.sources.items()
            for g, s, m in unicast_edges(group, source, one.case.members[group])
        ]
        assert found[one.case.seed] == sorted(expected)


@pytest.mark.parametrize("merged", [True, False])
def test_both_hand_over_one_hop_to_every_member_but_the_source(star, merged):
    system = baselines.ip_multicast(star) if merged else baselines.naive_unicast(star)
    assert system.system == ("ip_multicast" if merged else "naive_unicast")
    assert system.merged is merged
    assert system.tree_edges is star
    deliveries = system.deliveries.frame
    assert deliveries.columns == ["group", "node", "hops", "delay_us"]
    found = worlds.by_seed(map(tuple, deliveries.collect()), 0, 1)
    for one in worlds.worlds():
        expected = sorted(
            (group, node, *got)
            for group, source in one.sources.items()
            for node, got in unicast_deliveries(
                one.overlay, source, one.case.members[group]
            ).items()
        )
        assert found[one.case.seed] == expected
