"""What holds of every mesh and every publication."""

from __future__ import annotations

import numpy as np
import pytest

from scribe_spark.core.arrays import expand
from scribe_spark.gossipsub.links import Links, read_table
from scribe_spark.gossipsub.mesh import BACK_OFF, CONNECTIONS, MESH
from scribe_spark.gossipsub.publication import ARRIVALS, COPIES

from .static import publish_in, static


@pytest.mark.parametrize("preset", ["spec", "go", "ethereum"])
@pytest.mark.parametrize("joins", ["at_once", "waves", "unconnected"])
def test_meshes_are_symmetric_and_of_right_degrees(preset, joins):
    """Within [D_low, D_high] after ten quiet heartbeats, where connections allow."""
    one = static([300, 120, 40, 9, 2, 1], preset=preset, joins=joins, join_waves=4, heartbeats=20)
    space, rules, (tables,) = one.topics.space, one.topics.rules, one.tables
    mesh, connections = (read_table(Links, tables, name) for name in (MESH, CONNECTIONS))
    assert np.array_equal(np.sort(space.turned(mesh.key)), mesh.key)
    assert connections.has(mesh.key).all()
    place = one.topics.subscribers.directory.place
    degree = space.count(mesh, place)
    assert degree.max() <= rules.d_high
    # who has fewer has nobody left to GRAFT
    low = place[degree < rules.d_low]
    _, row = expand(*space.rows(connections, low))
    key = connections.key[row]
    assert (mesh.has(key) | np.isin(key, tables[BACK_OFF]["key"])).all()
    assert degree[place < space.size].min() >= rules.d_low


def test_nothing_comes_by_iwant_without_loss():
    one = static([300, 120, 40, 9, 2, 1])
    assert publish_in(one) == 0
    (tables,) = one.tables
    assert len(tables[ARRIVALS]["key"]) == len(one.topics.subscribers.directory.place)


def test_with_loss_iwant_brings_the_rest():
    one = static([300, 120], loss=0.6)
    assert publish_in(one) > 0
    (tables,) = one.tables
    late = tables[ARRIVALS]["heartbeat"] > 0
    assert np.count_nonzero(late) >= 1
    assert len(late) > 0.98 * len(one.topics.subscribers.directory.place)


def test_duplicates_are_degree_less_two_without_processing_time():
    """Each node sends to its mesh but the sender and the source."""
    one = static([600], flood_publish=False, heartbeats=10)
    publish_in(one)
    (tables,) = one.tables
    mesh, copies = tables[MESH]["key"], tables[f"{COPIES} 0"]
    _, node, peer = one.topics.space.split(mesh)
    source = one.source[0]
    # to the source nobody sends but those that have had it from there, who do not send back
    to_source = np.count_nonzero((peer == source) & (node != source))
    first = np.count_nonzero(copies["first"])
    assert first == 599
    from_source = np.count_nonzero(copies["first"] & (copies["sender"] == source))
    assert len(copies["node"]) == len(mesh) - first - (to_source - from_source)


def test_processing_time_holds_copies_back():
    counts = []
    for processing_ms in (0.0, 20.0, 200.0):
        one = static([600], processing_ms=processing_ms)
        publish_in(one)
        counts.append(len(one.tables[0][f"{COPIES} 0"]["node"]))
    assert counts[0] > counts[1] > counts[2]
