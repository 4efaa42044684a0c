"""CAN in a run on Spark: what it hands over is what the kernels give in one process."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from scribe_spark import RunConfig, Simulation
from scribe_spark.can.cans import zones_of_groups
from scribe_spark.can.flooding import goes_on
from scribe_spark.can.joining import CONTROL, KINDS, NEIGHBOURS, Joining
from scribe_spark.can.multicast import placement_of
from scribe_spark.dissemination import ARRIVED_COPIES, START, Dissemination
from scribe_spark.engine.in_process import play
from scribe_spark.engine.program import AT, Tables
from scribe_spark.multicast import PAYLOAD
from tests.can.played import ZonesInMemory

GIVEN = {
    "nodes": 300,
    "overlay": "perfect",
    "groups": 12,
    "topology": "power-law",
    "power_law_routers": 40,
    "power_law_links": 90,
    "systems": "can,scribe",
    "can_dimensions": 3,
    "can_landmarks": 3,
    "can_processing_ms": 0.5,
    "seed": 7,
}


@pytest.fixture(scope="module")
def simulation(spark):
    with Simulation(spark, RunConfig(**GIVEN)) as made:
        yield made


@pytest.fixture(scope="module")
def handed_over(simulation):
    return next(one for one in simulation.systems if one.system == "can")


@pytest.fixture(scope="module")
def in_process(simulation):
    """The same, of one bucket: the ring, the groups' numbers, tables."""
    config, facts, underlay = simulation.config, simulation.overlay.ring.facts, simulation.underlay
    ring = facts.ring
    groups = simulation.multicast_groups.toPandas().sort_values("group")
    number = groups["group"].to_numpy()
    source = facts.positions(groups["source"].to_numpy())
    members = simulation.members.toPandas()
    group = np.searchsorted(number, members["group"].to_numpy())
    placement = placement_of(config.can, config.seed, len(underlay.routers))
    member = facts.positions(members["node"].to_numpy())
    zones = zones_of_groups(placement, ring, underlay.kernel, number, source, group, member)
    point = groups["key_hi"].to_numpy().view(np.uint64) >> np.uint64(64 - placement.space.bits)
    bounds, tables = np.array([0, len(ring)]), Tables()
    floods = np.arange(len(source)), source
    known = ZonesInMemory(zones)
    join = Joining(bounds, known, point.astype(np.int64), source, "directed", *floods)
    play(join, [tables])
    flood = Dissemination(
        *(bounds, facts, underlay.kernel, underlay.lan_us, goes_on, ("face",)), processing_us=500
    )
    play(flood, [tables], {START: {AT: source, "group": np.arange(len(number))}})
    return ring, number, zones, tables


def test_copies_and_deliveries(simulation, handed_over, in_process):
    ring, number, _, tables = in_process
    found = handed_over.handed_over("copies").frame.toPandas()
    assert set(found["kind"]) == {PAYLOAD}
    table = tables[ARRIVED_COPIES]
    expected = zip(
        *(number[table["group"]], ring.node[table["sender"]], ring.node[table["node"]]),
        *(table["hops"], table["first"]),
        strict=True,
    )
    names = ["group", "sender", "receiver", "hop", "first"]
    assert Counter(found[names].itertuples(False, None)) == Counter(map(tuple, expected))
    delivered = handed_over.deliveries.frame.toPandas()
    members = simulation.members.join(
        simulation.multicast_groups.select("group", "source"), "group", "inner"
    ).where("node != source")
    due = {tuple(row) for row in members.select("group", "node").toPandas().to_numpy().tolist()}
    assert sorted(zip(delivered["group"], delivered["node"], strict=True)) == sorted(due)
    routers = simulation.nodes.toPandas().set_index("node")["router"]
    for end in ("sender", "receiver"):
        assert (found[f"{end}_router"].to_numpy() == routers.loc[found[end]].to_numpy()).all()


def test_state_and_control(handed_over, in_process):
    ring, number, zones, tables = in_process
    pairs = tables[NEIGHBOURS]
    can, owner = zones.can[pairs["zone"]], ring.node[zones.node[pairs["zone"]]]
    named = np.append(number, -1)[can].tolist()
    found = handed_over.handed_over("state").frame.fillna(-1, ["group"]).toPandas()
    assert set(found["kind"]) == {"neighbours"}
    counted = dict(
        zip(zip(found["group"], found["node"], strict=True), found["entries"], strict=True)
    )
    assert counted == Counter(zip(named, owner.tolist(), strict=True))
    expected: Counter = Counter()
    for name in tables:
        if name.startswith(CONTROL):
            rows = tables[name]
            ends = (ring.node[rows[end]].tolist() for end in ("sender", "receiver"))
            keys = zip(number[rows["group"]].tolist(), *ends, rows["kind"], strict=True)
            for (group, a, b, kind), many in zip(keys, rows["messages"].tolist(), strict=True):
                expected[group, a, b, KINDS[kind]] += many
    control = handed_over.handed_over("control").frame.toPandas()
    names = ["group", "sender", "receiver", "kind"]
    told = dict(zip(control[names].itertuples(False, None), control["messages"], strict=True))
    assert len(told) == len(control)
    assert told == expected
