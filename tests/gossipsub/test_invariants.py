"""What holds of every mesh and every publication."""

import numpy as np
import pytest

from scribe_spark.core.arrays import expand
from scribe_spark.systems.gossipsub import mesh as mesh_module
from scribe_spark.systems.gossipsub.config import GossipSubConfig
from scribe_spark.systems.gossipsub.mesh import BACK_OFF, GRAPH

from .played import other_ends
from .topics import DrawnDelays, TopicsInMemory, build_topics


def topics(sizes: list[int], seed: int = 1, **given) -> TopicsInMemory:
    """Topics of these sizes; all nodes are in the first."""
    random = np.random.default_rng(seed)
    members = [random.choice(sizes[0], size, replace=False) for size in sizes]
    delays = DrawnDelays(1_000, 100_000, seed)
    return build_topics(GossipSubConfig(**given), sizes[0], members, delays, seed)


@pytest.mark.parametrize("preset", ["spec", "go", "ethereum"])
@pytest.mark.parametrize("joins", ["at_once", "waves", "unconnected"])
def test_meshes_are_symmetric_and_of_right_degrees(preset, joins):
    """Within [D_low, D_high] after ten quiet heartbeats, where connections allow."""
    one = topics([300, 120, 40, 9, 2, 1], preset=preset, joins=joins, join_waves=4, heartbeats=20)
    space, rules, mesh, connections = one.space, one.system.rules, one.mesh, one.connections
    assert np.array_equal(np.sort(other_ends(space, mesh.key)), mesh.key)
    assert connections.has(mesh.key).all()
    place, degree = one.place, one.degrees()
    assert degree.max() <= rules.d_high
    assert degree[place < 300].min() >= rules.d_low
    # who has fewer has nobody left to GRAFT
    low = place[degree < rules.d_low]
    _, row = expand(*space.rows(connections, low))
    key = connections.key[row]
    assert (mesh.has(key) | np.isin(key, one.tables[BACK_OFF]["key"])).all()


def test_nothing_comes_by_iwant_without_loss():
    """The lazy phase has no heartbeat at all, since nobody is without."""
    one = topics([300, 120, 40, 9, 2, 1])
    done = one.publish()
    assert done.lazy_heartbeats == 0
    assert len(done.arrivals) == 472


def test_with_loss_iwant_brings_the_rest():
    done = topics([300, 120]).publish(loss=0.6)
    late = done.arrivals.heartbeat > 0
    assert np.count_nonzero(late) >= 1
    assert len(late) > 0.98 * 420


class Lossy(DrawnDelays):
    """Routes between an even and an odd router lose every packet, or a third."""

    share = 1.0

    withheld = None

    def losses(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        """See `DrawnDelays`."""
        return np.where((a + b) % 2 == 1, self.share, 0.0)


@pytest.mark.parametrize(("share", "loss"), [(1.0, 0.0), (1 / 3, 0.0), (1 / 3, 0.25)])
def test_copies_are_lost_by_their_routes(share, loss, monkeypatch):
    monkeypatch.setattr(Lossy, "share", share)
    members = [np.arange(600)]
    one = build_topics(GossipSubConfig(), 600, members, Lossy(1_000, 100_000, 1), 1)
    copies = one.publish(loss=loss).copies
    across = (copies["to"] + copies["sender"]) % 2 == 1
    lost = copies["lost"]
    assert np.mean(lost[~across]) == pytest.approx(loss, abs=0.03)
    expected = 1 - (1 - share) * (1 - loss)
    assert np.mean(lost[across]) == pytest.approx(expected, abs=0.03 if share < 1 else 0)


def test_duplicates_are_degree_less_two_without_processing_time():
    """Each node sends to its mesh but the sender and the source."""
    one = topics([600], flood_publish=False)
    done, (source,) = one.publish(), one.source
    _, node, peer = one.space.split(one.mesh.key)
    # to the source nobody sends; who has the first copy from there would not have sent it back
    to_source = np.count_nonzero((peer == source) & (node != source))
    first = done.copies["first"]
    from_source = np.count_nonzero(first & (done.copies["sender"] == source))
    assert np.count_nonzero(first) == 599
    assert len(first) == len(one.mesh) - 599 - (to_source - from_source)


def test_processing_time_holds_copies_back():
    one = topics([600])
    counts = [len(one.publish(processing_ms=ms).copies["to"]) for ms in (0.0, 20.0, 200.0)]
    assert counts[0] > counts[1] > counts[2]
    without = one.publish(processing_ms=20.0, idontwant=False)
    assert counts[0] > len(without.copies["to"]) > counts[1]


def test_who_is_dead_takes_nothing_and_half_may_fail():
    """All live members have the publication after two heartbeats."""
    one = topics([1000], flood_publish=False)
    alive = np.random.default_rng(3).random(1000) < 0.5
    alive[one.source] = True
    done = one.publish(alive)
    got = done.arrivals.key[done.arrivals.heartbeat <= 2]
    assert np.array_equal(got, np.flatnonzero(alive))


def test_nodes_of_a_graph_meet_in_each_topic_however_many_at_a_time(monkeypatch):
    """Neighbours in the graph that subscribe to a topic are connected in the topic, no others."""
    rng = np.random.default_rng(2)
    members = [np.sort(rng.permutation(60)[:size]) for size in (60, 23, 8, 1)]
    config = GossipSubConfig(discovery="graph", dials=5)
    built = {}
    for at_once in (2**16, 7):
        monkeypatch.setattr(mesh_module, "_MEET_AT_ONCE", at_once)
        built[at_once] = build_topics(config, 60, members, DrawnDelays(1_000, 100_000, 1), 1)
    graph = built[7].tables[GRAPH]
    neighbours = set(zip(*(part.tolist() for part in divmod(graph["key"], 60)), strict=True))
    wanted = {
        (topic, node, peer)
        for topic, some in enumerate(members)
        for node in some.tolist()
        for peer in some.tolist()
        if (node, peer) in neighbours
    }
    for one in built.values():
        assert len(one.connections) == len(wanted)
        parts = one.space.split(one.connections.key)
        assert set(zip(*(part.tolist() for part in parts), strict=True)) == wanted
    assert built[7].connections.way.tolist() == built[2**16].connections.way.tolist()
