"""Look-ups as messages over Pastry."""

from collections import Counter

import pytest
from oracle.reference_tree.tree import Dht, find_neighbours, reference_tree

from scribe_spark import Simulation
from scribe_spark.config import RunConfig
from scribe_spark.runtime.blocks import release
from scribe_spark.systems.reference_tree.places import places, route_lookups
from scribe_spark.systems.reference_tree.tree import ReferenceTree

HOSTS = 60


@pytest.fixture(scope="module")
def simulation(spark):
    config = RunConfig(
        nodes=HOSTS,
        overlay="perfect",
        groups=0,
        topology="power-law",
        power_law_routers=100,
        power_law_links=300,
    )
    made = Simulation(spark, config)
    yield made
    made.release()


def test_look_ups_are_the_oracle_s_and_pastry_finds_the_owners(simulation):
    nodes = simulation.nodes.select("node", "id_hi", "id_lo", "router")
    asked = places(nodes, ReferenceTree(128, 3), "pastry", 8, named=True)
    found = Counter((row["node"], row["purpose"], key_of(row, "key")) for row in asked.collect())
    ids = {key_of(row, "id"): row["node"] for row in nodes.collect()}
    dht = Dht(reference_tree(128, 3), ids, "pastry")
    expected: Counter = Counter()
    for key, node in ids.items():
        plain = find_neighbours(dht, key)
        expected.update((node, "parent", one) for one in plain.parent_asked)
        expected.update((node, "children", one) for one in plain.child_asked)
    assert found == expected

    routed = route_lookups(simulation.overlay, asked)
    rows = routed.collect()
    assert Counter((r["node"], r["purpose"], key_of(r, "key")) for r in rows) == expected
    assert max(row["hops"] for row in rows) > 1
    assert all(row["delay_us"] >= 0 for row in rows)
    release(routed)
    release(asked)


def key_of(row, name: str) -> int:
    return (row[f"{name}_hi"] % 2**64) << 64 | row[f"{name}_lo"] % 2**64
