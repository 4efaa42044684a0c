"""What holds of every mesh and every publication."""

import numpy as np
import pytest

from scribe_spark.systems.gossipsub import mesh as mesh_module
from scribe_spark.systems.gossipsub.config import GossipSubConfig
from scribe_spark.systems.gossipsub.mesh import GRAPH

from .topics import DrawnDelays, build_topics


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
